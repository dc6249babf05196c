-- A store of schema version 5, as its last release wrote it: a study of a command with a limit, whose pruner stops, with its reasons as JSON.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
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
INSERT INTO study VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"epoch","seed":0,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}}],"enqueue":[],"constraints":[{"limit":"latency < 9"}],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"asha","version":3,"options":{"max_resource":4,"min_resource":1,"reduction_factor":2}},"program":{"command":{"run":["sh","-c","for i in 1 2 3 4; do echo \"@hpsearch {\\\"step\\\":$i,\\\"loss\\\":{x}$i,\\\"latency\\\":2}\"; read -r answer; case $answer in *stop*) exit 0;; esac; done"],"cwd":"/studies","env":{}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}',0,1795472782734119,1795472782734119,'the budget of 6 trials is used up',556144,NULL,0,0,NULL,NULL,0.0,0.0,556144,'["old"]');
CREATE TABLE objective (
    study_id  INTEGER NOT NULL REFERENCES study,
    idx       INTEGER NOT NULL,
    metric    TEXT NOT NULL,
    direction TEXT NOT NULL CHECK (direction IN ('minimize', 'maximize')),
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO objective VALUES(1,0,'loss','minimize');
CREATE TABLE dimension (
    study_id    INTEGER NOT NULL REFERENCES study,
    idx         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    optuna_json TEXT CHECK (optuna_json IS NULL OR json_valid(optuna_json)),              -- NULL: not in the space
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO dimension VALUES(1,0,'x','{"attributes":{"high":1.0,"log":false,"low":0.0,"step":null},"name":"FloatDistribution"}');
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
, hold TEXT CHECK (hold IN ('trial', 'study')), continued TEXT CHECK (continued IN ('complete', 'pruned', 'failed')), configuration INTEGER, violation REAL) STRICT;
INSERT INTO trial VALUES(1000000000,1,0,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795472783013541,1795472783013541,1795472783079797,66256,4,0.32444931835653334495,'{"latency":2.0,"loss":0.32444931835653334}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000001,1,1,'pruned','{"sampled":"random"}',1,0,'sim:0',NULL,'rank 2 of 2 at epoch 1; 1 continues',1795472783079797,1795472783079797,1795472783107261,27464,1,0.47862468334061691876,'{"latency":2.0,"loss":0.4786246833406169}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000002,1,2,'pruned','{"sampled":"random"}',1,0,'sim:0',NULL,'rank 3 of 3 at epoch 1; 1 continues',1795472783107261,1795472783107261,1795472783208360,101099,1,0.6663994317355363961,'{"latency":2.0,"loss":0.6663994317355364}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000003,1,3,'pruned','{"sampled":"random"}',1,0,'sim:0',NULL,'rank 4 of 4 at epoch 1; 2 continue',1795472783208360,1795472783208360,1795472783336692,128332,1,0.98817955360350873128,'{"latency":2.0,"loss":0.9881795536035087}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000004,1,4,'pruned','{"sampled":"random"}',1,0,'sim:0',NULL,'rank 2 of 2 at epoch 2; 1 continues',1795472783336692,1795472783336692,1795472783439267,102575,2,0.35376084302736066078,'{"latency":2.0,"loss":0.35376084302736066}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000005,1,5,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795472783439267,1795472783439267,1795472783569685,130418,4,0.10295717880544343059,'{"latency":2.0,"loss":0.10295717880544343}',NULL,NULL,NULL,NULL);
CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO trial_value VALUES(1000000000,0,0.32444931835653334495);
INSERT INTO trial_value VALUES(1000000005,0,0.10295717880544341671);
CREATE TABLE param (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    dimension INTEGER NOT NULL,                                    -- dimension.idx of the trial's study
    value     TEXT NOT NULL CHECK (json_valid(value)),
    internal  REAL,                                                -- the number, or the choice's index
    PRIMARY KEY (trial_id, dimension)
) STRICT, WITHOUT ROWID;
INSERT INTO param VALUES(1000000000,0,'0.32444931835653334',0.32444931835653334495);
INSERT INTO param VALUES(1000000001,0,'0.4786246833406169',0.47862468334061691876);
INSERT INTO param VALUES(1000000002,0,'0.6663994317355364',0.6663994317355363961);
INSERT INTO param VALUES(1000000003,0,'0.9881795536035087',0.98817955360350873128);
INSERT INTO param VALUES(1000000004,0,'0.35376084302736066',0.35376084302736066078);
INSERT INTO param VALUES(1000000005,0,'0.10295717880544342',0.10295717880544341671);
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
INSERT INTO attempt VALUES(1000000000,0,0,'sim:0',NULL,NULL,NULL,5879,2874256,1795472783013541,1795472783079797,'"completed"',NULL,1);
INSERT INTO attempt VALUES(1000000001,0,0,'sim:0',NULL,NULL,NULL,5889,2874261,1795472783079797,1795472783107261,'"stopped"','rank 2 of 2 at epoch 1; 1 continues',1);
INSERT INTO attempt VALUES(1000000002,0,0,'sim:0',NULL,NULL,NULL,5899,2874266,1795472783107261,1795472783208360,'"stopped"','rank 3 of 3 at epoch 1; 1 continues',1);
INSERT INTO attempt VALUES(1000000003,0,0,'sim:0',NULL,NULL,NULL,5909,2874280,1795472783208360,1795472783336692,'"stopped"','rank 4 of 4 at epoch 1; 2 continue',1);
INSERT INTO attempt VALUES(1000000004,0,0,'sim:0',NULL,NULL,NULL,5919,2874288,1795472783336692,1795472783439267,'"stopped"','rank 2 of 2 at epoch 2; 1 continues',1);
INSERT INTO attempt VALUES(1000000005,0,0,'sim:0',NULL,NULL,NULL,5929,2874301,1795472783439267,1795472783569685,'"completed"',NULL,1);
CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO metric VALUES(1,'latency');
INSERT INTO metric VALUES(2,'loss');
CREATE TABLE report (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    metric_id INTEGER NOT NULL REFERENCES metric,
    step      INTEGER NOT NULL,
    value     REAL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (trial_id, metric_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO report VALUES(1000000000,1,1,2.0,0,1795472783063455);
INSERT INTO report VALUES(1000000000,1,2,2.0,0,1795472783064968);
INSERT INTO report VALUES(1000000000,1,3,2.0,0,1795472783065866);
INSERT INTO report VALUES(1000000000,1,4,2.0,0,1795472783066425);
INSERT INTO report VALUES(1000000000,2,1,0.32444931835653334495,0,1795472783063455);
INSERT INTO report VALUES(1000000000,2,2,0.32444931835653334495,0,1795472783064968);
INSERT INTO report VALUES(1000000000,2,3,0.32444931835653334495,0,1795472783065866);
INSERT INTO report VALUES(1000000000,2,4,0.32444931835653334495,0,1795472783066425);
INSERT INTO report VALUES(1000000001,1,1,2.0,0,1795472783098992);
INSERT INTO report VALUES(1000000001,2,1,0.47862468334061691876,0,1795472783098992);
INSERT INTO report VALUES(1000000002,1,1,2.0,0,1795472783171113);
INSERT INTO report VALUES(1000000002,2,1,0.6663994317355363961,0,1795472783171113);
INSERT INTO report VALUES(1000000003,1,1,2.0,0,1795472783301389);
INSERT INTO report VALUES(1000000003,2,1,0.98817955360350873128,0,1795472783301389);
INSERT INTO report VALUES(1000000004,1,1,2.0,0,1795472783386827);
INSERT INTO report VALUES(1000000004,1,2,2.0,0,1795472783393488);
INSERT INTO report VALUES(1000000004,2,1,0.35376084302736066078,0,1795472783386827);
INSERT INTO report VALUES(1000000004,2,2,0.35376084302736066078,0,1795472783393488);
INSERT INTO report VALUES(1000000005,1,1,2.0,0,1795472783513585);
INSERT INTO report VALUES(1000000005,1,2,2.0,0,1795472783514676);
INSERT INTO report VALUES(1000000005,1,3,2.0,0,1795472783521354);
INSERT INTO report VALUES(1000000005,1,4,2.0,0,1795472783533696);
INSERT INTO report VALUES(1000000005,2,1,0.10295717880544341671,0,1795472783513585);
INSERT INTO report VALUES(1000000005,2,2,0.10295717880544341671,0,1795472783514676);
INSERT INTO report VALUES(1000000005,2,3,0.10295717880544341671,0,1795472783521354);
INSERT INTO report VALUES(1000000005,2,4,0.10295717880544343059,0,1795472783533696);
CREATE TABLE decision (
    trial_id INTEGER NOT NULL REFERENCES trial,
    step     INTEGER NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('continue', 'pause', 'stop')),
    reason   TEXT CHECK (reason IS NOT NULL OR verdict = 'continue'),
    at       INTEGER NOT NULL,
    PRIMARY KEY (trial_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO decision VALUES(1000000000,1,'continue','{"rank":{"rank":1,"of":1,"first":1,"at":{"clock":"epoch","step":1}}}',1795472783063455);
INSERT INTO decision VALUES(1000000000,2,'continue','{"rank":{"rank":1,"of":1,"first":1,"at":{"clock":"epoch","step":2}}}',1795472783064968);
INSERT INTO decision VALUES(1000000001,1,'stop','{"rank":{"rank":2,"of":2,"first":1,"at":{"clock":"epoch","step":1}}}',1795472783098992);
INSERT INTO decision VALUES(1000000002,1,'stop','{"rank":{"rank":3,"of":3,"first":1,"at":{"clock":"epoch","step":1}}}',1795472783171113);
INSERT INTO decision VALUES(1000000003,1,'stop','{"rank":{"rank":4,"of":4,"first":2,"at":{"clock":"epoch","step":1}}}',1795472783301389);
INSERT INTO decision VALUES(1000000004,1,'continue','{"rank":{"rank":2,"of":5,"first":2,"at":{"clock":"epoch","step":1}}}',1795472783386827);
INSERT INTO decision VALUES(1000000004,2,'stop','{"rank":{"rank":2,"of":2,"first":1,"at":{"clock":"epoch","step":2}}}',1795472783393488);
INSERT INTO decision VALUES(1000000005,1,'continue','{"rank":{"rank":1,"of":6,"first":3,"at":{"clock":"epoch","step":1}}}',1795472783513585);
INSERT INTO decision VALUES(1000000005,2,'continue','{"rank":{"rank":1,"of":3,"first":1,"at":{"clock":"epoch","step":2}}}',1795472783514676);
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL, bytes INTEGER,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO event VALUES(1,1,1795472783013541,'{"type":"runner_started","pid":5869,"host":"vm","slots":[{"index":0,"device":"sim:0"}]}');
INSERT INTO event VALUES(2,1,1795472783013541,'{"type":"runner_described","lineage":{"command":["hpsearch","run","old.toml","--plain"],"directory":"/studies","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"46389f4db8b61b219c26a305cb10dc21567d78d036636a06218b769e23d14c57"},"machine":{"host":"vm","system":"Linux 6.18.44-fc-v595 x86_64","processor":"AMD EPYC","cores":2,"gpus":[]},"files":[]}}');
INSERT INTO event VALUES(3,1,1795472783013541,'{"type":"trial_created","trial":0,"params":{"x":0.32444931835653334},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(4,1,1795472783013541,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO event VALUES(5,1,1795472783037935,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":5879,"pid_started":2874256}');
INSERT INTO event VALUES(6,1,1795472783063455,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"latency":2.0,"loss":0.32444931835653334}}');
INSERT INTO event VALUES(7,1,1795472783063455,'{"type":"decided","trial":0,"step":1,"verdict":{"continue":{"rank":{"rank":1,"of":1,"first":1,"at":{"clock":"epoch","step":1}}}}}');
INSERT INTO event VALUES(8,1,1795472783064968,'{"type":"reported","trial":0,"attempt":0,"step":2,"metrics":{"latency":2.0,"loss":0.32444931835653334}}');
INSERT INTO event VALUES(9,1,1795472783064968,'{"type":"decided","trial":0,"step":2,"verdict":{"continue":{"rank":{"rank":1,"of":1,"first":1,"at":{"clock":"epoch","step":2}}}}}');
INSERT INTO event VALUES(10,1,1795472783065866,'{"type":"reported","trial":0,"attempt":0,"step":3,"metrics":{"latency":2.0,"loss":0.32444931835653334}}');
INSERT INTO event VALUES(11,1,1795472783066425,'{"type":"reported","trial":0,"attempt":0,"step":4,"metrics":{"latency":2.0,"loss":0.32444931835653334}}');
INSERT INTO event VALUES(12,1,1795472783079797,'{"type":"attempt_ended","trial":0,"attempt":0,"end":"completed","reason":null,"device_micros":66256}');
INSERT INTO event VALUES(13,1,1795472783079797,'{"type":"trial_finished","trial":0,"state":"complete","value":0.32444931835653334,"reason":null}');
INSERT INTO event VALUES(14,1,1795472783079797,'{"type":"trial_created","trial":1,"params":{"x":0.4786246833406169},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(15,1,1795472783079797,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO event VALUES(16,1,1795472783083719,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":5889,"pid_started":2874261}');
INSERT INTO event VALUES(17,1,1795472783098992,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"latency":2.0,"loss":0.4786246833406169}}');
INSERT INTO event VALUES(18,1,1795472783098992,'{"type":"decided","trial":1,"step":1,"verdict":{"stop":{"rank":{"rank":2,"of":2,"first":1,"at":{"clock":"epoch","step":1}}}}}');
INSERT INTO event VALUES(19,1,1795472783107261,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"stopped","reason":"rank 2 of 2 at epoch 1; 1 continues","device_micros":27464}');
INSERT INTO event VALUES(20,1,1795472783107261,'{"type":"trial_finished","trial":1,"state":"pruned","value":null,"reason":"rank 2 of 2 at epoch 1; 1 continues"}');
INSERT INTO event VALUES(21,1,1795472783107261,'{"type":"trial_created","trial":2,"params":{"x":0.6663994317355364},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(22,1,1795472783107261,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO event VALUES(23,1,1795472783141225,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":5899,"pid_started":2874266}');
INSERT INTO event VALUES(24,1,1795472783171113,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"latency":2.0,"loss":0.6663994317355364}}');
INSERT INTO event VALUES(25,1,1795472783171113,'{"type":"decided","trial":2,"step":1,"verdict":{"stop":{"rank":{"rank":3,"of":3,"first":1,"at":{"clock":"epoch","step":1}}}}}');
INSERT INTO event VALUES(26,1,1795472783208360,'{"type":"attempt_ended","trial":2,"attempt":0,"end":"stopped","reason":"rank 3 of 3 at epoch 1; 1 continues","device_micros":101099}');
INSERT INTO event VALUES(27,1,1795472783208360,'{"type":"trial_finished","trial":2,"state":"pruned","value":null,"reason":"rank 3 of 3 at epoch 1; 1 continues"}');
INSERT INTO event VALUES(28,1,1795472783208360,'{"type":"trial_created","trial":3,"params":{"x":0.9881795536035087},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(29,1,1795472783208360,'{"type":"attempt_started","trial":3,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO event VALUES(30,1,1795472783269630,'{"type":"attempt_launched","trial":3,"attempt":0,"pid":5909,"pid_started":2874280}');
INSERT INTO event VALUES(31,1,1795472783301389,'{"type":"reported","trial":3,"attempt":0,"step":1,"metrics":{"latency":2.0,"loss":0.9881795536035087}}');
INSERT INTO event VALUES(32,1,1795472783301389,'{"type":"decided","trial":3,"step":1,"verdict":{"stop":{"rank":{"rank":4,"of":4,"first":2,"at":{"clock":"epoch","step":1}}}}}');
INSERT INTO event VALUES(33,1,1795472783336692,'{"type":"attempt_ended","trial":3,"attempt":0,"end":"stopped","reason":"rank 4 of 4 at epoch 1; 2 continue","device_micros":128332}');
INSERT INTO event VALUES(34,1,1795472783336692,'{"type":"trial_finished","trial":3,"state":"pruned","value":null,"reason":"rank 4 of 4 at epoch 1; 2 continue"}');
INSERT INTO event VALUES(35,1,1795472783336692,'{"type":"trial_created","trial":4,"params":{"x":0.35376084302736066},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(36,1,1795472783336692,'{"type":"attempt_started","trial":4,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO event VALUES(37,1,1795472783361704,'{"type":"attempt_launched","trial":4,"attempt":0,"pid":5919,"pid_started":2874288}');
INSERT INTO event VALUES(38,1,1795472783386827,'{"type":"reported","trial":4,"attempt":0,"step":1,"metrics":{"latency":2.0,"loss":0.35376084302736066}}');
INSERT INTO event VALUES(39,1,1795472783386827,'{"type":"decided","trial":4,"step":1,"verdict":{"continue":{"rank":{"rank":2,"of":5,"first":2,"at":{"clock":"epoch","step":1}}}}}');
INSERT INTO event VALUES(40,1,1795472783393488,'{"type":"reported","trial":4,"attempt":0,"step":2,"metrics":{"latency":2.0,"loss":0.35376084302736066}}');
INSERT INTO event VALUES(41,1,1795472783393488,'{"type":"decided","trial":4,"step":2,"verdict":{"stop":{"rank":{"rank":2,"of":2,"first":1,"at":{"clock":"epoch","step":2}}}}}');
INSERT INTO event VALUES(42,1,1795472783439267,'{"type":"attempt_ended","trial":4,"attempt":0,"end":"stopped","reason":"rank 2 of 2 at epoch 2; 1 continues","device_micros":102575}');
INSERT INTO event VALUES(43,1,1795472783439267,'{"type":"trial_finished","trial":4,"state":"pruned","value":null,"reason":"rank 2 of 2 at epoch 2; 1 continues"}');
INSERT INTO event VALUES(44,1,1795472783439267,'{"type":"trial_created","trial":5,"params":{"x":0.10295717880544342},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(45,1,1795472783439267,'{"type":"attempt_started","trial":5,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO event VALUES(46,1,1795472783480741,'{"type":"attempt_launched","trial":5,"attempt":0,"pid":5929,"pid_started":2874301}');
INSERT INTO event VALUES(47,1,1795472783513585,'{"type":"reported","trial":5,"attempt":0,"step":1,"metrics":{"latency":2.0,"loss":0.10295717880544342}}');
INSERT INTO event VALUES(48,1,1795472783513585,'{"type":"decided","trial":5,"step":1,"verdict":{"continue":{"rank":{"rank":1,"of":6,"first":3,"at":{"clock":"epoch","step":1}}}}}');
INSERT INTO event VALUES(49,1,1795472783514676,'{"type":"reported","trial":5,"attempt":0,"step":2,"metrics":{"latency":2.0,"loss":0.10295717880544342}}');
INSERT INTO event VALUES(50,1,1795472783514676,'{"type":"decided","trial":5,"step":2,"verdict":{"continue":{"rank":{"rank":1,"of":3,"first":1,"at":{"clock":"epoch","step":2}}}}}');
INSERT INTO event VALUES(51,1,1795472783521354,'{"type":"reported","trial":5,"attempt":0,"step":3,"metrics":{"latency":2.0,"loss":0.10295717880544342}}');
INSERT INTO event VALUES(52,1,1795472783533696,'{"type":"reported","trial":5,"attempt":0,"step":4,"metrics":{"latency":2.0,"loss":0.10295717880544343}}');
INSERT INTO event VALUES(53,1,1795472783569685,'{"type":"attempt_ended","trial":5,"attempt":0,"end":"completed","reason":null,"device_micros":130418}');
INSERT INTO event VALUES(54,1,1795472783569685,'{"type":"trial_finished","trial":5,"state":"complete","value":0.10295717880544342,"reason":null}');
INSERT INTO event VALUES(55,1,1795472783569685,'{"type":"study_finished","reason":"the budget of 6 trials is used up"}');
INSERT INTO event VALUES(56,1,1795472783569685,'{"type":"runner_stopped","reason":"the budget of 6 trials is used up","ran_micros":556144}');
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
INSERT INTO runner VALUES(1,1,5869,'vm','[{"index":0,"device":"sim:0"}]',1795472783013541,1795472783569685,556144,'the budget of 6 trials is used up','{"command":["hpsearch","run","old.toml","--plain"],"directory":"/studies","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"46389f4db8b61b219c26a305cb10dc21567d78d036636a06218b769e23d14c57"},"machine":{"host":"vm","system":"Linux 6.18.44-fc-v595 x86_64","processor":"AMD EPYC","cores":2,"gpus":[]},"files":[]}');
CREATE TABLE lease (
    study_id    INTEGER PRIMARY KEY REFERENCES study,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pid         INTEGER,
    pid_started INTEGER,
    host        TEXT,
    acquired_at INTEGER, boot_id TEXT,
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) STRICT;
INSERT INTO lease VALUES(1,1,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO study_revision VALUES(1,0,0,1795472782734119,'{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"epoch","seed":0,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}}],"enqueue":[],"constraints":[{"limit":"latency < 9"}],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"asha","version":3,"options":{"max_resource":4,"min_resource":1,"reduction_factor":2}},"program":{"command":{"run":["sh","-c","for i in 1 2 3 4; do echo \"@hpsearch {\\\"step\\\":$i,\\\"loss\\\":{x}$i,\\\"latency\\\":2}\"; read -r answer; case $answer in *stop*) exit 0;; esac; done"],"cwd":"/studies","env":{}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}');
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
INSERT INTO store VALUES(1,'69b7039d05addbfe2fd7dfa627b63e46','ff66ce7515e2ae3b790e9dc24c3514dd',0);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('event',56);
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
COMMIT;
