//! Frames of the leaderboard, drawn from scripted studies in memory.

mod large;
mod paging;
mod several;
mod several_objectives;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::columns::TableSettings;
use super::screen;
use super::snapshot::SnapshotRequest;
use super::source::{Source, Watched};
use super::state::TuiState;
use super::theme::{Palette, Theme};
use super::trial_key::TrialKey;
use super::{HolderLife, TuiMode};
use crate::report::sparkline::Charset;
use crate::storage::memory::MemoryStore;
use crate::storage::{Holder, Lease, Storage, StorageReader, StudyId, StudySummary, Takeover};
use crate::study::artifact::{Artifact, ArtifactKind};
use crate::study::decision::{Decision, Reason};
use crate::study::device::{Device, Slot};
use crate::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, DecisionEvent, Event, RecordEvent, RunnerEvent,
    StudyEvent, TrialEvent,
};
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::query::SortKey;
use crate::study::space::{Condition, Dimension, Distribution, Scale, Space};
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

pub(super) const COLOURS: Theme = Theme { charset: Charset::Unicode, palette: Palette::Colours };
pub(super) const PLAIN: Theme = Theme { charset: Charset::Ascii, palette: Palette::Monochrome };
const SMALL: (u16, u16) = (80, 24);

fn at(second: i64) -> Timestamp {
    Timestamp(1_764_000_000_000_000 + second * 1_000_000)
}

pub(super) fn dimension(name: &str, distribution: Distribution) -> Dimension {
    Dimension { name: name.into(), distribution, prior: None, when: None }
}

pub(super) fn spec() -> StudySpec {
    let optimizers = Distribution::choice(vec!["adamw".into(), "sgd".into()]).unwrap();
    let mut momentum =
        dimension("momentum", Distribution::float(0.0, 0.99, Scale::Linear, None).unwrap());
    momentum.when = Some(Condition(vec![("optim".into(), vec!["sgd".into()])]));
    let space = Space::new(vec![
        dimension("learning_rate", Distribution::float(1e-5, 1e-1, Scale::Log, None).unwrap()),
        dimension("model.num_layers", Distribution::int(1, 8, Scale::Linear, 1).unwrap()),
        dimension("optim", optimizers),
        momentum,
    ])
    .unwrap();
    let mut spec =
        StudySpec::new("digits-baseline", "eval_loss", Direction::Minimize, space, Program::Inline);
    spec.budget.trials = Some(24);
    spec
}

#[derive(Clone)]
pub(super) struct Script {
    pub(super) store: MemoryStore,
    pub(super) study: StudyId,
    pub(super) lease: Lease,
    /// Seconds since the study was made.
    pub(super) clock: i64,
}

impl Script {
    pub(super) fn new(spec: &StudySpec) -> Self {
        Script::within(MemoryStore::new(), spec)
    }

    /// Another study of a store.
    pub(super) fn within(mut store: MemoryStore, spec: &StudySpec) -> Self {
        let study = store.create_study(at(0), spec).unwrap();
        let lease = store.acquire(study, &holder(), at(0), Takeover::IfFree).unwrap();
        let begun = Event::Runner(RunnerEvent::Started {
            pid: 7,
            host: "here".into(),
            slots: vec![slot()],
            tracker: None,
        });
        store.append(&lease, at(0), &[begun]).unwrap();
        Script { store, study, lease, clock: 0 }
    }

    pub(super) fn append(&mut self, events: &[Event]) {
        self.clock += 1;
        self.store.append(&self.lease, at(self.clock), events).unwrap();
    }

    pub(super) fn summary(&self) -> StudySummary {
        self.store.summary(self.study).unwrap()
    }

    fn start(&mut self, number: u64, params: Params) {
        let trial = TrialNumber(number);
        self.append(&[created(trial, params), attempt_started(trial, slot())]);
    }

    fn report(&mut self, number: u64, values: &[f64]) {
        for (step, value) in (1..).zip(values) {
            self.report_at(number, step, *value);
        }
    }

    pub(super) fn report_at(&mut self, number: u64, step: u64, value: f64) {
        let metrics = [("eval_loss", value), ("eval_accuracy", 1.0 - value / 4.0)];
        self.append(&[reported(TrialNumber(number), step, &metrics)]);
    }

    pub(super) fn end(
        &mut self,
        number: u64,
        end: AttemptEnd,
        value: Option<f64>,
        reason: Option<&str>,
    ) {
        self.append(&ended(TrialNumber(number), end, value, reason));
    }
}

/// A trial is proposed.
pub(super) fn created(trial: TrialNumber, params: Params) -> Event {
    Event::Trial(trial, TrialEvent::created(params, Origin::Sampled("tpe-independent".into())))
}

/// The first attempt of a trial reports.
pub(super) fn reported(trial: TrialNumber, step: u64, metrics: &[(&str, f64)]) -> Event {
    let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Event::of(trial, AttemptEvent::reported(AttemptNumber(0), step, metrics))
}

/// The first attempt of a trial begins.
pub(super) fn attempt_started(trial: TrialNumber, slot: Slot) -> Event {
    Event::of(
        trial,
        AttemptEvent::Started {
            attempt: AttemptNumber(0),
            slot,
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        },
    )
}

/// The first attempt of a trial, and the trial, are over.
pub(super) fn ended(
    trial: TrialNumber,
    end: AttemptEnd,
    value: Option<f64>,
    reason: Option<&str>,
) -> [Event; 2] {
    let reason = reason.map(str::to_owned);
    let state = match end {
        AttemptEnd::Stopped => TrialState::Pruned,
        AttemptEnd::Failed(_) => TrialState::Failed,
        _ => TrialState::Complete,
    };
    [
        Event::of(
            trial,
            AttemptEvent::Ended {
                attempt: AttemptNumber(0),
                end,
                reason: reason.clone(),
                device_micros: None,
                memory: None,
                superseded: Default::default(),
            },
        ),
        Event::Trial(trial, TrialEvent::finished(state, value, reason)),
    ]
}

pub(super) fn holder() -> Holder {
    Holder { pid: 7, pid_started: 1, host: "here".into(), boot_id: None }
}

fn slot() -> Slot {
    Slot::on(0, Device::Cpu)
}

pub(super) fn params(rate: f64, layers: i64, optim: &str) -> Params {
    let mut params = Params::new();
    params.insert("learning_rate", rate);
    params.insert("model.num_layers", layers);
    params.insert("optim", optim);
    if optim == "sgd" {
        params.insert("momentum", 0.9);
    }
    params
}

/// Trials in all states, a NaN among them.
pub(super) fn mixed() -> Script {
    let mut script = Script::new(&spec());
    script.start(0, params(3.162_277e-4, 2, "adamw"));
    script.report(0, &[0.9, 0.5, 0.31, 0.25, 0.22, 0.2, 0.19, 0.184_213]);
    script.append(&[Event::of(
        TrialNumber(0),
        CheckpointEvent::Saved {
            step: 8,
            path: PathBuf::from("/data/runs/files/digits-baseline/trial-0/step-8"),
            bytes: Some(1 << 20),
            system: None,
            digest: None,
        },
    )]);
    script.end(0, AttemptEnd::Completed, Some(0.184_213), None);
    script.start(1, params(0.1, 8, "sgd"));
    script.report(1, &[2.3, f64::NAN]);
    script.end(1, AttemptEnd::Diverged, Some(f64::NAN), Some("the loss is NaN at step 2"));
    script.start(2, params(0.05, 1, "sgd"));
    script.report(2, &[1.2, 1.1, 1.05]);
    let rank = "rank 3 of 3 at step 3; 1 continues";
    script.append(&[Event::of(
        TrialNumber(2),
        DecisionEvent::Decided { step: 3, verdict: Decision::Stop(Reason::Recorded(rank.into())) },
    )]);
    script.end(2, AttemptEnd::Stopped, None, Some(rank));
    script.start(3, params(2e-5, 4, "adamw"));
    let failure = AttemptEnd::Failed(FailureCause::Program);
    script.end(3, failure, None, Some("exit code 1: out of 学習率\nrange"));
    script.start(4, params(1.2e-3, 3, "adamw"));
    script.report(4, &[0.8, 0.4, 0.3, 0.26]);
    script.end(4, AttemptEnd::Completed, Some(0.26), None);
    script.start(5, params(7.7e-4, 6, "adamw"));
    script.report(5, &[0.85, 0.44]);
    script.append(&[Event::Trial(
        TrialNumber(6),
        TrialEvent::created(params(1e-3, 5, "adamw"), Origin::Enqueued(0)),
    )]);
    script
}

pub(super) struct Shown {
    pub(super) script: Script,
    pub(super) state: TuiState,
    theme: Theme,
    size: (u16, u16),
    files: PathBuf,
    watched: Watched,
}

impl Shown {
    pub(super) fn new(script: Script, size: (u16, u16)) -> Self {
        let watched = Watched::One(script.study);
        Shown::watching(watched, script, size)
    }

    /// Several studies, that of the script among them.
    fn watching(watched: Watched, script: Script, size: (u16, u16)) -> Self {
        let files = PathBuf::from("/nowhere/hpsearch.db");
        let mut source = source_of(Box::new(script.store.clone()), watched.clone(), files.clone());
        let first = Arc::new(SnapshotRequest::first_page(script.study));
        let seen = source.load(&first).unwrap();
        Shown {
            script,
            state: TuiState::new(TuiMode::Watching, seen, TableSettings::default()),
            theme: COLOURS,
            size,
            files,
            watched,
        }
    }

    fn source(&self) -> Source {
        source_of(Box::new(self.script.store.clone()), self.watched.clone(), self.files.clone())
    }

    /// A trial of the study.
    pub(super) fn key(&self, number: u64) -> TrialKey {
        TrialKey { study: self.script.study, number: TrialNumber(number) }
    }

    fn press(mut self, keys: &str) -> Self {
        self.frame();
        for char in keys.chars() {
            self.state.press(key_of(char));
            self.frame();
        }
        self
    }

    /// Loads until what is wanted is there, as the loader does.
    pub(super) fn load(&mut self) {
        screen::measure(Rect::new(0, 0, self.size.0, self.size.1), &mut self.state);
        let mut source = self.source();
        for _ in 0..3 {
            let seen = source.load(&Arc::new(self.state.wanted())).unwrap();
            self.state.see(seen);
        }
    }

    pub(super) fn frame(&mut self) -> String {
        self.terminal().backend().to_string()
    }

    fn terminal(&mut self) -> Terminal<TestBackend> {
        if !self.state.is_removed {
            self.load();
        }
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        terminal
            .draw(|frame| {
                screen::draw(frame, &mut self.state, at(self.script.clock + 3), self.theme)
            })
            .unwrap();
        terminal
    }

    /// The frame's styles: one letter for each colour, capitals for bold, `r` for reversed, `.` for
    /// dim.
    fn styles(&mut self) -> String {
        let terminal = self.terminal();
        let buffer = terminal.backend().buffer();
        let mut lines = String::new();
        for row in 0..self.size.1 {
            let line: String =
                (0..self.size.0).map(|column| letter(buffer[(column, row)].style())).collect();
            lines += line.trim_end();
            lines.push('\n');
        }
        lines
    }
}

/// The key that a character stands for: letters are themselves, arrows the keys of that name, `⇱`
/// Home and `⇲` End.
pub(super) fn key_of(char: char) -> KeyEvent {
    let code = match char {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        '↓' => KeyCode::Down,
        '↑' => KeyCode::Up,
        '→' => KeyCode::Right,
        '←' => KeyCode::Left,
        '\u{8}' => KeyCode::Backspace,
        '⇱' => KeyCode::Home,
        '⇲' => KeyCode::End,
        char => KeyCode::Char(char),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn letter(style: Style) -> char {
    let letter = match style.fg {
        _ if style.add_modifier.contains(Modifier::REVERSED) => 'r',
        Some(Color::Cyan) => 'c',
        Some(Color::Magenta) => 'm',
        Some(Color::Green) => 'g',
        Some(Color::Yellow) => 'y',
        Some(Color::Red) => 'e',
        _ if style.add_modifier.contains(Modifier::BOLD) => 'b',
        _ if style.add_modifier.contains(Modifier::DIM) => '.',
        _ => ' ',
    };
    if style.add_modifier.contains(Modifier::BOLD) { letter.to_ascii_uppercase() } else { letter }
}

fn source_of(reader: Box<dyn StorageReader>, watched: Watched, files: PathBuf) -> Source {
    Source::new(reader, watched, files, |_| HolderLife::Alive, COLOURS)
}

/// What is drawn in an area of this size, as text.
pub(super) fn drawn<T>(
    (width, height): (u16, u16),
    draw: impl Fn(&mut Buffer, Rect) -> T,
) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(&mut buffer, area);
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

/// Draws in areas of all these sizes: none may panic.
pub(super) fn at_every_size<T>(
    widths: impl Iterator<Item = u16>,
    heights: impl Iterator<Item = u16> + Clone,
    draw: impl Fn(&mut Buffer, Rect) -> T,
) {
    for width in widths {
        for height in heights.clone() {
            drawn((width, height), &draw);
        }
    }
}

/// The time that this thread has spent on a processor: it stands still while other programs have
/// their turn.
pub(super) fn processor_time() -> std::time::Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap()
}

const SIZES: [(u16, u16); 3] = [SMALL, (120, 40), (200, 60)];

#[test]
fn every_screen_at_the_sizes_of_terminals() {
    for (name, keys) in [
        ("trials", ""),
        ("trial", "\n"),
        ("events", "6"),
        ("compare", " ↓ 3"),
        ("search", "4"),
        ("search_parameters", "4v"),
        ("help", "?"),
    ] {
        for (width, height) in SIZES {
            let frame = Shown::new(mixed(), (width, height)).press(keys).frame();
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), frame);
        }
    }
}

#[test]
fn what_is_asked_typed_and_chosen_on_small_terminals() {
    for (name, size, keys) in [
        ("a_running_study_on_a_tiny_terminal", (40, 10), ""),
        ("killing_asks_first", SMALL, "↓↓↓x"),
        ("a_filter_is_typed_and_what_is_wrong_with_it_is_said", SMALL, "/optim=adamw valeu<1"),
        ("a_filtered_table_says_so", SMALL, "/optim=adamw\n"),
        ("what_to_sort_by_is_chosen_from_a_list", SMALL, "sa"),
        (
            "what_is_sorted_by_stands_beside_the_value_where_columns_do_not_fit",
            (60, 18),
            "smomen\n→",
        ),
        ("the_form_says_in_place_what_is_wrong", SMALL, "e9↓x"),
    ] {
        insta::assert_snapshot!(name, Shown::new(mixed(), size).press(keys).frame());
    }
}

#[test]
fn what_a_filter_looks_for_and_no_trial_has_is_warned_of() {
    let warning = "no trial has `optim=sgdd`; did you mean `sgd`?";
    for keys in ["/optim=sgdd", "/optim=sgdd\n"] {
        let frame = Shown::new(mixed(), SMALL).press(keys).frame();
        assert!(frame.contains(warning), "{frame}");
    }
    let frame = Shown::new(mixed(), SMALL).press("/optim=sgd momentum<0\n").frame();
    assert!(!frame.contains("did you mean"), "{frame}");
}

#[test]
fn the_summary_of_a_trial_stands_on_its_screen() {
    let mut script = mixed();
    let summary = [("test_accuracy".to_owned(), 0.91.into()), ("note".to_owned(), "ok".into())];
    let summary = summary.into_iter().collect();
    let recorded = TrialEvent::Record(RecordEvent::SummaryRecorded { summary });
    script.append(&[Event::Trial(TrialNumber(0), recorded)]);
    let frame = Shown::new(script, (120, 60)).press("\n").frame();
    let lines: Vec<&str> = frame.lines().collect();
    let at = lines.iter().position(|line| line.contains(" summary ")).unwrap_or_default();
    assert!(lines[at + 1].contains("note           ok"), "{frame}");
    assert!(lines[at + 2].contains("test_accuracy  0.91"), "{frame}");
}

#[test]
fn what_a_trial_kept_stands_on_its_screen_with_the_command_to_get_it() {
    let mut script = mixed();
    let artifact = Artifact {
        name: "confusion matrix".to_owned(),
        kind: ArtifactKind::Image,
        digest: "0".repeat(64),
        bytes: 2048,
        step: Some(3),
        path: None,
        copied: true,
    };
    let saved = RecordEvent::ArtifactSaved { artifact, content: None };
    script.append(&[Event::Trial(TrialNumber(0), TrialEvent::Record(saved))]);
    let frame = Shown::new(script, (120, 60)).press("\n").frame();
    assert!(frame.contains("confusion matrix:v1  image  2.0 KiB  "), "{frame}");
    assert!(frame.contains("hpsearch artifacts digits-baseline 0 --get"), "{frame}");
    assert!(frame.contains("  'confusion matrix:v1'"), "{frame}");
}

#[test]
fn a_study_without_trials_waits_for_the_first() {
    insta::assert_snapshot!(Shown::new(Script::new(&spec()), SMALL).frame());
}

#[test]
fn the_devices_are_shown_and_keep_moving() {
    let mut shown = Shown::new(mixed(), SMALL).press("5");
    let frame = shown.frame();
    assert!(frame.contains(" cpu  ") && frame.contains("trial 5"), "{frame}");
}

#[test]
fn colours_tell_states_the_best_what_is_selected_and_events() {
    for (name, keys) in [
        ("colours_tell_states_the_best_and_what_is_selected", "↓ "),
        ("colours_of_the_events", "6"),
    ] {
        insta::assert_snapshot!(name, Shown::new(mixed(), SMALL).press(keys).styles());
    }
}

#[test]
fn a_running_study_in_ascii() {
    let mut shown = Shown::new(mixed(), SMALL);
    shown.theme = PLAIN;
    insta::assert_snapshot!(shown.press(" c").frame());
}

#[test]
fn without_colours_nothing_is_coloured() {
    for keys in ["", "\n", "6", "e", "s", "?"] {
        let mut shown = Shown::new(mixed(), (120, 40));
        shown.theme = Theme { palette: Palette::Monochrome, ..COLOURS };
        let styles = shown.press(keys).styles();
        assert!(!styles.contains(['c', 'm', 'g', 'y', 'e']), "{styles}");
    }
}

#[test]
fn names_in_any_script_and_long_values_stay_in_their_columns() {
    let choices = vec![
        Value::from("とても長い名前の最適化手法その一"),
        Value::from("a/very/long/path/to/a/pretrained/model/directory"),
        Value::from("مُعدَّل"),
        Value::from("👩‍🔬\u{1b}[31m\u{202e}\u{7}"),
    ];
    let space = Space::new(vec![
        dimension("学習率", Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap()),
        dimension("model", Distribution::choice(choices.clone()).unwrap()),
    ])
    .unwrap();
    let mut spec = StudySpec::new(
        "数字認識の実験・その一",
        "eval_loss",
        Direction::Maximize,
        space,
        Program::Inline,
    );
    spec.budget.time = Some(std::time::Duration::from_secs(60));
    let mut script = Script::new(&spec);
    let odd = [1e-12, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for (number, (choice, odd)) in (0..).zip(choices.into_iter().zip(odd)) {
        let params = [("学習率".to_owned(), 0.125.into()), ("model".to_owned(), choice)];
        script.start(number, params.into_iter().collect());
        script.report(number, &[0.5, odd]);
    }
    let shown = Shown::new(script, SMALL).frame();
    assert!(
        !shown.contains(|char: char| (char.is_control() && char != '\n') || char == '\u{202e}')
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn a_finished_study_stays_and_says_why() {
    let mut script = mixed();
    script.end(5, AttemptEnd::Completed, Some(0.17), None);
    script.append(&[
        Event::Study(StudyEvent::finished("24 trials are done")),
        Event::Runner(RunnerEvent::Stopped {
            reason: "finished".into(),
            ran_micros: 125_000_000,
            heard: None,
            device_micros: 0,
            runner: None,
        }),
    ]);
    script.store.release(&script.lease).unwrap();
    let mut shown = Shown::new(script, SMALL);
    shown.state.over("24 trials are done".into());
    insta::assert_snapshot!(shown.frame());
}

#[test]
fn scrolling_ends_where_there_is_nothing_more_to_see() {
    for keys in ["\n", "3", "4v", "4vv", "5", "6v", "?"] {
        // The load of this machine changes by itself.
        let frame = |shown: &mut Shown| -> Vec<String> {
            let frame = shown.frame();
            let steady = |line: &&str| !line.contains("memory") && !line.contains(" cores");
            frame.lines().filter(steady).map(str::to_owned).collect()
        };
        let mut shown = Shown::new(mixed(), (60, 8)).press(keys).press("⇲");
        let last = frame(&mut shown);
        let mut shown = shown.press("↓↓");
        assert_eq!(frame(&mut shown), last, "{keys}");
        if keys != "4vv" {
            assert_ne!(frame(&mut shown.press("↑")), last, "{keys}");
        }
    }
}

#[test]
fn the_log_is_searched_and_stands_at_what_was_found() {
    let directory = tempfile::tempdir().unwrap();
    let mut shown = Shown::new(mixed(), SMALL);
    shown.files = directory.path().join("hpsearch.db");
    let log = crate::storage::paths::StudyFiles::of(shown.state.spec(), None, &shown.files)
        .log(TrialNumber(0), AttemptNumber(0));
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let line = |step: u32| format!("\u{1b}[32mstep {step}\u{1b}[0m\n");
    let text = (0..200).map(line).collect::<String>();
    std::fs::write(&log, text.replace("step 70\u{1b}[0m", "step 70  loss is nan")).unwrap();
    let shown = shown.press("\no/NAN\n").frame();
    assert!(
        shown.contains("step 70  loss is nan") && shown.contains("1 of 1 lines with `NAN`"),
        "{shown}"
    );
    assert!(!shown.contains("[32m"), "{shown}");
}

#[test]
fn what_was_not_taken_of_a_trials_lines_stands_on_its_screen_and_in_the_journal() {
    let remarked = |count| {
        let mut script = mixed();
        let (kind, text) =
            (crate::study::remark::RemarkKind::Value, "`lr` must be a number\u{1b}[2J".to_owned());
        for count in 1..=count {
            script.append(&[Event::of(
                TrialNumber(0),
                AttemptEvent::Remarked {
                    attempt: AttemptNumber(0),
                    kind,
                    text: text.clone(),
                    count,
                },
            )]);
        }
        Shown::new(script, (200, 60))
    };
    assert!(!remarked(0).press("\n").frame().contains("remarks on its lines"));
    let shown = remarked(1).press("\n").frame();
    assert!(
        shown.contains("remarks on its lines")
            && shown.contains("attempt 0: `lr` must be a number"),
        "{shown}"
    );
    let mut shown = remarked(2).press("\n");
    for _ in 0..2 {
        let frame = shown.frame();
        assert_eq!(frame.matches("`lr` must be a number").count(), 1, "{frame}");
        assert!(frame.contains("attempt 0: 2 times in this attempt: `lr` must"), "{frame}");
    }
    let shown = remarked(1).press("6").frame();
    assert!(shown.contains("trial 0  `lr` must be a number"), "{shown}");
}

#[test]
fn no_size_and_no_key_makes_drawing_panic() {
    let screens = "3⇲|4→⇲|4←↓||?⇲|\n⇲|\no⇱|S|r⇲→→|6v⇱|s↓|c |ex|/x|a学";
    let script = mixed();
    // Each screen has a seventh of the sizes: every width, every height.
    let widths = [1, 2, 5, 10, 20, 33, 40, 60, 79, 97, 300];
    for (column, width) in widths.into_iter().enumerate() {
        for (row, height) in [1, 2, 3, 5, 8, 10, 15, 16, 17, 31, 70].into_iter().enumerate() {
            for keys in screens.split('|').skip((column + 3 * row) % 7).step_by(7) {
                Shown::new(script.clone(), (width, height)).press(keys);
            }
        }
    }
}

/// Also where it takes more lines than there are.
#[test]
fn what_to_do_at_the_end_of_a_message_is_shown_on_a_narrow_screen() {
    for (size, reasons) in [(SMALL, 2), ((60, 20), 2), ((60, 20), 30)] {
        let mut shown = Shown::new(Script::new(&spec()), size);
        let reason = "the request was refused, since the runner does not answer; ".repeat(reasons);
        shown.state.notice = Some(format!("{reason}`hpsearch resume digits` starts it"));
        let frame = shown.frame();
        let lines = frame.lines().map(|line| line.trim_matches(['"', ' ']));
        let words = lines.collect::<Vec<_>>().join(" ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("`hpsearch resume digits` starts it"), "{frame}");
        assert!(words.contains("the request was refused, since"), "{frame}");
    }
}

/// Trial 5 runs, by a process of another machine.
#[test]
fn the_time_of_an_open_attempt_is_sorted_by_as_it_is_shown() {
    let mut shown = Shown::new(mixed(), (160, 50));
    shown.state.sort = SortKey::Seconds;
    shown.state.reverse = true;
    shown.load();
    let first = shown.state.seen.page.rows.first().map(|row| row.key);
    assert_eq!(first, Some(shown.key(5)), "{}", shown.frame());
}

#[test]
fn a_removed_study_says_so_and_does_not_run() {
    for size in [SMALL, (60, 20), (160, 50)] {
        let mut shown = Shown::new(mixed(), size);
        assert!(shown.frame().contains("running"));
        shown.state.lose(at(shown.script.clock + 3));
        let mut shown = shown.press("↓");
        let frame = shown.frame();
        assert!(frame.lines().next().unwrap_or_default().contains("removed"), "{frame}");
        let words: Vec<&str> =
            frame.split(['"', '\n', ' ']).filter(|word| !word.is_empty()).collect();
        let words = words.join(" ");
        assert!(words.contains("`digits-baseline` was removed from the store"), "{frame}");
        assert!(words.contains("q leaves") && !frame.contains("running"), "{frame}");
        assert!(!frame.contains("about"), "it is not forecast: {frame}");
    }
}

#[test]
fn values_that_differ_look_different_and_what_is_not_one_is_not_shown_as_one() {
    let mut script = Script::new(&spec());
    for (number, value) in (0..).zip([0.912_341_2, 0.912_341_6, 0.999_999_96, 0.5]) {
        script.start(number, params(1e-3, 2, "adamw"));
        script.report(number, &[value]);
        script.end(number, AttemptEnd::Completed, Some(value), None);
    }
    for size in [SMALL, (60, 20), (160, 50)] {
        let frame = Shown::new(script.clone(), size).frame();
        for value in ["0.912341", "0.912342", "0.99999996", "0.500000"] {
            assert_eq!(frame.matches(&format!(" {value} ")).count(), 1, "{value}: {frame}");
        }
    }
}
