//! Studies and journals to test stores with.

use std::path::PathBuf;
use std::time::Duration;

use rand::RngExt as _;

use crate::storage::Holder;
use crate::study::budget::Extension;
use crate::study::decision::{Bound, Decision, PauseCost, Reason};
use crate::study::device::{Device, DeviceGroup, Slot};
use crate::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, DecisionEvent, DeviceEvent, Event, FinalistsEvent,
    MemoryUse, ProposalEvent, RunnerEvent, StateEvent, StudyEvent, TrialEvent,
};
use crate::study::front::Front;
use crate::study::goal::Goal;
use crate::study::metric::{Direction, Metrics, Number};
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::remark::RemarkKind;
use crate::study::seed::StreamRng;
use crate::study::space::{Condition, Dimension, Distribution, Scale, Space};
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::statistics::Statistics;
use crate::study::step::StepUnit;
use crate::study::trial::{AttemptNumber, Hold, Origin, TrialNumber, TrialState};

/// Metric of [`small_study`].
pub(super) const METRIC: &str = "eval_loss";

/// Another reported metric.
pub(super) const OTHER_METRIC: &str = "genauigkeit/größe";

/// A study with a parameter of each kind, one of them conditional.
///
/// # Panics
/// Never: the space is valid.
pub fn small_study(name: &str, direction: Direction) -> StudySpec {
    let dimension = |name: &str, distribution| Dimension {
        name: name.to_owned(),
        distribution,
        prior: None,
        when: None,
    };
    let float = Distribution::float(1e-5, 1e-1, Scale::Log, None).expect("a valid range");
    let int = Distribution::int(2, 8, Scale::Linear, 2).expect("a valid range");
    let choice = Distribution::choice(vec!["sgd".into(), "adamw \"β\"".into(), true.into()])
        .expect("a valid list");
    let momentum = Distribution::float(0.0, 1.0, Scale::Linear, Some(0.25)).expect("a valid range");
    let when = Some(Condition(vec![("optim".to_owned(), vec!["sgd".into()])]));
    let dimensions = vec![
        dimension("learning_rate", float),
        dimension("model.num_layers", int),
        dimension("optim", choice),
        Dimension { when, ..dimension("momentum", momentum) },
    ];
    let space = Space::new(dimensions).expect("a valid space");
    StudySpec::new(name, METRIC, direction, space, Program::Inline)
}

/// A process that runs a study.
pub(super) fn holder(pid: u32) -> Holder {
    Holder { pid, pid_started: 1_000_000 + u64::from(pid), host: "höst".to_owned(), boot_id: None }
}

/// A trial without parameters.
pub(super) fn created(trial: u64) -> Event {
    Event::Trial(
        TrialNumber(trial),
        TrialEvent::created(Params::new(), Origin::Sampled("random".to_owned())),
    )
}

/// A report of the study's metric.
pub(super) fn reported(trial: u64, attempt: u32, step: u64, value: f64) -> Event {
    let metrics = std::iter::once((METRIC.to_owned(), value)).collect();
    Event::of(TrialNumber(trial), AttemptEvent::reported(AttemptNumber(attempt), step, metrics))
}

/// The end of a trial.
pub(super) fn finished(trial: u64, state: TrialState, value: Option<f64>) -> Event {
    Event::Trial(TrialNumber(trial), TrialEvent::finished(state, value, None))
}

/// The start of an attempt on the CPU.
pub(super) fn started(trial: u64, attempt: u32) -> Event {
    let slot = Slot::on(0, Device::Cpu);
    Event::of(
        TrialNumber(trial),
        AttemptEvent::Started {
            attempt: AttemptNumber(attempt),
            slot,
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        },
    )
}

/// `length` events in any order that a fold accepts, including events about trials that do not
/// exist.
pub fn random_journal(spec: &StudySpec, length: usize, rng: &mut StreamRng) -> Vec<Event> {
    let mut trials = 0;
    (0..length).map(|_| random_event(spec, &mut trials, rng)).collect()
}

fn random_event(spec: &StudySpec, trials: &mut u64, rng: &mut StreamRng) -> Event {
    // One more than there are: events about unknown trials change nothing.
    let trial = TrialNumber(
        rng.random_range(0..*trials + 1) + if rng.random_ratio(1, 50) { 1000 } else { 0 },
    );
    let attempt = AttemptNumber(rng.random_range(0..3));
    let step = [0, 1, 2, 3, 10, 1 << 40][rng.random_range(0..6)];
    let until = rng.random_bool(0.3).then_some(step);
    let reason =
        ["rank 9 of 12 at step 300; 4 continue", "läuft weiter", "'; DROP TABLE trial; --", ""]
            [rng.random_range(0..4)]
        .to_owned();
    let path = PathBuf::from(
        ["/runs/0/a", "/runs//0/a", "/runs/0/b", "/läufe/ü b"][rng.random_range(0..4)],
    );
    match rng.random_range(0..39) {
        0 => Event::Runner(RunnerEvent::Started {
            pid: 7,
            host: "höst".to_owned(),
            slots: vec![Slot::on(0, Device::Cpu)],
            tracker: None,
        }),
        1 => {
            let heard = rng.random_bool(0.5).then(|| {
                crate::study::time::Timestamp(
                    1_700_000_000_000_000 + rng.random_range(0..9_000_000),
                )
            });
            Event::Runner(RunnerEvent::Stopped {
                reason,
                ran_micros: rng.random_range(0..1_000_000),
                heard,
                device_micros: rng.random_range(0..1_000),
                runner: None,
            })
        }
        2..6 => {
            *trials += 1;
            random_trial(spec, *trials - 1, rng)
        }
        6..8 => {
            let devices =
                ["cpu", "cuda:3", "ndarray", "sim:1", "wgpu:2", "cuda:0+cuda:1", "cpu+cpu"];
            let devices: DeviceGroup =
                devices[rng.random_range(0..devices.len())].parse().expect("a group of devices");
            let resume = rng.random_bool(0.5).then_some((step, path));
            Event::of(
                trial,
                AttemptEvent::Started {
                    attempt,
                    slot: Slot::on(rng.random_range(0..4), devices),
                    resume,
                    until,
                    rows_at_once: rng.random_bool(0.3).then_some(4),
                    device_micros: rng.random_range(0..1_000),
                },
            )
        }
        8 => Event::of(
            trial,
            AttemptEvent::Launched {
                attempt,
                pid: rng.random_range(1..99),
                pid_started: rng.random_range(0..1 << 50),
            },
        ),
        9..14 => {
            let late = [METRIC, OTHER_METRIC].map(str::to_owned).into_iter();
            Event::of(
                trial,
                AttemptEvent::Reported {
                    attempt,
                    step,
                    metrics: random_metrics(rng),
                    late: late.filter(|_| rng.random_bool(0.2)).collect(),
                },
            )
        }
        14 => {
            Event::of(trial, DecisionEvent::Decided { step, verdict: random_verdict(reason, rng) })
        }
        15..17 => Event::of(
            trial,
            CheckpointEvent::Saved {
                step,
                path,
                bytes: rng.random_bool(0.5).then(|| rng.random_range(0..1 << 40)),
                system: rng.random_bool(0.5).then_some(crate::study::time::Timestamp(7)),
                digest: rng.random_bool(0.5).then(|| format!("{step:x}")),
            },
        ),
        17 => Event::of(trial, CheckpointEvent::Dropped { path }),
        18 => Event::of(
            trial,
            AttemptEvent::Ended {
                attempt,
                end: random_end(rng),
                reason: rng.random_bool(0.5).then_some(reason),
                device_micros: rng.random_bool(0.7).then(|| rng.random_range(0..1_000)),
                memory: rng.random_bool(0.5).then(|| MemoryUse {
                    peak: rng.random_range(0..1 << 40),
                    room: rng.random_range(0..1 << 40),
                }),
                superseded: (0..rng.random_range(0..3))
                    .map(|_| {
                        (
                            [METRIC, OTHER_METRIC][rng.random_range(0..2)].to_owned(),
                            if step % 3 == 0 { Vec::new() } else { vec![step, step + 1] },
                        )
                    })
                    .collect(),
            },
        ),
        19 if rng.random_bool(0.5) => {
            let params = || Params::from_iter([("a".to_owned(), Value::Int(3))]);
            let cloned = TrialEvent::State(StateEvent::Cloned {
                from: TrialNumber(rng.random_range(0..3)),
                step,
                digest: rng.random_bool(0.5).then(|| format!("{step:x}")),
                params: if rng.random_bool(0.5) { params() } else { Params::new() },
                replaced: params(),
                until,
                reason: Reason::Exploited {
                    rung: 3,
                    rank: 8,
                    of: 8,
                    from: 1,
                    from_rank: 1,
                    from_step: Some(3),
                },
            });
            Event::Trial(trial, cloned)
        }
        19 => Event::of(trial, StateEvent::Queued { until, reason }),
        20 => Event::of(
            trial,
            StateEvent::Paused {
                reason,
                hold: [None, Some(Hold::Trial), Some(Hold::Study)][rng.random_range(0..3)],
            },
        ),
        21 => {
            let state = [TrialState::Complete, TrialState::Pruned, TrialState::Failed]
                [rng.random_range(0..3)];
            let value = (state == TrialState::Complete).then(|| random_number(rng));
            Event::Trial(
                trial,
                TrialEvent::finished(state, value, rng.random_bool(0.5).then_some(reason)),
            )
        }
        22 if rng.random_bool(0.2) => Event::of(
            trial,
            ProposalEvent::CandidatesOffered {
                candidates: vec![Params::new(); rng.random_range(1..4)],
            },
        ),
        22 if rng.random_bool(0.5) => Event::of(
            trial,
            ProposalEvent::ConfigurationsSkipped { points: rng.random_range(1..99), reason },
        ),
        22 => random_finish(reason, trial, rng),
        23 if rng.random_bool(0.5) => {
            let device = [Device::Cpu, Device::Cuda(3)][rng.random_range(0..2)].clone();
            match rng.random_range(0..3) {
                0 => Event::Device(DeviceEvent::Paused { device }),
                1 => Event::Device(DeviceEvent::Resumed { device }),
                _ => Event::Device(DeviceEvent::SlotsChanged {
                    slots: (0..rng.random_range(1..4))
                        .map(|index| Slot::on(index, device.clone()))
                        .collect(),
                }),
            }
        }
        23 => Event::Study(StudyEvent::Paused { reason }),
        24 => Event::Study(StudyEvent::Resumed { reason }),
        25 => {
            let by = Extension {
                trials: rng.random_range(0..100),
                time: Duration::from_micros(rng.random_range(0..1 << 40)),
                device_hours: rng.random_range(0.0..9.0),
                cost: rng.random_range(0.0..9.0),
            };
            Event::Study(StudyEvent::BudgetExtended { by })
        }
        26 => Event::noted(rng.random_bool(0.7).then_some(trial), reason),
        27 | 28 => {
            let tag =
                ["keep", "zwölf", "'; DROP TABLE trial_tag; --"][rng.random_range(0..3)].to_owned();
            Event::tagged(rng.random_bool(0.7).then_some(trial), tag, rng.random_bool(0.6))
        }
        37 => Event::of(trial, StateEvent::Hidden),
        38 => Event::of(trial, StateEvent::Restored),
        31 => {
            let size = rng.random_range(1..9);
            let violation = f64::from(size);
            let event = match size % 3 {
                0 => DecisionEvent::LimitsJudged { violation: None, reason: None },
                1 => {
                    DecisionEvent::LimitsJudged { violation: Some(violation), reason: Some(reason) }
                }
                _ => DecisionEvent::LimitsBroken {
                    violation,
                    reason: "latency is broken".to_owned(),
                },
            };
            Event::of(trial, event)
        }
        32 => Event::Finalists(FinalistsEvent::Chosen { finalists: vec![trial, TrialNumber(0)] }),
        33 => Event::Finalists(FinalistsEvent::Dropped { trial, reason }),
        34 => {
            let statistics =
                Statistics { runs: 3, mean: rng.random_range(-1.0..1.0), deviation: 0.1 };
            Event::Finalists(FinalistsEvent::Won {
                trial: TrialNumber(rng.random_range(0..3)),
                statistics,
                reason,
            })
        }
        36 => {
            let kind = [RemarkKind::Step, RemarkKind::Value][rng.random_range(0..2)];
            Event::of(
                trial,
                AttemptEvent::Remarked {
                    attempt,
                    kind,
                    text: reason,
                    count: rng.random_range(1..9),
                },
            )
        }
        35 => Event::Finalists(FinalistsEvent::Tested {
            trial: TrialNumber(rng.random_range(0..3)),
            metrics: random_metrics(rng),
        }),
        30 => Event::of(
            trial,
            StateEvent::Held {
                hold: [None, Some(Hold::Trial), Some(Hold::Study)][rng.random_range(0..3)],
            },
        ),
        29 => {
            let from = [TrialState::Complete, TrialState::Pruned, TrialState::Failed]
                [rng.random_range(0..3)];
            Event::of(trial, StateEvent::Continued { until: step, from })
        }
        _ => Event::Study(StudyEvent::Reopened { reason }),
    }
}

fn random_trial(spec: &StudySpec, number: u64, rng: &mut StreamRng) -> Event {
    let drawn: Result<Params, std::convert::Infallible> =
        spec.space.assemble(&Params::new(), |dimension, _| {
            Ok(dimension.distribution.from_unit(rng.random()))
        });
    let Ok(params) = drawn;
    let of = TrialNumber(rng.random_range(0..number + 1));
    let origin = match rng.random_range(0..20) {
        0..4 => Origin::Enqueued(number),
        4 => Origin::Replicate(of),
        5 => Origin::Repeat(of),
        6 => Origin::Race { of, race: 0, round: rng.random_range(0..3) },
        _ => Origin::Sampled("tpe-independent".to_owned()),
    };
    Event::Trial(TrialNumber(number), TrialEvent::created(params, origin))
}

fn random_metrics(rng: &mut StreamRng) -> Metrics {
    let names = [METRIC, METRIC, METRIC, OTHER_METRIC, "日本 \"x\"", ""];
    let count = rng.random_range(0..4);
    (0..count)
        .map(|_| (names[rng.random_range(0..names.len())].to_owned(), random_number(rng)))
        .collect()
}

/// Numbers that are easily stored wrongly, and others.
pub(super) const STRANGE: [f64; 10] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1e308,
    -1e308,
    f64::MIN_POSITIVE,
    0.1,
    9_007_199_254_740_993.0,
];

fn random_finish(reason: String, trial: TrialNumber, rng: &mut StreamRng) -> Event {
    let reference = vec![random_number(rng); 2];
    let hypervolume = random_number(rng);
    let front = vec![trial];
    let front_then = rng.random_bool(0.5).then(|| Front {
        trials: front.clone(),
        knee: Some(trial),
        hypervolume: Some(hypervolume),
        reference: reference.clone(),
    });
    let goal = match rng.random_range(0..5) {
        0 => Some(Goal::Target { trial, value: hypervolume, target: random_number(rng) }),
        1 => Some(Goal::Patience { trial, trials: rng.random_range(1..9) }),
        2 => Some(Goal::FrontPatience { trial, trials: rng.random_range(1..9) }),
        3 => Some(Goal::Hypervolume { front, hypervolume, reference, target: random_number(rng) }),
        _ => None,
    };
    Event::Study(StudyEvent::Finished {
        reason,
        goal: goal.map(Box::new),
        front: front_then.map(Box::new),
        too_many_failures: rng.random_bool(0.5),
    })
}

fn random_number(rng: &mut StreamRng) -> f64 {
    if rng.random_bool(0.5) {
        STRANGE[rng.random_range(0..STRANGE.len())]
    } else {
        rng.random_range(-1.0..1.0)
    }
}

fn random_verdict(reason: String, rng: &mut StreamRng) -> Decision {
    match rng.random_range(0..5) {
        4 => Decision::continues(Reason::NotPaused {
            rung: 3,
            rank: 2,
            of: 7,
            first: 2,
            until: rng.random_bool(0.5).then(|| StepUnit::Step.at(9)),
            cost: PauseCost::Restart { restart: 3_000_000, training: 1_000_000 },
        }),
        0 => Decision::CONTINUE,
        1 => Decision::continues(Reason::Recorded(reason)),
        2 => Decision::Pause(Reason::Rung { rung: 3, rank: 2, of: 7, first: 2 }),
        _ => Decision::Stop(Reason::Threshold {
            value: Number(random_number(rng)),
            bound: Bound::Upper,
            threshold: Number(random_number(rng)),
            at: StepUnit::Samples.at(9),
        }),
    }
}

fn random_end(rng: &mut StreamRng) -> AttemptEnd {
    let ends = [
        AttemptEnd::Completed,
        AttemptEnd::Paused,
        AttemptEnd::Stopped,
        AttemptEnd::Interrupted,
        AttemptEnd::Lost,
        AttemptEnd::Diverged,
        AttemptEnd::Failed(FailureCause::WorkerLost),
    ];
    ends[rng.random_range(0..ends.len())].clone()
}
