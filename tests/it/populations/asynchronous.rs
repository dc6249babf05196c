//! Asynchronous populations: nobody waits, every lineage is consistent whoever is faster and
//! whenever the run dies, and `verify` makes the decisions again.

use hpsearch::engine::{Assignment, Effect};

use super::*;

/// As [`super::spec`], without meetings.
fn asynchronous(trials: u64, sampler: &str, population: u64) -> StudySpec {
    let study = spec(trials, sampler, population);
    StudySpec { pruner: study.pruner.clone().with("asynchronous", true), ..study }
}

/// The faults of [`simulation`], but with speeds that differ from attempt to attempt.
fn uneven(spec: StudySpec, slots: usize, pattern: u64) -> Simulation {
    let mut simulation = simulation(spec, slots, pattern);
    simulation.leave_time = Duration::from_millis(30);
    simulation
}

/// Whatever the order of arrivals: steps ascend, whoever is copied was at that step and in that
/// state, every value is that of its schedule, nobody continues from a checkpoint that is gone, and
/// every decision is made again.
fn assert_consistent(study: &StudySpec, run: &SimulationResult) {
    assert_checkpoints_are_there(run);
    let find = |number| run.state.trial(number);
    for trial in &run.state.trials {
        assert!(trial.segments.windows(2).all(|pair| pair[0].start < pair[1].start));
        for segment in &trial.segments {
            let donor = find(segment.from).unwrap();
            let (_, value) =
                donor.curve.iter().find(|(step, _)| *step == segment.start).expect("a report");
            assert_eq!(segment.digest, Some(format!("{:016x}", value.to_bits())));
        }
        for (end, value) in trial.curve.iter().filter(|(_, value)| !value.is_nan()) {
            let stages = schedule(find, trial.number, *end);
            let steps =
                |stage: &Stage| vec![stage.params.clone(); (stage.end - stage.start) as usize];
            let state =
                stages.iter().flat_map(steps).fold(1.0, |state, params| learn(state, &params));
            assert_eq!(state.to_bits(), value.to_bits(), "trial {} at {end}", trial.number);
        }
    }
    let verified = verified(study, &journal(run));
    assert_eq!(verified.difference, None);
    assert!(verified.promotions >= copies(run) as u64);
}

/// The decisions about members in which another member of its population was on a slot.
fn decided_while_others_ran(run: &SimulationResult) -> usize {
    let mut running: BTreeSet<TrialNumber> = BTreeSet::new();
    let mut found = 0;
    for event in run.turns.iter().flat_map(|turn| &turn.events) {
        let Event::Trial(trial, event) = event else { continue };
        match event {
            TrialEvent::Attempt(AttemptEvent::Started { .. }) => drop(running.insert(*trial)),
            TrialEvent::Attempt(AttemptEvent::Ended { .. }) => drop(running.remove(trial)),
            TrialEvent::State(StateEvent::Cloned { .. }) => {
                found += usize::from(!running.is_empty())
            }
            _ => {}
        }
    }
    found
}

#[test]
fn whoever_is_faster_nobody_waits_and_every_lineage_is_consistent() {
    let mut lineages = Vec::new();
    for pattern in 0..cases(40, 400) {
        let slots = usize::try_from(1 + draw(pattern, 3, 3) % 9).unwrap();
        let sampler = ["random", "tpe", "auto"][usize::try_from(pattern % 3).unwrap()];
        let study = asynchronous(8, sampler, 8);
        let run = finished(&uneven(study.clone(), slots, pattern), &[]);
        assert_eq!(run.state.counts.complete, 8, "{pattern}");
        let is_whole = |trial: &hpsearch::study::trial::Trial| trial.last_step() == Some(STEPS);
        assert!(run.state.trials.iter().all(is_whole), "{pattern}");
        assert!(copies(&run) > 0, "{pattern}");
        assert!(slots == 1 || decided_while_others_ran(&run) > 0, "{pattern}");
        assert_consistent(&study, &run);
        lineages.push(format!("{:?}", lineage(&run)));
    }
    lineages.sort();
    lineages.dedup();
    assert!(lineages.len() > 20, "the order of arrivals does not matter?");
}

#[test]
fn members_without_a_slot_take_turns() {
    let study = asynchronous(8, "random", 8);
    let mut simulation = uneven(study, 2, 0);
    simulation.faults = Box::new(|_, _, _| None);
    let run = finished(&simulation, &[]);
    let mut reached: BTreeMap<u64, u64> = (0..8).map(|trial| (trial, 0)).collect();
    let mut most_behind = 0;
    for event in run.turns.iter().flat_map(|turn| &turn.events) {
        if let Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Reported { step, .. })) = event
        {
            reached.insert(trial.0, *step);
            let (least, most) = (reached.values().min(), reached.values().max());
            most_behind = most_behind.max(most.unwrap() - least.unwrap());
        }
    }
    // An interval of 3, and what a copy skips.
    assert!(most_behind <= 6, "{most_behind}");
}

#[test]
fn a_crash_at_any_prefix_of_the_journal_keeps_the_decisions_and_loses_nothing() {
    let study = || asynchronous(8, "random", 4);
    let whole = finished(&uneven(study(), 3, 7), &[]);
    assert!(copies(&whole) > 4);
    for upto in 0..whole.turns.len() {
        let mut state = StudyState::new(&study());
        let before = whole.turns[..upto].iter();
        let events = before.flat_map(|turn| turn.events.iter().map(|event| (turn.at, event)));
        events.for_each(|(at, event)| state.apply(at, event));
        let resumed = finished(&uneven(study(), 2, 9), &whole.turns[..upto]);
        for (before, after) in state.trials.iter().zip(&resumed.state.trials) {
            assert!(after.segments.starts_with(&before.segments), "{upto}");
        }
        assert_eq!(resumed.state.counts.complete, 8, "{upto}");
        assert_consistent(&study(), &resumed);
    }
}

/// Killed again and again at random, with other delays and slots each time: `HPSEARCH_THOROUGH=1`.
#[test]
fn killed_at_random_moments_every_lineage_stays_consistent() {
    let study = || asynchronous(8, "random", 8);
    let (mut killed, mut pattern) = (0, 1);
    while killed < cases(60, 500) {
        let mut journal: Vec<Turn> = Vec::new();
        loop {
            pattern += 1;
            let slots = usize::try_from(1 + draw(pattern, 3, 3) % 5).unwrap();
            let run = finished(&uneven(study(), slots, pattern), &journal);
            let ahead = (run.turns.len() - journal.len()) as u64;
            if draw(pattern, 1, 1) < 20 || ahead < 2 {
                assert_eq!(run.state.counts.complete, 8, "after {killed} kills");
                assert_consistent(&study(), &run);
                break;
            }
            killed += 1;
            let upto = journal.len() as u64 + 1 + draw(pattern, 2, 2) * 7 % (ahead - 1);
            journal = run.turns[..usize::try_from(upto).unwrap()].to_vec();
        }
    }
}

/// Whatever is asked, whatever fails and whenever it is killed: it ends, every decision is made
/// again by `verify`, and nobody continues from a checkpoint that is gone.
#[test]
fn requests_faults_and_kills_leave_a_population_that_ends_and_verifies() {
    let mut stopped = 0;
    for pattern in 0..cases(60, 1500) {
        let slots = usize::try_from(1 + draw(pattern, 3, 3) % 9).unwrap();
        let keep_best = [Some(1), None][usize::try_from(draw(pattern, 8, 8) % 2).unwrap()];
        let mut simulation = uneven(asynchronous(8, "auto", 4), slots, pattern);
        simulation.spec.checkpoints.keep_best = keep_best;
        simulation.spec.retry.max = 1;
        simulation.spec.budget.failures = None;
        simulation.requests = requests(pattern);
        simulation.faults = Box::new(move |trial, attempt, step| {
            match draw(pattern, trial.0 * 64 + u64::from(attempt.0), step) {
                0..10 => Some(Fault::Slow),
                10..14 if attempt.0 < 2 => Some(Fault::Crash),
                14..16 if attempt.0 < 2 => Some(Fault::Fail),
                16..18 => Some(Fault::NotANumber),
                _ => None,
            }
        });
        let mut run = simulation.run(&[]).unwrap();
        for kill in 0..3 {
            let upto = 1 + draw(pattern, kill, 9) * run.turns.len() as u64 / 100;
            run = simulation.run(&run.turns[..usize::try_from(upto).unwrap()]).unwrap();
        }
        assert!(!matches!(run.outcome, RunOutcome::Broken(_)), "{pattern}: {:?}", run.outcome);
        let open = run.state.trials.iter().filter(|trial| !trial.state.is_finished()).count();
        let is_held = run.state.trials.iter().any(|trial| trial.hold.is_some());
        assert!(open == 0 || is_held || run.state.finished.is_none(), "{pattern}: {open} open");
        assert_checkpoints_are_there(&run);
        let difference = verified(&simulation.spec, &journal(&run)).difference;
        assert!(difference.is_none(), "{pattern}: {difference:?}");
        stopped += run.state.counts.pruned;
    }
    assert!(stopped > 0, "no member was without a number and without a donor");
}

#[test]
fn one_without_a_number_waits_for_a_donor_and_stops_where_none_can_come() {
    let run = |nan: fn(u64) -> bool| {
        let mut simulation = uneven(asynchronous(4, "random", 4), 4, 0);
        simulation.faults = Box::new(move |trial, _, step| {
            (nan(trial.0) && step == 3).then_some(Fault::NotANumber)
        });
        simulation.run(&[]).unwrap()
    };
    let one = run(|trial| trial == 0);
    let first = &one.state.trial(TrialNumber(0)).unwrap().segments[0];
    assert_eq!((first.start, one.state.counts.complete), (3, 4), "{first:?}");
    let all = run(|_| true);
    assert_eq!((all.state.counts.pruned, all.state.counts.complete), (4, 0));
}

/// On one slot members arrive in the order of their numbers.
#[test]
fn the_first_to_arrive_is_replaced_by_a_better_one_that_is_on_the_way() {
    let mut simulation = uneven(asynchronous(4, "random", 4), 1, 0);
    simulation.faults = Box::new(|_, _, _| None);
    let run = finished(&simulation, &[]);
    // The rate of the first is the worst: with 1, all that was learned is lost at each step.
    let mut params = run.state.trials[0].params.clone();
    params.insert("rate", 1.0);
    simulation.spec.enqueue = vec![params];
    let run = finished(&simulation, &[]);
    let first = &run.state.trial(TrialNumber(0)).unwrap().segments[0];
    assert_eq!(first.start, 6, "alone at 3, last at 6: {first:?}");
    assert_consistent(&simulation.spec, &run);
}

#[test]
fn another_donor_in_the_journal_is_found() {
    let study = asynchronous(8, "random", 8);
    let run = finished(&uneven(study.clone(), 4, 3), &[]);
    let mut entries = journal(&run);
    let mut found = 0;
    for index in 0..entries.len() {
        let Event::Trial(_, TrialEvent::State(StateEvent::Cloned { params, .. })) =
            &mut entries[index].2
        else {
            continue;
        };
        let before = params.clone();
        params.insert("rate", 0.123);
        let difference = verified(&study, &entries).difference.unwrap();
        assert_eq!((difference.what, difference.seq), ("promotion", entries[index].0));
        let Event::Trial(_, TrialEvent::State(StateEvent::Cloned { params, .. })) =
            &mut entries[index].2
        else {
            panic!("it was a copy");
        };
        *params = before;
        found += 1;
    }
    assert_eq!(found, copies(&run));
}

/// An engine that is told what its trials do.
struct DrivenEngine {
    engine: Engine,
    at: i64,
    launched: Vec<Assignment>,
}

impl DrivenEngine {
    /// A population of `members` that meet at every third step, each on a slot.
    fn new(members: u64) -> DrivenEngine {
        DrivenEngine::of(members, asynchronous(members, "random", members))
    }

    fn of(members: u64, spec: StudySpec) -> DrivenEngine {
        let slots = 0..usize::try_from(members).unwrap();
        let slots = slots.map(|index| Slot::on(index, Device::Cpu)).collect();
        let engine = Engine::new(spec.clone(), StudyState::new(&spec), slots).unwrap();
        let mut driven = DrivenEngine { engine, at: 0, launched: Vec::new() };
        driven.step(Input::Begin { pid: 1, host: "h".to_owned(), requests: Vec::new() });
        driven
    }

    fn step(&mut self, input: Input) {
        self.at += 1;
        let effects = self.engine.step(Timestamp(self.at), input);
        self.launched.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Launch(assignment) => Some(assignment),
            _ => None,
        }));
    }

    fn trial(&self, trial: u64) -> &hpsearch::study::trial::Trial {
        self.engine.study_state().trial(TrialNumber(trial)).unwrap()
    }

    /// A checkpoint of a step, with the state `name`.
    fn saves(&mut self, trial: u64, step: u64, name: &str) {
        self.step(Input::Checkpoint {
            trial: TrialNumber(trial),
            attempt: self.trial(trial).last_attempt().unwrap(),
            step,
            path: PathBuf::from(format!("/{trial}/{name}")),
            bytes: None,
            system: None,
            digest: Some(name.to_owned()),
        });
    }

    fn reports(&mut self, trial: u64, step: u64, loss: f64) {
        let (number, attempt) = (TrialNumber(trial), self.trial(trial).last_attempt().unwrap());
        let metrics = [("loss".to_owned(), loss)].into_iter().collect();
        self.step(Input::Report { trial: number, attempt, step, metrics });
    }

    fn ends(&mut self, trial: u64, end: AttemptEnd) {
        let (number, attempt) = (TrialNumber(trial), self.trial(trial).last_attempt().unwrap());
        self.step(Input::Ended { trial: number, attempt, end, message: None });
    }

    fn saved(&self, trial: u64) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        self.trial(trial).checkpoints.iter().map(|saved| name(&saved.path)).collect()
    }
}

/// A donor goes on while another continues from what it saved at its interval, not since.
#[test]
fn what_a_member_offers_is_kept_until_its_next_interval_and_until_nobody_continues_from_it() {
    let mut spec = asynchronous(2, "random", 2);
    spec.checkpoints.while_running = WhileRunning::Needed;
    let mut driven = DrivenEngine::of(2, spec);
    driven.saves(1, 3, "1-at-3");
    driven.reports(1, 3, 0.1);
    driven.ends(1, AttemptEnd::Paused);
    assert_eq!(driven.trial(1).state, TrialState::Running, "it does not wait for the other");
    // Interrupted between two reports, and further on.
    driven.saves(1, 3, "1-after-3");
    driven.reports(1, 4, 0.09);
    driven.saves(1, 4, "1-at-4");
    driven.reports(1, 5, 0.08);
    driven.saves(1, 5, "1-at-5");
    assert_eq!(driven.saved(1), ["1-at-3", "1-at-5"]);
    driven.saves(0, 3, "0-at-3");
    driven.reports(0, 3, 0.9);
    driven.ends(0, AttemptEnd::Paused);
    let segment = driven.trial(0).segments[0].clone();
    assert_eq!((segment.start, segment.digest.as_deref()), (3, Some("1-at-3")));
    let state = driven.engine.study_state();
    let donor = state.donor_checkpoint(driven.trial(0)).unwrap();
    assert_eq!(donor.1.path, PathBuf::from("/1/1-at-3"));
    // The donor ends; the other is lost, and starts again from the same.
    driven.saves(1, 6, "1-at-6");
    driven.reports(1, 6, 0.07);
    driven.ends(1, AttemptEnd::Paused);
    driven.reports(1, 12, 0.01);
    driven.ends(1, AttemptEnd::Completed);
    driven.ends(0, AttemptEnd::Lost);
    assert!(driven.saved(1).contains(&"1-at-3".to_owned()), "{:?}", driven.saved(1));
    driven.saves(0, 4, "0-at-4");
    driven.reports(0, 4, 0.3);
    driven.ends(0, AttemptEnd::Completed);
    assert!(!driven.saved(1).contains(&"1-at-3".to_owned()), "{:?}", driven.saved(1));
}

#[test]
fn what_a_member_saved_stays_while_it_runs_and_goes_at_its_next_interval() {
    let mut driven = DrivenEngine::new(2);
    let [first, second, third] = [1, 2, 3].map(|step| format!("at-{step}"));
    for (step, name) in [(1, &first), (2, &second), (3, &third)] {
        driven.saves(1, step, name);
        driven.reports(1, step, 1.0 - step as f64 / 10.0);
    }
    assert_eq!(driven.saved(1), [first, second, third.clone()]);
    driven.ends(1, AttemptEnd::Paused);
    assert_eq!(driven.saved(1), [third]);
}

/// What it saved when it was interrupted has the step of its last report, and is ahead of that.
#[test]
fn what_a_member_offers_is_its_state_at_its_interval() {
    let mut driven = DrivenEngine::new(2);
    driven.saves(1, 3, "1-at-3");
    driven.reports(1, 3, 0.1);
    driven.ends(1, AttemptEnd::Paused);
    driven.saves(1, 3, "1-after-3");
    driven.ends(1, AttemptEnd::Interrupted);
    assert_eq!(driven.saved(1), ["1-at-3", "1-after-3"]);
    driven.saves(0, 3, "0-at-3");
    driven.reports(0, 3, 0.9);
    driven.ends(0, AttemptEnd::Paused);
    assert_eq!(driven.trial(0).segments[0].digest.as_deref(), Some("1-at-3"));
    let resumed = |trial: u64| {
        let is_it = |launched: &&Assignment| launched.trial == TrialNumber(trial);
        let launched = driven.launched.iter().rfind(is_it).unwrap();
        launched.resume.as_ref().unwrap().path.clone()
    };
    assert_eq!(resumed(0), PathBuf::from("/1/1-at-3"));
    assert_eq!(resumed(1), PathBuf::from("/1/1-after-3"));
}

#[test]
fn a_member_that_is_behind_goes_on_from_the_step_of_another_and_does_not_repeat_its_reports() {
    let mut driven = DrivenEngine::new(2);
    for step in [3, 6, 9] {
        driven.saves(1, step, &format!("1-at-{step}"));
        driven.reports(1, step, 1.0 / step as f64);
        driven.ends(1, AttemptEnd::Paused);
    }
    driven.saves(0, 3, "0-at-3");
    driven.reports(0, 3, 0.9);
    driven.ends(0, AttemptEnd::Paused);
    let trial = driven.trial(0);
    assert_eq!((trial.segments[0].start, trial.until), (9, None), "no interval is left");
    let launched = driven.launched.last().unwrap();
    let resumed = launched.resume.as_ref().map(|saved| saved.step);
    assert_eq!((launched.trial, resumed, launched.reported), (TrialNumber(0), Some(9), Some(9)));
    // As a program that evaluates what it loads.
    driven.reports(0, 9, 1.0 / 9.0);
    driven.reports(0, 10, 0.1);
    let steps: Vec<u64> = driven.trial(0).curve.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [3, 10]);
    // The one that is ahead is not set back, although the other is better now.
    driven.saves(0, 10, "0-at-10");
    driven.reports(0, 11, 0.001);
    driven.reports(1, 12, 0.5);
    driven.ends(1, AttemptEnd::Completed);
    assert_eq!(driven.trial(1).segments, []);
}

#[test]
fn a_study_that_changes_between_the_two_modes_goes_on_to_its_end() {
    for first in [false, true] {
        let study = |is_asynchronous: bool| {
            let study = spec(8, "random", 4);
            let pruner = study.pruner.clone().with("asynchronous", is_asynchronous);
            StudySpec { pruner, ..study }
        };
        let whole = finished(&uneven(study(first), 3, 0), &[]);
        for upto in (1..whole.turns.len()).step_by(cases(7, 1)) {
            let run = finished(&uneven(study(!first), 2, 1), &whole.turns[..upto]);
            assert_eq!(run.state.counts.complete, 8, "after {upto} turns");
            assert_checkpoints_are_there(&run);
        }
    }
}

/// What holds for a site whatever the order of arrivals was: everybody ends, every copy started
/// from the checkpoint that was decided about, values are those of the schedules, and it verifies.
fn assert_site_consistent(site: &Site) {
    let members = members(site);
    assert_eq!(members.len(), 4);
    let member =
        |number: u64| members.iter().find(|member| member["number"] == number).expect("a member");
    let starts = site.read("starts");
    for member in &members {
        assert_eq!(member["state"], "complete", "{member}");
        for segment in member["segments"].as_array().into_iter().flatten() {
            let (number, from, start) = (&member["number"], &segment["from"], &segment["start"]);
            assert_eq!(segment["digest"].as_str().unwrap().len(), 64);
            let started = format!("{number} {start} {from} ");
            assert!(starts.contains(&started), "{started}: {starts}");
        }
    }
    // The value of each, from the start along its schedule.
    for number in 0..4_u64 {
        let stages = stages_of(&member, number, 6);
        let state = stages.iter().fold(1.0, |state, (steps, rate)| {
            (0..*steps).fold(state, |state: f64, _| state * (1.0 - rate) + rate * rate / 4.0)
        });
        let value = member(number)["last_value"].as_f64().unwrap();
        assert!((state - value).abs() < 1e-9, "trial {number}: {state} {value} {stages:?}");
    }
    assert_done(&site.run(&["verify", "s"]));
}

/// The steps and rates that led to a member's state at `end`, oldest first.
fn stages_of<'a>(member: &impl Fn(u64) -> &'a Json, number: u64, end: u64) -> Vec<(u64, f64)> {
    let this = member(number);
    let segments = this["segments"].as_array().cloned().unwrap_or_default();
    let before = segments.iter().filter(|segment| segment["start"].as_u64() < Some(end));
    let count = before.count();
    let last = segments.last().map_or(&this["params"], |last| &last["params"]);
    let params = segments.get(count).map_or(last, |after| &after["replaced"]);
    let rate = params["x"].as_f64().unwrap();
    let Some(segment) = count.checked_sub(1).map(|last| &segments[last]) else {
        return vec![(end, rate)];
    };
    let start = segment["start"].as_u64().unwrap();
    let mut stages = stages_of(member, segment["from"].as_u64().unwrap(), start);
    stages.push((end - start, rate));
    stages
}

/// Members of unequal speed: a step takes the first two a tenth of what it takes the others.
fn uneven_site() -> Site {
    let pace = "case \"$HPSEARCH_TRIAL\" in 0|1) pace=0.01 ;; *) pace=0.1 ;; esac\n";
    let slow = LEARNS.replace("  step=$((step + 1))\n", "  sleep $pace\n  step=$((step + 1))\n");
    let rest = "[pruner]\ntype = \"pbt\"\npopulation = 4\ninterval = 2\nmax_resource = 6\n\
                asynchronous = true\n[devices]\nuse = [\"sim:0..4\"]\n\
                [checkpoints]\nkeep = \"best-1\"\n\
                [retry]\nmax = 1000\non = [\"worker_lost\"]\n";
    Site::new(&study("trials = 4", rest), &format!("{pace}{slow}"))
}

#[test]
fn commands_of_unequal_speed_do_not_wait_for_each_other() {
    let site = uneven_site();
    assert_done(&site.run(&["run", "study.toml", "--plain"]));
    assert_site_consistent(&site);
    let explained = site.run(&["explain", "s", "2"]);
    assert_names(&explained.out, &["schedule", "family", "among the latest results"]);
    let left = site.run(&["best", "s", "--json"]).json::<Json>();
    assert!(PathBuf::from(left["trial"]["checkpoint"].as_str().unwrap()).exists());
}

/// Members and their runner are killed at moments that nobody chose: `HPSEARCH_THOROUGH=1` for more
/// rounds.
#[test]
fn members_and_runners_that_are_killed_at_random_leave_consistent_lineages() {
    let (mut killed_members, mut killed_runners, mut copied) = (0, 0, 0);
    for round in 0..cases(3, 40) {
        let site = uneven_site();
        let start = || Running::start(site.command(&["run", "study.toml", "--plain", "-q"]));
        let mut running = start();
        for strike in 0..80 {
            let moment = Instant::now() + Duration::from_millis(10 + draw(round, strike, 1));
            while Instant::now() < moment && !running.has_ended() {
                std::thread::sleep(Duration::from_millis(2));
            }
            if running.has_ended() {
                break;
            }
            // On a busy machine its members may not have started.
            if draw(round, strike, 2) < 25 && killed_runners <= killed_members {
                running.kill();
                killed_runners += 1;
                running = start();
            } else {
                killed_members += u32::from(kill_member(&site, draw(round, strike, 3) % 4));
            }
        }
        drop(running.end());
        assert_done(&site.run(&["run", "study.toml", "--plain"]));
        assert_site_consistent(&site);
        let segments = |member: &Json| member["segments"].as_array().map_or(0, Vec::len);
        copied += members(&site).iter().map(segments).sum::<usize>();
    }
    assert!(killed_members > 0 && killed_runners > 0, "{killed_members} {killed_runners}");
    assert!(copied > 0);
}

/// Relative duration of a configuration's steps.
type Pace = fn(&Params) -> f64;

/// The virtual seconds of a study and its best loss: 8 members on 8 slots, 40 steps of a tenth of a
/// second, decisions after every other one.
fn timed(is_asynchronous: bool, seed: u64, pace: Pace) -> (f64, f64) {
    let study = spec(8, "random", 8);
    let pruner = study.pruner.clone().with("interval", 2).with("max_resource", 40);
    let pruner = pruner.with("asynchronous", is_asynchronous);
    let mut simulation = simulation(StudySpec { pruner, seed, ..study }, 8, 0);
    (simulation.steps, simulation.pace) = (40, Box::new(pace));
    simulation.faults = Box::new(|_, _, _| None);
    let run = finished(&simulation, &[]);
    let seconds = run.turns.last().unwrap().at.0 as f64 / 1e6;
    (seconds, run.state.best().and_then(|best| best.value).unwrap())
}

/// Another number from 0 to 1 for each configuration.
fn mixed(params: &Params) -> f64 {
    let rate = params.get("rate").and_then(|value| value.as_number()).unwrap();
    draw(rate.to_bits() % 1_000_003, 1, 1) as f64 / 100.0
}

/// With `--nocapture` it prints both modes' medians of seconds and losses.
#[test]
fn members_of_unequal_speed_take_less_time_than_with_meetings() {
    let paces: [(&str, Pace, f64); 4] = [
        ("equal", |_| 1.0, 1.0),
        ("within a tenth", |params| 0.9 + 0.2 * mixed(params), 1.0),
        (
            "one configuration in eight four times as slow",
            |params| if mixed(params) < 0.125 { 4.0 } else { 1.0 },
            0.6,
        ),
        ("exponential", |params| -(1.0 - mixed(params)).ln(), 0.5),
    ];
    let middle = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    for (name, pace, share) in paces {
        let [together, alone] = [false, true].map(|is_asynchronous| {
            let runs = (0..cases(21, 201)).map(|seed| timed(is_asynchronous, seed, pace));
            let (seconds, losses): (Vec<f64>, Vec<f64>) = runs.unzip();
            (middle(seconds), middle(losses))
        });
        println!("{name}: {together:.4?} together, {alone:.4?} asynchronous");
        assert!(alone.0 <= share * together.0, "{name}: {alone:?} {together:?}");
        assert!(alone.1 <= 2.0 * together.1, "{name}: {alone:?} {together:?}");
    }
}
