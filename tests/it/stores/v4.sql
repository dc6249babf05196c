-- A store of schema version 4, as its last release wrote it: a study of a command whose pruner pauses and promotes, with its reasons as sentences.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 4;
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
INSERT INTO study VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"epoch","seed":3,"duplicates":"skip","budget":{"trials":9,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}}],"enqueue":[],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"asha","version":3,"options":{"max_resource":9,"mode":"promote"}},"program":{"command":{"run":["sh","trial.sh","{x}"],"cwd":"/old","env":{}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}',0,1795445013384755,1795445013384755,'the budget of 9 trials is used up',1185281,NULL,0,0,NULL,NULL,0.0,0.0,1185281,'["old"]');
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
INSERT INTO trial VALUES(1000000000,1,0,'pruned','{"sampled":"random"}',1,0,'sim:0',1,'never promoted: rung 1 reached with rank 1 of 1; the best 0 go on',1795445013530813,1795445013530813,1795445014716094,108791,1,1.4041300000000001002,'{"loss":1.40413}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000001,1,1,'pruned','{"sampled":"random"}',2,0,'sim:0',3,'never promoted: rung 3 reached with rank 1 of 1; the best 0 go on',1795445013639604,1795445013807943,1795445014716094,184227,3,0.49393900000000001693,'{"loss":0.493939}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000002,1,2,'pruned','{"sampled":"random"}',1,0,'sim:0',1,'never promoted: rung 1 reached with rank 2 of 3; the best 1 go on',1795445013772372,1795445013772372,1795445014716094,35571,1,1.3951999999999999957,'{"loss":1.3952}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000003,1,3,'complete','{"sampled":"random"}',3,0,'sim:0',NULL,NULL,1795445013859402,1795445014619411,1795445014716094,290933,9,0.12597900000000000764,'{"loss":0.125979}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000004,1,4,'pruned','{"sampled":"random"}',1,0,'sim:0',1,'never promoted: rung 1 reached with rank 3 of 5; the best 1 go on',1795445014053652,1795445014053652,1795445014716094,104096,1,1.3511800000000000476,'{"loss":1.35118}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000005,1,5,'pruned','{"sampled":"random"}',1,0,'sim:0',1,'the value at epoch 1 is NaN',1795445014157748,1795445014157748,1795445014207777,50029,1,NULL,'{"loss":"NaN"}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000006,1,6,'pruned','{"sampled":"random"}',1,0,'sim:0',1,'never promoted: rung 1 reached with rank 6 of 7; the best 2 go on',1795445014207777,1795445014207777,1795445014716094,151095,1,1.7194899999999999629,'{"loss":1.71949}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000007,1,7,'pruned','{"sampled":"random"}',1,0,'sim:0',1,'never promoted: rung 1 reached with rank 6 of 8; the best 2 go on',1795445014358872,1795445014358872,1795445014716094,128000,1,1.5110500000000000042,'{"loss":1.51105}',NULL,NULL,NULL,NULL);
INSERT INTO trial VALUES(1000000008,1,8,'pruned','{"sampled":"random"}',2,0,'sim:0',3,'never promoted: rung 3 reached with rank 3 of 3; the best 1 go on',1795445014486872,1795445014544093,1795445014716094,132539,3,0.65502000000000004664,'{"loss":0.65502}',NULL,NULL,NULL,NULL);
CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO trial_value VALUES(1000000003,0,0.12597900000000000764);
CREATE TABLE param (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    dimension INTEGER NOT NULL,                                    -- dimension.idx of the trial's study
    value     TEXT NOT NULL CHECK (json_valid(value)),
    internal  REAL,                                                -- the number, or the choice's index
    PRIMARY KEY (trial_id, dimension)
) STRICT, WITHOUT ROWID;
INSERT INTO param VALUES(1000000000,0,'0.40412979484383504',0.40412979484383504402);
INSERT INTO param VALUES(1000000001,0,'0.1606056081487255',0.16060560814872548718);
INSERT INTO param VALUES(1000000002,0,'0.3951982318578766',0.39519823185787661401);
INSERT INTO param VALUES(1000000003,0,'0.014867439678473371',0.014867439678473370889);
INSERT INTO param VALUES(1000000004,0,'0.35117880723924433',0.35117880723924432828);
INSERT INTO param VALUES(1000000005,0,'0.10752700611797783',0.10752700611797783025);
INSERT INTO param VALUES(1000000006,0,'0.719491391609697',0.71949139160969699524);
INSERT INTO param VALUES(1000000007,0,'0.5110542842698202',0.51105428426982024703);
INSERT INTO param VALUES(1000000008,0,'0.3216871601460275',0.32168716014602749542);
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
INSERT INTO attempt VALUES(1000000000,0,0,'sim:0',NULL,NULL,1,15156,97307,1795445013530813,1795445013639604,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000001,0,0,'sim:0',NULL,NULL,1,15171,97317,1795445013639604,1795445013772372,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000001,1,0,'sim:0',1,'old/trial-1/checkpoints/1',3,15197,97334,1795445013807943,1795445013859402,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000002,0,0,'sim:0',NULL,NULL,1,15184,97330,1795445013772372,1795445013807943,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000003,0,0,'sim:0',NULL,NULL,1,15213,97339,1795445013859402,1795445013949706,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000003,1,0,'sim:0',1,'old/trial-3/checkpoints/1',3,15228,97348,1795445013949706,1795445014053652,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000003,2,0,'sim:0',3,'old/trial-3/checkpoints/3',NULL,15352,97415,1795445014619411,1795445014716094,'"completed"',NULL,1);
INSERT INTO attempt VALUES(1000000004,0,0,'sim:0',NULL,NULL,1,15248,97359,1795445014053652,1795445014157748,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000005,0,0,'sim:0',NULL,NULL,1,15272,97369,1795445014157748,1795445014207777,'"stopped"',NULL,1);
INSERT INTO attempt VALUES(1000000006,0,0,'sim:0',NULL,NULL,1,15285,97374,1795445014207777,1795445014358872,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000007,0,0,'sim:0',NULL,NULL,1,15308,97389,1795445014358872,1795445014486872,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000008,0,0,'sim:0',NULL,NULL,1,15322,97402,1795445014486872,1795445014544093,'"paused"',NULL,1);
INSERT INTO attempt VALUES(1000000008,1,0,'sim:0',1,'old/trial-8/checkpoints/1',3,15335,97407,1795445014544093,1795445014619411,'"paused"',NULL,1);
CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO metric VALUES(1,'loss');
CREATE TABLE report (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    metric_id INTEGER NOT NULL REFERENCES metric,
    step      INTEGER NOT NULL,
    value     REAL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (trial_id, metric_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO report VALUES(1000000000,1,1,1.4041300000000001002,0,1795445013628234);
INSERT INTO report VALUES(1000000001,1,1,1.1606099999999999194,0,1795445013689006);
INSERT INTO report VALUES(1000000001,1,2,0.66060600000000002651,1,1795445013832151);
INSERT INTO report VALUES(1000000001,1,3,0.49393900000000001693,1,1795445013839836);
INSERT INTO report VALUES(1000000002,1,1,1.3951999999999999957,0,1795445013800251);
INSERT INTO report VALUES(1000000003,1,1,1.0148699999999999388,0,1795445013927378);
INSERT INTO report VALUES(1000000003,1,2,0.51486699999999996357,1,1795445013993822);
INSERT INTO report VALUES(1000000003,1,3,0.34820099999999998274,1,1795445014002881);
INSERT INTO report VALUES(1000000003,1,4,0.26486700000000001908,2,1795445014694975);
INSERT INTO report VALUES(1000000003,1,5,0.21486700000000000243,2,1795445014698588);
INSERT INTO report VALUES(1000000003,1,6,0.18153400000000000091,2,1795445014701171);
INSERT INTO report VALUES(1000000003,1,7,0.15772500000000000408,2,1795445014703061);
INSERT INTO report VALUES(1000000003,1,8,0.13986699999999999133,2,1795445014705210);
INSERT INTO report VALUES(1000000003,1,9,0.12597900000000000764,2,1795445014709722);
INSERT INTO report VALUES(1000000004,1,1,1.3511800000000000476,0,1795445014104760);
INSERT INTO report VALUES(1000000005,1,1,NULL,0,1795445014194592);
INSERT INTO report VALUES(1000000006,1,1,1.7194899999999999629,0,1795445014282008);
INSERT INTO report VALUES(1000000007,1,1,1.5110500000000000042,0,1795445014419991);
INSERT INTO report VALUES(1000000008,1,1,1.3216900000000000314,0,1795445014521589);
INSERT INTO report VALUES(1000000008,1,2,0.82168699999999994521,1,1795445014605559);
INSERT INTO report VALUES(1000000008,1,3,0.65502000000000004664,1,1795445014611267);
CREATE TABLE decision (
    trial_id INTEGER NOT NULL REFERENCES trial,
    step     INTEGER NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('continue', 'pause', 'stop')),
    reason   TEXT CHECK (reason IS NOT NULL OR verdict = 'continue'),
    at       INTEGER NOT NULL,
    PRIMARY KEY (trial_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO decision VALUES(1000000000,1,'pause','rung 1 reached with rank 1 of 1; the best 0 go on',1795445013628234);
INSERT INTO decision VALUES(1000000001,1,'pause','rung 1 reached with rank 1 of 2; the best 0 go on',1795445013689006);
INSERT INTO decision VALUES(1000000001,3,'pause','rung 3 reached with rank 1 of 1; the best 0 go on',1795445013839836);
INSERT INTO decision VALUES(1000000002,1,'pause','rung 1 reached with rank 2 of 3; the best 1 go on',1795445013800251);
INSERT INTO decision VALUES(1000000003,1,'pause','rung 1 reached with rank 1 of 4; the best 1 go on',1795445013927378);
INSERT INTO decision VALUES(1000000003,3,'pause','rung 3 reached with rank 1 of 2; the best 0 go on',1795445014002881);
INSERT INTO decision VALUES(1000000004,1,'pause','rung 1 reached with rank 3 of 5; the best 1 go on',1795445014104760);
INSERT INTO decision VALUES(1000000005,1,'stop','the value at epoch 1 is NaN',1795445014194592);
INSERT INTO decision VALUES(1000000006,1,'pause','rung 1 reached with rank 6 of 7; the best 2 go on',1795445014282008);
INSERT INTO decision VALUES(1000000007,1,'pause','rung 1 reached with rank 6 of 8; the best 2 go on',1795445014419991);
INSERT INTO decision VALUES(1000000008,1,'pause','rung 1 reached with rank 3 of 9; the best 3 go on',1795445014521589);
INSERT INTO decision VALUES(1000000008,3,'pause','rung 3 reached with rank 3 of 3; the best 1 go on',1795445014611267);
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL, bytes INTEGER,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO checkpoint VALUES(1000000003,131,9,'old/trial-3/checkpoints/9',1795445014709722,4096);
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO event VALUES(1,1,1795445013530813,'{"type":"runner_started","pid":15137,"host":"here","slots":[{"index":0,"device":"sim:0"}]}');
INSERT INTO event VALUES(2,1,1795445013530813,'{"type":"runner_described","lineage":{"command":["hpsearch","run","study.toml","--plain"],"directory":"/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"ea00a6fe13fe4c7fcf9a575a4721b52988993fe3666f10e664666824dc855dc4"},"machine":{"host":"here","system":"Linux 6.18 x86_64","processor":"a processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/old/trial.sh","bytes":339,"digest":"dfd9d2484a9ec3a55731971e080fefeaa02d6a5ab4a9ebd6a5262100f6df080e"}]}}');
INSERT INTO event VALUES(3,1,1795445013530813,'{"type":"trial_created","trial":0,"params":{"x":0.40412979484383504},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(4,1,1795445013530813,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(5,1,1795445013558580,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":15156,"pid_started":97307}');
INSERT INTO event VALUES(6,1,1795445013628234,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"loss":1.40413}}');
INSERT INTO event VALUES(7,1,1795445013628234,'{"type":"decided","trial":0,"step":1,"verdict":{"pause":"rung 1 reached with rank 1 of 1; the best 0 go on"}}');
INSERT INTO event VALUES(8,1,1795445013630364,'{"type":"checkpoint_saved","trial":0,"step":1,"path":"old/trial-0/checkpoints/1","bytes":4096,"system":1795445013630043}');
INSERT INTO event VALUES(9,1,1795445013639604,'{"type":"attempt_ended","trial":0,"attempt":0,"end":"paused","reason":null,"device_micros":108791}');
INSERT INTO event VALUES(10,1,1795445013639604,'{"type":"trial_paused","trial":0,"reason":"rung 1 reached with rank 1 of 1; the best 0 go on"}');
INSERT INTO event VALUES(11,1,1795445013639604,'{"type":"trial_created","trial":1,"params":{"x":0.1606056081487255},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(12,1,1795445013639604,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(13,1,1795445013644065,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":15171,"pid_started":97317}');
INSERT INTO event VALUES(14,1,1795445013689006,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"loss":1.16061}}');
INSERT INTO event VALUES(15,1,1795445013689006,'{"type":"decided","trial":1,"step":1,"verdict":{"pause":"rung 1 reached with rank 1 of 2; the best 0 go on"}}');
INSERT INTO event VALUES(16,1,1795445013745911,'{"type":"checkpoint_saved","trial":1,"step":1,"path":"old/trial-1/checkpoints/1","bytes":4096,"system":1795445013691895}');
INSERT INTO event VALUES(17,1,1795445013772372,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"paused","reason":null,"device_micros":132768}');
INSERT INTO event VALUES(18,1,1795445013772372,'{"type":"trial_paused","trial":1,"reason":"rung 1 reached with rank 1 of 2; the best 0 go on"}');
INSERT INTO event VALUES(19,1,1795445013772372,'{"type":"trial_created","trial":2,"params":{"x":0.3951982318578766},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(20,1,1795445013772372,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(21,1,1795445013777809,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":15184,"pid_started":97330}');
INSERT INTO event VALUES(22,1,1795445013800251,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"loss":1.3952}}');
INSERT INTO event VALUES(23,1,1795445013800251,'{"type":"decided","trial":2,"step":1,"verdict":{"pause":"rung 1 reached with rank 2 of 3; the best 1 go on"}}');
INSERT INTO event VALUES(24,1,1795445013800251,'{"type":"checkpoint_saved","trial":2,"step":1,"path":"old/trial-2/checkpoints/1","bytes":4096,"system":1795445013800134}');
INSERT INTO event VALUES(25,1,1795445013807943,'{"type":"attempt_ended","trial":2,"attempt":0,"end":"paused","reason":null,"device_micros":35571}');
INSERT INTO event VALUES(26,1,1795445013807943,'{"type":"trial_paused","trial":2,"reason":"rung 1 reached with rank 2 of 3; the best 1 go on"}');
INSERT INTO event VALUES(27,1,1795445013807943,'{"type":"trial_queued","trial":1,"until":3,"reason":"rank 1 of 3 at rung 1; 1 goes on to epoch 3"}');
INSERT INTO event VALUES(28,1,1795445013807943,'{"type":"attempt_started","trial":1,"attempt":1,"slot":{"index":0,"device":"sim:0"},"resume":[1,"old/trial-1/checkpoints/1"],"until":3}');
INSERT INTO event VALUES(29,1,1795445013813783,'{"type":"attempt_launched","trial":1,"attempt":1,"pid":15197,"pid_started":97334}');
INSERT INTO event VALUES(30,1,1795445013832151,'{"type":"reported","trial":1,"attempt":1,"step":2,"metrics":{"loss":0.660606}}');
INSERT INTO event VALUES(31,1,1795445013834128,'{"type":"checkpoint_saved","trial":1,"step":2,"path":"old/trial-1/checkpoints/2","bytes":4096,"system":1795445013834122}');
INSERT INTO event VALUES(32,1,1795445013834128,'{"type":"checkpoint_dropped","trial":1,"path":"old/trial-1/checkpoints/1"}');
INSERT INTO event VALUES(33,1,1795445013839836,'{"type":"reported","trial":1,"attempt":1,"step":3,"metrics":{"loss":0.493939}}');
INSERT INTO event VALUES(34,1,1795445013839836,'{"type":"decided","trial":1,"step":3,"verdict":{"pause":"rung 3 reached with rank 1 of 1; the best 0 go on"}}');
INSERT INTO event VALUES(35,1,1795445013841609,'{"type":"checkpoint_saved","trial":1,"step":3,"path":"old/trial-1/checkpoints/3","bytes":4096,"system":1795445013841426}');
INSERT INTO event VALUES(36,1,1795445013841609,'{"type":"checkpoint_dropped","trial":1,"path":"old/trial-1/checkpoints/2"}');
INSERT INTO event VALUES(37,1,1795445013859402,'{"type":"attempt_ended","trial":1,"attempt":1,"end":"paused","reason":null,"device_micros":51459}');
INSERT INTO event VALUES(38,1,1795445013859402,'{"type":"trial_paused","trial":1,"reason":"rung 3 reached with rank 1 of 1; the best 0 go on"}');
INSERT INTO event VALUES(39,1,1795445013859402,'{"type":"trial_created","trial":3,"params":{"x":0.014867439678473371},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(40,1,1795445013859402,'{"type":"attempt_started","trial":3,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(41,1,1795445013862939,'{"type":"attempt_launched","trial":3,"attempt":0,"pid":15213,"pid_started":97339}');
INSERT INTO event VALUES(42,1,1795445013927378,'{"type":"reported","trial":3,"attempt":0,"step":1,"metrics":{"loss":1.01487}}');
INSERT INTO event VALUES(43,1,1795445013927378,'{"type":"decided","trial":3,"step":1,"verdict":{"pause":"rung 1 reached with rank 1 of 4; the best 1 go on"}}');
INSERT INTO event VALUES(44,1,1795445013932741,'{"type":"checkpoint_saved","trial":3,"step":1,"path":"old/trial-3/checkpoints/1","bytes":4096,"system":1795445013928918}');
INSERT INTO event VALUES(45,1,1795445013949706,'{"type":"attempt_ended","trial":3,"attempt":0,"end":"paused","reason":null,"device_micros":90304}');
INSERT INTO event VALUES(46,1,1795445013949706,'{"type":"trial_paused","trial":3,"reason":"rung 1 reached with rank 1 of 4; the best 1 go on"}');
INSERT INTO event VALUES(47,1,1795445013949706,'{"type":"trial_queued","trial":3,"until":3,"reason":"rank 1 of 4 at rung 1; 1 goes on to epoch 3"}');
INSERT INTO event VALUES(48,1,1795445013949706,'{"type":"attempt_started","trial":3,"attempt":1,"slot":{"index":0,"device":"sim:0"},"resume":[1,"old/trial-3/checkpoints/1"],"until":3}');
INSERT INTO event VALUES(49,1,1795445013954082,'{"type":"attempt_launched","trial":3,"attempt":1,"pid":15228,"pid_started":97348}');
INSERT INTO event VALUES(50,1,1795445013993822,'{"type":"reported","trial":3,"attempt":1,"step":2,"metrics":{"loss":0.514867}}');
INSERT INTO event VALUES(51,1,1795445013995046,'{"type":"checkpoint_saved","trial":3,"step":2,"path":"old/trial-3/checkpoints/2","bytes":4096,"system":1795445013994721}');
INSERT INTO event VALUES(52,1,1795445013995046,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/1"}');
INSERT INTO event VALUES(53,1,1795445014002881,'{"type":"reported","trial":3,"attempt":1,"step":3,"metrics":{"loss":0.348201}}');
INSERT INTO event VALUES(54,1,1795445014002881,'{"type":"decided","trial":3,"step":3,"verdict":{"pause":"rung 3 reached with rank 1 of 2; the best 0 go on"}}');
INSERT INTO event VALUES(55,1,1795445014004382,'{"type":"checkpoint_saved","trial":3,"step":3,"path":"old/trial-3/checkpoints/3","bytes":4096,"system":1795445014004386}');
INSERT INTO event VALUES(56,1,1795445014004382,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/2"}');
INSERT INTO event VALUES(57,1,1795445014053652,'{"type":"attempt_ended","trial":3,"attempt":1,"end":"paused","reason":null,"device_micros":103946}');
INSERT INTO event VALUES(58,1,1795445014053652,'{"type":"trial_paused","trial":3,"reason":"rung 3 reached with rank 1 of 2; the best 0 go on"}');
INSERT INTO event VALUES(59,1,1795445014053652,'{"type":"trial_created","trial":4,"params":{"x":0.35117880723924433},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(60,1,1795445014053652,'{"type":"attempt_started","trial":4,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(61,1,1795445014056291,'{"type":"attempt_launched","trial":4,"attempt":0,"pid":15248,"pid_started":97359}');
INSERT INTO event VALUES(62,1,1795445014104760,'{"type":"reported","trial":4,"attempt":0,"step":1,"metrics":{"loss":1.35118}}');
INSERT INTO event VALUES(63,1,1795445014104760,'{"type":"decided","trial":4,"step":1,"verdict":{"pause":"rung 1 reached with rank 3 of 5; the best 1 go on"}}');
INSERT INTO event VALUES(64,1,1795445014106658,'{"type":"checkpoint_saved","trial":4,"step":1,"path":"old/trial-4/checkpoints/1","bytes":4096,"system":1795445014106654}');
INSERT INTO event VALUES(65,1,1795445014157748,'{"type":"attempt_ended","trial":4,"attempt":0,"end":"paused","reason":null,"device_micros":104096}');
INSERT INTO event VALUES(66,1,1795445014157748,'{"type":"trial_paused","trial":4,"reason":"rung 1 reached with rank 3 of 5; the best 1 go on"}');
INSERT INTO event VALUES(67,1,1795445014157748,'{"type":"trial_created","trial":5,"params":{"x":0.10752700611797783},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(68,1,1795445014157748,'{"type":"attempt_started","trial":5,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(69,1,1795445014161997,'{"type":"attempt_launched","trial":5,"attempt":0,"pid":15272,"pid_started":97369}');
INSERT INTO event VALUES(70,1,1795445014194592,'{"type":"reported","trial":5,"attempt":0,"step":1,"metrics":{"loss":"NaN"}}');
INSERT INTO event VALUES(71,1,1795445014194592,'{"type":"decided","trial":5,"step":1,"verdict":{"stop":"the value at epoch 1 is NaN"}}');
INSERT INTO event VALUES(72,1,1795445014205593,'{"type":"checkpoint_saved","trial":5,"step":1,"path":"old/trial-5/checkpoints/1","bytes":4096,"system":1795445014205515}');
INSERT INTO event VALUES(73,1,1795445014207777,'{"type":"attempt_ended","trial":5,"attempt":0,"end":"stopped","reason":null,"device_micros":50029}');
INSERT INTO event VALUES(74,1,1795445014207777,'{"type":"trial_finished","trial":5,"state":"pruned","value":null,"reason":"the value at epoch 1 is NaN"}');
INSERT INTO event VALUES(75,1,1795445014207777,'{"type":"checkpoint_dropped","trial":5,"path":"old/trial-5/checkpoints/1"}');
INSERT INTO event VALUES(76,1,1795445014207777,'{"type":"trial_created","trial":6,"params":{"x":0.719491391609697},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(77,1,1795445014207777,'{"type":"attempt_started","trial":6,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(78,1,1795445014213267,'{"type":"attempt_launched","trial":6,"attempt":0,"pid":15285,"pid_started":97374}');
INSERT INTO event VALUES(79,1,1795445014282008,'{"type":"reported","trial":6,"attempt":0,"step":1,"metrics":{"loss":1.71949}}');
INSERT INTO event VALUES(80,1,1795445014282008,'{"type":"decided","trial":6,"step":1,"verdict":{"pause":"rung 1 reached with rank 6 of 7; the best 2 go on"}}');
INSERT INTO event VALUES(81,1,1795445014285783,'{"type":"checkpoint_saved","trial":6,"step":1,"path":"old/trial-6/checkpoints/1","bytes":4096,"system":1795445014285523}');
INSERT INTO event VALUES(82,1,1795445014358872,'{"type":"attempt_ended","trial":6,"attempt":0,"end":"paused","reason":null,"device_micros":151095}');
INSERT INTO event VALUES(83,1,1795445014358872,'{"type":"trial_paused","trial":6,"reason":"rung 1 reached with rank 6 of 7; the best 2 go on"}');
INSERT INTO event VALUES(84,1,1795445014358872,'{"type":"trial_created","trial":7,"params":{"x":0.5110542842698202},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(85,1,1795445014358872,'{"type":"attempt_started","trial":7,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(86,1,1795445014365601,'{"type":"attempt_launched","trial":7,"attempt":0,"pid":15308,"pid_started":97389}');
INSERT INTO event VALUES(87,1,1795445014419991,'{"type":"reported","trial":7,"attempt":0,"step":1,"metrics":{"loss":1.51105}}');
INSERT INTO event VALUES(88,1,1795445014419991,'{"type":"decided","trial":7,"step":1,"verdict":{"pause":"rung 1 reached with rank 6 of 8; the best 2 go on"}}');
INSERT INTO event VALUES(89,1,1795445014421122,'{"type":"checkpoint_saved","trial":7,"step":1,"path":"old/trial-7/checkpoints/1","bytes":4096,"system":1795445014421079}');
INSERT INTO event VALUES(90,1,1795445014486872,'{"type":"attempt_ended","trial":7,"attempt":0,"end":"paused","reason":null,"device_micros":128000}');
INSERT INTO event VALUES(91,1,1795445014486872,'{"type":"trial_paused","trial":7,"reason":"rung 1 reached with rank 6 of 8; the best 2 go on"}');
INSERT INTO event VALUES(92,1,1795445014486872,'{"type":"trial_created","trial":8,"params":{"x":0.3216871601460275},"origin":{"sampled":"random"}}');
INSERT INTO event VALUES(93,1,1795445014486872,'{"type":"attempt_started","trial":8,"attempt":0,"slot":{"index":0,"device":"sim:0"},"resume":null,"until":1}');
INSERT INTO event VALUES(94,1,1795445014490700,'{"type":"attempt_launched","trial":8,"attempt":0,"pid":15322,"pid_started":97402}');
INSERT INTO event VALUES(95,1,1795445014521589,'{"type":"reported","trial":8,"attempt":0,"step":1,"metrics":{"loss":1.32169}}');
INSERT INTO event VALUES(96,1,1795445014521589,'{"type":"decided","trial":8,"step":1,"verdict":{"pause":"rung 1 reached with rank 3 of 9; the best 3 go on"}}');
INSERT INTO event VALUES(97,1,1795445014541487,'{"type":"checkpoint_saved","trial":8,"step":1,"path":"old/trial-8/checkpoints/1","bytes":4096,"system":1795445014522133}');
INSERT INTO event VALUES(98,1,1795445014544093,'{"type":"attempt_ended","trial":8,"attempt":0,"end":"paused","reason":null,"device_micros":57221}');
INSERT INTO event VALUES(99,1,1795445014544093,'{"type":"trial_paused","trial":8,"reason":"rung 1 reached with rank 3 of 9; the best 3 go on"}');
INSERT INTO event VALUES(100,1,1795445014544093,'{"type":"trial_queued","trial":8,"until":3,"reason":"rank 3 of 9 at rung 1; 3 go on to epoch 3"}');
INSERT INTO event VALUES(101,1,1795445014544093,'{"type":"attempt_started","trial":8,"attempt":1,"slot":{"index":0,"device":"sim:0"},"resume":[1,"old/trial-8/checkpoints/1"],"until":3}');
INSERT INTO event VALUES(102,1,1795445014546286,'{"type":"attempt_launched","trial":8,"attempt":1,"pid":15335,"pid_started":97407}');
INSERT INTO event VALUES(103,1,1795445014605559,'{"type":"reported","trial":8,"attempt":1,"step":2,"metrics":{"loss":0.821687}}');
INSERT INTO event VALUES(104,1,1795445014607235,'{"type":"checkpoint_saved","trial":8,"step":2,"path":"old/trial-8/checkpoints/2","bytes":4096,"system":1795445014606716}');
INSERT INTO event VALUES(105,1,1795445014607235,'{"type":"checkpoint_dropped","trial":8,"path":"old/trial-8/checkpoints/1"}');
INSERT INTO event VALUES(106,1,1795445014611267,'{"type":"reported","trial":8,"attempt":1,"step":3,"metrics":{"loss":0.65502}}');
INSERT INTO event VALUES(107,1,1795445014611267,'{"type":"decided","trial":8,"step":3,"verdict":{"pause":"rung 3 reached with rank 3 of 3; the best 1 go on"}}');
INSERT INTO event VALUES(108,1,1795445014611267,'{"type":"checkpoint_saved","trial":8,"step":3,"path":"old/trial-8/checkpoints/3","bytes":4096,"system":1795445014608674}');
INSERT INTO event VALUES(109,1,1795445014611267,'{"type":"checkpoint_dropped","trial":8,"path":"old/trial-8/checkpoints/2"}');
INSERT INTO event VALUES(110,1,1795445014619411,'{"type":"attempt_ended","trial":8,"attempt":1,"end":"paused","reason":null,"device_micros":75318}');
INSERT INTO event VALUES(111,1,1795445014619411,'{"type":"trial_paused","trial":8,"reason":"rung 3 reached with rank 3 of 3; the best 1 go on"}');
INSERT INTO event VALUES(112,1,1795445014619411,'{"type":"trial_queued","trial":3,"until":null,"reason":"rank 1 of 3 at rung 3; 1 goes on to the end"}');
INSERT INTO event VALUES(113,1,1795445014619411,'{"type":"attempt_started","trial":3,"attempt":2,"slot":{"index":0,"device":"sim:0"},"resume":[3,"old/trial-3/checkpoints/3"],"until":null}');
INSERT INTO event VALUES(114,1,1795445014621986,'{"type":"attempt_launched","trial":3,"attempt":2,"pid":15352,"pid_started":97415}');
INSERT INTO event VALUES(115,1,1795445014694975,'{"type":"reported","trial":3,"attempt":2,"step":4,"metrics":{"loss":0.264867}}');
INSERT INTO event VALUES(116,1,1795445014697195,'{"type":"checkpoint_saved","trial":3,"step":4,"path":"old/trial-3/checkpoints/4","bytes":4096,"system":1795445014696932}');
INSERT INTO event VALUES(117,1,1795445014697195,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/3"}');
INSERT INTO event VALUES(118,1,1795445014698588,'{"type":"reported","trial":3,"attempt":2,"step":5,"metrics":{"loss":0.214867}}');
INSERT INTO event VALUES(119,1,1795445014698588,'{"type":"checkpoint_saved","trial":3,"step":5,"path":"old/trial-3/checkpoints/5","bytes":4096,"system":1795445014698536}');
INSERT INTO event VALUES(120,1,1795445014698588,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/4"}');
INSERT INTO event VALUES(121,1,1795445014701171,'{"type":"reported","trial":3,"attempt":2,"step":6,"metrics":{"loss":0.181534}}');
INSERT INTO event VALUES(122,1,1795445014702007,'{"type":"checkpoint_saved","trial":3,"step":6,"path":"old/trial-3/checkpoints/6","bytes":4096,"system":1795445014702014}');
INSERT INTO event VALUES(123,1,1795445014702007,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/5"}');
INSERT INTO event VALUES(124,1,1795445014703061,'{"type":"reported","trial":3,"attempt":2,"step":7,"metrics":{"loss":0.157725}}');
INSERT INTO event VALUES(125,1,1795445014703943,'{"type":"checkpoint_saved","trial":3,"step":7,"path":"old/trial-3/checkpoints/7","bytes":4096,"system":1795445014703951}');
INSERT INTO event VALUES(126,1,1795445014703943,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/6"}');
INSERT INTO event VALUES(127,1,1795445014705210,'{"type":"reported","trial":3,"attempt":2,"step":8,"metrics":{"loss":0.139867}}');
INSERT INTO event VALUES(128,1,1795445014707764,'{"type":"checkpoint_saved","trial":3,"step":8,"path":"old/trial-3/checkpoints/8","bytes":4096,"system":1795445014707686}');
INSERT INTO event VALUES(129,1,1795445014707764,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/7"}');
INSERT INTO event VALUES(130,1,1795445014709722,'{"type":"reported","trial":3,"attempt":2,"step":9,"metrics":{"loss":0.125979}}');
INSERT INTO event VALUES(131,1,1795445014709722,'{"type":"checkpoint_saved","trial":3,"step":9,"path":"old/trial-3/checkpoints/9","bytes":4096,"system":1795445014708208}');
INSERT INTO event VALUES(132,1,1795445014709722,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/8"}');
INSERT INTO event VALUES(133,1,1795445014716094,'{"type":"attempt_ended","trial":3,"attempt":2,"end":"completed","reason":null,"device_micros":96683}');
INSERT INTO event VALUES(134,1,1795445014716094,'{"type":"trial_finished","trial":3,"state":"complete","value":0.125979,"reason":null}');
INSERT INTO event VALUES(135,1,1795445014716094,'{"type":"trial_finished","trial":0,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 1 of 1; the best 0 go on"}');
INSERT INTO event VALUES(136,1,1795445014716094,'{"type":"trial_finished","trial":1,"state":"pruned","value":null,"reason":"never promoted: rung 3 reached with rank 1 of 1; the best 0 go on"}');
INSERT INTO event VALUES(137,1,1795445014716094,'{"type":"trial_finished","trial":2,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 2 of 3; the best 1 go on"}');
INSERT INTO event VALUES(138,1,1795445014716094,'{"type":"trial_finished","trial":4,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 3 of 5; the best 1 go on"}');
INSERT INTO event VALUES(139,1,1795445014716094,'{"type":"trial_finished","trial":6,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 6 of 7; the best 2 go on"}');
INSERT INTO event VALUES(140,1,1795445014716094,'{"type":"trial_finished","trial":7,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 6 of 8; the best 2 go on"}');
INSERT INTO event VALUES(141,1,1795445014716094,'{"type":"trial_finished","trial":8,"state":"pruned","value":null,"reason":"never promoted: rung 3 reached with rank 3 of 3; the best 1 go on"}');
INSERT INTO event VALUES(142,1,1795445014716094,'{"type":"checkpoint_dropped","trial":0,"path":"old/trial-0/checkpoints/1"}');
INSERT INTO event VALUES(143,1,1795445014716094,'{"type":"checkpoint_dropped","trial":1,"path":"old/trial-1/checkpoints/3"}');
INSERT INTO event VALUES(144,1,1795445014716094,'{"type":"checkpoint_dropped","trial":2,"path":"old/trial-2/checkpoints/1"}');
INSERT INTO event VALUES(145,1,1795445014716094,'{"type":"checkpoint_dropped","trial":4,"path":"old/trial-4/checkpoints/1"}');
INSERT INTO event VALUES(146,1,1795445014716094,'{"type":"checkpoint_dropped","trial":6,"path":"old/trial-6/checkpoints/1"}');
INSERT INTO event VALUES(147,1,1795445014716094,'{"type":"checkpoint_dropped","trial":7,"path":"old/trial-7/checkpoints/1"}');
INSERT INTO event VALUES(148,1,1795445014716094,'{"type":"checkpoint_dropped","trial":8,"path":"old/trial-8/checkpoints/3"}');
INSERT INTO event VALUES(149,1,1795445014716094,'{"type":"study_finished","reason":"the budget of 9 trials is used up"}');
INSERT INTO event VALUES(150,1,1795445014716094,'{"type":"runner_stopped","reason":"the budget of 9 trials is used up","ran_micros":1185281}');
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
INSERT INTO runner VALUES(1,1,15137,'here','[{"index":0,"device":"sim:0"}]',1795445013530813,1795445014716094,1185281,'the budget of 9 trials is used up','{"command":["hpsearch","run","study.toml","--plain"],"directory":"/old","code":{"unknown":"it is in no git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"ea00a6fe13fe4c7fcf9a575a4721b52988993fe3666f10e664666824dc855dc4"},"machine":{"host":"here","system":"Linux 6.18 x86_64","processor":"a processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/old/trial.sh","bytes":339,"digest":"dfd9d2484a9ec3a55731971e080fefeaa02d6a5ab4a9ebd6a5262100f6df080e"}]}');
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
INSERT INTO study_revision VALUES(1,0,0,1795445013384755,'{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"epoch","seed":3,"duplicates":"skip","budget":{"trials":9,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}}],"enqueue":[],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"asha","version":3,"options":{"max_resource":9,"mode":"promote"}},"program":{"command":{"run":["sh","trial.sh","{x}"],"cwd":"/old","env":{}}},"devices":{"use":["sim:0"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}');
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
INSERT INTO store VALUES(1,'d52f7f399fd90ce0effab6eea852d8be','68ec0ee3d4ad15991a39db6931ce91fb',0);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('event',150);
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
