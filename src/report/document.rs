//! A report on studies as plain data: what its HTML page and its Markdown text show.

pub mod html;
pub mod images;
pub mod markdown;
pub mod privacy;

use images::ReportImages;
use privacy::{PrivatePart, PublicFigure, PublicJson, PublicText};

/// A figure of a report.
#[derive(Clone, Debug)]
pub struct ReportFigure {
    /// The figure.
    pub figure: PublicFigure,
    /// Whether the file has its points, too, so that a script can tell their values.
    pub has_points: bool,
}

/// A report on one study or several.
#[derive(Clone, Debug)]
pub struct Document {
    /// The studies, by name.
    pub studies: Vec<StudySection>,
    /// Figures of several studies on the same axes.
    pub shared: Vec<ReportFigure>,
    /// When it was written, in UTC.
    pub written: String,
    /// The private parts that were left out of it.
    pub left_out: Vec<PrivatePart>,
    /// The images on the pages of trials.
    pub images: ReportImages,
}

/// One study of a report.
#[derive(Clone, Debug)]
pub struct StudySection {
    /// Its name.
    pub name: PublicText,
    /// Its state, and why it is over or paused.
    pub state: &'static str,
    /// Why it is over, or paused.
    pub reason: Option<PublicText>,
    /// What was searched for, in a sentence.
    pub question: PublicText,
    /// What its user wrote about it in the study file.
    pub description: Option<PublicText>,
    /// Its tags.
    pub tags: Vec<PublicText>,
    /// Its notes, oldest first, with their times.
    pub notes: Vec<(String, PublicText)>,
    /// The best trial, or why there is none.
    pub answer: Result<BestResult, PublicText>,
    /// Budget and what was used of it, by title.
    pub spent: Vec<(PublicText, PublicText)>,
    /// The parameters: name, kind, values and when it is active.
    pub space: Vec<[PublicText; 4]>,
    /// Figures, the most telling ones first.
    pub figures: Vec<ReportFigure>,
    /// Trials that ended early, by kind of reason, the most frequent one first.
    pub stopped: Vec<StoppedRow>,
    /// Seed, algorithms, versions, code and verification, by title.
    pub reproducibility: Vec<(PublicText, PublicText)>,
    /// The names of the columns of values.
    pub metrics: Vec<PublicText>,
    /// The best trials, for texts without a table to sort.
    pub best: Vec<BestRow>,
    /// The names of the parameters in these rows.
    pub best_params: Vec<PublicText>,
    /// The table of all trials, and the pages of some, for the script of the page.
    pub table: PublicJson,
    /// How many trials the table has.
    pub trials: u64,
}

/// The answer to a study's question.
#[derive(Clone, Debug)]
pub struct BestResult {
    /// The metric.
    pub metric: PublicText,
    /// Its value; of several metrics each with its name.
    pub value: PublicText,
    /// The mean of several runs with its interval, and the race, if there were any.
    pub runs: Vec<PublicText>,
    /// The trial.
    pub trial: u64,
    /// Whether it is a tracked run.
    pub is_run: bool,
    /// The name of a tracked run.
    pub name: Option<PublicText>,
    /// The front that it is the compromise of, in a study of several objectives.
    pub front: Option<FrontTable>,
    /// Where it stands among the others.
    pub compared: Vec<PublicText>,
    /// Its parameters as TOML.
    pub toml: PublicText,
    /// A command line that runs it again.
    pub command: Option<PublicText>,
}

/// The front of several objectives as a table.
#[derive(Clone, Debug)]
pub struct FrontTable {
    /// The metrics, then the parameters.
    pub heads: Vec<PublicText>,
    /// The trials, the compromise first: the number, and a cell for each head.
    pub rows: Vec<(u64, Vec<PublicText>)>,
    /// How many further ones there are.
    pub others: u64,
}

/// Trials that ended early for the same kind of reason.
#[derive(Clone, Debug)]
pub struct StoppedRow {
    /// Their state.
    pub state: &'static str,
    /// Why, without the numbers of each.
    pub why: PublicText,
    /// Number of trials in the group.
    pub trials: u64,
    /// The newest of them, with its reason.
    pub example: PublicText,
}

/// One of the best trials.
#[derive(Clone, Debug)]
pub struct BestRow {
    /// Its number.
    pub number: u64,
    /// Its name, if it is a tracked run that has one.
    pub name: Option<PublicText>,
    /// Its state.
    pub state: &'static str,
    /// Its value, or one of each objective.
    pub values: Vec<String>,
    /// Its parameters, in the order of their names in the section.
    pub params: Vec<PublicText>,
}
