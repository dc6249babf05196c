-- Version 1 of stores in PostgreSQL: the tables of version 9 in SQLite, with the same names and columns, and what they mean
-- there (see sqlite/v*.sql). Never edited once released: changes are new migrations.
-- Moments are microseconds since 1970 in UTC, so that no server's or session's time zone matters; only the end of a lease is
-- the server's own time. Text is ordered by its bytes, as in SQLite.

-- The functions of SQLite that the queries use. JSON may contain `\u0000`, which PostgreSQL's text cannot.
CREATE FUNCTION json_extract(document TEXT, path TEXT) RETURNS TEXT LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT replace(document, '\u0000', '\u2400')::json #>> string_to_array(substr(path, 3), '.') $$;
CREATE FUNCTION json_each(list TEXT) RETURNS TABLE (value TEXT) LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT json_array_elements_text(list::json) $$;
CREATE FUNCTION instr(whole TEXT, part TEXT) RETURNS INTEGER LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
  $$ SELECT strpos(whole, part) $$;

CREATE TABLE hpsearch_version (version BIGINT NOT NULL);

CREATE TABLE store (
    one         BIGINT PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL CHECK (length(id) = 32),
    salt        TEXT NOT NULL CHECK (length(salt) = 32),
    values_left BIGINT NOT NULL DEFAULT 0
);
INSERT INTO store (one, id, salt)
  VALUES (1, replace(gen_random_uuid()::text, '-', ''), replace(gen_random_uuid()::text, '-', ''));

CREATE TABLE study (
    id                 BIGINT PRIMARY KEY,
    name               TEXT COLLATE "C" NOT NULL UNIQUE,
    spec               TEXT COLLATE "C" NOT NULL,
    revision           BIGINT NOT NULL DEFAULT 0,
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL,
    finished_reason    TEXT COLLATE "C",
    ran_micros         BIGINT NOT NULL DEFAULT 0,
    paused_reason      TEXT COLLATE "C",
    extra_trials       BIGINT NOT NULL DEFAULT 0,
    extra_micros       BIGINT NOT NULL DEFAULT 0,
    race               TEXT COLLATE "C",
    killed_at          BIGINT,
    extra_device_hours DOUBLE PRECISION NOT NULL DEFAULT 0,
    extra_cost         DOUBLE PRECISION NOT NULL DEFAULT 0,
    busy_micros        BIGINT NOT NULL DEFAULT 0,
    files              TEXT COLLATE "C"
);

CREATE TABLE study_revision (
    study_id BIGINT NOT NULL REFERENCES study,
    revision BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    spec     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (study_id, revision)
);

CREATE TABLE objective (
    study_id  BIGINT NOT NULL REFERENCES study,
    idx       BIGINT NOT NULL,
    metric    TEXT COLLATE "C" NOT NULL,
    direction TEXT COLLATE "C" NOT NULL CHECK (direction IN ('minimize', 'maximize')),
    PRIMARY KEY (study_id, idx)
);

CREATE TABLE dimension (
    study_id    BIGINT NOT NULL REFERENCES study,
    idx         BIGINT NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    optuna_json TEXT COLLATE "C",
    PRIMARY KEY (study_id, idx)
);

CREATE TABLE trial (
    id            BIGINT PRIMARY KEY CHECK (id = study_id * 1000000000 + number),
    study_id      BIGINT NOT NULL REFERENCES study,
    number        BIGINT NOT NULL CHECK (number BETWEEN 0 AND 999999999),
    state         TEXT COLLATE "C" NOT NULL CHECK (state IN ('queued', 'running', 'paused', 'complete', 'pruned', 'failed')),
    origin        TEXT COLLATE "C" NOT NULL,
    attempts      BIGINT NOT NULL DEFAULT 0,
    failures      BIGINT NOT NULL DEFAULT 0,
    device        TEXT COLLATE "C",
    until         BIGINT,
    reason        TEXT COLLATE "C",
    created_at    BIGINT NOT NULL,
    started_at    BIGINT,
    finished_at   BIGINT,
    busy_micros   BIGINT NOT NULL DEFAULT 0,
    last_step     BIGINT,
    last_value    DOUBLE PRECISION,
    last_metrics  TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    hold          TEXT COLLATE "C",
    continued     TEXT COLLATE "C",
    configuration BIGINT,
    violation     DOUBLE PRECISION,
    hidden        BIGINT NOT NULL DEFAULT 0 CHECK (hidden IN (0, 1))
);
CREATE INDEX trial_by_state ON trial (study_id, state);
CREATE INDEX trial_by_configuration ON trial (study_id, configuration) WHERE configuration IS NOT NULL;
CREATE INDEX trial_hidden ON trial (study_id) WHERE hidden = 1;

CREATE TABLE trial_value (
    trial_id BIGINT NOT NULL REFERENCES trial,
    idx      BIGINT NOT NULL,
    value    DOUBLE PRECISION,
    PRIMARY KEY (trial_id, idx)
);
CREATE INDEX trial_value_by_value ON trial_value (idx, (trial_id / 1000000000), value);

CREATE TABLE param (
    trial_id  BIGINT NOT NULL REFERENCES trial,
    dimension BIGINT NOT NULL,
    value     TEXT COLLATE "C" NOT NULL,
    internal  DOUBLE PRECISION,
    PRIMARY KEY (trial_id, dimension)
);

CREATE TABLE attempt (
    trial_id    BIGINT NOT NULL REFERENCES trial,
    attempt     BIGINT NOT NULL,
    slot        BIGINT NOT NULL,
    device      TEXT COLLATE "C" NOT NULL,
    resume_step BIGINT,
    resume_path TEXT COLLATE "C",
    until       BIGINT,
    pid         BIGINT,
    pid_started BIGINT,
    started_at  BIGINT NOT NULL,
    ended_at    BIGINT,
    outcome     TEXT COLLATE "C",
    reason      TEXT COLLATE "C",
    runner      BIGINT,
    PRIMARY KEY (trial_id, attempt)
);

CREATE TABLE metric (
    id   BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE report (
    trial_id  BIGINT NOT NULL REFERENCES trial,
    metric_id BIGINT NOT NULL REFERENCES metric,
    step      BIGINT NOT NULL,
    value     DOUBLE PRECISION,
    attempt   BIGINT NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (trial_id, metric_id, step)
);

CREATE TABLE decision (
    trial_id BIGINT NOT NULL REFERENCES trial,
    step     BIGINT NOT NULL,
    verdict  TEXT COLLATE "C" NOT NULL CHECK (verdict IN ('continue', 'pause', 'stop')),
    reason   TEXT COLLATE "C" CHECK (reason IS NOT NULL OR verdict = 'continue'),
    at       BIGINT NOT NULL,
    PRIMARY KEY (trial_id, step)
);

CREATE TABLE checkpoint (
    trial_id BIGINT NOT NULL REFERENCES trial,
    seq      BIGINT NOT NULL,
    step     BIGINT NOT NULL,
    path     TEXT COLLATE "C" NOT NULL,
    at       BIGINT NOT NULL,
    bytes    BIGINT,
    PRIMARY KEY (trial_id, seq)
);

-- Positions grow with the commits of a study, whose writers wait for each other, and are consecutive within a transaction,
-- which takes them from blocks of its own.
CREATE SEQUENCE event_block;
CREATE TABLE event (
    seq      BIGINT PRIMARY KEY,
    study_id BIGINT NOT NULL REFERENCES study,
    at       BIGINT NOT NULL,
    type     TEXT COLLATE "C" GENERATED ALWAYS AS (substring(body FROM '^\{"type":"([a-z_]+)"')) STORED,
    body     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX event_of_study ON event (study_id, seq);

CREATE TABLE request (
    id        BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    study_id  BIGINT NOT NULL REFERENCES study,
    body      TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    served_at BIGINT,
    answer    TEXT COLLATE "C"
);
CREATE INDEX request_pending ON request (study_id) WHERE served_at IS NULL;

CREATE TABLE runner (
    seq        BIGINT PRIMARY KEY,
    study_id   BIGINT NOT NULL REFERENCES study,
    pid        BIGINT NOT NULL,
    host       TEXT COLLATE "C" NOT NULL,
    slots      TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    stopped_at BIGINT,
    ran_micros BIGINT,
    reason     TEXT COLLATE "C",
    lineage    TEXT COLLATE "C"
);
CREATE INDEX runner_of_study ON runner (study_id, seq);

-- A holder renews its lease; after `expires_at`, by the server's clock, it writes nothing and others may take it.
CREATE TABLE lease (
    study_id    BIGINT PRIMARY KEY REFERENCES study,
    epoch       BIGINT NOT NULL DEFAULT 0,
    pid         BIGINT,
    pid_started BIGINT,
    host        TEXT COLLATE "C",
    acquired_at BIGINT,
    boot_id     TEXT COLLATE "C",
    expires_at  TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    writes      BIGINT NOT NULL DEFAULT 0,                         -- transactions that wrote to the study: readers look at it
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) WITH (fillfactor = 20);

CREATE TABLE trial_note (
    trial_id BIGINT NOT NULL REFERENCES trial,
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    text     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (trial_id, seq)
);

CREATE TABLE study_note (
    study_id BIGINT NOT NULL REFERENCES study,
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    text     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (study_id, seq)
);

CREATE TABLE trial_tag (
    trial_id BIGINT NOT NULL REFERENCES trial,
    tag      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (trial_id, tag)
);

CREATE TABLE study_tag (
    study_id BIGINT NOT NULL REFERENCES study,
    tag      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (study_id, tag)
);

CREATE TABLE document (
    digest TEXT COLLATE "C" PRIMARY KEY,
    body   TEXT COLLATE "C" NOT NULL
);

CREATE TABLE paused_device (
    study_id BIGINT NOT NULL REFERENCES study,
    device   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (study_id, device)
);

CREATE TABLE series (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    trial_id   BIGINT NOT NULL REFERENCES trial,
    metric_id  BIGINT NOT NULL REFERENCES metric,
    clock      TEXT COLLATE "C" NOT NULL CHECK (clock IN ('step', 'epoch', 'samples', 'seconds')),
    attempt    BIGINT NOT NULL,
    count      BIGINT NOT NULL,
    first_step DOUBLE PRECISION,
    last_step  DOUBLE PRECISION,
    last_value DOUBLE PRECISION,
    UNIQUE (trial_id, metric_id, clock)
);

CREATE TABLE series_chunk (
    series_id  BIGINT NOT NULL REFERENCES series,
    first_step DOUBLE PRECISION NOT NULL,
    last_step  DOUBLE PRECISION NOT NULL,
    count      BIGINT NOT NULL CHECK (count > 0),
    min        DOUBLE PRECISION,
    max        DOUBLE PRECISION,
    last_value DOUBLE PRECISION,
    last_at    BIGINT NOT NULL,
    block      BIGINT NOT NULL,
    PRIMARY KEY (series_id, first_step)
);

CREATE TABLE series_block (
    id     BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    points BYTEA NOT NULL
);

CREATE TABLE removed_study (
    id    BIGINT PRIMARY KEY,
    name  TEXT COLLATE "C" NOT NULL,
    at    BIGINT NOT NULL,
    files TEXT COLLATE "C"
);

CREATE TABLE artifact (
    trial_id BIGINT NOT NULL REFERENCES trial,
    name     TEXT COLLATE "C" NOT NULL,
    version  BIGINT NOT NULL CHECK (version > 0),
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    digest   TEXT COLLATE "C" NOT NULL,
    body     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (trial_id, name, version)
);
CREATE INDEX artifact_digest ON artifact (digest);

CREATE TABLE removed_run (
    trial_id BIGINT PRIMARY KEY,
    at       BIGINT NOT NULL,
    moved_to BIGINT
);
