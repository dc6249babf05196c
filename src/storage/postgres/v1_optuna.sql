-- Read-only views under Optuna's table names, as in SQLite (see sqlite/v1_optuna.sql), with the types that Optuna's models
-- have in PostgreSQL.

CREATE TYPE trialstate AS ENUM ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL', 'WAITING');
CREATE TYPE studydirection AS ENUM ('NOT_SET', 'MINIMIZE', 'MAXIMIZE');
CREATE TYPE trialvaluetype AS ENUM ('FINITE', 'INF_POS', 'INF_NEG');
CREATE TYPE trialintermediatevaluetype AS ENUM ('FINITE', 'INF_POS', 'INF_NEG', 'NAN');

CREATE VIEW studies AS SELECT id AS study_id, name AS study_name FROM study;

CREATE VIEW study_directions AS
  SELECT study_id * 64 + idx AS study_direction_id, upper(direction)::studydirection AS direction, study_id, idx AS objective
  FROM objective;

CREATE VIEW study_user_attributes AS
  SELECT 0::bigint AS study_user_attribute_id, 0::bigint AS study_id, ''::text AS key, ''::text AS value_json WHERE false;

CREATE VIEW study_system_attributes AS
  SELECT study_id AS study_system_attribute_id, study_id, 'study:metric_names'::text AS key,
         json_agg(metric ORDER BY idx)::text AS value_json
  FROM objective GROUP BY study_id;

CREATE VIEW trials AS
  SELECT id AS trial_id, number, study_id,
         (CASE state WHEN 'queued' THEN 'WAITING' WHEN 'running' THEN 'RUNNING' WHEN 'paused' THEN 'RUNNING'
                     WHEN 'pruned' THEN 'PRUNED'
                     WHEN 'complete' THEN CASE WHEN (SELECT count(value) = count(*) AND count(*) > 0 FROM trial_value
                                                     WHERE trial_id = id) THEN 'COMPLETE' ELSE 'FAIL' END
                     ELSE 'FAIL' END)::trialstate AS state,
         TIMESTAMP 'epoch' + began * INTERVAL '1 microsecond' AS datetime_start,
         TIMESTAMP 'epoch' + ended * INTERVAL '1 microsecond' AS datetime_complete
  FROM (SELECT id, number, study_id, state,
               coalesce((SELECT a.started_at FROM attempt a WHERE a.trial_id = trial.id ORDER BY a.attempt LIMIT 1),
                        CASE WHEN state <> 'queued' THEN created_at END) AS began,
               CASE WHEN state IN ('complete', 'pruned', 'failed') THEN coalesce(finished_at, created_at) END AS ended
        FROM trial) AS times;

CREATE VIEW trial_params AS
  SELECT p.trial_id * 4096 + p.dimension AS param_id, p.trial_id, d.name AS param_name, p.internal AS param_value,
         d.optuna_json AS distribution_json
  FROM param p JOIN dimension d ON d.study_id = p.trial_id / 1000000000 AND d.idx = p.dimension
  WHERE p.internal IS NOT NULL AND d.optuna_json IS NOT NULL;

CREATE VIEW trial_values AS
  SELECT trial_id * 64 + idx AS trial_value_id, trial_id, idx AS objective,
         CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END AS value,
         (CASE WHEN value > 1.7976931348623157e308 THEN 'INF_POS' WHEN value < -1.7976931348623157e308 THEN 'INF_NEG'
               ELSE 'FINITE' END)::trialvaluetype AS value_type
  FROM trial_value WHERE value IS NOT NULL AND (SELECT state FROM trial WHERE id = trial_id) = 'complete';

CREATE VIEW trial_intermediate_values AS
  SELECT r.trial_id * 1048576 + row_number() OVER (PARTITION BY r.trial_id ORDER BY r.step) AS trial_intermediate_value_id,
         r.trial_id, r.step,
         CASE WHEN abs(r.value) <= 1.7976931348623157e308 THEN r.value END AS intermediate_value,
         (CASE WHEN r.value IS NULL THEN 'NAN' WHEN r.value > 1.7976931348623157e308 THEN 'INF_POS'
               WHEN r.value < -1.7976931348623157e308 THEN 'INF_NEG' ELSE 'FINITE' END)::trialintermediatevaluetype
           AS intermediate_value_type
  FROM report r
  WHERE r.metric_id = (SELECT m.id FROM objective o JOIN metric m ON m.name = o.metric
                       WHERE o.study_id = r.trial_id / 1000000000 AND o.idx = 0);

CREATE VIEW trial_user_attributes AS
  SELECT id AS trial_user_attribute_id, id AS trial_id, 'reason'::text AS key, to_json(reason)::text AS value_json
  FROM trial WHERE reason IS NOT NULL;

CREATE VIEW trial_system_attributes AS
  SELECT 0::bigint AS trial_system_attribute_id, 0::bigint AS trial_id, ''::text AS key, ''::text AS value_json WHERE false;

CREATE VIEW trial_heartbeats AS
  SELECT 0::bigint AS trial_heartbeat_id, 0::bigint AS trial_id, TIMESTAMP 'epoch' AS heartbeat WHERE false;

CREATE VIEW version_info AS SELECT 1 AS version_info_id, 12 AS schema_version, '5.0.0'::text AS library_version;

CREATE VIEW alembic_version AS SELECT 'v3.2.0.a'::text AS version_num;
