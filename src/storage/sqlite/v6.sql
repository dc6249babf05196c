-- Version 6: series. Every metric at its own step, whoever logs it; reports on the study's clock stay in `report`.
-- A step is exact up to 2^53. Points lie in chunks of up to 512; a chunk's row says what a chart needs to know of it, its block has them.

CREATE TABLE series (
    id         INTEGER PRIMARY KEY,
    trial_id   INTEGER NOT NULL REFERENCES trial,
    metric_id  INTEGER NOT NULL REFERENCES metric,
    clock      TEXT NOT NULL CHECK (clock IN ('step', 'epoch', 'samples', 'seconds')),
    attempt    INTEGER NOT NULL,                                                -- the newest that logged to it; points of older ones are refused
    count      INTEGER NOT NULL,                                                -- of all its chunks
    first_step REAL,
    last_step  REAL,
    last_value REAL,                                                            -- NULL: NaN
    UNIQUE (trial_id, metric_id, clock)
) STRICT;

-- In the order of their steps, without overlaps. `min` and `max` are those of the numbers; NULL: there is none.
CREATE TABLE series_chunk (
    series_id  INTEGER NOT NULL REFERENCES series,
    first_step REAL NOT NULL,
    last_step  REAL NOT NULL,
    count      INTEGER NOT NULL CHECK (count > 0),
    min        REAL,
    max        REAL,
    last_value REAL,                                                            -- NULL: NaN
    last_at    INTEGER NOT NULL,
    block      INTEGER NOT NULL,                                                -- series_block.id
    PRIMARY KEY (series_id, first_step)
) STRICT, WITHOUT ROWID;

-- A table of its own, so that charts read rows of chunks from a few pages.
CREATE TABLE series_block (
    id     INTEGER PRIMARY KEY,
    points BLOB NOT NULL                                                        -- steps, moments and values: see storage/sqlite/chunk.rs
) STRICT;
