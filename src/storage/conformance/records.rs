//! Cases about records: studies, numbers, reruns, attempts, checkpoints, the journal in pages.

use std::path::PathBuf;

use super::journal::{METRIC, STRANGE, created, finished, holder, reported, small_study, started};
use super::{Case, Opener, refused};
use crate::storage::{
    Attempt, Lease, Remarked, Storage, StorageError, StoredAgent, StudyId, Takeover,
};
use crate::study::device::{Device, Slot};
use crate::study::event::{
    AgentChange, AttemptEnd, AttemptEvent, CheckpointEvent, DeviceEvent, Event, RecordEvent,
    RunnerEvent, Seq, StudyEvent, TrialEvent,
};
use crate::study::metric::Direction;
use crate::study::provenance::{AgentProvenance, Build, ClusterJob, Machine, Scheduler};
use crate::study::query::{SortKey, TrialQuery};
use crate::study::remark::RemarkKind;
use crate::study::request::{Request, RequestAnswer};
use crate::study::space::{Distribution, Space};
use crate::study::spec::FailureCause;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber, TrialState};

pub(super) const CASES: &[(&str, Case)] = &[
    ("a study is found again by its name", found_again),
    ("a study that is not there is an error", not_there),
    ("strange numbers come back as they were", strange_numbers),
    ("a rerun's report replaces the same step's", reruns),
    ("reports of one step are merged, and another attempt's replace them", one_step),
    ("remarks are found from any place of the journal on", remarks),
    ("a trial's summary is the last value of each name", summaries),
    ("agents are found with the attempts that ran there", agents),
    ("attempts are kept with their ends", attempts),
    ("checkpoints come and go", checkpoints),
    ("the journal comes back in pages", journal_pages),
    ("a changed specification is kept and old trials stay", changed_specification),
    ("runners' time adds up", runners_time),
];

/// A new study, held.
pub(super) fn held_study(
    store: &mut dyn Storage,
    direction: Direction,
) -> Result<Lease, StorageError> {
    let study = store.create_study(Timestamp(1), &small_study("s", direction))?;
    store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)
}

fn found_again(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    assert!(store.studies()?.is_empty());
    let names = ["zwei", "日本語 \u{1F600}", "O'Brien; DROP TABLE study", ""];
    for (index, name) in (0_i64..).zip(names) {
        let mut spec = small_study(name, Direction::Maximize);
        spec.budget.target = Some(1e-300);
        let id = store.create_study(Timestamp(index), &spec)?;
        let found = open().study(name)?.map(|study| (study.id, study.spec, study.created));
        assert_eq!(found, Some((id, spec, Timestamp(index))));
    }
    assert_eq!(store.study("no such")?, None);
    let twice = refused(
        store.create_study(Timestamp(9), &small_study("zwei", Direction::Minimize)),
        "a name used twice",
    );
    assert!(matches!(twice, StorageError::Exists { name } if name == "zwei"));
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let listed: Vec<_> = store.studies()?.into_iter().map(|summary| summary.spec.name).collect();
    assert_eq!(listed, sorted);
    Ok(())
}

fn not_there(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let study = StudyId(5);
    let is_missing = |error| matches!(error, StorageError::NoStudy { study: StudyId(5), .. });
    assert!(is_missing(refused(store.study_state(study), "the state")));
    assert!(is_missing(refused(store.summary(study), "the summary")));
    assert!(is_missing(refused(
        store.trials(study, &TrialQuery::all(SortKey::Value)),
        "the trials"
    )));
    assert!(is_missing(refused(store.trial(study, TrialNumber(0)), "the trial")));
    assert!(is_missing(refused(store.attempts(study, None), "the attempts")));
    assert!(is_missing(refused(store.reports(study, TrialNumber(0)), "the reports")));
    assert!(is_missing(refused(store.events_after(study, Seq(0), 1), "the journal")));
    assert!(is_missing(refused(store.events_before(study, Seq(9), 1), "the journal's end")));
    assert!(is_missing(refused(store.running_since(study), "the time")));
    assert!(is_missing(refused(store.pending_requests(study), "the requests")));
    assert!(is_missing(refused(
        store.acquire(study, &holder(1), Timestamp(0), Takeover::IfFree),
        "a lease"
    )));
    Ok(())
}

fn strange_numbers(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let mut events = vec![created(0)];
    events.extend((0..).zip(STRANGE).map(|(step, value)| reported(0, 0, step, value)));
    for (trial, value) in (1..).zip(STRANGE) {
        events.extend([created(trial), finished(trial, TrialState::Complete, Some(value))]);
    }
    store.append(&lease, Timestamp(2), &events)?;
    let state = open().study_state(lease.study)?;
    let same =
        |stored: f64, written: f64| stored == written || (stored.is_nan() && written.is_nan());
    for ((step, value), (at, written)) in state.trials[0].curve.iter().zip((0_u64..).zip(STRANGE)) {
        assert!(*step == at && same(*value, written), "{value} instead of {written} at step {at}");
    }
    assert_eq!(state.trials[0].curve.len(), STRANGE.len());
    for (trial, written) in state.trials[1..].iter().zip(STRANGE) {
        assert!(
            trial.value.is_some_and(|value| same(value, written)),
            "{:?} instead of {written}",
            trial.value
        );
    }
    let last = STRANGE[STRANGE.len() - 1];
    assert!(state.trials[0].last_metrics.get(METRIC).is_some_and(|value| same(value, last)));
    Ok(())
}

fn one_step(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let report = |attempt, metrics: &[(&str, f64)]| {
        let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Event::of(TrialNumber(0), AttemptEvent::reported(AttemptNumber(attempt), 1, metrics))
    };
    let events = [
        created(0),
        started(0, 0),
        report(0, &[("train", 0.9)]),
        report(0, &[("train", 0.9), (METRIC, 0.5)]),
    ];
    store.append(&lease, Timestamp(2), &events)?;
    store.append(&lease, Timestamp(3), &[started(0, 1), report(1, &[("train", 0.8)])])?;
    let named = |name: &str, value| (name.to_owned(), 1, value);
    let mut reports = open().reports(lease.study, TrialNumber(0))?;
    reports.sort_by(|one, other| one.0.cmp(&other.0));
    let mut expected = [named("train", 0.8), named(METRIC, 0.5)];
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(reports, expected);
    let state = open().study_state(lease.study)?;
    let Some(trial) = open().trial(lease.study, TrialNumber(0))? else {
        panic!("the trial is gone")
    };
    for trial in [&trial, &state.trials[0]] {
        assert_eq!(
            (trial.last(), trial.last_metrics.iter().collect::<Vec<_>>()),
            (Some((1, 0.5)), vec![(METRIC, 0.5), ("train", 0.8)])
        );
    }
    assert_eq!(
        open().curves(lease.study, "train", &[TrialNumber(0)])?,
        [(TrialNumber(0), vec![(1, 0.8)])]
    );
    Ok(())
}

fn remarks(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let remark = |trial, text: &str, count| {
        let (attempt, kind, text) = (AttemptNumber(0), RemarkKind::Value, text.to_owned());
        Event::of(TrialNumber(trial), AttemptEvent::Remarked { attempt, kind, text, count })
    };
    let events = [
        created(0),
        created(1),
        remark(1, "other", 1),
        remark(0, "'quoted' \"%_*[", 1),
        reported(0, 0, 1, 0.5),
    ];
    let first = store.append(&lease, Timestamp(2), &events)?;
    let told = |text: &str, count| Remarked {
        attempt: AttemptNumber(0),
        kind: RemarkKind::Value,
        text: text.to_owned(),
        count,
    };
    assert_eq!(
        open().remarks(lease.study, TrialNumber(0), Seq(0))?,
        (vec![told("'quoted' \"%_*[", 1)], first)
    );
    let last =
        store.append(&lease, Timestamp(3), &[remark(0, "again", 7), remark(10, "nobody's", 1)])?;
    assert_eq!(open().remarks(lease.study, TrialNumber(0), first)?, (vec![told("again", 7)], last));
    assert_eq!(open().remarks(lease.study, TrialNumber(0), last)?, (Vec::new(), last));
    Ok(())
}

fn summaries(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let summary = |trial, name: &str, value: f64| {
        let summary = [(name.to_owned(), value.into())].into();
        Event::of(TrialNumber(trial), RecordEvent::SummaryRecorded { summary })
    };
    let events = [created(0), created(1), summary(1, "test", 0.5), summary(10, "test", 0.25)];
    store.append(&lease, Timestamp(2), &events)?;
    let reader = open();
    let early = reader.trial_summary(lease.study, TrialNumber(1))?;
    assert_eq!(serde_json::json!(early), serde_json::json!({ "test": 0.5 }));
    store.append(&lease, Timestamp(3), &[summary(1, "f1", 0.75), summary(1, "test", 1.0)])?;
    let kept = open().trial_summary(lease.study, TrialNumber(1))?;
    // A reader that knows what was before reads what came since.
    assert_eq!(reader.trial_summary(lease.study, TrialNumber(1))?, kept);
    assert_eq!(serde_json::json!(kept), serde_json::json!({ "f1": 0.75, "test": 1.0 }));
    assert!(open().trial_summary(lease.study, TrialNumber(0))?.is_empty());
    let all = open().trial_summaries(lease.study)?;
    assert_eq!((all.get(&TrialNumber(1)), all.get(&TrialNumber(0))), (Some(&kept), None));
    Ok(())
}

fn agents(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let machine = |host: &str| AgentProvenance {
        machine: Machine {
            host: host.to_owned(),
            system: "Linux".to_owned(),
            processor: String::new(),
            cores: 2,
            gpus: Vec::new(),
        },
        memory: None,
        hpsearch: Build { version: "0.1.0".to_owned(), digest: None },
        job: Some(ClusterJob { scheduler: Scheduler::Slurm, id: "7".to_owned() }),
    };
    let joined = |name: &str, host: Option<&str>| {
        let provenance = host.map(|host| Box::new(machine(host)));
        let change = AgentChange::Joined { slots: 1, provenance };
        Event::Device(DeviceEvent::AgentChanged { agent: name.to_owned(), change })
    };
    let on = |trial: u64, name: &str| {
        let slot = Slot::on(0, Device::Cpu.on(name));
        let start = TrialEvent::Attempt(AttemptEvent::Started {
            attempt: AttemptNumber(0),
            slot,
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        });
        Event::Trial(TrialNumber(trial), start)
    };
    // By the same name: another machine later, and one of an earlier version.
    store.append(&lease, Timestamp(2), &[joined("a", Some("one")), created(0), on(0, "a")])?;
    store.append(&lease, Timestamp(3), &[joined("old", None), created(1), on(1, "old")])?;
    store.append(&lease, Timestamp(4), &[joined("a", Some("two")), created(2), on(2, "a")])?;
    let found = open().agents(lease.study)?;
    let hosts: Vec<_> = found.iter().map(|agent| agent.provenance.machine.host.as_str()).collect();
    assert_eq!(hosts, ["one", "two"]);
    assert_eq!(found[0].provenance, machine("one"));
    let attempts = open().attempts(lease.study, None)?;
    let ran = attempts.iter().map(|attempt| StoredAgent::that_ran(&found, attempt));
    let ran: Vec<_> = ran.map(|agent| agent.map(|agent| agent.joined.0)).collect();
    assert_eq!(ran, [Some(2), None, Some(4)]);
    Ok(())
}

fn reruns(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let first = [
        created(0),
        started(0, 0),
        reported(0, 0, 1, 0.5),
        reported(0, 0, 2, 0.4),
        reported(0, 0, 3, 0.3),
    ];
    store.append(&lease, Timestamp(2), &first)?;
    store.append(&lease, Timestamp(3), &[started(0, 1), reported(0, 1, 2, f64::NAN)])?;
    let Some(trial) = open().trial(lease.study, TrialNumber(0))? else {
        panic!("the trial is gone")
    };
    assert_eq!(trial.curve.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(trial.curve[1].1.is_nan());
    assert_eq!(trial.last(), Some((3, 0.3)));
    assert_eq!(trial.attempts, 2);
    assert_eq!(store.reports(lease.study, TrialNumber(0))?.len(), 3);
    let reporters = store.reporters(lease.study, TrialNumber(0))?;
    let reporters = reporters.iter().map(|(_, step, by)| (*step, by.0));
    assert_eq!(reporters.collect::<Vec<_>>(), [(1, 0), (2, 1), (3, 0)]);
    assert!(store.reporters(lease.study, TrialNumber(7))?.is_empty());
    assert!(store.reports(lease.study, TrialNumber(7))?.is_empty());
    assert_eq!(store.trial(lease.study, TrialNumber(7))?, None);
    assert_eq!(store.trial(lease.study, TrialNumber(u64::MAX))?, None);
    Ok(())
}

fn attempts(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let (trial, slot) = (TrialNumber(1), Slot::on(3, Device::Cuda(2)));
    let (first, second) = (AttemptNumber(0), AttemptNumber(1));
    let resume = Some((4, PathBuf::from("/runs/ü")));
    let end = AttemptEnd::Failed(FailureCause::Oom);
    store.append(&lease, Timestamp(2), &[created(0), created(1), started(0, 0)])?;
    let start = |attempt, resume| {
        Event::of(
            trial,
            AttemptEvent::Started {
                attempt,
                slot: slot.clone(),
                resume,
                until: Some(9),
                rows_at_once: None,
                device_micros: 0,
            },
        )
    };
    store.append(&lease, Timestamp(3), &[start(first, None)])?;
    store.append(
        &lease,
        Timestamp(4),
        &[Event::of(
            trial,
            AttemptEvent::Launched { attempt: first, pid: 77, pid_started: 1 << 40 },
        )],
    )?;
    store.append(
        &lease,
        Timestamp(8),
        &[Event::of(
            trial,
            AttemptEvent::Ended {
                attempt: first,
                end: end.clone(),
                reason: Some("no memory".to_owned()),
                device_micros: None,
                memory: None,
                superseded: Default::default(),
            },
        )],
    )?;
    store.append(&lease, Timestamp(9), &[start(second, resume.clone())])?;
    let stored = open().attempts(lease.study, Some(trial))?;
    let open_end = Attempt {
        trial,
        attempt: second,
        slot: slot.clone(),
        resume,
        until: Some(9),
        process: None,
        started: Timestamp(9),
        ended: None,
        end: None,
        reason: None,
        runner: None,
    };
    let (process, ended, reason) =
        (Some((77, 1 << 40)), Some(Timestamp(8)), Some("no memory".to_owned()));
    let closed = Attempt {
        attempt: first,
        resume: None,
        process,
        started: Timestamp(3),
        ended,
        end: Some(end),
        reason,
        ..open_end.clone()
    };
    assert_eq!(stored, [closed, open_end]);
    let all: Vec<_> = store
        .attempts(lease.study, None)?
        .iter()
        .map(|attempt| (attempt.trial.0, attempt.attempt.0))
        .collect();
    assert_eq!(all, [(0, 0), (1, 0), (1, 1)]);
    assert_eq!(
        store.trial(lease.study, trial)?.map(|trial| (trial.busy_micros, trial.until)),
        Some((5, Some(9)))
    );
    // It was lost with its runner, which was last heard long before this was recorded.
    let stopped = RunnerEvent::Stopped {
        reason: "it was killed".to_owned(),
        ran_micros: 9,
        heard: Some(Timestamp(11)),
        device_micros: 0,
        runner: None,
    };
    let lost = TrialEvent::Attempt(AttemptEvent::Ended {
        attempt: second,
        end: AttemptEnd::Lost,
        reason: None,
        device_micros: Some(0),
        memory: None,
        superseded: Default::default(),
    });
    let events = [Event::Runner(stopped), Event::Trial(trial, lost)];
    store.append(&lease, Timestamp(50), &events)?;
    let stored = open().attempts(lease.study, Some(trial))?;
    assert_eq!(stored[1].ended, Some(Timestamp(11)));
    assert_eq!(store.trial(lease.study, trial)?.map(|trial| trial.busy_micros), Some(7));
    Ok(())
}

fn checkpoints(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let save = |step, path: &str| {
        Event::of(
            TrialNumber(0),
            CheckpointEvent::Saved {
                step,
                path: PathBuf::from(path),
                bytes: None,
                system: None,
                digest: None,
            },
        )
    };
    store.append(
        &lease,
        Timestamp(2),
        &[created(0), save(2, "/b"), save(1, "/a"), save(2, "/c"), save(3, "/a")],
    )?;
    let paths = |store: &dyn Storage| -> Result<Vec<_>, StorageError> {
        let trial = store.trial(lease.study, TrialNumber(0))?;
        Ok(trial
            .iter()
            .flat_map(|trial| &trial.checkpoints)
            .map(|checkpoint| (checkpoint.step, checkpoint.path.display().to_string()))
            .collect())
    };
    let kept = |list: &[(u64, &str)]| {
        list.iter().map(|(step, path)| (*step, (*path).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(paths(&*open())?, kept(&[(2, "/b"), (2, "/c"), (3, "/a")]));
    store.append(
        &lease,
        Timestamp(3),
        &[Event::of(TrialNumber(0), CheckpointEvent::Dropped { path: PathBuf::from("/b") })],
    )?;
    assert_eq!(paths(&*open())?, kept(&[(2, "/c"), (3, "/a")]));
    Ok(())
}

fn journal_pages(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    assert!(store.events_after(lease.study, Seq(0), 10)?.is_empty());
    let events: Vec<_> = (0..10).map(created).collect();
    let last = store.append(&lease, Timestamp(2), &events)?;
    assert_eq!(store.append(&lease, Timestamp(3), &[])?, last, "nothing appended, nothing moved");
    let (mut cursor, mut sizes, mut read) = (Seq(0), Vec::new(), Vec::new());
    loop {
        let page = store.events_after(lease.study, cursor, 4)?;
        sizes.push(page.len());
        let Some((seq, _, _)) = page.last() else { break };
        assert!(page.iter().all(|(seq, _, _)| *seq > cursor));
        cursor = *seq;
        read.extend(page.into_iter().map(|(_, _, event)| event));
    }
    assert_eq!((sizes, cursor), (vec![4, 4, 2, 0], last));
    assert_eq!(read, events);
    let (mut cursor, mut sizes, mut read) = (Seq(i64::MAX), Vec::new(), Vec::new());
    loop {
        let page = store.events_before(lease.study, cursor, 4)?;
        sizes.push(page.len());
        let Some((seq, _, _)) = page.first() else { break };
        assert!(
            page.is_sorted_by_key(|(seq, _, _)| *seq)
                && page.iter().all(|(seq, _, _)| *seq < cursor)
        );
        cursor = *seq;
        read.splice(0..0, page.into_iter().map(|(_, _, event)| event));
    }
    assert_eq!(sizes, [4, 4, 2, 0], "backwards too");
    assert_eq!(read, events);
    Ok(())
}

fn changed_specification(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let spec = small_study("s", Direction::Minimize);
    let point = |optim: &str| {
        let params = [("optim".to_owned(), optim.into())].into_iter().collect();
        (params, crate::study::trial::Origin::Enqueued(0))
    };
    let create = |trial, (params, origin)| {
        Event::Trial(TrialNumber(trial), TrialEvent::created(params, origin))
    };
    store.append(&lease, Timestamp(2), &[create(0, point("sgd"))])?;
    let mut dimensions = spec.space.dimensions().to_vec();
    for dimension in &mut dimensions {
        if let Distribution::Choice { choices } = &mut dimension.distribution {
            choices.insert(0, "lion".into());
        }
    }
    let space = Space::new(dimensions).expect("one more choice");
    let changed =
        crate::study::spec::StudySpec { space, description: Some("neu".to_owned()), ..spec };
    store.update_spec(&lease, Timestamp(3), &changed, &[])?;
    store.append(&lease, Timestamp(4), &[create(1, point("lion"))])?;
    let reader = open();
    assert_eq!(
        reader.study("s")?.map(|study| (study.spec, study.created)),
        Some((changed, Timestamp(1)))
    );
    let optim: Vec<_> = reader
        .study_state(lease.study)?
        .trials
        .iter()
        .map(|trial| trial.params.get("optim").cloned())
        .collect();
    assert_eq!(optim, [Some("sgd".into()), Some("lion".into())]);
    // A value that was written before the space changed is replaced, or removed.
    let record = |trial, event: RecordEvent| Event::of(TrialNumber(trial), event);
    let other = [("optim".to_owned(), "lion".into())].into_iter().collect();
    store.append(
        &lease,
        Timestamp(5),
        &[record(0, RecordEvent::ParamsRecorded { params: other })],
    )?;
    let optim = |reader: &dyn Storage| -> Result<_, StorageError> {
        let state = reader.study_state(lease.study)?;
        Ok(state.trial(TrialNumber(0)).and_then(|trial| trial.params.get("optim").cloned()))
    };
    assert_eq!(optim(&*open())?, Some("lion".into()));
    let before = point("sgd");
    store.append(&lease, Timestamp(6), &[create(2, before)])?;
    store.update_spec(&lease, Timestamp(7), &small_study("s", Direction::Minimize), &[])?;
    let dropped = || RecordEvent::ParamsDropped { names: vec!["optim".to_owned()] };
    store.append(&lease, Timestamp(8), &[record(0, dropped()), record(2, dropped())])?;
    let state = open().study_state(lease.study)?;
    let has: Vec<bool> =
        state.trials.iter().map(|trial| trial.params.get("optim").is_some()).collect();
    assert_eq!(has, [false, true, false]);
    Ok(())
}

fn runners_time(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let start = || {
        Event::Runner(RunnerEvent::Started {
            pid: 1,
            host: "h".to_owned(),
            slots: Vec::new(),
            tracker: None,
        })
    };
    let stop = |ran_micros| {
        Event::Runner(RunnerEvent::Stopped {
            reason: "done".to_owned(),
            ran_micros,
            heard: None,
            device_micros: 0,
            runner: None,
        })
    };
    assert_eq!(store.running_since(lease.study)?, (0, None));
    store.append(&lease, Timestamp(10), &[start()])?;
    assert_eq!(store.running_since(lease.study)?, (0, Some(Timestamp(10))));
    store.append(&lease, Timestamp(30), &[stop(20)])?;
    assert_eq!(store.running_since(lease.study)?, (20, None));
    // This one is killed: no stop. The next one runs.
    store.append(&lease, Timestamp(40), &[start()])?;
    store.append(&lease, Timestamp(60), &[start()])?;
    assert_eq!(store.running_since(lease.study)?, (20, Some(Timestamp(60))));
    let pause = || Event::Study(StudyEvent::Paused { reason: "by you".to_owned() });
    let resume = Event::Study(StudyEvent::Resumed { reason: "by you".to_owned() });
    assert_eq!(store.active_time(lease.study)?, (20, Some(Timestamp(60))));
    store.append(&lease, Timestamp(62), &[pause()])?;
    assert_eq!(store.active_time(lease.study)?, (22, None), "it stands");
    let id = store.request(lease.study, Timestamp(63), &Request::ResumeStudy)?;
    let answer = RequestAnswer::Done("it continues".to_owned());
    let served = Event::Study(StudyEvent::RequestServed { id, answer });
    store.append(&lease, Timestamp(64), &[resume, served])?;
    assert_eq!(
        store.active_time(lease.study)?,
        (20, Some(Timestamp(62))),
        "less two that were idle"
    );
    store.append(
        &lease,
        Timestamp(65),
        &[stop(5), Event::Study(StudyEvent::finished("all trials done"))],
    )?;
    assert_eq!(open().running_since(lease.study)?, (25, None));
    assert_eq!(open().summary(lease.study)?.finished.as_deref(), Some("all trials done"));
    store.append(
        &lease,
        Timestamp(70),
        &[Event::Study(StudyEvent::Reopened { reason: "more trials".to_owned() })],
    )?;
    assert_eq!(open().summary(lease.study)?.finished, None);
    Ok(())
}
