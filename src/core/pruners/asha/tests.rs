//! Successive halving against counts by hand, the paper's numbers, and the reference
//! implementation.

use super::*;
use crate::pruners::conformance::{self, judge_at, trial};
use crate::samplers::conformance::{float, space, trial_of};
use crate::study::metric::Direction::Minimize;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::seed::SeedTree;
use crate::study::space::Space;
use crate::study::spec::{HiddenRule, StudySpec};
use crate::study::state::StudyState;
use crate::study::trial::TrialState;
use rand::RngExt as _;

fn asha(spec: AlgorithmSpec, budget: u64) -> Asha {
    Asha::new(&spec, Some(budget)).unwrap()
}

fn promoting(budget: u64) -> Asha {
    asha(ENTRY.defaults().with("mode", "promote"), budget)
}

fn promote(asha: &Asha, trials: &[Trial]) -> Option<Promotion> {
    asha.promote(History::of(trials, Minimize))
}

/// Runs trials on one slot as the engine would, until `count` have started and none can be
/// promoted. `loss(trial, step)` is reported at every step from 1 to `budget`.
fn run(asha: &Asha, count: u64, budget: u64, loss: impl Fn(u64, u64) -> f64) -> (Vec<Trial>, u64) {
    let mut trials: Vec<Trial> = Vec::new();
    let mut steps = 0;
    loop {
        let is_full = trials.len() as u64 == count;
        let conclude = || is_full.then(|| asha.conclude(History::of(&trials, Minimize))).flatten();
        let index = match promote(asha, &trials).or_else(conclude) {
            Some(Promotion { trial, until, .. }) => {
                trials[trial.index()].until = until;
                trial.index()
            }
            None if !is_full => {
                let number = trials.len() as u64;
                let trial = trial_of(number, Params::new(), TrialState::Running, None);
                trials.push(Trial { until: asha.first_rung(TrialNumber(number)), ..trial });
                trials.len() - 1
            }
            None => return (trials, steps),
        };
        trials[index].state = TrialState::Running;
        steps += run_one(asha, &mut trials, index, budget, &loss);
    }
}

fn run_one(
    asha: &Asha,
    trials: &mut [Trial],
    index: usize,
    budget: u64,
    loss: &impl Fn(u64, u64) -> f64,
) -> u64 {
    let begin = trials[index].last().map_or(1, |(step, _)| step + 1);
    for step in begin..=budget {
        let value = loss(index as u64, step);
        trials[index].curve.push((step, value));
        let verdict = judge_at(asha, trials, index, step, Minimize);
        let state = match verdict {
            Decision::Continue(_) if step < budget => continue,
            Decision::Continue(_) => TrialState::Complete,
            Decision::Pause(_) => TrialState::Paused,
            Decision::Stop(_) => TrialState::Pruned,
        };
        trials[index].state = state;
        trials[index].value = (state == TrialState::Complete).then_some(value);
        return step + 1 - begin;
    }
    0
}

fn that_reached(trials: &[Trial], step: u64) -> usize {
    trials.iter().filter(|trial| trial.last().is_some_and(|(last, _)| last >= step)).count()
}

#[test]
fn every_mode_holds_the_contract() {
    let spec = || ENTRY.defaults();
    for spec in [
        spec().with("mode", "promote"),
        spec().with("brackets", 3),
        spec().with("brackets", 2).with("mode", "promote").with("reduction_factor", 2),
        spec().with("rank_by", "end"),
        spec().with("rank_by", "forecast").with("brackets", 2),
        spec().with("rung_factor", 2).with("reduction_factor", 4),
    ] {
        assert_eq!(conformance::check(&ENTRY, &spec), Ok(()));
    }
}

/// Rung 1 of the ladder eta 3, r 1, R 9, by hand: the first two always continue; then one of three
/// may.
#[test]
fn stopping_follows_the_ranks_of_arrival() {
    let losses = [5.0, 6.0, 4.0, 7.0, 3.0, 8.0, 2.0, 9.0, 1.0, 2.5];
    let asha = asha(ENTRY.defaults(), 9);
    let mut trials: Vec<Trial> = Vec::new();
    let mut words = Vec::new();
    for (number, loss) in (0..).zip(losses) {
        trials.push(trial(number, TrialState::Running, &[(1, loss)]));
        let last = trials.len() - 1;
        words.push(judge_at(&asha, &trials, last, 1, Minimize));
    }
    let expected = [
        "continue", "continue", "continue", "stop", "continue", "stop", "continue", "stop",
        "continue", "continue",
    ];
    assert_eq!(words.iter().map(Decision::word).collect::<Vec<_>>(), expected);
    assert_eq!(words[5].in_words(), "stop: rank 6 of 6 at step 1; 2 continue");
    assert_eq!(words[0].in_words(), "continue: rank 1 of 1 at step 1; the first 2 continue");
}

#[test]
fn rungs_may_lie_closer_than_the_reduction() {
    let asha = asha(ENTRY.defaults().with("min_resource", 2).with("rung_factor", 2), 30);
    assert_eq!(asha.milestones(Some(30)).at, [2, 4, 8, 16]);
    let (trials, _) = run(&asha, 81, 30, |trial, _| trial as f64);
    // The first two continue at every rung, and no later trial is better.
    assert_eq!(that_reached(&trials, 30), 2);
    let (trials, _) = run(&asha, 81, 30, |trial, _| -(trial as f64));
    assert_eq!(that_reached(&trials, 30), 81);
}

#[test]
fn reports_between_rungs_and_past_the_last_decide_nothing() {
    let asha = asha(ENTRY.defaults(), 9);
    let curve: Vec<(u64, f64)> = (1..=9).map(|step| (step, 1.0)).collect();
    let trials = [trial(0, TrialState::Running, &curve)];
    let judges = |step: &u64| judge_at(&asha, &trials, 0, *step, Minimize) != Decision::CONTINUE;
    let judged: Vec<u64> = (1..=9).filter(judges).collect();
    assert_eq!(judged, [1, 3]);
}

#[test]
fn a_report_that_skips_rungs_counts_at_each_and_is_judged_at_the_highest() {
    let asha = asha(ENTRY.defaults(), 81);
    let mut trials: Vec<Trial> =
        (0..6).map(|number| trial(number, TrialState::Failed, &[(1, 0.0), (3, 0.5)])).collect();
    trials.push(trial(6, TrialState::Running, &[(4, 0.4)]));
    let judge = |trials: &[Trial]| judge_at(&asha, trials, 6, 4, Minimize);
    assert_eq!(judge(&trials).in_words(), "continue: rank 1 of 7 at step 4; 2 continue");
    trials[6].curve = vec![(4, 0.6)];
    assert_eq!(judge(&trials).word(), "stop");
}

#[test]
fn a_rung_that_was_judged_is_not_judged_again_at_another_step() {
    let asha = promoting(9);
    let decision = crate::study::trial::DecisionAtStep {
        step: 5,
        verdict: Decision::Pause(Reason::Recorded("rung 3".to_owned())),
    };
    let reported = trial(0, TrialState::Running, &[(4, 0.1), (5, 0.1)]);
    let trials = [Trial { decisions: vec![decision], ..reported }];
    assert_eq!(judge_at(&asha, &trials, 0, 4, Minimize), Decision::CONTINUE);
}

/// The paper's bracket s = 0 of eta 3, r 1, R 9: 9 trials for 1 step, 3 for 3, 1 for 9.
#[test]
fn promotion_from_full_rungs_gives_the_counts_of_successive_halving() {
    let asha = promoting(9);
    let quality = [4.0, 7.0, 1.0, 8.0, 2.0, 9.0, 3.0, 5.0, 6.0];
    let mut trials: Vec<Trial> = (0..)
        .zip(quality)
        .map(|(number, loss)| trial(number, TrialState::Paused, &[(1, loss)]))
        .collect();
    let mut promoted = Vec::new();
    while let Some(Promotion { trial, until, .. }) = promote(&asha, &trials) {
        promoted.push((trial.0, until));
        let trial = &mut trials[trial.index()];
        trial.state = if until.is_some() { TrialState::Paused } else { TrialState::Complete };
        trial.until = until;
        trial.curve.push((until.unwrap_or(9), quality[trial.number.index()]));
    }
    assert_eq!(promoted, [(2, Some(3)), (4, Some(3)), (6, Some(3)), (2, None)]);
    assert_eq!([1, 3, 9].map(|step| that_reached(&trials, step)), [9, 3, 1]);
}

#[test]
fn one_slot_with_the_best_trials_first_promotes_a_third_of_each_rung() {
    let (trials, _) = run(&promoting(81), 81, 81, |trial, _| trial as f64);
    let reached = [1, 3, 9, 27, 81].map(|rung| that_reached(&trials, rung));
    assert_eq!(reached, [81, 27, 9, 3, 1]);
}

#[test]
fn nan_is_stopped_and_never_promoted() {
    let (trials, _) = run(&promoting(9), 30, 9, |_, _| f64::NAN);
    assert!(trials.iter().all(|trial| trial.state == TrialState::Pruned && trial.curve.len() == 1));
    let (trials, _) = run(&asha(ENTRY.defaults(), 9), 1, 9, |_, _| f64::NAN);
    assert_eq!(trials[0].state, TrialState::Pruned);
}

#[test]
fn too_few_trials_for_the_ladder_conclude_with_the_best_at_the_highest_rung() {
    let (trials, _) = run(&promoting(81), 12, 81, |trial, _| trial as f64);
    assert_eq!([1, 3, 9].map(|rung| that_reached(&trials, rung)), [12, 4, 1]);
    let complete = |number: &usize| trials[*number].state == TrialState::Complete;
    assert_eq!((0..12).filter(complete).collect::<Vec<_>>(), [0]);
}

#[test]
fn a_hidden_trial_is_no_complete_one_with_which_a_search_may_end() {
    let asha = promoting(9);
    let mut trials = vec![
        trial_of(0, Params::new(), TrialState::Complete, Some(0.1)),
        trial(1, TrialState::Paused, &[(1, 0.3)]),
    ];
    let spec = StudySpec::new("s", "loss", Minimize, Space::default(), Program::Inline);
    let concluded = |trials: &[Trial], hidden_rule: HiddenRule| {
        let mut state = StudyState::new(&StudySpec { hidden_rule, ..spec.clone() });
        state.trials = trials.to_vec();
        asha.conclude(History::new(&state)).map(|promotion| promotion.trial)
    };
    assert_eq!(concluded(&trials, spec.hidden_rule), None);
    trials[0].hidden = true;
    assert_eq!(concluded(&trials, spec.hidden_rule), Some(TrialNumber(1)));
    assert_eq!(concluded(&trials, HiddenRule::LeftOut), None, "as stored studies have it");
}

#[test]
fn a_trial_paused_on_its_way_to_a_rung_is_left_to_the_user() {
    let asha = promoting(9);
    let paused = |number, curve: &[(u64, f64)], until| Trial {
        curve: curve.to_vec(),
        until,
        ..trial_of(number, Params::new(), TrialState::Paused, None)
    };
    let mut trials = vec![
        paused(0, &[(1, 0.1), (2, 0.1)], Some(3)),
        paused(1, &[(1, 0.2)], Some(1)),
        paused(2, &[(1, 0.3)], Some(1)),
    ];
    assert_eq!(promote(&asha, &trials), None);
    trials[0].until = Some(1);
    let resumed = promote(&asha, &trials).map(|promotion| (promotion.trial, promotion.until));
    assert_eq!(resumed, Some((TrialNumber(0), Some(3))));
}

#[test]
fn the_rank_of_a_pause_is_the_one_that_is_promoted_by() {
    let trials: Vec<Trial> =
        (0..3).map(|number| trial(number, TrialState::Paused, &[(1, 0.5)])).collect();
    let ranks = |version| {
        let asha = asha(AlgorithmSpec { version, ..ENTRY.defaults().with("mode", "promote") }, 9);
        let rank = |index| match judge_at(&asha, &trials, index, 1, Minimize) {
            Decision::Pause(Reason::Rung { rank, .. }) => rank,
            other => panic!("{other:?}"),
        };
        [0, 1, 2].map(rank)
    };
    assert_eq!(ranks(TIES_BY_NUMBER_SINCE), [1, 2, 3]);
    assert_eq!(ranks(MEDIAN_SINCE), [1, 1, 1], "as stored studies have it");
}

/// Learning curves that start alike, end differently and cross now and then.
fn curve(seed: u64) -> impl Fn(u64, u64) -> f64 {
    move |trial, step| {
        let mut rng = SeedTree::new(seed).stream(&format!("curve/{trial}"));
        let (end, speed): (f64, f64) = (rng.random(), rng.random());
        let noise: f64 = SeedTree::new(seed).stream(&format!("noise/{trial}/{step}")).random();
        end + (2.0 - end) * (-(step as f64) * (0.1 + 0.4 * speed)).exp() + 0.02 * (noise - 0.5)
    }
}

fn best(trials: &[Trial]) -> f64 {
    trials.iter().filter_map(|trial| trial.value).fold(f64::INFINITY, f64::min)
}

#[test]
fn less_than_half_of_the_steps_find_nearly_the_same_winner() {
    for seed in 0..5 {
        let never = ENTRY.defaults().with("min_resource", 100).with("max_resource", 101);
        let everything = best(&run(&asha(never, 1000), 60, 81, curve(seed)).0);
        for mode in ["stop", "promote"] {
            let (trials, steps) =
                run(&asha(ENTRY.defaults().with("mode", mode), 81), 60, 81, curve(seed));
            assert!(steps * 2 < 60 * 81, "{mode}, seed {seed}: {steps} steps");
            let found = best(&trials);
            assert!(found <= everything + 0.05, "{mode}, seed {seed}: {found}, not {everything}");
        }
    }
}

#[test]
fn brackets_share_trials_as_hyperband_does_and_begin_at_later_rungs() {
    let asha = asha(ENTRY.defaults().with("brackets", 3).with("mode", "promote"), 27);
    let mut counts = [0u64; 3];
    for number in 0..1000 {
        let bracket = asha.bracket(TrialNumber(number));
        counts[bracket] += 1;
        assert_eq!(asha.first_rung(TrialNumber(number)), Some([1, 3, 9][bracket]));
    }
    // Weights 4/4, 4/(3 * 3), 4/(2 * 9).
    assert_eq!(counts, [600, 266, 134]);
    assert_eq!(asha.milestones(Some(27)).at, [1, 3, 9]);
    assert_eq!(asha.milestones(Some(9)).at, [1, 3]);
}

#[test]
fn numbers_that_leave_no_rung_are_refused_if_they_are_the_users_own() {
    assert!(Asha::new(&ENTRY.defaults(), Some(1)).is_ok());
    let problem = Asha::new(&ENTRY.defaults().with("min_resource", 10), Some(10)).unwrap_err();
    assert!(problem.to_string().contains("not below a full trial's `10`"), "{problem}");
    assert!(Asha::new(&ENTRY.defaults().with("brackets", 4), Some(27)).is_err());
    assert!(Asha::new(&ENTRY.defaults(), None).unwrap().milestones(None).at.len() == 41);
}

/// Values at the first rung are noise; final losses follow the parameter.
#[test]
fn trials_are_ranked_by_final_values_forecast_from_others() {
    let space = space([float("x", 0.0, 1.0)]);
    let trial = |number: u64, place: f64, curve: Vec<(u64, f64)>, state: TrialState| {
        let mut params = Params::new();
        params.insert("x", place);
        let value = curve.iter().find(|(step, _)| *step == 9).map(|(_, value)| *value);
        Trial { curve, ..trial_of(number, params, state, value) }
    };
    let noise = |number: u64| (number as f64 * 0.755).fract();
    let mut trials: Vec<Trial> = (0..40)
        .map(|number| {
            let place = (number as f64 * 0.618).fract();
            let (first, end) = ((1, 2.0 + noise(number)), (9, place));
            if number % 2 == 0 {
                trial(number, place, vec![first, end], TrialState::Complete)
            } else {
                trial(number, place, vec![first], TrialState::Pruned)
            }
        })
        .collect();
    let mut word = |rule: &Asha, place: f64, value: f64| {
        trials.truncate(40);
        trials.push(trial(40, place, vec![(1, value)], TrialState::Running));
        let history = History::of(&trials, Minimize);
        rule.judge(&Case {
            space: &space,
            history,
            trial: &trials[40],
            step: 1,
            restart: Restart::Unknown,
        })
    };
    let (by_end, by_value) =
        (asha(ENTRY.defaults().with("rank_by", "forecast"), 9), asha(ENTRY.defaults(), 9));
    assert_eq!(
        [word(&by_value, 0.05, 2.7).word(), word(&by_value, 0.95, 2.1).word()],
        ["stop", "continue"]
    );
    assert_eq!(
        [word(&by_end, 0.05, 2.7).word(), word(&by_end, 0.95, 2.1).word()],
        ["continue", "stop"]
    );
    let mut reason = |version: u32| {
        let spec = AlgorithmSpec { version, ..ENTRY.defaults().with("rank_by", "forecast") };
        word(&asha(spec, 9), 0.05, 2.7).in_words()
    };
    let ranked = "of 41 at step 1, by final values forecast from 20 that continued";
    let stored = reason(FORECAST_IN_REASON_SINCE - 1);
    assert!(stored.ends_with(&format!("{ranked}; 13 continue")), "{stored}");
    // The end is the place, .05, and that of the 13th of 41 places is .3.
    let now = reason(FORECAST_IN_REASON_SINCE);
    assert!(
        now.ends_with(&format!("{ranked}: 0.057 +- 0.096 against 0.253; 13 continue")),
        "{now}"
    );
    // A non-finite loss is ranked by itself.
    assert_eq!(word(&by_end, 0.05, f64::INFINITY).word(), "stop");
}

#[test]
fn final_values_are_not_forecast_from_hidden_trials() {
    let space = space([float("x", 0.0, 1.0)]);
    let complete = |number: u64, first: f64, end: f64| {
        let mut params = Params::new();
        params.insert("x", 0.5);
        let curve = vec![(1, first), (9, end)];
        Trial { curve, ..trial_of(number, params, TrialState::Complete, Some(end)) }
    };
    // Low values first lead to high ones at the end; bogus trials have it the other way round.
    let mut trials: Vec<Trial> =
        (0..20).map(|number| complete(number, number as f64, -(number as f64))).collect();
    trials.extend((20..80).map(|number| {
        let place = (number - 20) as f64 / 3.0;
        Trial { hidden: true, ..complete(number, place, 9.0 * place) }
    }));
    trials.push(Trial {
        curve: vec![(1, 18.5)],
        ..trial_of(80, trials[0].params.clone(), TrialState::Running, None)
    });
    let rule = asha(ENTRY.defaults().with("rank_by", "forecast"), 9);
    let mut judge = |are_hidden: bool| {
        trials[20..80].iter_mut().for_each(|trial| trial.hidden = are_hidden);
        let history = History::of(&trials, Minimize);
        rule.judge(&Case {
            space: &space,
            history,
            trial: &trials[80],
            step: 1,
            restart: Restart::Unknown,
        })
    };
    let words = judge(true).in_words();
    assert!(words.contains("continue") && words.contains("from 20 that continued"), "{words}");
    assert_eq!(judge(false).word(), "stop");
}

#[test]
fn ends_cannot_be_forecast_where_all_trials_wait() {
    let spec = ENTRY.defaults().with("rank_by", "end").with("mode", "promote");
    let problem = Asha::new(&spec, Some(9)).unwrap_err();
    assert!(problem.to_string().contains("remove one of the two"), "{problem}");
}

/// Trials of two losses with one report at step 1.
fn of_two(losses: &[[f64; 2]], state: TrialState) -> Vec<Trial> {
    let trial = |(number, losses): (u64, &[f64; 2])| Trial {
        vectors: vec![(1, losses.map(Some).to_vec())],
        ..trial(number, state, &[(1, losses[0])])
    };
    (0..).zip(losses).map(trial).collect()
}

#[test]
fn with_two_objectives_a_rung_ranks_by_domination_and_a_paused_trial_resumes_when_the_front_moves()
{
    let two = [Minimize; 2];
    let spec = ENTRY.defaults().with("mode", "promote");
    let asha = Asha::new(&spec, Some(9)).unwrap();
    let promoted = |trials: &[Trial]| {
        let promotion = asha.promote(History::of_several(trials, &two));
        promotion.map(|promotion| (promotion.trial.0, promotion.reason.to_string()))
    };
    // By the first objective alone, 1 would be the best; 3 is dominated.
    let mut trials = of_two(&[[0.5, 0.5], [0.0, 1.0], [1.0, 0.1], [0.6, 0.6]], TrialState::Paused);
    let best = (0, "rank 1 of 4 at rung 1; 1 continues to step 3".to_owned());
    assert_eq!(promoted(&trials), Some(best));
    trials[0].state = TrialState::Running;
    trials[0].until = Some(3);
    assert_eq!(promoted(&trials), None);
    // Two more, worse than all others: another may continue, one end of the front or the other.
    trials.extend(of_two(&[[2.0, 2.0]; 6], TrialState::Paused).into_iter().skip(4));
    let second = (2, "rank 2 of 6 at rung 1; 2 continue to step 3".to_owned());
    assert_eq!(promoted(&trials), Some(second));
}

#[test]
fn with_two_objectives_the_trials_that_no_other_dominates_go_on_first() {
    let two = [Minimize; 2];
    let asha = Asha::new(&ENTRY.defaults(), Some(9)).unwrap();
    let others = [[0.1, 0.9], [0.9, 0.1], [0.8, 0.8], [0.7, 0.9], [0.9, 0.9]];
    let decided = |own: [f64; 2]| {
        let trials = of_two(&[&others[..], &[own]].concat(), TrialState::Running);
        let (space, history) = (&Space::default(), History::of_several(&trials, &two));
        let decision = asha.judge(&Case {
            space,
            history,
            trial: &trials[5],
            step: 1,
            restart: Restart::Unknown,
        });
        decision.in_words()
    };
    assert_eq!(decided([0.3, 0.3]), "continue: rank 1 of 6 at step 1; 2 continue");
    assert_eq!(decided([0.85, 0.85]), "stop: rank 5 of 6 at step 1; 2 continue");
    assert_eq!(decided([f64::NAN, f64::NAN]), "stop: the value at step 1 is NaN");
}

/// Trials that arrive one after the other at the first rung; each lies on one falling line, so that
/// all are on the front. Whether each continues.
fn arrivals_on_a_front(spec: &AlgorithmSpec, seed: u64) -> Vec<bool> {
    let asha = Asha::new(spec, Some(9)).unwrap();
    let (mut losses, mut continues) = (Vec::new(), Vec::new());
    let mut rng = SeedTree::new(seed).stream("arrivals");
    for number in 0..60 {
        let place: f64 = rng.random_range(0.0..1.0);
        losses.push([place, 1.0 - place]);
        let trials = of_two(&losses, TrialState::Running);
        let (space, history) = (&Space::default(), History::of_several(&trials, &[Minimize; 2]));
        let decision = asha.judge(&Case {
            space,
            history,
            trial: &trials[number],
            step: 1,
            restart: Restart::Unknown,
        });
        continues.push(matches!(decision, Decision::Continue(_)));
    }
    continues
}

#[test]
fn newcomers_on_the_front_continue_as_often_as_those_before_them() {
    let share = |spec: &AlgorithmSpec| {
        let later: Vec<bool> = (0..8).flat_map(|seed| arrivals_on_a_front(spec, seed)).collect();
        later.iter().filter(|continues| **continues).count() as f64 / later.len() as f64
    };
    // One in three would, if which one came last said nothing.
    let (now, before) =
        (share(&ENTRY.defaults()), share(&AlgorithmSpec { version: 5, ..ENTRY.defaults() }));
    assert!((0.27..0.42).contains(&now), "{now}");
    assert!(before < 0.2, "stored studies keep their rule: {before}");
}

/// The first objective is known from step 0 on, the second from step 2.
#[test]
fn a_trial_is_ranked_once_all_of_its_objectives_are_known() {
    let spec = ENTRY.defaults().with("reduction_factor", 2);
    let of = |(number, losses): (u64, &[f64; 2])| Trial {
        vectors: vec![
            (0, vec![Some(losses[0]), None]),
            (2, vec![None, Some(losses[1])]),
            (3, vec![None, Some(losses[1])]),
        ],
        ..trial(number, TrialState::Running, &[(0, losses[0])])
    };
    let losses = [[0.1, 0.9], [0.2, 0.2], [0.9, 0.1], [0.95, 0.95]];
    let mut trials: Vec<Trial> = (0..).zip(&losses).map(of).collect();
    let decide = |trials: &[Trial], version: u32, step: u64| {
        let asha = Asha::new(&AlgorithmSpec { version, ..spec.clone() }, Some(9)).unwrap();
        let (space, history) = (&Space::default(), History::of_several(trials, &[Minimize; 2]));
        asha.judge(&Case { space, history, trial: &trials[3], step, restart: Restart::Unknown })
            .in_words()
    };
    assert_eq!(decide(&trials, 6, 2), "stop: rank 4 of 4 at step 2; 2 continue");
    assert_eq!(decide(&trials, 6, 3), "continue", "it was judged at step 2");
    // Steps of other objectives are no rungs.
    trials[3].vectors.insert(1, (1, vec![Some(0.95), None]));
    assert_eq!(decide(&trials, 6, 1), "continue");
    assert_eq!(decide(&trials, 6, 2), "stop: rank 4 of 4 at step 2; 2 continue");
    assert!(decide(&trials, 5, 1).starts_with("stop"), "stored studies keep their rule");
}

/// Decisions on trials that reach rung 1 one after the other with these losses, each in words.
fn arrivals(spec: &AlgorithmSpec, restart: Restart, losses: &[f64]) -> Vec<String> {
    let asha = Asha::new(spec, Some(9)).unwrap();
    let mut trials: Vec<Trial> = Vec::new();
    let decide = |(number, loss): (u64, &f64)| {
        trials.push(trial(number, TrialState::Running, &[(1, *loss)]));
        let (space, history) = (&Space::default(), History::of(&trials, Minimize));
        let trial = &trials[trials.len() - 1];
        asha.judge(&Case { space, history, trial, step: 1, restart }).in_words()
    };
    (0..).zip(losses).map(decide).collect()
}

/// Rungs 1 and 3: there are two steps between.
#[test]
fn a_trial_that_would_be_resumed_at_once_is_not_paused_where_starting_again_takes_time() {
    let spec = ENTRY.defaults().with("mode", "promote");
    let losses = [3.0, 2.0, 1.0, 4.0];
    let free = arrivals(&spec, Restart::Unknown, &losses);
    assert_eq!(free[2], "pause: rung 1 reached with rank 1 of 3; the best one continues");
    let takes = |restart: i64| Restart::Takes { restart, step: 1_000_000 };
    for cheap in [0, 199_999] {
        assert_eq!(arrivals(&spec, takes(cheap), &losses), free);
    }
    let dear = arrivals(&spec, takes(200_000), &losses);
    assert_eq!(
        dear[2],
        "continue: rank 1 of 3 at rung 1; 1 continues; not paused: it would take 0.2s to start \
         again, and 2s to train to step 3"
    );
    assert_eq!([&dear[..2], &dear[3..]], [&free[..2], &free[3..]], "the others pause");
    let older = AlgorithmSpec { version: 6, ..spec };
    assert_eq!(arrivals(&older, takes(1_000_000_000), &losses), free, "stored studies keep theirs");
}

#[test]
fn no_trial_is_paused_where_starting_again_takes_much_longer_than_training_to_the_next_rung() {
    let spec = ENTRY.defaults().with("mode", "promote");
    let words = |restart: i64| {
        let restart = Restart::Takes { restart, step: 1_000_000 };
        arrivals(&spec, restart, &[3.0, 2.0, 1.0, 4.0])
    };
    let paused = words(9_999_999);
    assert_eq!(paused[3], "pause: rung 1 reached with rank 4 of 4; the best one continues");
    let words = words(10_000_000);
    assert_eq!(
        words[0],
        "continue: rank 1 of 1 at rung 1; too few to promote one; not paused: it would take 10s to \
         start again, and 2s to train to step 3"
    );
    assert_eq!(
        words[3],
        "continue: rank 4 of 4 at rung 1; 1 continues; not paused: it would take 10s to start \
         again, and 2s to train to step 3"
    );
}

#[test]
fn trials_that_would_start_over_are_judged_for_good() {
    let (spec, losses) = (ENTRY.defaults(), [5.0, 6.0, 4.0, 7.0, 3.0, 8.0]);
    let promoting = spec.clone().with("mode", "promote");
    let words = arrivals(&promoting, Restart::StartsOver, &losses);
    let stopping = arrivals(&spec, Restart::Unknown, &losses);
    let verdict = |words: &String| words.split(':').next().map(str::to_owned);
    let verdicts = |words: &[String]| words.iter().map(verdict).collect::<Vec<_>>();
    assert_eq!(verdicts(&words), verdicts(&stopping));
    assert_eq!(words[5], stopping[5]);
    assert_eq!(
        words[0],
        "continue: rank 1 of 1 at rung 1; the first 2 continue; not paused: its program saves no \
         checkpoints, and it would start over"
    );
}

#[test]
fn the_last_rung_is_as_far_from_the_end_as_it_is_and_a_trial_without_an_end_pauses() {
    let spec = ENTRY.defaults().with("mode", "promote").with("min_resource", 4);
    let restart = Restart::Takes { restart: 10_000_000, step: 1_000_000 };
    let decide = |budget: Option<u64>| {
        let asha = Asha { rungs: vec![4], ..Asha::new(&spec, budget).unwrap() };
        let trials = [trial(0, TrialState::Running, &[(4, 1.0)])];
        let (space, history) = (&Space::default(), History::of(&trials, Minimize));
        asha.judge(&Case { space, history, trial: &trials[0], step: 4, restart })
    };
    assert_eq!(decide(Some(6)).moved_pause(), Some(None));
    assert_eq!(decide(Some(7)).moved_pause(), None, "three steps are worth a pause");
    assert_eq!(decide(None).word(), "pause");
}

#[test]
fn a_trial_that_would_start_over_is_not_stopped_before_all_of_its_objectives_are_known() {
    let asha = Asha::new(&ENTRY.defaults().with("mode", "promote"), Some(9)).unwrap();
    let others = [[0.1, 0.9], [0.9, 0.1], [0.8, 0.8], [0.7, 0.9], [0.9, 0.9]];
    let decide = |second: Option<f64>| {
        let mut trials = of_two(&[&others[..], &[[0.95, 0.95]]].concat(), TrialState::Running);
        trials[5].vectors = vec![(1, vec![Some(0.95), second])];
        let (space, history) = (&Space::default(), History::of_several(&trials, &[Minimize; 2]));
        let restart = Restart::StartsOver;
        asha.judge(&Case { space, history, trial: &trials[5], step: 1, restart }).word()
    };
    assert_eq!([decide(Some(0.95)), decide(None)], ["stop", "continue"]);
}
