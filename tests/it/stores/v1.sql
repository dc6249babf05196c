-- A store of schema version 1, as its last release wrote it: two runs of a command study, and a request that waits.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 1;
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
INSERT INTO "attempt" VALUES(1000000000,0,0,'sim:0',NULL,NULL,NULL,7023,139099,1795269911974765,1795269911988094,'"completed"',NULL);
INSERT INTO "attempt" VALUES(1000000001,0,0,'sim:0',NULL,NULL,NULL,7030,139100,1795269911988094,1795269912002286,'"completed"',NULL);
INSERT INTO "attempt" VALUES(1000000002,0,0,'sim:0',NULL,NULL,NULL,7041,139102,1795269912002286,1795269912071518,'{"failed":"program"}','exit status 3');
INSERT INTO "attempt" VALUES(1000000003,0,0,'sim:0',NULL,NULL,NULL,7099,139109,1795269912071518,1795269912128110,'"stopped"','killed by signal 15');
INSERT INTO "attempt" VALUES(1000000004,0,0,'sim:0',NULL,NULL,NULL,7108,139115,1795269912128110,1795269912151075,'"completed"',NULL);
INSERT INTO "attempt" VALUES(1000000005,0,0,'sim:0',NULL,NULL,NULL,7115,139116,1795269912151075,1795269912200922,'"stopped"','killed by signal 15');
INSERT INTO "attempt" VALUES(1000000006,0,0,'sim:0',NULL,NULL,NULL,7145,139128,1795269912271332,1795269912283945,'"stopped"','killed by signal 15');
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "checkpoint" VALUES(1000000000,5,1,'/old/runs/files/old/trial-0/checkpoints/1',1795269911980929);
INSERT INTO "checkpoint" VALUES(1000000001,23,1,'/old/runs/files/old/trial-1/checkpoints/1',1795269911993543);
INSERT INTO "checkpoint" VALUES(1000000004,55,1,'/old/runs/files/old/trial-4/checkpoints/1',1795269912141572);
CREATE TABLE decision (
    trial_id INTEGER NOT NULL REFERENCES trial,
    step     INTEGER NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('continue', 'pause', 'stop')),
    reason   TEXT CHECK (reason IS NOT NULL OR verdict = 'continue'),
    at       INTEGER NOT NULL,
    PRIMARY KEY (trial_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO "decision" VALUES(1000000000,1,'continue','rank 1 of 1 at step 1; the first 2 go on',1795269911981168);
INSERT INTO "decision" VALUES(1000000000,3,'continue','rank 1 of 1 at step 3; the first 2 go on',1795269911982112);
INSERT INTO "decision" VALUES(1000000001,1,'continue','rank 1 of 2 at step 1; the first 2 go on',1795269911993751);
INSERT INTO "decision" VALUES(1000000001,3,'continue','rank 1 of 2 at step 3; the first 2 go on',1795269911994767);
INSERT INTO "decision" VALUES(1000000003,1,'stop','rank 2 of 3 at step 1; 1 goes on',1795269912120048);
INSERT INTO "decision" VALUES(1000000004,1,'continue','rank 1 of 4 at step 1; 1 goes on',1795269912141873);
INSERT INTO "decision" VALUES(1000000004,3,'continue','rank 1 of 3 at step 3; 1 goes on',1795269912143062);
INSERT INTO "decision" VALUES(1000000005,1,'stop','rank 5 of 5 at step 1; 1 goes on',1795269912158229);
INSERT INTO "decision" VALUES(1000000006,1,'continue','rank 2 of 6 at step 1; 2 go on',1795269912277512);
INSERT INTO "decision" VALUES(1000000006,3,'stop','rank 2 of 4 at step 3; 1 goes on',1795269912278562);
CREATE TABLE dimension (
    study_id    INTEGER NOT NULL REFERENCES study,
    idx         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    optuna_json TEXT CHECK (json_valid(optuna_json)),              -- NULL: not in the space
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "dimension" VALUES(1,0,'x','{"attributes":{"high":1.0,"log":false,"low":0.0,"step":null},"name":"FloatDistribution"}');
INSERT INTO "dimension" VALUES(1,1,'kind','{"attributes":{"choices":["a","b"]},"name":"CategoricalDistribution"}');
INSERT INTO "dimension" VALUES(1,2,'depth','{"attributes":{"high":3,"log":false,"low":1,"step":1},"name":"IntDistribution"}');
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO "event" VALUES(1,1,1795269911974765,'{"type":"runner_started","pid":7016,"host":"host","slots":[{"index":0,"device":"sim:0"}]}');
INSERT INTO "event" VALUES(2,1,1795269911974765,'{"type":"trial_created","trial":0,"params":{"depth":1,"kind":"b","x":0.7180511049283845},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(3,1,1795269911974765,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(4,1,1795269911977657,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":7023,"pid_started":139099}');
INSERT INTO "event" VALUES(5,1,1795269911980929,'{"type":"checkpoint_saved","trial":0,"step":1,"path":"/old/runs/files/old/trial-0/checkpoints/1"}');
INSERT INTO "event" VALUES(6,1,1795269911981168,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"loss":0.7180511049283845,"other":"NaN"}}');
INSERT INTO "event" VALUES(7,1,1795269911981168,'{"type":"decided","trial":0,"step":1,"verdict":{"continue":"rank 1 of 1 at step 1; the first 2 go on"}}');
INSERT INTO "event" VALUES(8,1,1795269911981778,'{"type":"checkpoint_saved","trial":0,"step":2,"path":"/old/runs/files/old/trial-0/checkpoints/2"}');
INSERT INTO "event" VALUES(9,1,1795269911981778,'{"type":"reported","trial":0,"attempt":0,"step":2,"metrics":{"loss":0.7180511049283845,"other":"NaN"}}');
INSERT INTO "event" VALUES(10,1,1795269911982112,'{"type":"checkpoint_saved","trial":0,"step":3,"path":"/old/runs/files/old/trial-0/checkpoints/3"}');
INSERT INTO "event" VALUES(11,1,1795269911982112,'{"type":"reported","trial":0,"attempt":0,"step":3,"metrics":{"loss":0.7180511049283845,"other":"NaN"}}');
INSERT INTO "event" VALUES(12,1,1795269911982112,'{"type":"decided","trial":0,"step":3,"verdict":{"continue":"rank 1 of 1 at step 3; the first 2 go on"}}');
INSERT INTO "event" VALUES(13,1,1795269911982112,'{"type":"checkpoint_dropped","trial":0,"path":"/old/runs/files/old/trial-0/checkpoints/2"}');
INSERT INTO "event" VALUES(14,1,1795269911982568,'{"type":"checkpoint_saved","trial":0,"step":4,"path":"/old/runs/files/old/trial-0/checkpoints/4"}');
INSERT INTO "event" VALUES(15,1,1795269911982568,'{"type":"reported","trial":0,"attempt":0,"step":4,"metrics":{"loss":0.7180511049283845,"other":"NaN"}}');
INSERT INTO "event" VALUES(16,1,1795269911982568,'{"type":"checkpoint_dropped","trial":0,"path":"/old/runs/files/old/trial-0/checkpoints/3"}');
INSERT INTO "event" VALUES(17,1,1795269911988094,'{"type":"attempt_ended","trial":0,"attempt":0,"end":"completed","reason":null}');
INSERT INTO "event" VALUES(18,1,1795269911988094,'{"type":"trial_finished","trial":0,"state":"complete","value":0.7180511049283845,"reason":null}');
INSERT INTO "event" VALUES(19,1,1795269911988094,'{"type":"checkpoint_dropped","trial":0,"path":"/old/runs/files/old/trial-0/checkpoints/4"}');
INSERT INTO "event" VALUES(20,1,1795269911988094,'{"type":"trial_created","trial":1,"params":{"kind":"a","x":0.23033117825955385},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(21,1,1795269911988094,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(22,1,1795269911989499,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":7030,"pid_started":139100}');
INSERT INTO "event" VALUES(23,1,1795269911993543,'{"type":"checkpoint_saved","trial":1,"step":1,"path":"/old/runs/files/old/trial-1/checkpoints/1"}');
INSERT INTO "event" VALUES(24,1,1795269911993751,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"loss":0.23033117825955385,"other":"NaN"}}');
INSERT INTO "event" VALUES(25,1,1795269911993751,'{"type":"decided","trial":1,"step":1,"verdict":{"continue":"rank 1 of 2 at step 1; the first 2 go on"}}');
INSERT INTO "event" VALUES(26,1,1795269911994372,'{"type":"checkpoint_saved","trial":1,"step":2,"path":"/old/runs/files/old/trial-1/checkpoints/2"}');
INSERT INTO "event" VALUES(27,1,1795269911994372,'{"type":"reported","trial":1,"attempt":0,"step":2,"metrics":{"loss":0.23033117825955385,"other":"NaN"}}');
INSERT INTO "event" VALUES(28,1,1795269911994767,'{"type":"checkpoint_saved","trial":1,"step":3,"path":"/old/runs/files/old/trial-1/checkpoints/3"}');
INSERT INTO "event" VALUES(29,1,1795269911994767,'{"type":"reported","trial":1,"attempt":0,"step":3,"metrics":{"loss":0.23033117825955385,"other":"NaN"}}');
INSERT INTO "event" VALUES(30,1,1795269911994767,'{"type":"decided","trial":1,"step":3,"verdict":{"continue":"rank 1 of 2 at step 3; the first 2 go on"}}');
INSERT INTO "event" VALUES(31,1,1795269911994767,'{"type":"checkpoint_dropped","trial":1,"path":"/old/runs/files/old/trial-1/checkpoints/2"}');
INSERT INTO "event" VALUES(32,1,1795269911995212,'{"type":"checkpoint_saved","trial":1,"step":4,"path":"/old/runs/files/old/trial-1/checkpoints/4"}');
INSERT INTO "event" VALUES(33,1,1795269911995212,'{"type":"reported","trial":1,"attempt":0,"step":4,"metrics":{"loss":0.23033117825955385,"other":"NaN"}}');
INSERT INTO "event" VALUES(34,1,1795269911995212,'{"type":"checkpoint_dropped","trial":1,"path":"/old/runs/files/old/trial-1/checkpoints/3"}');
INSERT INTO "event" VALUES(35,1,1795269912002286,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"completed","reason":null}');
INSERT INTO "event" VALUES(36,1,1795269912002286,'{"type":"trial_finished","trial":1,"state":"complete","value":0.23033117825955385,"reason":null}');
INSERT INTO "event" VALUES(37,1,1795269912002286,'{"type":"checkpoint_dropped","trial":1,"path":"/old/runs/files/old/trial-1/checkpoints/4"}');
INSERT INTO "event" VALUES(38,1,1795269912002286,'{"type":"trial_created","trial":2,"params":{"depth":3,"kind":"b","x":0.8268934466747577},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(39,1,1795269912002286,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(40,1,1795269912007956,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":7041,"pid_started":139102}');
INSERT INTO "event" VALUES(41,1,1795269912071518,'{"type":"attempt_ended","trial":2,"attempt":0,"end":{"failed":"program"},"reason":"exit status 3"}');
INSERT INTO "event" VALUES(42,1,1795269912071518,'{"type":"trial_finished","trial":2,"state":"failed","value":null,"reason":"exit status 3"}');
INSERT INTO "event" VALUES(43,1,1795269912071518,'{"type":"trial_created","trial":3,"params":{"kind":"a","x":0.4691946684952971},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(44,1,1795269912071518,'{"type":"attempt_started","trial":3,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(45,1,1795269912101260,'{"type":"attempt_launched","trial":3,"attempt":0,"pid":7099,"pid_started":139109}');
INSERT INTO "event" VALUES(46,1,1795269912119469,'{"type":"checkpoint_saved","trial":3,"step":1,"path":"/old/runs/files/old/trial-3/checkpoints/1"}');
INSERT INTO "event" VALUES(47,1,1795269912120048,'{"type":"reported","trial":3,"attempt":0,"step":1,"metrics":{"loss":0.4691946684952971,"other":"NaN"}}');
INSERT INTO "event" VALUES(48,1,1795269912120048,'{"type":"decided","trial":3,"step":1,"verdict":{"stop":"rank 2 of 3 at step 1; 1 goes on"}}');
INSERT INTO "event" VALUES(49,1,1795269912128110,'{"type":"attempt_ended","trial":3,"attempt":0,"end":"stopped","reason":"killed by signal 15"}');
INSERT INTO "event" VALUES(50,1,1795269912128110,'{"type":"trial_finished","trial":3,"state":"pruned","value":null,"reason":"rank 2 of 3 at step 1; 1 goes on"}');
INSERT INTO "event" VALUES(51,1,1795269912128110,'{"type":"checkpoint_dropped","trial":3,"path":"/old/runs/files/old/trial-3/checkpoints/1"}');
INSERT INTO "event" VALUES(52,1,1795269912128110,'{"type":"trial_created","trial":4,"params":{"depth":3,"kind":"b","x":0.014606644716495332},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(53,1,1795269912128110,'{"type":"attempt_started","trial":4,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(54,1,1795269912137476,'{"type":"attempt_launched","trial":4,"attempt":0,"pid":7108,"pid_started":139115}');
INSERT INTO "event" VALUES(55,1,1795269912141572,'{"type":"checkpoint_saved","trial":4,"step":1,"path":"/old/runs/files/old/trial-4/checkpoints/1"}');
INSERT INTO "event" VALUES(56,1,1795269912141873,'{"type":"reported","trial":4,"attempt":0,"step":1,"metrics":{"loss":0.014606644716495332,"other":"NaN"}}');
INSERT INTO "event" VALUES(57,1,1795269912141873,'{"type":"decided","trial":4,"step":1,"verdict":{"continue":"rank 1 of 4 at step 1; 1 goes on"}}');
INSERT INTO "event" VALUES(58,1,1795269912142525,'{"type":"checkpoint_saved","trial":4,"step":2,"path":"/old/runs/files/old/trial-4/checkpoints/2"}');
INSERT INTO "event" VALUES(59,1,1795269912142525,'{"type":"reported","trial":4,"attempt":0,"step":2,"metrics":{"loss":0.014606644716495332,"other":"NaN"}}');
INSERT INTO "event" VALUES(60,1,1795269912143062,'{"type":"checkpoint_saved","trial":4,"step":3,"path":"/old/runs/files/old/trial-4/checkpoints/3"}');
INSERT INTO "event" VALUES(61,1,1795269912143062,'{"type":"reported","trial":4,"attempt":0,"step":3,"metrics":{"loss":0.014606644716495332,"other":"NaN"}}');
INSERT INTO "event" VALUES(62,1,1795269912143062,'{"type":"decided","trial":4,"step":3,"verdict":{"continue":"rank 1 of 3 at step 3; 1 goes on"}}');
INSERT INTO "event" VALUES(63,1,1795269912143062,'{"type":"checkpoint_dropped","trial":4,"path":"/old/runs/files/old/trial-4/checkpoints/2"}');
INSERT INTO "event" VALUES(64,1,1795269912143646,'{"type":"checkpoint_saved","trial":4,"step":4,"path":"/old/runs/files/old/trial-4/checkpoints/4"}');
INSERT INTO "event" VALUES(65,1,1795269912143646,'{"type":"reported","trial":4,"attempt":0,"step":4,"metrics":{"loss":0.014606644716495332,"other":"NaN"}}');
INSERT INTO "event" VALUES(66,1,1795269912143646,'{"type":"checkpoint_dropped","trial":4,"path":"/old/runs/files/old/trial-4/checkpoints/3"}');
INSERT INTO "event" VALUES(67,1,1795269912151075,'{"type":"attempt_ended","trial":4,"attempt":0,"end":"completed","reason":null}');
INSERT INTO "event" VALUES(68,1,1795269912151075,'{"type":"trial_finished","trial":4,"state":"complete","value":0.014606644716495332,"reason":null}');
INSERT INTO "event" VALUES(69,1,1795269912151075,'{"type":"checkpoint_dropped","trial":4,"path":"/old/runs/files/old/trial-4/checkpoints/4"}');
INSERT INTO "event" VALUES(70,1,1795269912151075,'{"type":"trial_created","trial":5,"params":{"depth":2,"kind":"b","x":0.9440060674031632},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(71,1,1795269912151075,'{"type":"attempt_started","trial":5,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(72,1,1795269912154178,'{"type":"attempt_launched","trial":5,"attempt":0,"pid":7115,"pid_started":139116}');
INSERT INTO "event" VALUES(73,1,1795269912157972,'{"type":"checkpoint_saved","trial":5,"step":1,"path":"/old/runs/files/old/trial-5/checkpoints/1"}');
INSERT INTO "event" VALUES(74,1,1795269912158229,'{"type":"reported","trial":5,"attempt":0,"step":1,"metrics":{"loss":0.9440060674031632,"other":"NaN"}}');
INSERT INTO "event" VALUES(75,1,1795269912158229,'{"type":"decided","trial":5,"step":1,"verdict":{"stop":"rank 5 of 5 at step 1; 1 goes on"}}');
INSERT INTO "event" VALUES(76,1,1795269912200922,'{"type":"attempt_ended","trial":5,"attempt":0,"end":"stopped","reason":"killed by signal 15"}');
INSERT INTO "event" VALUES(77,1,1795269912200922,'{"type":"trial_finished","trial":5,"state":"pruned","value":null,"reason":"rank 5 of 5 at step 1; 1 goes on"}');
INSERT INTO "event" VALUES(78,1,1795269912200922,'{"type":"checkpoint_dropped","trial":5,"path":"/old/runs/files/old/trial-5/checkpoints/1"}');
INSERT INTO "event" VALUES(79,1,1795269912200922,'{"type":"study_finished","reason":"the budget of 5 trials is used up"}');
INSERT INTO "event" VALUES(80,1,1795269912200922,'{"type":"runner_stopped","reason":"the budget of 5 trials is used up","ran_micros":226157}');
INSERT INTO "event" VALUES(81,1,1795269912271332,'{"type":"runner_started","pid":7142,"host":"host","slots":[{"index":0,"device":"sim:0"}]}');
INSERT INTO "event" VALUES(82,1,1795269912271332,'{"type":"trial_created","trial":6,"params":{"kind":"a","x":0.1530619462921742},"origin":{"sampled":"tpe-independent"}}');
INSERT INTO "event" VALUES(83,1,1795269912271332,'{"type":"study_reopened","reason":"its budget leaves room for more"}');
INSERT INTO "event" VALUES(84,1,1795269912271332,'{"type":"attempt_started","trial":6,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(85,1,1795269912274272,'{"type":"attempt_launched","trial":6,"attempt":0,"pid":7145,"pid_started":139128}');
INSERT INTO "event" VALUES(86,1,1795269912277512,'{"type":"checkpoint_saved","trial":6,"step":1,"path":"/old/runs/files/old/trial-6/checkpoints/1"}');
INSERT INTO "event" VALUES(87,1,1795269912277512,'{"type":"reported","trial":6,"attempt":0,"step":1,"metrics":{"loss":0.1530619462921742,"other":"NaN"}}');
INSERT INTO "event" VALUES(88,1,1795269912277512,'{"type":"decided","trial":6,"step":1,"verdict":{"continue":"rank 2 of 6 at step 1; 2 go on"}}');
INSERT INTO "event" VALUES(89,1,1795269912278215,'{"type":"checkpoint_saved","trial":6,"step":2,"path":"/old/runs/files/old/trial-6/checkpoints/2"}');
INSERT INTO "event" VALUES(90,1,1795269912278215,'{"type":"reported","trial":6,"attempt":0,"step":2,"metrics":{"loss":0.1530619462921742,"other":"NaN"}}');
INSERT INTO "event" VALUES(91,1,1795269912278562,'{"type":"checkpoint_saved","trial":6,"step":3,"path":"/old/runs/files/old/trial-6/checkpoints/3"}');
INSERT INTO "event" VALUES(92,1,1795269912278562,'{"type":"reported","trial":6,"attempt":0,"step":3,"metrics":{"loss":0.1530619462921742,"other":"NaN"}}');
INSERT INTO "event" VALUES(93,1,1795269912278562,'{"type":"decided","trial":6,"step":3,"verdict":{"stop":"rank 2 of 4 at step 3; 1 goes on"}}');
INSERT INTO "event" VALUES(94,1,1795269912278562,'{"type":"checkpoint_dropped","trial":6,"path":"/old/runs/files/old/trial-6/checkpoints/2"}');
INSERT INTO "event" VALUES(95,1,1795269912283945,'{"type":"attempt_ended","trial":6,"attempt":0,"end":"stopped","reason":"killed by signal 15"}');
INSERT INTO "event" VALUES(96,1,1795269912283945,'{"type":"trial_finished","trial":6,"state":"pruned","value":null,"reason":"rank 2 of 4 at step 3; 1 goes on"}');
INSERT INTO "event" VALUES(97,1,1795269912283945,'{"type":"checkpoint_dropped","trial":6,"path":"/old/runs/files/old/trial-6/checkpoints/1"}');
INSERT INTO "event" VALUES(98,1,1795269912283945,'{"type":"checkpoint_dropped","trial":6,"path":"/old/runs/files/old/trial-6/checkpoints/3"}');
INSERT INTO "event" VALUES(99,1,1795269912283945,'{"type":"study_finished","reason":"the budget of 6 trials is used up"}');
INSERT INTO "event" VALUES(100,1,1795269912283945,'{"type":"runner_stopped","reason":"the budget of 6 trials is used up","ran_micros":12613}');
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
INSERT INTO "metric" VALUES(1,'loss');
INSERT INTO "metric" VALUES(2,'other');
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
INSERT INTO "param" VALUES(1000000000,2,'1',1.0);
INSERT INTO "param" VALUES(1000000001,0,'0.23033117825955385',2.30331178259553848164e-01);
INSERT INTO "param" VALUES(1000000001,1,'"a"',0.0);
INSERT INTO "param" VALUES(1000000002,0,'0.8268934466747577',8.268934466747577261e-01);
INSERT INTO "param" VALUES(1000000002,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000002,2,'3',3.0);
INSERT INTO "param" VALUES(1000000003,0,'0.4691946684952971',4.69194668495297118049e-01);
INSERT INTO "param" VALUES(1000000003,1,'"a"',0.0);
INSERT INTO "param" VALUES(1000000004,0,'0.014606644716495332',1.46066447164953320397e-02);
INSERT INTO "param" VALUES(1000000004,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000004,2,'3',3.0);
INSERT INTO "param" VALUES(1000000005,0,'0.9440060674031632',9.44006067403163173779e-01);
INSERT INTO "param" VALUES(1000000005,1,'"b"',1.0);
INSERT INTO "param" VALUES(1000000005,2,'2',2.0);
INSERT INTO "param" VALUES(1000000006,0,'0.1530619462921742',1.53061946292174205774e-01);
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
INSERT INTO "report" VALUES(1000000000,1,1,7.18051104928384531511e-01,0,1795269911981168);
INSERT INTO "report" VALUES(1000000000,1,2,7.18051104928384531511e-01,0,1795269911981778);
INSERT INTO "report" VALUES(1000000000,1,3,7.18051104928384531511e-01,0,1795269911982112);
INSERT INTO "report" VALUES(1000000000,1,4,7.18051104928384531511e-01,0,1795269911982568);
INSERT INTO "report" VALUES(1000000000,2,1,NULL,0,1795269911981168);
INSERT INTO "report" VALUES(1000000000,2,2,NULL,0,1795269911981778);
INSERT INTO "report" VALUES(1000000000,2,3,NULL,0,1795269911982112);
INSERT INTO "report" VALUES(1000000000,2,4,NULL,0,1795269911982568);
INSERT INTO "report" VALUES(1000000001,1,1,2.30331178259553848164e-01,0,1795269911993751);
INSERT INTO "report" VALUES(1000000001,1,2,2.30331178259553848164e-01,0,1795269911994372);
INSERT INTO "report" VALUES(1000000001,1,3,2.30331178259553848164e-01,0,1795269911994767);
INSERT INTO "report" VALUES(1000000001,1,4,2.30331178259553848164e-01,0,1795269911995212);
INSERT INTO "report" VALUES(1000000001,2,1,NULL,0,1795269911993751);
INSERT INTO "report" VALUES(1000000001,2,2,NULL,0,1795269911994372);
INSERT INTO "report" VALUES(1000000001,2,3,NULL,0,1795269911994767);
INSERT INTO "report" VALUES(1000000001,2,4,NULL,0,1795269911995212);
INSERT INTO "report" VALUES(1000000003,1,1,4.69194668495297118049e-01,0,1795269912120048);
INSERT INTO "report" VALUES(1000000003,2,1,NULL,0,1795269912120048);
INSERT INTO "report" VALUES(1000000004,1,1,1.46066447164953320397e-02,0,1795269912141873);
INSERT INTO "report" VALUES(1000000004,1,2,1.46066447164953320397e-02,0,1795269912142525);
INSERT INTO "report" VALUES(1000000004,1,3,1.46066447164953320397e-02,0,1795269912143062);
INSERT INTO "report" VALUES(1000000004,1,4,1.46066447164953320397e-02,0,1795269912143646);
INSERT INTO "report" VALUES(1000000004,2,1,NULL,0,1795269912141873);
INSERT INTO "report" VALUES(1000000004,2,2,NULL,0,1795269912142525);
INSERT INTO "report" VALUES(1000000004,2,3,NULL,0,1795269912143062);
INSERT INTO "report" VALUES(1000000004,2,4,NULL,0,1795269912143646);
INSERT INTO "report" VALUES(1000000005,1,1,9.44006067403163173779e-01,0,1795269912158229);
INSERT INTO "report" VALUES(1000000005,2,1,NULL,0,1795269912158229);
INSERT INTO "report" VALUES(1000000006,1,1,1.53061946292174205774e-01,0,1795269912277512);
INSERT INTO "report" VALUES(1000000006,1,2,1.53061946292174205774e-01,0,1795269912278215);
INSERT INTO "report" VALUES(1000000006,1,3,1.53061946292174205774e-01,0,1795269912278562);
INSERT INTO "report" VALUES(1000000006,2,1,NULL,0,1795269912277512);
INSERT INTO "report" VALUES(1000000006,2,2,NULL,0,1795269912278215);
INSERT INTO "report" VALUES(1000000006,2,3,NULL,0,1795269912278562);
CREATE TABLE request (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id  INTEGER NOT NULL REFERENCES study,
    body      TEXT NOT NULL CHECK (json_valid(body)),
    at        INTEGER NOT NULL,
    served_at INTEGER
) STRICT;
INSERT INTO "request" VALUES(1,1,'{"type":"kill","trial":3}',1763000000000000,NULL);
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
INSERT INTO "runner" VALUES(1,1,7016,'host','[{"index":0,"device":"sim:0"}]',1795269911974765,1795269912200922,226157,'the budget of 5 trials is used up');
INSERT INTO "runner" VALUES(81,1,7142,'host','[{"index":0,"device":"sim:0"}]',1795269912271332,1795269912283945,12613,'the budget of 6 trials is used up');
CREATE TABLE study (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,
    spec            TEXT NOT NULL CHECK (json_valid(spec)),        -- as resolved, the last accepted version
    revision        INTEGER NOT NULL DEFAULT 0,                    -- counts accepted changes of spec
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    finished_reason TEXT,                                          -- NULL while there is something to do
    ran_micros      INTEGER NOT NULL DEFAULT 0                     -- by runners that have stopped
) STRICT;
INSERT INTO "study" VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"step","seed":7,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}},{"name":"kind","distribution":{"choice":{"choices":["a","b"]}}},{"name":"depth","distribution":{"int":{"low":1,"high":3,"scale":"linear","step":1}},"when":[["kind",["b"]]]}],"enqueue":[],"sampler":{"name":"tpe-independent","alias":"tpe","version":1,"options":{}},"pruner":{"name":"asha","version":1,"options":{"max_resource":4,"min_resource":1}},"program":{"command":{"run":["sh","trial.sh","{x}"],"cwd":"/old","env":{}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}',1,1795269911965049,1795269912245181,'the budget of 6 trials is used up',238770);
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
) STRICT;
INSERT INTO "trial" VALUES(1000000000,1,0,'complete','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,NULL,1795269911974765,1795269911974765,1795269911988094,13329,4,7.18051104928384531511e-01,'{"loss":0.7180511049283845,"other":"NaN"}');
INSERT INTO "trial" VALUES(1000000001,1,1,'complete','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,NULL,1795269911988094,1795269911988094,1795269912002286,14192,4,2.30331178259553848164e-01,'{"loss":0.23033117825955385,"other":"NaN"}');
INSERT INTO "trial" VALUES(1000000002,1,2,'failed','{"sampled":"tpe-independent"}',1,1,'sim:0',NULL,'exit status 3',1795269912002286,1795269912002286,1795269912071518,69232,NULL,NULL,'{}');
INSERT INTO "trial" VALUES(1000000003,1,3,'pruned','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,'rank 2 of 3 at step 1; 1 goes on',1795269912071518,1795269912071518,1795269912128110,56592,1,4.69194668495297118049e-01,'{"loss":0.4691946684952971,"other":"NaN"}');
INSERT INTO "trial" VALUES(1000000004,1,4,'complete','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,NULL,1795269912128110,1795269912128110,1795269912151075,22965,4,1.46066447164953320397e-02,'{"loss":0.014606644716495332,"other":"NaN"}');
INSERT INTO "trial" VALUES(1000000005,1,5,'pruned','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,'rank 5 of 5 at step 1; 1 goes on',1795269912151075,1795269912151075,1795269912200922,49847,1,9.44006067403163173779e-01,'{"loss":0.9440060674031632,"other":"NaN"}');
INSERT INTO "trial" VALUES(1000000006,1,6,'pruned','{"sampled":"tpe-independent"}',1,0,'sim:0',NULL,'rank 2 of 4 at step 3; 1 goes on',1795269912271332,1795269912271332,1795269912283945,12613,3,1.53061946292174205774e-01,'{"loss":0.1530619462921742,"other":"NaN"}');
CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_value" VALUES(1000000000,0,7.18051104928384531511e-01);
INSERT INTO "trial_value" VALUES(1000000001,0,2.30331178259553848164e-01);
INSERT INTO "trial_value" VALUES(1000000004,0,1.46066447164953320397e-02);
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',100);
INSERT INTO "sqlite_sequence" VALUES('request',1);
COMMIT;
