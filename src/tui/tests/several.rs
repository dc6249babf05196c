//! Trials of several studies in one table, and the screens of one study that it leads to.

use super::paging::Counting;
use super::*;
use crate::app::several::StudySelection;
use crate::study::event::StateEvent;
use crate::study::request::Request;
use crate::study::tracked::{NO_SAMPLER, TrackedRun};
use crate::tui::keys::Screen;
use crate::tui::state::Command;

/// A tracked run of a study without a space.
fn run(script: &mut Script, number: u64, name: &str, rate: f64, values: &[f64]) {
    let run = TrackedRun { name: Some(name.to_owned()), ..TrackedRun::default() };
    let params = [("rate".to_owned(), Value::from(rate))].into_iter().collect();
    let trial = TrialNumber(number);
    let created = TrialEvent::created(params, Origin::Tracked(Box::new(run)));
    script.append(&[Event::Trial(trial, created), attempt_started(trial, slot())]);
    script.report(number, values);
    script.end(number, AttemptEnd::Completed, values.last().copied(), None);
}

fn runs_spec(direction: Direction) -> StudySpec {
    let space = Space::new(Vec::new()).unwrap();
    let mut spec = StudySpec::new("runs", "eval_loss", direction, space, Program::Inline);
    spec.sampler.name = NO_SAMPLER.to_owned();
    spec
}

/// The search `digits-baseline`, and two runs that are tracked in the study `runs`.
fn search_and_runs(direction: Direction) -> Script {
    let script = mixed();
    let mut runs = Script::within(script.store.clone(), &runs_spec(direction));
    run(&mut runs, 0, "slow", 1e-4, &[0.9, 0.7, 0.21]);
    run(&mut runs, 1, "fast", 1e-2, &[0.4, 0.1]);
    script
}

fn all(script: Script, size: (u16, u16)) -> Shown {
    Shown::watching(Watched::Several(StudySelection::All), script, size)
}

/// The study and number of each row.
fn rows(shown: &mut Shown) -> Vec<String> {
    shown.load();
    let state = &shown.state;
    state.seen.page.rows.iter().map(|row| state.title_of(row.key)).collect()
}

#[test]
fn a_search_and_tracked_runs_are_ranked_in_one_table() {
    for (width, height) in [SMALL, (200, 50)] {
        let mut shown = all(search_and_runs(Direction::Minimize), (width, height));
        insta::assert_snapshot!(format!("several_{width}x{height}"), shown.frame());
    }
}

#[test]
fn studies_of_different_metrics_are_listed_one_by_one() {
    let mut shown = all(search_and_runs(Direction::Maximize), SMALL);
    let listed = rows(&mut shown);
    assert_eq!(listed[..2], ["digits-baseline/0", "digits-baseline/4"]);
    assert_eq!(listed[7..], ["runs/0", "runs/1"], "the larger is better");
    let frame = shown.frame();
    assert!(frame.contains("of several metrics: listed study by study"), "{frame}");
    // Any other order puts all of them in one.
    let mut shown = shown.press("strial\n");
    assert_eq!(rows(&mut shown)[..3], ["digits-baseline/0", "runs/0", "digits-baseline/1"]);
}

/// They are refused before anything is typed, not after.
#[test]
fn keys_that_steer_a_search_say_that_tracked_runs_have_none() {
    for key in ["e", "E", "C", "R", "x", "P", "S"] {
        let mut shown = all(search_and_runs(Direction::Minimize), SMALL).press("/study = runs\n");
        shown.load();
        let mut shown = shown.press(key);
        let said = "`runs` holds tracked runs: nothing is searched there";
        assert!(shown.frame().contains(said), "{key}: {}", shown.frame());
    }
}

#[test]
fn a_filter_is_read_for_each_study() {
    let script = search_and_runs(Direction::Minimize);
    let mut shown = all(script, SMALL).press("/study = runs\n");
    assert_eq!(rows(&mut shown), ["runs/1", "runs/0"]);
    let mut shown = shown.press("\u{1b}/rate>1e-3\n");
    assert_eq!(rows(&mut shown), ["runs/1"]);
    let mut shown = shown.press("\u{1b}/learning_rate<1e-3 or name:slow\n");
    assert_eq!(
        rows(&mut shown),
        ["digits-baseline/0", "runs/0", "digits-baseline/5", "digits-baseline/3"]
    );
    // Choices have no order, and runs have no choices: the search is left out.
    let mut shown = shown.press("\u{1b}/optim>3\n");
    let frame = shown.frame();
    assert!(frame.contains("0 of 9 trials, not for 1 study"), "{frame}");
}

#[test]
fn a_trial_is_opened_in_its_own_study_and_esc_leads_back() {
    let mut shown = all(search_and_runs(Direction::Minimize), SMALL);
    assert_eq!(rows(&mut shown)[..2], ["runs/1", "digits-baseline/0"]);
    let mut shown = shown.press("\n");
    assert_eq!(shown.state.screen, Screen::Trial);
    let frame = shown.frame();
    assert!(frame.contains("one of 2 studies; 1 lists all"), "{frame}");
    assert!(frame.contains("runs/1  complete") && frame.contains("rate  0.01"), "{frame}");
    let mut shown = shown.press("\u{1b}↓\n");
    let frame = shown.frame();
    assert!(frame.contains("digits-baseline/0  complete"), "{frame}");
    assert!(frame.contains("num_layers"), "{frame}");
    // So do the other screens.
    let mut shown = shown.press("6");
    assert!(shown.frame().contains("digits-baseline  minimize"), "{}", shown.frame());
    let mut shown = shown.press("1");
    assert!(shown.frame().contains("2 studies"), "{}", shown.frame());
}

#[test]
fn what_is_asked_goes_to_the_study_of_the_trial() {
    let mut shown = all(search_and_runs(Direction::Minimize), SMALL);
    assert_eq!(rows(&mut shown)[0], "runs/1");
    let search = shown.script.study;
    assert_ne!(shown.state.focus(), search);
    let mut shown = shown.press("tgood");
    let tagged = Request::Tag { trial: Some(TrialNumber(1)), tag: "good".into(), present: true };
    assert_eq!(shown.state.press(key_of('\n')), Command::Ask(tagged));
    assert_ne!(shown.state.focus(), search);
    let mut shown = shown.press("↓");
    assert_eq!(shown.state.focus(), search);
    assert_eq!(shown.state.press(key_of('P')), Command::Ask(Request::PauseStudy));
    assert_eq!(shown.state.focus(), search);
}

#[test]
fn an_open_question_keeps_its_study_when_another_trial_takes_its_row() {
    let script = search_and_runs(Direction::Minimize);
    let mut shown = all(script, SMALL).press("/state:running\n");
    assert_eq!(rows(&mut shown), ["digits-baseline/5"]);
    let search = shown.script.study;
    let mut shown = shown.press("x");
    let mut other = Script::within(shown.script.store.clone(), &{
        let mut spec = spec();
        spec.name = "aside".to_owned();
        spec
    });
    other.start(0, params(1e-3, 2, "adamw"));
    other.report(0, &[0.01]);
    assert_eq!(rows(&mut shown)[0], "aside/0", "a new study is followed, too");
    assert_eq!(shown.state.focus(), search);
    let kill = Request::Kill { trial: TrialNumber(5) };
    assert_eq!(shown.state.press(key_of('y')), Command::Ask(kill));
    assert_eq!(shown.state.focus(), search);
}

#[test]
fn marked_trials_of_two_studies_are_compared() {
    let mut shown = all(search_and_runs(Direction::Minimize), (120, 30)).press("  3");
    let frame = shown.frame();
    for text in ["runs/1", "digits-baseline/0", "0.1 best", "learning_rate", "rate"] {
        assert!(frame.contains(text), "{text}: {frame}");
    }
}

#[test]
fn the_best_of_all_studies_is_found_and_hidden_trials_are_left_out() {
    let mut shown = all(search_and_runs(Direction::Minimize), SMALL).press("↓↓b");
    assert_eq!(
        shown.state.list.trial().map(|key| shown.state.title_of(key)),
        Some("runs/1".into())
    );
    shown.script.append(&[Event::of(TrialNumber(4), StateEvent::Hidden)]);
    assert!(!rows(&mut shown).contains(&"digits-baseline/4".to_owned()));
    assert_eq!(shown.state.seen.page.matching, 8);
}

#[test]
fn of_ten_studies_only_the_rows_of_two_pages_are_loaded() {
    let first = Script::new(&spec());
    let store = first.store.clone();
    let mut scripts = vec![first];
    for number in 1..10 {
        let mut spec = spec();
        spec.name = format!("study {number}");
        scripts.push(Script::within(store.clone(), &spec));
    }
    for script in &mut scripts {
        let created = |number| created(TrialNumber(number), params(1e-3, 1, "adamw"));
        script.append(&(0..1_000).map(created).collect::<Vec<_>>());
    }
    let mut shown = all(scripts.swap_remove(0), SMALL);
    shown.load();
    let page = shown.state.list.page() as u64;
    let read = Arc::new(AtomicU64::new(0));
    let counting = Counting { store, read: Arc::clone(&read) };
    let mut source = source_of(Box::new(counting), shown.watched.clone(), PathBuf::new());
    for keys in ["", "⇲"] {
        for key in keys.chars() {
            shown.state.press(key_of(key));
        }
        read.store(0, Ordering::Relaxed);
        let began = processor_time();
        let seen = source.load(&Arc::new(shown.state.wanted())).unwrap();
        println!("10 studies of 1,000 trials, `{keys}`: {:?} of CPU", processor_time() - began);
        let rows = seen.page.rows.len() as u64;
        assert!(seen.page.matching == 10_000 && page <= rows && rows <= 2 * page, "{rows}");
        assert_eq!(read.load(Ordering::Relaxed), rows, "{keys}");
    }
}
