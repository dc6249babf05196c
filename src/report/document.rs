//! A report on studies as plain data: what its HTML page and its Markdown text show.

pub mod html;
pub mod markdown;
pub mod privacy;

use privacy::{PrivatePart, Told, ToldFigure, ToldJson};

/// A report on one study or several.
#[derive(Clone, Debug)]
pub struct Document {
    /// The studies, by name.
    pub studies: Vec<StudySection>,
    /// Figures of several studies on the same axes.
    pub shared: Vec<ToldFigure>,
    /// When it was written, in UTC.
    pub written: String,
    /// What was left out of it.
    pub left_out: Vec<PrivatePart>,
}

/// What a report tells of one study.
#[derive(Clone, Debug)]
pub struct StudySection {
    /// Its name.
    pub name: Told,
    /// Its state, and why it is over or paused.
    pub state: &'static str,
    /// Why it is over, or paused.
    pub reason: Option<Told>,
    /// What was searched for, in a sentence.
    pub question: Told,
    /// What its user wrote about it in the study file.
    pub description: Option<Told>,
    /// Its tags.
    pub tags: Vec<Told>,
    /// Its notes, oldest first, with their times.
    pub notes: Vec<(String, Told)>,
    /// The best trial, or why there is none.
    pub answer: Result<Answer, Told>,
    /// Budget and what was used of it, by title.
    pub spent: Vec<(Told, Told)>,
    /// The parameters: name, kind, values and when it is active.
    pub space: Vec<[Told; 4]>,
    /// Figures, the most telling ones first.
    pub figures: Vec<ToldFigure>,
    /// Trials that ended early, by kind of reason, the most frequent one first.
    pub stopped: Vec<StoppedRow>,
    /// Seed, algorithms, versions, code and verification, by title.
    pub reproducibility: Vec<(Told, Told)>,
    /// The best trials, for texts without a table to sort.
    pub best: Vec<BestRow>,
    /// The table of all trials, and the pages of some, for the script of the page.
    pub table: ToldJson,
    /// How many trials the table has.
    pub trials: u64,
}

/// The answer to a study's question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The metric.
    pub metric: Told,
    /// Its value.
    pub value: String,
    /// The mean of several runs with its interval, and the race, if there were any.
    pub runs: Vec<Told>,
    /// The trial.
    pub trial: u64,
    /// Whether it is a tracked run.
    pub is_run: bool,
    /// The name of a tracked run.
    pub name: Option<Told>,
    /// Where it stands among the others.
    pub compared: Vec<Told>,
    /// Its parameters as TOML.
    pub toml: Told,
    /// A command line that runs it again.
    pub command: Option<Told>,
}

/// Trials that ended early for the same kind of reason.
#[derive(Clone, Debug)]
pub struct StoppedRow {
    /// Their state.
    pub state: &'static str,
    /// Why, without the numbers of each.
    pub why: Told,
    /// How many.
    pub trials: u64,
    /// The newest of them, with its reason.
    pub example: Told,
}

/// One of the best trials.
#[derive(Clone, Debug)]
pub struct BestRow {
    /// Its number.
    pub number: u64,
    /// Its state.
    pub state: &'static str,
    /// Its value.
    pub value: String,
    /// Its parameters, in the order of the space.
    pub params: Vec<Told>,
}
