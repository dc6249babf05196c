//! A tracking server of MLflow, by its REST interface
//! (<https://mlflow.org/docs/latest/rest-api.html>; limits of `mlflow/utils/validation.py`).

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::Credentials;
use crate::report::wording::one_line;
use crate::study::params::Value;
use crate::study::series::SeriesAxis;
use crate::study::time::Timestamp;

/// Attempts of a request that the server temporarily rejects, and the waits between them.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// Maximum size of a response.
const LONGEST_ANSWER: u64 = 256 << 20;

/// Runs on a page.
const PAGE: u64 = 500;

/// Maximum number of characters of a name.
pub(super) const LONGEST_NAME: usize = 250;

/// The tag that identifies a run of hpsearch: store, study and trial.
pub(super) const RUN: &str = "hpsearch.run";

/// The tag with the number of a trial.
pub(super) const TRIAL: &str = "hpsearch.trial";

/// The tag with the axis of a study's steps.
pub(super) const CLOCK: &str = "hpsearch.clock";

/// The tag with the group of a run.
pub(super) const GROUP: &str = "hpsearch.group";

/// Tags with the original names of metrics and parameters that are renamed on the server, as JSON
/// objects; what exceeds one tag continues in `hpsearch.series.2` and so on.
pub(super) const SERIES: &str = "hpsearch.series";
pub(super) const PARAMS: &str = "hpsearch.params";

/// Prefix of user tags.
pub(super) const TAG: &str = "tag.";

/// Tags of MLflow's own.
pub(super) const NOTE: &str = "mlflow.note.content";
pub(super) const PARENT: &str = "mlflow.parentRunId";

/// Why a request failed.
pub(super) enum Refusal {
    /// The resource does not exist.
    Missing,
    /// The server rejects the request.
    Refused(String),
    /// It is unreachable, does not answer, is not an MLflow server, or requires credentials.
    Unavailable(String),
}

impl Refusal {
    /// In words.
    pub fn what(self) -> String {
        match self {
            Refusal::Missing => "the server has no such object".to_owned(),
            Refusal::Refused(what) | Refusal::Unavailable(what) => what,
        }
    }
}

/// A server.
pub(super) struct Server {
    agent: ureq::Agent,
    pub address: String,
    credentials: Credentials,
    patience: Duration,
}

impl Server {
    /// The server at an address, with a timeout for each response.
    pub fn new(address: &str, credentials: Credentials, patience: Duration) -> Server {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(patience))
            .http_status_as_error(false)
            .max_redirects(0)
            .build()
            .into();
        Server { agent, address: address.to_owned(), credentials, patience }
    }

    /// The response to an idempotent request, which is retried if the server is temporarily
    /// unavailable.
    pub fn ask(&self, method: &str, path: &str, body: &Json) -> Result<Json, Refusal> {
        self.try_to_ask(method, path, body, TRIES)
    }

    /// The response to a request that is not idempotent and therefore sent once.
    pub fn ask_once(&self, path: &str, body: &Json) -> Result<Json, Refusal> {
        self.try_to_ask("POST", path, body, 1)
    }

    pub fn post(&self, path: &str, body: &Json) -> Result<Json, Refusal> {
        self.ask("POST", path, body)
    }

    #[expect(clippy::disallowed_methods, reason = "it runs on a thread of its own")]
    fn try_to_ask(
        &self,
        method: &str,
        path: &str,
        body: &Json,
        most: u32,
    ) -> Result<Json, Refusal> {
        let address = format!("{}/api/2.0/mlflow/{path}", self.address);
        let mut tries = 0;
        loop {
            tries += 1;
            let last = match self.send(method, &address, body) {
                Ok((200..300, text)) => {
                    return serde_json::from_str(&text).map_err(|_| {
                        Refusal::Unavailable("its response is not MLflow's".to_owned())
                    });
                }
                Ok((404, text)) if text.contains("RESOURCE_DOES_NOT_EXIST") => {
                    return Err(Refusal::Missing);
                }
                Ok((status, text)) => {
                    let what = format!("it answered {path} with status {status}{}", said(&text));
                    match status {
                        429 | 500.. => what,
                        400 | 413 => return Err(Refusal::Refused(what)),
                        _ => return Err(Refusal::Unavailable(what)),
                    }
                }
                // A hanging server would hang again.
                Err(ureq::Error::Timeout(_)) => {
                    return Err(Refusal::Unavailable(format!(
                        "it did not answer {path} in {} s",
                        self.patience.as_secs()
                    )));
                }
                Err(error) => format!("it cannot be reached: {error}"),
            };
            if tries == most {
                return Err(Refusal::Unavailable(last));
            }
            std::thread::sleep(PAUSE * 2u32.pow(tries - 1));
        }
    }

    fn send(&self, method: &str, address: &str, body: &Json) -> Result<(u16, String), ureq::Error> {
        let authorization = self.credentials.authorization();
        let mut answer = if method == "GET" {
            let mut request = self.agent.get(address);
            if let Some(authorization) = authorization {
                request = request.header("Authorization", authorization);
            }
            for (name, value) in body.as_object().into_iter().flatten() {
                request = request.query(name, value.as_str().unwrap_or_default());
            }
            request.call()?
        } else {
            let mut request = self.agent.post(address).header("Content-Type", "application/json");
            if let Some(authorization) = authorization {
                request = request.header("Authorization", authorization);
            }
            request.send(body.to_string())?
        };
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(LONGEST_ANSWER);
        Ok((status, body.read_to_string()?))
    }

    /// Lists the runs of an experiment; `all`: deleted ones, too.
    pub fn runs(&self, experiment: &str, all: bool) -> Result<Vec<Json>, Refusal> {
        let view = if all { "ALL" } else { "ACTIVE_ONLY" };
        let body = json!({
            "experiment_ids": [experiment],
            "run_view_type": view,
            "max_results": PAGE,
        });
        self.pages("runs/search", body, "runs")
    }

    /// The rows of all pages of a response.
    pub fn pages(&self, path: &str, mut body: Json, rows: &str) -> Result<Vec<Json>, Refusal> {
        let mut all = Vec::new();
        loop {
            let mut answer = self.post(path, &body)?;
            if let Json::Array(page) = answer[rows].take() {
                all.extend(page);
            }
            let next = answer["next_page_token"].take();
            // A server that repeats a page token would cause an infinite loop.
            if next.as_str().is_none_or(str::is_empty) || next == body["page_token"] {
                return Ok(all);
            }
            body["page_token"] = next;
        }
    }
}

/// The server's error message, on one line.
fn said(text: &str) -> String {
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    let message = json["message"].as_str().unwrap_or_default();
    if message.is_empty() { String::new() } else { format!(": {}", one_line(&cut(message, 300))) }
}

/// The first characters of a text.
pub(super) fn cut(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}

/// The pairs of a run's metrics, parameters or tags.
pub(super) fn pairs<'a>(run: &'a Json, of: &str) -> impl Iterator<Item = (&'a str, &'a Json)> {
    let all = run["data"][of].as_array().into_iter().flatten();
    all.filter_map(|pair| Some((pair["key"].as_str()?, &pair["value"])))
}

/// A number from the server: some versions encode 64-bit integers and NaN as strings; infinities
/// are stored as the largest numbers.
pub(super) fn number(json: &Json) -> Option<f64> {
    let value = match json {
        Json::String(text) => match text.as_str() {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            text => text.parse().ok()?,
        },
        json => json.as_f64()?,
    };
    Some(match value {
        f64::MAX => f64::INFINITY,
        f64::MIN => f64::NEG_INFINITY,
        value => value,
    })
}

/// A time of the server, in milliseconds.
pub(super) fn moment(json: &Json) -> Option<Timestamp> {
    let millis = json.as_i64().or_else(|| json.as_str()?.parse().ok())?;
    (millis > 0).then(|| Timestamp(millis.saturating_mul(1_000)))
}

/// The parameter behind a text on the server.
pub(super) fn parameter(text: &str) -> Value {
    match text {
        "true" | "True" => return Value::Bool(true),
        "false" | "False" => return Value::Bool(false),
        "null" | "None" => return Value::Null,
        _ => {}
    }
    // `inf` and `nan` remain texts.
    if text.starts_with(|char: char| "+-.".contains(char) || char.is_ascii_digit()) {
        if let Ok(int) = text.parse::<i64>() {
            return Value::Int(int);
        }
        if let Some(float) = text.parse::<f64>().ok().filter(|float| float.is_finite()) {
            return Value::Float(float);
        }
    }
    let json = if text.starts_with('[') { serde_json::from_str(text).ok() } else { None };
    json.and_then(|json: Json| Value::from_json(&json)).unwrap_or_else(|| Value::Text(text.into()))
}

/// The axis named by a tag.
pub(super) fn axis(tag: Option<&str>) -> SeriesAxis {
    tag.and_then(SeriesAxis::from_word).unwrap_or(SeriesAxis::Step)
}

/// Splits the entries into JSON objects of at most `longest` characters; single entries that are
/// longer are skipped.
pub(super) fn objects(
    entries: impl Iterator<Item = (String, Json)>,
    longest: usize,
) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for (name, json) in entries {
        let entry = format!("{}:{json}", Json::from(name));
        let length = entry.chars().count();
        if length + 2 > longest {
            continue;
        }
        match texts.last_mut() {
            Some(last) if last.chars().count() + length < longest => {
                last.pop();
                last.push(',');
                last.push_str(&entry);
                last.push('}');
            }
            _ => texts.push(format!("{{{entry}}}")),
        }
    }
    texts
}

/// The entries of such objects, in the tags `name`, `name.2` and so on of a run.
pub(super) fn entries(run: &Json, name: &str) -> serde_json::Map<String, Json> {
    let is_part = |key: &str| {
        let rest = key.strip_prefix(name)?;
        rest.is_empty().then_some(()).or_else(|| {
            let number = rest.strip_prefix('.')?;
            number.chars().all(|char| char.is_ascii_digit()).then_some(())
        })
    };
    let texts = pairs(run, "tags").filter(|(key, _)| is_part(key).is_some());
    let parts = texts.filter_map(|(_, json)| serde_json::from_str(json.as_str()?).ok());
    parts.flat_map(|part: serde_json::Map<String, Json>| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_parameters_of_a_server_are_read_as_they_were_meant() {
        for (json, value) in [
            (json!(1.5), 1.5),
            (json!("7"), 7.0),
            (json!("Infinity"), f64::INFINITY),
            (json!(f64::MIN), f64::NEG_INFINITY),
        ] {
            assert_eq!(number(&json), Some(value));
        }
        assert!(number(&json!("NaN")).is_some_and(f64::is_nan));
        for (text, value) in [
            ("0.1", Value::Float(0.1)),
            ("1e-05", Value::Float(1e-5)),
            ("3", Value::Int(3)),
            ("True", Value::Bool(true)),
            ("None", Value::Null),
            ("[1, 2]", Value::List(vec![Value::Int(1), Value::Int(2)])),
            ("inf", Value::Text("inf".to_owned())),
            ("[a", Value::Text("[a".to_owned())),
            ("1.2.3", Value::Text("1.2.3".to_owned())),
        ] {
            assert_eq!(parameter(text), value, "{text}");
        }
    }

    #[test]
    fn entries_fit_into_tags_and_come_back() {
        let all = (0..50).map(|index| (format!("name {index}"), json!([index, "ä"])));
        let texts = objects(all.clone().chain([("x".repeat(200), Json::Null)]), 100);
        assert!(texts.len() > 5 && texts.iter().all(|text| text.chars().count() <= 100));
        let key = |index: usize| match index {
            0 => "a.b".to_owned(),
            index => format!("a.b.{}", index + 1),
        };
        let tags = texts.iter().enumerate();
        let tags: Vec<Json> =
            tags.map(|(index, text)| json!({ "key": key(index), "value": text })).collect();
        let back = entries(&json!({ "data": { "tags": tags } }), "a.b");
        assert_eq!(back, all.collect());
    }
}
