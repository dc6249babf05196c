-- A store of schema version 8, as its last release wrote it: tracked runs with notes, tags, checkpoints, series and artifacts.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 8;
BEGIN TRANSACTION;
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
INSERT INTO "artifact" VALUES(1000000000,'t',1,11,1795622901893698,'dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e','{"name":"t","kind":"text","digest":"dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e","bytes":5}');
INSERT INTO "artifact" VALUES(1000000001,'t',1,25,1795622902057391,'dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e','{"name":"t","kind":"text","digest":"dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e","bytes":5}');
INSERT INTO "artifact" VALUES(1000000002,'t',1,39,1795622902201022,'dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e','{"name":"t","kind":"text","digest":"dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e","bytes":5}');
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
INSERT INTO "attempt" VALUES(1000000000,0,0,'cpu',NULL,NULL,NULL,17394,166714,1795622901863736,1795622901902233,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000001,0,0,'cpu',NULL,NULL,NULL,17413,166731,1795622902018730,1795622902065800,'"completed"',NULL,15);
INSERT INTO "attempt" VALUES(1000000002,0,0,'cpu',NULL,NULL,NULL,17434,166746,1795622902145469,1795622902207573,'"completed"',NULL,29);
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL, bytes INTEGER,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE decision (
    trial_id INTEGER NOT NULL REFERENCES trial,
    step     INTEGER NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('continue', 'pause', 'stop')),
    reason   TEXT CHECK (reason IS NOT NULL OR verdict = 'continue'),
    at       INTEGER NOT NULL,
    PRIMARY KEY (trial_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE dimension (
    study_id    INTEGER NOT NULL REFERENCES study,
    idx         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    optuna_json TEXT CHECK (optuna_json IS NULL OR json_valid(optuna_json)),              -- NULL: not in the space
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE document (
    digest TEXT PRIMARY KEY,                                                    -- BLAKE3, hexadecimal
    body   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "document" VALUES('dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e','words');
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO "event" VALUES(1,1,1795622901863736,'{"type":"runner_started","pid":17384,"host":"here","slots":[{"index":0,"device":"cpu"}],"tracker":{"pid_started":166695,"boot_id":"00000000-0000-4000-8000-000000000000/0/0/4026531836"}}');
INSERT INTO "event" VALUES(2,1,1795622901863736,'{"type":"runner_described","lineage":{"command":["hpsearch","track","--system","off","--study","old","--name","run-1","--note","note 1","--tag","t1","--","sh","train.sh","0.1"],"directory":"/home/user/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"4565827b034cabb925d9f9213eace08dce5a1dfa7c41a58a3eb595ce95e9c21e"},"machine":{"host":"here","system":"Linux 6.8.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.sh","bytes":213,"digest":"9462afdb30b63fcceb324d7c2f441060222304e36d3689f17f0e9957538b082e"}]}}');
INSERT INTO "event" VALUES(3,1,1795622901863736,'{"type":"trial_created","trial":0,"params":{},"origin":{"tracked":{"name":"run-1","command":["sh","train.sh","0.1"]}}}');
INSERT INTO "event" VALUES(4,1,1795622901863736,'{"type":"tagged","trial":0,"tag":"t1","present":true}');
INSERT INTO "event" VALUES(5,1,1795622901863736,'{"type":"noted","trial":0,"text":"note 1"}');
INSERT INTO "event" VALUES(6,1,1795622901863736,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(7,1,1795622901874044,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":17394,"pid_started":166714}');
INSERT INTO "event" VALUES(8,1,1795622901893698,'{"type":"remarked","trial":0,"attempt":0,"kind":"checkpoint","text":"this checkpoint is not taken: there is no `/nowhere/step-1`: the trial cannot continue from it; save it before its path is printed, and give each trial a path of its own, such as one in HPSEARCH_CHECKPOINT_DIR","count":1}');
INSERT INTO "event" VALUES(9,1,1795622901893698,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"acc":0.5,"loss":0.1}}');
INSERT INTO "event" VALUES(10,1,1795622901893698,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"train/loss":0.1}}');
INSERT INTO "event" VALUES(11,1,1795622901893698,'{"type":"artifact_saved","trial":0,"artifact":{"name":"t","kind":"text","digest":"dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e","bytes":5}}');
INSERT INTO "event" VALUES(12,1,1795622901902233,'{"type":"attempt_ended","trial":0,"attempt":0,"end":"completed","reason":null,"device_micros":38497}');
INSERT INTO "event" VALUES(13,1,1795622901902233,'{"type":"trial_finished","trial":0,"state":"complete","value":0.1,"reason":null}');
INSERT INTO "event" VALUES(14,1,1795622901902233,'{"type":"runner_stopped","reason":"its run is complete","ran_micros":38497,"runner":1}');
INSERT INTO "event" VALUES(15,1,1795622902018730,'{"type":"runner_started","pid":17405,"host":"here","slots":[{"index":0,"device":"cpu"}],"tracker":{"pid_started":166718,"boot_id":"00000000-0000-4000-8000-000000000000/0/0/4026531836"}}');
INSERT INTO "event" VALUES(16,1,1795622902018730,'{"type":"runner_described","lineage":{"command":["hpsearch","track","--system","off","--study","old","--name","run-2","--note","note 2","--tag","t2","--","sh","train.sh","0.2"],"directory":"/home/user/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"4565827b034cabb925d9f9213eace08dce5a1dfa7c41a58a3eb595ce95e9c21e"},"machine":{"host":"here","system":"Linux 6.8.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.sh","bytes":213,"digest":"9462afdb30b63fcceb324d7c2f441060222304e36d3689f17f0e9957538b082e"}]}}');
INSERT INTO "event" VALUES(17,1,1795622902018730,'{"type":"trial_created","trial":1,"params":{},"origin":{"tracked":{"name":"run-2","command":["sh","train.sh","0.2"]}}}');
INSERT INTO "event" VALUES(18,1,1795622902018730,'{"type":"tagged","trial":1,"tag":"t2","present":true}');
INSERT INTO "event" VALUES(19,1,1795622902018730,'{"type":"noted","trial":1,"text":"note 2"}');
INSERT INTO "event" VALUES(20,1,1795622902018730,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(21,1,1795622902040009,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":17413,"pid_started":166731}');
INSERT INTO "event" VALUES(22,1,1795622902054613,'{"type":"remarked","trial":1,"attempt":0,"kind":"checkpoint","text":"this checkpoint is not taken: there is no `/nowhere/step-1`: the trial cannot continue from it; save it before its path is printed, and give each trial a path of its own, such as one in HPSEARCH_CHECKPOINT_DIR","count":1}');
INSERT INTO "event" VALUES(23,1,1795622902054983,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"acc":0.5,"loss":0.2}}');
INSERT INTO "event" VALUES(24,1,1795622902057391,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"train/loss":0.2}}');
INSERT INTO "event" VALUES(25,1,1795622902057391,'{"type":"artifact_saved","trial":1,"artifact":{"name":"t","kind":"text","digest":"dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e","bytes":5}}');
INSERT INTO "event" VALUES(26,1,1795622902065800,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"completed","reason":null,"device_micros":47070}');
INSERT INTO "event" VALUES(27,1,1795622902065800,'{"type":"trial_finished","trial":1,"state":"complete","value":0.2,"reason":null}');
INSERT INTO "event" VALUES(28,1,1795622902065800,'{"type":"runner_stopped","reason":"its run is complete","ran_micros":47070,"runner":15}');
INSERT INTO "event" VALUES(29,1,1795622902145469,'{"type":"runner_started","pid":17425,"host":"here","slots":[{"index":0,"device":"cpu"}],"tracker":{"pid_started":166735,"boot_id":"00000000-0000-4000-8000-000000000000/0/0/4026531836"}}');
INSERT INTO "event" VALUES(30,1,1795622902145469,'{"type":"runner_described","lineage":{"command":["hpsearch","track","--system","off","--study","old","--name","run-3","--note","note 3","--tag","t3","--","sh","train.sh","0.3"],"directory":"/home/user/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"4565827b034cabb925d9f9213eace08dce5a1dfa7c41a58a3eb595ce95e9c21e"},"machine":{"host":"here","system":"Linux 6.8.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.sh","bytes":213,"digest":"9462afdb30b63fcceb324d7c2f441060222304e36d3689f17f0e9957538b082e"}]}}');
INSERT INTO "event" VALUES(31,1,1795622902145469,'{"type":"trial_created","trial":2,"params":{},"origin":{"tracked":{"name":"run-3","command":["sh","train.sh","0.3"]}}}');
INSERT INTO "event" VALUES(32,1,1795622902145469,'{"type":"tagged","trial":2,"tag":"t3","present":true}');
INSERT INTO "event" VALUES(33,1,1795622902145469,'{"type":"noted","trial":2,"text":"note 3"}');
INSERT INTO "event" VALUES(34,1,1795622902145469,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(35,1,1795622902179766,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":17434,"pid_started":166746}');
INSERT INTO "event" VALUES(36,1,1795622902198353,'{"type":"remarked","trial":2,"attempt":0,"kind":"checkpoint","text":"this checkpoint is not taken: there is no `/nowhere/step-1`: the trial cannot continue from it; save it before its path is printed, and give each trial a path of its own, such as one in HPSEARCH_CHECKPOINT_DIR","count":1}');
INSERT INTO "event" VALUES(37,1,1795622902198759,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"acc":0.5,"loss":0.3}}');
INSERT INTO "event" VALUES(38,1,1795622902201022,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"train/loss":0.3}}');
INSERT INTO "event" VALUES(39,1,1795622902201022,'{"type":"artifact_saved","trial":2,"artifact":{"name":"t","kind":"text","digest":"dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e","bytes":5}}');
INSERT INTO "event" VALUES(40,1,1795622902207573,'{"type":"attempt_ended","trial":2,"attempt":0,"end":"completed","reason":null,"device_micros":62104}');
INSERT INTO "event" VALUES(41,1,1795622902207573,'{"type":"trial_finished","trial":2,"state":"complete","value":0.3,"reason":null}');
INSERT INTO "event" VALUES(42,1,1795622902207573,'{"type":"runner_stopped","reason":"its run is complete","ran_micros":62104,"runner":29}');
CREATE TABLE lease (
    study_id    INTEGER PRIMARY KEY REFERENCES study,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pid         INTEGER,
    pid_started INTEGER,
    host        TEXT,
    acquired_at INTEGER, boot_id TEXT,
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) STRICT;
INSERT INTO "lease" VALUES(1,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "metric" VALUES(1,'acc');
INSERT INTO "metric" VALUES(2,'loss');
INSERT INTO "metric" VALUES(3,'train/loss');
CREATE TABLE objective (
    study_id  INTEGER NOT NULL REFERENCES study,
    idx       INTEGER NOT NULL,
    metric    TEXT NOT NULL,
    direction TEXT NOT NULL CHECK (direction IN ('minimize', 'maximize')),
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "objective" VALUES(1,0,'loss','minimize');
CREATE TABLE param (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    dimension INTEGER NOT NULL,                                    -- dimension.idx of the trial's study
    value     TEXT NOT NULL CHECK (json_valid(value)),
    internal  REAL,                                                -- the number, or the choice's index
    PRIMARY KEY (trial_id, dimension)
) STRICT, WITHOUT ROWID;
CREATE TABLE paused_device (
    study_id INTEGER NOT NULL REFERENCES study,
    device   TEXT NOT NULL,
    PRIMARY KEY (study_id, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE removed_study (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,                                                        -- as it was last
    at    INTEGER NOT NULL,                                                     -- when it was removed
    files TEXT CHECK (files IS NULL OR json_valid(files))                       -- directories that may still be there; NULL: none
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
INSERT INTO "report" VALUES(1000000000,1,1,0.5,0,1795622901893698);
INSERT INTO "report" VALUES(1000000000,2,1,0.1,0,1795622901893698);
INSERT INTO "report" VALUES(1000000000,3,1,0.1,0,1795622901893698);
INSERT INTO "report" VALUES(1000000001,1,1,0.5,0,1795622902054983);
INSERT INTO "report" VALUES(1000000001,2,1,0.2,0,1795622902054983);
INSERT INTO "report" VALUES(1000000001,3,1,0.2,0,1795622902057391);
INSERT INTO "report" VALUES(1000000002,1,1,0.5,0,1795622902198759);
INSERT INTO "report" VALUES(1000000002,2,1,0.3,0,1795622902198759);
INSERT INTO "report" VALUES(1000000002,3,1,0.3,0,1795622902201022);
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
INSERT INTO "runner" VALUES(1,1,17384,'here','[{"index":0,"device":"cpu"}]',1795622901863736,1795622901902233,38497,'its run is complete','{"command":["hpsearch","track","--system","off","--study","old","--name","run-1","--note","note 1","--tag","t1","--","sh","train.sh","0.1"],"directory":"/home/user/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"4565827b034cabb925d9f9213eace08dce5a1dfa7c41a58a3eb595ce95e9c21e"},"machine":{"host":"here","system":"Linux 6.8.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.sh","bytes":213,"digest":"9462afdb30b63fcceb324d7c2f441060222304e36d3689f17f0e9957538b082e"}]}');
INSERT INTO "runner" VALUES(15,1,17405,'here','[{"index":0,"device":"cpu"}]',1795622902018730,1795622902065800,47070,'its run is complete','{"command":["hpsearch","track","--system","off","--study","old","--name","run-2","--note","note 2","--tag","t2","--","sh","train.sh","0.2"],"directory":"/home/user/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"4565827b034cabb925d9f9213eace08dce5a1dfa7c41a58a3eb595ce95e9c21e"},"machine":{"host":"here","system":"Linux 6.8.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.sh","bytes":213,"digest":"9462afdb30b63fcceb324d7c2f441060222304e36d3689f17f0e9957538b082e"}]}');
INSERT INTO "runner" VALUES(29,1,17425,'here','[{"index":0,"device":"cpu"}]',1795622902145469,1795622902207573,62104,'its run is complete','{"command":["hpsearch","track","--system","off","--study","old","--name","run-3","--note","note 3","--tag","t3","--","sh","train.sh","0.3"],"directory":"/home/user/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"4565827b034cabb925d9f9213eace08dce5a1dfa7c41a58a3eb595ce95e9c21e"},"machine":{"host":"here","system":"Linux 6.8.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.sh","bytes":213,"digest":"9462afdb30b63fcceb324d7c2f441060222304e36d3689f17f0e9957538b082e"}]}');
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
CREATE TABLE series_block (
    id     INTEGER PRIMARY KEY,
    points BLOB NOT NULL                                                        -- steps, moments and values: see storage/sqlite/chunk.rs
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
CREATE TABLE store (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL CHECK (length(id) = 32),
    salt        TEXT NOT NULL CHECK (length(salt) = 32),                        -- of digests of what is not stored itself
    values_left INTEGER NOT NULL DEFAULT 0 CHECK (values_left IN (0, 1))        -- 1: what was erased may still be in free pages
) STRICT;
INSERT INTO "store" VALUES(1,'da7837149e3b953047e5f5f673774d7e','4fb9834f4f65a172194292f1de66861e',0);
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
INSERT INTO "study" VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"step","seed":0,"duplicates":"skip","budget":{"trials":null,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[],"enqueue":[],"sampler":{"name":"none","version":1,"options":{}},"pruner":{"name":"none","version":1,"options":{}},"program":{"command":{"run":[],"cwd":"/","env":{}}},"devices":{"use":["auto"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":null,"dir":null},"export":{"dir":null,"on_finish":false}}',0,1795622901765983,1795622901765983,NULL,147671,NULL,0,0,NULL,NULL,0.0,0.0,147671,'["old"]');
CREATE TABLE study_note (
    study_id INTEGER NOT NULL REFERENCES study,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (study_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE study_revision (
    study_id INTEGER NOT NULL REFERENCES study,
    revision INTEGER NOT NULL,
    seq      INTEGER NOT NULL,                                                  -- the last event before it
    at       INTEGER NOT NULL,
    spec     TEXT NOT NULL CHECK (json_valid(spec)),
    PRIMARY KEY (study_id, revision)
) STRICT, WITHOUT ROWID;
INSERT INTO "study_revision" VALUES(1,0,0,1795622901765983,'{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"step","seed":0,"duplicates":"skip","budget":{"trials":null,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[],"enqueue":[],"sampler":{"name":"none","version":1,"options":{}},"pruner":{"name":"none","version":1,"options":{}},"program":{"command":{"run":[],"cwd":"/","env":{}}},"devices":{"use":["auto"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":null,"dir":null},"export":{"dir":null,"on_finish":false}}');
CREATE TABLE study_tag (
    study_id INTEGER NOT NULL REFERENCES study,
    tag      TEXT NOT NULL,
    PRIMARY KEY (study_id, tag)
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
INSERT INTO "trial" VALUES(1000000000,1,0,'complete','{"tracked":{"name":"run-1","command":["sh","train.sh","0.1"]}}',1,0,'cpu',NULL,NULL,1795622901863736,1795622901863736,1795622901902233,38497,1,0.1,'{"train/loss":0.1}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000001,1,1,'complete','{"tracked":{"name":"run-2","command":["sh","train.sh","0.2"]}}',1,0,'cpu',NULL,NULL,1795622902018730,1795622902018730,1795622902065800,47070,1,0.2,'{"train/loss":0.2}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000002,1,2,'complete','{"tracked":{"name":"run-3","command":["sh","train.sh","0.3"]}}',1,0,'cpu',NULL,NULL,1795622902145469,1795622902145469,1795622902207573,62104,1,0.3,'{"train/loss":0.3}',NULL,NULL,NULL,NULL,0);
CREATE TABLE trial_note (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_note" VALUES(1000000000,5,1795622901863736,'note 1');
INSERT INTO "trial_note" VALUES(1000000001,19,1795622902018730,'note 2');
INSERT INTO "trial_note" VALUES(1000000002,33,1795622902145469,'note 3');
CREATE TABLE trial_tag (
    trial_id INTEGER NOT NULL REFERENCES trial,
    tag      TEXT NOT NULL,
    PRIMARY KEY (trial_id, tag)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_tag" VALUES(1000000000,'t1');
INSERT INTO "trial_tag" VALUES(1000000001,'t2');
INSERT INTO "trial_tag" VALUES(1000000002,'t3');
CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_value" VALUES(1000000000,0,0.1);
INSERT INTO "trial_value" VALUES(1000000001,0,0.2);
INSERT INTO "trial_value" VALUES(1000000002,0,0.3);
CREATE INDEX event_of_study ON event (study_id);
CREATE VIEW studies AS SELECT id AS study_id, name AS study_name FROM study;
CREATE VIEW study_directions AS
  SELECT study_id * 64 + idx AS study_direction_id, upper(direction) AS direction, study_id, idx AS objective FROM objective;
CREATE VIEW study_user_attributes AS
  SELECT 0 AS study_user_attribute_id, 0 AS study_id, '' AS key, '' AS value_json WHERE 0;
CREATE VIEW study_system_attributes AS
  SELECT study_id AS study_system_attribute_id, study_id, 'study:metric_names' AS key, json_group_array(metric) AS value_json
  FROM (SELECT * FROM objective ORDER BY study_id, idx) GROUP BY study_id;
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
        FROM trial);
CREATE VIEW trial_params AS
  SELECT p.trial_id * 4096 + p.dimension AS param_id, p.trial_id, d.name AS param_name, p.internal AS param_value,
         d.optuna_json AS distribution_json
  FROM param p JOIN dimension d ON d.study_id = p.trial_id / 1000000000 AND d.idx = p.dimension
  WHERE p.internal IS NOT NULL AND d.optuna_json IS NOT NULL;
CREATE VIEW trial_values AS
  SELECT trial_id * 64 + idx AS trial_value_id, trial_id, idx AS objective,
         CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END AS value,
         CASE WHEN value > 1.7976931348623157e308 THEN 'INF_POS' WHEN value < -1.7976931348623157e308 THEN 'INF_NEG'
              ELSE 'FINITE' END AS value_type
  FROM trial_value WHERE value IS NOT NULL AND (SELECT state FROM trial WHERE id = trial_id) = 'complete';
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
CREATE VIEW trial_system_attributes AS
  SELECT 0 AS trial_system_attribute_id, 0 AS trial_id, '' AS key, '' AS value_json WHERE 0;
CREATE VIEW trial_heartbeats AS SELECT 0 AS trial_heartbeat_id, 0 AS trial_id, '' AS heartbeat WHERE 0;
CREATE VIEW version_info AS SELECT 1 AS version_info_id, 12 AS schema_version, '5.0.0' AS library_version;
CREATE VIEW alembic_version AS SELECT 'v3.2.0.a' AS version_num;
CREATE INDEX trial_value_by_value ON trial_value (idx, trial_id / 1000000000, value);
CREATE INDEX trial_by_state ON trial (study_id, state);
CREATE INDEX trial_by_configuration ON trial (study_id, configuration) WHERE configuration IS NOT NULL;
CREATE INDEX trial_hidden ON trial (study_id) WHERE hidden = 1;
CREATE INDEX artifact_digest ON artifact (digest);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',42);
COMMIT;
