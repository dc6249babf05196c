-- Version 2: control, and quick lists. What a user asks for and writes down about trials and studies; orders of trials.

ALTER TABLE study ADD COLUMN paused_reason TEXT;                                -- NULL unless its user paused it
ALTER TABLE study ADD COLUMN extra_trials INTEGER NOT NULL DEFAULT 0;           -- by `hpsearch extend`; spec has them, too
ALTER TABLE study ADD COLUMN extra_micros INTEGER NOT NULL DEFAULT 0;

ALTER TABLE trial ADD COLUMN hold TEXT CHECK (hold IN ('trial', 'study'));      -- who paused it, if not the pruner
ALTER TABLE trial ADD COLUMN continued TEXT CHECK (continued IN ('complete', 'pruned', 'failed'));  -- what it ended as before

ALTER TABLE request ADD COLUMN answer TEXT CHECK (json_valid(answer));          -- what came of it

-- seq is the event that wrote it.
CREATE TABLE trial_note (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE study_note (
    study_id INTEGER NOT NULL REFERENCES study,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (study_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE trial_tag (
    trial_id INTEGER NOT NULL REFERENCES trial,
    tag      TEXT NOT NULL,
    PRIMARY KEY (trial_id, tag)
) STRICT, WITHOUT ROWID;

CREATE TABLE study_tag (
    study_id INTEGER NOT NULL REFERENCES study,
    tag      TEXT NOT NULL,
    PRIMARY KEY (study_id, tag)
) STRICT, WITHOUT ROWID;

-- The best first, and how many are in each state, without going through all trials.
CREATE INDEX trial_value_by_value ON trial_value (idx, trial_id / 1000000000, value);
CREATE INDEX trial_by_state ON trial (study_id, state);
