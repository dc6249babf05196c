-- Version 8: artifacts. Files lie in the trial's directory, by their digests; texts, tables and listings of directories are documents.
-- Provenance may name Python packages and untracked source files, whose contents are documents, too.

CREATE TABLE artifact (
    trial_id INTEGER NOT NULL REFERENCES trial,
    name     TEXT NOT NULL,
    version  INTEGER NOT NULL CHECK (version > 0),                              -- of its name, without gaps
    seq      INTEGER NOT NULL,                                                  -- its event
    at       INTEGER NOT NULL,
    digest   TEXT NOT NULL,                                                     -- SHA-256, hexadecimal
    body     TEXT NOT NULL CHECK (json_valid(body)),                            -- as the event has it
    PRIMARY KEY (trial_id, name, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX artifact_digest ON artifact (digest);
