//! A report on studies, read from the store without its private parts.

mod images;
mod table;

use std::collections::BTreeSet;
use std::path::Path;

use super::AppError;
use super::compared;
use super::curves::Detail;
use super::figures::{FigureError, FigureKind, FigureOptions, figures, thin};
use super::last_values::take_logged;
use super::page::{
    BestOf, BestPart, Fact, FrontAnswer, StoppedGroup, StoppedPart, answer, rules, space, stopped,
    used,
};
use super::study_state::state_in;
use super::verify::{VerifyError, verify, what_was_decided};
use super::worker_job::OnProgress;
use crate::report::document::images::ReportImages;
use crate::report::document::privacy::{Privacy, PrivatePart, PublicText};
use crate::report::document::{
    BestResult, BestRow, Document, FrontTable, ReportFigure, StoppedRow, StudySection,
};
use crate::report::wording::{
    front_in_words, number, objective_cell, objective_digits, one_line, param, state_word,
    value_cell, value_digits,
};
use crate::runner;
use crate::storage::any::AnyReader;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::counted::count;
use crate::study::metric::ColumnDigits;
use crate::study::params::Params;
use crate::study::provenance::{Provenance, SourceFile};
use crate::study::query::{SortKey, TrialQuery};
use crate::study::state::shown_params;
use crate::study::trial::{Trial, TrialNumber};

/// What a report is to contain.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// The private parts that are told.
    pub include: Vec<PrivatePart>,
    /// Further trials of each study that get a page, besides the best.
    pub trials: Vec<Vec<TrialNumber>>,
    /// The most bytes of all images together; 0: none is shown.
    pub image_bytes: u64,
    /// Names and directories of this machine, which are private.
    pub machine: (Vec<String>, Vec<String>),
}

/// The trials that get a page: the best.
const PAGES: usize = 100;
/// The rows of a table in a text.
const BEST: usize = 20;
/// The rows of a front.
const FRONT: usize = 50;
/// Larger studies are not verified for a report.
const MOST_VERIFIED: u64 = 2_000;
/// Lines and points of curves, so that a report stays small.
const CURVES: usize = 60;
const COLUMNS: u16 = 120;
/// Figures of all trials have about this many points: more are larger, and show no more.
const MOST_POINTS: usize = 6_000;

/// Figures of one kind: slices have one for each parameter.
const MOST_OF_A_KIND: usize = 8;

/// A report on some studies; `store` is the store's path.
///
/// # Errors
/// The store failed.
pub fn report(
    reader: &AnyReader,
    store: &Path,
    studies: &[StudySummary],
    options: &ReportOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<Document, AppError> {
    let privacy =
        Privacy::new(options.include.iter().copied(), options.machine.clone(), reader, studies)?;
    let scope = Scope { reader, store, privacy: &privacy };
    let mut sections = Vec::new();
    let mut images = ReportImages::with_limit(options.image_bytes);
    for (index, study) in studies.iter().enumerate() {
        let named = options.trials.get(index).map_or(&[][..], Vec::as_slice);
        let images = (images.limit() / studies.len() as u64, &mut images);
        sections.push(scope.section(study, named, images, on_progress)?);
    }
    let alike = studies.iter().filter(|study| !study.spec.has_several_objectives());
    let alike: Vec<StudySummary> = alike.cloned().collect();
    let shared = match alike.len() {
        0 | 1 => Vec::new(),
        _ => scope.figures(&alike, &[FigureKind::Comparison, FigureKind::History])?,
    };
    let written = jiff::Timestamp::from_microsecond(runner::now().0)
        .map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let left_out = privacy.left_out().collect();
    Ok(Document { studies: sections, shared, written, left_out, images })
}

/// What all parts of a report need.
#[derive(Clone, Copy)]
struct Scope<'a> {
    reader: &'a AnyReader,
    store: &'a Path,
    privacy: &'a Privacy,
}

impl Scope<'_> {
    fn section(
        &self,
        study: &StudySummary,
        named: &[TrialNumber],
        (room, images): (u64, &mut ReportImages),
        on_progress: &mut OnProgress<'_>,
    ) -> Result<StudySection, AppError> {
        let (reader, privacy, spec) = (self.reader, self.privacy, &study.spec);
        let public = |text: &str| privacy.public(text);
        let mut trials = reader.trials(study.id, &TrialQuery::all(SortKey::Value))?;
        take_logged(reader, study, &mut trials)?;
        let visible: Vec<&Trial> = trials.iter().filter(|trial| !trial.hidden).collect();
        let found = answer(reader, study, privacy)?;
        let pages: Vec<&Trial> = visible
            .iter()
            .take(PAGES)
            .copied()
            .chain(trials.iter().filter(|trial| named.contains(&trial.number)))
            .collect();
        let images = self.images(study, (&pages, &visible), room, images)?;
        let table = self.table(study, &trials, &pages, &images)?;
        let best = &visible[..visible.len().min(BEST)];
        let names = match spec.is_tracked() {
            true => differing_params(best),
            false => {
                spec.space.dimensions().iter().map(|dimension| dimension.name.as_str()).collect()
            }
        };
        let digits: Vec<ColumnDigits> = match spec.has_several_objectives() {
            true => (0..spec.objectives.len())
                .map(|one| objective_digits(best.iter().copied(), one))
                .collect(),
            false => vec![value_digits(best.iter().copied())],
        };
        let name_of = |trial: &Trial| trial.origin.tracked()?.name.clone();
        let best_row = |trial: &&Trial| BestRow {
            number: trial.number.0,
            name: name_of(trial).map(|name| public(&one_line(&name))),
            state: state_word(trial),
            values: match spec.has_several_objectives() {
                true => {
                    let digits = digits.iter().enumerate();
                    digits.map(|(index, digits)| objective_cell(trial, index, *digits)).collect()
                }
                false => digits.iter().map(|digits| value_cell(trial, *digits)).collect(),
            },
            params: self.cells(&names, shown_params(spec, trial)),
        };
        let metrics = match spec.has_several_objectives() {
            true => spec.objectives.iter().map(|one| public(&one_line(&one.metric))).collect(),
            false => vec![PublicText::own_words("value")],
        };
        let compared = compared::read(reader, study)?;
        let space = space(study).into_iter().map(|param| {
            let [name, range] = [&param.name, &param.range].map(|text| public(text));
            [name, PublicText::own_words(param.kind), range, public(&param.condition)]
        });
        let mut tags = study.all_tags();
        tags.sort_unstable();
        let reason = study.finished.as_ref().or(study.paused.as_ref());
        Ok(StudySection {
            name: public(&one_line(&spec.name)),
            state: state_in(reader, study)?.as_str(),
            reason: reason.map(|reason| public(&one_line(reason))),
            question: public(&found.question),
            description: spec.description.as_deref().map(public),
            tags: tags.iter().map(|tag| public(tag)).collect(),
            notes: study.notes.iter().map(|note| (moment(note.at.0), public(&note.text))).collect(),
            answer: match &found.best {
                Some(best) => Ok(self.answer(study, best)),
                None => Err(public(&found.none.unwrap_or_default())),
            },
            spent: self.public_facts(used(reader, study)?),
            space: space.collect(),
            figures: self.figures(std::slice::from_ref(study), &kinds(&compared))?,
            stopped: self.stopped(stopped(reader, study)?),
            reproducibility: self.reproducibility(study, on_progress)?,
            metrics,
            best_params: names.iter().map(|name| public(&one_line(name))).collect(),
            best: best.iter().map(best_row).collect(),
            trials: u64::try_from(trials.len()).unwrap_or(u64::MAX),
            table,
        })
    }

    /// The values of parameters, in this order.
    fn cells(&self, names: &[&str], params: &Params) -> Vec<PublicText> {
        let cell = |name: &&str| params.get(name).map(param).unwrap_or_default();
        names.iter().map(|name| self.privacy.public(cell(name))).collect()
    }

    /// The front as a table.
    fn front(&self, study: &StudySummary, answer: &FrontAnswer) -> FrontTable {
        let spec = &study.spec;
        let names: Vec<&str> =
            spec.space.dimensions().iter().map(|dimension| dimension.name.as_str()).collect();
        let metrics = spec.objectives.iter().map(|objective| objective.metric.as_str());
        let heads = metrics.chain(names.iter().copied());
        let rows = answer.rows.iter().take(FRONT).map(|row| {
            let values = row.values.iter().map(|value| self.privacy.public(number(value.0)));
            (row.trial.0, values.chain(self.cells(&names, &row.params)).collect())
        });
        FrontTable {
            heads: heads.map(|head| self.privacy.public(one_line(head))).collect(),
            rows: rows.collect(),
            others: answer.rows.len().saturating_sub(FRONT) as u64,
        }
    }

    fn answer(&self, study: &StudySummary, best: &BestPart) -> BestResult {
        let public = |text: &str| self.privacy.public(text);
        let (beat, mut compared) = (&best.beat, Vec::new());
        let what = if beat.by_means { "configuration" } else { "trial" };
        let of_value = |title: String, BestOf { number: trial, value }: BestOf| {
            let mean = if beat.by_means { ", the mean of its runs in the search" } else { "" };
            format!("{title}: {} by trial {trial}{mean}", number(value.0))
        };
        let second = if beat.by_means { "second best configuration" } else { "second best" };
        compared.extend(beat.second.map(|second_best| of_value(second.to_owned(), second_best)));
        if let Some(median) = beat.median.filter(|_| beat.complete > 2) {
            let complete = count(beat.complete as u64, &format!("complete {what}"));
            compared.push(format!("median of {complete}: {}", number(median.0)));
        }
        compared.extend(beat.first.map(|first| of_value(format!("first complete {what}"), first)));
        let mut value = best.value.map_or_else(String::new, |value| number(value.0));
        if let Some(FrontAnswer { rows, .. }) = &best.front {
            let own = rows.first().map_or(&[][..], |row| &row.values);
            let named = study.spec.objectives.iter().zip(own);
            let named =
                named.map(|(one, value)| format!("{} {}", one_line(&one.metric), number(value.0)));
            value = named.collect::<Vec<_>>().join(", ");
            compared.extend(study.front.as_ref().map(front_in_words));
        }
        compared.extend(best.schedule.iter().map(|stage| format!("schedule: {stage}")));
        if best.schedule.len() > 1 {
            compared.push("the parameters below are those of the last stage".to_owned());
        }
        BestResult {
            metric: public(&best.metric),
            value: public(&value),
            front: best.front.as_ref().map(|front| self.front(study, front)),
            runs: best.interval.iter().chain(&best.race).map(|text| public(text)).collect(),
            trial: best.trial.0,
            is_run: study.spec.is_tracked(),
            name: best.name.as_deref().map(|name| public(&one_line(name))),
            compared: compared.iter().map(|line| public(line)).collect(),
            toml: public(best.toml.trim_end()),
            command: best.command.as_deref().map(public),
        }
    }

    fn public_facts(&self, facts: Vec<Fact>) -> Vec<(PublicText, PublicText)> {
        let public = |(title, text): Fact| (self.privacy.public(title), self.privacy.public(text));
        facts.into_iter().map(public).collect()
    }

    /// The figures of these kinds that have something to show.
    fn figures(
        &self,
        studies: &[StudySummary],
        kinds: &[FigureKind],
    ) -> Result<Vec<ReportFigure>, StorageError> {
        let options = FigureOptions {
            lines: CURVES,
            detail: Detail::Columns(COLUMNS),
            ..FigureOptions::default()
        };
        let mut found = Vec::new();
        for kind in kinds {
            let of_kind = match figures(self.reader, studies, *kind, &options) {
                Ok(figures) => figures,
                Err(FigureError::Storage(error)) => return Err(error),
                // The study has no such figure.
                Err(_) => continue,
            };
            for figure in of_kind.into_iter().take(MOST_OF_A_KIND) {
                let mut figure = figure.figure;
                // A point alone is in the table.
                let points: usize = figure.series.iter().map(|series| series.points.len()).sum();
                if points < 2 || figure.ranges().is_none() {
                    continue;
                }
                thin(&mut figure, MOST_POINTS);
                let figure = self.privacy.figure(figure);
                found.push(ReportFigure { figure, has_points: kind.is_chart() });
            }
        }
        Ok(found)
    }

    /// Trials that ended early, by kind of reason, the most frequent one first.
    fn stopped(&self, stopped: StoppedPart) -> Vec<StoppedRow> {
        let row = |group: StoppedGroup| {
            let (trial, reason) = &group.example;
            let example = reason.as_deref().map(|reason| format!("trial {trial}: {reason}"));
            StoppedRow {
                state: group.state.as_str(),
                why: self.privacy.public(group.why),
                trials: group.trials,
                example: self.privacy.public(example.unwrap_or_default()),
            }
        };
        stopped.groups.into_iter().map(row).collect()
    }

    fn reproducibility(
        &self,
        study: &StudySummary,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Vec<(PublicText, PublicText)>, AppError> {
        let (spec, privacy) = (&study.spec, self.privacy);
        let mut facts = self.public_facts(rules(study, privacy));
        if !spec.is_tracked() {
            let verified = self.verification(study, on_progress)?;
            facts.push((PublicText::own_words("verification"), privacy.public(verified)));
        }
        let runners = self.reader.runners(study.id)?;
        if runners.len() > 1 {
            let what = if spec.is_tracked() { "processes" } else { "times it was run" };
            facts.push((PublicText::own_words(what), privacy.public(runners.len().to_string())));
        }
        let best = match study.best_trial().filter(|_| spec.is_tracked()) {
            Some(best) => self.reader.attempts(study.id, Some(best))?.pop(),
            None => None,
        };
        let of_best = best.and_then(|best| {
            let runner = runners.iter().find(|runner| Some(runner.seq) == best.runner)?;
            Some((best.trial, runner.provenance.as_ref()?))
        });
        if let Some((best, provenance)) = of_best {
            let others = runners.iter().filter_map(|runner| runner.provenance.as_ref());
            let text =
                format!("those of run {best}, the best{}", others_in_words(provenance, others));
            facts.push((PublicText::own_words("program and machine"), privacy.public(text)));
        }
        let last = || runners.iter().rev().find_map(|runner| runner.provenance.as_ref());
        if let Some(provenance) = of_best.map(|(_, provenance)| provenance).or_else(last) {
            facts.extend(self.public_facts(privacy.facts(provenance)));
            if privacy.includes(PrivatePart::Changes)
                && let Some(changes) = provenance.diff()
                && let Some(text) = self.reader.document(&changes.digest)?
            {
                facts.push((PublicText::own_words("uncommitted changes"), privacy.public(text)));
            }
        }
        Ok(facts)
    }

    fn verification(
        &self,
        study: &StudySummary,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<String, AppError> {
        let name = one_line(&study.spec.name);
        if study.counts.total() > MOST_VERIFIED {
            return Ok(format!(
                "skipped because the study has too many trials: run `hpsearch verify {name}`"
            ));
        }
        Ok(match verify(self.reader, study, self.store, on_progress) {
            Ok(verified) => match &verified.difference {
                None => format!("{} repeat exactly", what_was_decided(&verified)),
                Some(difference) => format!(
                    "the stored {} differs from what is decided now: `hpsearch verify {name}`",
                    difference.what_in_words()
                ),
            },
            Err(VerifyError::App(error)) => return Err(error),
            Err(VerifyError::Engine(error)) => format!("not possible here: {error}"),
        })
    }
}

/// Most parameters of tracked runs in a table of a text.
const MOST_PARAMS: usize = 8;

/// The parameters that differ between runs, or those of the only one.
fn differing_params<'a>(runs: &[&'a Trial]) -> Vec<&'a str> {
    let names: BTreeSet<&str> =
        runs.iter().flat_map(|run| run.params.iter()).map(|(name, _)| name).collect();
    let differs = |name: &&str| {
        runs.len() == 1
            || runs.windows(2).any(|two| two[0].params.get(name) != two[1].params.get(name))
    };
    names.into_iter().filter(differs).take(MOST_PARAMS).collect()
}

/// How many of some processes had other code, programs, packages or machines than one of them.
fn others_in_words<'a>(
    own: &Provenance,
    all: impl Iterator<Item = &'a Provenance> + Clone,
) -> String {
    type IsOther = fn(&Provenance, &Provenance) -> bool;
    let parts: [(&str, IsOther); 4] = [
        ("other code", |one, other| one.code != other.code),
        ("another program", |one, other| {
            let files = |of: &Provenance| -> Vec<_> {
                let programs = of.files.iter().filter(|file| file.role == SourceFile::PROGRAM);
                programs.map(|file| (file.path.clone(), file.digest.clone())).collect()
            };
            files(one) != files(other)
        }),
        ("other packages", |one, other| one.packages != other.packages),
        ("another machine", |one, other| one.machine != other.machine),
    ];
    let counted = parts.iter().filter_map(|(what, is_other)| {
        let others = all.clone().filter(|other| is_other(own, other)).count();
        (others > 0).then(|| format!("{others} with {what}"))
    });
    let counted: Vec<String> = counted.collect();
    if counted.is_empty() {
        return String::new();
    }
    format!("; of {} processes, {}", all.count(), counted.join(", "))
}

/// The figures of a study, the most telling ones first.
fn kinds(study: &StudySummary) -> Vec<FigureKind> {
    use FigureKind::{
        Contour, Curves, Distribution, History, Hypervolume, Importance, Parallel, Pareto, Rungs,
        Slice, Timeline,
    };
    let has_space = !study.spec.space.dimensions().is_empty();
    let has_pruner = !study.spec.is_tracked() && study.spec.pruner.name != "none";
    let mut kinds = match study.spec.has_several_objectives() {
        true => vec![Pareto, Hypervolume, History, Curves],
        false => vec![History, Curves],
    };
    if has_space {
        kinds.extend([Importance, Parallel, Contour, Slice]);
    }
    if has_pruner {
        kinds.push(Rungs);
    }
    kinds.extend([Distribution, Timeline]);
    kinds
}

/// A time in UTC.
fn moment(micros: i64) -> String {
    let at = jiff::Timestamp::from_microsecond(micros);
    at.map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}
