-- Version 10: populations. A trial continues from another's checkpoint with other parameters; digests tell checkpoints apart.

ALTER TABLE checkpoint ADD COLUMN digest TEXT;

-- Where a trial continued from another's checkpoint; seq is the event. Table `param` has the parameters since the last one.
CREATE TABLE segment (
    trial_id    INTEGER NOT NULL REFERENCES trial,
    seq         INTEGER NOT NULL,
    step        INTEGER NOT NULL,                                               -- of the checkpoint
    from_number INTEGER NOT NULL,                                               -- number of the trial that saved it
    digest      TEXT,
    replaced    TEXT NOT NULL CHECK (json_valid(replaced)),                     -- the parameters before
    reason      TEXT NOT NULL CHECK (json_valid(reason)),
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
