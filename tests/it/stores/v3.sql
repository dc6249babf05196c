-- A store of schema version 3, as its last release wrote it: runs of a command study with variables of its own, and what its user asked for since.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 3;
BEGIN TRANSACTION;
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
    outcome     TEXT CHECK (json_valid(outcome)),
    reason      TEXT, runner INTEGER,
    PRIMARY KEY (trial_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "attempt" VALUES(1000000000,0,0,'sim:0',NULL,NULL,NULL,18719,105136,1795418169132132,1795418169150339,'{"failed":"program"}','exit status 3',1);
INSERT INTO "attempt" VALUES(1000000001,0,0,'sim:0',NULL,NULL,NULL,18734,105139,1795418169150339,1795418169179276,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000002,0,0,'sim:0',NULL,NULL,NULL,18743,105141,1795418169179276,1795418169200828,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000003,0,0,'sim:0',NULL,NULL,NULL,18752,105143,1795418169200828,1795418169212559,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000004,0,0,'sim:0',NULL,NULL,NULL,18759,105144,1795418169212559,1795418169223353,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000005,0,0,'sim:0',NULL,NULL,NULL,18766,105146,1795418169223353,1795418169240788,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000006,0,0,'sim:0',NULL,NULL,NULL,18789,105161,1795418169377469,1795418169404794,'"completed"',NULL,50);
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL, bytes INTEGER,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "checkpoint" VALUES(1000000001,11,1,'/old/runs/files/old/trial-1/checkpoints/1',1795418169171035,4096);
INSERT INTO "checkpoint" VALUES(1000000002,18,1,'/old/runs/files/old/trial-2/checkpoints/1',1795418169191068,4096);
INSERT INTO "checkpoint" VALUES(1000000004,32,1,'/old/runs/files/old/trial-4/checkpoints/1',1795418169218927,4096);
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
    optuna_json TEXT CHECK (json_valid(optuna_json)),              -- NULL: not in the space
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "dimension" VALUES(1,0,'x','{"attributes":{"high":1.0,"log":false,"low":0.0,"step":null},"name":"FloatDistribution"}');
INSERT INTO "dimension" VALUES(1,1,'kind','{"attributes":{"choices":["a","b"]},"name":"CategoricalDistribution"}');
CREATE TABLE document (
    digest TEXT PRIMARY KEY,                                                    -- BLAKE3, hexadecimal
    body   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "document" VALUES('6d4ae4953c172268d123ef1695aa8647f02dc407cf6d0a5c93628550381b1ec9','diff --git a/study.toml b/study.toml
index 49f2786..c79cc27 100644
--- a/study.toml
+++ b/study.toml
@@ -11,7 +11,7 @@ kind = ["a", "b"]
 type = "random"
 [command]
 run = ["sh", "trial.sh", "{x}"]
-env = { API_KEY = "first-key-aaaaaaaa" }
+env = { API_KEY = "sk-secret-0123456789", MODE = "fast" }
 [budget]
 trials = 5
 [devices]
');
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO "event" VALUES(1,1,1795418169132132,'{"type":"runner_started","pid":18708,"host":"here","slots":[{"index":0,"device":"sim:0"}]}');
INSERT INTO "event" VALUES(2,1,1795418169132132,'{"type":"runner_described","lineage":{"command":["hpsearch","run","study.toml","--plain","--set","command.env.TOKEN=tok-secret-9876543210"],"directory":"/old","code":{"commit":{"commit":"7e672e0cebcb942bd924328ee9c3be9399cc0c4d","branch":"master","changes":{"digest":"6d4ae4953c172268d123ef1695aa8647f02dc407cf6d0a5c93628550381b1ec9","bytes":332,"cut":false,"files":1},"untracked":["runs/"]}},"hpsearch":{"version":"0.1.0","digest":"e51c20dbbe403d9911072869cfc9bd4403cce705c994d5e1c1c62394433b78ce"},"machine":{"host":"here","system":"Linux x86_64","processor":"a processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/old/trial.sh","bytes":215,"digest":"bbf4cb2bf11c2ec78ed71e9092788bb6121323d83f4a2ec09c0a70271ef1031d"}]}}');
INSERT INTO "event" VALUES(3,1,1795418169132132,'{"type":"trial_created","trial":0,"params":{"kind":"b","x":0.7180511049283845},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(4,1,1795418169132132,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(5,1,1795418169136551,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":18719,"pid_started":105136}');
INSERT INTO "event" VALUES(6,1,1795418169150339,'{"type":"attempt_ended","trial":0,"attempt":0,"end":{"failed":"program"},"reason":"exit status 3","device_micros":18207}');
INSERT INTO "event" VALUES(7,1,1795418169150339,'{"type":"trial_finished","trial":0,"state":"failed","value":null,"reason":"exit status 3"}');
INSERT INTO "event" VALUES(8,1,1795418169150339,'{"type":"trial_created","trial":1,"params":{"kind":"b","x":0.3033117825955386},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(9,1,1795418169150339,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(10,1,1795418169164479,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":18734,"pid_started":105139}');
INSERT INTO "event" VALUES(11,1,1795418169171035,'{"type":"checkpoint_saved","trial":1,"step":1,"path":"/old/runs/files/old/trial-1/checkpoints/1","bytes":4096}');
INSERT INTO "event" VALUES(12,1,1795418169171035,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"eval_accuracy":0.5,"loss":0.3033117825955386}}');
INSERT INTO "event" VALUES(13,1,1795418169179276,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"completed","reason":null,"device_micros":28937}');
INSERT INTO "event" VALUES(14,1,1795418169179276,'{"type":"trial_finished","trial":1,"state":"complete","value":0.3033117825955386,"reason":null}');
INSERT INTO "event" VALUES(15,1,1795418169179276,'{"type":"trial_created","trial":2,"params":{"kind":"b","x":0.26893446674757693},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(16,1,1795418169179276,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(17,1,1795418169183306,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":18743,"pid_started":105141}');
INSERT INTO "event" VALUES(18,1,1795418169191068,'{"type":"checkpoint_saved","trial":2,"step":1,"path":"/old/runs/files/old/trial-2/checkpoints/1","bytes":4096}');
INSERT INTO "event" VALUES(19,1,1795418169193393,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"eval_accuracy":0.5,"loss":0.26893446674757693}}');
INSERT INTO "event" VALUES(20,1,1795418169200828,'{"type":"attempt_ended","trial":2,"attempt":0,"end":"completed","reason":null,"device_micros":21552}');
INSERT INTO "event" VALUES(21,1,1795418169200828,'{"type":"trial_finished","trial":2,"state":"complete","value":0.26893446674757693,"reason":null}');
INSERT INTO "event" VALUES(22,1,1795418169200828,'{"type":"trial_created","trial":3,"params":{"kind":"b","x":0.6919466849529711},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(23,1,1795418169200828,'{"type":"attempt_started","trial":3,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(24,1,1795418169204330,'{"type":"attempt_launched","trial":3,"attempt":0,"pid":18752,"pid_started":105143}');
INSERT INTO "event" VALUES(25,1,1795418169207872,'{"type":"checkpoint_saved","trial":3,"step":1,"path":"/old/runs/files/old/trial-3/checkpoints/1","bytes":4096}');
INSERT INTO "event" VALUES(26,1,1795418169210207,'{"type":"reported","trial":3,"attempt":0,"step":1,"metrics":{"eval_accuracy":0.5,"loss":0.6919466849529711}}');
INSERT INTO "event" VALUES(27,1,1795418169212559,'{"type":"attempt_ended","trial":3,"attempt":0,"end":"completed","reason":null,"device_micros":11731}');
INSERT INTO "event" VALUES(28,1,1795418169212559,'{"type":"trial_finished","trial":3,"state":"complete","value":0.6919466849529711,"reason":null}');
INSERT INTO "event" VALUES(29,1,1795418169212559,'{"type":"trial_created","trial":4,"params":{"kind":"b","x":0.14606644716495332},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(30,1,1795418169212559,'{"type":"attempt_started","trial":4,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(31,1,1795418169215672,'{"type":"attempt_launched","trial":4,"attempt":0,"pid":18759,"pid_started":105144}');
INSERT INTO "event" VALUES(32,1,1795418169218927,'{"type":"checkpoint_saved","trial":4,"step":1,"path":"/old/runs/files/old/trial-4/checkpoints/1","bytes":4096}');
INSERT INTO "event" VALUES(33,1,1795418169221033,'{"type":"reported","trial":4,"attempt":0,"step":1,"metrics":{"eval_accuracy":0.5,"loss":0.14606644716495332}}');
INSERT INTO "event" VALUES(34,1,1795418169223353,'{"type":"attempt_ended","trial":4,"attempt":0,"end":"completed","reason":null,"device_micros":10794}');
INSERT INTO "event" VALUES(35,1,1795418169223353,'{"type":"trial_finished","trial":4,"state":"complete","value":0.14606644716495332,"reason":null}');
INSERT INTO "event" VALUES(36,1,1795418169223353,'{"type":"checkpoint_dropped","trial":3,"path":"/old/runs/files/old/trial-3/checkpoints/1"}');
INSERT INTO "event" VALUES(37,1,1795418169223353,'{"type":"trial_created","trial":5,"params":{"kind":"b","x":0.4400606740316316},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(38,1,1795418169223353,'{"type":"attempt_started","trial":5,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(39,1,1795418169226620,'{"type":"attempt_launched","trial":5,"attempt":0,"pid":18766,"pid_started":105146}');
INSERT INTO "event" VALUES(40,1,1795418169232145,'{"type":"checkpoint_saved","trial":5,"step":1,"path":"/old/runs/files/old/trial-5/checkpoints/1","bytes":4096}');
INSERT INTO "event" VALUES(41,1,1795418169232633,'{"type":"reported","trial":5,"attempt":0,"step":1,"metrics":{"eval_accuracy":0.5,"loss":0.4400606740316316}}');
INSERT INTO "event" VALUES(42,1,1795418169240788,'{"type":"attempt_ended","trial":5,"attempt":0,"end":"completed","reason":null,"device_micros":17435}');
INSERT INTO "event" VALUES(43,1,1795418169240788,'{"type":"trial_finished","trial":5,"state":"complete","value":0.4400606740316316,"reason":null}');
INSERT INTO "event" VALUES(44,1,1795418169240788,'{"type":"checkpoint_dropped","trial":5,"path":"/old/runs/files/old/trial-5/checkpoints/1"}');
INSERT INTO "event" VALUES(45,1,1795418169240788,'{"type":"study_finished","reason":"the budget of 5 trials is used up"}');
INSERT INTO "event" VALUES(46,1,1795418169240788,'{"type":"runner_stopped","reason":"the budget of 5 trials is used up","ran_micros":108656}');
INSERT INTO "event" VALUES(47,1,1795418169288273,'{"type":"budget_extended","by":{"trials":1,"time":{"secs":0,"nanos":0}}}');
INSERT INTO "event" VALUES(48,1,1795418169288273,'{"type":"study_reopened","reason":"its budget was extended"}');
INSERT INTO "event" VALUES(49,1,1795418169288273,'{"type":"request_served","id":1,"answer":{"done":"the budget is 6 trials now; it starts when the study is run"}}');
INSERT INTO "event" VALUES(50,1,1795418169377469,'{"type":"runner_started","pid":18778,"host":"here","slots":[{"index":0,"device":"sim:0"}]}');
INSERT INTO "event" VALUES(51,1,1795418169377469,'{"type":"runner_described","lineage":{"command":["hpsearch","run","study.toml","--plain","--set","command.env.TOKEN=tok-secret-9876543210"],"directory":"/old","code":{"commit":{"commit":"7e672e0cebcb942bd924328ee9c3be9399cc0c4d","branch":"master","changes":{"digest":"6d4ae4953c172268d123ef1695aa8647f02dc407cf6d0a5c93628550381b1ec9","bytes":332,"cut":false,"files":1},"untracked":["runs/"]}},"hpsearch":{"version":"0.1.0","digest":"e51c20dbbe403d9911072869cfc9bd4403cce705c994d5e1c1c62394433b78ce"},"machine":{"host":"here","system":"Linux x86_64","processor":"a processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/old/trial.sh","bytes":215,"digest":"bbf4cb2bf11c2ec78ed71e9092788bb6121323d83f4a2ec09c0a70271ef1031d"}]}}');
INSERT INTO "event" VALUES(52,1,1795418169377469,'{"type":"trial_created","trial":6,"params":{"kind":"a","x":0.5306194629217419},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(53,1,1795418169377469,'{"type":"attempt_started","trial":6,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(54,1,1795418169384219,'{"type":"attempt_launched","trial":6,"attempt":0,"pid":18789,"pid_started":105161}');
INSERT INTO "event" VALUES(55,1,1795418169393201,'{"type":"checkpoint_saved","trial":6,"step":1,"path":"/old/runs/files/old/trial-6/checkpoints/1","bytes":4096}');
INSERT INTO "event" VALUES(56,1,1795418169395599,'{"type":"reported","trial":6,"attempt":0,"step":1,"metrics":{"eval_accuracy":0.5,"loss":0.5306194629217419}}');
INSERT INTO "event" VALUES(57,1,1795418169404794,'{"type":"attempt_ended","trial":6,"attempt":0,"end":"completed","reason":null,"device_micros":27325}');
INSERT INTO "event" VALUES(58,1,1795418169404794,'{"type":"trial_finished","trial":6,"state":"complete","value":0.5306194629217419,"reason":null}');
INSERT INTO "event" VALUES(59,1,1795418169404794,'{"type":"checkpoint_dropped","trial":6,"path":"/old/runs/files/old/trial-6/checkpoints/1"}');
INSERT INTO "event" VALUES(60,1,1795418169404794,'{"type":"study_finished","reason":"the budget of 6 trials is used up"}');
INSERT INTO "event" VALUES(61,1,1795418169404794,'{"type":"runner_stopped","reason":"the budget of 6 trials is used up","ran_micros":27325}');
INSERT INTO "event" VALUES(62,1,1795418247802837,'{"type":"noted","trial":null,"text":"a note"}');
INSERT INTO "event" VALUES(63,1,1795418247842152,'{"type":"noted","trial":2,"text":"odd one"}');
INSERT INTO "event" VALUES(64,1,1795418247869463,'{"type":"tagged","trial":null,"tag":"early","present":true}');
INSERT INTO "event" VALUES(65,1,1795418247901396,'{"type":"tagged","trial":2,"tag":"odd","present":true}');
CREATE TABLE lease (
    study_id    INTEGER PRIMARY KEY REFERENCES study,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pid         INTEGER,
    pid_started INTEGER,
    host        TEXT,
    acquired_at INTEGER,
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) STRICT;
INSERT INTO "lease" VALUES(1,3,NULL,NULL,NULL,NULL);
CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "metric" VALUES(1,'eval_accuracy');
INSERT INTO "metric" VALUES(2,'loss');
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
INSERT INTO "param" VALUES(1000000000,0,'0.7180511049283845',7.18051104928384531511e-01);
INSERT INTO "param" VALUES(1000000000,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000001,0,'0.3033117825955386',3.03311782595538592666e-01);
INSERT INTO "param" VALUES(1000000001,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000002,0,'0.26893446674757693',2.68934466747576927936e-01);
INSERT INTO "param" VALUES(1000000002,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000003,0,'0.6919466849529711',6.91946684952971069471e-01);
INSERT INTO "param" VALUES(1000000003,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000004,0,'0.14606644716495332',1.46066447164953316928e-01);
INSERT INTO "param" VALUES(1000000004,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000005,0,'0.4400606740316316',4.40060674031631626768e-01);
INSERT INTO "param" VALUES(1000000005,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000006,0,'0.5306194629217419',5.30619462921741891214e-01);
INSERT INTO "param" VALUES(1000000006,1,'"a"',0.0);
CREATE TABLE paused_device (
    study_id INTEGER NOT NULL REFERENCES study,
    device   TEXT NOT NULL,
    PRIMARY KEY (study_id, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE report (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    metric_id INTEGER NOT NULL REFERENCES metric,
    step      INTEGER NOT NULL,
    value     REAL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (trial_id, metric_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO "report" VALUES(1000000001,1,1,0.5,0,1795418169171035);
INSERT INTO "report" VALUES(1000000001,2,1,3.03311782595538592666e-01,0,1795418169171035);
INSERT INTO "report" VALUES(1000000002,1,1,0.5,0,1795418169193393);
INSERT INTO "report" VALUES(1000000002,2,1,2.68934466747576927936e-01,0,1795418169193393);
INSERT INTO "report" VALUES(1000000003,1,1,0.5,0,1795418169210207);
INSERT INTO "report" VALUES(1000000003,2,1,6.91946684952971069471e-01,0,1795418169210207);
INSERT INTO "report" VALUES(1000000004,1,1,0.5,0,1795418169221033);
INSERT INTO "report" VALUES(1000000004,2,1,1.46066447164953316928e-01,0,1795418169221033);
INSERT INTO "report" VALUES(1000000005,1,1,0.5,0,1795418169232633);
INSERT INTO "report" VALUES(1000000005,2,1,4.40060674031631626768e-01,0,1795418169232633);
INSERT INTO "report" VALUES(1000000006,1,1,0.5,0,1795418169395599);
INSERT INTO "report" VALUES(1000000006,2,1,5.30619462921741891214e-01,0,1795418169395599);
CREATE TABLE request (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id  INTEGER NOT NULL REFERENCES study,
    body      TEXT NOT NULL CHECK (json_valid(body)),
    at        INTEGER NOT NULL,
    served_at INTEGER
, answer TEXT CHECK (json_valid(answer))) STRICT;
INSERT INTO "request" VALUES(1,1,'{"type":"extend","by":{"trials":1,"time":{"secs":0,"nanos":0}}}',1795418169270743,1795418169288273,'{"done":"the budget is 6 trials now; it starts when the study is run"}');
INSERT INTO "request" VALUES(2,1,'{"type":"note","trial":null,"text":"a note"}',1795418247802837,1795418247802837,'{"done":""}');
INSERT INTO "request" VALUES(3,1,'{"type":"note","trial":2,"text":"odd one"}',1795418247842152,1795418247842152,'{"done":""}');
INSERT INTO "request" VALUES(4,1,'{"type":"tag","trial":null,"tag":"early","present":true}',1795418247869463,1795418247869463,'{"done":""}');
INSERT INTO "request" VALUES(5,1,'{"type":"tag","trial":2,"tag":"odd","present":true}',1795418247901396,1795418247901396,'{"done":""}');
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
, lineage TEXT CHECK (json_valid(lineage))) STRICT;
INSERT INTO "runner" VALUES(1,1,18708,'here','[{"index":0,"device":"sim:0"}]',1795418169132132,1795418169240788,108656,'the budget of 5 trials is used up','{"command":["hpsearch","run","study.toml","--plain","--set","command.env.TOKEN=tok-secret-9876543210"],"directory":"/old","code":{"commit":{"commit":"7e672e0cebcb942bd924328ee9c3be9399cc0c4d","branch":"master","changes":{"digest":"6d4ae4953c172268d123ef1695aa8647f02dc407cf6d0a5c93628550381b1ec9","bytes":332,"cut":false,"files":1},"untracked":["runs/"]}},"hpsearch":{"version":"0.1.0","digest":"e51c20dbbe403d9911072869cfc9bd4403cce705c994d5e1c1c62394433b78ce"},"machine":{"host":"here","system":"Linux x86_64","processor":"a processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/old/trial.sh","bytes":215,"digest":"bbf4cb2bf11c2ec78ed71e9092788bb6121323d83f4a2ec09c0a70271ef1031d"}]}');
INSERT INTO "runner" VALUES(50,1,18778,'here','[{"index":0,"device":"sim:0"}]',1795418169377469,1795418169404794,27325,'the budget of 6 trials is used up','{"command":["hpsearch","run","study.toml","--plain","--set","command.env.TOKEN=tok-secret-9876543210"],"directory":"/old","code":{"commit":{"commit":"7e672e0cebcb942bd924328ee9c3be9399cc0c4d","branch":"master","changes":{"digest":"6d4ae4953c172268d123ef1695aa8647f02dc407cf6d0a5c93628550381b1ec9","bytes":332,"cut":false,"files":1},"untracked":["runs/"]}},"hpsearch":{"version":"0.1.0","digest":"e51c20dbbe403d9911072869cfc9bd4403cce705c994d5e1c1c62394433b78ce"},"machine":{"host":"here","system":"Linux x86_64","processor":"a processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/old/trial.sh","bytes":215,"digest":"bbf4cb2bf11c2ec78ed71e9092788bb6121323d83f4a2ec09c0a70271ef1031d"}]}');
CREATE TABLE study (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,
    spec            TEXT NOT NULL CHECK (json_valid(spec)),        -- as resolved, the last accepted version
    revision        INTEGER NOT NULL DEFAULT 0,                    -- counts accepted changes of spec
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    finished_reason TEXT,                                          -- NULL while there is something to do
    ran_micros      INTEGER NOT NULL DEFAULT 0                     -- by runners that have stopped
, paused_reason TEXT, extra_trials INTEGER NOT NULL DEFAULT 0, extra_micros INTEGER NOT NULL DEFAULT 0, race TEXT CHECK (json_valid(race)), killed_at INTEGER, extra_device_hours REAL NOT NULL DEFAULT 0, extra_cost REAL NOT NULL DEFAULT 0, busy_micros INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "study" VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"step","seed":7,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}},{"name":"kind","distribution":{"choice":{"choices":["a","b"]}}}],"enqueue":[],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"none","version":1,"options":{}},"program":{"command":{"run":["sh","trial.sh","{x}"],"cwd":"/old","env":{"API_KEY":"sk-secret-0123456789","MODE":"fast","TOKEN":"tok-secret-9876543210"}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}',0,1795418169089134,1795418169089134,'the budget of 6 trials is used up',135981,NULL,1,0,NULL,NULL,0.0,0.0,135981);
CREATE TABLE study_note (
    study_id INTEGER NOT NULL REFERENCES study,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (study_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "study_note" VALUES(1,62,1795418247802837,'a note');
CREATE TABLE study_revision (
    study_id INTEGER NOT NULL REFERENCES study,
    revision INTEGER NOT NULL,
    seq      INTEGER NOT NULL,                                                  -- the last event before it
    at       INTEGER NOT NULL,
    spec     TEXT NOT NULL CHECK (json_valid(spec)),
    PRIMARY KEY (study_id, revision)
) STRICT, WITHOUT ROWID;
INSERT INTO "study_revision" VALUES(1,0,0,1795418169089134,'{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"step","seed":7,"duplicates":"skip","budget":{"trials":5,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}},{"name":"kind","distribution":{"choice":{"choices":["a","b"]}}}],"enqueue":[],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"none","version":1,"options":{}},"program":{"command":{"run":["sh","trial.sh","{x}"],"cwd":"/old","env":{"API_KEY":"sk-secret-0123456789","MODE":"fast","TOKEN":"tok-secret-9876543210"}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}');
CREATE TABLE study_tag (
    study_id INTEGER NOT NULL REFERENCES study,
    tag      TEXT NOT NULL,
    PRIMARY KEY (study_id, tag)
) STRICT, WITHOUT ROWID;
INSERT INTO "study_tag" VALUES(1,'early');
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
INSERT INTO "trial" VALUES(1000000000,1,0,'failed','{"sampled":"random"}',1,1,'sim:0',NULL,'exit status 3',1795418169132132,1795418169132132,1795418169150339,18207,NULL,NULL,'{}',NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(1000000001,1,1,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795418169150339,1795418169150339,1795418169179276,28937,1,3.03311782595538592666e-01,'{"eval_accuracy":0.5,"loss":0.3033117825955386}',NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(1000000002,1,2,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795418169179276,1795418169179276,1795418169200828,21552,1,2.68934466747576927936e-01,'{"eval_accuracy":0.5,"loss":0.26893446674757693}',NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(1000000003,1,3,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795418169200828,1795418169200828,1795418169212559,11731,1,6.91946684952971069471e-01,'{"eval_accuracy":0.5,"loss":0.6919466849529711}',NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(1000000004,1,4,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795418169212559,1795418169212559,1795418169223353,10794,1,1.46066447164953316928e-01,'{"eval_accuracy":0.5,"loss":0.14606644716495332}',NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(1000000005,1,5,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795418169223353,1795418169223353,1795418169240788,17435,1,4.40060674031631626768e-01,'{"eval_accuracy":0.5,"loss":0.4400606740316316}',NULL,NULL,NULL,NULL);
INSERT INTO "trial" VALUES(1000000006,1,6,'complete','{"sampled":"random"}',1,0,'sim:0',NULL,NULL,1795418169377469,1795418169377469,1795418169404794,27325,1,5.30619462921741891214e-01,'{"eval_accuracy":0.5,"loss":0.5306194629217419}',NULL,NULL,NULL,NULL);
CREATE TABLE trial_note (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_note" VALUES(1000000002,63,1795418247842152,'odd one');
CREATE TABLE trial_tag (
    trial_id INTEGER NOT NULL REFERENCES trial,
    tag      TEXT NOT NULL,
    PRIMARY KEY (trial_id, tag)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_tag" VALUES(1000000002,'odd');
CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_value" VALUES(1000000001,0,3.03311782595538592666e-01);
INSERT INTO "trial_value" VALUES(1000000002,0,2.68934466747576927936e-01);
INSERT INTO "trial_value" VALUES(1000000003,0,6.91946684952971069471e-01);
INSERT INTO "trial_value" VALUES(1000000004,0,1.46066447164953316928e-01);
INSERT INTO "trial_value" VALUES(1000000005,0,4.40060674031631626768e-01);
INSERT INTO "trial_value" VALUES(1000000006,0,5.30619462921741891214e-01);
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',65);
INSERT INTO "sqlite_sequence" VALUES('request',5);
COMMIT;
