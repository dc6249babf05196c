//! The runs of a tracking server of MLflow, by its REST interface.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Format, ImportError, RecordedEnd, RecordedPoint, RecordedRun, ServerPlace};
use crate::report::wording::one_line;
use crate::study::params::Value;
use crate::study::series::SeriesAxis;
use crate::tracking::mlflow::{
    CLOCK, GROUP, NOTE, PARAMS, PARENT, RUN, Refusal, SERIES, Server, TAG, TRIAL, axis, entries,
    moment, number, pairs, parameter,
};

/// Timeout of a request; a page of a long history is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Points on a page.
const POINTS: &str = "20000";

/// Prefix of MLflow's own tags.
const INTERNAL: &str = "mlflow.";

/// Experiments of a server: identifiers and names.
pub struct Experiments {
    server: Server,
    experiments: Vec<(String, String)>,
}

impl Experiments {
    /// Queries a server for its experiments, or for the named one.
    ///
    /// # Errors
    /// It cannot be queried, or has none of that name.
    pub fn of(place: &ServerPlace) -> Result<Experiments, ImportError> {
        let server = Server::new(&place.address, place.credentials.clone(), PATIENCE);
        let body = json!({ "max_results": 1000, "view_type": "ACTIVE_ONLY" });
        let found = server.pages("experiments/search", body, "experiments");
        let found = found.map_err(|refusal| error(&server, refusal))?;
        let text = |json: &Json| json.as_str().map(str::to_owned);
        let named = found.iter().filter_map(|experiment| {
            Some((text(&experiment["experiment_id"])?, text(&experiment["name"])?))
        });
        let all: Vec<(String, String)> = named.collect();
        let mut experiments = all.clone();
        if let Some(wanted) = &place.experiment {
            experiments.retain(|(_, name)| name == wanted);
            if experiments.is_empty() {
                let names = all.iter().take(10).map(|(_, name)| format!("`{}`", one_line(name)));
                let known = names.collect::<Vec<_>>().join(", ");
                let what = format!("it has no experiment `{}`; it has {known}", one_line(wanted));
                return Err(error(&server, Refusal::Unavailable(what)));
            }
        }
        Ok(Experiments { server, experiments })
    }

    /// Calls `each` with every run, in order of their starts, parents before children.
    ///
    /// # Errors
    /// The server cannot be queried any more, or `each` failed.
    pub fn each<E: From<ImportError>>(
        &self,
        mut take: impl FnMut(RecordedRun) -> Result<(), E>,
    ) -> Result<(), E> {
        for (id, name) in &self.experiments {
            let runs = self.server.runs(id, false);
            let runs = runs.map_err(|refusal| error(&self.server, refusal))?;
            let sources = runs.iter().map(|run| (id_of(run).to_owned(), source(run)));
            let sources: BTreeMap<String, String> = sources.collect();
            for run in in_order(runs) {
                let read = self.read(&run, name, &sources);
                take(read.map_err(|refusal| error(&self.server, refusal))?)?;
            }
        }
        Ok(())
    }

    fn read(
        &self,
        run: &Json,
        experiment: &str,
        sources: &BTreeMap<String, String>,
    ) -> Result<RecordedRun, Refusal> {
        let (info, id) = (&run["info"], id_of(run));
        let tags: BTreeMap<&str, &str> =
            pairs(run, "tags").filter_map(|(key, value)| Some((key, value.as_str()?))).collect();
        let tag = |name: &str| tags.get(name).map(|value| (*value).to_owned());
        let is_own = tags.contains_key(RUN);
        let mut recorded = RecordedRun {
            source: source(run),
            project: Some(experiment.to_owned()),
            name: info["run_name"].as_str().map(str::to_owned),
            group: tag(GROUP),
            parent: tags.get(PARENT).and_then(|parent| sources.get(*parent)).cloned(),
            note: tag(NOTE).filter(|note| !note.trim().is_empty()),
            began: moment(&info["start_time"]),
            ended: moment(&info["end_time"]),
            end: match info["status"].as_str() {
                Some("FINISHED") => Some(RecordedEnd::Complete),
                Some("FAILED" | "KILLED") => Some(RecordedEnd::Failed(None)),
                _ => None,
            },
            ..RecordedRun::default()
        };
        if is_own {
            // A run without a name has its number as its name there.
            let number = tag(TRIAL).unwrap_or_default();
            let is_number = |name: &String| {
                ["run-", "trial-"].iter().any(|kind| name.strip_prefix(kind) == Some(&number))
            };
            recorded.name = recorded.name.filter(|name| !is_number(name));
        }
        take_tags(&mut recorded, &tags, is_own);
        take_params(&mut recorded, run);
        let steps = if is_own { axis(tags.get(CLOCK).copied()) } else { SeriesAxis::Step };
        let renamed = entries(run, SERIES);
        let names: BTreeSet<&str> = pairs(run, "metrics").map(|(key, _)| key).collect();
        for key in names {
            let known = renamed.get(key).and_then(|known| {
                Some((known[0].as_str()?, SeriesAxis::from_word(known[1].as_str()?)?))
            });
            let (metric, axis) = known.unwrap_or((key, steps));
            let points = self.history(id, key)?;
            recorded.series.insert((metric.to_owned(), axis), points);
        }
        Ok(recorded)
    }

    /// All points of a metric.
    fn history(&self, run: &str, metric: &str) -> Result<Vec<RecordedPoint>, Refusal> {
        let (mut points, mut page) = (Vec::new(), String::new());
        loop {
            let mut query = json!({ "run_id": run, "metric_key": metric, "max_results": POINTS });
            if !page.is_empty() {
                query["page_token"] = Json::from(page.as_str());
            }
            let answer = self.server.ask("GET", "metrics/get-history", &query)?;
            for point in answer["metrics"].as_array().into_iter().flatten() {
                // Zeros may be omitted.
                let of = |json: &Json| if json.is_null() { Some(0.0) } else { number(json) };
                let (Some(step), Some(value)) = (of(&point["step"]), of(&point["value"])) else {
                    continue;
                };
                let at = moment(&point["timestamp"]).unwrap_or_default();
                points.push(RecordedPoint { step, value, at });
            }
            let next = answer["next_page_token"].as_str().unwrap_or_default();
            if next.is_empty() || next == page {
                return Ok(points);
            }
            page = next.to_owned();
        }
    }
}

fn id_of(run: &Json) -> &str {
    run["info"]["run_id"].as_str().unwrap_or_default()
}

/// The source of a run: the server's identifier or, if hpsearch sent it, its own, which stays the
/// same when it is sent again.
fn source(run: &Json) -> String {
    let own = pairs(run, "tags").find(|(key, _)| *key == RUN).and_then(|(_, key)| key.as_str());
    format!("{}:{}", Format::MlFlow.as_str(), own.unwrap_or(id_of(run)))
}

fn error(server: &Server, refusal: Refusal) -> ImportError {
    ImportError::Server { address: server.address.clone(), what: refusal.what() }
}

/// Tags of hpsearch's own runs unchanged; of others `key` if the value adds nothing, else
/// `key/value`.
fn take_tags(recorded: &mut RecordedRun, tags: &BTreeMap<&str, &str>, is_own: bool) {
    for (key, value) in tags {
        recorded.tags.push(match key.strip_prefix(TAG) {
            Some(_) if is_own => (*value).to_owned(),
            _ if is_own || key.starts_with(INTERNAL) => continue,
            _ if value.is_empty() || value.eq_ignore_ascii_case("true") => (*key).to_owned(),
            _ => format!("{key}/{value}"),
        });
    }
}

fn take_params(recorded: &mut RecordedRun, run: &Json) {
    let changed = entries(run, PARAMS);
    for (key, text) in pairs(run, "params") {
        let known = changed.get(key);
        let known = known
            .and_then(|known| Some((known[0].as_str()?.to_owned(), Value::from_json(&known[1])?)));
        let (name, value) =
            known.unwrap_or_else(|| (key.to_owned(), parameter(text.as_str().unwrap_or_default())));
        recorded.params.insert(name, value);
    }
}

/// Runs by their starts, simultaneous ones of hpsearch by their numbers, but parents first.
fn in_order(mut runs: Vec<Json>) -> Vec<Json> {
    let number = |run: &Json| {
        let (_, number) = pairs(run, "tags").find(|(key, _)| *key == TRIAL)?;
        number.as_str()?.parse::<u64>().ok()
    };
    runs.sort_by_cached_key(|run| {
        (moment(&run["info"]["start_time"]), number(run), id_of(run).to_owned())
    });
    let ids = runs.iter().enumerate().map(|(index, run)| (id_of(run).to_owned(), index));
    let indices: BTreeMap<String, usize> = ids.collect();
    let parent = |index: usize| {
        let (_, parent) = pairs(&runs[index], "tags").find(|(key, _)| *key == PARENT)?;
        indices.get(parent.as_str()?).copied()
    };
    let (mut order, mut placed) = (Vec::new(), vec![false; runs.len()]);
    for index in 0..runs.len() {
        // A run and its ancestors, up to one that is placed already; cycles end, too.
        let mut chain = Vec::new();
        let mut next = Some(index);
        while let Some(index) = next.filter(|index| !placed[*index]) {
            placed[index] = true;
            chain.push(index);
            next = parent(index);
        }
        order.extend(chain.into_iter().rev());
    }
    order.into_iter().map(|index| std::mem::take(&mut runs[index])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_a_circle_comes_to_an_end() {
        let run = |id: &str, start: i64, parent: &str| {
            json!({
                "info": { "run_id": id, "start_time": start },
                "data": { "tags": [{ "key": PARENT, "value": parent }] },
            })
        };
        let ids = |runs: Vec<Json>| -> Vec<String> {
            in_order(runs).iter().map(|run| id_of(run).to_owned()).collect()
        };
        let runs = vec![run("c", 1, "b"), run("a", 3, ""), run("b", 2, "a"), run("d", 9, "gone")];
        assert_eq!(ids(runs), ["a", "b", "c", "d"]);
        let numbered = |id: &str, number: &str| {
            json!({
                "info": { "run_id": id, "start_time": 5 },
                "data": { "tags": [{ "key": TRIAL, "value": number }] },
            })
        };
        assert_eq!(ids(vec![numbered("a", "10"), numbered("b", "9")]), ["b", "a"]);
        assert_eq!(ids(vec![run("x", 2, "y"), run("y", 1, "x")]), ["x", "y"]);
    }
}
