BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'demo');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MAXIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_user_attributes" VALUES(1,1,'note','"x"');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_intermediate_values" VALUES(1,1,0,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,1,1,1.00027620194230837391e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(3,1,2,1.00055240388461652578e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(4,1,3,1.0008286058269248997e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(5,1,4,1.00110480776923327361e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(6,2,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(7,2,1,3.00003842627324202041e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(8,2,2,3.00007685254648359673e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(9,2,3,3.00011527881972561715e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(10,2,4,3.00015370509296719347e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(11,3,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(12,3,1,3.00022596370362482076e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(13,3,2,3.00045192740724964153e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(14,3,3,3.00067789111087446229e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(15,3,4,3.00090385481449928306e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(16,4,0,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(17,4,1,1.00659753276000207833e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(18,4,2,1.01319506552000415666e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(19,4,3,1.019792598280006235e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(20,4,4,1.02639013104000809128e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(21,5,0,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(22,5,1,1.00022009676349354911e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(23,5,2,1.00044019352698732028e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(24,5,3,1.0006602902904808694e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(25,5,4,1.00088038705397441852e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(26,6,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(27,6,1,3.03111579383679918819e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(28,6,2,3.06223158767359882048e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(29,6,3,3.09334738151039800868e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(30,6,4,3.12446317534719719688e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(31,7,0,4.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(32,7,1,4.00040381446568638068e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(33,7,2,4.00080762893137276137e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(34,7,3,4.00121144339705825387e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(35,7,4,4.00161525786274463456e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(36,8,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(37,8,1,3.04832521846025317202e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(38,8,2,3.09665043692050589996e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(39,8,3,3.14497565538075907198e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(40,8,4,3.19330087384101224401e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(41,9,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(42,9,1,3.00145862500720106424e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(43,9,2,3.00291725001440257258e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(44,9,3,3.00437587502160363683e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(45,9,4,3.00583450002880470108e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(46,10,0,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(47,11,0,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(48,12,0,4.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(49,12,1,4.00843897882081,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(50,12,2,4.01687795764162,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(51,12,3,4.02531693646243127204e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(52,12,4,4.0337559152832414e+00,'FINITE');
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'lr',2.76201942308316723915e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(2,1,'layers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(3,1,'opt',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(4,1,'b',0.1,'{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(5,2,'lr',3.84262732418065488457e-05,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(6,2,'layers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(7,2,'opt',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(8,2,'b',0.4,'{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(9,3,'lr',2.25963703624870883681e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(10,3,'layers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(11,3,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(12,4,'lr',6.59753276000204884332e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(13,4,'layers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(14,4,'opt',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(15,5,'lr',2.2009676349362097456e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(16,5,'layers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(17,5,'opt',3.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(18,6,'lr',3.11157938367993339157e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(19,6,'layers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(20,6,'opt',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(21,7,'lr',4.03814465686171272188e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(22,7,'layers',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(23,7,'opt',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(24,7,'b',0.9,'{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(25,8,'lr',4.83252184602530193702e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(26,8,'layers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(27,8,'opt',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(28,8,'b',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(29,9,'lr',1.45862500720120281082e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(30,9,'layers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(31,9,'opt',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(32,10,'lr',1.25311474109477609222e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(33,10,'layers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(34,10,'opt',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(35,11,'lr',1.23947616803126095942e-05,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(36,11,'layers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(37,11,'opt',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(38,12,'lr',8.43897882081033438861e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(39,12,'layers',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(40,12,'opt',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam", null, true, 3]}}');
INSERT INTO "trial_params" VALUES(41,12,'b',1.0,'{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 1.0, "log": false}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,12,'tpe:relative_params:0','"{\"layers\": 4, \"lr\": 0.008438978820810334, \"opt\": \"adam\"}"');
INSERT INTO "trial_system_attributes" VALUES(2,13,'fixed_params','{"lr": 0.01}');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(2,2,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(3,3,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(4,4,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(5,5,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(6,6,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(7,7,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(8,8,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(9,9,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(10,10,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(11,11,'who','"me"');
INSERT INTO "trial_user_attributes" VALUES(12,12,'who','"me"');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,1.00027620194230837391e+00,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,3.00003842627324202041e+00,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,3.00022596370362482076e+00,'FINITE');
INSERT INTO "trial_values" VALUES(4,4,0,1.00659753276000207833e+00,'FINITE');
INSERT INTO "trial_values" VALUES(5,5,0,1.00022009676349354911e+00,'FINITE');
INSERT INTO "trial_values" VALUES(6,6,0,3.03111579383679918819e+00,'FINITE');
INSERT INTO "trial_values" VALUES(7,7,0,4.00040381446568638068e+00,'FINITE');
INSERT INTO "trial_values" VALUES(8,9,0,3.00145862500720106424e+00,'FINITE');
INSERT INTO "trial_values" VALUES(9,10,0,1.0,'FINITE');
INSERT INTO "trial_values" VALUES(10,11,0,1.0,'FINITE');
INSERT INTO "trial_values" VALUES(11,12,0,4.00843897882081,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-24 08:08:13.315133','2026-11-24 08:08:13.471935');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-24 08:08:13.484730','2026-11-24 08:08:13.579056');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-24 08:08:13.589201','2026-11-24 08:08:13.672651');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-24 08:08:13.686636','2026-11-24 08:08:13.773231');
INSERT INTO "trials" VALUES(5,4,1,'COMPLETE','2026-11-24 08:08:13.784143','2026-11-24 08:08:13.871195');
INSERT INTO "trials" VALUES(6,5,1,'COMPLETE','2026-11-24 08:08:13.882359','2026-11-24 08:08:13.994184');
INSERT INTO "trials" VALUES(7,6,1,'COMPLETE','2026-11-24 08:08:14.006144','2026-11-24 08:08:14.127376');
INSERT INTO "trials" VALUES(8,7,1,'FAIL','2026-11-24 08:08:14.138956','2026-11-24 08:08:14.237648');
INSERT INTO "trials" VALUES(9,8,1,'COMPLETE','2026-11-24 08:08:14.251563','2026-11-24 08:08:14.357609');
INSERT INTO "trials" VALUES(10,9,1,'PRUNED','2026-11-24 08:08:14.370015','2026-11-24 08:08:14.416015');
INSERT INTO "trials" VALUES(11,10,1,'PRUNED','2026-11-24 08:08:14.426986','2026-11-24 08:08:14.479539');
INSERT INTO "trials" VALUES(12,11,1,'COMPLETE','2026-11-24 08:08:14.492125','2026-11-24 08:08:14.619132');
INSERT INTO "trials" VALUES(13,12,1,'WAITING',NULL,NULL);
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
