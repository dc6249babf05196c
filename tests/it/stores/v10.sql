-- A store of schema version 10, before Optuna's views told limits and left out hidden trials: two objectives, a limit that three
-- trials violate, one whose first value is NaN, a hidden one, and ranges that their steps do not reach.
PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1752200050;
PRAGMA user_version = 10;
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
INSERT INTO "attempt" VALUES(1000000000,0,0,'cpu',NULL,NULL,NULL,31779,6807771,1795969285139823,1795969285823788,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000001,0,1,'cpu',NULL,NULL,NULL,31786,6807772,1795969285139823,1795969285987014,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000002,0,0,'cpu',NULL,NULL,NULL,31879,6807838,1795969285823788,1795969286616793,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000003,0,1,'cpu',NULL,NULL,NULL,31905,6807855,1795969285987014,1795969286622306,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000004,0,0,'cpu',NULL,NULL,NULL,31979,6807917,1795969286616793,1795969287364649,'"completed"',NULL,1);
INSERT INTO "attempt" VALUES(1000000005,0,1,'cpu',NULL,NULL,NULL,31987,6807918,1795969286622306,1795969287243289,'"completed"',NULL,1);
CREATE TABLE checkpoint (
    trial_id INTEGER NOT NULL REFERENCES trial,
    seq      INTEGER NOT NULL,
    step     INTEGER NOT NULL,
    path     TEXT NOT NULL,
    at       INTEGER NOT NULL, bytes INTEGER, digest TEXT,
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
INSERT INTO "dimension" VALUES(1,0,'x','{"attributes":{"high":1.0,"log":false,"low":0.0,"step":0.3},"name":"FloatDistribution"}');
INSERT INTO "dimension" VALUES(1,1,'n','{"attributes":{"high":100,"log":false,"low":1,"step":7},"name":"IntDistribution"}');
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
INSERT INTO "event" VALUES(1,1,1795969285139823,'{"type":"runner_started","pid":31764,"host":"host","slots":[{"index":0,"device":"cpu"},{"index":1,"device":"cpu"}]}');
INSERT INTO "event" VALUES(2,1,1795969285139823,'{"type":"runner_described","lineage":{"command":["hpsearch","run","old.toml","--plain"],"directory":"/home/user/old","code":{"unknown":"it is not in a git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"2e2558feddd7c7e0141a62e2bf15e9bc71694466"},"machine":{"host":"host","system":"Linux 6.1.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.py","bytes":206,"digest":"4710a966c5971f2e4eb1490b6252567025957f5ecb7697963085207751003e69"}],"packages":{"interpreter":"/usr/bin/python3","count":94,"digest":"d0768515e0bdb43486b85439d472315b38f8a8ad7b40ce36eef11a5d20d462a9"}}}');
INSERT INTO "event" VALUES(3,1,1795969285139823,'{"type":"trial_created","trial":0,"params":{"n":43,"x":0.3},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(4,1,1795969285139823,'{"type":"attempt_started","trial":0,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(5,1,1795969285139823,'{"type":"trial_created","trial":1,"params":{"n":64,"x":0.3},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(6,1,1795969285139823,'{"type":"attempt_started","trial":1,"attempt":0,"slot":{"index":1,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(7,1,1795969285163600,'{"type":"attempt_launched","trial":0,"attempt":0,"pid":31779,"pid_started":6807771}');
INSERT INTO "event" VALUES(8,1,1795969285163600,'{"type":"attempt_launched","trial":1,"attempt":0,"pid":31786,"pid_started":6807772}');
INSERT INTO "event" VALUES(9,1,1795969285771293,'{"type":"reported","trial":0,"attempt":0,"step":1,"metrics":{"error":0.0,"latency":0.7,"size":0.0}}');
INSERT INTO "event" VALUES(10,1,1795969285823788,'{"type":"attempt_ended","trial":0,"attempt":0,"end":"completed","reason":null,"device_micros":683965}');
INSERT INTO "event" VALUES(11,1,1795969285823788,'{"type":"trial_finished","trial":0,"state":"complete","value":null,"values":[0.0,0.7],"reason":null}');
INSERT INTO "event" VALUES(12,1,1795969285823788,'{"type":"trial_created","trial":2,"params":{"n":78,"x":0.6},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(13,1,1795969285823788,'{"type":"attempt_started","trial":2,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(14,1,1795969285827670,'{"type":"attempt_launched","trial":2,"attempt":0,"pid":31879,"pid_started":6807838}');
INSERT INTO "event" VALUES(15,1,1795969285895414,'{"type":"reported","trial":1,"attempt":0,"step":1,"metrics":{"error":"NaN","latency":0.7,"size":1.0}}');
INSERT INTO "event" VALUES(16,1,1795969285987014,'{"type":"attempt_ended","trial":1,"attempt":0,"end":"completed","reason":null,"device_micros":163226}');
INSERT INTO "event" VALUES(17,1,1795969285987014,'{"type":"trial_finished","trial":1,"state":"complete","value":null,"values":["NaN",0.7],"reason":"its value is NaN: it cannot be the best"}');
INSERT INTO "event" VALUES(18,1,1795969285987014,'{"type":"trial_created","trial":3,"params":{"n":57,"x":0.8999999999999999},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(19,1,1795969285987014,'{"type":"attempt_started","trial":3,"attempt":0,"slot":{"index":1,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(20,1,1795969286016121,'{"type":"attempt_launched","trial":3,"attempt":0,"pid":31905,"pid_started":6807855}');
INSERT INTO "event" VALUES(21,1,1795969286531543,'{"type":"reported","trial":2,"attempt":0,"step":1,"metrics":{"error":0.2,"latency":0.7,"size":2.0}}');
INSERT INTO "event" VALUES(22,1,1795969286595571,'{"type":"reported","trial":3,"attempt":0,"step":1,"metrics":{"error":0.3,"latency":0.7,"size":3.0}}');
INSERT INTO "event" VALUES(23,1,1795969286616793,'{"type":"attempt_ended","trial":2,"attempt":0,"end":"completed","reason":null,"device_micros":629779}');
INSERT INTO "event" VALUES(24,1,1795969286616793,'{"type":"trial_finished","trial":2,"state":"complete","value":null,"values":[0.2,0.7],"reason":null}');
INSERT INTO "event" VALUES(25,1,1795969286616793,'{"type":"trial_created","trial":4,"params":{"n":71,"x":0.3},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(26,1,1795969286616793,'{"type":"attempt_started","trial":4,"attempt":0,"slot":{"index":0,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(27,1,1795969286621147,'{"type":"attempt_launched","trial":4,"attempt":0,"pid":31979,"pid_started":6807917}');
INSERT INTO "event" VALUES(28,1,1795969286622306,'{"type":"attempt_ended","trial":3,"attempt":0,"end":"completed","reason":null,"device_micros":5513}');
INSERT INTO "event" VALUES(29,1,1795969286622306,'{"type":"limits_broken","trial":3,"violation":0.5,"reason":"`size <= 2.5` is violated by 0.5"}');
INSERT INTO "event" VALUES(30,1,1795969286622306,'{"type":"trial_finished","trial":3,"state":"complete","value":null,"values":[0.3,0.7],"reason":"`size <= 2.5` is violated by 0.5"}');
INSERT INTO "event" VALUES(31,1,1795969286622306,'{"type":"trial_created","trial":5,"params":{"n":29,"x":0.0},"origin":{"sampled":"random"}}');
INSERT INTO "event" VALUES(32,1,1795969286622306,'{"type":"attempt_started","trial":5,"attempt":0,"slot":{"index":1,"device":"cpu"},"resume":null,"until":null}');
INSERT INTO "event" VALUES(33,1,1795969286625765,'{"type":"attempt_launched","trial":5,"attempt":0,"pid":31987,"pid_started":6807918}');
INSERT INTO "event" VALUES(34,1,1795969287203330,'{"type":"reported","trial":5,"attempt":0,"step":1,"metrics":{"error":0.5,"latency":0.7,"size":5.0}}');
INSERT INTO "event" VALUES(35,1,1795969287243289,'{"type":"attempt_ended","trial":5,"attempt":0,"end":"completed","reason":null,"device_micros":620983}');
INSERT INTO "event" VALUES(36,1,1795969287243289,'{"type":"limits_broken","trial":5,"violation":2.5,"reason":"`size <= 2.5` is violated by 2.5"}');
INSERT INTO "event" VALUES(37,1,1795969287243289,'{"type":"trial_finished","trial":5,"state":"complete","value":null,"values":[0.5,0.7],"reason":"`size <= 2.5` is violated by 2.5"}');
INSERT INTO "event" VALUES(38,1,1795969287335322,'{"type":"reported","trial":4,"attempt":0,"step":1,"metrics":{"error":0.4,"latency":0.7,"size":4.0}}');
INSERT INTO "event" VALUES(39,1,1795969287364649,'{"type":"attempt_ended","trial":4,"attempt":0,"end":"completed","reason":null,"device_micros":121360}');
INSERT INTO "event" VALUES(40,1,1795969287364649,'{"type":"limits_broken","trial":4,"violation":1.5,"reason":"`size <= 2.5` is violated by 1.5"}');
INSERT INTO "event" VALUES(41,1,1795969287364649,'{"type":"trial_finished","trial":4,"state":"complete","value":null,"values":[0.4,0.7],"reason":"`size <= 2.5` is violated by 1.5"}');
INSERT INTO "event" VALUES(42,1,1795969287364649,'{"type":"study_finished","reason":"the budget of 6 trials is used up","front":{"trials":[0],"knee":0,"hypervolume":0.006999999999999996,"reference":[0.1,0.7699999999999999]}}');
INSERT INTO "event" VALUES(43,1,1795969287364649,'{"type":"runner_stopped","reason":"the budget of 6 trials is used up","ran_micros":2224826}');
INSERT INTO "event" VALUES(44,1,1795969287513444,'{"type":"trial_hidden","trial":2}');
INSERT INTO "event" VALUES(45,1,1795969287513444,'{"type":"request_served","id":1,"answer":{"done":"trial 2 is hidden"}}');
CREATE TABLE lease (
    study_id    INTEGER PRIMARY KEY REFERENCES study,
    epoch       INTEGER NOT NULL DEFAULT 0,
    pid         INTEGER,
    pid_started INTEGER,
    host        TEXT,
    acquired_at INTEGER, boot_id TEXT,
    CHECK ((pid IS NULL) = (host IS NULL) AND (pid IS NULL) = (pid_started IS NULL) AND (pid IS NULL) = (acquired_at IS NULL))
) STRICT;
INSERT INTO "lease" VALUES(1,2,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "metric" VALUES(1,'error');
INSERT INTO "metric" VALUES(2,'latency');
INSERT INTO "metric" VALUES(3,'size');
INSERT INTO "metric" VALUES(4,'system/peak_memory');
CREATE TABLE objective (
    study_id  INTEGER NOT NULL REFERENCES study,
    idx       INTEGER NOT NULL,
    metric    TEXT NOT NULL,
    direction TEXT NOT NULL CHECK (direction IN ('minimize', 'maximize')),
    PRIMARY KEY (study_id, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO "objective" VALUES(1,0,'error','minimize');
INSERT INTO "objective" VALUES(1,1,'latency','minimize');
CREATE TABLE param (
    trial_id  INTEGER NOT NULL REFERENCES trial,
    dimension INTEGER NOT NULL,                                    -- dimension.idx of the trial's study
    value     TEXT NOT NULL CHECK (json_valid(value)),
    internal  REAL,                                                -- the number, or the choice's index
    PRIMARY KEY (trial_id, dimension)
) STRICT, WITHOUT ROWID;
INSERT INTO "param" VALUES(1000000000,0,'0.3',0.3);
INSERT INTO "param" VALUES(1000000000,1,'43',43.0);
INSERT INTO "param" VALUES(1000000001,0,'0.3',0.3);
INSERT INTO "param" VALUES(1000000001,1,'64',64.0);
INSERT INTO "param" VALUES(1000000002,0,'0.6',0.6);
INSERT INTO "param" VALUES(1000000002,1,'78',78.0);
INSERT INTO "param" VALUES(1000000003,0,'0.8999999999999999',8.99999999999999911182e-01);
INSERT INTO "param" VALUES(1000000003,1,'57',57.0);
INSERT INTO "param" VALUES(1000000004,0,'0.3',0.3);
INSERT INTO "param" VALUES(1000000004,1,'71',71.0);
INSERT INTO "param" VALUES(1000000005,0,'0.0',0.0);
INSERT INTO "param" VALUES(1000000005,1,'29',29.0);
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
INSERT INTO "report" VALUES(1000000000,1,1,0.0,0,1795969285771293);
INSERT INTO "report" VALUES(1000000000,2,1,0.7,0,1795969285771293);
INSERT INTO "report" VALUES(1000000000,3,1,0.0,0,1795969285771293);
INSERT INTO "report" VALUES(1000000001,1,1,NULL,0,1795969285895414);
INSERT INTO "report" VALUES(1000000001,2,1,0.7,0,1795969285895414);
INSERT INTO "report" VALUES(1000000001,3,1,1.0,0,1795969285895414);
INSERT INTO "report" VALUES(1000000002,1,1,0.2,0,1795969286531543);
INSERT INTO "report" VALUES(1000000002,2,1,0.7,0,1795969286531543);
INSERT INTO "report" VALUES(1000000002,3,1,2.0,0,1795969286531543);
INSERT INTO "report" VALUES(1000000003,1,1,0.3,0,1795969286595571);
INSERT INTO "report" VALUES(1000000003,2,1,0.7,0,1795969286595571);
INSERT INTO "report" VALUES(1000000003,3,1,3.0,0,1795969286595571);
INSERT INTO "report" VALUES(1000000004,1,1,0.4,0,1795969287335322);
INSERT INTO "report" VALUES(1000000004,2,1,0.7,0,1795969287335322);
INSERT INTO "report" VALUES(1000000004,3,1,4.0,0,1795969287335322);
INSERT INTO "report" VALUES(1000000005,1,1,0.5,0,1795969287203330);
INSERT INTO "report" VALUES(1000000005,2,1,0.7,0,1795969287203330);
INSERT INTO "report" VALUES(1000000005,3,1,5.0,0,1795969287203330);
CREATE TABLE request (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id  INTEGER NOT NULL REFERENCES study,
    body      TEXT NOT NULL CHECK (json_valid(body)),
    at        INTEGER NOT NULL,
    served_at INTEGER
, answer TEXT CHECK (answer IS NULL OR json_valid(answer))) STRICT;
INSERT INTO "request" VALUES(1,1,'{"type":"hide","trial":2}',1795969287493660,1795969287513444,'{"done":"trial 2 is hidden"}');
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
INSERT INTO "runner" VALUES(1,1,31764,'host','[{"index":0,"device":"cpu"},{"index":1,"device":"cpu"}]',1795969285139823,1795969287364649,2224826,'the budget of 6 trials is used up','{"command":["hpsearch","run","old.toml","--plain"],"directory":"/home/user/old","code":{"unknown":"it is not in a git repository with a commit"},"hpsearch":{"version":"0.1.0","digest":"2e2558feddd7c7e0141a62e2bf15e9bc71694466"},"machine":{"host":"host","system":"Linux 6.1.0 x86_64","processor":"Intel(R) Xeon(R) Processor","cores":2,"gpus":[]},"files":[{"role":"program","path":"/home/user/old/train.py","bytes":206,"digest":"4710a966c5971f2e4eb1490b6252567025957f5ecb7697963085207751003e69"}],"packages":{"interpreter":"/usr/bin/python3","count":94,"digest":"d0768515e0bdb43486b85439d472315b38f8a8ad7b40ce36eef11a5d20d462a9"}}');
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
INSERT INTO "series" VALUES(1,1000000000,4,'seconds',0,1,0.683597,0.683597,10305536.0);
INSERT INTO "series" VALUES(2,1000000001,4,'seconds',0,1,0.845782,0.845782,13021184.0);
INSERT INTO "series" VALUES(3,1000000002,4,'seconds',0,1,0.778594,0.778594,9814016.0);
INSERT INTO "series" VALUES(4,1000000003,4,'seconds',0,1,0.632581,0.632581,11218944.0);
INSERT INTO "series" VALUES(5,1000000005,4,'seconds',0,1,0.60682,0.60682,9629696.0);
INSERT INTO "series" VALUES(6,1000000004,4,'seconds',0,1,0.742863,0.742863,9904128.0);
CREATE TABLE series_block (
    id     INTEGER PRIMARY KEY,
    points BLOB NOT NULL                                                        -- steps, moments and values: see storage/sqlite/chunk.rs
) STRICT;
INSERT INTO "series_block" VALUES(1,X'0101014A99D4D006E0E53FF8EEF8F495DBB0060000000000A86341');
INSERT INTO "series_block" VALUES(2,X'0101018274B169A510EB3F8AD58CF595DBB0060000000000D66841');
INSERT INTO "series_block" VALUES(3,X'0101011094DBF63DEAE83F9CFAD7F595DBB0060000000000B86241');
INSERT INTO "series_block" VALUES(4,X'0101016F4562821A3EE43F9687DAF595DBB0060000000000666541');
INSERT INTO "series_block" VALUES(5,X'01010109E1D1C6116BE33F8CBBA4F695DBB00600000000005E6241');
INSERT INTO "series_block" VALUES(6,X'01010102124DA088C5E73FD0B2B4F695DBB0060000000000E46241');
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
INSERT INTO "series_chunk" VALUES(1,0.683597,0.683597,1,10305536.0,10305536.0,10305536.0,1795969285823420,1);
INSERT INTO "series_chunk" VALUES(2,0.845782,0.845782,1,13021184.0,13021184.0,13021184.0,1795969285985605,2);
INSERT INTO "series_chunk" VALUES(3,0.778594,0.778594,1,9814016.0,9814016.0,9814016.0,1795969286602382,3);
INSERT INTO "series_chunk" VALUES(4,0.632581,0.632581,1,11218944.0,11218944.0,11218944.0,1795969286619595,4);
INSERT INTO "series_chunk" VALUES(5,0.60682,0.60682,1,9629696.0,9629696.0,9629696.0,1795969287229126,5);
INSERT INTO "series_chunk" VALUES(6,0.742863,0.742863,1,9904128.0,9904128.0,9904128.0,1795969287359656,6);
CREATE TABLE store (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL CHECK (length(id) = 32),
    salt        TEXT NOT NULL CHECK (length(salt) = 32),                        -- of digests of what is not stored itself
    values_left INTEGER NOT NULL DEFAULT 0 CHECK (values_left IN (0, 1))        -- 1: what was erased may still be in free pages
) STRICT;
INSERT INTO "store" VALUES(1,'80fb1672dd8299a773d5a43326acdec7','f49b99433802688c9c4926d5fd40c802',0);
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
INSERT INTO "study" VALUES(1,'old','{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"error","direction":"minimize"},{"metric":"latency","direction":"minimize"}],"value":"last","step":"epoch","seed":0,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":0.3}}},{"name":"n","distribution":{"int":{"low":1,"high":100,"scale":"linear","step":7}}}],"enqueue":[],"constraints":[{"limit":"size <= 2.5"}],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"none","version":1,"options":{}},"program":{"command":{"run":["python3","train.py","{x}"],"cwd":"/home/user/old","env":{}}},"devices":{"use":["auto"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}',0,1795969285084320,1795969285084320,'the budget of 6 trials is used up',2224826,NULL,0,0,NULL,NULL,0.0,0.0,2224826,'["old"]');
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
INSERT INTO "study_revision" VALUES(1,0,0,1795969285084320,'{"format":1,"name":"old","description":null,"tags":[],"objectives":[{"metric":"error","direction":"minimize"},{"metric":"latency","direction":"minimize"}],"value":"last","step":"epoch","seed":0,"duplicates":"skip","budget":{"trials":6,"count":"finished","time":null,"target":null,"failures":null,"trial_time":null},"space":[{"name":"x","distribution":{"float":{"low":0.0,"high":1.0,"scale":"linear","step":0.3}}},{"name":"n","distribution":{"int":{"low":1,"high":100,"scale":"linear","step":7}}}],"enqueue":[],"constraints":[{"limit":"size <= 2.5"}],"sampler":{"name":"random","version":1,"options":{}},"pruner":{"name":"none","version":1,"options":{}},"program":{"command":{"run":["python3","train.py","{x}"],"cwd":"/home/user/old","env":{}}},"devices":{"use":["auto"],"trials_per_device":null,"cpu_threads":1},"retry":{"max":2,"on":["worker_lost"]},"checkpoints":{"keep_best":3,"dir":null},"export":{"dir":null,"on_finish":false}}');
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
INSERT INTO "trial" VALUES(1000000000,1,0,'complete','{"sampled":"random"}',1,0,'cpu',NULL,NULL,1795969285139823,1795969285139823,1795969285823788,683965,1,0.0,'{"error":0.0,"latency":0.7,"size":0.0}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000001,1,1,'complete','{"sampled":"random"}',1,0,'cpu',NULL,'its value is NaN: it cannot be the best',1795969285139823,1795969285139823,1795969285987014,847191,1,NULL,'{"error":"NaN","latency":0.7,"size":1.0}',NULL,NULL,NULL,NULL,0);
INSERT INTO "trial" VALUES(1000000002,1,2,'complete','{"sampled":"random"}',1,0,'cpu',NULL,NULL,1795969285823788,1795969285823788,1795969286616793,793005,1,0.2,'{"error":0.2,"latency":0.7,"size":2.0}',NULL,NULL,NULL,NULL,1);
INSERT INTO "trial" VALUES(1000000003,1,3,'complete','{"sampled":"random"}',1,0,'cpu',NULL,'`size <= 2.5` is violated by 0.5',1795969285987014,1795969285987014,1795969286622306,635292,1,0.3,'{"error":0.3,"latency":0.7,"size":3.0}',NULL,NULL,NULL,0.5,0);
INSERT INTO "trial" VALUES(1000000004,1,4,'complete','{"sampled":"random"}',1,0,'cpu',NULL,'`size <= 2.5` is violated by 1.5',1795969286616793,1795969286616793,1795969287364649,747856,1,0.4,'{"error":0.4,"latency":0.7,"size":4.0}',NULL,NULL,NULL,1.5,0);
INSERT INTO "trial" VALUES(1000000005,1,5,'complete','{"sampled":"random"}',1,0,'cpu',NULL,'`size <= 2.5` is violated by 2.5',1795969286622306,1795969286622306,1795969287243289,620983,1,0.5,'{"error":0.5,"latency":0.7,"size":5.0}',NULL,NULL,NULL,2.5,0);
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
INSERT INTO "trial_value" VALUES(1000000000,0,0.0);
INSERT INTO "trial_value" VALUES(1000000000,1,0.7);
INSERT INTO "trial_value" VALUES(1000000001,0,NULL);
INSERT INTO "trial_value" VALUES(1000000001,1,0.7);
INSERT INTO "trial_value" VALUES(1000000002,0,0.2);
INSERT INTO "trial_value" VALUES(1000000002,1,0.7);
INSERT INTO "trial_value" VALUES(1000000003,0,0.3);
INSERT INTO "trial_value" VALUES(1000000003,1,0.7);
INSERT INTO "trial_value" VALUES(1000000004,0,0.4);
INSERT INTO "trial_value" VALUES(1000000004,1,0.7);
INSERT INTO "trial_value" VALUES(1000000005,0,0.5);
INSERT INTO "trial_value" VALUES(1000000005,1,0.7);
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
INSERT INTO "sqlite_sequence" VALUES('event',45);
INSERT INTO "sqlite_sequence" VALUES('request',1);
COMMIT;
