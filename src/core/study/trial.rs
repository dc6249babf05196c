//! One evaluation of a point of the space: its parameters, state, curve, attempts and end.

use serde::{Deserialize, Serialize};

use crate::study::checkpoint::Checkpoint;
use crate::study::decision::Decision;
use crate::study::device::Device;
use crate::study::metric::Metrics;
pub use crate::study::number::{AttemptNumber, TrialNumber};
use crate::study::params::Params;
use crate::study::time::Timestamp;
use crate::study::tracked::TrackedRun;

/// The largest step of reports, checkpoints and ends that is taken from anyone: that of a
/// store's integers.
pub const LARGEST_STEP: u64 = i64::MAX.unsigned_abs();

/// The step that a text means, up to [`LARGEST_STEP`].
pub fn step_of(text: &str) -> Option<u64> {
    text.parse().ok().filter(|step| *step <= LARGEST_STEP)
}

/// Where a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialState {
    /// Waits for a slot (new, or lost and to be run again).
    Queued,
    /// Has a slot.
    Running,
    /// Left with a checkpoint; may be resumed.
    Paused,
    /// Ended with a value.
    Complete,
    /// Stopped before its end; never resumed by the search.
    Pruned,
    /// Ended without a value.
    Failed,
}

impl TrialState {
    /// All states, in the order of a trial's life.
    pub const ALL: [TrialState; 6] = [
        TrialState::Queued,
        TrialState::Running,
        TrialState::Paused,
        TrialState::Complete,
        TrialState::Pruned,
        TrialState::Failed,
    ];

    /// The word of the store and of `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            TrialState::Queued => "queued",
            TrialState::Running => "running",
            TrialState::Paused => "paused",
            TrialState::Complete => "complete",
            TrialState::Pruned => "pruned",
            TrialState::Failed => "failed",
        }
    }

    /// The state of a word.
    pub fn from_word(word: &str) -> Option<TrialState> {
        TrialState::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Complete, pruned or failed.
    pub fn is_finished(self) -> bool {
        matches!(self, TrialState::Complete | TrialState::Pruned | TrialState::Failed)
    }
}

/// Where a trial's parameters came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Drawn by the sampler of this name.
    Sampled(String),
    /// The study's `[[enqueue]]` entry of this index.
    Enqueued(u64),
    /// The user, while the study was there: `hpsearch enqueue`.
    Asked,
    /// Another run, on another seed, of the configuration of that trial, which completed
    /// (`replicates`). No pruner judges it.
    Replicate(TrialNumber),
    /// The sampler proposed the configuration of that trial again (`duplicates = "replicate"`).
    Repeat(TrialNumber),
    /// The configuration of a finalist, in the race at the end. No pruner judges it.
    Race {
        /// The trial of the search with that configuration.
        of: TrialNumber,
        /// Which race of the study.
        race: u32,
        /// Which round: all that run in it have the same seed.
        round: u32,
    },
    /// Another tool's search, from which it was imported: the tool, its study and its number there.
    Imported(String),
    /// A run that no search proposed (`hpsearch track`).
    Tracked(Box<TrackedRun>),
}

impl Origin {
    /// The trial whose configuration this one runs again.
    pub fn configuration(&self) -> Option<TrialNumber> {
        match self {
            Origin::Replicate(of) | Origin::Repeat(of) | Origin::Race { of, .. } => Some(*of),
            Origin::Sampled(_)
            | Origin::Enqueued(_)
            | Origin::Asked
            | Origin::Imported(_)
            | Origin::Tracked(_) => None,
        }
    }

    /// What a tracked run is called and what it ran.
    pub fn tracked(&self) -> Option<&TrackedRun> {
        match self {
            Origin::Tracked(run) => Some(run),
            _ => None,
        }
    }

    /// Whether it is a run of a race.
    pub fn is_race(&self) -> bool {
        matches!(self, Origin::Race { .. })
    }

    /// Whether the pruner has a say, and counts it: runs that only measure a configuration more
    /// exactly go to their end.
    pub fn is_judged(&self) -> bool {
        !matches!(self, Origin::Replicate(_) | Origin::Race { .. })
    }
}

/// Who paused a trial, where it was not the pruner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Its user paused it: nobody but its user lets it continue.
    Trial,
    /// Its user paused the study: it continues with that.
    Study,
}

impl Hold {
    /// The word of the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Hold::Trial => "trial",
            Hold::Study => "study",
        }
    }

    /// The hold of a word.
    pub fn from_word(word: &str) -> Option<Hold> {
        [Hold::Trial, Hold::Study].into_iter().find(|hold| hold.as_str() == word)
    }
}

/// Something that someone wrote about a trial or a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Time of it.
    pub at: Timestamp,
    /// The text, as it was written.
    pub text: String,
}

/// A decision about a trial that was given at a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionAtStep {
    /// Step of the report it answers.
    pub step: u64,
    /// What was decided, and why.
    pub verdict: Decision,
}

/// What is known of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its number.
    pub number: TrialNumber,
    /// Its active parameters.
    pub params: Params,
    /// Where they came from.
    pub origin: Origin,
    /// Where it stands.
    pub state: TrialState,
    /// Its value: present exactly when complete. NaN is a value.
    pub value: Option<f64>,
    /// By how much it breaks the study's limits; `None` where it breaks none. Such a trial is never
    /// the best.
    pub violation: Option<f64>,
    /// The study's metric by step, ascending; a rerun's report replaces the same step's.
    pub curve: Vec<(u64, f64)>,
    /// All metrics of the last report.
    pub last_metrics: Metrics,
    /// Decisions given, in order of steps (a plain `continue` leaves none).
    pub decisions: Vec<DecisionAtStep>,
    /// Checkpoints that are still there, in order of steps.
    pub checkpoints: Vec<Checkpoint>,
    /// Attempts begun.
    pub attempts: u32,
    /// Attempts that ended in failure.
    pub failures: u32,
    /// Device of the last attempt.
    pub device: Option<Device>,
    /// Step where it is to pause, if it was resumed up to a rung.
    pub until: Option<u64>,
    /// Who paused it, if the pruner did not. A running trial that has it is about to pause.
    pub hold: Option<Hold>,
    /// What it had ended as before it was asked to continue past its end; `None` once it has ended
    /// again.
    pub continued: Option<TrialState>,
    /// Whether its user hid it: then it is never the best.
    pub hidden: bool,
    /// What its user wrote about it, in that order.
    pub notes: Vec<Note>,
    /// Its user's words for it, sorted.
    pub tags: Vec<String>,
    /// Why it is in its state, one sentence.
    pub reason: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When its current or last attempt began.
    pub started: Option<Timestamp>,
    /// When it finished.
    pub finished: Option<Timestamp>,
    /// Microseconds spent in attempts that have ended.
    pub busy_micros: i64,
}

impl Trial {
    /// A trial that waits for its first start.
    pub fn new(number: TrialNumber, params: Params, origin: Origin, created: Timestamp) -> Self {
        Trial {
            number,
            params,
            origin,
            state: TrialState::Queued,
            value: None,
            violation: None,
            curve: Vec::new(),
            last_metrics: Default::default(),
            decisions: Vec::new(),
            checkpoints: Vec::new(),
            attempts: 0,
            failures: 0,
            device: None,
            until: None,
            hold: None,
            continued: None,
            hidden: false,
            notes: Vec::new(),
            tags: Vec::new(),
            reason: None,
            created,
            started: None,
            finished: None,
            busy_micros: 0,
        }
    }

    /// Whether it rests where it was stopped, for good or until it is promoted, so that what it
    /// reported is all that is known of it.
    pub fn rests(&self) -> bool {
        self.state == TrialState::Pruned
            || self.state == TrialState::Paused && !self.curve.is_empty()
    }

    /// The last report of the study's metric.
    pub fn last(&self) -> Option<(u64, f64)> {
        self.curve.last().copied()
    }

    /// The checkpoint to continue from: the newest whose step was reported. One saved just before
    /// its report was lost with the runner would let that report be missing for ever.
    pub fn resumable_checkpoint(&self) -> Option<&Checkpoint> {
        let reported = self.last().map_or(0, |(step, _)| step);
        self.checkpoints.iter().rfind(|checkpoint| checkpoint.step <= reported)
    }

    /// The newest checkpoint that holds `step`, else the newest of all.
    pub fn checkpoint_of(&self, step: Option<u64>) -> Option<&Checkpoint> {
        self.checkpoints
            .iter()
            .rfind(|checkpoint| Some(checkpoint.step) == step)
            .or_else(|| self.checkpoints.last())
    }

    /// Whether it is paused and its pruner may let it continue: not where its user paused it.
    pub fn waits_for_its_pruner(&self) -> bool {
        self.state == TrialState::Paused && self.hold.is_none()
    }

    /// The decision given at `step`, if one was.
    pub fn decision_at(&self, step: u64) -> Option<&DecisionAtStep> {
        self.decisions.iter().find(|decision| decision.step == step)
    }

    /// The attempt that is running, or the last one.
    pub fn last_attempt(&self) -> Option<AttemptNumber> {
        self.attempts.checked_sub(1).map(AttemptNumber)
    }
}
