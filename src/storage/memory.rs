//! A store that lives in memory, for tests, simulations and studies nobody wants to keep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    Attempt, Curve, HeldLease, Holder, Lease, Outcome, OutcomeCursor, Storage, StorageError,
    StorageReader, StoredRequest, StoredRunner, StoredStudy, StudyId, StudySummary, Takeover,
    check_creations,
};
use crate::study::checkpoint::Checkpoint;
use crate::study::event::{
    Answer, DeviceEvent, Event, Request, RunnerEvent, Seq, StudyEvent, TrialEvent,
};
use crate::study::query::{Filter, Place, TrialQuery};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};
use crate::study::usage::Used;

/// A handle on a store in memory: clones of it see and change the same data.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    // A lock and not a channel: the handles stand for processes that share a file, every call is
    // one short transaction on it, and there is no thread that could own the data when the handles
    // are all there is.
    data: Arc<Mutex<Data>>,
    seen: Option<u64>,
}

#[derive(Debug, Default)]
struct Data {
    studies: Vec<StudyData>,
    requests: Vec<RequestData>,
    documents: BTreeMap<String, String>,
    seq: i64,
    commits: u64,
}

#[derive(Debug)]
struct StudyData {
    spec: StudySpec,
    revision: i64,
    revisions: Vec<(Seq, StudySpec)>,
    created: Timestamp,
    epoch: i64,
    held: Option<(Holder, Timestamp)>,
    journal: Vec<(Seq, Timestamp, Event)>,
    view: StudyState,
}

#[derive(Debug)]
struct RequestData {
    study: StudyId,
    request: Request,
    answer: Option<Answer>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        // Whoever panicked did so between checking and changing, or in a fold: readers may still
        // look.
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Data {
    fn study(&self, id: StudyId) -> Result<&StudyData, StorageError> {
        let found = index_of(id).and_then(|index| self.studies.get(index));
        found.ok_or(StorageError::NoStudy { study: id })
    }

    fn study_mut(&mut self, id: StudyId) -> Result<&mut StudyData, StorageError> {
        let found = index_of(id).and_then(|index| self.studies.get_mut(index));
        found.ok_or(StorageError::NoStudy { study: id })
    }

    fn fenced(&mut self, lease: &Lease) -> Result<&mut StudyData, StorageError> {
        let study = self.study_mut(lease.study)?;
        if study.held.is_none() || study.epoch != lease.epoch {
            return Err(StorageError::Fenced { study: lease.study });
        }
        Ok(study)
    }
}

impl Data {
    /// Writes events of a study, whoever may do so having been checked.
    fn write(&mut self, id: StudyId, now: Timestamp, events: &[Event]) -> Result<(), StorageError> {
        for event in events {
            self.seq += 1;
            let seq = Seq(self.seq);
            let study = self.study_mut(id)?;
            study.view.apply(now, event);
            study.journal.push((seq, now, event.clone()));
            match event {
                Event::Study(StudyEvent::BudgetExtended { by }) => study.spec.budget.extend(*by),
                Event::Study(StudyEvent::RequestServed { id: key, answer }) => {
                    self.serve(id, *key, answer)
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn serve(&mut self, study: StudyId, id: i64, answer: &Answer) {
        let request = index_of(StudyId(id)).and_then(|index| self.requests.get_mut(index));
        if let Some(request) =
            request.filter(|request| request.study == study && request.answer.is_none())
        {
            request.answer = Some(answer.clone());
        }
    }
}

fn index_of(id: StudyId) -> Option<usize> {
    usize::try_from(id.0.checked_sub(1)?).ok()
}

fn id_of(index: usize) -> StudyId {
    StudyId(
        i64::try_from(index).expect("a vector in memory has fewer entries than an i64 counts") + 1,
    )
}

impl StudyData {
    fn summary(&self, id: StudyId) -> StudySummary {
        StudySummary {
            id,
            spec: self.spec.clone(),
            counts: self.view.counts,
            best: self.view.leader(),
            race: self.view.race.clone(),
            race_counts: self.view.race_counts,
            finished: self.view.finished.clone(),
            paused: self.view.paused.clone(),
            paused_devices: self.view.paused_devices.clone(),
            extension: self.view.extension,
            notes: self.view.notes.clone(),
            tags: self.view.tags.clone(),
            held: self.held.as_ref().map(|(holder, acquired)| HeldLease {
                epoch: self.epoch,
                holder: holder.clone(),
                acquired: *acquired,
                lock_file: None,
            }),
            created: self.created,
            directory: None,
        }
    }

    /// What happened to trials, in order; as in the fold, nothing happens to a trial before it is
    /// created.
    fn trial_events(&self) -> impl Iterator<Item = (Timestamp, TrialNumber, &Event)> {
        let mut created = 0;
        self.journal.iter().filter_map(move |(_, at, event)| {
            created += u64::from(matches!(event, Event::Trial(_, TrialEvent::Created { .. })));
            event.trial().filter(|number| number.0 < created).map(|number| (*at, number, event))
        })
    }

    fn numbers(&self, query: &TrialQuery) -> Vec<TrialNumber> {
        let passing = self.view.trials.iter().filter(|trial| query.filter.matches(trial));
        let mut places: Vec<Place> =
            passing.map(|trial| query.sort.place(self.view.direction(), trial)).collect();
        places.sort_by(|mine, theirs| mine.compare(theirs, query.reverse));
        let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        places.iter().skip(offset).take(limit).map(Place::number).collect()
    }
}

/// The attempts that a journal speaks of, by trial and number.
pub fn attempts_of(journal: &[(Seq, Timestamp, Event)]) -> BTreeMap<(TrialNumber, u32), Attempt> {
    let (mut attempts, mut runner) = (BTreeMap::new(), None);
    let mut trials = 0;
    for (seq, at, event) in journal {
        match event {
            Event::Runner(RunnerEvent::Started { .. }) => runner = Some(*seq),
            Event::Trial(_, TrialEvent::Created { .. }) => trials += 1,
            // As in the fold, nothing happens to a trial before it is created.
            _ if event.trial().is_some_and(|number| number.0 < trials) => {
                apply_to_attempts(&mut attempts, *at, runner, event)
            }
            _ => {}
        }
    }
    attempts
}

/// The runners that a journal speaks of, in order.
pub fn runners_of(journal: &[(Seq, Timestamp, Event)]) -> Vec<StoredRunner> {
    let mut runners: Vec<StoredRunner> = Vec::new();
    for (seq, at, event) in journal {
        match (event, runners.last_mut()) {
            (Event::Runner(RunnerEvent::Started { pid, host, slots }), _) => {
                runners.push(StoredRunner {
                    seq: *seq,
                    pid: *pid,
                    host: host.clone(),
                    slots: slots.clone(),
                    started: *at,
                    stopped: None,
                    ran_micros: None,
                    reason: None,
                    lineage: None,
                })
            }
            (Event::Device(DeviceEvent::SlotsChanged { slots }), Some(runner)) => {
                runner.slots.clone_from(slots)
            }
            (Event::Runner(RunnerEvent::Described { lineage }), Some(runner)) => {
                runner.lineage = Some(lineage.as_ref().clone())
            }
            (Event::Runner(RunnerEvent::Stopped { reason, ran_micros, .. }), Some(runner))
                if runner.stopped.is_none() =>
            {
                runner.stopped = Some(*at);
                runner.ran_micros = Some(*ran_micros);
                runner.reason = Some(reason.clone());
            }
            _ => {}
        }
    }
    runners
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a study stay far below 2^53")]
fn outcome(trial: &Trial) -> Outcome {
    let (last_step, last_value) = trial.last().unzip();
    Outcome {
        number: trial.number,
        state: trial.state,
        value: trial.value,
        last_step,
        last_value,
        params: trial.params.clone(),
        seconds: trial.busy_micros as f64 / 1e6,
        created: trial.created,
        finished: trial.finished,
    }
}

fn apply_to_attempts(
    attempts: &mut BTreeMap<(TrialNumber, u32), Attempt>,
    at: Timestamp,
    runner: Option<Seq>,
    event: &Event,
) {
    match event {
        Event::Trial(trial, TrialEvent::AttemptStarted { attempt, slot, resume, until, .. }) => {
            let (trial, attempt, slot) = (*trial, *attempt, slot.clone());
            let (resume, until) = (resume.clone(), *until);
            let begun = Attempt {
                trial,
                attempt,
                slot,
                resume,
                until,
                process: None,
                started: at,
                ended: None,
                end: None,
                reason: None,
                runner,
            };
            attempts.insert((trial, attempt.0), begun);
        }
        Event::Trial(trial, TrialEvent::AttemptLaunched { attempt, pid, pid_started }) => {
            if let Some(attempt) = attempts.get_mut(&(*trial, attempt.0)) {
                attempt.process = Some((*pid, *pid_started));
            }
        }
        Event::Trial(trial, TrialEvent::AttemptEnded { attempt, end, reason, .. }) => {
            if let Some(attempt) = attempts.get_mut(&(*trial, attempt.0)) {
                attempt.ended = Some(at);
                attempt.end = Some(end.clone());
                attempt.reason.clone_from(reason);
            }
        }
        _ => {}
    }
}

impl StorageReader for MemoryStore {
    fn studies(&self) -> Result<Vec<StudySummary>, StorageError> {
        let data = self.data();
        let mut summaries: Vec<_> = data
            .studies
            .iter()
            .enumerate()
            .map(|(index, study)| study.summary(id_of(index)))
            .collect();
        summaries.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Ok(summaries)
    }

    fn study(&self, name: &str) -> Result<Option<StoredStudy>, StorageError> {
        let data = self.data();
        let found = data.studies.iter().enumerate().find(|(_, study)| study.spec.name == name);
        Ok(found.map(|(index, study)| StoredStudy {
            id: id_of(index),
            spec: study.spec.clone(),
            extension: study.view.extension,
            created: study.created,
            directory: None,
        }))
    }

    fn summary(&self, study: StudyId) -> Result<StudySummary, StorageError> {
        Ok(self.data().study(study)?.summary(study))
    }

    fn view(&self, study: StudyId) -> Result<StudyState, StorageError> {
        Ok(self.data().study(study)?.view.clone())
    }

    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError> {
        let data = self.data();
        let study = data.study(study)?;
        Ok(study
            .numbers(query)
            .into_iter()
            .filter_map(|number| study.view.trial(number))
            .cloned()
            .collect())
    }

    fn numbers(
        &self,
        study: StudyId,
        query: &TrialQuery,
    ) -> Result<Vec<TrialNumber>, StorageError> {
        Ok(self.data().study(study)?.numbers(query))
    }

    fn count(&self, study: StudyId, filter: &Filter) -> Result<u64, StorageError> {
        let data = self.data();
        Ok(data.study(study)?.view.trials.iter().filter(|trial| filter.matches(trial)).count()
            as u64)
    }

    fn outcomes(
        &self,
        study: StudyId,
        after: OutcomeCursor,
    ) -> Result<(Vec<Outcome>, OutcomeCursor), StorageError> {
        let data = self.data();
        let study = data.study(study)?;
        let cursor = OutcomeCursor {
            seq: study.journal.last().map_or(Seq(0), |(seq, _, _)| *seq),
            revision: study.revision,
        };
        let known = if after.revision == study.revision { after.seq } else { Seq(0) };
        let first = study.journal.partition_point(|(seq, _, _)| *seq <= known);
        let changed: BTreeSet<TrialNumber> =
            study.journal[first..].iter().filter_map(|(_, _, event)| event.trial()).collect();
        Ok((
            changed
                .into_iter()
                .filter_map(|number| study.view.trial(number))
                .map(outcome)
                .collect(),
            cursor,
        ))
    }

    fn curves(
        &self,
        study: StudyId,
        metric: &str,
        trials: &[TrialNumber],
    ) -> Result<Vec<Curve>, StorageError> {
        let data = self.data();
        let mut curves: BTreeMap<TrialNumber, BTreeMap<u64, f64>> =
            trials.iter().map(|number| (*number, BTreeMap::new())).collect();
        for (_, number, event) in data.study(study)?.trial_events() {
            if let Event::Trial(_, TrialEvent::Reported { step, metrics, .. }) = event
                && let (Some(value), Some(curve)) = (metrics.get(metric), curves.get_mut(&number))
            {
                curve.insert(*step, value);
            }
        }
        Ok(trials
            .iter()
            .map(|number| {
                (*number, curves[number].iter().map(|(step, value)| (*step, *value)).collect())
            })
            .collect())
    }

    fn params(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        let data = self.data();
        let names: BTreeSet<&str> = data
            .study(study)?
            .view
            .trials
            .iter()
            .flat_map(|trial| trial.params.iter().map(|(name, _)| name))
            .collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn metrics(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        let data = self.data();
        let mut names = BTreeSet::new();
        for (_, _, event) in data.study(study)?.trial_events() {
            if let Event::Trial(_, TrialEvent::Reported { metrics, .. }) = event {
                names.extend(metrics.iter().map(|(name, _)| name.to_owned()));
            }
        }
        Ok(names.into_iter().collect())
    }

    fn trial(&self, study: StudyId, number: TrialNumber) -> Result<Option<Trial>, StorageError> {
        Ok(self.data().study(study)?.view.trial(number).cloned())
    }

    fn attempts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<Attempt>, StorageError> {
        let attempts = attempts_of(&self.data().study(study)?.journal);
        Ok(attempts
            .into_values()
            .filter(|attempt| trial.is_none_or(|number| attempt.trial == number))
            .collect())
    }

    fn reports(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<(String, u64, f64)>, StorageError> {
        let data = self.data();
        let mut reports = BTreeMap::new();
        for (_, _, event) in
            data.study(study)?.trial_events().filter(|(_, number, _)| *number == trial)
        {
            if let Event::Trial(_, TrialEvent::Reported { step, metrics, .. }) = event {
                reports
                    .extend(metrics.iter().map(|(name, value)| ((name.to_owned(), *step), value)));
            }
        }
        Ok(reports.into_iter().map(|((name, step), value)| (name, step, value)).collect())
    }

    fn events_after(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        let data = self.data();
        let journal = &data.study(study)?.journal;
        let first = journal.partition_point(|(at, _, _)| *at <= seq);
        Ok(journal[first..]
            .iter()
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .cloned()
            .collect())
    }

    fn events_before(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        let data = self.data();
        let journal = &data.study(study)?.journal;
        let end = journal.partition_point(|(at, _, _)| *at < seq);
        let first = end.saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(journal[first..end].to_vec())
    }

    fn used(&self, study: StudyId) -> Result<Used, StorageError> {
        let data = self.data();
        let study = data.study(study)?;
        let slots = study.journal.iter().fold(None, |now, (_, _, event)| match event {
            Event::Runner(RunnerEvent::Started { slots, .. }) => Some(slots),
            // Without a runner there are none to change.
            Event::Device(DeviceEvent::SlotsChanged { slots }) => now.map(|_| slots),
            _ => now,
        });
        Ok(Used::of(&study.view, slots.map_or(&[], Vec::as_slice)))
    }

    fn checkpoints(&self, study: StudyId) -> Result<Vec<(TrialNumber, Checkpoint)>, StorageError> {
        let data = self.data();
        let trials = &data.study(study)?.view.trials;
        Ok(trials
            .iter()
            .flat_map(|trial| {
                trial.checkpoints.iter().map(|checkpoint| (trial.number, checkpoint.clone()))
            })
            .collect())
    }

    fn running_since(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError> {
        let data = self.data();
        let study = data.study(study)?;
        let since = study.journal.iter().rev().find_map(|(_, at, event)| match event {
            Event::Runner(RunnerEvent::Started { .. }) => Some(Some(*at)),
            Event::Runner(RunnerEvent::Stopped { .. }) => Some(None),
            _ => None,
        });
        Ok((study.view.ran_micros, since.flatten()))
    }

    fn runners(&self, study: StudyId) -> Result<Vec<StoredRunner>, StorageError> {
        Ok(runners_of(&self.data().study(study)?.journal))
    }

    fn revisions(&self, study: StudyId) -> Result<Vec<(Seq, StudySpec)>, StorageError> {
        Ok(self.data().study(study)?.revisions.clone())
    }

    fn document(&self, digest: &str) -> Result<Option<String>, StorageError> {
        Ok(self.data().documents.get(digest).cloned())
    }

    fn changed(&mut self) -> Result<bool, StorageError> {
        let commits = self.data().commits;
        Ok(self.seen.replace(commits) != Some(commits))
    }
}

impl Storage for MemoryStore {
    fn create_study(&mut self, now: Timestamp, spec: &StudySpec) -> Result<StudyId, StorageError> {
        let mut data = self.data();
        if data.studies.iter().any(|study| study.spec.name == spec.name) {
            return Err(StorageError::Exists { name: spec.name.clone() });
        }
        let id = id_of(data.studies.len());
        let view = StudyState::new(spec);
        let revisions = vec![(Seq(0), spec.clone())];
        data.studies.push(StudyData {
            spec: spec.clone(),
            revision: 0,
            revisions,
            created: now,
            epoch: 0,
            held: None,
            journal: Vec::new(),
            view,
        });
        data.commits += 1;
        Ok(id)
    }

    fn update_spec(
        &mut self,
        lease: &Lease,
        _now: Timestamp,
        spec: &StudySpec,
    ) -> Result<(), StorageError> {
        let mut data = self.data();
        let taken = data
            .studies
            .iter()
            .enumerate()
            .any(|(index, study)| study.spec.name == spec.name && id_of(index) != lease.study);
        let study = data.fenced(lease)?;
        if taken {
            return Err(StorageError::Exists { name: spec.name.clone() });
        }
        study.spec = spec.clone();
        study.revision += 1;
        study
            .revisions
            .push((study.journal.last().map_or(Seq(0), |(seq, _, _)| *seq), spec.clone()));
        study.view = StudyState::new(spec);
        for (_, at, event) in &study.journal {
            study.view.apply(*at, event);
        }
        data.commits += 1;
        Ok(())
    }

    fn acquire(
        &mut self,
        study: StudyId,
        holder: &Holder,
        now: Timestamp,
        takeover: Takeover,
    ) -> Result<Lease, StorageError> {
        let mut data = self.data();
        let stored = data.study_mut(study)?;
        if let Some((holder, since)) = &stored.held
            && takeover != Takeover::From(stored.epoch)
        {
            return Err(StorageError::Busy {
                study: stored.spec.name.clone(),
                holder: holder.clone(),
                since: *since,
            });
        }
        stored.epoch += 1;
        stored.held = Some((holder.clone(), now));
        let lease = Lease { study, epoch: stored.epoch };
        data.commits += 1;
        Ok(lease)
    }

    fn renew(&mut self, lease: &Lease, holder: &Holder) -> Result<(), StorageError> {
        let mut data = self.data();
        let stored = data.study_mut(lease.study)?;
        match &mut stored.held {
            Some((held, _)) if stored.epoch == lease.epoch => held.clone_from(holder),
            _ => return Err(StorageError::Fenced { study: lease.study }),
        }
        data.commits += 1;
        Ok(())
    }

    fn release(&mut self, lease: &Lease) -> Result<(), StorageError> {
        let mut data = self.data();
        let stored = data.study_mut(lease.study)?;
        if stored.epoch == lease.epoch {
            stored.held = None;
            data.commits += 1;
        }
        Ok(())
    }

    fn answer(&self, study: StudyId, id: i64) -> Result<Option<Answer>, StorageError> {
        let data = self.data();
        data.study(study)?;
        let request = index_of(StudyId(id))
            .and_then(|index| data.requests.get(index))
            .filter(|request| request.study == study);
        Ok(request.and_then(|request| request.answer.clone()))
    }

    fn append(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        events: &[Event],
    ) -> Result<Seq, StorageError> {
        let mut data = self.data();
        let study = data.fenced(lease)?;
        check_creations(study.view.trials.len() as u64, events)?;
        data.write(lease.study, now, events)?;
        data.commits += 1;
        Ok(data.study(lease.study)?.journal.last().map_or(Seq(0), |(seq, _, _)| *seq))
    }

    fn keep_document(&mut self, digest: &str, body: &str) -> Result<(), StorageError> {
        let mut data = self.data();
        data.documents.entry(digest.to_owned()).or_insert_with(|| body.to_owned());
        data.commits += 1;
        Ok(())
    }

    fn request(
        &mut self,
        study: StudyId,
        now: Timestamp,
        request: &Request,
    ) -> Result<i64, StorageError> {
        let mut data = self.data();
        let view = &data.study(study)?.view;
        let entry = request.entry();
        if let Some(trial) = entry.as_ref().and_then(Event::trial)
            && view.trial(trial).is_none()
        {
            return Err(StorageError::NoTrial { trial });
        }
        let answer = entry.as_ref().map(|_| Answer::Done(String::new()));
        data.requests.push(RequestData { study, request: request.clone(), answer });
        data.write(study, now, entry.as_slice())?;
        data.commits += 1;
        Ok(id_of(data.requests.len() - 1).0)
    }

    fn pending_requests(&self, study: StudyId) -> Result<Vec<StoredRequest>, StorageError> {
        let data = self.data();
        data.study(study)?;
        let pending = data
            .requests
            .iter()
            .enumerate()
            .filter(|(_, request)| request.study == study && request.answer.is_none());
        Ok(pending
            .map(|(index, request)| StoredRequest {
                id: id_of(index).0,
                request: request.request.clone(),
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance;

    #[test]
    fn the_memory_store_passes_the_suite() {
        conformance::run(&mut || {
            let store = MemoryStore::new();
            Box::new(move || Box::new(store.clone()))
        });
    }
}
