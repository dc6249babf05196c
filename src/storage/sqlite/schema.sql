-- What the migrations v1.sql to v11.sql make of an empty file. Written by
--     HPSEARCH_WRITE_DOCS=1 cargo test -p hpsearch --lib a_new_store_has

CREATE TABLE study (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,
    spec            TEXT NOT NULL CHECK (json_valid(spec)),        -- as resolved, the last accepted version
    revision        INTEGER NOT NULL DEFAULT 0,                    -- counts accepted changes of spec
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    finished_reason TEXT,                                          -- NULL while there is something to do
    ran_micros      INTEGER NOT NULL DEFAULT 0                     -- by runners that have stopped
, paused_reason TEXT, extra_trials INTEGER NOT NULL DEFAULT 0, extra_micros INTEGER NOT NULL DEFAULT 0, race TEXT CHECK (race IS NULL OR json_valid(race)), killed_at INTEGER, extra_device_hours REAL NOT NULL DEFAULT 0, extra_cost REAL NOT NULL DEFAULT 0, busy_micros INTEGER NOT NULL DEFAULT 0, files TEXT CHECK (files IS NULL OR json_valid(files))) STRICT;

CREATE TABLE objective (
    study_id  INTEGER NOT NULL REFERENCES study,
    idx       INTEGER NOT NULL,
    metric    TEXT NOT NULL,
    direction TEXT NOT NULL CHECK (direction IN ('minimize', 'maximize')),
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE dimension (
    study_id    INTEGER NOT NULL REFERENCES study,
    idx         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    optuna_json TEXT CHECK (optuna_json IS NULL OR json_valid(optuna_json)),              -- NULL: not in the space
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE trial (
    id           INTEGER PRIMARY KEY CHECK (id = study_id * 1000000000 + number),
    study_id     INTEGER NOT NULL REFERENCES study,
    number       INTEGER NOT NULL CHECK (number BETWEEN 0 AND 999999999),
    state        TEXT NOT NULL CHECK (state IN ('queued', 'running', 'paused', 'complete', 'pruned', 'failed')),
    origin       TEXT NOT NULL CHECK (json_valid(origin)),
    attempts     INTEGER NOT NULL DEFAULT 0,
    failures     INTEGER NOT NULL DEFAULT 0,                       -- attempts that ended in failure
    device       TEXT,                                             -- of the last attempt
    until        INTEGER,                                          -- clock value where it shall pause
    reason       TEXT,
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,                                          -- of the last attempt
    finished_at  INTEGER,
    busy_micros  INTEGER NOT NULL DEFAULT 0,                       -- in attempts that have ended
    last_step    INTEGER,                                          -- of the objective's last report; NULL: none
    last_value   REAL,
    last_metrics TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(last_metrics))
, hold TEXT CHECK (hold IN ('trial', 'study')), continued TEXT CHECK (continued IN ('complete', 'pruned', 'failed')), configuration INTEGER, violation REAL, hidden INTEGER NOT NULL DEFAULT 0 CHECK (hidden IN (0, 1))) STRICT;

CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE param (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    dimension INTEGER NOT NULL,                                    -- dimension.idx of the trial's study
    value     TEXT NOT NULL CHECK (json_valid(value)),
    internal  REAL,                                                -- the number, or the choice's index
    PRIMARY KEY (trial_id, dimension)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
    trial_id    INTEGER NOT NULL REFERENCES trial,
    attempt     INTEGER NOT NULL,
    slot        INTEGER NOT NULL,
    device      TEXT NOT NULL,
    resume_step INTEGER,
    resume_path TEXT,
    until       INTEGER,
    pid         INTEGER,
    pid_started INTEGER,                                           -- the system's start time of that process
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    outcome     TEXT CHECK (outcome IS NULL OR json_valid(outcome)),
    reason      TEXT, runner INTEGER,
    PRIMARY KEY (trial_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE report (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    metric_id INTEGER NOT NULL REFERENCES metric,
    step      INTEGER NOT NULL,
    value     REAL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (trial_id, metric_id, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE decision (
    trial_id INTEGER NOT NULL REFERENCES trial,
    step     INTEGER NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('continue', 'pause', 'stop')),
    reason   TEXT CHECK (reason IS NOT NULL OR verdict = 'continue'),
    at       INTEGER NOT NULL,
    PRIMARY KEY (trial_id, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL, bytes INTEGER, digest TEXT,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

CREATE INDEX event_of_study ON event (study_id);

CREATE TABLE request (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id  INTEGER NOT NULL REFERENCES study,
    body      TEXT NOT NULL CHECK (json_valid(body)),
    at        INTEGER NOT NULL,
    served_at INTEGER
, answer TEXT CHECK (answer IS NULL OR json_valid(answer))) STRICT;

CREATE TABLE runner (
    seq        INTEGER PRIMARY KEY,
    study_id   INTEGER NOT NULL REFERENCES study,
    pid        INTEGER NOT NULL,
    host       TEXT NOT NULL,
    slots      TEXT NOT NULL CHECK (json_valid(slots)),
    started_at INTEGER NOT NULL,
    stopped_at INTEGER,
    ran_micros INTEGER,
    reason     TEXT
, lineage TEXT CHECK (lineage IS NULL OR json_valid(lineage))) STRICT;

CREATE TABLE lease (
    study_id    INTEGER PRIMARY KEY REFERENCES study,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pid         INTEGER,
    pid_started INTEGER,
    host        TEXT,
    acquired_at INTEGER, boot_id TEXT,
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) STRICT;

CREATE VIEW studies AS SELECT id AS study_id, name AS study_name FROM study;

CREATE VIEW study_directions AS
  SELECT study_id * 64 + idx AS study_direction_id, upper(direction) AS direction, study_id, idx AS objective FROM objective;

CREATE VIEW study_user_attributes AS
  SELECT 0 AS study_user_attribute_id, 0 AS study_id, '' AS key, '' AS value_json WHERE 0;

CREATE VIEW trial_params AS
  SELECT p.trial_id * 4096 + p.dimension AS param_id, p.trial_id, d.name AS param_name, p.internal AS param_value,
         d.optuna_json AS distribution_json
  FROM param p JOIN dimension d ON d.study_id = p.trial_id / 1000000000 AND d.idx = p.dimension
  WHERE p.internal IS NOT NULL AND d.optuna_json IS NOT NULL;

CREATE VIEW trial_intermediate_values AS
  SELECT r.trial_id * 1048576 + row_number() OVER (PARTITION BY r.trial_id ORDER BY r.step) AS trial_intermediate_value_id,
         r.trial_id, r.step,
         CASE WHEN abs(r.value) <= 1.7976931348623157e308 THEN r.value END AS intermediate_value,
         CASE WHEN r.value IS NULL THEN 'NAN' WHEN r.value > 1.7976931348623157e308 THEN 'INF_POS'
              WHEN r.value < -1.7976931348623157e308 THEN 'INF_NEG' ELSE 'FINITE' END AS intermediate_value_type
  FROM report r
  WHERE r.metric_id = (SELECT m.id FROM objective o JOIN metric m ON m.name = o.metric
                       WHERE o.study_id = r.trial_id / 1000000000 AND o.idx = 0);

CREATE VIEW trial_user_attributes AS
  SELECT id AS trial_user_attribute_id, id AS trial_id, 'reason' AS key, json_quote(reason) AS value_json FROM trial WHERE reason IS NOT NULL;

CREATE VIEW trial_heartbeats AS SELECT 0 AS trial_heartbeat_id, 0 AS trial_id, '' AS heartbeat WHERE 0;

CREATE VIEW version_info AS SELECT 1 AS version_info_id, 12 AS schema_version, '5.0.0' AS library_version;

CREATE VIEW alembic_version AS SELECT 'v3.2.0.a' AS version_num;

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

CREATE INDEX trial_value_by_value ON trial_value (idx, trial_id / 1000000000, value);

CREATE INDEX trial_by_state ON trial (study_id, state);

CREATE TABLE document (
    digest TEXT PRIMARY KEY,                                                    -- BLAKE3, hexadecimal
    body   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE study_revision (
    study_id INTEGER NOT NULL REFERENCES study,
    revision INTEGER NOT NULL,
    seq      INTEGER NOT NULL,                                                  -- the last event before it
    at       INTEGER NOT NULL,
    spec     TEXT NOT NULL CHECK (json_valid(spec)),
    PRIMARY KEY (study_id, revision)
) STRICT, WITHOUT ROWID;

CREATE INDEX trial_by_configuration ON trial (study_id, configuration) WHERE configuration IS NOT NULL;

CREATE TABLE paused_device (
    study_id INTEGER NOT NULL REFERENCES study,
    device   TEXT NOT NULL,
    PRIMARY KEY (study_id, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE store (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL CHECK (length(id) = 32),
    salt        TEXT NOT NULL CHECK (length(salt) = 32),                        -- of digests of what is not stored itself
    values_left INTEGER NOT NULL DEFAULT 0 CHECK (values_left IN (0, 1))        -- 1: what was erased may still be in free pages
) STRICT;

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

CREATE TABLE series_block (
    id     INTEGER PRIMARY KEY,
    points BLOB NOT NULL                                                        -- steps, moments and values: see storage/sqlite/chunk.rs
) STRICT;

CREATE TABLE removed_study (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,                                                        -- as it was last
    at    INTEGER NOT NULL,                                                     -- when it was removed
    files TEXT CHECK (files IS NULL OR json_valid(files))                       -- directories that may still be there; NULL: none
) STRICT;

CREATE INDEX trial_hidden ON trial (study_id) WHERE hidden = 1;

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

CREATE TABLE removed_run (
    trial_id INTEGER PRIMARY KEY,                                               -- as table `trial` had it
    at       INTEGER NOT NULL,                                                  -- when it was removed
    moved_to INTEGER                                                            -- trial.id in the other study, until its files are there
) STRICT;

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

CREATE INDEX trial_violating ON trial (study_id) WHERE violation IS NOT NULL;

CREATE VIEW study_system_attributes AS
  SELECT study_id AS study_system_attribute_id, study_id, 'study:metric_names' AS key, json_group_array(metric) AS value_json
  FROM (SELECT * FROM objective ORDER BY study_id, idx) GROUP BY study_id
  HAVING NOT iif(count(*) = 1, max(metric) = 'value', sum(metric = 'value_' || idx) = count(*));

CREATE VIEW trials AS
  SELECT id AS trial_id, number, study_id,
         CASE state WHEN 'queued' THEN 'WAITING' WHEN 'running' THEN 'RUNNING' WHEN 'paused' THEN 'RUNNING' WHEN 'pruned' THEN 'PRUNED'
                    WHEN 'complete' THEN iif((SELECT count(value) = count(*) AND count(*) > 0 FROM trial_value WHERE trial_id = id),
                                             'COMPLETE', 'FAIL')
                    ELSE 'FAIL' END AS state,
         strftime('%Y-%m-%d %H:%M:%S', began / 1000000, 'unixepoch') || printf('.%06d', began % 1000000) AS datetime_start,
         strftime('%Y-%m-%d %H:%M:%S', ended / 1000000, 'unixepoch') || printf('.%06d', ended % 1000000) AS datetime_complete
  FROM (SELECT id, number, study_id, state,
               coalesce((SELECT a.started_at FROM attempt a WHERE a.trial_id = trial.id ORDER BY a.attempt LIMIT 1),
                        iif(state = 'queued', NULL, created_at)) AS began,
               iif(state IN ('complete', 'pruned', 'failed'), coalesce(finished_at, created_at), NULL) AS ended
        FROM trial WHERE hidden = 0);

CREATE VIEW trial_values AS
  SELECT trial_id * 64 + idx AS trial_value_id, trial_id, idx AS objective,
         CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END AS value,
         CASE WHEN value > 1.7976931348623157e308 THEN 'INF_POS' WHEN value < -1.7976931348623157e308 THEN 'INF_NEG'
              ELSE 'FINITE' END AS value_type
  FROM trial_value v
  WHERE (SELECT state FROM trial WHERE id = v.trial_id AND hidden = 0) = 'complete'
    AND NOT EXISTS (SELECT 1 FROM trial_value n WHERE n.trial_id = v.trial_id AND n.value IS NULL);

CREATE VIEW trial_system_attributes AS
  SELECT id AS trial_system_attribute_id, id AS trial_id, 'constraints' AS key,
         printf('[%!.17g]', coalesce(violation, 0.0)) AS value_json
  FROM trial
  WHERE state = 'complete' AND hidden = 0 AND study_id IN (
      SELECT s.id FROM study s, json_each(s.spec, '$.constraints') c
      WHERE json_type(c.value, '$.limit') IS NOT NULL OR json_type(c.value, '$.pruning_limit') IS NOT NULL
      UNION SELECT study_id FROM trial WHERE violation IS NOT NULL);

-- What v4.sql inserts.
INSERT INTO store (one, id, salt) VALUES (1, lower(hex(randomblob(16))), lower(hex(randomblob(16))));
