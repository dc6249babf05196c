//! Keys on scripted studies: what each leads to.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::storage::Storage as _;
use crate::study::budget::Extension;
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, DeviceEvent, Event, StateEvent, StudyEvent};
use crate::study::request::{RequestAnswer, Retried};
use crate::study::series::{LoggedPoint, LoggedSeries, SeriesAxis};
use crate::study::time::Timestamp;
use crate::study::trial::AttemptNumber;
use crate::tui::columns::ColumnKey;
use crate::tui::tests::{Script, Shown, attempt_started, key_of, mixed};

fn prompt(shown: &Shown) -> &Prompt {
    match &shown.state.overlay {
        Some(Overlay::Prompt(prompt)) => prompt,
        other => panic!("no line is typed: {other:?}"),
    }
}

/// What is wrong with the line that is typed.
fn problem(shown: &Shown) -> Option<&str> {
    prompt(shown).problem.as_deref()
}

fn question(shown: &Shown) -> Option<Confirmation> {
    match shown.state.overlay {
        Some(Overlay::Confirmation(question)) => Some(question),
        _ => None,
    }
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn control(char: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(char), KeyModifiers::CONTROL)
}

fn shown() -> Shown {
    let mut shown = Shown::new(mixed(), (80, 24));
    shown.load();
    shown
}

fn embedded() -> Shown {
    let mut shown = shown();
    shown.state.mode = TuiMode::Embedded;
    shown
}

fn press(shown: &mut Shown, text: &str) -> Command {
    let mut command = Command::Ignore;
    for char in text.chars() {
        command = shown.state.press(key_of(char));
        shown.load();
    }
    command
}

/// Keys and the request that they lead to.
fn asks(shown: &mut Shown, keys: &str, request: Request) {
    assert_eq!(press(shown, keys), Command::Ask(request), "{keys}");
}

fn matching(shown: &Shown) -> u64 {
    shown.state.seen.page.matching
}

/// Trial 5 runs; by value it is on the fourth row.
fn select(shown: &mut Shown, trial: u64) {
    shown.load();
    assert!(shown.state.list.select(shown.key(trial)));
}

#[test]
fn watching_is_left_at_once_and_the_study_goes_on() {
    for leaving in [key(KeyCode::Char('q')), control('c')] {
        assert_eq!(shown().state.press(leaving), Command::Leave(TuiExit::Left));
    }
}

#[test]
fn leaving_an_embedded_study_asks_stops_and_leaves_when_it_is_over() {
    let mut shown = embedded();
    assert_eq!(press(&mut shown, "q"), Command::Redraw);
    assert_eq!(question(&shown), Some(Confirmation::StopAndLeave));
    asks(&mut shown, "y", Request::Stop);
    assert_eq!(shown.state.over("stopped".into()), Command::Leave(TuiExit::Left));
}

#[test]
fn a_run_is_detached_where_that_can_be() {
    let mut shown = embedded();
    press(&mut shown, "q");
    assert_eq!(press(&mut shown, "d"), Command::Ignore);
    assert_eq!(question(&shown), Some(Confirmation::StopAndLeave));
    shown.state.detach = Detach::Possible;
    assert_eq!(press(&mut shown, "d"), Command::Leave(TuiExit::Detached));
    // The other questions have no such answer.
    let mut shown = embedded();
    shown.state.detach = Detach::Possible;
    press(&mut shown, "S");
    assert_eq!(press(&mut shown, "d"), Command::Ignore);
}

#[test]
fn a_run_that_is_over_runs_again_when_more_was_asked_of_it_and_answered() {
    let mut shown = embedded();
    shown.state.over("24 trials are done".into());
    assert!(!shown.state.is_to_run_again(), "nothing was asked");
    let by = Extension { trials: 2, ..Extension::default() };
    let (store, study) = (&mut shown.script.store, shown.script.study);
    let id = store.request(study, Timestamp(0), &Request::Extend { by }).unwrap();
    shown.state.asked(id);
    shown.load();
    assert!(!shown.state.is_to_run_again(), "it was not answered");
    let answer = RequestAnswer::Done("the budget is 26 trials now".into());
    shown.script.append(&[Event::Study(StudyEvent::RequestServed { id, answer })]);
    shown.load();
    assert!(shown.state.is_to_run_again());
    // What is asked while it runs is served by the runner that is there.
    let mut running = embedded();
    running.state.asked(id);
    assert!(!running.state.is_to_run_again());
}

#[test]
fn the_footer_offers_to_stop_only_what_is_not_over() {
    let of_size = || Shown::new(mixed(), (200, 40));
    let (mut run, mut watched) = (of_size(), of_size());
    run.state.mode = TuiMode::Embedded;
    for shown in [&mut run, &mut watched] {
        let frame = shown.frame();
        assert!(frame.contains("S stop study") && frame.contains("x kill"), "{frame}");
    }
    run.state.over("24 trials are done".into());
    watched.script.append(&[Event::Study(StudyEvent::finished("24 trials are done"))]);
    let lease = watched.script.lease.clone();
    watched.script.store.release(&lease).unwrap();
    for shown in [&mut run, &mut watched] {
        let frame = shown.frame();
        assert!(!frame.contains("S stop") && !frame.contains("x kill"), "{frame}");
        press(shown, "S");
        assert_eq!(question(shown), None);
        assert!(shown.frame().contains("the study is over"));
    }
}

#[test]
fn stopping_alone_leaves_the_screen_open() {
    let mut shown = embedded();
    press(&mut shown, "S");
    asks(&mut shown, "y", Request::Stop);
    assert_eq!(shown.state.over("stopped".into()), Command::Redraw);
    assert_eq!(press(&mut shown, "q"), Command::Leave(TuiExit::Left));
}

#[test]
fn a_second_interrupt_kills() {
    let mut shown = embedded();
    assert_eq!(shown.state.press(control('c')), Command::Ask(Request::Stop));
    assert_eq!(shown.state.press(control('c')), Command::Leave(TuiExit::KillNow));
}

#[test]
fn killing_is_confirmed_and_only_unfinished_trials_are_killed() {
    let mut shown = shown();
    select(&mut shown, 5);
    press(&mut shown, "x");
    assert_eq!(question(&shown), Some(Confirmation::Kill(TrialNumber(5))));
    assert_eq!(press(&mut shown, "n"), Command::Redraw);
    asks(&mut shown, "xy", Request::Kill { trial: TrialNumber(5) });
    select(&mut shown, 0);
    assert_eq!((press(&mut shown, "x"), &shown.state.overlay), (Command::Redraw, &None));
}

#[test]
fn a_filter_is_applied_as_it_is_typed_undone_by_esc_and_kept_by_enter() {
    let mut shown = shown();
    press(&mut shown, "/state:pru");
    assert!(problem(&shown).is_some());
    press(&mut shown, "ned");
    assert_eq!(matching(&shown), 1);
    press(&mut shown, "\u{1b}");
    assert_eq!((shown.state.overlay.is_some(), matching(&shown)), (false, 7));
    press(&mut shown, "/learning_rate<1e-3\n");
    assert_eq!((shown.state.overlay.is_some(), matching(&shown)), (false, 3));
    press(&mut shown, "\u{1b}");
    assert!(shown.state.filter.is_all());
}

#[test]
fn half_a_condition_keeps_the_rows_of_what_stands_before_it() {
    let mut shown = shown();
    press(&mut shown, "/");
    for (half, rows) in
        [("learning_rate<5e-", 7), ("1 state:pru", 7), ("ned mom", 1), ("entum<", 1)]
    {
        for char in half.chars() {
            press(&mut shown, &char.to_string());
            assert!(matching(&shown) >= rows, "at `{char}` of `{half}`: {}", matching(&shown));
        }
        assert_eq!(matching(&shown), rows, "{half}");
    }
    press(&mut shown, "1");
    assert_eq!(matching(&shown), 1);
    assert_eq!(shown.state.filter.text(), "learning_rate<5e-1 state:pruned momentum<1");
}

#[test]
fn a_text_that_begins_like_a_name_is_searched_for_after_enter() {
    let mut shown = shown();
    press(&mut shown, "/rea");
    assert_eq!(matching(&shown), 7);
    press(&mut shown, "\n");
    assert_eq!((shown.state.filter.text(), matching(&shown)), ("rea", 0));
}

#[test]
fn a_wrong_filter_is_not_taken_by_enter() {
    let mut shown = shown();
    press(&mut shown, "/value>x\n");
    assert!(problem(&shown).is_some());
    assert!(shown.state.filter.is_all(), "nothing of it meant something");
}

#[test]
fn sorting_is_chosen_by_name_turned_round_and_kept() {
    let mut shown = shown();
    assert_eq!(press(&mut shown, "slearn\n"), Command::Keep);
    assert_eq!(shown.state.sort, SortKey::Param("learning_rate".into()));
    let rate = |trial: &Trial| trial.params.get("learning_rate")?.as_number();
    assert!(shown.state.seen.page.trials().filter_map(rate).is_sorted());
    assert_eq!(press(&mut shown, "r"), Command::Keep);
    assert_eq!(shown.state.settings.sort.as_deref(), Some("-params.learning_rate"));
}

#[test]
fn every_order_that_can_be_chosen_is_kept() {
    let shown = shown();
    let columns = ColumnKey::all(&shown.state.seen);
    for sort in columns.iter().filter_map(ColumnKey::sort_key) {
        let mut state = shown.state.clone();
        state.set_sort(sort.clone(), true);
        let again = TuiState::new(TuiMode::Watching, shown.state.seen.clone(), state.settings);
        assert_eq!((again.sort, again.reverse), (sort, true));
    }
}

#[test]
fn the_order_moves_to_the_neighbouring_columns() {
    let mut shown = shown();
    press(&mut shown, ">");
    assert_eq!(shown.state.sort, SortKey::Step);
    press(&mut shown, "<<");
    assert_eq!(shown.state.sort, SortKey::State);
    press(&mut shown, "<<<<");
    assert_eq!(shown.state.sort, SortKey::Number);
}

#[test]
fn enter_opens_the_selected_trial_and_arrows_go_to_its_neighbours() {
    let mut shown = shown();
    press(&mut shown, "\n");
    assert_eq!((shown.state.screen, shown.state.opened), (Screen::Trial, Some(shown.key(0))));
    press(&mut shown, "→");
    assert_eq!(shown.state.opened, Some(shown.key(4)));
    assert_eq!(shown.state.seen.detail.as_ref().unwrap().trial.number, TrialNumber(4));
    press(&mut shown, "\u{1b}");
    assert_eq!(shown.state.screen, Screen::Trials);
    assert_eq!(shown.state.list.trial(), Some(shown.key(4)));
}

#[test]
fn what_a_trial_logged_is_listed_and_drawn_after_what_it_reported() {
    let mut shown = shown();
    let point = |step: i32| LoggedPoint {
        step: Some(f64::from(step)),
        value: 1.0 / f64::from(step),
        at: Timestamp(5),
    };
    let trial = shown.state.list.trial().unwrap().number;
    let logged = LoggedSeries {
        trial,
        attempt: AttemptNumber(9),
        metric: "train/loss".into(),
        axis: SeriesAxis::Step,
        points: (1..=3_000).map(point).collect(),
    };
    let Script { store, lease, .. } = &mut shown.script;
    store.append_logged(lease, Timestamp(5), &[], &[logged]).unwrap();
    press(&mut shown, "\n");
    let detail = shown.state.seen.detail.clone().unwrap();
    let curve = &detail.logged[0];
    assert_eq!((curve.name.as_str(), curve.count), ("train/loss by step", 3_000));
    press(&mut shown, "m");
    let frame = shown.frame();
    assert!(frame.contains(&format!("train/loss by step of trial {trial}")), "{frame}");
}

#[test]
fn the_metric_of_the_chart_goes_round() {
    let mut shown = shown();
    press(&mut shown, "\nm");
    assert_eq!(shown.state.trial.metric.as_deref(), Some("eval_accuracy"));
    assert_eq!(shown.state.seen.field.metric, "eval_accuracy");
    press(&mut shown, "m");
    assert_eq!(shown.state.trial.metric, None);
}

#[test]
fn an_edited_copy_of_a_trial_is_queued() {
    let mut shown = shown();
    press(&mut shown, "e");
    shown.state.press(control('u'));
    let Command::Ask(Request::Enqueue { params }) = press(&mut shown, "5e-3\n") else {
        panic!("{:?}", shown.state.overlay)
    };
    assert_eq!(params.get("learning_rate"), Some(&5e-3.into()));
    assert_eq!(params.get("model.num_layers"), Some(&2.into()));
}

#[test]
fn a_configuration_that_was_tried_is_run_once_more_after_a_question() {
    let mut shown = shown();
    let params: Params = [("learning_rate".to_owned(), 5e-3.into())].into_iter().collect();
    shown.state.ask_to_repeat(params.clone(), TrialNumber(2));
    assert_eq!(question(&shown), Some(Confirmation::RunOnceMore(TrialNumber(2))));
    assert!(shown.frame().contains("trial 2 already has these parameters"), "{}", shown.frame());
    assert_eq!(press(&mut shown, "n"), Command::Redraw);
    shown.state.ask_to_repeat(params.clone(), TrialNumber(2));
    assert_eq!(press(&mut shown, "y"), Command::Repeat(params));
}

#[test]
fn notes_and_tags_are_asked_for() {
    let mut shown = shown();
    let trial = Some(TrialNumber(0));
    asks(&mut shown, "abaseline 学\n", Request::Note { trial, text: "baseline 学".into() });
    asks(&mut shown, "tx\n", Request::Tag { trial, tag: "x".into(), present: true });
    assert_eq!(press(&mut shown, "a\n"), Command::Redraw, "an empty note is none");
}

#[test]
fn a_tag_is_held_to_the_rule_of_the_command_line() {
    let mut shown = shown();
    let trial = Some(TrialNumber(0));
    for word in ["ta b\n".to_owned(), "ta:b\n".to_owned(), format!("t{}\n", "x".repeat(65))] {
        assert_eq!(press(&mut shown, &word), Command::Redraw, "{word}");
        let why = "not a tag: tags are letters, digits and any of `._/-`, up to 64";
        assert_eq!(problem(&shown), Some(why), "{word}");
        shown.state.overlay = None;
    }
    asks(
        &mut shown,
        "tzwölf/2.1\n",
        Request::Tag { trial, tag: "zwölf/2.1".into(), present: true },
    );
}

#[test]
fn a_running_trial_is_paused_and_the_study_too() {
    let mut shown = shown();
    select(&mut shown, 5);
    asks(&mut shown, "p", Request::PauseTrial { trial: TrialNumber(5) });
    asks(&mut shown, "P", Request::PauseStudy);
    select(&mut shown, 0);
    assert_eq!(press(&mut shown, "p"), Command::Redraw, "it is complete");
}

#[test]
fn marks_are_set_in_passing_and_forgotten_together() {
    let mut shown = shown();
    press(&mut shown, "  ");
    assert_eq!(shown.state.marked, [shown.key(0), shown.key(4)]);
    press(&mut shown, "u");
    assert!(shown.state.marked.is_empty());
}

#[test]
fn the_configuration_is_copied_as_toml() {
    let Command::Copy(text) = press(&mut shown(), "y") else { panic!("nothing is copied") };
    assert_eq!(
        text,
        "[[enqueue]]  # trial 0\nlearning_rate = 0.0003162277\nmodel.num_layers = 2\n\
         optim = \"adamw\"\n"
    );
}

#[test]
fn pasted_letters_are_no_keys() {
    let mut shown = shown();
    assert_eq!(shown.state.paste("Sy"), Command::Ignore);
    assert_eq!(shown.state.overlay, None);
    press(&mut shown, "/");
    shown.state.paste("state:pruned\n");
    shown.load();
    assert_eq!(matching(&shown), 1);
}

#[test]
fn the_best_trial_is_found_from_anywhere_in_the_rows() {
    let mut shown = shown();
    press(&mut shown, "↓↓↓b");
    assert_eq!(shown.state.list.trial(), Some(shown.key(0)));
    press(&mut shown, "↓\nb");
    assert_eq!(shown.state.opened, Some(shown.key(0)));
}

#[test]
fn the_journal_is_followed_until_it_is_scrolled() {
    let mut shown = shown();
    press(&mut shown, "6");
    assert_eq!((shown.state.screen, shown.state.journal.below), (Screen::Events, 0));
    press(&mut shown, "v↑↑");
    shown.frame();
    assert_eq!(shown.state.journal.below, 2);
    shown.state.press(key(KeyCode::End));
    assert_eq!(shown.state.journal.below, 0);
}

#[test]
fn the_selected_trial_stays_selected_while_others_overtake_it() {
    let mut shown = shown();
    press(&mut shown, "↓");
    assert_eq!(shown.state.list.trial(), Some(shown.key(4)));
    shown.script.end(5, AttemptEnd::Completed, Some(0.01), None);
    shown.load();
    assert_eq!((shown.state.list.selected(), shown.state.list.trial()), (2, Some(shown.key(4))));
}

#[test]
fn rows_of_a_study_with_hidden_trials_are_those_that_are_selected() {
    let mut shown = shown();
    assert_eq!(shown.state.list.trial(), Some(shown.key(0)));
    shown.script.append(&[Event::of(TrialNumber(0), StateEvent::Hidden)]);
    shown.load();
    assert_eq!(shown.state.list.trial(), Some(shown.key(4)));
}

#[test]
fn keys_on_an_empty_study_do_no_harm() {
    let mut shown = Shown::new(Script::new(&crate::tui::tests::spec()), (80, 24));
    let keys = "\n\u{1b}2\u{1b}3456\u{1b}1 /x\n\u{1b}soc\u{1b}<>rubyxpeatnNmv\u{1b}↓↑→Ghjkl";
    for char in keys.chars() {
        press(&mut shown, &char.to_string());
        shown.frame();
    }
    assert_eq!(shown.state.list.trial(), None);
}

#[test]
fn failed_trials_are_tried_again_alone_or_all_together_after_a_question() {
    let mut shown = shown();
    select(&mut shown, 3);
    asks(&mut shown, "R", Request::Retry { trials: Retried::One(TrialNumber(3)) });
    select(&mut shown, 0);
    press(&mut shown, "R");
    assert_eq!(question(&shown), Some(Confirmation::RetryFailed(1)));
    asks(&mut shown, "y", Request::Retry { trials: Retried::AllFailed });
}

#[test]
fn a_trial_that_has_ended_is_continued_to_a_step_that_is_typed() {
    let mut shown = shown();
    select(&mut shown, 0);
    press(&mut shown, "Cx\n");
    assert_eq!(problem(&shown), Some("`x` is not a step: write an integer"));
    press(&mut shown, "\u{1b}");
    asks(&mut shown, "C20\n", Request::Continue { trial: TrialNumber(0), until: 20 });
    select(&mut shown, 5);
    assert_eq!((press(&mut shown, "C"), &shown.state.overlay), (Command::Redraw, &None));
    assert_eq!(shown.state.notice.as_deref(), Some("trial 5 has not ended, it is running"));
}

#[test]
fn the_budget_is_raised_and_the_study_noted_and_tagged_on_every_screen() {
    let mut shown = shown();
    for screen in ["1", "4", "5", "6"] {
        press(&mut shown, screen);
        let time = std::time::Duration::from_secs(7200);
        let by = Extension { trials: 50, time, ..Extension::default() };
        asks(&mut shown, "E+50 +2h\n", Request::Extend { by });
        asks(&mut shown, "Alooks good\n", Request::Note { trial: None, text: "looks good".into() });
        asks(
            &mut shown,
            "Tbaseline\n",
            Request::Tag { trial: None, tag: "baseline".into(), present: true },
        );
    }
    press(&mut shown, "Esoon");
    assert!(problem(&shown).is_some());
    assert_eq!(press(&mut shown, "\n"), Command::Redraw, "what is not understood is not asked for");
}

#[test]
fn a_device_is_paused_used_again_and_given_another_number_of_slots() {
    let mut shown = shown();
    press(&mut shown, "5");
    asks(&mut shown, "p", Request::PauseDevice { device: Device::Cpu });
    shown.script.append(&[Event::Device(DeviceEvent::Paused { device: Device::Cpu })]);
    asks(&mut shown, "rp", Request::ResumeDevice { device: Device::Cpu, slots: None });
    asks(&mut shown, "n3\n", Request::ResumeDevice { device: Device::Cpu, slots: Some(3) });
    press(&mut shown, "n0\n");
    assert_eq!(problem(&shown), Some("`0` is not a number from 1 to 1024"));
    press(&mut shown, "\u{1b}");
    // With several devices it is said which one.
    let slot = Slot::on(1, Device::Sim(1));
    shown.script.append(&[attempt_started(TrialNumber(6), slot)]);
    press(&mut shown, "rp");
    assert_eq!(prompt(&shown).line.text(), "cpu");
    for _ in 0..3 {
        shown.state.press(key(KeyCode::Backspace));
    }
    asks(&mut shown, "sim:1\n", Request::PauseDevice { device: Device::Sim(1) });
}
