-- Version 11: Optuna's views leave out hidden trials and all values of a trial of which one is NaN, tell violated limits as
-- Optuna's constraints, and have no metric names where those are the defaults. Facts they rest on: Optuna counts a trial as
-- feasible whose constraints are all 0 or less, and finds those of a `constraints_func` in the list `constraints`; a FAIL
-- trial with fewer values than objectives cannot be read; studies without metric names have the column `value` in
-- `trials_dataframe`, others `value_NAME`.

-- By study, since few trials violate a limit.
CREATE INDEX trial_violating ON trial (study_id) WHERE violation IS NOT NULL;

DROP VIEW study_system_attributes;
CREATE VIEW study_system_attributes AS
  SELECT study_id AS study_system_attribute_id, study_id, 'study:metric_names' AS key, json_group_array(metric) AS value_json
  FROM (SELECT * FROM objective ORDER BY study_id, idx) GROUP BY study_id
  HAVING NOT iif(count(*) = 1, max(metric) = 'value', sum(metric = 'value_' || idx) = count(*));

DROP VIEW trials;
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
        FROM trial WHERE hidden = 0);

DROP VIEW trial_values;
CREATE VIEW trial_values AS
  SELECT trial_id * 64 + idx AS trial_value_id, trial_id, idx AS objective,
         CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END AS value,
         CASE WHEN value > 1.7976931348623157e308 THEN 'INF_POS' WHEN value < -1.7976931348623157e308 THEN 'INF_NEG'
              ELSE 'FINITE' END AS value_type
  FROM trial_value v
  WHERE (SELECT state FROM trial WHERE id = v.trial_id AND hidden = 0) = 'complete'
    AND NOT EXISTS (SELECT 1 FROM trial_value n WHERE n.trial_id = v.trial_id AND n.value IS NULL);

-- Of complete trials, in studies with limits or (imported ones) with trials that violate some.
DROP VIEW trial_system_attributes;
CREATE VIEW trial_system_attributes AS
  SELECT id AS trial_system_attribute_id, id AS trial_id, 'constraints' AS key,
         printf('[%!.17g]', coalesce(violation, 0.0)) AS value_json
  FROM trial
  WHERE state = 'complete' AND hidden = 0 AND study_id IN (
      SELECT s.id FROM study s, json_each(s.spec, '$.constraints') c
      WHERE json_type(c.value, '$.limit') IS NOT NULL OR json_type(c.value, '$.pruning_limit') IS NOT NULL
      UNION SELECT study_id FROM trial WHERE violation IS NOT NULL);
