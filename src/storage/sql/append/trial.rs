//! Writes the events of trials to their tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Append, add_dimension, text};
use crate::storage::journal::{StoredReport, reports_of};
use crate::storage::sql::artifacts;
use crate::storage::sql::column::{
    first, from_real, json, number_of, rows, to_integer, to_json, to_real, trial_id, value,
};
use crate::storage::sql::connection::params;
use crate::storage::sql::fault::Fault;
use crate::storage::sql::journal;
use crate::storage::sql::read::{race, study_row};
use crate::storage::sql::series::{self, SeriesKey};
use crate::study::decision::Decision;
use crate::study::device::Slot;
use crate::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, DecisionEvent, EntryEvent, RecordEvent, StateEvent,
    TrialEvent,
};
use crate::study::finalists::Race;
use crate::study::metric::{LastMetrics, Metrics};
use crate::study::params::Params;
use crate::study::series::{LoggedPoint, SeriesAxis};
use crate::study::state::{StudyState, continues};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Hold, Origin, TrialNumber, TrialState};

impl Append<'_> {
    pub(super) fn create(
        &mut self,
        id: i64,
        number: TrialNumber,
        params: &Params,
        origin: &Origin,
    ) -> Result<(), Fault> {
        let configuration =
            origin.configuration().map(|number| to_integer(number.0)).transpose()?;
        self.execute(
            "INSERT INTO trial (id, study_id, number, state, origin, created_at, configuration) \
             VALUES (?1, ?2, ?3, 'queued', ?4, ?5, ?6)",
            params![
                id,
                self.study.0,
                to_integer(number.0)?,
                to_json(origin)?,
                self.now.0,
                configuration
            ],
        )?;
        self.set_params(id, params)
    }

    /// As in the fold, events about trials that do not exist change nothing.
    pub(super) fn write_to_trial(
        &mut self,
        seq: i64,
        trial: TrialNumber,
        event: &TrialEvent,
    ) -> Result<(), Fault> {
        if trial.0 >= self.trials {
            return Ok(());
        }
        let id = trial_id(self.study, trial)?;
        match event {
            TrialEvent::Attempt(event) => self.write_attempt(id, event),
            TrialEvent::Checkpoint(event) => self.write_checkpoint(id, seq, event),
            TrialEvent::Decision(event) => self.write_decision(id, event),
            TrialEvent::State(event) => self.write_state(id, seq, event),
            TrialEvent::Record(event) => self.write_record(id, seq, event),
            TrialEvent::Entry(event) => self.write_entry(id, seq, event),
            TrialEvent::Proposal(_) => Ok(()),
        }
    }

    fn write_attempt(&mut self, id: i64, event: &AttemptEvent) -> Result<(), Fault> {
        match event {
            AttemptEvent::Started { attempt, slot, resume, until, device_micros, .. } => {
                self.use_devices(*device_micros)?;
                let resume = resume
                    .as_ref()
                    .map(|(step, path)| Ok::<_, Fault>((to_integer(*step)?, text(path)?)))
                    .transpose()?;
                self.start(id, *attempt, slot, resume, until.map(to_integer).transpose()?)
            }
            AttemptEvent::Launched { attempt, pid, pid_started, .. } => {
                let sql = "UPDATE attempt SET pid = ?3, pid_started = ?4 WHERE trial_id = ?1 AND \
                    attempt = ?2";
                self.execute(sql, params![id, attempt.0, pid, to_integer(*pid_started)?])
            }
            AttemptEvent::Reported { attempt, step, metrics, late } => {
                self.report(id, *attempt, to_integer(*step)?, metrics, late)
            }
            AttemptEvent::Ended { attempt, end, reason, device_micros, superseded, .. } => {
                self.drop_reports(id, superseded)?;
                let spent = self.end(id, *attempt, end, reason.as_deref())?;
                self.use_devices(device_micros.unwrap_or(spent))
            }
            AttemptEvent::Remarked { .. } => Ok(()),
        }
    }

    fn write_checkpoint(
        &mut self,
        id: i64,
        seq: i64,
        event: &CheckpointEvent,
    ) -> Result<(), Fault> {
        match event {
            CheckpointEvent::Saved { step, path, bytes, digest, .. } => {
                self.drop_checkpoint(id, path)?;
                let sql = "INSERT INTO checkpoint (trial_id, seq, step, path, at, bytes, digest) \
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                self.execute(
                    sql,
                    params![
                        id,
                        seq,
                        to_integer(*step)?,
                        text(path)?,
                        self.now.0,
                        bytes.map(to_integer).transpose()?,
                        digest
                    ],
                )?;
                let found = self.cache.roots.found(Some(number_of(id)), path);
                let rows = self.checkpoints.of(self.connection, &self.cache.roots, id)?;
                rows.entry(found).or_default().push((seq, text(path)?.to_owned()));
                Ok(())
            }
            CheckpointEvent::Dropped { path, .. } => self.drop_checkpoint(id, path),
        }
    }

    fn write_decision(&mut self, id: i64, event: &DecisionEvent) -> Result<(), Fault> {
        match event {
            DecisionEvent::Decided { step, verdict, .. } => {
                if let Some(until) = verdict.moved_pause() {
                    let until = until.map(to_integer).transpose()?;
                    self.execute("UPDATE trial SET until = ?2 WHERE id = ?1", params![id, until])?;
                }
                self.decide(id, to_integer(*step)?, verdict)
            }
            DecisionEvent::LimitsBroken { violation, .. } => self
                .execute("UPDATE trial SET violation = ?2 WHERE id = ?1", params![id, violation]),
            DecisionEvent::LimitsJudged { violation, reason } => {
                let sql = "UPDATE trial SET violation = ?2, reason = ?3 WHERE id = ?1";
                self.execute(sql, params![id, violation, reason])?;
                self.void_race()
            }
            DecisionEvent::ResultsKnown => Ok(()),
        }
    }

    fn write_state(&mut self, id: i64, seq: i64, event: &StateEvent) -> Result<(), Fault> {
        match event {
            StateEvent::Queued { until, reason, .. } => {
                let sql = "UPDATE trial SET state = 'queued', until = ?2, hold = NULL, reason = \
                    ?3 WHERE id = ?1";
                self.execute(sql, params![id, until.map(to_integer).transpose()?, reason])?;
                self.unfinish(id)
            }
            StateEvent::Cloned { from, step, digest, params, replaced, until, reason } => {
                let sql = "INSERT INTO segment (trial_id, seq, step, from_number, digest, \
                    replaced, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                let (step, from) = (to_integer(*step)?, to_integer(from.0)?);
                let (before, why) = (to_json(replaced)?, to_json(reason)?);
                self.execute(sql, params![id, seq, step, from, digest, before, why])?;
                self.execute("DELETE FROM param WHERE trial_id = ?1", params![id])?;
                self.set_params(id, params)?;
                let sql = "UPDATE trial SET state = 'queued', until = ?2, hold = NULL, reason = \
                    ?3 WHERE id = ?1";
                let until = until.map(to_integer).transpose()?;
                self.execute(sql, params![id, until, reason.to_string()])?;
                self.unfinish(id)
            }
            StateEvent::Paused { reason, hold, .. } => {
                let sql = "UPDATE trial SET state = 'paused', hold = ?2, reason = ?3 WHERE id = ?1";
                self.execute(sql, params![id, hold.map(Hold::as_str), reason])?;
                self.unfinish(id)
            }
            StateEvent::Hidden => {
                self.execute("UPDATE trial SET hidden = 1 WHERE id = ?1", params![id])
            }
            StateEvent::Held { hold, .. } => self.execute(
                "UPDATE trial SET hold = ?2 WHERE id = ?1",
                params![id, hold.map(Hold::as_str)],
            ),
            StateEvent::Continued { until, from, .. } => {
                let sql = "UPDATE trial SET state = 'queued', until = ?2, hold = NULL, continued \
                    = ?3, reason = ?4 WHERE id = ?1";
                self.execute(
                    sql,
                    params![
                        id,
                        to_integer(*until)?,
                        from.as_str(),
                        continues(self.cache.step_unit, *until)
                    ],
                )?;
                self.unfinish(id)
            }
            StateEvent::Restored => self.restore(id),
            StateEvent::Finished { state, value, values, reason } => {
                let values = value.as_slice().iter().chain(values);
                self.finish(id, *state, values.copied(), reason.as_deref())
            }
            // Written by `remove_run`, which removes its rows.
            StateEvent::Removed { .. } => Ok(()),
        }
    }

    fn write_record(&mut self, id: i64, seq: i64, event: &RecordEvent) -> Result<(), Fault> {
        match event {
            RecordEvent::ParamsRecorded { params } => {
                // Runs without a space have one version of each.
                let has_versions = |name: &&str| {
                    self.cache.dimensions.get(*name).is_some_and(|(_, of)| of.is_some())
                };
                let names = params.iter().map(|(name, _)| name).filter(has_versions);
                self.drop_params(id, names)?;
                self.set_params(id, params)
            }
            RecordEvent::ParamsDropped { names } => {
                self.drop_params(id, names.iter().map(String::as_str))
            }
            RecordEvent::ArtifactSaved { artifact, content } => {
                artifacts::save(self.connection, (id, seq, self.now), artifact, content.as_deref())
            }
            RecordEvent::SummaryRecorded { .. } | RecordEvent::SpoolRead { .. } => Ok(()),
        }
    }

    fn write_entry(&mut self, id: i64, seq: i64, event: &EntryEvent) -> Result<(), Fault> {
        match event {
            EntryEvent::Noted { text } => {
                let sql =
                    "INSERT INTO trial_note (trial_id, seq, at, text) VALUES (?1, ?2, ?3, ?4)";
                self.execute(sql, params![id, seq, self.now.0, text])
            }
            EntryEvent::Tagged { tag, present } => {
                let sql = match present {
                    true => {
                        "INSERT INTO trial_tag (trial_id, tag) VALUES (?1, ?2) ON CONFLICT DO \
                         NOTHING"
                    }
                    false => "DELETE FROM trial_tag WHERE trial_id = ?1 AND tag = ?2",
                };
                self.execute(sql, params![id, tag])
            }
        }
    }

    fn set_params(&mut self, id: i64, params: &Params) -> Result<(), Fault> {
        for (name, value) in params.iter() {
            if !self.cache.dimensions.contains_key(name) {
                let idx = add_dimension(self.connection, self.study, name, None)?;
                self.cache.dimensions.insert(name.to_owned(), (idx, None));
            }
            let (idx, distribution) = &self.cache.dimensions[name];
            let internal = match distribution {
                Some(distribution) => distribution.to_internal(value),
                None => value.as_number(),
            };
            let sql = "INSERT INTO param (trial_id, dimension, value, internal) VALUES (?1, ?2, \
                ?3, ?4) ON CONFLICT (trial_id, dimension) DO UPDATE SET value = excluded.value, \
                internal = excluded.internal";
            self.execute(sql, params![id, idx, to_json(value)?, internal])?;
        }
        Ok(())
    }

    /// Deletes values whichever version of their parameter the space had when they were written.
    fn drop_params<'a>(&self, id: i64, names: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
        for name in names {
            let sql = "DELETE FROM param WHERE trial_id = ?1 AND dimension IN (SELECT idx FROM \
                dimension WHERE study_id = ?2 AND name = ?3)";
            self.execute(sql, params![id, self.study.0, name])?;
        }
        Ok(())
    }

    fn start(
        &self,
        id: i64,
        attempt: AttemptNumber,
        slot: &Slot,
        resume: Option<(i64, &str)>,
        until: Option<i64>,
    ) -> Result<(), Fault> {
        let (index, device) = (to_integer(slot.index as u64)?, slot.devices.to_string());
        let (resume_step, resume_path) = resume.unzip();
        self.execute(
            "INSERT INTO attempt (trial_id, attempt, slot, device, resume_step, \
             resume_path, until, started_at, runner)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, (SELECT max(seq) FROM runner WHERE study_id = \
             ?9))
             ON CONFLICT (trial_id, attempt) DO UPDATE SET slot = excluded.slot, device = \
             excluded.device, resume_step = excluded.resume_step, resume_path = \
             excluded.resume_path, until = excluded.until, started_at = excluded.started_at, \
             runner = excluded.runner, pid = NULL, pid_started = NULL, ended_at = NULL, outcome = \
             NULL, reason = NULL",
            params![
                id,
                attempt.0,
                index,
                device,
                resume_step,
                resume_path,
                until,
                self.now.0,
                self.study.0
            ],
        )?;
        self.execute(
            "UPDATE trial SET state = 'running', attempts = ?2, device = ?3, until = ?4, \
             started_at = ?5, hold = NULL, reason = NULL
             WHERE id = ?1",
            params![id, i64::from(attempt.0) + 1, device, until, self.now.0],
        )?;
        // A search that continues after its race has another result.
        let outdated = "SELECT 1 FROM study WHERE id = ?1 AND race IS NOT NULL AND (SELECT origin \
            FROM trial WHERE id = ?2) NOT LIKE '{\"race\"%'";
        if self.connection.exists(outdated, [self.study.0, id])? {
            self.void_race()?;
        }
        self.unfinish(id)
    }

    fn void_race(&self) -> Result<(), Fault> {
        let Some(race) = race(self.connection, self.study)? else { return Ok(()) };
        self.set("race", to_json(&Race { void: true, ..race })?)
    }

    fn report(
        &mut self,
        id: i64,
        attempt: AttemptNumber,
        step: i64,
        metrics: &Metrics,
        late: &BTreeSet<String>,
    ) -> Result<(), Fault> {
        for (name, value) in metrics.iter() {
            let metric = self.metric(name)?;
            self.execute(
                "INSERT INTO report (trial_id, metric_id, step, value, attempt, at) VALUES (?1, \
                 ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (trial_id, metric_id, step) DO UPDATE SET value = excluded.value, \
                 attempt = excluded.attempt, at = excluded.at",
                params![id, metric, step, to_real(value), attempt.0, self.now.0],
            )?;
            // A series on the study's axis also contains the reports.
            let key = SeriesKey { trial: id, metric, axis: SeriesAxis::from(self.cache.step_unit) };
            if series::find(self.connection, key)?.is_some() {
                #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
                let point = LoggedPoint { step: Some(step as f64), value, at: self.now };
                series::write(self.connection, key, attempt, &[point], || Ok(Vec::new()))?;
            }
        }
        let all = match self.cache.last_metrics {
            LastMetrics::OfLastReport => to_json(metrics)?,
            rule @ LastMetrics::OfEach => {
                let mut known = self.last_metrics(id)?;
                rule.report(&mut known, metrics, late);
                to_json(&known)?
            }
        };
        match metrics.get(&self.cache.objective) {
            None => {
                self.execute("UPDATE trial SET last_metrics = ?2 WHERE id = ?1", params![id, all])
            }
            Some(value) => self.execute(
                "UPDATE trial SET last_metrics = ?2, last_value = CASE WHEN last_step > ?3 THEN \
                 last_value ELSE ?4 END, last_step = CASE WHEN last_step > ?3 THEN last_step ELSE \
                 ?3 END WHERE id = ?1",
                params![id, all, step, to_real(value)],
            ),
        }
    }

    /// Removes the reports of these metrics at these steps; without steps, the last values, and
    /// all reports of a tracked run.
    fn drop_reports(
        &mut self,
        id: i64,
        superseded: &BTreeMap<String, Vec<u64>>,
    ) -> Result<(), Fault> {
        let forgotten: Vec<&String> =
            superseded.iter().filter(|(_, steps)| steps.is_empty()).map(|(name, _)| name).collect();
        if !forgotten.is_empty() {
            let mut known = self.last_metrics(id)?;
            known.0.retain(|name, _| !forgotten.contains(&name));
            let sql = "UPDATE trial SET last_metrics = ?2 WHERE id = ?1";
            self.execute(sql, params![id, to_json(&known)?])?;
        }
        let origin = "SELECT 1 FROM trial WHERE id = ?1 AND origin LIKE '{\"tracked\"%'";
        let is_tracked = !forgotten.is_empty() && self.connection.exists(origin, [id])?;
        for (name, steps) in superseded {
            let metric = self.metric(name)?;
            if steps.is_empty() && is_tracked {
                let sql = "DELETE FROM report WHERE trial_id = ?1 AND metric_id = ?2";
                self.execute(sql, params![id, metric])?;
            }
            for step in steps {
                let sql = "DELETE FROM report WHERE trial_id = ?1 AND metric_id = ?2 AND step = ?3";
                self.execute(sql, params![id, metric, to_integer(*step)?])?;
            }
        }
        if superseded.is_empty() {
            return Ok(());
        }
        self.set_last(id)
    }

    /// Gives a trial the reports again that it had before it continued past its end.
    fn restore(&mut self, id: i64) -> Result<(), Fault> {
        let trial = number_of(id);
        let spec = study_row(self.connection, self.study)?.spec;
        let journal = journal::events_of(self.connection, self.study, trial)?;
        let mut had = reports_of(&journal).remove(&trial).unwrap_or_default();
        let sql = "SELECT m.name, r.step, r.metric_id, r.value, r.attempt, r.at FROM report r \
            JOIN metric m ON m.id = r.metric_id WHERE r.trial_id = ?1";
        let rows = rows(self.connection, sql, [id], |row| {
            let stored = (from_real(row.get(3)?), row.get::<u32>(4)?, row.get::<i64>(5)?);
            Ok((row.get::<String>(0)?, row.get::<i64>(1)?, row.get::<i64>(2)?, stored))
        })?;
        for (name, step, metric, (value, attempt, at)) in rows {
            let key = (name, u64::try_from(step).unwrap_or_default());
            let is_it = |had: &StoredReport| {
                (had.attempt.0, had.at.0) == (attempt, at)
                    && (had.value == value || had.value.is_nan() && value.is_nan())
            };
            if had.get(&key).is_some_and(is_it) {
                had.remove(&key);
            } else {
                let sql = "DELETE FROM report WHERE trial_id = ?1 AND metric_id = ?2 AND step = ?3";
                self.execute(sql, params![id, metric, step])?;
            }
        }
        for ((name, step), StoredReport { value, attempt, at }) in had {
            let metric = self.metric(&name)?;
            let sql = "INSERT INTO report (trial_id, metric_id, step, value, attempt, at) VALUES \
                (?1, ?2, ?3, ?4, ?5, ?6)";
            let step = to_integer(step)?;
            self.execute(sql, params![id, metric, step, to_real(value), attempt.0, at.0])?;
        }
        let mut state = StudyState::new(&spec);
        journal.iter().for_each(|(_, at, event)| state.apply(*at, event));
        if let Some(trial) = state.trial(trial) {
            let metrics = to_json(&trial.last_metrics)?;
            let sql = "UPDATE trial SET last_metrics = ?2 WHERE id = ?1";
            self.execute(sql, params![id, metrics])?;
        }
        self.set_last(id)
    }

    /// Updates the columns of a trial's last report.
    fn set_last(&mut self, id: i64) -> Result<(), Fault> {
        let objective = self.cache.objective.clone();
        let metric = self.metric(&objective)?;
        self.execute(
            "UPDATE trial SET last_step = (SELECT max(step) FROM report WHERE trial_id = ?1 AND \
             metric_id = ?2), last_value = (SELECT value FROM report WHERE trial_id = ?1 AND \
             metric_id = ?2 ORDER BY step DESC LIMIT 1) WHERE id = ?1",
            params![id, metric],
        )
    }

    fn last_metrics(&self, id: i64) -> Result<Metrics, Fault> {
        let sql = "SELECT last_metrics FROM trial WHERE id = ?1";
        let stored: Option<String> = first(self.connection, sql, [id], |row| row.get(0))?;
        let place = || format!("table `trial`, id {id}, column `last_metrics`");
        stored.map_or_else(|| Ok(Metrics::default()), |text| json(&text, place))
    }

    fn decide(&self, id: i64, step: i64, verdict: &Decision) -> Result<(), Fault> {
        let sql = "INSERT INTO decision (trial_id, step, verdict, reason, at) VALUES (?1, ?2, ?3, \
            ?4, ?5) ON CONFLICT (trial_id, step) DO UPDATE SET verdict = excluded.verdict, \
            reason = excluded.reason, at = excluded.at";
        let reason = verdict.reason().map(to_json).transpose()?;
        self.execute(sql, params![id, step, verdict.word(), reason, self.now.0])
    }

    fn drop_checkpoint(&mut self, id: i64, path: &Path) -> Result<(), Fault> {
        let path = self.cache.roots.found(Some(number_of(id)), path);
        let known = self.checkpoints.of(self.connection, &self.cache.roots, id)?;
        for (seq, _) in known.remove(&path).unwrap_or_default() {
            let sql = "DELETE FROM checkpoint WHERE trial_id = ?1 AND seq = ?2";
            self.execute(sql, params![id, seq])?;
        }
        Ok(())
    }

    fn end(
        &self,
        id: i64,
        attempt: AttemptNumber,
        end: &AttemptEnd,
        reason: Option<&str>,
    ) -> Result<i64, Fault> {
        let killed = "SELECT killed_at FROM study WHERE id = ?1";
        let killed: Option<i64> = match end {
            AttemptEnd::Lost => value(self.connection, killed, [self.study.0])?,
            _ => None,
        };
        let started = "SELECT started_at FROM trial WHERE id = ?1";
        let started: Option<i64> = value(self.connection, started, [id])?;
        let ended = started
            .and_then(|started| end.moment(Timestamp(started), self.now, killed.map(Timestamp)));
        let sql = "UPDATE attempt SET ended_at = ?3, outcome = ?4, reason = ?5 WHERE trial_id = \
            ?1 AND attempt = ?2";
        let shown = ended.unwrap_or(self.now).0;
        self.execute(sql, params![id, attempt.0, shown, to_json(end)?, reason])?;
        if matches!(end, AttemptEnd::Failed(_)) {
            self.execute("UPDATE trial SET failures = failures + 1 WHERE id = ?1", params![id])?;
        }
        let (Some(started), Some(Timestamp(ended))) = (started, ended) else { return Ok(0) };
        let spent = ended.saturating_sub(started).max(0);
        self.execute(
            "UPDATE trial SET busy_micros = busy_micros + ?2 WHERE id = ?1",
            params![id, spent],
        )?;
        Ok(spent)
    }

    /// Clears the value and the end of a trial that continues.
    fn unfinish(&self, id: i64) -> Result<(), Fault> {
        let sql = "UPDATE trial SET finished_at = NULL, violation = NULL, hidden = 0 WHERE id = ?1 \
            AND (finished_at IS NOT NULL OR violation IS NOT NULL OR hidden = 1)";
        if self.connection.execute(sql, [id])? > 0 {
            self.execute("DELETE FROM trial_value WHERE trial_id = ?1", params![id])?;
        }
        Ok(())
    }

    fn finish(
        &self,
        id: i64,
        state: TrialState,
        values: impl Iterator<Item = f64>,
        reason: Option<&str>,
    ) -> Result<(), Fault> {
        let sql = "UPDATE trial SET state = ?2, reason = ?3, finished_at = ?4, hold = NULL, \
            continued = NULL WHERE id = ?1";
        self.execute(sql, params![id, state.as_str(), reason, self.now.0])?;
        let mut has_value = false;
        for (idx, value) in (0_i64..).zip(values) {
            has_value = true;
            self.execute(
                "INSERT INTO trial_value (trial_id, idx, value) VALUES (?1, ?2, ?3) ON CONFLICT \
                 (trial_id, idx) DO UPDATE SET value = excluded.value",
                params![id, idx, to_real(value)],
            )?;
        }
        if has_value {
            return Ok(());
        }
        self.execute("DELETE FROM trial_value WHERE trial_id = ?1", params![id])
    }
}
