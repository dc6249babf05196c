//! Goals of several objectives: the first state that reaches one ends the search, whatever is
//! paused, and whenever the run is killed; what cannot be measured is said.

use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::{Simulation, SimulationResult, Turn};
use hpsearch::study::event::{Event, ProposalEvent, StateEvent, StudyEvent, TrialEvent};
use hpsearch::study::front;
use hpsearch::study::goal::Goal;
use hpsearch::study::metric::Direction;
use hpsearch::study::params::Params;
use hpsearch::study::request::Request;
use hpsearch::study::spec::{AlgorithmSpec, Objective, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::{Origin, Trial, TrialNumber, TrialState};
use serde_json::Value as Json;

use crate::harness::{
    Browser, Site, asha, assert_done, assert_names, assert_refused, cases, decisions, journal,
    loss, number, spec, verified, wait_until,
};
use crate::several_objectives::study;

const STEPS: u64 = 9;
/// The worst values of interest: of the loss, and of the size.
const WORST: [f64; 2] = [3.0, 0.0];
const TARGET: f64 = 16.5;
const PATIENCE: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Target,
    Patience,
}

const BOTH: [Wanted; 2] = [Wanted::Target, Wanted::Patience];

/// A study of two objectives that ends by a goal.
fn study_with(goal: Wanted, pruner: AlgorithmSpec) -> StudySpec {
    let mut spec = spec(300, "random", pruner);
    spec.objectives[0].threshold = Some(WORST[0]);
    let size = Objective::new("size", Direction::Maximize);
    spec.objectives.push(Objective { threshold: Some(WORST[1]), ..size });
    match goal {
        Wanted::Target => spec.budget.target = Some(TARGET),
        Wanted::Patience => spec.budget.patience = Some(PATIENCE),
    }
    spec
}

/// Paused trials count for no patience, and most of those that are promoted join the front.
fn ends(goal: Wanted, pruner: &AlgorithmSpec) -> bool {
    goal == Wanted::Target || *pruner != asha("promote")
}

fn simulation(spec: StudySpec, slots: usize, pattern: u64) -> Simulation {
    let mut simulation = Simulation::new(spec, slots, STEPS, loss);
    simulation.others = Box::new(|params, _| number(params, "layers") + number(params, "rate"));
    simulation.pace = Box::new(move |params: &Params| {
        1.0 + (number(params, "rate") * 1e4 + pattern as f64 * 0.37).fract() * 3.0
    });
    simulation
}

/// Values of complete trials, by number.
type Values = Vec<(u64, [f64; 2])>;

fn complete(state: &StudyState) -> Values {
    let complete = state.trials.iter().filter(|trial| trial.state == TrialState::Complete);
    complete.map(|trial| (trial.number.0, [trial.values[0], trial.values[1]])).collect()
}

fn on_front(values: &Values) -> Values {
    let dominates =
        |one: &[f64; 2], other: &[f64; 2]| one[0] <= other[0] && one[1] >= other[1] && one != other;
    let is_on = |(_, own): &&(u64, [f64; 2])| !values.iter().any(|(_, one)| dominates(one, own));
    values.iter().filter(is_on).copied().collect()
}

/// The area of the union of the boxes between the values and the worst ones.
fn volume(values: &Values) -> f64 {
    let mut inside: Values = on_front(values)
        .into_iter()
        .filter(|(_, [loss, size])| *loss < WORST[0] && *size > WORST[1])
        .collect();
    inside.sort_by(|(_, one), (_, other)| one[0].total_cmp(&other[0]));
    let mut high = WORST[1];
    let strip = |(_, [loss, size]): (u64, [f64; 2])| {
        let area = (WORST[0] - loss) * (size - high).max(0.0);
        high = high.max(size);
        area
    };
    inside.into_iter().map(strip).sum()
}

/// The number of ended trials after the last one that is on the front, in the order of `ended`.
fn since_the_last_on_the_front(values: &Values, ended: &[u64]) -> u64 {
    let front = on_front(values);
    let is_on = |number: &u64| front.iter().any(|(other, _)| other == number);
    ended.iter().rev().position(is_on).map_or(0, |after| after as u64)
}

fn is_reached(goal: Wanted, values: &Values, ended: &[u64]) -> bool {
    match goal {
        Wanted::Target => volume(values) >= TARGET,
        Wanted::Patience => since_the_last_on_the_front(values, ended) >= PATIENCE,
    }
}

/// The search ends as soon as its goal is reached, and for no other reason.
fn assert_ends_by(goal: Wanted, spec: &StudySpec, run: &SimulationResult) {
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{goal:?}: {:?}", run.outcome);
    let (mut state, mut ended, mut reached) = (StudyState::new(spec), Vec::new(), false);
    // Trials that were running then may still join the front.
    let (mut end, mut reaching) = (None, Vec::new());
    for turn in &run.turns {
        for event in &turn.events {
            if let Event::Trial(
                trial,
                TrialEvent::Proposal(ProposalEvent::TrialCreated { origin, .. }),
            ) = event
            {
                let is_asked = *origin == Origin::Asked;
                assert!(!reached || is_asked, "{goal:?}: trial {trial} is created after the goal");
            }
            if let Event::Study(StudyEvent::Finished { goal, .. }) = event {
                end = goal.clone();
            }
            state.apply(turn.at, event);
            // Those that were never promoted are pruned by the end of the study.
            if let Event::Trial(
                trial,
                TrialEvent::State(StateEvent::Finished { state: ended_as, reason, .. }),
            ) = event
                && matches!(ended_as, TrialState::Complete | TrialState::Pruned)
                && !reason.as_ref().is_some_and(|reason| reason.starts_with("never promoted"))
            {
                ended.push(trial.0);
                let values = complete(&state);
                reached = is_reached(goal, &values, &ended);
                if reached {
                    reaching.push(values);
                }
            }
        }
    }
    assert!(!reaching.is_empty(), "{goal:?}: it ended before: {:?}", run.outcome);
    let numbers = |values: &Values| -> Vec<u64> {
        on_front(values).iter().map(|(number, _)| *number).collect()
    };
    let end = end.unwrap_or_else(|| panic!("{goal:?}: no goal is named: {:?}", run.outcome));
    match (*end, goal) {
        (Goal::Hypervolume { front, hypervolume, reference, target }, Wanted::Target) => {
            let front: Vec<u64> = front.iter().map(|trial| trial.0).collect();
            let is_it = |values: &Values| {
                numbers(values) == front && (volume(values) - hypervolume).abs() < 1e-9
            };
            assert!(reaching.iter().any(is_it), "{front:?}, {hypervolume}");
            assert_eq!((reference.as_slice(), target), (&WORST[..], TARGET));
        }
        (Goal::FrontPatience { trial, .. }, Wanted::Patience) => {
            assert!(reaching.iter().any(|values| numbers(values).contains(&trial.0)));
        }
        (other, _) => panic!("{other}"),
    }
    let verified = verified(spec, &journal(run));
    assert_eq!(verified.difference, None, "{goal:?}");
    assert!(verified.ends >= 1);
}

#[test]
fn the_first_front_that_reaches_a_goal_ends_the_search_with_any_number_of_slots() {
    for goal in BOTH {
        for (slots, pruner) in [
            (1, AlgorithmSpec::named("none")),
            (3, AlgorithmSpec::named("none")),
            (2, asha("stop")),
            (4, asha("promote")),
        ] {
            if !ends(goal, &pruner) {
                continue;
            }
            let study = study_with(goal, pruner);
            let run = simulation(study.clone(), slots, 1).run(&[]).unwrap();
            assert!(run.state.trials.len() >= 4, "{goal:?}: {}", run.state.trials.len());
            assert_ends_by(goal, &study, &run);
        }
    }
}

/// Trials on hold neither count nor keep the search from its goal; they stay on hold.
#[test]
fn trials_on_hold_and_paused_studies_do_not_change_what_reaches_a_goal() {
    for goal in BOTH {
        for pattern in 0..cases(12, 300) {
            let trial = TrialNumber(1 + pattern % 5);
            let requests = vec![
                (3 + pattern, Request::PauseTrial { trial }),
                (8 + pattern, Request::PauseStudy),
                (8 + pattern, Request::ResumeStudy),
            ];
            let resumed = (20 + pattern, Request::ResumeTrial { trial });
            let is_resumed = pattern % 2 == 0;
            let study = study_with(goal, AlgorithmSpec::named("none"));
            let mut simulation = simulation(study.clone(), 1 + (pattern % 3) as usize, pattern);
            simulation.requests =
                requests.into_iter().chain(is_resumed.then_some(resumed)).collect();
            let run = simulation.run(&[]).unwrap();
            assert_ends_by(goal, &study, &run);
            let is_held = |trial: &Trial| trial.state == TrialState::Paused && trial.hold.is_some();
            let held = run.state.trials.iter().filter(|trial| is_held(trial)).count();
            assert!(held <= usize::from(!is_resumed), "{goal:?}, {pattern}: {held} on hold");
        }
    }
}

/// Killed at any turn, the study ends with the same trials by the same goal.
#[test]
fn a_run_that_is_killed_at_any_turn_ends_by_the_goal_of_one_that_was_not() {
    for goal in BOTH {
        for (slots, deterministic) in [(1, false), (3, true)] {
            let study =
                || StudySpec { deterministic, ..study_with(goal, AlgorithmSpec::named("none")) };
            let whole = simulation(study(), slots, 1).run(&[]).unwrap();
            let step = cases(7, 1);
            for upto in (0..whole.turns.len()).step_by(step) {
                let resumed = simulation(study(), slots, 2).run(&whole.turns[..upto]).unwrap();
                let of =
                    |run: &SimulationResult| (decisions(&run.state), run.state.finished.clone());
                assert_eq!(of(&resumed), of(&whole), "{goal:?}, {slots} slots, turn {upto}");
                let verified = verified(&study(), &journal(&resumed));
                assert_eq!(verified.difference, None, "{goal:?}, {slots} slots, turn {upto}");
            }
        }
    }
}

/// With several slots and no fixed order the trials may be others, but not what ends them.
#[test]
fn runs_that_are_killed_again_and_again_end_by_their_goal_and_keep_the_best() {
    for goal in BOTH {
        for pattern in 0..cases(10, 200) {
            let pruner = asha(["stop", "promote"][(pattern % 2) as usize]);
            if !ends(goal, &pruner) {
                continue;
            }
            let mut study = study_with(goal, pruner);
            study.checkpoints.keep_best = Some(2);
            let slots = 1 + (pattern % 4) as usize;
            let mut turns: Vec<Turn> = Vec::new();
            for kill in 0..4 {
                let run = simulation(study.clone(), slots, pattern + kill).run(&turns).unwrap();
                let ahead = run.turns.len() - turns.len();
                let upto = turns.len() + ahead * (1 + (pattern * 7 + kill * 3) as usize % 8) / 10;
                turns = run.turns[..upto].to_vec();
            }
            let run = simulation(study.clone(), slots, pattern).run(&turns).unwrap();
            assert_ends_by(goal, &study, &run);
            assert_keeps(2, &study, &run);
        }
    }
}

/// Of each trial that completes and those kept before it, the compromise and the first ones by
/// domination keep their checkpoints.
fn assert_keeps(best: usize, study: &StudySpec, run: &SimulationResult) {
    let (mut state, mut expected) = (StudyState::new(study), Vec::new());
    for (at, event) in
        run.turns.iter().flat_map(|turn| turn.events.iter().map(|one| (turn.at, one)))
    {
        state.apply(at, event);
        let Event::Trial(
            trial,
            TrialEvent::State(StateEvent::Finished { state: TrialState::Complete, .. }),
        ) = event
        else {
            continue;
        };
        expected.push(*trial);
        // Ties go to the first.
        expected.sort_unstable();
        let points = front::points(expected.iter().filter_map(|number| state.trial(*number)));
        let knee = state.best().map(|best| best.number).filter(|best| expected.contains(best));
        let others = front::ranked(&study.objectives, &points);
        let others = others.into_iter().filter(|number| Some(*number) != knee);
        expected = knee.into_iter().chain(others).take(best).collect();
    }
    let has_ended = |trial: &&Trial| trial.state.is_finished() && !trial.checkpoints.is_empty();
    let kept = run.state.trials.iter().filter(has_ended).map(|trial| trial.number);
    expected.sort_unstable();
    assert_eq!(kept.collect::<Vec<_>>(), expected);
}

#[test]
fn the_compromise_keeps_its_checkpoint_while_the_front_grows() {
    for pattern in 0..cases(8, 100) {
        let mut study = study_with(Wanted::Target, AlgorithmSpec::named("none"));
        (study.budget.trials, study.budget.target) = (Some(40), None);
        study.seed = pattern;
        study.checkpoints.keep_best = Some(2);
        let mut simulation = simulation(study.clone(), 2, pattern);
        simulation.others =
            Box::new(|params, _| number(params, "layers") + 3.0 * number(params, "rate"));
        let run = simulation.run(&[]).unwrap();
        assert_keeps(2, &study, &run);
        let (mut state, mut last) = (StudyState::new(&study), None);
        for turn in &run.turns {
            turn.events.iter().for_each(|event| state.apply(turn.at, event));
            // One that becomes the compromise later may have lost its own.
            let best = state.best().map(|best| (best.number, best.checkpoints.is_empty()));
            if let (Some((number, false)), Some((now, lacks))) = (last, best) {
                assert!(number != now || !lacks, "trial {now} is the compromise, and lost its own");
            }
            last = best;
        }
    }
}

/// Steps with a checkpoint each; `y` is known at the first one.
const SAVING: &str = r#"
step=0; [ -z "$HPSEARCH_RESUME" ] || step=$(cat "$HPSEARCH_RESUME")
echo >> begun
while [ $step -lt 3 ]; do
  step=$((step + 1)); [ ! -e slow ] || sleep 0.1
  echo $step > "$HPSEARCH_CHECKPOINT_DIR/$step"
  echo "@hpsearch {\"checkpoint\":\"$HPSEARCH_CHECKPOINT_DIR/$step\",\"step\":$step}"
  echo "@hpsearch {\"step\":$step,\"error\":$1,\"speed\":$2}"
  read -r answer || exit 8
  case "$answer" in *'"stop"'* | *'"pause"'*) exit 0 ;; esac
done
"#;

const THRESHOLDS: [&str; 2] = ["threshold = 1.0", "threshold = 0.0"];

fn goal_study(budget: &str) -> String {
    study(
        THRESHOLDS,
        &format!("trials = 60\n{budget}"),
        "[sampler]\ntype = \"random\"\n[checkpoints]\nkeep = \"best-2\"\n",
    )
}

#[test]
fn a_killed_run_whose_trial_is_on_hold_ends_by_its_goal_and_verifies() {
    for (budget, told) in [
        ("target = 0.9", "the front's hypervolume reached the target"),
        ("patience = 6", "did not join the front (budget.patience)"),
    ] {
        let whole = Site::new(&goal_study(budget), SAVING);
        assert_names(&whole.run_study().out, &[told]);
        let site = Site::new(&goal_study(budget), SAVING);
        site.write("slow", "");
        let mut running = site.start_study();
        wait_until("a trial has begun", || site.exists("begun") && !site.lines("begun").is_empty());
        assert_done(&site.run(&["pause", "s", "0"]));
        wait_until("others have begun", || site.lines("begun").len() >= 4);
        running.kill();
        assert_eq!(site.trials()[0]["state"], "paused", "{budget}");
        std::fs::remove_file(site.path("slow")).unwrap();
        assert_done(&site.run(&["resume", "s", "0"]));
        let ended = site.run_study();
        assert_names(&ended.out, &[told]);
        let (trials, others) = (site.trials(), whole.trials());
        assert_eq!(trials[0]["state"], "complete", "{budget}");
        let is_same = |(one, other): (&Json, &Json)| {
            one["state"] != "complete"
                || other["state"] != "complete"
                || one["values"] == other["values"]
        };
        assert!(trials.iter().zip(&others).all(is_same), "{budget}: a trial has its values");
        assert_names(&site.run(&["verify", "s"]).out, &["1 end", "repeat exactly"]);
        let best = site.json(&["best", "s", "--json"]);
        let kept = site.query::<i64>("SELECT count(DISTINCT trial_id) FROM checkpoint");
        assert!(kept == 2 && best["trial"]["checkpoint"].is_string(), "{budget}: {kept} kept");
    }
}

#[test]
fn an_export_of_a_compromise_without_a_checkpoint_names_those_that_have_one() {
    // The third one makes the first the knee, whose checkpoint the second one took.
    let enqueued: String = [(0.3, 0.75), (0.05, 0.59), (0.95, 0.8)]
        .map(|(x, y)| format!("[[enqueue]]\nx = {x}\ny = {y}\n"))
        .concat();
    let rest =
        format!("[checkpoints]\nkeep = \"best-1\"\n[sampler]\ntype = \"random\"\n{enqueued}");
    let site = Site::new(&study(THRESHOLDS, "trials = 3", &rest), SAVING);
    assert_done(&site.run_study());
    assert_eq!(site.json(&["best", "s", "--json"])["trial"]["number"], 0);
    let exported = site.run(&["export", "s", "-o", "out"]);
    assert_done(&exported);
    assert_names(
        &exported.err,
        &[
            "trial 0 has no checkpoint",
            "of the best trials, trial 1 has a checkpoint: export one with `--trial 1`",
        ],
    );
    let other = site.run(&["export", "s", "--trial", "1", "-o", "other"]);
    assert_done(&other);
    assert!(!other.err.contains("no checkpoint"), "{}", other.err);
}

#[test]
fn what_compares_trials_by_one_value_is_refused_beside_a_goal_of_several() {
    let text = goal_study("target = 0.6");
    for (key, told) in [
        ("race = 2", "`race` finds one winner: this study has 2 objectives"),
        ("replicates = 2", "`replicates` compares configurations by the mean of one value"),
    ] {
        let site = Site::new(&text.replace("seed = 7", &format!("seed = 7\n{key}")), SAVING);
        for verb in ["check", "run"] {
            assert_refused(&site.run(&[verb, "study.toml"]), &[told, "hpsearch enqueue"]);
        }
    }
    let site = Site::new(&text.replace("threshold = 0.0", ""), SAVING);
    assert_refused(
        &site.run(&["check", "study.toml"]),
        &["`target` is the front's hypervolume, and `speed` has no `threshold`"],
    );
}

/// Where a goal is not in force, the run says so once, and `show`, `check`, a report and the live
/// page say it then.
fn assert_told(site: &Site, told: &str) {
    let ended = site.run_study();
    assert_eq!(ended.out.matches("in force").count(), 1, "{}", ended.out);
    assert_names(&ended.out, &[told]);
    assert_names(&site.run(&["show", "s"]).out, &[told]);
    assert_names(&site.run(&["check", "study.toml"]).out, &[told]);
    let shown = site.json(&["show", "s", "--json"])["unmeasured"].clone();
    assert_names(shown.as_str().unwrap(), &[told]);
    let report = site.run(&["report", "s", "-o", "-"]).out;
    assert_names(&report.replace("&#39;", "'"), &["<dt>goal</dt>", told]);
    let page = Browser::start(site, &[]).json("/api/study?study=s");
    assert_eq!(page["unmeasured"], shown);
    assert_names(&site.run(&["check", "study.toml", "--json"]).out, &[told]);
    // A run that continues says it at its begin.
    assert_done(&site.run(&["extend", "s", "--trials", "+1"]));
    let again = site.run_study();
    assert_eq!(again.out.matches("in force").count(), 1, "{}", again.out);
    assert!(!again.err.contains("in force"), "{}", again.err);
    // Nor is it missed where the run prints no lines.
    assert_names(&site.run(&["run", "study.toml", "--events"]).err, &[told]);
}

fn reporting(values: &str) -> String {
    format!("echo '@hpsearch {{\"step\":1,{values}}}'\n")
}

#[test]
fn a_target_of_an_infinite_hypervolume_is_said_not_to_be_in_force() {
    let text = study(THRESHOLDS, "trials = 3\ntarget = 0.5", "[sampler]\ntype = \"random\"");
    let site = Site::new(&text, &reporting("\"error\":-Infinity,\"speed\":1"));
    assert_told(&site, "budget.target is not in force: the front's hypervolume is infinite");
    // Without the trials that make it so, it is measured.
    let site = Site::new(&text, &reporting("\"error\":-Infinity,\"speed\":-1"));
    assert!(!site.run_study().out.contains("in force"), "it is beyond a threshold");
    assert!(!site.run(&["show", "s", "--json"]).out.contains("unmeasured"));
    assert!(!site.run(&["report", "s", "-o", "-"]).out.contains("in force"));
}

#[test]
fn goals_without_a_front_are_said_not_to_be_in_force() {
    let text = |budget: &str| study(THRESHOLDS, budget, "[sampler]\ntype = \"random\"");
    let goals = text("trials = 3\ntarget = 0.5\npatience = 2");
    let site = Site::new(&goals, &reporting("\"error\":NaN,\"speed\":1"));
    assert_told(&site, "budget.target and budget.patience are not in force yet: none of");
    let limited = format!("{goals}\n[[constraint]]\nlimit = \"speed <= 0.5\"\n");
    let site = Site::new(&limited, &reporting("\"error\":0.5,\"speed\":1"));
    assert_told(&site, "budget.target and budget.patience are not in force yet: none of");
    let pruned = format!("{}\nprune = true\n", limited.trim_end());
    let site = Site::new(&pruned, &reporting("\"error\":0.5,\"speed\":1"));
    assert_told(&site, "are not in force yet: no trial is complete, ");
}

#[test]
fn a_target_that_no_run_can_measure_is_told_by_check() {
    let check = |budget: &str, further: usize| {
        let more: String = (0..further)
            .map(|index| {
                format!(
                    "[[study.objective]]\nmetric = \"m{index}\"\ndirection = \"minimize\"\n\
                     threshold = 1.0\n"
                )
            })
            .collect();
        let text = study(THRESHOLDS, budget, "[sampler]\ntype = \"random\"");
        let text = text.replace("[space]", &format!("{more}[space]"));
        let checked = Site::new(&text, SAVING).run(&["check", "study.toml"]);
        assert_done(&checked);
        checked.err
    };
    let long = "`target` is not measured with 8 objectives and more than about 80 trials";
    assert_names(&check("trials = 500\ntarget = 0.5", 6), &[long, "set `trials` or `patience`"]);
    for (budget, further) in
        [("trials = 20\ntarget = 0.5", 6), ("trials = 500\ntarget = 0.5", 1), ("trials = 500", 6)]
    {
        assert_eq!(check(budget, further), "", "{budget}");
    }
    let zero = check("trials = 500\ntarget = 0", 0);
    assert_names(&zero, &["`target = 0` ends the study at its first complete trial"]);
}
