//! The wording of numbers, durations, states and parameter values, shared by reporters, screens and
//! tables.

use std::collections::BTreeSet;
use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::Span;

pub use crate::config::shown::{drives_a_terminal, one_line};
use crate::storage::StudySummary;
use crate::study::budget::Extension;
use crate::study::counted::count;
use crate::study::device::Slot;
use crate::study::event::AttemptEnd;
use crate::study::front::Front;
use crate::study::metric::{ColumnDigits, significant};
use crate::study::params::{Params, Value};
use crate::study::prediction::Prediction;
use crate::study::spec::{FailureCause, Objective, StudySpec, ValueRule};
use crate::study::state::{Counts, value_of};
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// A metric value alone, with five significant digits; `NaN`, `inf` and `-inf` by these names.
pub fn number(value: f64) -> String {
    ColumnDigits::default().text(value)
}

/// A parameter's value for a narrow column: four significant digits for reals, strings as they are,
/// unless they are very long.
pub fn param(value: &Value) -> String {
    match value {
        Value::Float(float) => significant(*float, 4),
        other => one_line(&other.shown()),
    }
}

/// A configuration in one line: `lr=0.01 optim=adamw`.
pub fn params(params: &Params) -> String {
    let pairs: Vec<String> =
        params.iter().map(|(name, value)| format!("{name}={}", param(value))).collect();
    one_line(&pairs.join(" "))
}

/// The origin of a trial's parameters, in words.
pub fn proposed(origin: &Origin) -> String {
    match origin {
        Origin::Sampled(sampler) => format!("proposed by {}", one_line(sampler)),
        Origin::Enqueued(index) => format!("enqueued as number {index}"),
        Origin::Asked => "enqueued on request".to_owned(),
        Origin::Imported(source) => format!("imported from {}", one_line(source)),
        Origin::Replicate(of) => format!("trial {of} on another seed"),
        Origin::Repeat(of) => format!("proposed again, as trial {of}"),
        Origin::Race { of, round, .. } => format!("trial {of} in round {} of the race", round + 1),
        Origin::Tracked(_) => "tracked".to_owned(),
    }
}

/// The values predicted of a proposal: `eval_loss 0.41 (0.35 to 0.47)`; `None` if none are.
pub fn predictions(spec: &StudySpec, predicted: &[Prediction]) -> Option<String> {
    let named = spec.objectives.iter().zip(predicted);
    let words: Vec<String> =
        named.map(|(objective, predicted)| prediction(objective, predicted)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// That of one objective: `eval_loss 0.41 (0.35 to 0.47)`.
pub fn prediction(objective: &Objective, predicted: &Prediction) -> String {
    let Prediction { median, low, high } = predicted;
    let [median, low, high] = [median, low, high].map(|value| significant(*value, 3));
    format!("{} {median} ({low} to {high})", one_line(&objective.metric))
}

/// Where a trial's parameters are from, and the values that were predicted of them.
pub fn proposed_with(spec: &StudySpec, origin: &Origin, predicted: &[Prediction]) -> String {
    match predictions(spec, predicted) {
        Some(values) => format!("{}, predicted {values}", proposed(origin)),
        None => proposed(origin),
    }
}

/// A parameter's value as TOML writes it: exact, strings quoted.
pub fn toml_value(value: &Value) -> String {
    match value {
        Value::Bool(flag) => toml::Value::Boolean(*flag).to_string(),
        Value::Int(int) => toml::Value::Integer(*int).to_string(),
        Value::Float(float) if float.is_finite() => format!("{float:?}"),
        Value::Float(float) => toml::Value::Float(*float).to_string(),
        Value::Text(text) => toml_text(text),
        Value::List(list) => {
            let elements: Vec<String> = list.iter().map(toml_value).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Null => "{ none = true }".to_owned(),
    }
}

/// A string as TOML writes it, always on one line: it may be a key.
pub fn toml_text(text: &str) -> String {
    let written = toml::Value::String(text.to_owned()).to_string();
    let has_lines = ["\"\"\"", "'''"].iter().any(|quotes| written.starts_with(quotes));
    if !has_lines && !text.chars().any(drives_a_terminal) {
        return written;
    }
    let mut written = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => written.extend(['\\', char]),
            '\n' => written.push_str("\\n"),
            '\t' => written.push_str("\\t"),
            _ if drives_a_terminal(char) => {
                written.push_str(&format!("\\u{:04X}", u32::from(char)))
            }
            _ => written.push(char),
        }
    }
    written.push('"');
    written
}

/// Trials by their numbers, the first few: `trial 3`, `trials 1, 4, 5`.
pub fn named_trials<'a>(trials: impl IntoIterator<Item = &'a TrialNumber>) -> String {
    const NAMED: usize = 10;
    let mut names: Vec<String> = trials.into_iter().map(ToString::to_string).collect();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let word = if names.len() == 1 { "trial" } else { "trials" };
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{word} {}{rest}", names.join(", "))
}

/// A key as TOML writes it: dotted names bare, anything else quoted.
pub fn toml_key(name: &str) -> String {
    let bare = |part: &str| {
        !part.is_empty()
            && part.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
    };
    if name.split('.').all(bare) { name.to_owned() } else { toml_text(name) }
}

/// A duration in its two largest units: `0.4 s`, `31 s`, `2 min 05 s`, `1 h 04 min`, `3 d 4 h`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration < Duration::from_secs(10) && !duration.is_zero() {
        return format!("{:.1} s", duration.as_secs_f64());
    }
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Like [`duration`], in whole units: for estimates and running clocks, whose tenths would flicker.
pub fn rough_duration(rough: Duration) -> String {
    if rough < Duration::from_secs(10) { format!("{} s", rough.as_secs()) } else { duration(rough) }
}

/// How long ago something was, in its largest unit: `31 s ago`, `2 h ago`, `3 d ago`.
pub fn ago(since: Duration) -> String {
    let seconds = since.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Stored microseconds as a duration; negative ones count as none.
pub fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// What was added to a budget: "50 trials and 2 h 00 min".
pub fn extension(by: Extension) -> String {
    let parts = [
        (by.trials > 0).then(|| count(by.trials, "trial")),
        (!by.time.is_zero()).then(|| duration(by.time)),
        (by.device_hours > 0.0).then(|| format!("{} device-hours", number(by.device_hours))),
        (by.cost > 0.0).then(|| format!("a cost of {}", number(by.cost))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// The message about checkpoints that exceed `max_disk` although all are needed.
pub fn disk_exceeded(taken: u64, limit: u64) -> String {
    format!(
        "the checkpoints take {}, more than max_disk = {}, but trials that run or are paused need \
         them: raise `[checkpoints] max_disk`, or run fewer trials at a time",
        bytes(taken),
        bytes(limit)
    )
}

/// The slots of a run: `3 slots (cpu, cpu, cuda:0)`.
pub fn slots(slots: &[Slot]) -> String {
    let number = count(slots.len() as u64, "slot");
    let agents: BTreeSet<&str> = slots.iter().flat_map(|slot| slot.devices.agents()).collect();
    if slots.len() > MOST_NAMED && !agents.is_empty() {
        return format!("{number} of {}", count(agents.len() as u64, "agent"));
    }
    let devices: Vec<String> = slots.iter().map(|slot| slot.devices.to_string()).collect();
    format!("{number} ({})", devices.join(", "))
}

/// Slots of agents that are listed by their devices.
const MOST_NAMED: usize = 16;

/// Columns a text takes on a terminal.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text in at most `columns` columns; truncation is marked by `mark` (`…`, or `~` in ASCII).
pub fn shorten(text: &str, columns: usize, mark: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(width(mark)) else {
        return String::new();
    };
    let mut kept = String::new();
    let mut used = 0;
    for grapheme in Span::raw(text).styled_graphemes(Style::default()) {
        used += width(grapheme.symbol);
        if used > room {
            break;
        }
        kept.push_str(grapheme.symbol);
    }
    kept.push_str(mark);
    kept
}

/// A size with one decimal, in the largest unit not exceeding it: `512 B`, `4.0 KiB`, `1.5 GiB`.
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if size < 1024 {
        return format!("{size} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut amount = size as f64 / 1024.0;
    let mut unit = 0;
    // 1024.0 is shown as one of the next unit.
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// `1 study`, `3 studies`.
pub fn study_count(studies: u64) -> String {
    if studies == 1 { "1 study".to_owned() } else { format!("{studies} studies") }
}

/// The message about skipped configurations.
pub fn skipped(configurations: u64, reason: &str) -> String {
    format!("{} skipped: {reason}", count(configurations, "configuration"))
}

/// The message for a remark on a trial's lines.
pub fn remarked(text: &str, times: u64) -> String {
    if times == 1 { text.to_owned() } else { format!("{times} times in this attempt: {text}") }
}

/// The non-zero numbers of trials by state, with the given word for `running`; `None` without
/// trials.
pub fn states(mut counts: Counts, running: &str) -> Option<String> {
    let part = |state: TrialState| {
        let word = if state == TrialState::Running { running } else { state.as_str() };
        Some(*counts.of(state))
            .filter(|trials| *trials > 0)
            .map(|trials| format!("{trials} {word}"))
    };
    let parts: Vec<String> = TrialState::ALL.into_iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The same for a study; tracked runs that are paused were interrupted.
pub fn states_of(spec: &StudySpec, mut counts: Counts, running: &str) -> Option<String> {
    if !spec.is_tracked() {
        return states(counts, running);
    }
    let interrupted = std::mem::take(&mut counts.paused);
    let interrupted = (interrupted > 0).then(|| format!("{interrupted} interrupted"));
    let parts: Vec<String> = [states(counts, running), interrupted].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The word for a trial's state: a tracked run that is paused was interrupted.
pub fn state_word(trial: &Trial) -> &'static str {
    match (trial.state, &trial.origin) {
        (TrialState::Paused, Origin::Tracked(_)) => "interrupted",
        (state, _) => state.as_str(),
    }
}

/// The word in a table of trials: a complete trial that violates a limit ranks below all others,
/// whatever its value.
pub fn state_cell(trial: &Trial) -> &'static str {
    match (trial.state, trial.violation) {
        (TrialState::Complete, Some(_)) => "infeasible",
        _ => state_word(trial),
    }
}

/// The name of a tracked run, if it has one.
pub fn run_name(trial: &Trial) -> Option<&str> {
    trial.origin.tracked().and_then(|run| run.name.as_deref())
}

/// The text if a study has no best trial; several studies are taken together.
pub fn no_best<'a>(counts: Counts, specs: impl IntoIterator<Item = &'a StudySpec>) -> String {
    let mut constraints = specs.into_iter().flat_map(|spec| &spec.constraints);
    let has_limits = constraints.any(|constraint| constraint.limit().is_some());
    match (counts.complete, has_limits) {
        (0, _) => "no complete trial yet".to_owned(),
        (1, true) => {
            "the one complete trial has no value (NaN), violates a limit, or is hidden".to_owned()
        }
        (1, false) => "the one complete trial has no value (NaN), or is hidden".to_owned(),
        (complete, true) => format!(
            "none of {complete} complete trials has a value and satisfies all limits, or those are \
             hidden"
        ),
        (complete, false) => format!(
            "none of {complete} complete trials has a value (NaN), or those that have are hidden"
        ),
    }
}

/// The value of a trial to compare with others: its value if complete, else its last report, or the
/// mean of its reports where that is a trial's value.
pub fn shown_value(spec: &StudySpec, trial: &Trial) -> Option<f64> {
    trial.value.or_else(|| match spec.value {
        ValueRule::Mean => value_of(spec.value, spec.direction(), trial),
        ValueRule::Last | ValueRule::Best => trial.last().map(|(_, value)| value),
    })
}

/// The value of a trial for a table cell, or in parentheses the last report of one that is not
/// complete.
pub fn value_cell(trial: &Trial, digits: ColumnDigits) -> String {
    if !trial.values.is_empty() {
        return values(&trial.values);
    }
    if !trial.vectors.is_empty() {
        return format!("({})", known_values(trial));
    }
    match (trial.value, trial.last()) {
        (Some(value), _) => digits.text(value),
        (None, Some((_, last))) => format!("({})", digits.text(last)),
        (None, None) => String::new(),
    }
}

/// The digits of a column of such cells.
pub fn value_digits<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> ColumnDigits {
    let value = |trial: &Trial| trial.value.or_else(|| trial.last().map(|(_, last)| last));
    ColumnDigits::of(trials.into_iter().filter_map(value))
}

/// The names of a study's objectives.
pub fn metric_names(spec: &StudySpec) -> String {
    spec.objectives.iter().map(|one| one_line(&one.metric)).collect::<Vec<_>>().join(", ")
}

/// What a study searches: `minimize eval_loss`, or several of these.
pub fn goal(spec: &StudySpec) -> String {
    let words = |objective: &Objective| {
        format!("{} {}", objective.direction.as_str(), one_line(&objective.metric))
    };
    spec.objectives.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// The values of several objectives, in their order.
pub fn values(values: &[f64]) -> String {
    values.iter().map(|value| number(*value)).collect::<Vec<_>>().join(", ")
}

/// What is known of the values of several objectives; `?` for one that was not reported yet.
pub fn known_values(trial: &Trial) -> String {
    let known = trial.known_values().into_iter();
    known.map(|value| value.map_or("?".to_owned(), number)).collect::<Vec<_>>().join(", ")
}

/// The value of one of several objectives for a table cell: in parentheses if the trial is not
/// complete.
pub fn objective_cell(trial: &Trial, index: usize, digits: ColumnDigits) -> String {
    if let Some(value) = trial.values.get(index) {
        return digits.text(*value);
    }
    let known = trial.known_values().get(index).copied().flatten();
    known.map_or_else(String::new, |value| format!("({})", digits.text(value)))
}

/// The digits of a column of such cells.
pub fn objective_digits<'a>(
    trials: impl IntoIterator<Item = &'a Trial>,
    index: usize,
) -> ColumnDigits {
    let value = |trial: &Trial| trial.known_values().get(index).copied().flatten();
    ColumnDigits::of(trials.into_iter().filter_map(value))
}

/// The result of a trial so far with its metric, or with those of several objectives; `None` if it
/// reported nothing.
pub fn result(spec: &StudySpec, trial: &Trial) -> Option<String> {
    if !spec.has_several_objectives() {
        let value = trial.value.or_else(|| trial.last().map(|(_, value)| value))?;
        return Some(format!("{} {}", one_line(&spec.objective().metric), number(value)));
    }
    let known = trial.known_values();
    if known.is_empty() {
        return None;
    }
    let named = spec.objectives.iter().zip(known).filter_map(|(objective, value)| {
        Some(format!("{} {}", one_line(&objective.metric), number(value?)))
    });
    Some(named.collect::<Vec<_>>().join(", "))
}

/// A front in a few words: `8 trials on the front, hypervolume 6.57, reference point (0.4, 21)`.
pub fn front_in_words(front: &Front) -> String {
    let volume = match front.hypervolume {
        Some(volume) => {
            let reference = values(&front.reference);
            format!(", hypervolume {}, reference point ({reference})", number(volume))
        }
        None if front.reference.is_empty() => String::new(),
        None => ", no hypervolume: a value is infinite, or it takes too long".to_owned(),
    };
    front_size(front) + &volume
}

/// The same with its compromise, in words that fit a line. A hypervolume says little without its
/// reference point.
pub fn front_in_width(front: &Front, columns: usize) -> String {
    let size = front_size(front);
    let knee = front.knee.map(|knee| format!("; trial {knee} is its compromise"));
    let knee = knee.unwrap_or_default();
    let longest = [front_in_words(front) + &knee, size.clone() + &knee].into_iter();
    longest.into_iter().find(|text| width(text) <= columns).unwrap_or(size)
}

fn front_size(front: &Front) -> String {
    format!("{} on the front", count(front.trials.len() as u64, "trial"))
}

/// Which of the best trials can be exported with their models, if any can.
pub fn exportable(kept: &[TrialNumber]) -> Option<String> {
    let first = kept.first()?;
    let numbers = kept.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let have = if kept.len() == 1 { "trial {} has" } else { "trials {} have" };
    let have = have.replace("{}", &numbers);
    Some(format!(
        "of the best trials, {have} a checkpoint: export one with \
         `--trial {first}`"
    ))
}

/// How an attempt ended, in words.
pub fn attempt_end(end: Option<&AttemptEnd>) -> &'static str {
    match end {
        None => "running",
        Some(AttemptEnd::Completed) => "completed",
        Some(AttemptEnd::Paused) => "paused",
        Some(AttemptEnd::Stopped) => "pruned",
        Some(AttemptEnd::Interrupted) => "interrupted",
        Some(AttemptEnd::Lost) => "lost",
        Some(AttemptEnd::Refused) => "refused by the machine",
        Some(AttemptEnd::Diverged) => "diverged",
        Some(AttemptEnd::Failed(FailureCause::Oom)) => "out of memory",
        Some(AttemptEnd::Failed(FailureCause::DeviceLost)) => "device lost",
        Some(AttemptEnd::Failed(FailureCause::WorkerLost)) => "process lost",
        Some(AttemptEnd::Failed(FailureCause::Timeout)) => "out of time",
        Some(AttemptEnd::Failed(FailureCause::Program | FailureCause::Exit(_))) => "failed",
    }
}

/// Whether the holder of a study's lease is alive, as determined by the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderLife {
    /// Alive, or on another host where that is unknown.
    Alive,
    /// Dead, without releasing the lease.
    Dead,
}

/// A study's state in one word, for `ls` and the leaderboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyStatus {
    /// Never run.
    New,
    /// A process runs it.
    Running,
    /// Its user paused it; a runner may be active, but starts nothing.
    Paused,
    /// Its runner died; running it again continues.
    Interrupted,
    /// It contains tracked runs, none of them running.
    Idle,
    /// Its runner exited before the end; running it again continues.
    Stopped,
    /// Its budget is exhausted, or its goal reached.
    Finished,
    /// It is finished because too many trials failed; or some failed, and none completed or was
    /// pruned.
    Failed,
}

impl StudyStatus {
    /// The state of a study, given the liveness of its lease's holder.
    pub fn new(summary: &StudySummary, life: HolderLife) -> Self {
        if summary.spec.is_tracked() {
            // It was made with its first run: without runs they were removed.
            return match summary.counts.running {
                0 => StudyStatus::Idle,
                _ => StudyStatus::Running,
            };
        }
        match (&summary.held, life) {
            (None, _) if summary.has_lapsed && summary.counts.running > 0 => {
                StudyStatus::Interrupted
            }
            // It runs until its trials have left their slots.
            (Some(_), HolderLife::Alive)
                if summary.paused.is_none() || summary.counts.running > 0 =>
            {
                StudyStatus::Running
            }
            // It did not pause its trials.
            (Some(_), HolderLife::Dead) if summary.counts.running > 0 => StudyStatus::Interrupted,
            _ if summary.paused.is_some() => StudyStatus::Paused,
            (Some(_), HolderLife::Alive) => StudyStatus::Running,
            _ if summary.finished.is_some()
                && (summary.too_many_failures || summary.counts.only_fail()) =>
            {
                StudyStatus::Failed
            }
            _ if summary.finished.is_some() => StudyStatus::Finished,
            (Some(_), HolderLife::Dead) => StudyStatus::Interrupted,
            (None, _) if summary.has_lapsed => StudyStatus::Interrupted,
            (None, _) if summary.counts.total() == 0 => StudyStatus::New,
            (None, _) => StudyStatus::Stopped,
        }
    }

    /// The word of `--json` and of the screens.
    pub fn as_str(self) -> &'static str {
        match self {
            StudyStatus::New => "new",
            StudyStatus::Running => "running",
            StudyStatus::Paused => "paused",
            StudyStatus::Interrupted => "interrupted",
            StudyStatus::Idle => "idle",
            StudyStatus::Stopped => "stopped",
            StudyStatus::Finished => "finished",
            StudyStatus::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance::small_study;
    use crate::storage::memory::MemoryStore;
    use crate::storage::{Storage as _, StorageReader as _};
    use crate::study::metric::Direction;
    use crate::study::time::Timestamp;

    #[test]
    fn a_study_whose_lease_has_lapsed_is_interrupted() {
        let mut store = MemoryStore::new();
        let study =
            store.create_study(Timestamp(1), &small_study("s", Direction::Minimize)).unwrap();
        let mut summary = store.summary(study).unwrap();
        assert_eq!(StudyStatus::new(&summary, HolderLife::Dead), StudyStatus::New);
        summary.has_lapsed = true;
        assert_eq!(StudyStatus::new(&summary, HolderLife::Dead), StudyStatus::Interrupted);
        summary.counts.running = 1;
        assert_eq!(StudyStatus::new(&summary, HolderLife::Dead), StudyStatus::Interrupted);
        summary.has_lapsed = false;
        assert_eq!(StudyStatus::new(&summary, HolderLife::Dead), StudyStatus::Stopped);
    }

    #[test]
    fn numbers_keep_five_significant_digits_and_special_values_their_names() {
        let cases = [
            (0.184_213_7, "0.18421"),
            (12.0, "12"),
            (0.999_999_9, "0.9999999"),
            (1.0, "1"),
            (123_456.7, "123457"),
            (1.5e-7, "1.5e-7"),
            (-2.5e9, "-2.5e9"),
            (9_999_999.9, "1e7"),
            (0.0, "0"),
            (-0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::MIN_POSITIVE, "2.2251e-308"),
        ];
        for (value, said) in cases {
            assert_eq!(number(value), said);
        }
    }

    #[test]
    fn toml_texts_are_one_line_and_read_back_whatever_they_hold() {
        let texts = [
            "plain",
            "it's",
            "a \"b\"",
            "back\\slash",
            "two\nlines",
            "\u{1b}[31mred\u{7f}\u{0}\t",
            "\u{202e}turned\u{2028}",
            "'\u{27}\u{27}\"\"\"\n",
        ];
        for text in texts {
            let written = toml_text(text);
            let table: toml::Table = format!("{} = {written}", toml_key(text))
                .parse()
                .unwrap_or_else(|error| panic!("{written}: {error}"));
            assert_eq!(table.get(text).and_then(toml::Value::as_str), Some(text), "{written}");
            assert!(!written.chars().any(drives_a_terminal), "{written}");
        }
    }

    #[test]
    fn durations_are_said_in_their_two_largest_units() {
        let cases = [
            (0, "0 s"),
            (4, "4.0 s"),
            (31, "31 s"),
            (125, "2 min 05 s"),
            (3_840, "1 h 04 min"),
            (273_600, "3 d 4 h"),
        ];
        for (seconds, said) in cases {
            assert_eq!(duration(Duration::from_secs(seconds)), said);
        }
        assert_eq!(duration(Duration::from_millis(420)), "0.4 s");
        assert_eq!(rough_duration(Duration::from_millis(4_420)), "4 s");
    }

    #[test]
    fn sizes_are_said_in_the_largest_unit_of_which_there_is_one() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (1_610_612_736, "1.5 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ];
        for (size, said) in cases {
            assert_eq!(bytes(size), said);
        }
    }

    #[test]
    fn shortening_counts_columns_not_characters() {
        assert_eq!(shorten("学習率の探索", 7, "…"), "学習率…");
        assert_eq!(shorten("学習率の探索", 12, "…"), "学習率の探索");
        assert_eq!(shorten("learning_rate", 8, "~"), "learnin~");
        assert_eq!(shorten("learning_rate", 0, "…"), "");
    }

    #[test]
    fn keys_and_values_are_toml() {
        assert_eq!(toml_key("model.num_layers"), "model.num_layers");
        assert_eq!(toml_key("two words"), "\"two words\"");
        assert_eq!(toml_value(&Value::Float(1.0)), "1.0");
        assert_eq!(toml_value(&Value::Text("a\"b".into())), "'a\"b'");
        assert_eq!(toml_value(&vec!["a", "b"].into()), "[\"a\", \"b\"]");
        assert_eq!(toml_value(&Value::Null), "{ none = true }");
    }
}
