//! Runs on a tracking server of MLflow, by its REST interface: an experiment for each study, a run
//! for each trial (<https://mlflow.org/docs/latest/rest-api.html>; limits of
//! `mlflow/utils/validation.py`).
//!
//! What the server has is known from the server: a run is found by a tag with the names of the
//! store, the study and the trial, and a second tag says up to where its points are there. That is
//! written after them, and the server takes a point that is sent twice for one: whatever is killed
//! in between, the next call sends the same again.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::run_file::{self, Rest, State};
use super::{Run, SyncError, Target};
use crate::report::wording::one_line;
use crate::storage::{StorageReader, StudySummary};
use crate::study::series::{Point, SeriesClock, SeriesSummary};
use crate::study::trial::TrialState;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a request is sent that the server cannot serve just now, and how long is waited.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// Most metrics of a request.
const METRICS: usize = 1_000;

/// Most parameters or tags of a request.
const PARAMS: usize = 100;

/// Most characters of a parameter's value, and of a tag's.
const LONGEST_PARAM: usize = 6_000;
const LONGEST_TAG: usize = 5_000;

/// Most characters of a name.
const LONGEST_NAME: usize = 250;

/// The tag by which a run is found again.
const RUN: &str = "hpsearch.run";

/// The tag that says what is there.
const SENT: &str = "hpsearch.sent";

/// A study's experiment on a server.
pub(super) struct MlFlow {
    agent: ureq::Agent,
    address: String,
    authorization: Option<String>,
    experiment: String,
    clock: SeriesClock,
    /// The store's name, of which runs have theirs.
    store: String,
}

/// Why a request failed.
enum Refusal {
    /// What was asked for is not there.
    Missing,
    /// Anything else, in words.
    Other(String),
}

impl MlFlow {
    #[expect(
        clippy::disallowed_methods,
        reason = "secrets pass through as few hands as can be: they are read where they are sent"
    )]
    pub fn new(address: &str) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .build()
            .into();
        MlFlow {
            agent,
            address: address.to_owned(),
            authorization: authorization(|name| std::env::var(name).ok()),
            experiment: String::new(),
            clock: SeriesClock::Step,
            store: String::new(),
        }
    }

    /// The answer to a request that may be sent twice; one that the server cannot serve just now is.
    fn ask(&self, method: &str, path: &str, body: &Json) -> Result<Json, Refusal> {
        self.try_to_ask(method, path, body, TRIES)
    }

    /// The answer to a request that is sent so often at most.
    #[expect(
        clippy::disallowed_methods,
        reason = "it runs on a thread that has nothing else to do"
    )]
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
                        Refusal::Other("its answer is not that of MLflow".to_owned())
                    });
                }
                Ok((404, text)) if text.contains("RESOURCE_DOES_NOT_EXIST") => {
                    return Err(Refusal::Missing);
                }
                Ok((status, text)) if status == 429 || status >= 500 => {
                    format!("it answered {path} with status {status}{}", said(&text))
                }
                Ok((status, text)) => {
                    return Err(Refusal::Other(format!(
                        "it answered {path} with status {status}{}",
                        said(&text)
                    )));
                }
                Err(ureq::Error::Timeout(_)) => {
                    format!("it did not answer {path} in {} s", PATIENCE.as_secs())
                }
                Err(error) => format!("it cannot be reached: {error}"),
            };
            if tries == most {
                return Err(Refusal::Other(last));
            }
            std::thread::sleep(PAUSE * 2u32.pow(tries - 1));
        }
    }

    fn send(&self, method: &str, address: &str, body: &Json) -> Result<(u16, String), ureq::Error> {
        let mut answer = if method == "GET" {
            let mut request = self.agent.get(address);
            if let Some(authorization) = &self.authorization {
                request = request.header("Authorization", authorization);
            }
            for (name, value) in body.as_object().into_iter().flatten() {
                request = request.query(name, value.as_str().unwrap_or_default());
            }
            request.call()?
        } else {
            let mut request = self.agent.post(address).header("Content-Type", "application/json");
            if let Some(authorization) = &self.authorization {
                request = request.header("Authorization", authorization);
            }
            request.send(body.to_string())?
        };
        let status = answer.status().as_u16();
        Ok((status, answer.body_mut().read_to_string()?))
    }

    fn post(&self, path: &str, body: &Json) -> Result<Json, SyncError> {
        self.ask("POST", path, body).map_err(|refusal| self.error(refusal))
    }

    fn error(&self, refusal: Refusal) -> SyncError {
        let what = match refusal {
            Refusal::Missing => "what was asked for is not there".to_owned(),
            Refusal::Other(what) => what,
        };
        SyncError::Server { address: self.address.clone(), what }
    }

    /// The study's experiment, which is made where there is none.
    fn experiment(&self, name: &str) -> Result<String, SyncError> {
        let known = self.ask("GET", "experiments/get-by-name", &json!({ "experiment_name": name }));
        let (found, id) = match known {
            Ok(answer) => {
                let is_deleted = answer["experiment"]["lifecycle_stage"] == "deleted";
                if is_deleted {
                    return Err(self.error(Refusal::Other(format!(
                        "its experiment `{}` was deleted: restore it, or rename the study",
                        one_line(name)
                    ))));
                }
                (answer.clone(), answer["experiment"]["experiment_id"].clone())
            }
            Err(Refusal::Missing) => {
                let made = self.post("experiments/create", &json!({ "name": name }))?;
                (made.clone(), made["experiment_id"].clone())
            }
            Err(refusal) => return Err(self.error(refusal)),
        };
        id.as_str().map(str::to_owned).ok_or_else(|| {
            self.error(Refusal::Other(format!(
                "it names no experiment: {}",
                one_line(&found.to_string())
            )))
        })
    }

    /// The run as the server has it.
    fn find(&self, key: &str) -> Result<Option<Json>, SyncError> {
        let filter = format!("tags.`{RUN}` = '{key}'");
        let body =
            json!({ "experiment_ids": [self.experiment], "filter": filter, "max_results": 1 });
        Ok(self.post("runs/search", &body)?["runs"].get(0).cloned())
    }

    fn create(&self, run: &Run<'_>, key: &str) -> Result<String, SyncError> {
        let name = run.trial.origin.tracked().and_then(|tracked| tracked.name.clone());
        let name = name.unwrap_or_else(|| run.name());
        let mut tags = vec![
            json!({ "key": RUN, "value": key }),
            json!({ "key": "hpsearch.study", "value": run.study.spec.name }),
            json!({ "key": "hpsearch.trial", "value": run.trial.number.0.to_string() }),
        ];
        tags.extend(
            run.trial
                .tags
                .iter()
                .take(PARAMS - 4)
                .map(|tag| json!({ "key": format!("tag.{}", named(tag)), "value": "true" })),
        );
        let body = json!({
            "experiment_id": self.experiment,
            "start_time": run.began.0 / 1_000,
            "run_name": cut(&name, LONGEST_NAME),
            "tags": tags,
        });
        self.create_once(&body, key)
    }

    /// Makes a run. The request is not sent again, since each would make another one: where the answer
    /// is lost, the server is asked whether the run is there.
    fn create_once(&self, body: &Json, key: &str) -> Result<String, SyncError> {
        let made = match self.try_to_ask("POST", "runs/create", body, 1) {
            Ok(answer) => answer["run"].clone(),
            Err(refusal) => match self.find(key)? {
                Some(run) => run,
                None => return Err(self.error(refusal)),
            },
        };
        let id = made["info"]["run_id"].as_str();
        id.map(str::to_owned).ok_or_else(|| {
            self.error(Refusal::Other("its answer to runs/create names no run".to_owned()))
        })
    }

    /// The name of a series there: its metric, and its clock where the metric has another one, too.
    fn metric(&self, run: &Run<'_>, series: &SeriesSummary) -> String {
        let others = run.series.iter().filter(|other| other.metric == series.metric).count();
        if others == 1 || series.clock == self.clock {
            named(&series.metric)
        } else {
            named(&format!("{} by {}", series.metric, series.clock))
        }
    }

    fn points(&self, run: &Run<'_>, id: &str, rest: &Rest<'_>) -> Result<(), SyncError> {
        let mut metrics = Vec::with_capacity(METRICS);
        for (series, points) in &rest.points {
            let key = self.metric(run, series);
            for point in points {
                metrics.push(metric(&key, point));
                if metrics.len() == METRICS {
                    self.post("runs/log-batch", &json!({ "run_id": id, "metrics": metrics }))?;
                    metrics.clear();
                }
            }
        }
        if !metrics.is_empty() {
            self.post("runs/log-batch", &json!({ "run_id": id, "metrics": metrics }))?;
        }
        Ok(())
    }

    /// Parameters that the server lacks: those that are there cannot be changed.
    fn params(&self, run: &Run<'_>, id: &str, known: &Json) -> Result<(), SyncError> {
        let there = known["data"]["params"].as_array().into_iter().flatten();
        let mut there: BTreeSet<String> =
            there.filter_map(|param| param["key"].as_str().map(str::to_owned)).collect();
        let mut params = Vec::new();
        for (name, value) in run.trial.params.iter() {
            let name = named(name);
            if there.insert(name.clone()) {
                params
                    .push(json!({ "key": name, "value": cut(&value.to_string(), LONGEST_PARAM) }));
            }
        }
        for params in params.chunks(PARAMS) {
            self.post("runs/log-batch", &json!({ "run_id": id, "params": params }))?;
        }
        Ok(())
    }

    fn tag(&self, id: &str, key: &str, value: &str) -> Result<(), SyncError> {
        let body = json!({ "run_id": id, "key": key, "value": value });
        self.post("runs/set-tag", &body).map(drop)
    }
}

impl Target for MlFlow {
    fn begin(&mut self, reader: &dyn StorageReader, study: &StudySummary) -> Result<(), SyncError> {
        self.clock = study.spec.step.into();
        self.store = reader.identity()?.unwrap_or_default();
        self.experiment = self.experiment(&study.spec.name)?;
        Ok(())
    }

    fn write(&mut self, run: &Run<'_>) -> Result<u64, SyncError> {
        let key = format!("{}/{}/{}", self.store, run.study.id.0, run.trial.number.0);
        let mut known = self.find(&key)?.unwrap_or(Json::Null);
        let tags = known["data"]["tags"].as_array().into_iter().flatten();
        let sent = tags.clone().find(|tag| tag["key"] == SENT);
        let sent = sent.and_then(|tag| serde_json::from_str::<State>(tag["value"].as_str()?).ok());
        let Some(rest) = run_file::rest_of(run, sent.as_ref())? else { return Ok(0) };
        let mut id = known["info"]["run_id"].as_str().map(str::to_owned);
        if let (Some(old), true) = (&id, sent.is_some() && rest.is_new_generation(sent.as_ref())) {
            // Points cannot be taken back there: the run begins anew.
            self.post("runs/delete", &json!({ "run_id": old }))?;
            (id, known) = (None, Json::Null);
        }
        let id = match id {
            Some(id) => id,
            None => self.create(run, &key)?,
        };
        self.params(run, &id, &known)?;
        self.points(run, &id, &rest)?;
        let notes: Vec<&str> = run.trial.notes.iter().map(|note| note.text.as_str()).collect();
        if !notes.is_empty() {
            self.tag(&id, "mlflow.note.content", &cut(&notes.join("\n\n"), LONGEST_TAG))?;
        }
        if rest.is_end {
            self.tag(&id, "hpsearch.state", run.trial.state.as_str())?;
            let status = match run.trial.state {
                TrialState::Failed => "FAILED",
                _ => "FINISHED",
            };
            let at = run.trial.finished.unwrap_or(run.began).0 / 1_000;
            let body = json!({ "run_id": id, "status": status, "end_time": at });
            self.post("runs/update", &body)?;
        }
        let mut state = rest.state.clone();
        state.take(run, &rest);
        let state = serde_json::to_string(&state).unwrap_or_default();
        // A run with hundreds of metrics is sent whole each time: the tag has no room for them.
        if state.len() <= LONGEST_TAG {
            self.tag(&id, SENT, &state)?;
        }
        Ok(rest.count().max(1))
    }
}

/// What the environment says of who asks.
fn authorization(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(token) = set("MLFLOW_TRACKING_TOKEN") {
        return Some(format!("Bearer {token}"));
    }
    let user = set("MLFLOW_TRACKING_USERNAME")?;
    let password = set("MLFLOW_TRACKING_PASSWORD").unwrap_or_default();
    Some(format!("Basic {}", base64(format!("{user}:{password}").as_bytes())))
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap_or(0);
            out.push(if digit <= group.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    out
}

/// What a server says is wrong, on one line.
fn said(text: &str) -> String {
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    let message = json["message"].as_str().unwrap_or_default();
    if message.is_empty() { String::new() } else { format!(": {}", one_line(&cut(message, 300))) }
}

fn cut(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}

/// A name as the server takes it: letters, digits, `_`, `-`, `.`, ` `, `:` and `/`, and not a path that
/// leads elsewhere.
fn named(name: &str) -> String {
    let is_taken = |char: char| char.is_alphanumeric() || "_-. :/".contains(char);
    let name: String = name.chars().map(|char| if is_taken(char) { char } else { '_' }).collect();
    let parts: Vec<&str> = name.split('/').filter(|part| !["", ".", ".."].contains(part)).collect();
    let name = parts.join("/");
    cut(if name.trim().is_empty() { "_" } else { &name }, LONGEST_NAME)
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
#[expect(clippy::disallowed_methods, reason = "a server needs a thread of its own")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// A server that takes these requests in their order: the path of each, and the answer, if any.
    fn server(
        answers: &'static [(&'static str, Option<&'static str>)],
    ) -> (MlFlow, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            for (path, answer) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
                while !bytes.ends_with(b"}") {
                    let read = stream.read(&mut piece).unwrap();
                    assert!(read > 0);
                    bytes.extend(&piece[..read]);
                }
                let request = String::from_utf8(bytes).unwrap();
                assert!(request.starts_with(&format!("POST /api/2.0/mlflow/{path} ")), "{request}");
                if let Some(body) = answer {
                    let length = body.len();
                    write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                    )
                    .unwrap();
                }
            }
        });
        (MlFlow::new(&address), served)
    }

    #[test]
    fn a_run_whose_answer_was_lost_is_not_made_a_second_time() {
        let (target, served) = server(&[
            ("runs/create", None),
            ("runs/search", Some(r#"{"runs":[{"info":{"run_id":"first"}}]}"#)),
        ]);
        assert_eq!(target.create_once(&json!({}), "s/1/0").ok().as_deref(), Some("first"));
        served.join().unwrap();
        let (target, served) = server(&[("runs/create", None), ("runs/search", Some("{}"))]);
        assert!(target.create_once(&json!({}), "s/1/0").is_err());
        served.join().unwrap();
    }

    #[test]
    fn names_become_those_that_the_server_takes() {
        for (name, there) in [
            ("train/loss", "train/loss"),
            ("val acc@1", "val acc_1"),
            ("../../etc", "etc"),
            ("//a//", "a"),
            ("", "_"),
            ("größe", "größe"),
        ] {
            assert_eq!(named(name), there);
        }
    }

    #[test]
    fn who_asks_is_known_from_the_environment_alone() {
        let of = |variables: &[(&str, &str)]| {
            authorization(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("MLFLOW_TRACKING_TOKEN", "t")]).as_deref(), Some("Bearer t"));
        let both =
            [("MLFLOW_TRACKING_USERNAME", "Aladdin"), ("MLFLOW_TRACKING_PASSWORD", "open sesame")];
        // RFC 7617, section 2.
        assert_eq!(of(&both).as_deref(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    }
}
