//! The table of a study's trials, and the pages of some, as compact JSON for the script of a page.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::Scope;
use crate::app::curves::{By, Detail, points, shown_axis};
use crate::app::log_tail::{self, LogTail};
use crate::app::page::{objectives, space};
use crate::report::document::privacy::{PrivatePart, PublicJson};
use crate::report::wording::{attempt_end, one_line, proposed};
use crate::storage::{StorageError, StorageReader, StudySummary, Summaries};
use crate::study::artifact::Artifact;
use crate::study::metric::Number;
use crate::study::params::Value;
use crate::study::series::step_json;
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::trial::{Trial, TrialNumber};

/// Columns of a curve on a trial's page.
const COLUMNS: u16 = 120;
/// Bytes of a log that are included, at its end.
const LOG_BYTES: u64 = 8 * 1024;

impl Scope<'_> {
    /// All trials, with the pages of some.
    pub(super) fn table(
        &self,
        study: &StudySummary,
        trials: &[Trial],
        pages: &[&Trial],
        images: &BTreeMap<TrialNumber, Json>,
    ) -> Result<PublicJson, StorageError> {
        let spec = &study.spec;
        let names = self.reader.trial_names(study.id)?;
        let dimensions = spec.space.dimensions();
        let searched = dimensions.iter().map(|dimension| dimension.name.as_str());
        let others = names.params.iter().map(String::as_str);
        let params: Vec<&str> =
            searched.chain(others.filter(|name| spec.space.dimension(name).is_none())).collect();
        let objective = &spec.objective().metric;
        let metrics: Vec<&str> =
            names.metrics.iter().map(String::as_str).filter(|metric| metric != objective).collect();
        let rows = trials.iter().map(|trial| row(spec, trial, &params, &metrics));
        let mut shown = Vec::new();
        let mut summaries = match pages {
            [] => Summaries::new(),
            _ => self.reader.trial_summaries(study.id)?,
        };
        for trial in pages {
            let is_known = |page: &Json| page["number"] == trial.number.0;
            if !shown.iter().any(is_known) {
                let summary = summaries.remove(&trial.number).unwrap_or_default();
                let mut page = self.page(study, trial, &summary)?;
                if let Some(images) = images.get(&trial.number) {
                    page["images"] = images.clone();
                }
                shown.push(page);
            }
        }
        let space = space(study);
        let param = |name: &&str| {
            let known = space.iter().find(|param| param.name == **name);
            json!({ "name": name, "ordered": known.is_none_or(|param| param.is_ordered) })
        };
        let mut table = json!({
            "study": spec.name,
            "metric": objective,
            "direction": spec.direction().as_str(),
            "step": spec.step.as_str(),
            "tracked": spec.is_tracked(),
            "best": study.best_trial().map(|number| number.0),
            "params": params.iter().map(param).collect::<Vec<_>>(),
            "metrics": metrics,
            "series": names.series,
            "trials": rows.collect::<Vec<_>>(),
            "pages": shown,
        });
        if let Some(front) = &study.front {
            table["objectives"] = json!(objectives(spec));
            table["front"] = json!(front.trials);
        }
        Ok(self.privacy.json(table))
    }

    fn page(
        &self,
        study: &StudySummary,
        trial: &Trial,
        summary: &BTreeMap<String, Json>,
    ) -> Result<Json, StorageError> {
        let reader = self.reader;
        let all = reader.series(study.id, &[trial.number])?;
        let metric = &study.spec.objective().metric;
        let axis = shown_axis(study, all.iter().filter(|series| series.metric == *metric));
        let detail = Detail::Columns(COLUMNS);
        let curve = points(reader, study, trial.number, (metric, axis), By::Step, detail)?;
        let curve: Vec<Json> = curve.iter().map(|(x, y)| json!([Number(*x), Number(*y)])).collect();
        let decisions = trial.decisions.iter().map(|decision| {
            json!([decision.step, decision.verdict.word(), decision.verdict.in_words()])
        });
        let attempts = reader.attempts(study.id, Some(trial.number))?.into_iter().map(|attempt| {
            json!([
                attempt.attempt.0,
                attempt.slot.devices.to_string(),
                attempt.started,
                attempt.ended,
                attempt_end(attempt.end.as_ref()),
                attempt.reason.as_deref().map(one_line),
            ])
        });
        let series = all.iter().map(|series| {
            let last = step_json(series.last);
            json!([
                series.metric,
                series.axis.as_str(),
                series.count,
                last,
                Number(series.last_value)
            ])
        });
        let artifacts = reader.artifacts(study.id, Some(trial.number))?.into_iter().map(|stored| {
            let Artifact { kind, bytes, step, .. } = &stored.artifact;
            json!([one_line(&stored.label()), kind.as_str(), bytes, step])
        });
        let notes = trial.notes.iter().map(|note| json!([note.at, note.text]));
        let mut page = json!({
            "number": trial.number,
            "origin": proposed(&trial.origin),
            "created": trial.created,
            "finished": trial.finished,
            "clock": axis.as_str(),
            "curve": curve,
            "decisions": decisions.collect::<Vec<_>>(),
            "attempts": attempts.collect::<Vec<_>>(),
            "series": series.collect::<Vec<_>>(),
            "summary": summary,
            "artifacts": artifacts.collect::<Vec<_>>(),
            "notes": notes.collect::<Vec<_>>(),
        });
        if self.privacy.includes(PrivatePart::Logs)
            && let Some(log) = self.log(study, trial)?
        {
            page["log"] = log.into();
        }
        Ok(page)
    }

    /// The end of the log of a trial's last attempt; `None`: there is none.
    fn log(&self, study: &StudySummary, trial: &Trial) -> Result<Option<String>, StorageError> {
        let Some(attempt) = trial.last_attempt() else { return Ok(None) };
        let path = log_tail::place(self.reader, study, self.store, (trial.number, attempt))?;
        // One that cannot be read is left out.
        let tail = LogTail::read(&path, attempt, LOG_BYTES).unwrap_or_default();
        Ok((!tail.lines.is_empty()).then(|| tail.lines.join("\n")))
    }
}

/// A trial as an array: the script of the page has the names of its elements.
#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
fn row(spec: &StudySpec, trial: &Trial, params: &[&str], metrics: &[&str]) -> Json {
    let last = trial.last();
    // Of several objectives the first has the place of the only one, as in filters of the program.
    let known = trial.known_values();
    let metric = |name: &&str| {
        let place = spec.objectives.iter().position(|objective| objective.metric == **name);
        let own = place.and_then(|place| known.get(place).copied().flatten());
        own.or_else(|| trial.last_metrics.get(name)).map(Number)
    };
    let run = trial.origin.tracked();
    // An empty object stands for an inactive parameter: null is a value.
    let value =
        |name: &&str| shown_params(spec, trial).get(name).map_or_else(|| json!({}), Value::to_json);
    let seconds = (trial.busy_micros as f64 / 1e4).round() / 100.0;
    let notes: Vec<&str> = trial.notes.iter().map(|note| note.text.as_str()).collect();
    json!([
        trial.number,
        trial.state,
        trial.value.or(trial.values.first().copied()).map(Number),
        last.map(|(step, _)| step),
        last.map(|(_, value)| Number(value)),
        seconds,
        trial.attempts,
        trial.failures,
        trial.devices.as_ref().map(ToString::to_string),
        trial.reason.as_deref().map(one_line),
        u8::from(trial.hidden),
        u8::from(trial.violation.is_some()),
        run.and_then(|run| run.name.as_deref()),
        run.and_then(|run| run.group.as_deref()),
        trial.tags,
        notes,
        params.iter().map(value).collect::<Vec<_>>(),
        metrics.iter().map(metric).collect::<Vec<_>>(),
    ])
}
