-- Version 3: Optuna's views, as version 11 of the SQLite file.

CREATE INDEX trial_violating ON trial (study_id) WHERE violation IS NOT NULL;

CREATE OR REPLACE VIEW study_system_attributes AS
  SELECT study_id AS study_system_attribute_id, study_id, 'study:metric_names'::text AS key,
         json_agg(metric ORDER BY idx)::text AS value_json
  FROM objective GROUP BY study_id
  HAVING NOT CASE WHEN count(*) = 1 THEN bool_and(metric = 'value') ELSE bool_and(metric = 'value_' || idx) END;

CREATE OR REPLACE VIEW trials AS
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
        FROM trial WHERE hidden = 0) AS times;

CREATE OR REPLACE VIEW trial_values AS
  SELECT trial_id * 64 + idx AS trial_value_id, trial_id, idx AS objective,
         CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END AS value,
         (CASE WHEN value > 1.7976931348623157e308 THEN 'INF_POS' WHEN value < -1.7976931348623157e308 THEN 'INF_NEG'
               ELSE 'FINITE' END)::trialvaluetype AS value_type
  FROM trial_value v
  WHERE (SELECT state FROM trial WHERE id = v.trial_id AND hidden = 0) = 'complete'
    AND NOT EXISTS (SELECT 1 FROM trial_value n WHERE n.trial_id = v.trial_id AND n.value IS NULL);

CREATE OR REPLACE VIEW trial_system_attributes AS
  SELECT id AS trial_system_attribute_id, id AS trial_id, 'constraints'::text AS key,
         json_build_array(coalesce(violation, 0.0::double precision))::text AS value_json
  FROM trial
  WHERE state = 'complete' AND hidden = 0 AND study_id IN (
      SELECT s.id FROM study s, json_array_elements(coalesce(s.spec::json -> 'constraints', '[]'::json)) c
      WHERE c -> 'limit' IS NOT NULL OR c -> 'pruning_limit' IS NOT NULL
      UNION SELECT study_id FROM trial WHERE violation IS NOT NULL);
