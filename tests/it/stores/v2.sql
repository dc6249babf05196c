-- A store of schema version 2, as its last release wrote it: a run of a command study, and what its user asked for since.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 2;
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
    reason      TEXT,
    PRIMARY KEY (trial_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "attempt" VALUES(1000000000,0,0,'sim:0',NULL,NULL,NULL,20701,1244495,1795280965935821,1795280965955072,'{"failed":"program"}','exit status 3');
INSERT INTO "attempt" VALUES(1000000001,0,0,'sim:0',NULL,NULL,NULL,20714,1244497,1795280965955072,1795280965974383,'"completed"',NULL);
INSERT INTO "attempt" VALUES(1000000002,0,0,'sim:0',NULL,NULL,NULL,20726,1244499,1795280965974383,1795280965989775,'"completed"',NULL);
INSERT INTO "attempt" VALUES(1000000003,0,0,'sim:0',NULL,NULL,NULL,20737,1244500,1795280965989775,1795280966004721,'"completed"',NULL);
INSERT INTO "attempt" VALUES(1000000004,0,0,'sim:0',NULL,NULL,NULL,20748,1244502,1795280966004721,1795280966016079,'"stopped"','killed by signal 15');
INSERT INTO "attempt" VALUES(1000000005,0,0,'sim:0',NULL,NULL,NULL,20759,1244503,1795280966016079,1795280966055889,'"completed"',NULL);
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL,
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
INSERT INTO "decision" VALUES(1000000000,1,'continue','rank 1 of 1 at step 1; the first 2 go on',1795280965945597);
INSERT INTO "decision" VALUES(1000000000,3,'continue','rank 1 of 1 at step 3; the first 2 go on',1795280965948954);
INSERT INTO "decision" VALUES(1000000001,1,'continue','rank 1 of 2 at step 1; the first 2 go on',1795280965965453);
INSERT INTO "decision" VALUES(1000000001,3,'continue','rank 1 of 2 at step 3; the first 2 go on',1795280965968426);
INSERT INTO "decision" VALUES(1000000002,1,'continue','rank 1 of 3 at step 1; 1 goes on',1795280965981302);
INSERT INTO "decision" VALUES(1000000002,3,'continue','rank 1 of 3 at step 3; 1 goes on',1795280965984060);
INSERT INTO "decision" VALUES(1000000003,1,'continue','rank 1 of 4 at step 1; 1 goes on',1795280965996217);
INSERT INTO "decision" VALUES(1000000003,3,'continue','rank 1 of 4 at step 3; 1 goes on',1795280965999061);
INSERT INTO "decision" VALUES(1000000004,1,'stop','rank 5 of 5 at step 1; 1 goes on',1795280966011092);
INSERT INTO "decision" VALUES(1000000005,1,'continue','rank 1 of 6 at step 1; 2 go on',1795280966036284);
INSERT INTO "decision" VALUES(1000000005,3,'continue','rank 1 of 5 at step 3; 1 goes on',1795280966039576);
CREATE TABLE dimension (
    study_id    INTEGER NOT NULL REFERENCES study,
    idx         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    optuna_json TEXT CHECK (json_valid(optuna_json)),              -- NULL: not in the space
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "dimension" VALUES(1,0,'x','{"attributes":{"high":1.0,"log":false,"low":0.0,"step":null},"name":"FloatDistribution"}');
INSERT INTO "dimension" VALUES(1,1,'kind','{"attributes":{"choices":["a","b","c"]},"name":"CategoricalDistribution"}');
INSERT INTO "dimension" VALUES(1,2,'depth','{"attributes":{"high":3,"log":false,"low":1,"step":1},"name":"IntDistribution"}');
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO "event" VALUES(1,1,1795280965935821,'{"type":"runner_started","pid":20690,"host":"host","slots":[{"index":0,"device":"sim:0"}]}');
INSERT INTO "event" VALUES(2,1,1795280965935821,'{"type":"trial_created","trial":0,"params":{"kind":"c","x":0.7180511049283845},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(3,1,1795280965935821,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(4,1,1795280965939104,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":20701,"pid_started":1244495}');
INSERT INTO "event" VALUES(5,1,1795280965945597,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"loss":1.17477}}');
INSERT INTO "event" VALUES(6,1,1795280965945597,'{"type":"decided","trial":0,"step":1,"verdict":{"continue":"rank 1 of 1 at step 1; the first 2 go on"}}');
INSERT INTO "event" VALUES(7,1,1795280965947669,'{"type":"reported","trial":0,"attempt":0,"step":2,"metrics":{"loss":0.674767}}');
INSERT INTO "event" VALUES(8,1,1795280965948954,'{"type":"reported","trial":0,"attempt":0,"step":3,"metrics":{"loss":0.5081}}');
INSERT INTO "event" VALUES(9,1,1795280965948954,'{"type":"decided","trial":0,"step":3,"verdict":{"continue":"rank 1 of 1 at step 3; the first 2 go on"}}');
INSERT INTO "event" VALUES(10,1,1795280965950257,'{"type":"reported","trial":0,"attempt":0,"step":4,"metrics":{"loss":0.424767}}');
INSERT INTO "event" VALUES(11,1,1795280965955072,'{"type":"attempt_ended","trial":0,"attempt":0,"end":{"failed":"program"},"reason":"exit status 3"}');
INSERT INTO "event" VALUES(12,1,1795280965955072,'{"type":"trial_finished","trial":0,"state":"failed","value":null,"reason":"exit status 3"}');
INSERT INTO "event" VALUES(13,1,1795280965955072,'{"type":"trial_created","trial":1,"params":{"kind":"a","x":0.030331178259553858},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(14,1,1795280965955072,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(15,1,1795280965961245,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":20714,"pid_started":1244497}');
INSERT INTO "event" VALUES(16,1,1795280965965453,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"loss":1.07272}}');
INSERT INTO "event" VALUES(17,1,1795280965965453,'{"type":"decided","trial":1,"step":1,"verdict":{"continue":"rank 1 of 2 at step 1; the first 2 go on"}}');
INSERT INTO "event" VALUES(18,1,1795280965967178,'{"type":"reported","trial":1,"attempt":0,"step":2,"metrics":{"loss":0.572721}}');
INSERT INTO "event" VALUES(19,1,1795280965968426,'{"type":"reported","trial":1,"attempt":0,"step":3,"metrics":{"loss":0.406055}}');
INSERT INTO "event" VALUES(20,1,1795280965968426,'{"type":"decided","trial":1,"step":3,"verdict":{"continue":"rank 1 of 2 at step 3; the first 2 go on"}}');
INSERT INTO "event" VALUES(21,1,1795280965969724,'{"type":"reported","trial":1,"attempt":0,"step":4,"metrics":{"loss":0.322721}}');
INSERT INTO "event" VALUES(22,1,1795280965974383,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"completed","reason":null}');
INSERT INTO "event" VALUES(23,1,1795280965974383,'{"type":"trial_finished","trial":1,"state":"complete","value":0.322721,"reason":null}');
INSERT INTO "event" VALUES(24,1,1795280965974383,'{"type":"trial_created","trial":2,"params":{"kind":"a","x":0.5268934466747577},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(25,1,1795280965974383,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(26,1,1795280965977464,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":20726,"pid_started":1244499}');
INSERT INTO "event" VALUES(27,1,1795280965981302,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"loss":1.05148}}');
INSERT INTO "event" VALUES(28,1,1795280965981302,'{"type":"decided","trial":2,"step":1,"verdict":{"continue":"rank 1 of 3 at step 1; 1 goes on"}}');
INSERT INTO "event" VALUES(29,1,1795280965982800,'{"type":"reported","trial":2,"attempt":0,"step":2,"metrics":{"loss":0.551481}}');
INSERT INTO "event" VALUES(30,1,1795280965984060,'{"type":"reported","trial":2,"attempt":0,"step":3,"metrics":{"loss":0.384814}}');
INSERT INTO "event" VALUES(31,1,1795280965984060,'{"type":"decided","trial":2,"step":3,"verdict":{"continue":"rank 1 of 3 at step 3; 1 goes on"}}');
INSERT INTO "event" VALUES(32,1,1795280965985415,'{"type":"reported","trial":2,"attempt":0,"step":4,"metrics":{"loss":0.301481}}');
INSERT INTO "event" VALUES(33,1,1795280965989775,'{"type":"attempt_ended","trial":2,"attempt":0,"end":"completed","reason":null}');
INSERT INTO "event" VALUES(34,1,1795280965989775,'{"type":"trial_finished","trial":2,"state":"complete","value":0.301481,"reason":null}');
INSERT INTO "event" VALUES(35,1,1795280965989775,'{"type":"trial_created","trial":3,"params":{"depth":3,"kind":"b","x":0.4691946684952971},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(36,1,1795280965989775,'{"type":"attempt_started","trial":3,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(37,1,1795280965992347,'{"type":"attempt_launched","trial":3,"attempt":0,"pid":20737,"pid_started":1244500}');
INSERT INTO "event" VALUES(38,1,1795280965996217,'{"type":"reported","trial":3,"attempt":0,"step":1,"metrics":{"loss":1.02863}}');
INSERT INTO "event" VALUES(39,1,1795280965996217,'{"type":"decided","trial":3,"step":1,"verdict":{"continue":"rank 1 of 4 at step 1; 1 goes on"}}');
INSERT INTO "event" VALUES(40,1,1795280965997688,'{"type":"reported","trial":3,"attempt":0,"step":2,"metrics":{"loss":0.528627}}');
INSERT INTO "event" VALUES(41,1,1795280965999061,'{"type":"reported","trial":3,"attempt":0,"step":3,"metrics":{"loss":0.36196}}');
INSERT INTO "event" VALUES(42,1,1795280965999061,'{"type":"decided","trial":3,"step":3,"verdict":{"continue":"rank 1 of 4 at step 3; 1 goes on"}}');
INSERT INTO "event" VALUES(43,1,1795280966000322,'{"type":"reported","trial":3,"attempt":0,"step":4,"metrics":{"loss":0.278627}}');
INSERT INTO "event" VALUES(44,1,1795280966004721,'{"type":"attempt_ended","trial":3,"attempt":0,"end":"completed","reason":null}');
INSERT INTO "event" VALUES(45,1,1795280966004721,'{"type":"trial_finished","trial":3,"state":"complete","value":0.278627,"reason":null}');
INSERT INTO "event" VALUES(46,1,1795280966004721,'{"type":"trial_created","trial":4,"params":{"depth":1,"kind":"b","x":0.9146066447164953},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(47,1,1795280966004721,'{"type":"attempt_started","trial":4,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(48,1,1795280966006989,'{"type":"attempt_launched","trial":4,"attempt":0,"pid":20748,"pid_started":1244502}');
INSERT INTO "event" VALUES(49,1,1795280966011092,'{"type":"reported","trial":4,"attempt":0,"step":1,"metrics":{"loss":1.37774}}');
INSERT INTO "event" VALUES(50,1,1795280966011092,'{"type":"decided","trial":4,"step":1,"verdict":{"stop":"rank 5 of 5 at step 1; 1 goes on"}}');
INSERT INTO "event" VALUES(51,1,1795280966016079,'{"type":"attempt_ended","trial":4,"attempt":0,"end":"stopped","reason":"killed by signal 15"}');
INSERT INTO "event" VALUES(52,1,1795280966016079,'{"type":"trial_finished","trial":4,"state":"pruned","value":null,"reason":"rank 5 of 5 at step 1; 1 goes on"}');
INSERT INTO "event" VALUES(53,1,1795280966016079,'{"type":"trial_created","trial":5,"params":{"depth":2,"kind":"b","x":0.24400606740316316},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(54,1,1795280966016079,'{"type":"attempt_started","trial":5,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(55,1,1795280966022155,'{"type":"attempt_launched","trial":5,"attempt":0,"pid":20759,"pid_started":1244503}');
INSERT INTO "event" VALUES(56,1,1795280966036284,'{"type":"reported","trial":5,"attempt":0,"step":1,"metrics":{"loss":1.00314}}');
INSERT INTO "event" VALUES(57,1,1795280966036284,'{"type":"decided","trial":5,"step":1,"verdict":{"continue":"rank 1 of 6 at step 1; 2 go on"}}');
INSERT INTO "event" VALUES(58,1,1795280966038243,'{"type":"reported","trial":5,"attempt":0,"step":2,"metrics":{"loss":0.503135}}');
INSERT INTO "event" VALUES(59,1,1795280966039576,'{"type":"reported","trial":5,"attempt":0,"step":3,"metrics":{"loss":0.336469}}');
INSERT INTO "event" VALUES(60,1,1795280966039576,'{"type":"decided","trial":5,"step":3,"verdict":{"continue":"rank 1 of 5 at step 3; 1 goes on"}}');
INSERT INTO "event" VALUES(61,1,1795280966042925,'{"type":"reported","trial":5,"attempt":0,"step":4,"metrics":{"loss":0.253135}}');
INSERT INTO "event" VALUES(62,1,1795280966055889,'{"type":"attempt_ended","trial":5,"attempt":0,"end":"completed","reason":null}');
INSERT INTO "event" VALUES(63,1,1795280966055889,'{"type":"trial_finished","trial":5,"state":"complete","value":0.253135,"reason":null}');
INSERT INTO "event" VALUES(64,1,1795280966055889,'{"type":"study_finished","reason":"the budget of 5 trials is used up"}');
INSERT INTO "event" VALUES(65,1,1795280966055889,'{"type":"runner_stopped","reason":"the budget of 5 trials is used up","ran_micros":120068}');
INSERT INTO "event" VALUES(66,1,1795280966152848,'{"type":"budget_extended","by":{"trials":2,"time":{"secs":0,"nanos":0}}}');
INSERT INTO "event" VALUES(67,1,1795280966152848,'{"type":"study_reopened","reason":"its budget was extended"}');
INSERT INTO "event" VALUES(68,1,1795280966152848,'{"type":"request_served","id":1,"answer":{"done":"the budget is 7 trials now; it starts when the study is run"}}');
INSERT INTO "event" VALUES(69,1,1795280966247561,'{"type":"trial_created","trial":6,"params":{"kind":"a","x":0.3},"origin":"asked"}');
INSERT INTO "event" VALUES(70,1,1795280966247561,'{"type":"request_served","id":2,"answer":{"done":"trial 6 is queued: kind=a x=0.3; it starts when the study is run"}}');
INSERT INTO "event" VALUES(71,1,1795280974988599,'{"type":"noted","trial":1,"text":"odd"}');
INSERT INTO "event" VALUES(72,1,1795280975057353,'{"type":"noted","trial":null,"text":"kept"}');
INSERT INTO "event" VALUES(73,1,1795280975175939,'{"type":"study_paused","reason":"paused by you"}');
INSERT INTO "event" VALUES(74,1,1795280975175939,'{"type":"request_served","id":5,"answer":{"done":"nothing is started until it is resumed"}}');
INSERT INTO "event" VALUES(75,1,1795281024027584,'{"type":"tagged","trial":1,"tag":"odd","present":true}');
INSERT INTO "event" VALUES(76,1,1795281024104845,'{"type":"tagged","trial":null,"tag":"early","present":true}');
CREATE TABLE lease (
    study_id    INTEGER PRIMARY KEY REFERENCES study,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pid         INTEGER,
    pid_started INTEGER,
    host        TEXT,
    acquired_at INTEGER,
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) STRICT;
INSERT INTO "lease" VALUES(1,4,NULL,NULL,NULL,NULL);
CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "metric" VALUES(1,'loss');
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
INSERT INTO "param" VALUES(1000000000,1,'"c"',2.0);
INSERT INTO "param" VALUES(1000000001,0,'0.030331178259553858',3.03311782595538578788e-02);
INSERT INTO "param" VALUES(1000000001,1,'"a"',0.0);
INSERT INTO "param" VALUES(1000000002,0,'0.5268934466747577',5.26893446674757681691e-01);
INSERT INTO "param" VALUES(1000000002,1,'"a"',0.0);
INSERT INTO "param" VALUES(1000000003,0,'0.4691946684952971',4.69194668495297118049e-01);
INSERT INTO "param" VALUES(1000000003,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000003,2,'3',3.0);
INSERT INTO "param" VALUES(1000000004,0,'0.9146066447164953',9.14606644716495331692e-01);
INSERT INTO "param" VALUES(1000000004,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000004,2,'1',1.0);
INSERT INTO "param" VALUES(1000000005,0,'0.24400606740316316',2.44006067403163162676e-01);
INSERT INTO "param" VALUES(1000000005,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000005,2,'2',2.0);
INSERT INTO "param" VALUES(1000000006,0,'0.3',0.3);
INSERT INTO "param" VALUES(1000000006,1,'"a"',0.0);
CREATE TABLE report (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    metric_id INTEGER NOT NULL REFERENCES metric,
    step      INTEGER NOT NULL,
    value     REAL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (trial_id, metric_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO "report" VALUES(1000000000,1,1,1.17477,0,1795280965945597);
INSERT INTO "report" VALUES(1000000000,1,2,0.674767,0,1795280965947669);
INSERT INTO "report" VALUES(1000000000,1,3,0.5081,0,1795280965948954);
INSERT INTO "report" VALUES(1000000000,1,4,0.424767,0,1795280965950257);
INSERT INTO "report" VALUES(1000000001,1,1,1.07272,0,1795280965965453);
INSERT INTO "report" VALUES(1000000001,1,2,0.572721,0,1795280965967178);
INSERT INTO "report" VALUES(1000000001,1,3,0.406055,0,1795280965968426);
INSERT INTO "report" VALUES(1000000001,1,4,0.322721,0,1795280965969724);
INSERT INTO "report" VALUES(1000000002,1,1,1.05148,0,1795280965981302);
INSERT INTO "report" VALUES(1000000002,1,2,0.551481,0,1795280965982800);
INSERT INTO "report" VALUES(1000000002,1,3,0.384814,0,1795280965984060);
INSERT INTO "report" VALUES(1000000002,1,4,0.301481,0,1795280965985415);
INSERT INTO "report" VALUES(1000000003,1,1,1.02863,0,1795280965996217);
INSERT INTO "report" VALUES(1000000003,1,2,0.528627,0,1795280965997688);
INSERT INTO "report" VALUES(1000000003,1,3,0.36196,0,1795280965999061);
INSERT INTO "report" VALUES(1000000003,1,4,0.278627,0,1795280966000322);
INSERT INTO "report" VALUES(1000000004,1,1,1.37774,0,1795280966011092);
INSERT INTO "report" VALUES(1000000005,1,1,1.00314,0,1795280966036284);
INSERT INTO "report" VALUES(1000000005,1,2,0.503135,0,1795280966038243);
INSERT INTO "report" VALUES(1000000005,1,3,0.336469,0,1795280966039576);
INSERT INTO "report" VALUES(1000000005,1,4,0.253135,0,1795280966042925);
CREATE TABLE request (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id  INTEGER NOT NULL REFERENCES study,
    body      TEXT NOT NULL CHECK (json_valid(body)),
    at        INTEGER NOT NULL,
    served_at INTEGER
, answer TEXT CHECK (json_valid(answer))) STRICT;
INSERT INTO "request" VALUES(1,1,'{"type":"extend","by":{"trials":2,"time":{"secs":0,"nanos":0}}}',1795280966128053,1795280966152848,'{"done":"the budget is 7 trials now; it starts when the study is run"}');
INSERT INTO "request" VALUES(2,1,'{"type":"enqueue","params":{"kind":"a","x":0.3}}',1795280966212465,1795280966247561,'{"done":"trial 6 is queued: kind=a x=0.3; it starts when the study is run"}');
INSERT INTO "request" VALUES(3,1,'{"type":"note","trial":1,"text":"odd"}',1795280974988599,1795280974988599,'{"done":""}');
INSERT INTO "request" VALUES(4,1,'{"type":"note","trial":null,"text":"kept"}',1795280975057353,1795280975057353,'{"done":""}');
INSERT INTO "request" VALUES(5,1,'{"type":"pause_study"}',1795280975156301,1795280975175939,'{"done":"nothing is started until it is resumed"}');
INSERT INTO "request" VALUES(6,1,'{"type":"tag","trial":1,"tag":"odd","present":true}',1795281024027584,1795281024027584,'{"done":""}');
INSERT INTO "request" VALUES(7,1,'{"type":"tag","trial":null,"tag":"early","present":true}',1795281024104845,1795281024104845,'{"done":""}');
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
) STRICT;
INSERT INTO "runner" VALUES(1,1,20690,'host','[{"index":0,"device":"sim:0"}]',1795280965935821,1795280966055889,120068,'the budget of 5 trials is used up');
CREATE TABLE study (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,
    spec            TEXT NOT NULL CHECK (json_valid(spec)),        -- as resolved, the last accepted version
    revision        INTEGER NOT NULL DEFAULT 0,                    -- counts accepted changes of spec
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    finished_reason TEXT,                                          -- NULL while there is something to do
    ran_micros      INTEGER NOT NULL DEFAULT 0                     -- by runners that have stopped
, paused_reason TEXT, extra_trials INTEGER NOT NULL DEFAULT 0, extra_micros INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "study" VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"step","seed":7,"duplicates":"skip","budget":{"trials":7,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}},{"name":"kind","distribution":{"choice":{"choices":["a","b","c"]}}},{"name":"depth","distribution":{"int":{"low":1,"high":3,"scale":"linear","step":1}},"when":[["kind",["b"]]]}],"enqueue":[],"sampler":{"name":"tpe-independent","version":1,"options":{}},"pruner":{"name":"asha","version":1,"options":{"max_resource":4,"min_resource":1}},"program":{"command":{"run":["sh","trial.sh","{x}","{kind}"],"cwd":"/old","env":{}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}',0,1795280965899281,1795280965899281,NULL,120068,'paused by you',2,0);
CREATE TABLE study_note (
    study_id INTEGER NOT NULL REFERENCES study,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (study_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "study_note" VALUES(1,72,1795280975057353,'kept');
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
, hold TEXT CHECK (hold IN ('trial', 'study')), continued TEXT CHECK (continued IN ('complete', 'pruned', 'failed'))) STRICT;
INSERT INTO "trial" VALUES(1000000000,1,0,'failed','{"sampled":"tpe-independent"}',1,1,'sim:0',NULL,'exit status 3',1795280965935821,1795280965935821,1795280965955072,19251,4,0.424767,'{"loss":0.424767}',NULL,NULL);
INSERT INTO "trial" VALUES(1000000001,1,1,'complete','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,NULL,1795280965955072,1795280965955072,1795280965974383,19311,4,0.322721,'{"loss":0.322721}',NULL,NULL);
INSERT INTO "trial" VALUES(1000000002,1,2,'complete','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,NULL,1795280965974383,1795280965974383,1795280965989775,15392,4,0.301481,'{"loss":0.301481}',NULL,NULL);
INSERT INTO "trial" VALUES(1000000003,1,3,'complete','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,NULL,1795280965989775,1795280965989775,1795280966004721,14946,4,0.278627,'{"loss":0.278627}',NULL,NULL);
INSERT INTO "trial" VALUES(1000000004,1,4,'pruned','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,'rank 5 of 5 at step 1; 1 goes on',1795280966004721,1795280966004721,1795280966016079,11358,1,1.37774,'{"loss":1.37774}',NULL,NULL);
INSERT INTO "trial" VALUES(1000000005,1,5,'complete','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,NULL,1795280966016079,1795280966016079,1795280966055889,39810,4,0.253135,'{"loss":0.253135}',NULL,NULL);
INSERT INTO "trial" VALUES(1000000006,1,6,'queued','"asked"',0,0,NULL,NULL,NULL,1795280966247561,NULL,NULL,0,NULL,NULL,'{}',NULL,NULL);
CREATE TABLE trial_note (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_note" VALUES(1000000001,71,1795280974988599,'odd');
CREATE TABLE trial_tag (
    trial_id INTEGER NOT NULL REFERENCES trial,
    tag      TEXT NOT NULL,
    PRIMARY KEY (trial_id, tag)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_tag" VALUES(1000000001,'odd');
CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_value" VALUES(1000000001,0,0.322721);
INSERT INTO "trial_value" VALUES(1000000002,0,0.301481);
INSERT INTO "trial_value" VALUES(1000000003,0,0.278627);
INSERT INTO "trial_value" VALUES(1000000005,0,0.253135);
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',76);
INSERT INTO "sqlite_sequence" VALUES('request',7);
COMMIT;
