-- A store of schema version 9, as its last release wrote it: a study of a command whose pruner pauses and resumes, before populations.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 9;
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
INSERT INTO "attempt" VALUES(1000000000,0,0,'cpu',NULL,NULL,1,11505,2816627,1795716452883738,1795716453823514,'"paused"','rung 1 reached with rank 1 of 2; the best 0 continue',1);
INSERT INTO "attempt" VALUES(1000000000,1,1,'cpu',1,'old/trial-0/checkpoints/1.txt',NULL,11709,2816780,1795716454424770,1795716455061754,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000001,0,1,'cpu',NULL,NULL,1,11511,2816627,1795716452883738,1795716453650852,'"paused"','rung 1 reached with rank 1 of 1; the best 0 continue',1);
INSERT INTO "attempt" VALUES(1000000001,1,1,'cpu',1,'old/trial-1/checkpoints/1.txt',NULL,11865,2816874,1795716455375491,1795716455714488,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000002,0,1,'cpu',NULL,NULL,1,11606,2816702,1795716453650852,1795716454424770,'"paused"','rung 1 reached with rank 3 of 3; the best 1 continue',1);
INSERT INTO "attempt" VALUES(1000000003,0,0,'cpu',NULL,NULL,1,11629,2816719,1795716453823514,1795716454551619,'"paused"','rung 1 reached with rank 3 of 4; the best 1 continue',1);
INSERT INTO "attempt" VALUES(1000000004,0,0,'cpu',NULL,NULL,1,11726,2816792,1795716454551619,1795716455053545,'"paused"','rung 1 reached with rank 3 of 5; the best 1 continue',1);
INSERT INTO "attempt" VALUES(1000000005,0,0,'cpu',NULL,NULL,1,11814,2816842,1795716455053545,1795716455483721,'"paused"','rung 1 reached with rank 5 of 6; the best 2 continue',1);
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL, bytes INTEGER,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "checkpoint" VALUES(1000000000,44,3,'old/trial-0/checkpoints/3.txt',1795716455026482,4096);
INSERT INTO "checkpoint" VALUES(1000000001,68,3,'old/trial-1/checkpoints/3.txt',1795716455685234,4096);
CREATE TABLE decision (
    trial_id INTEGER NOT NULL REFERENCES trial,
    step     INTEGER NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('continue', 'pause', 'stop')),
    reason   TEXT CHECK (reason IS NOT NULL OR verdict = 'continue'),
    at       INTEGER NOT NULL,
    PRIMARY KEY (trial_id, step)
) STRICT, WITHOUT ROWID;
INSERT INTO "decision" VALUES(1000000000,1,'pause','{"rung":{"rung":1,"rank":1,"of":2,"first":0}}',1795716453694470);
INSERT INTO "decision" VALUES(1000000001,1,'pause','{"rung":{"rung":1,"rank":1,"of":1,"first":0}}',1795716453558483);
INSERT INTO "decision" VALUES(1000000002,1,'pause','{"rung":{"rung":1,"rank":3,"of":3,"first":1}}',1795716454332891);
INSERT INTO "decision" VALUES(1000000003,1,'pause','{"rung":{"rung":1,"rank":3,"of":4,"first":1}}',1795716454454695);
INSERT INTO "decision" VALUES(1000000004,1,'pause','{"rung":{"rung":1,"rank":3,"of":5,"first":1}}',1795716455030756);
INSERT INTO "decision" VALUES(1000000005,1,'pause','{"rung":{"rung":1,"rank":5,"of":6,"first":2}}',1795716455375491);
CREATE TABLE dimension (
    study_id    INTEGER NOT NULL REFERENCES study,
    idx         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    optuna_json TEXT CHECK (optuna_json IS NULL OR json_valid(optuna_json)),              -- NULL: not in the space
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "dimension" VALUES(1,0,'x','{"attributes":{"high":1.0,"log":false,"low":0.0,"step":null},"name":"FloatDistribution"}');
CREATE TABLE document (
    digest TEXT PRIMARY KEY,                                                    -- BLAKE3, hexadecimal
    body   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "document" VALUES('d0768515e0bdb43486b85439d472315b38f8a8ad7b40ce36eef11a5d20d462a9','annotated-types 0.7.0
antlr4-python3-runtime 4.13.2
asttokens 3.0.1
attrs 26.1.0
aws-sam-translator 1.110.0
aws-xray-sdk 2.15.0
awscli 1.45.11
backcall 0.2.0
blinker 1.9.0
boto3 1.43.11
botocore 1.43.11
certifi 2026.5.20
cffi 2.0.0
cfn-lint 1.51.0
charset-normalizer 3.4.7
click 8.4.0
cloudpickle 2.1.0
colorama 0.4.6
cryptography 48.0.0
decorator 5.2.1
docker 7.1.0
docutils 0.19
executing 2.2.1
flask 3.1.3
flask-cors 6.0.2
graphql-core 3.2.8
idna 3.13
ipython 8.12.3
itsdangerous 2.2.0
jedi 0.20.0
jinja2 3.1.6
jmespath 1.1.0
joserfc 1.6.5
jsonpatch 1.33
jsonpath-ng 1.8.0
jsonpointer 3.1.1
jsonschema 4.26.0
jsonschema-path 0.5.0
jsonschema-specifications 2025.9.1
lazy-object-proxy 1.12.0
libcst 1.0.1
markupsafe 3.0.3
matplotlib-inline 0.2.2
moto 5.2.1
mpmath 1.3.0
mypy-extensions 1.1.0
networkx 3.6.1
openapi-schema-validator 0.9.0
openapi-spec-validator 0.9.0
orjson 3.8.3
outcome 1.3.0.post0
parso 0.8.7
pathable 0.6.0
pexpect 4.8.0
pickleshare 0.7.5
pip 23.2.1
prompt-toolkit 3.0.52
ptyprocess 0.7.0
pure-eval 0.2.3
py-partiql-parser 0.6.3
pyasn1 0.6.3
pycparser 3.0
pydantic 2.13.4
pydantic-core 2.46.4
pydantic-settings 2.14.1
pygments 2.20.0
pyparsing 3.3.2
python-dateutil 2.9.0.post0
python-dotenv 1.2.2
pyyaml 6.0.3
referencing 0.37.0
regex 2026.5.9
requests 2.34.2
responses 0.26.0
rfc3339-validator 0.1.4
rpds-py 0.30.0
rsa 4.7.2
s3transfer 0.17.0
setuptools 65.5.0
six 1.17.0
sniffio 1.3.1
sortedcontainers 2.4.0
stack-data 0.6.3
sympy 1.14.0
traitlets 5.15.0
trio 0.22.2
typing-extensions 4.15.0
typing-inspect 0.9.0
typing-inspection 0.4.2
urllib3 2.7.0
wcwidth 0.7.0
werkzeug 3.1.8
wrapt 2.1.2
xmltodict 1.0.4
');
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES study,
    at       INTEGER NOT NULL,
    type     TEXT GENERATED ALWAYS AS (body ->> '$.type') VIRTUAL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
INSERT INTO "event" VALUES(1,1,1795716452883738,'{"type":"runner_started","pid":11494,"host":"host","slots":[{"index":0,"device":"cpu"},{"index":1,"device":"cpu"}]}');
INSERT INTO "event" VALUES(2,1,1795716452883738,'{"type":"runner_described","lineage":{"command":["hpsearch","run","study.toml","--plain"],"directory":"/home/user/old","code":{"unknown":"it is not in a git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"407d5e9c0859400c1d25bd70bcf94a7a34912e56"},"machine":{"host":"host","system":"Linux 6.1.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.py","bytes":511,"digest":"25c728c4d56e1b08788b786d0c81033256d65cd4a5bce8d192984c07dbc1f29a"}],"packages":{"interpreter":"/usr/bin/python3","count":94,"digest":"d0768515e0bdb43486b85439d472315b38f8a8ad7b40ce36eef11a5d20d462a9"}}}');
INSERT INTO "event" VALUES(3,1,1795716452883738,'{"type":"trial_created","trial":0,"params":{"x":0.32444931835653334},"origin":{"sampled":"gp"}}');
INSERT INTO "event" VALUES(4,1,1795716452883738,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":1}');
INSERT INTO "event" VALUES(5,1,1795716452883738,'{"type":"trial_created","trial":1,"params":{"x":0.2478624683340617},"origin":{"sampled":"gp"}}');
INSERT INTO "event" VALUES(6,1,1795716452883738,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":1,"device":"cpu"},"resume":null,"until":1}');
INSERT INTO "event" VALUES(7,1,1795716452919305,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":11505,"pid_started":2816627}');
INSERT INTO "event" VALUES(8,1,1795716452919305,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":11511,"pid_started":2816627}');
INSERT INTO "event" VALUES(9,1,1795716453558483,'{"type":"checkpoint_saved","trial":1,"step":1,"path":"old/trial-1/checkpoints/1.txt","bytes":4096,"system":1795716453555103}');
INSERT INTO "event" VALUES(10,1,1795716453558483,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"loss":1.0027183222082168}}');
INSERT INTO "event" VALUES(11,1,1795716453558483,'{"type":"decided","trial":1,"step":1,"verdict":{"pause":{"rung":{"rung":1,"rank":1,"of":1,"first":0}}}}');
INSERT INTO "event" VALUES(12,1,1795716453650852,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"paused","reason":"rung 1 reached with rank 1 of 1; the best 0 continue","device_micros":767114}');
INSERT INTO "event" VALUES(13,1,1795716453650852,'{"type":"trial_paused","trial":1,"reason":"rung 1 reached with rank 1 of 1; the best 0 continue"}');
INSERT INTO "event" VALUES(14,1,1795716453650852,'{"type":"trial_created","trial":2,"params":{"x":0.9666399431735536},"origin":{"sampled":"gp"}}');
INSERT INTO "event" VALUES(15,1,1795716453650852,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":1,"device":"cpu"},"resume":null,"until":1}');
INSERT INTO "event" VALUES(16,1,1795716453667373,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":11606,"pid_started":2816702}');
INSERT INTO "event" VALUES(17,1,1795716453694470,'{"type":"checkpoint_saved","trial":0,"step":1,"path":"old/trial-0/checkpoints/1.txt","bytes":4096,"system":1795716453686987}');
INSERT INTO "event" VALUES(18,1,1795716453694470,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"loss":1.0005977691680992}}');
INSERT INTO "event" VALUES(19,1,1795716453694470,'{"type":"decided","trial":0,"step":1,"verdict":{"pause":{"rung":{"rung":1,"rank":1,"of":2,"first":0}}}}');
INSERT INTO "event" VALUES(20,1,1795716453823514,'{"type":"attempt_ended","trial":0,"attempt":0,"end":"paused","reason":"rung 1 reached with rank 1 of 2; the best 0 continue","device_micros":172662}');
INSERT INTO "event" VALUES(21,1,1795716453823514,'{"type":"trial_paused","trial":0,"reason":"rung 1 reached with rank 1 of 2; the best 0 continue"}');
INSERT INTO "event" VALUES(22,1,1795716453823514,'{"type":"trial_created","trial":3,"params":{"x":0.6988179553603509},"origin":{"sampled":"tpe"}}');
INSERT INTO "event" VALUES(23,1,1795716453823514,'{"type":"attempt_started","trial":3,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":1}');
INSERT INTO "event" VALUES(24,1,1795716453831289,'{"type":"attempt_launched","trial":3,"attempt":0,"pid":11629,"pid_started":2816719}');
INSERT INTO "event" VALUES(25,1,1795716454332891,'{"type":"checkpoint_saved","trial":2,"step":1,"path":"old/trial-2/checkpoints/1.txt","bytes":4096,"system":1795716454332815}');
INSERT INTO "event" VALUES(26,1,1795716454332891,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"loss":1.4444088138344389}}');
INSERT INTO "event" VALUES(27,1,1795716454332891,'{"type":"decided","trial":2,"step":1,"verdict":{"pause":{"rung":{"rung":1,"rank":3,"of":3,"first":1}}}}');
INSERT INTO "event" VALUES(28,1,1795716454424770,'{"type":"attempt_ended","trial":2,"attempt":0,"end":"paused","reason":"rung 1 reached with rank 3 of 3; the best 1 continue","device_micros":601256}');
INSERT INTO "event" VALUES(29,1,1795716454424770,'{"type":"trial_paused","trial":2,"reason":"rung 1 reached with rank 3 of 3; the best 1 continue"}');
INSERT INTO "event" VALUES(30,1,1795716454424770,'{"type":"trial_queued","trial":0,"until":null,"reason":"rank 1 of 3 at rung 1; 1 continues to the end"}');
INSERT INTO "event" VALUES(31,1,1795716454424770,'{"type":"attempt_started","trial":0,"attempt":1,"slot":{"index":1,"device":"cpu"},"resume":[1,"old/trial-0/checkpoints/1.txt"],"until":null}');
INSERT INTO "event" VALUES(32,1,1795716454447412,'{"type":"attempt_launched","trial":0,"attempt":1,"pid":11709,"pid_started":2816780}');
INSERT INTO "event" VALUES(33,1,1795716454454695,'{"type":"checkpoint_saved","trial":3,"step":1,"path":"old/trial-3/checkpoints/1.txt","bytes":4096,"system":1795716454454603}');
INSERT INTO "event" VALUES(34,1,1795716454454695,'{"type":"reported","trial":3,"attempt":0,"step":1,"metrics":{"loss":1.1590557615178108}}');
INSERT INTO "event" VALUES(35,1,1795716454454695,'{"type":"decided","trial":3,"step":1,"verdict":{"pause":{"rung":{"rung":1,"rank":3,"of":4,"first":1}}}}');
INSERT INTO "event" VALUES(36,1,1795716454551619,'{"type":"attempt_ended","trial":3,"attempt":0,"end":"paused","reason":"rung 1 reached with rank 3 of 4; the best 1 continue","device_micros":126849}');
INSERT INTO "event" VALUES(37,1,1795716454551619,'{"type":"trial_paused","trial":3,"reason":"rung 1 reached with rank 3 of 4; the best 1 continue"}');
INSERT INTO "event" VALUES(38,1,1795716454551619,'{"type":"trial_created","trial":4,"params":{"x":0.5353760843027361},"origin":{"sampled":"gp"}}');
INSERT INTO "event" VALUES(39,1,1795716454551619,'{"type":"attempt_started","trial":4,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":1}');
INSERT INTO "event" VALUES(40,1,1795716454559260,'{"type":"attempt_launched","trial":4,"attempt":0,"pid":11726,"pid_started":2816792}');
INSERT INTO "event" VALUES(41,1,1795716455015520,'{"type":"checkpoint_saved","trial":0,"step":2,"path":"old/trial-0/checkpoints/2.txt","bytes":4096,"system":1795716455015415}');
INSERT INTO "event" VALUES(42,1,1795716455015520,'{"type":"reported","trial":0,"attempt":1,"step":2,"metrics":{"loss":0.5005977691680992}}');
INSERT INTO "event" VALUES(43,1,1795716455015520,'{"type":"checkpoint_dropped","trial":0,"path":"old/trial-0/checkpoints/1.txt"}');
INSERT INTO "event" VALUES(44,1,1795716455026482,'{"type":"checkpoint_saved","trial":0,"step":3,"path":"old/trial-0/checkpoints/3.txt","bytes":4096,"system":1795716455023699}');
INSERT INTO "event" VALUES(45,1,1795716455026482,'{"type":"reported","trial":0,"attempt":1,"step":3,"metrics":{"loss":0.33393110250143243}}');
INSERT INTO "event" VALUES(46,1,1795716455026482,'{"type":"checkpoint_dropped","trial":0,"path":"old/trial-0/checkpoints/2.txt"}');
INSERT INTO "event" VALUES(47,1,1795716455030756,'{"type":"checkpoint_saved","trial":4,"step":1,"path":"old/trial-4/checkpoints/1.txt","bytes":4096,"system":1795716455030719}');
INSERT INTO "event" VALUES(48,1,1795716455030756,'{"type":"reported","trial":4,"attempt":0,"step":1,"metrics":{"loss":1.0554019010616886}}');
INSERT INTO "event" VALUES(49,1,1795716455030756,'{"type":"decided","trial":4,"step":1,"verdict":{"pause":{"rung":{"rung":1,"rank":3,"of":5,"first":1}}}}');
INSERT INTO "event" VALUES(50,1,1795716455053545,'{"type":"attempt_ended","trial":4,"attempt":0,"end":"paused","reason":"rung 1 reached with rank 3 of 5; the best 1 continue","device_micros":501926}');
INSERT INTO "event" VALUES(51,1,1795716455053545,'{"type":"trial_paused","trial":4,"reason":"rung 1 reached with rank 3 of 5; the best 1 continue"}');
INSERT INTO "event" VALUES(52,1,1795716455053545,'{"type":"trial_created","trial":5,"params":{"x":0.7102957178805444},"origin":{"sampled":"gp"}}');
INSERT INTO "event" VALUES(53,1,1795716455053545,'{"type":"attempt_started","trial":5,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":1}');
INSERT INTO "event" VALUES(54,1,1795716455059092,'{"type":"attempt_launched","trial":5,"attempt":0,"pid":11814,"pid_started":2816842}');
INSERT INTO "event" VALUES(55,1,1795716455061754,'{"type":"attempt_ended","trial":0,"attempt":1,"end":"completed","reason":null,"device_micros":8209}');
INSERT INTO "event" VALUES(56,1,1795716455061754,'{"type":"trial_finished","trial":0,"state":"complete","value":0.33393110250143243,"reason":null}');
INSERT INTO "event" VALUES(57,1,1795716455375491,'{"type":"checkpoint_saved","trial":5,"step":1,"path":"old/trial-5/checkpoints/1.txt","bytes":4096,"system":1795716455375408}');
INSERT INTO "event" VALUES(58,1,1795716455375491,'{"type":"reported","trial":5,"attempt":0,"step":1,"metrics":{"loss":1.1683425761111113}}');
INSERT INTO "event" VALUES(59,1,1795716455375491,'{"type":"decided","trial":5,"step":1,"verdict":{"pause":{"rung":{"rung":1,"rank":5,"of":6,"first":2}}}}');
INSERT INTO "event" VALUES(60,1,1795716455375491,'{"type":"trial_queued","trial":1,"until":null,"reason":"rank 2 of 6 at rung 1; 2 continue to the end"}');
INSERT INTO "event" VALUES(61,1,1795716455375491,'{"type":"attempt_started","trial":1,"attempt":1,"slot":{"index":1,"device":"cpu"},"resume":[1,"old/trial-1/checkpoints/1.txt"],"until":null,"device_micros":313737}');
INSERT INTO "event" VALUES(62,1,1795716455379383,'{"type":"attempt_launched","trial":1,"attempt":1,"pid":11865,"pid_started":2816874}');
INSERT INTO "event" VALUES(63,1,1795716455483721,'{"type":"attempt_ended","trial":5,"attempt":0,"end":"paused","reason":"rung 1 reached with rank 5 of 6; the best 2 continue","device_micros":108230}');
INSERT INTO "event" VALUES(64,1,1795716455483721,'{"type":"trial_paused","trial":5,"reason":"rung 1 reached with rank 5 of 6; the best 2 continue"}');
INSERT INTO "event" VALUES(65,1,1795716455677731,'{"type":"checkpoint_saved","trial":1,"step":2,"path":"old/trial-1/checkpoints/2.txt","bytes":4096,"system":1795716455677781}');
INSERT INTO "event" VALUES(66,1,1795716455683011,'{"type":"reported","trial":1,"attempt":1,"step":2,"metrics":{"loss":0.5027183222082168}}');
INSERT INTO "event" VALUES(67,1,1795716455683011,'{"type":"checkpoint_dropped","trial":1,"path":"old/trial-1/checkpoints/1.txt"}');
INSERT INTO "event" VALUES(68,1,1795716455685234,'{"type":"checkpoint_saved","trial":1,"step":3,"path":"old/trial-1/checkpoints/3.txt","bytes":4096,"system":1795716455685250}');
INSERT INTO "event" VALUES(69,1,1795716455685234,'{"type":"reported","trial":1,"attempt":1,"step":3,"metrics":{"loss":0.33605165554155003}}');
INSERT INTO "event" VALUES(70,1,1795716455685234,'{"type":"checkpoint_dropped","trial":1,"path":"old/trial-1/checkpoints/2.txt"}');
INSERT INTO "event" VALUES(71,1,1795716455714488,'{"type":"attempt_ended","trial":1,"attempt":1,"end":"completed","reason":null,"device_micros":230767}');
INSERT INTO "event" VALUES(72,1,1795716455714488,'{"type":"trial_finished","trial":1,"state":"complete","value":0.33605165554155003,"reason":null}');
INSERT INTO "event" VALUES(73,1,1795716455714488,'{"type":"trial_finished","trial":2,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 3 of 3; the best 1 continue"}');
INSERT INTO "event" VALUES(74,1,1795716455714488,'{"type":"trial_finished","trial":3,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 3 of 4; the best 1 continue"}');
INSERT INTO "event" VALUES(75,1,1795716455714488,'{"type":"trial_finished","trial":4,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 3 of 5; the best 1 continue"}');
INSERT INTO "event" VALUES(76,1,1795716455714488,'{"type":"trial_finished","trial":5,"state":"pruned","value":null,"reason":"never promoted: rung 1 reached with rank 5 of 6; the best 2 continue"}');
INSERT INTO "event" VALUES(77,1,1795716455714488,'{"type":"checkpoint_dropped","trial":2,"path":"old/trial-2/checkpoints/1.txt"}');
INSERT INTO "event" VALUES(78,1,1795716455714488,'{"type":"checkpoint_dropped","trial":3,"path":"old/trial-3/checkpoints/1.txt"}');
INSERT INTO "event" VALUES(79,1,1795716455714488,'{"type":"checkpoint_dropped","trial":4,"path":"old/trial-4/checkpoints/1.txt"}');
INSERT INTO "event" VALUES(80,1,1795716455714488,'{"type":"checkpoint_dropped","trial":5,"path":"old/trial-5/checkpoints/1.txt"}');
INSERT INTO "event" VALUES(81,1,1795716455714488,'{"type":"study_finished","reason":"the budget of 6 trials is used up"}');
INSERT INTO "event" VALUES(82,1,1795716455714488,'{"type":"runner_stopped","reason":"the budget of 6 trials is used up","ran_micros":2830750}');
CREATE TABLE lease (
    study_id    INTEGER PRIMARY KEY REFERENCES study,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pid         INTEGER,
    pid_started INTEGER,
    host        TEXT,
    acquired_at INTEGER, boot_id TEXT,
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) STRICT;
INSERT INTO "lease" VALUES(1,1,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "metric" VALUES(1,'loss');
INSERT INTO "metric" VALUES(2,'system/peak_memory');
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
INSERT INTO "param" VALUES(1000000000,0,'0.32444931835653334',3.24449318356533344953e-01);
INSERT INTO "param" VALUES(1000000001,0,'0.2478624683340617',2.47862468334061697428e-01);
INSERT INTO "param" VALUES(1000000002,0,'0.9666399431735536',9.66639943173553617405e-01);
INSERT INTO "param" VALUES(1000000003,0,'0.6988179553603509',6.98817955360350850924e-01);
INSERT INTO "param" VALUES(1000000004,0,'0.5353760843027361',5.35376084302736088282e-01);
INSERT INTO "param" VALUES(1000000005,0,'0.7102957178805444',7.10295717880544352773e-01);
CREATE TABLE paused_device (
    study_id INTEGER NOT NULL REFERENCES study,
    device   TEXT NOT NULL,
    PRIMARY KEY (study_id, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE removed_run (
    trial_id INTEGER PRIMARY KEY,                                               -- as table `trial` had it
    at       INTEGER NOT NULL,                                                  -- when it was removed
    moved_to INTEGER                                                            -- trial.id in the other study, until its files are there
) STRICT;
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
INSERT INTO "report" VALUES(1000000000,1,1,1.00059776916809917146e+00,0,1795716453694470);
INSERT INTO "report" VALUES(1000000000,1,2,5.00597769168099171466e-01,1,1795716455015520);
INSERT INTO "report" VALUES(1000000000,1,3,3.33931102501432430784e-01,1,1795716455026482);
INSERT INTO "report" VALUES(1000000001,1,1,1.00271832220821677239e+00,0,1795716453558483);
INSERT INTO "report" VALUES(1000000001,1,2,5.02718322208216772395e-01,1,1795716455683011);
INSERT INTO "report" VALUES(1000000001,1,3,3.36051655541550031713e-01,1,1795716455685234);
INSERT INTO "report" VALUES(1000000002,1,1,1.44440881383443886498e+00,0,1795716454332891);
INSERT INTO "report" VALUES(1000000003,1,1,1.15905576151781075644e+00,0,1795716454454695);
INSERT INTO "report" VALUES(1000000004,1,1,1.05540190106168862982e+00,0,1795716455030756);
INSERT INTO "report" VALUES(1000000005,1,1,1.16834257611111125285e+00,0,1795716455375491);
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
INSERT INTO "runner" VALUES(1,1,11494,'host','[{"index":0,"device":"cpu"},{"index":1,"device":"cpu"}]',1795716452883738,1795716455714488,2830750,'the budget of 6 trials is used up','{"command":["hpsearch","run","study.toml","--plain"],"directory":"/home/user/old","code":{"unknown":"it is not in a git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"407d5e9c0859400c1d25bd70bcf94a7a34912e56"},"machine":{"host":"host","system":"Linux 6.1.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.py","bytes":511,"digest":"25c728c4d56e1b08788b786d0c81033256d65cd4a5bce8d192984c07dbc1f29a"}],"packages":{"interpreter":"/usr/bin/python3","count":94,"digest":"d0768515e0bdb43486b85439d472315b38f8a8ad7b40ce36eef11a5d20d462a9"}}');
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
INSERT INTO "series" VALUES(1,1000000001,2,'seconds',1,2,0.763736,2.827946,6402048.0);
INSERT INTO "series" VALUES(2,1000000000,2,'seconds',1,2,0.930871,2.175441,10149888.0);
INSERT INTO "series" VALUES(3,1000000002,2,'seconds',0,1,0.772397,0.772397,11538432.0);
INSERT INTO "series" VALUES(4,1000000003,2,'seconds',0,1,0.724027,0.724027,11030528.0);
INSERT INTO "series" VALUES(5,1000000004,2,'seconds',0,1,0.50056,0.50056,13824000.0);
INSERT INTO "series" VALUES(6,1000000005,2,'seconds',0,1,0.426499,0.426499,10244096.0);
CREATE TABLE series_block (
    id     INTEGER PRIMARY KEY,
    points BLOB NOT NULL                                                        -- steps, moments and values: see storage/sqlite/chunk.rs
) STRICT;
INSERT INTO "series_block" VALUES(1,X'01010232E4D87A8670E83F06D50627A29F0640E491B295BACCB006A4FDFB010000000000FA634100000000006C5841');
INSERT INTO "series_block" VALUES(2,X'010102226FB9FAB1C9ED3F32056B9C4D670140A2C5C695BACCB006B4F697010000000000146D4100000000005C6341');
INSERT INTO "series_block" VALUES(3,X'01010192E9D0E979B7E83FA2EB9096BACCB0060000000000026641');
INSERT INTO "series_block" VALUES(4,X'010101C478CDAB3A2BE73FAA81A096BACCB00600000000000A6541');
INSERT INTO "series_block" VALUES(5,X'010101BFF1B5679604E03FA6CEDD96BACCB00600000000005E6A41');
INSERT INTO "series_block" VALUES(6,X'01010185B53176C24BDB3FD8EB9197BACCB00600000000008A6341');
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
INSERT INTO "series_chunk" VALUES(1,0.763736,2.827946,2,6402048.0,10473472.0,6402048.0,1795716455711684,1);
INSERT INTO "series_chunk" VALUES(2,0.930871,2.175441,2,10149888.0,15245312.0,10149888.0,1795716455059179,2);
INSERT INTO "series_chunk" VALUES(3,0.772397,0.772397,1,11538432.0,11538432.0,11538432.0,1795716454423249,3);
INSERT INTO "series_chunk" VALUES(4,0.724027,0.724027,1,11030528.0,11030528.0,11030528.0,1795716454547541,4);
INSERT INTO "series_chunk" VALUES(5,0.50056,0.50056,1,13824000.0,13824000.0,13824000.0,1795716455052179,5);
INSERT INTO "series_chunk" VALUES(6,0.426499,0.426499,1,10244096.0,10244096.0,10244096.0,1795716455480044,6);
CREATE TABLE store (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL CHECK (length(id) = 32),
    salt        TEXT NOT NULL CHECK (length(salt) = 32),                        -- of digests of what is not stored itself
    values_left INTEGER NOT NULL DEFAULT 0 CHECK (values_left IN (0, 1))        -- 1: what was erased may still be in free pages
) STRICT;
INSERT INTO "store" VALUES(1,'69e0bf3d52a45a650ecd6dbdde70647f','c9c297c0f790112390f5f7113ca4baa7',0);
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
INSERT INTO "study" VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"epoch","seed":0,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}}],"enqueue":[],"sampler":{"name":"auto","version":6,"options":{}},"pruner":{"name":"asha","version":3,"options":{"max_resource":3,"min_resource":1,"mode":"promote"}},"program":{"command":{"run":["python3","train.py","{x}"],"cwd":"/home/user/old","env":{}}},"devices":{"use":["auto"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}',0,1795716452832021,1795716452832021,'the budget of 6 trials is used up',2830750,NULL,0,0,NULL,NULL,0.0,0.0,2830750,'["old"]');
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
INSERT INTO "study_revision" VALUES(1,0,0,1795716452832021,'{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"loss","direction":"minimize"}],"value":"best","step":"epoch","seed":0,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":null}}}],"enqueue":[],"sampler":{"name":"auto","version":6,"options":{}},"pruner":{"name":"asha","version":3,"options":{"max_resource":3,"min_resource":1,"mode":"promote"}},"program":{"command":{"run":["python3","train.py","{x}"],"cwd":"/home/user/old","env":{}}},"devices":{"use":["auto"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}');
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
INSERT INTO "trial" VALUES(1000000000,1,0,'complete','{"sampled":"gp"}',2,0,'cpu',NULL,NULL,1795716452883738,1795716454424770,1795716455061754,1576760,3,3.33931102501432430784e-01,'{"loss":0.33393110250143243}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000001,1,1,'complete','{"sampled":"gp"}',2,0,'cpu',NULL,NULL,1795716452883738,1795716455375491,1795716455714488,1106111,3,3.36051655541550031713e-01,'{"loss":0.33605165554155003}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000002,1,2,'pruned','{"sampled":"gp"}',1,0,'cpu',1,'never promoted: rung 1 reached with rank 3 of 3; the best 1 continue',1795716453650852,1795716453650852,1795716455714488,773918,1,1.44440881383443886498e+00,'{"loss":1.4444088138344389}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000003,1,3,'pruned','{"sampled":"tpe"}',1,0,'cpu',1,'never promoted: rung 1 reached with rank 3 of 4; the best 1 continue',1795716453823514,1795716453823514,1795716455714488,728105,1,1.15905576151781075644e+00,'{"loss":1.1590557615178108}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000004,1,4,'pruned','{"sampled":"gp"}',1,0,'cpu',1,'never promoted: rung 1 reached with rank 3 of 5; the best 1 continue',1795716454551619,1795716454551619,1795716455714488,501926,1,1.05540190106168862982e+00,'{"loss":1.0554019010616886}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000005,1,5,'pruned','{"sampled":"gp"}',1,0,'cpu',1,'never promoted: rung 1 reached with rank 5 of 6; the best 2 continue',1795716455053545,1795716455053545,1795716455714488,430176,1,1.16834257611111125285e+00,'{"loss":1.1683425761111113}',NULL,NULL,NULL,NULL,0);
CREATE TABLE trial_note (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE trial_tag (
    trial_id INTEGER NOT NULL REFERENCES trial,
    tag      TEXT NOT NULL,
    PRIMARY KEY (trial_id, tag)
) STRICT, WITHOUT ROWID;
CREATE TABLE trial_value (
    trial_id INTEGER NOT NULL REFERENCES trial,
    idx      INTEGER NOT NULL,
    value    REAL,                                                 -- NULL: NaN; no row: no value
    PRIMARY KEY (trial_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "trial_value" VALUES(1000000000,0,3.33931102501432430784e-01);
INSERT INTO "trial_value" VALUES(1000000001,0,3.36051655541550031713e-01);
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
INSERT INTO "sqlite_sequence" VALUES('event',82);
COMMIT;
