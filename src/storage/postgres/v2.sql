-- Version 2: populations, as version 10 of the SQLite file.

ALTER TABLE checkpoint ADD COLUMN digest TEXT COLLATE "C";

CREATE TABLE segment (
    trial_id    BIGINT NOT NULL REFERENCES trial,
    seq         BIGINT NOT NULL,
    step        BIGINT NOT NULL,
    from_number BIGINT NOT NULL,
    digest      TEXT COLLATE "C",
    replaced    TEXT COLLATE "C" NOT NULL,
    reason      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (trial_id, seq)
);
