-- Version 3: where results come from. Lineage of runners and their attempts, every version of the specification, runs that
-- belong to one configuration, the race of the best at the end.

-- Long texts that several rows speak of, such as the changes of a work tree: written once each.
CREATE TABLE document (
    digest TEXT PRIMARY KEY,                                                    -- BLAKE3, hexadecimal
    body   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE runner ADD COLUMN lineage TEXT CHECK (json_valid(lineage));         -- NULL: of a version that kept none
ALTER TABLE attempt ADD COLUMN runner INTEGER;                                  -- runner.seq

-- The specification from event `seq` on; what `hpsearch extend` adds later is not in it.
CREATE TABLE study_revision (
    study_id INTEGER NOT NULL REFERENCES study,
    revision INTEGER NOT NULL,
    seq      INTEGER NOT NULL,                                                  -- the last event before it
    at       INTEGER NOT NULL,
    spec     TEXT NOT NULL CHECK (json_valid(spec)),
    PRIMARY KEY (study_id, revision)
) STRICT, WITHOUT ROWID;
INSERT INTO study_revision (study_id, revision, seq, at, spec)
  SELECT id, revision, (SELECT coalesce(max(seq), 0) FROM event WHERE study_id = id), updated_at, spec FROM study;

UPDATE attempt SET runner = (SELECT r.seq FROM runner r WHERE r.study_id = attempt.trial_id / 1000000000 AND r.started_at <= attempt.started_at
                             ORDER BY r.seq DESC LIMIT 1);

-- The number of the trial whose configuration a trial runs again, with another seed.
ALTER TABLE trial ADD COLUMN configuration INTEGER;
CREATE INDEX trial_by_configuration ON trial (study_id, configuration) WHERE configuration IS NOT NULL;

ALTER TABLE study ADD COLUMN race TEXT CHECK (json_valid(race));                -- NULL: none was begun

-- Budgets and disk: what runners that were killed had used, what checkpoints take, devices that nothing is started on.
ALTER TABLE study ADD COLUMN killed_at INTEGER;                                 -- when the last runner was last heard, if it was killed
ALTER TABLE study ADD COLUMN extra_device_hours REAL NOT NULL DEFAULT 0;        -- by `hpsearch extend`; spec has them, too
ALTER TABLE study ADD COLUMN extra_cost REAL NOT NULL DEFAULT 0;
ALTER TABLE study ADD COLUMN busy_micros INTEGER NOT NULL DEFAULT 0;            -- of its trials together
UPDATE study SET busy_micros = (SELECT coalesce(sum(t.busy_micros), 0) FROM trial t WHERE t.study_id = study.id);
ALTER TABLE checkpoint ADD COLUMN bytes INTEGER;                                -- on the disk; NULL: not measured
CREATE TABLE paused_device (
    study_id INTEGER NOT NULL REFERENCES study,
    device   TEXT NOT NULL,
    PRIMARY KEY (study_id, device)
) STRICT, WITHOUT ROWID;

-- By how much a trial breaks the study's limits; NULL: it breaks none.
ALTER TABLE trial ADD COLUMN violation REAL;
