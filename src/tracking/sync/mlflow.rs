//! Exports runs to an MLflow tracking server: an experiment for each study, a run for each trial.
//!
//! An outbox beside the store records how far each run has been sent. The target state is written
//! to it before anything is sent, and the server deduplicates repeated data: after a crash, the
//! next call sends the rest or, if data that may be there is outdated, deletes the run there and
//! sends it again. A tag with the number of points serves as a check: if the server has fewer or
//! others, it gets a new run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::outbox::{Outbox, Record, SentParam, SeriesName};
use super::run_file::{Rest, RunFileState, anew, continued};
use super::{Run, SyncError, Target};
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::series::{Point, SeriesAxis, SeriesSummary};
use crate::study::trial::{TrialNumber, TrialState};
use crate::tracking::mlflow::{
    CLOCK, GROUP, LONGEST_NAME, NOTE, PARAMS, PARENT, RUN, Refusal, SERIES, Server, TAG, TRIAL,
    cut, objects, pairs, parameter,
};

/// Timeout of a request: less than a run waits at its end.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// Maximum number of metrics in a request, and of parameters or tags.
const METRICS: usize = 1_000;
const ITEMS: usize = 100;

/// Maximum size of a request; the server accepts 1 MB.
const BYTES: usize = 900_000;

/// Maximum number of characters of a parameter's value, and of a tag's (lower in older servers).
const LONGEST_PARAM: usize = 6_000;
const LONGEST_TAG: usize = 5_000;

/// The tag with the number of points sent.
const SENT: &str = "hpsearch.sent";

/// A study's experiment on a server.
pub(super) struct MlFlow {
    server: Server,
    outbox: Outbox,
    experiment: String,
    /// The axis of the study's reports.
    axis: SeriesAxis,
    /// The store's identifier, from which run identifiers are derived.
    store: String,
    /// The runs on the server when it was first queried, until each is checked.
    listed: Option<BTreeMap<String, Vec<Listed>>>,
    looked_at: BTreeSet<TrialNumber>,
    /// Runs that were deleted there.
    deleted: BTreeSet<TrialNumber>,
}

/// A run on the server.
struct Listed {
    id: String,
    is_deleted: bool,
    /// Whether nothing was logged to it.
    is_blank: bool,
    /// Its number of points by its tag.
    sent: u64,
}

impl Listed {
    fn of(run: &Json) -> Option<(String, Listed)> {
        let tag = |name| pairs(run, "tags").find(|(key, _)| *key == name)?.1.as_str();
        let info = &run["info"];
        Some((
            tag(RUN)?.to_owned(),
            Listed {
                id: info["run_id"].as_str()?.to_owned(),
                is_deleted: info["lifecycle_stage"] == "deleted",
                is_blank: ["metrics", "params"].iter().all(|of| pairs(run, of).next().is_none()),
                sent: tag(SENT).and_then(|text| text.parse().ok()).unwrap_or(0),
            },
        ))
    }
}

impl MlFlow {
    pub fn new(server: Server, outbox: Outbox) -> Self {
        MlFlow {
            server,
            outbox,
            experiment: String::new(),
            axis: SeriesAxis::Step,
            store: String::new(),
            listed: None,
            looked_at: BTreeSet::new(),
            deleted: BTreeSet::new(),
        }
    }

    fn error(&self, refusal: Refusal) -> SyncError {
        SyncError::Server { address: self.server.address.clone(), what: refusal.what() }
    }

    /// The same for an error that concerns one run only.
    fn error_of(&self, run: &Run<'_>) -> impl Fn(Refusal) -> SyncError + use<> {
        let (address, run) = (self.server.address.clone(), run.name());
        move |refusal| match refusal {
            Refusal::Refused(what) => {
                SyncError::Refused { address: address.clone(), run: run.clone(), what }
            }
            other => SyncError::Server { address: address.clone(), what: other.what() },
        }
    }

    /// The study's experiment, created if there is none.
    fn experiment(&self, name: &str) -> Result<String, SyncError> {
        let query = json!({ "experiment_name": name });
        let said = match self.server.ask("GET", "experiments/get-by-name", &query) {
            Ok(mut answer) => {
                let experiment = answer["experiment"].take();
                if experiment["lifecycle_stage"] == "deleted" {
                    return Err(self.error(Refusal::Unavailable(format!(
                        "its experiment `{}` was deleted: restore it, or rename the study",
                        one_line(name)
                    ))));
                }
                experiment
            }
            Err(Refusal::Missing) => self
                .server
                .post("experiments/create", &json!({ "name": name }))
                .map_err(|refusal| self.error(refusal))?,
            Err(refusal) => return Err(self.error(refusal)),
        };
        said["experiment_id"].as_str().map(str::to_owned).ok_or_else(|| {
            self.error(Refusal::Unavailable(format!(
                "it names no experiment: {}",
                one_line(&said.to_string())
            )))
        })
    }

    fn key(&self, run: &Run<'_>) -> String {
        format!("{}/{}/{}", self.store, run.study.id.0, run.trial.number.0)
    }

    /// Compares the record of a run with the server's list; returns whether to write the run.
    fn look(&mut self, run: &Run<'_>, record: &mut Record) -> bool {
        let number = run.trial.number;
        if self.looked_at.insert(number) {
            let key = self.key(run);
            let listed = self.listed.as_mut().and_then(|listed| listed.remove(&key));
            let listed = listed.unwrap_or_default();
            if let Some(id) = &record.run {
                // Another one was sent by another address of the server.
                let is_replaced = listed.iter().any(|there| !there.is_deleted && there.id != *id);
                match listed.iter().find(|there| there.id == *id) {
                    Some(there) if there.is_deleted && is_replaced => {
                        record.run = None;
                        record.start_again();
                    }
                    Some(there) if there.is_deleted => drop(self.deleted.insert(number)),
                    Some(there) => {
                        let possible = record.sent.points()..=record.reached().points();
                        if record.reached().is_begun() && !possible.contains(&there.sent) {
                            record.start_again();
                        }
                    }
                    // The server lost it, or is a different one.
                    None => {
                        record.run = None;
                        record.start_again();
                    }
                }
            }
            for there in listed.into_iter().filter(|there| !there.is_deleted) {
                let known = record.run.as_ref().is_some_and(|id| *id == there.id);
                if record.run.is_none() && there.is_blank {
                    // It was created, but its id was not recorded.
                    record.run = Some(there.id);
                } else if !known && !record.obsolete.contains(&there.id) {
                    record.obsolete.push(there.id);
                }
            }
        }
        !self.deleted.contains(&number)
    }

    /// Creates a run. The request is not idempotent: if its response is lost, the server is queried
    /// for the run.
    fn create(&self, run: &Run<'_>, title: &str) -> Result<String, SyncError> {
        let key = self.key(run);
        let body = json!({
            "experiment_id": self.experiment,
            "start_time": run.began.0 / 1_000,
            "run_name": title,
            "tags": [{ "key": RUN, "value": key }],
        });
        let made = match self.server.ask_once("runs/create", &body) {
            Ok(mut answer) => answer["run"].take(),
            Err(refusal @ Refusal::Refused(_)) => return Err(self.error_of(run)(refusal)),
            Err(refusal) => {
                let filter = format!("tags.`{RUN}` = '{key}'");
                let body = json!({ "experiment_ids": [self.experiment], "filter": filter });
                let found = self.server.pages("runs/search", body, "runs");
                let found = found.map_err(|refusal| self.error(refusal))?;
                match found.into_iter().next() {
                    Some(run) => run,
                    None => return Err(self.error(refusal)),
                }
            }
        };
        let id = made["info"]["run_id"].as_str();
        id.map(str::to_owned).ok_or_else(|| {
            self.error(Refusal::Unavailable("its answer to runs/create names no run".to_owned()))
        })
    }

    /// Sends items of a kind in requests within the server's limits.
    fn batches(
        &self,
        run: &Run<'_>,
        id: &str,
        kind: &str,
        items: impl Iterator<Item = Json>,
    ) -> Result<(), SyncError> {
        let most = if kind == "metrics" { METRICS } else { ITEMS };
        let send = |batch: &mut Vec<Json>| {
            let body = json!({ "run_id": id, kind: std::mem::take(batch) });
            self.server.post("runs/log-batch", &body).map(drop).map_err(self.error_of(run))
        };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for item in items {
            let length = length(&item.to_string());
            if batch.len() == most || (bytes + length > BYTES && !batch.is_empty()) {
                send(&mut batch)?;
                bytes = 0;
            }
            bytes += length;
            batch.push(item);
        }
        if batch.is_empty() { Ok(()) } else { send(&mut batch) }
    }

    /// All tags of a run.
    fn tags(
        &self,
        run: &Run<'_>,
        record: &Record,
        params: &[SentParam],
    ) -> Result<BTreeMap<String, String>, SyncError> {
        let mut tags = BTreeMap::from([
            (RUN.to_owned(), self.key(run)),
            ("hpsearch.study".to_owned(), run.study.spec.name.clone()),
            (TRIAL.to_owned(), run.trial.number.0.to_string()),
            (CLOCK.to_owned(), self.axis.to_string()),
        ]);
        if !run.is_open() {
            tags.insert("hpsearch.state".to_owned(), run.trial.state.as_str().to_owned());
        }
        if let Some(tracked) = run.trial.origin.tracked() {
            tags.extend(tracked.group.clone().map(|group| (GROUP.to_owned(), group)));
            if let Some(parent) = tracked.parent {
                let parent = self.outbox.read(parent)?.run;
                tags.extend(parent.map(|parent| (PARENT.to_owned(), parent)));
            }
        }
        let notes: Vec<&str> = run.trial.notes.iter().map(|note| note.text.as_str()).collect();
        if !notes.is_empty() {
            tags.insert(NOTE.to_owned(), notes.join("\n\n"));
        }
        for tag in &run.trial.tags {
            let name = free(&format!("{TAG}{tag}"), |name| tags.contains_key(name));
            tags.insert(name, tag.clone());
        }
        let series = record
            .series
            .iter()
            .filter(|series| series.name != series.metric || series.axis != self.axis);
        let series =
            series.map(|known| (known.name.clone(), json!([known.metric, known.axis.as_str()])));
        let changed = params.iter().filter_map(|sent| {
            let value = run.trial.params.get(&sent.param)?;
            let is_plain = sent.name == sent.param && parameter(&sent.value) == *value;
            (!is_plain).then(|| (sent.name.clone(), json!([sent.param, value.to_json()])))
        });
        let parts =
            [(SERIES, objects(series, LONGEST_TAG)), (PARAMS, objects(changed, LONGEST_TAG))];
        for (name, texts) in parts {
            for (index, text) in texts.into_iter().enumerate() {
                let key =
                    if index == 0 { name.to_owned() } else { format!("{name}.{}", index + 1) };
                tags.insert(key, text);
            }
        }
        tags.values_mut().for_each(|value| *value = cut(value, LONGEST_TAG));
        Ok(tags)
    }

    /// Names series that are new there: the metric, with its axis where the metric has another
    /// one, too.
    fn name_series(&self, run: &Run<'_>, known: &mut Vec<SeriesName>) {
        for series in &run.series {
            let SeriesSummary { metric, axis, .. } = series;
            if known.iter().any(|known| known.metric == *metric && known.axis == *axis) {
                continue;
            }
            let has_plain = known.iter().any(|known| known.metric == *metric)
                || run.series.iter().any(|other| {
                    other.metric == *metric && other.axis == self.axis && *axis != self.axis
                });
            let wanted = if has_plain { format!("{metric} by {axis}") } else { metric.clone() };
            let name = free(&wanted, |name| known.iter().any(|known| known.name == name));
            known.push(SeriesName { metric: metric.clone(), axis: *axis, name });
        }
    }

    /// Sends what a run there lacks.
    fn send(
        &self,
        run: &Run<'_>,
        id: &str,
        record: &Record,
        before: &Before,
        rest: &Rest<'_>,
    ) -> Result<(), SyncError> {
        let params = record.params.iter().filter(|sent| !before.params.contains(sent));
        let params = params.map(|sent| json!({ "key": sent.name, "value": sent.value }));
        self.batches(run, id, "params", params)?;
        let of = |series: &SeriesSummary| {
            record
                .series
                .iter()
                .find(|known| known.metric == series.metric && known.axis == series.axis)
        };
        let points = rest.points.iter().filter_map(|(series, points)| Some((of(series)?, points)));
        let points = points
            .flat_map(|(known, points)| points.iter().map(|point| metric(&known.name, point)));
        self.batches(run, id, "metrics", points)?;
        let wanted = &before.wanted;
        let tags = wanted.iter().filter(|(key, value)| before.tags.get(*key) != Some(*value));
        let sent = record.reached().points().to_string();
        let tags = tags.chain([(&SENT.to_owned(), &sent)]).map(tag).collect::<Vec<_>>();
        self.batches(run, id, "tags", tags.into_iter())?;
        for key in record.tags.keys().filter(|key| !wanted.contains_key(*key)) {
            let body = json!({ "run_id": id, "key": key });
            match self.server.post("runs/delete-tag", &body) {
                Ok(_) | Err(Refusal::Missing) => {}
                Err(refusal) => return Err(self.error_of(run)(refusal)),
            }
        }
        let mut body = json!({ "run_id": id });
        if before.title != record.title {
            body["run_name"] = Json::from(record.title.as_str());
        }
        if rest.is_end {
            let at = run.trial.finished.unwrap_or(run.began).0 / 1_000;
            let is_failed = run.trial.state == TrialState::Failed;
            body["status"] = Json::from(if is_failed { "FAILED" } else { "FINISHED" });
            body["end_time"] = Json::from(at);
        }
        if body.as_object().is_some_and(|body| body.len() > 1) {
            self.server.post("runs/update", &body).map_err(self.error_of(run))?;
        }
        Ok(())
    }
}

/// What a run certainly has before an update, and its target tags.
struct Before {
    title: String,
    tags: BTreeMap<String, String>,
    params: Vec<SentParam>,
    wanted: BTreeMap<String, String>,
}

/// The points that may be missing there; `None`: data that may be there is outdated.
fn since<'a>(run: &'a Run<'_>, record: &Record) -> Result<Option<Rest<'a>>, StorageError> {
    let holds = |state: &RunFileState| continued(run, state);
    if let Some(pending) = &record.pending
        && holds(pending)?.is_none()
    {
        return Ok(None);
    }
    if record.sent.is_begun() { holds(&record.sent) } else { anew(run, 0).map(Some) }
}

/// The parameters of a run; `None`: one that may be there has changed.
fn params(run: &Run<'_>, known: &[SentParam]) -> Option<Vec<SentParam>> {
    let mut params: Vec<SentParam> = known.to_vec();
    for sent in known {
        let value = run.trial.params.get(&sent.param)?;
        if cut(&value.to_string(), LONGEST_PARAM) != sent.value {
            return None;
        }
    }
    for (param, value) in run.trial.params.iter() {
        if known.iter().any(|sent| sent.param == param) {
            continue;
        }
        let name = free(param, |name| params.iter().any(|sent| sent.name == name));
        let value = cut(&value.to_string(), LONGEST_PARAM);
        params.push(SentParam { param: param.to_owned(), name, value });
    }
    Some(params)
}

impl Target for MlFlow {
    fn begin(&mut self, reader: &dyn StorageReader, study: &StudySummary) -> Result<(), SyncError> {
        if self.listed.is_some() {
            return Ok(());
        }
        self.axis = study.spec.step.into();
        self.store = reader.identity()?.unwrap_or_default();
        self.experiment = self.experiment(&study.spec.name)?;
        let there = self.server.runs(&self.experiment, true);
        let there = there.map_err(|refusal| self.error(refusal))?;
        let mut listed: BTreeMap<String, Vec<Listed>> = BTreeMap::new();
        for (key, run) in there.iter().filter_map(Listed::of) {
            listed.entry(key).or_default().push(run);
        }
        self.listed = Some(listed);
        Ok(())
    }

    fn write(&mut self, run: &Run<'_>) -> Result<Option<u64>, SyncError> {
        let number = run.trial.number;
        let mut record = self.outbox.read(number)?;
        if !self.look(run, &mut record) {
            return Ok(None);
        }
        let mut rest = since(run, &record)?;
        let mut sent = params(run, &record.params);
        if rest.is_none() || sent.is_none() {
            // Points and parameters cannot be withdrawn: the run is created again.
            record.start_again();
            rest = since(run, &record)?;
            sent = params(run, &record.params);
        }
        let (Some(rest), Some(sent)) = (rest, sent) else { return Ok(None) };
        self.name_series(run, &mut record.series);
        let title = run.trial.origin.tracked().and_then(|tracked| tracked.name.clone());
        let title = cut(&title.unwrap_or_else(|| run.name()), LONGEST_NAME);
        let wanted = self.tags(run, &record, &sent)?;
        let is_whole = record.run.is_some() && record.pending.is_none();
        let is_said = record.title == title && record.tags == wanted && record.params == sent;
        let is_clean = record.obsolete.is_empty() && record.sent.is_begun();
        if is_whole && is_said && is_clean && rest.count() == 0 && !rest.is_end {
            return Ok(None);
        }
        if !record.obsolete.is_empty() {
            self.outbox.write(number, &record)?;
            for id in std::mem::take(&mut record.obsolete) {
                match self.server.post("runs/delete", &json!({ "run_id": id })) {
                    Ok(_) | Err(Refusal::Missing) => {}
                    Err(refusal) => return Err(self.error_of(run)(refusal)),
                }
            }
        }
        let id = match record.run.take() {
            Some(id) => id,
            None => {
                let id = self.create(run, &title)?;
                record.title.clone_from(&title);
                id
            }
        };
        record.run = Some(id.clone());
        let mut before = Before {
            title: std::mem::take(&mut record.title),
            tags: record.tags.clone(),
            params: std::mem::take(&mut record.params),
            wanted,
        };
        if record.pending.is_some() {
            // Data in flight may or may not have arrived: it is sent again.
            before = Before { wanted: before.wanted, ..Before::nothing() };
        }
        let mut after = rest.state.clone();
        after.take(run, &rest);
        record.pending = Some(after);
        (record.title, record.params) = (title, sent);
        record.tags.extend(before.wanted.iter().map(|(key, value)| (key.clone(), value.clone())));
        self.outbox.write(number, &record)?;
        self.send(run, &id, &record, &before, &rest)?;
        record.sent = record.pending.take().unwrap_or_default();
        record.tags = before.wanted;
        self.outbox.write(number, &record)?;
        Ok(Some(rest.count()))
    }

    fn left_alone(&self) -> u64 {
        self.deleted.len() as u64
    }
}

impl Before {
    fn nothing() -> Before {
        Before {
            title: String::new(),
            tags: BTreeMap::new(),
            params: Vec::new(),
            wanted: BTreeMap::new(),
        }
    }
}

/// The upper bound of a text's size in a request: JSON with all but ASCII escaped.
fn length(text: &str) -> usize {
    text.chars().map(|char| if char.is_ascii() { 1 } else { 6 * char.len_utf16() }).sum::<usize>()
        + 1
}

fn tag((key, value): (&String, &String)) -> Json {
    json!({ "key": key, "value": value })
}

/// A name that the server accepts: letters, digits, `_`, `-`, `.`, ` `, `:` and `/`, without `..`
/// components.
fn named(name: &str, longest: usize) -> String {
    let is_taken = |char: char| char.is_alphanumeric() || "_-. :/".contains(char);
    let name: String = name.chars().map(|char| if is_taken(char) { char } else { '_' }).collect();
    let parts: Vec<&str> = name.split('/').filter(|part| !["", ".", ".."].contains(part)).collect();
    let name = parts.join("/");
    cut(if name.trim().is_empty() { "_" } else { &name }, longest)
}

/// A unique name for a text there.
fn free(text: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let name = named(text, LONGEST_NAME);
    let numbered = |number: u64| {
        let end = format!("-{number}");
        named(text, LONGEST_NAME - end.len()) + &end
    };
    let mut names = std::iter::once(name).chain((2..).map(numbered));
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

/// A point: steps are integers there, moments milliseconds.
fn metric(key: &str, point: &Point) -> Json {
    let value = match point.value {
        value if value.is_nan() => json!("NaN"),
        value if value == f64::INFINITY => json!("Infinity"),
        value if value == f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    };
    #[expect(clippy::cast_possible_truncation, reason = "the server has whole steps")]
    let step = point.step as i64;
    json!({ "key": key, "value": value, "timestamp": point.at.0 / 1_000, "step": step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_those_that_the_server_takes_and_stay_distinct() {
        for (name, there) in [
            ("train/loss", "train/loss"),
            ("val acc@1", "val acc_1"),
            ("../../etc", "etc"),
            ("//a//", "a"),
            ("", "_"),
            ("größe", "größe"),
        ] {
            assert_eq!(named(name, LONGEST_NAME), there);
        }
        let mut taken = BTreeSet::new();
        for (name, there) in [("a@b", "a_b"), ("a#b", "a_b-2"), ("a_b", "a_b-3"), ("a/b", "a/b")] {
            let name = free(name, |name| taken.contains(name));
            assert_eq!(name, there);
            taken.insert(name);
        }
        let long = ["x".repeat(300), "x".repeat(301)];
        let first = free(&long[0], |_| false);
        let second = free(&long[1], |name| name == first);
        assert!(first != second && second.len() == LONGEST_NAME);
    }

    #[test]
    fn a_request_is_as_long_as_the_server_may_count() {
        assert_eq!(length("ab"), 3);
        assert_eq!(length("ä"), 7);
        assert_eq!(length("😀"), 13);
    }
}
