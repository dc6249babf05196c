//! Population-based training: its decisions, and its published behaviour on a quadratic and on a
//! task that needs a schedule.

use std::path::PathBuf;

use rand::RngExt as _;

use super::*;
use crate::pruners::{Restart, conformance};
use crate::study::checkpoint::Checkpoint;
use crate::study::condition::Expression;
use crate::study::constraint::Constraint;
use crate::study::history::History;
use crate::study::metric::{Direction, Score};
use crate::study::params::{Params, Value};
use crate::study::schedule::schedule;
use crate::study::seed::SeedTree;
use crate::study::segment::Segment;
use crate::study::space::{Dimension, Distribution, Scale, Space};
use crate::study::trial::TrialState;

fn spec(population: u64, interval: u64) -> AlgorithmSpec {
    ENTRY.defaults().with("population", population).with("interval", interval)
}

fn pbt(population: u64, interval: u64, end: u64) -> Pbt {
    Pbt::new(&spec(population, interval), Some(end)).unwrap()
}

fn unit_space(names: &[&str]) -> Space {
    let axis = |name: &&str| {
        Dimension::new(*name, Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap())
    };
    Space::new(names.iter().map(axis).collect()).unwrap()
}

/// Members that wait at step 2 with these losses.
fn waiting(losses: &[f64]) -> Vec<Trial> {
    let member = |(number, loss): (u64, &f64)| {
        let mut trial = conformance::trial(number, TrialState::Paused, &[(2, *loss)]);
        trial.params = [("x".to_owned(), Value::Float(0.5))].into_iter().collect();
        trial.until = Some(2);
        save(&mut trial, 2);
        trial
    };
    (0..).zip(losses).map(member).collect()
}

fn save(trial: &mut Trial, step: u64) {
    let path = PathBuf::from(format!("/{}/{step}", trial.number));
    trial.checkpoints.push(Checkpoint { step, path, bytes: None, digest: None });
}

fn decide(pbt: &Pbt, trials: &[Trial], seed: u64, gathered: Gathered) -> Vec<MemberDecision> {
    let space = unit_space(&["x"]);
    let history = History::of(trials, Direction::Minimize);
    let seeds = SeedTree::new(seed);
    pbt.exploit(&Generation { space: &space, constraints: &[], history, seeds, gathered })
}

/// Who copies whom.
fn copies(decisions: &[MemberDecision]) -> Vec<(u64, u64)> {
    let copy = |decision: &MemberDecision| match decision {
        MemberDecision::Clone { trial, from, .. } => Some((trial.0, from.0)),
        _ => None,
    };
    decisions.iter().filter_map(copy).collect()
}

#[test]
fn the_last_quarter_copies_from_the_first_and_the_others_go_on() {
    let pbt = pbt(8, 2, 10);
    let trials = waiting(&[0.8, 0.1, 0.5, 0.2, 0.9, 0.4, 0.3, 0.6]);
    let mut donors = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let decisions = decide(&pbt, &trials, seed, Gathered::All);
        let numbers: Vec<u64> = decisions.iter().map(|decision| decision.trial().0).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
        let copies = copies(&decisions);
        assert_eq!(copies.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [0, 4], "{copies:?}");
        donors.extend(copies.iter().map(|(_, from)| *from));
        let until = |decision: &MemberDecision| match decision {
            MemberDecision::Continue { until, .. } | MemberDecision::Clone { until, .. } => *until,
            MemberDecision::Stop { .. } => None,
        };
        assert!(decisions.iter().all(|decision| until(decision) == Some(4)));
    }
    assert_eq!(donors, [1, 3].into(), "both of the first quarter are drawn");
}

#[test]
fn nothing_is_decided_before_the_last_member_arrives_unless_nothing_else_can_run() {
    let pbt = pbt(4, 2, 10);
    let mut trials = waiting(&[0.4, 0.1, 0.2, 0.3]);
    trials[2].state = TrialState::Running;
    assert_eq!(decide(&pbt, &trials, 0, Gathered::All), []);
    assert_eq!(decide(&pbt, &trials, 0, Gathered::Waiting).len(), 3);
    // One that has not been created yet is missing, too.
    assert_eq!(decide(&pbt, &trials[..2], 0, Gathered::All), []);
    assert_eq!(decide(&pbt, &trials[..2], 0, Gathered::Waiting).len(), 2);
    // One that failed has left; one that is ahead waits.
    trials[2].state = TrialState::Failed;
    trials[3].until = Some(4);
    let decisions = decide(&pbt, &trials, 0, Gathered::All);
    assert_eq!(copies(&decisions), [(0, 1)]);
    assert_eq!(decisions.len(), 2);
}

#[test]
fn each_population_decides_for_itself() {
    let pbt = pbt(2, 2, 10);
    let trials = waiting(&[0.4, 0.1, 0.2, 0.3]);
    assert_eq!(copies(&decide(&pbt, &trials, 0, Gathered::All)), [(0, 1), (3, 2)]);
}

#[test]
fn without_a_number_a_member_is_replaced_or_stops_and_equals_explore() {
    let pbt = pbt(4, 2, 10);
    let trials = waiting(&[f64::NAN, 0.1, f64::NAN, 0.3]);
    assert_eq!(copies(&decide(&pbt, &trials, 0, Gathered::All)), [(0, 1), (2, 1)]);
    let all_nan = decide(&pbt, &waiting(&[f64::NAN; 4]), 0, Gathered::All);
    assert!(all_nan.iter().all(|one| matches!(one, MemberDecision::Stop { .. })));
    assert_eq!(copies(&decide(&pbt, &waiting(&[0.5; 4]), 0, Gathered::All)), [(3, 0)]);
    // One that diverged before the rung.
    let mut trials = waiting(&[0.4, 0.1, 0.2, 0.3]);
    trials[0].curve = vec![(1, 0.01)];
    assert_eq!(copies(&decide(&pbt, &trials, 0, Gathered::All)), [(0, 1)]);
}

#[test]
fn a_donor_has_a_checkpoint_of_the_step_that_it_reported() {
    let pbt = pbt(2, 2, 10);
    let mut trials = waiting(&[0.4, 0.1]);
    trials[1].checkpoints.clear();
    save(&mut trials[1], 1);
    let decisions = decide(&pbt, &trials, 0, Gathered::All);
    let reason = Reason::Survived { rung: 2, rank: 2, of: 2, no_donor: true, at_once: false };
    let trial = TrialNumber(0);
    assert_eq!(decisions[0], MemberDecision::Continue { trial, until: Some(4), reason });
}

#[test]
fn a_member_without_a_number_takes_over_any_checkpoint_before_it_stops() {
    let mut trials = waiting(&[0.3, 0.1, f64::NAN, 0.2]);
    trials[1].checkpoints.clear();
    let decisions = decide(&pbt(4, 2, 10), &trials, 0, Gathered::All);
    assert!([vec![(2, 0)], vec![(2, 3)]].contains(&copies(&decisions)), "{decisions:?}");
}

#[test]
fn members_that_violate_a_limit_rank_behind_all_others() {
    let mut trials = waiting(&[0.1, 0.2, 0.3, 0.4]);
    for (trial, size) in trials.iter_mut().zip([9.0, 1.0, 1.0, 7.0]) {
        trial.last_metrics = [("size".to_owned(), size)].into_iter().collect();
    }
    let space = unit_space(&["x"]);
    let constraints = [Constraint::Limit(Expression::parse("size <= 5").unwrap())];
    let generation = Generation {
        space: &space,
        constraints: &constraints,
        history: History::of(&trials, Direction::Minimize),
        seeds: SeedTree::new(0),
        gathered: Gathered::All,
    };
    let decisions = pbt(4, 2, 10).exploit(&generation);
    assert_eq!(copies(&decisions), [(0, 1)], "trial 0 has the least loss, and violates most");
}

#[test]
fn members_that_report_more_rarely_than_they_meet_go_on_to_the_next_rung_ahead() {
    let pbt = pbt(4, 2, 30);
    let mut trials = waiting(&[0.4, 0.1, 0.2, 0.3]);
    for (trial, step) in trials.iter_mut().zip([5, 5, 4, 5]) {
        trial.curve = vec![(step, trial.curve[0].1)];
        trial.checkpoints.clear();
        save(trial, step);
    }
    let decisions = decide(&pbt, &trials, 0, Gathered::All);
    let until = |decision: &MemberDecision| match decision {
        MemberDecision::Continue { until, .. } | MemberDecision::Clone { until, .. } => *until,
        MemberDecision::Stop { .. } => None,
    };
    assert!(decisions.iter().all(|decision| until(decision) == Some(6)), "{decisions:?}");
    assert_eq!(copies(&decisions), [(0, 1)]);
    // Nobody pauses on the way there, and all do there, at their first report.
    let at = |step: u64| {
        let mut trial = trials[1].clone();
        (trial.until, trial.curve) = (Some(8), vec![(5, 0.1), (step, 0.1)]);
        let history = History::of(&trials, Direction::Minimize);
        pbt.judge(&Case {
            space: &unit_space(&["x"]),
            history,
            trial: &trial,
            step,
            restart: Restart::Unknown,
        })
    };
    assert_eq!(at(7), Decision::CONTINUE);
    assert_eq!(at(8), Decision::Pause(Reason::Ready { rung: 8, at_once: false }));
    assert_eq!(at(10), Decision::Pause(Reason::Ready { rung: 8, at_once: false }));
}

#[test]
fn a_member_that_reports_a_step_at_its_end_or_beyond_is_not_decided_about() {
    let judge = |version: u32, curve: &[(u64, f64)]| {
        let pbt = Pbt::new(&AlgorithmSpec { version, ..spec(4, 2) }, Some(10)).unwrap();
        let mut trial = conformance::trial(0, TrialState::Running, curve);
        trial.until = Some(8);
        pbt.judge(&Case {
            space: &unit_space(&["x"]),
            history: History::of(&[], Direction::Minimize),
            trial: &trial,
            step: curve[curve.len() - 1].0,
            restart: Restart::Unknown,
        })
    };
    let ready = Decision::Pause(Reason::Ready { rung: 8, at_once: false });
    let beyond = [(7, 0.2), (1_000_000_000_000_000_000, 0.1)];
    assert_eq!(judge(ENTRY.version, &beyond), Decision::CONTINUE);
    assert_eq!(judge(ENTRY.version, &[(7, 0.2), (10, 0.1)]), Decision::CONTINUE);
    assert_eq!(judge(ENTRY.version, &[(7, 0.2), (9, 0.1)]), ready);
    assert_eq!(judge(NONE_AT_END_SINCE - 1, &beyond), ready, "as stored studies have it");
}

#[test]
fn the_interval_is_a_tenth_of_the_trial_and_lies_below_its_end() {
    assert_eq!(Pbt::new(&ENTRY.defaults(), Some(25)).unwrap().interval, 3);
    assert_eq!(Pbt::new(&ENTRY.defaults(), Some(1)).unwrap().first_rung(TrialNumber(0)), None);
    assert!(Pbt::new(&ENTRY.defaults(), None).is_err());
    assert!(Pbt::new(&spec(2, 10), Some(10)).is_err());
    assert_eq!(pbt(2, 4, 10).milestones(Some(10)).at, [4, 8]);
    assert_eq!(pbt(2, 4, 10).rung_after(8), None);
    let endless = Pbt::new(&spec(2, 4), None).unwrap();
    assert_eq!(endless.milestones(None).every, Some(4));
    assert_eq!(conformance::check(&ENTRY, &spec(4, 3)), Ok(()));
}

/// Two sub-populations of four at rung `rung`; the second one evolves at every other rung.
fn two_frequencies(rung: u64, second: [f64; 4]) -> Vec<MemberDecision> {
    let spec = spec(8, 2).with("frequencies", vec![1, 2]);
    let pbt = Pbt::new(&spec, Some(10)).unwrap();
    let losses: Vec<f64> = [0.1, 0.2, 0.3, 0.4].into_iter().chain(second).collect();
    let mut trials = waiting(&losses);
    for trial in &mut trials {
        let value = trial.curve[0].1;
        (trial.curve, trial.until) = (vec![(rung, value)], Some(rung));
        trial.checkpoints.clear();
        save(trial, rung);
        trial.params.insert("x", Value::Float(trial.number.0 as f64 / 10.0));
    }
    decide(&pbt, &trials, 1, Gathered::All)
}

fn params_of(decisions: &[MemberDecision], trial: u64) -> f64 {
    let found = decisions.iter().find(|decision| decision.trial().0 == trial);
    match found {
        Some(MemberDecision::Clone { params, .. }) => number(params, "x"),
        other => panic!("{other:?}"),
    }
}

/// The asymmetric migration of MF-PBT.
#[test]
fn migrants_bring_their_parameters_to_those_who_evolve_more_often_and_only_their_state_to_others() {
    let second = [0.05, 0.5, 0.15, 0.6];
    let decisions = two_frequencies(2, second);
    // Trial 3 is the last of its own; trial 2 takes over the best outside. The others wait.
    assert_eq!(copies(&decisions), [(2, 4), (3, 0)]);
    assert_eq!(params_of(&decisions, 2), 0.4, "of the migrant");
    let reason = Reason::Migrated { rung: 2, rank: 3, of: 4, from: 4, params_of: 4 };
    let is_it = |decision: &MemberDecision| {
        matches!(
            decision,
            MemberDecision::Clone { reason: found, .. } if *found == reason
        )
    };
    assert!(decisions.iter().any(is_it), "{decisions:?}");
    let decisions = two_frequencies(4, second);
    assert_eq!(copies(&decisions), [(2, 4), (3, 0), (5, 0), (7, 4)]);
    assert_eq!(params_of(&decisions, 5), 0.4, "of the best of its own, not of the migrant");
    assert!([0.32, 0.48].contains(&params_of(&decisions, 7)) || params_of(&decisions, 7) != 0.4);
    // No migrant is better than trial 2.
    assert_eq!(copies(&two_frequencies(2, [0.5, 0.6, 0.7, 0.8])), [(3, 0)]);
}

#[test]
fn a_member_without_a_number_is_replaced_although_its_sub_population_does_not_evolve() {
    let decisions = two_frequencies(2, [0.5, f64::NAN, 0.6, 0.7]);
    assert_eq!(copies(&decisions), [(3, 0), (5, 4)]);
    // All of it: from the others.
    let decisions = two_frequencies(2, [f64::NAN; 4]);
    let all = copies(&decisions);
    assert_eq!(all.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
    assert!(all.iter().all(|(_, from)| *from < 4), "{all:?}");
}

#[test]
fn frequencies_ascend_from_one_and_split_a_population_into_quarters() {
    let built = |population, frequencies: &[u64]| {
        let spec = spec(population, 2).with("frequencies", frequencies.to_vec());
        Pbt::new(&spec, Some(100)).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(built(16, &[1, 5, 10, 49]), Ok(()));
    assert_eq!(built(7, &[1]), Ok(()));
    for (population, frequencies, word) in [
        (16, &[2, 5][..], "begins with 1"),
        (16, &[1, 5, 5, 9], "begins with 1"),
        (12, &[1, 5], "a multiple of 8"),
        (8, &[1, 50], "not below"),
    ] {
        let error = built(population, frequencies).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
    let options = spec(8, 3).with("frequencies", vec![1, 2]);
    assert_eq!(conformance::check(&ENTRY, &options), Ok(()));
    assert_eq!(conformance::check(&ENTRY, &options.with("model", true)), Ok(()));
}

/// A population without meetings.
fn asynchronous(population: u64) -> Pbt {
    Pbt::new(&spec(population, 2).with("asynchronous", true), Some(10)).unwrap()
}

/// A member that runs on after its interval at `step`, where it had this loss.
fn going_on(number: u64, step: u64, loss: f64) -> Trial {
    let mut trial = waiting(&[loss]).remove(0);
    trial.number = TrialNumber(number);
    (trial.curve, trial.checkpoints) = (vec![(step, loss)], Vec::new());
    save(&mut trial, step);
    trial.state = TrialState::Running;
    let verdict = Decision::Pause(Reason::Ready { rung: step, at_once: true });
    trial.decisions.push(crate::study::trial::DecisionAtStep { step, verdict });
    trial
}

#[test]
fn a_member_that_arrives_is_compared_with_the_latest_results_of_those_that_run() {
    let mut trials = waiting(&[0.9]);
    trials.extend([(1, 4, 0.1), (2, 6, 0.2), (3, 2, 0.3)].map(|(n, s, l)| going_on(n, s, l)));
    let decisions = decide(&asynchronous(4), &trials, 0, Gathered::All);
    let [MemberDecision::Clone { trial, from, step, until, reason, .. }] = &decisions[..] else {
        panic!("{decisions:?}");
    };
    assert_eq!((trial.0, from.0, *step, *until), (0, 1, 4, Some(6)));
    let (rung, rank, of, from, from_rank, from_step) = (2, 4, 4, 1, 1, Some(4));
    assert_eq!(*reason, Reason::Exploited { rung, rank, of, from, from_rank, from_step });
    // One that is not among the last goes on, and so does one that nobody has results to compare.
    trials[0].curve = vec![(2, 0.15)];
    let stays = |rank, of, no_donor| MemberDecision::Continue {
        trial: TrialNumber(0),
        until: Some(4),
        reason: Reason::Survived { rung: 2, rank, of, no_donor, at_once: true },
    };
    let decided = |trials: &[Trial]| decide(&asynchronous(4), trials, 0, Gathered::All);
    assert_eq!(decided(&trials), [stays(2, 4, false)]);
    trials[1..].iter_mut().for_each(|trial| trial.decisions.clear());
    assert_eq!(decided(&trials), [stays(1, 1, false)]);
    assert_eq!(decide(&asynchronous(4), &trials[1..], 0, Gathered::Waiting), []);
}

#[test]
fn steps_never_go_back_and_what_was_left_is_no_result() {
    let behind = |loss| {
        let mut trials = waiting(&[loss]);
        trials[0].curve = vec![(4, loss)];
        trials[0].until = Some(4);
        trials.extend([going_on(1, 2, 0.1), going_on(2, 2, 0.2), going_on(3, 2, 0.3)]);
        trials
    };
    let decided = |trials: &[Trial], gathered| decide(&asynchronous(4), trials, 0, gathered);
    let stays = || {
        let reason = Reason::Survived { rung: 4, rank: 4, of: 4, no_donor: true, at_once: true };
        MemberDecision::Continue { trial: TrialNumber(0), until: Some(6), reason }
    };
    // It waits for the better one that may replace it, if that is on the way, and goes on if not.
    assert_eq!(decided(&behind(0.9), Gathered::All), []);
    assert_eq!(decided(&behind(0.9), Gathered::Waiting), [stays()]);
    let mut held = behind(0.9);
    held[1].state = TrialState::Paused;
    held[1].hold = Some(crate::study::trial::Hold::Trial);
    assert_eq!(decided(&held, Gathered::All), [stays()]);
    let mut far_behind = behind(0.9);
    (far_behind[0].curve, far_behind[0].until) = (vec![(6, 0.9)], Some(6));
    assert_eq!(decided(&far_behind, Gathered::All).len(), 1);
    // Without a number it waits for one that gets there.
    assert_eq!(decided(&behind(f64::NAN), Gathered::All), []);
    assert_eq!(decided(&behind(0.25), Gathered::All).len(), 1, "it is not among the last");
    let stops = decided(&behind(f64::NAN), Gathered::Waiting);
    assert!(matches!(stops[..], [MemberDecision::Stop { .. }]), "{stops:?}");
    let mut trials = behind(f64::NAN);
    trials[3] = going_on(3, 4, 0.3);
    assert_eq!(copies(&decided(&trials, Gathered::All)), [(0, 3)]);
    // What it took over is another's result.
    let segment = |start| Segment {
        start,
        from: TrialNumber(1),
        digest: None,
        replaced: Params::default(),
        reason: Reason::Recorded(String::new()),
    };
    trials[3].segments = vec![segment(4)];
    assert_eq!(decided(&trials, Gathered::All), []);
    // And it does not take over the same again.
    trials[3].segments.clear();
    trials[0].segments = vec![segment(4)];
    assert_eq!(decided(&trials, Gathered::All), []);
}

#[test]
fn a_member_whose_latest_result_has_no_checkpoint_is_ranked_and_not_copied() {
    let mut trials = waiting(&[0.9]);
    trials.extend([going_on(1, 4, 0.1), going_on(2, 4, 0.2), going_on(3, 4, 0.3)]);
    trials[1].checkpoints.clear();
    let decisions = decide(&asynchronous(4), &trials, 0, Gathered::All);
    let reason = Reason::Survived { rung: 2, rank: 4, of: 4, no_donor: true, at_once: true };
    let trial = TrialNumber(0);
    assert_eq!(decisions, [MemberDecision::Continue { trial, until: Some(4), reason }]);
}

#[test]
fn asynchronous_decisions_need_no_meetings_and_none_at_the_end() {
    let pbt = asynchronous(4);
    let options = spec(8, 3).with("asynchronous", true);
    assert_eq!(conformance::check(&ENTRY, &options), Ok(()));
    for (option, value) in
        [("model", serde_json::json!(true)), ("frequencies", serde_json::json!([1, 2]))]
    {
        let error = Pbt::new(&options.clone().with(option, value), Some(100)).unwrap_err();
        assert!(error.to_string().contains(&format!("`{option}` compares")), "{error}");
    }
    let at = |step: u64| {
        let mut trial = conformance::trial(0, TrialState::Running, &[(7, 0.2), (step, 0.1)]);
        trial.until = Some(8);
        let history = History::of(&[], Direction::Minimize);
        pbt.judge(&Case {
            space: &unit_space(&["x"]),
            history,
            trial: &trial,
            step,
            restart: Restart::Unknown,
        })
    };
    assert_eq!(at(9), Decision::Pause(Reason::Ready { rung: 8, at_once: true }));
    assert_eq!(at(10), Decision::CONTINUE);
}

/// From a state and parameters: the next state, and its value.
type Step = dyn Fn([f64; 2], &Params) -> ([f64; 2], f64);

/// A population that trains in memory: its trials, each with a state that checkpoints save.
struct Training<'a> {
    pbt: Pbt,
    space: Space,
    direction: Direction,
    seeds: SeedTree,
    end: u64,
    step: &'a Step,
}

impl Training<'_> {
    fn run(&self, begin: [f64; 2], params: &[Params]) -> Vec<Trial> {
        let mut states = vec![begin; params.len()];
        let member = |(number, params): (u64, &Params)| Trial {
            params: params.clone(),
            ..conformance::trial(number, TrialState::Running, &[])
        };
        let mut trials: Vec<Trial> = (0..).zip(params).map(member).collect();
        let mut now = 0;
        while now < self.end {
            let until = self.pbt.rung_after(now);
            let last = until.unwrap_or(self.end);
            for (trial, state) in trials.iter_mut().zip(&mut states) {
                for step in now + 1..=last {
                    let value;
                    (*state, value) = (self.step)(*state, &trial.params);
                    trial.curve.push((step, value));
                }
                (trial.until, trial.state) = (until, TrialState::Paused);
                save(trial, last);
            }
            now = last;
            let saved = states.clone();
            let (space, seeds, gathered) = (&self.space, self.seeds, Gathered::All);
            let history = History::of(&trials, self.direction);
            let generation = Generation { space, constraints: &[], history, seeds, gathered };
            if until.is_none() {
                break;
            }
            for decision in self.pbt.exploit(&generation) {
                let MemberDecision::Clone { trial, from, step, params, reason, .. } = decision
                else {
                    continue;
                };
                states[trial.index()] = saved[from.index()];
                let replaced = std::mem::replace(&mut trials[trial.index()].params, params);
                let segment = Segment { start: step, from, digest: None, replaced, reason };
                trials[trial.index()].segments.push(segment);
            }
        }
        trials
    }
}

fn best(trials: &[Trial], direction: Direction) -> f64 {
    let last = trials.iter().filter_map(|trial| trial.last().map(|(_, value)| value));
    last.min_by_key(|value| Score::new(direction, *value)).unwrap()
}

fn weights(weights: [f64; 2]) -> Params {
    let name = |(name, value): (&str, f64)| (name.to_owned(), Value::Float(value));
    ["h0", "h1"].into_iter().zip(weights).map(name).collect()
}

fn number(params: &Params, name: &str) -> f64 {
    params.get(name).unwrap().as_number().unwrap()
}

/// Figure 2 of the paper: two workers follow the gradients of surrogates of a quadratic, each blind
/// to one of its two coordinates. On their own neither gets beyond 0.39 of 1.2.
#[test]
fn two_workers_solve_the_quadratic_of_the_paper_and_neither_does_alone() {
    let step = |theta: [f64; 2], params: &Params| {
        let next = |index: usize, name| theta[index] * (1.0 - 2.0 * 0.01 * number(params, name));
        let theta = [next(0, "h0"), next(1, "h1")];
        (theta, 1.2 - theta[0].powi(2) - theta[1].powi(2))
    };
    let both = [weights([1.0, 0.0]), weights([0.0, 1.0])];
    let run = |interval, seed| {
        let training = Training {
            pbt: pbt(2, interval, 400),
            space: unit_space(&["h0", "h1"]),
            direction: Direction::Maximize,
            seeds: SeedTree::new(seed),
            end: 400,
            step: &step,
        };
        best(&training.run([0.9, 0.9], &both), Direction::Maximize)
    };
    let alone = run(399, 0);
    assert!((0.38..0.42).contains(&alone), "{alone}");
    let reached: Vec<f64> = (0..20).map(|seed| run(4, seed)).collect();
    let solved = reached.iter().filter(|value| **value > 1.15).count();
    assert!(solved >= 18, "{reached:?}");
}

/// A noisy valley, in which a constant learning rate stalls at a distance that grows with it:
/// progress needs a rate that falls. The best constant rate is compared with what a population of
/// the same rates reaches.
#[test]
fn a_population_finds_a_falling_schedule_where_the_best_constant_rate_stalls() {
    // The expected squared distance from the optimum under SGD with noise: each step shrinks it by
    // (1 - rate)^2, and adds the noise of the step.
    let step = |state: [f64; 2], params: &Params| {
        let rate = number(params, "rate");
        let distance = state[0] * (1.0 - rate).powi(2) + rate.powi(2);
        ([distance, 0.0], distance)
    };
    let axis = Distribution::float(1e-3, 1.0, Scale::Log, None).unwrap();
    let rates: Vec<Params> = (0..8)
        .map(|index| axis.from_unit((f64::from(index) + 0.5) / 8.0))
        .map(|rate| [("rate".to_owned(), rate)].into_iter().collect())
        .collect();
    let run = |interval, seed| {
        let training = Training {
            pbt: pbt(8, interval, 200),
            space: Space::new(vec![Dimension::new("rate", axis.clone())]).unwrap(),
            direction: Direction::Minimize,
            seeds: SeedTree::new(seed),
            end: 200,
            step: &step,
        };
        training.run([100.0, 0.0], &rates)
    };
    let constant = best(&run(199, 0), Direction::Minimize);
    for seed in 0..10 {
        let trials = run(5, seed);
        let found = best(&trials, Direction::Minimize);
        assert!(found < constant / 2.0, "{found} of {constant}, seed {seed}");
        let winner = trials
            .iter()
            .min_by_key(|trial| Score::new(Direction::Minimize, trial.last().unwrap().1));
        let find = |number: TrialNumber| trials.get(number.index());
        let stages = schedule(find, winner.unwrap().number, 200);
        let rate = |index: usize| number(&stages[index].params, "rate");
        assert!(rate(0) > 3.0 * rate(stages.len() - 1), "{stages:?}");
    }
}

/// The short-horizon bias of Wu et al. (*Understanding Short-Horizon Bias in Stochastic
/// Meta-Optimization*, 2018): of two directions one is steep and noisy, the other flat. Lower
/// learning rates pay off at once, since they remove the noise, and then the flat direction is
/// never learned. Populations that decide often fall for it and end behind constant rates; with
/// sub-populations that decide more rarely they do not.
#[test]
fn sub_populations_escape_a_greedy_trap_in_which_a_population_falls_behind_constant_rates() {
    const CURVATURES: [f64; 2] = [1.0, 0.02];
    let step = |state: [f64; 2], params: &Params| {
        let rate = number(params, "rate");
        let next = |index: usize| {
            let noise = if index == 0 { rate.powi(2) } else { 0.0 };
            state[index] * (1.0 - rate * CURVATURES[index]).powi(2) + noise
        };
        let state = [next(0), next(1)];
        (state, state[0] * CURVATURES[0] + state[1] * CURVATURES[1])
    };
    let axis = Distribution::float(1e-3, 1.0, Scale::Log, None).unwrap();
    let run = |interval: u64, frequencies: &[u64], seed| {
        let mut rng = SeedTree::new(seed).stream("rates");
        let rates: Vec<Params> = (0..16)
            .map(|_| [("rate".to_owned(), axis.from_unit(rng.random()))].into_iter().collect())
            .collect();
        let spec = spec(16, interval).with("frequencies", frequencies.to_vec());
        let training = Training {
            pbt: Pbt::new(&spec, Some(400)).unwrap(),
            space: Space::new(vec![Dimension::new("rate", axis.clone())]).unwrap(),
            direction: Direction::Minimize,
            seeds: SeedTree::new(seed),
            end: 400,
            step: &step,
        };
        best(&training.run([10.0, 100.0], &rates), Direction::Minimize)
    };
    let mean = |interval, frequencies: &[u64]| {
        (0..10).map(|seed| run(interval, frequencies, seed)).sum::<f64>() / 10.0
    };
    let (greedy, constant) = (mean(2, &[1]), mean(399, &[1]));
    let frequencies = mean(2, &[1, 5, 15, 30]);
    assert!(greedy > 1.5 * constant, "{greedy}, constant {constant}");
    assert!(frequencies < constant, "{frequencies}, constant {constant}");
    assert!(frequencies < greedy / 3.0, "{frequencies}, greedy {greedy}");
}

/// Each step improves the value by how close four parameters are to a point that drifts.
#[test]
fn the_model_explores_better_than_perturbation_where_the_best_parameters_drift() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let step = |state: [f64; 2], params: &Params| {
        let [time, value] = state;
        let distance = |(index, name): (usize, &&str)| {
            let target = 0.5 + 0.35 * (time / 40.0 + index as f64 * 1.7).sin();
            (number(params, name) - target).powi(2)
        };
        let square: f64 = NAMES.iter().enumerate().map(distance).sum();
        let next = [time + 1.0, value - (-4.0 * square).exp()];
        (next, next[1])
    };
    let run = |model: bool, seed| {
        let space = unit_space(&NAMES);
        let mut rng = SeedTree::new(seed).stream("first");
        let first: Vec<Params> = (0..8)
            .map(|_| {
                let place = |name: &&str| ((*name).to_owned(), Value::Float(rng.random()));
                NAMES.iter().map(place).collect()
            })
            .collect();
        let spec = spec(8, 5).with("model", model);
        let training = Training {
            pbt: Pbt::new(&spec, Some(100)).unwrap(),
            space,
            direction: Direction::Minimize,
            seeds: SeedTree::new(seed),
            end: 100,
            step: &step,
        };
        best(&training.run([0.0, 0.0], &first), Direction::Minimize)
    };
    let both: Vec<(f64, f64)> = (0..5).map(|seed| (run(true, seed), run(false, seed))).collect();
    let wins = both.iter().filter(|(model, perturbed)| model < perturbed).count();
    let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / 5.0;
    let (model, perturbed) = (mean(|one| one.0), mean(|one| one.1));
    assert!(model < 1.05 * perturbed && wins >= 4, "{model} and {perturbed}: {both:?}");
}
