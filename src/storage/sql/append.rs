//! Applies events to the tables as `StudyState::apply` applies them in memory.

mod trial;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::connection::{Connection, ToCell, params};

use super::column::{number_of, rows, to_integer, to_json, trial_id, value};
use super::fault::Fault;
use super::located::{Roots, has_path};
use super::read::{race, study_row};
use super::series::{self, SeriesKey};
use crate::storage::StudyId;
use crate::study::budget::Extension;
use crate::study::budget::LARGEST_INTEGER;
use crate::study::event::{
    CheckpointEvent, DeviceEvent, Event, FinalistsEvent, ProposalEvent, RunnerEvent, Seq,
    StudyEvent, TrialEvent,
};
use crate::study::finalists::Race;
use crate::study::metric::LastMetrics;
use crate::study::series::{LoggedSeries, SeriesAxis};
use crate::study::space::Distribution;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::AttemptNumber;

/// A writer's cache between calls; discarded when a transaction fails.
#[derive(Debug, Default)]
pub(in crate::storage) struct Cache {
    metrics: HashMap<String, i64>,
    studies: HashMap<StudyId, StudyCache>,
    checkpoints: CheckpointRows,
}

/// The checkpoints of recently written trials, by trial and path, so that a new one is not compared
/// with all others.
#[derive(Debug, Default)]
struct CheckpointRows {
    /// Changes when another process may have written.
    version: i64,
    of: HashMap<i64, Rows>,
}

/// By resolved path: the event that registered each, and its stored path.
type Rows = HashMap<PathBuf, Vec<(i64, String)>>;

/// Number of cached trials after which the cache is cleared.
const REMEMBERED: usize = 256;

impl CheckpointRows {
    /// Those of a trial, by path. Paths are compared as paths (`/a//b` is `/a/b`), as the fold
    /// does.
    fn of(
        &mut self,
        connection: &dyn Connection,
        roots: &Roots,
        trial: i64,
    ) -> Result<&mut Rows, Fault> {
        if self.of.len() >= REMEMBERED && !self.of.contains_key(&trial) {
            self.of.clear();
        }
        Ok(match self.of.entry(trial) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let sql = "SELECT seq, path FROM checkpoint WHERE trial_id = ?1";
                let mut known = Rows::new();
                for (seq, path) in
                    rows(connection, sql, [trial], |row| Ok((row.get(0)?, row.get::<String>(1)?)))?
                {
                    let found = roots.found(Some(number_of(trial)), Path::new(&path));
                    known.entry(found).or_default().push((seq, path));
                }
                unknown.insert(known)
            }
        })
    }
}

#[derive(Debug)]
struct StudyCache {
    revision: i64,
    roots: Roots,
    objective: String,
    last_metrics: LastMetrics,
    step_unit: StepUnit,
    dimensions: BTreeMap<String, (i64, Option<Distribution>)>,
}

/// The present version of each of a study's parameters: name and index.
pub(in crate::storage) fn present_dimensions(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<BTreeMap<String, i64>, Fault> {
    let sql = "SELECT name, max(idx) FROM dimension WHERE study_id = ?1 GROUP BY name";
    let present = rows(connection, sql, [study.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(present.into_iter().collect())
}

/// Writes a new version of a parameter and returns its index.
pub(in crate::storage) fn add_dimension(
    connection: &dyn Connection,
    study: StudyId,
    name: &str,
    optuna_json: Option<&str>,
) -> Result<i64, Fault> {
    let sql = "INSERT INTO dimension (study_id, idx, name, optuna_json)
        VALUES (?1, (SELECT coalesce(max(idx) + 1, 0) FROM dimension WHERE study_id = ?1), ?2, ?3) \
        RETURNING idx";
    value(connection, sql, params![study.0, name, optuna_json])
}

fn text(path: &Path) -> Result<&str, Fault> {
    path.to_str()
        .ok_or_else(|| Fault::unstorable(format!("the path `{}` is not UTF-8", path.display())))
}

/// One transaction of one study.
pub(in crate::storage) struct Append<'a> {
    connection: &'a dyn Connection,
    metrics: &'a mut HashMap<String, i64>,
    cache: &'a mut StudyCache,
    checkpoints: &'a mut CheckpointRows,
    study: StudyId,
    now: Timestamp,
    trials: u64,
}

impl<'a> Append<'a> {
    /// Starts with `trials` trials in the tables; `revision` is that of the stored specification.
    pub(in crate::storage) fn new(
        connection: &'a dyn Connection,
        cache: &'a mut Cache,
        store: &Path,
        study: StudyId,
        revision: i64,
        now: Timestamp,
        trials: u64,
    ) -> Result<Self, Fault> {
        if cache.studies.get(&study).is_none_or(|cached| cached.revision != revision) {
            cache.studies.insert(study, StudyCache::load(connection, store, study)?);
        }
        let Cache { metrics, studies, checkpoints } = cache;
        let cache = studies.get_mut(&study).expect("inserted above if it was not there");
        let version = connection.version_of_others()?;
        if checkpoints.version != version {
            *checkpoints = CheckpointRows { version, of: HashMap::new() };
        }
        Ok(Append { connection, metrics, cache, checkpoints, study, now, trials })
    }

    /// Sets the time of the following events.
    pub(in crate::storage) fn at(&mut self, moment: Timestamp) {
        self.now = moment;
    }

    /// Writes one event to the journal and the tables; returns its position.
    pub(in crate::storage) fn write(&mut self, event: &Event) -> Result<i64, Fault> {
        let stored = if has_path(event) { self.with_stored_path(event)? } else { None };
        let event = stored.as_ref().unwrap_or(event);
        let sql = "INSERT INTO event (seq, study_id, at, body) VALUES (?1, ?2, ?3, ?4)";
        let next = self.connection.next_seq()?;
        let body = to_json(event)?;
        let entry = params![next, self.study.0, self.now.0, body];
        let seq = self.connection.insert(sql, "seq", entry)?;
        match event {
            Event::Runner(RunnerEvent::Started { pid, host, slots, .. }) => self.execute(
                "INSERT INTO runner (seq, study_id, pid, host, slots, started_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![seq, self.study.0, pid, host, to_json(slots)?, self.now.0],
            )?,
            Event::Runner(RunnerEvent::Described { provenance }) => {
                let sql = "UPDATE runner SET lineage = ?2 WHERE seq = (SELECT max(seq) FROM runner \
                    WHERE study_id = ?1)";
                self.execute(sql, params![self.study.0, to_json(provenance)?])?;
            }
            Event::Finalists(event) => self.race(event)?,
            Event::Runner(RunnerEvent::Stopped {
                reason,
                ran_micros,
                heard,
                device_micros,
                runner,
            }) => {
                self.use_devices(*device_micros)?;
                self.runner_stopped(*runner, reason, *ran_micros, *heard)?;
            }
            Event::Study(StudyEvent::Finished { reason, .. }) => {
                self.set("finished_reason", Some(reason))?
            }
            Event::Study(StudyEvent::Reopened { .. }) => {
                self.set("finished_reason", None::<String>)?
            }
            Event::Study(StudyEvent::Paused { reason }) => {
                self.set("paused_reason", Some(reason))?
            }
            Event::Study(StudyEvent::Resumed { .. }) => {
                self.set("paused_reason", None::<String>)?
            }
            Event::Study(StudyEvent::BudgetExtended { by }) => self.extend(*by)?,
            Event::Device(DeviceEvent::Paused { device }) => {
                let sql = "INSERT INTO paused_device (study_id, device) VALUES (?1, ?2) \
                    ON CONFLICT DO NOTHING";
                self.execute(sql, params![self.study.0, device.to_string()])?;
            }
            Event::Device(DeviceEvent::Resumed { device }) => {
                let sql = "DELETE FROM paused_device WHERE study_id = ?1 AND device = ?2";
                self.execute(sql, params![self.study.0, device.to_string()])?;
            }
            // They are read from the journal.
            Event::Device(
                DeviceEvent::ConcurrencyChanged { .. } | DeviceEvent::AgentChanged { .. },
            )
            | Event::Study(StudyEvent::DiskExceeded { .. }) => {}
            Event::Device(DeviceEvent::SlotsChanged { slots }) => {
                let sql = "UPDATE runner SET slots = ?2 WHERE seq = (SELECT max(seq) FROM runner \
                    WHERE study_id = ?1)";
                self.execute(sql, params![self.study.0, to_json(slots)?])?;
            }
            Event::Study(StudyEvent::Noted { text }) => {
                let sql =
                    "INSERT INTO study_note (study_id, seq, at, text) VALUES (?1, ?2, ?3, ?4)";
                self.execute(sql, params![self.study.0, seq, self.now.0, text])?;
            }
            Event::Study(StudyEvent::Tagged { tag, present }) => {
                let sql = match present {
                    true => {
                        "INSERT INTO study_tag (study_id, tag) VALUES (?1, ?2) ON CONFLICT DO \
                         NOTHING"
                    }
                    false => "DELETE FROM study_tag WHERE study_id = ?1 AND tag = ?2",
                };
                self.execute(sql, params![self.study.0, tag])?;
            }
            Event::Study(StudyEvent::RequestServed { id, answer }) => {
                let sql = "UPDATE request SET served_at = ?3, answer = ?4 WHERE study_id = ?1 AND \
                    id = ?2 AND served_at IS NULL";
                self.execute(sql, params![self.study.0, id, self.now.0, to_json(answer)?])?;
            }
            Event::Trial(
                trial,
                TrialEvent::Proposal(ProposalEvent::TrialCreated { params, origin, .. }),
            ) => {
                self.create(trial_id(self.study, *trial)?, *trial, params, origin)?;
                self.trials += 1;
            }
            Event::Trial(trial, event) => self.write_to_trial(seq, *trial, event)?,
        }
        Ok(seq)
    }

    /// An event in its stored form. A dropped checkpoint has the path with which it was saved.
    fn with_stored_path(&mut self, event: &Event) -> Result<Option<Event>, Fault> {
        if let Event::Trial(trial, TrialEvent::Checkpoint(CheckpointEvent::Dropped { path })) =
            event
            && trial.0 < self.trials
        {
            let rows = self.checkpoints.of(
                self.connection,
                &self.cache.roots,
                trial_id(self.study, *trial)?,
            )?;
            let saved = rows.get(path).and_then(|saved| saved.first());
            if let Some((_, stored)) = saved.filter(|(_, stored)| Path::new(stored) != path) {
                return Ok(Some(Event::of(
                    *trial,
                    CheckpointEvent::Dropped { path: stored.into() },
                )));
            }
        }
        Ok(self.cache.roots.stored_event(event))
    }

    fn execute(&self, sql: &str, params: &[&dyn ToCell]) -> Result<(), Fault> {
        self.connection.execute(sql, params)?;
        Ok(())
    }

    /// Sets a column of the study.
    fn set(&self, column: &str, value: impl ToCell) -> Result<(), Fault> {
        let sql = format!("UPDATE study SET {column} = ?2 WHERE id = ?1");
        self.execute(&sql, params![self.study.0, value])
    }

    fn runner_stopped(
        &self,
        runner: Option<Seq>,
        reason: &str,
        ran_micros: i64,
        heard: Option<Timestamp>,
    ) -> Result<(), Fault> {
        self.execute(
            "UPDATE runner SET stopped_at = ?2, ran_micros = ?3, reason = ?4 WHERE seq = \
             coalesce(?5, (SELECT max(seq) FROM runner WHERE study_id = ?1)) AND study_id = ?1 AND \
             stopped_at IS NULL",
            params![self.study.0, self.now.0, ran_micros, reason, runner.map(|seq| seq.0)],
        )?;
        let sql = "UPDATE study SET ran_micros = ran_micros + ?2, killed_at = ?3 WHERE id = ?1";
        self.execute(sql, params![self.study.0, ran_micros, heard.map(|heard| heard.0)])
    }

    fn use_devices(&self, micros: i64) -> Result<(), Fault> {
        if micros == 0 {
            return Ok(());
        }
        let sql = "UPDATE study SET busy_micros = busy_micros + ?2 WHERE id = ?1";
        self.execute(sql, params![self.study.0, micros])
    }

    fn race(&self, event: &FinalistsEvent) -> Result<(), Fault> {
        let mut race = race(self.connection, self.study)?;
        Race::apply(&mut race, event);
        self.set("race", race.as_ref().map(to_json).transpose()?)
    }

    /// The specification has the extended budget; the columns have the extension.
    fn extend(&self, by: Extension) -> Result<(), Fault> {
        let row = study_row(self.connection, self.study)?;
        let (mut spec, all) = (row.spec, row.extension.and(by));
        spec.budget.extend(by);
        // Summed here: sums in SQLite become REAL on overflow, which the columns reject.
        let trials = to_integer(all.trials.min(LARGEST_INTEGER))?;
        let micros = i64::try_from(all.time.as_micros()).unwrap_or(i64::MAX);
        self.execute(
            "UPDATE study SET spec = ?2, extra_trials = ?3, extra_micros = ?4, extra_device_hours \
             = ?5, extra_cost = ?6 WHERE id = ?1",
            params![self.study.0, to_json(&spec)?, trials, micros, all.device_hours, all.cost],
        )
    }

    /// Writes logged points. Needs no lease: writers are fenced by the number of the attempt.
    pub(in crate::storage) fn log(&mut self, logged: &[LoggedSeries]) -> Result<(), Fault> {
        for LoggedSeries { trial, attempt, metric, axis, points } in logged {
            if trial.0 >= self.trials {
                continue;
            }
            let trial = trial_id(self.study, *trial)?;
            if !is_latest(self.connection, trial, *attempt)? {
                continue;
            }
            let key = SeriesKey { trial, metric: self.metric(metric)?, axis: *axis };
            let is_reported = SeriesAxis::from(self.cache.step_unit) == *axis;
            series::write(self.connection, key, *attempt, points, || {
                let reports = || series::reported(self.connection, key.trial, key.metric);
                if is_reported { reports() } else { Ok(Vec::new()) }
            })?;
        }
        Ok(())
    }

    fn metric(&mut self, name: &str) -> Result<i64, Fault> {
        if let Some(id) = self.metrics.get(name) {
            return Ok(*id);
        }
        let id = match series::metric_id(self.connection, name)? {
            Some(id) => id,
            None => {
                // Another process may write it at the same time.
                let sql = "INSERT INTO metric (name) VALUES (?1) ON CONFLICT DO NOTHING";
                self.execute(sql, params![name])?;
                value(self.connection, "SELECT id FROM metric WHERE name = ?1", [name])?
            }
        };
        self.metrics.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// Whether this is a trial's latest attempt.
fn is_latest(
    connection: &dyn Connection,
    trial: i64,
    attempt: AttemptNumber,
) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM trial WHERE id = ?1 AND attempts <= ?2";
    connection.exists(sql, [trial, i64::from(attempt.0) + 1])
}

impl StudyCache {
    fn load(connection: &dyn Connection, store: &Path, study: StudyId) -> Result<Self, Fault> {
        let row = study_row(connection, study)?;
        let present = present_dimensions(connection, study)?;
        let distribution = |name: &str| {
            row.spec.space.dimension(name).map(|dimension| dimension.distribution.clone())
        };
        let dimensions = present
            .into_iter()
            .map(|(name, idx)| (name.clone(), (idx, distribution(&name))))
            .collect();
        let roots = Roots::of(connection, study, store)?;
        Ok(StudyCache {
            revision: row.revision,
            roots,
            objective: row.spec.objective().metric.clone(),
            last_metrics: row.spec.last_metrics,
            step_unit: row.spec.step,
            dimensions,
        })
    }
}
