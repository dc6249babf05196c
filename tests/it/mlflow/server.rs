//! A tracking server of MLflow in the test's own process: experiments, runs, parameters, tags and
//! metrics in memory, with the limits and refusals of the real one (`mlflow/utils/validation.py`,
//! `mlflow/store/tracking/sqlalchemy_store.py`), and with faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is closed before anything is done.
    Unheard,
    /// It is done, and the connection closed without an answer.
    LostAnswer,
    /// It is not done; this is answered.
    Status(u16),
    /// It is done if so, and nothing is answered, for as long as the server lives.
    Hang { done: bool },
}

/// A run there.
#[derive(Clone, Debug, Default)]
pub struct StoredRun {
    pub experiment: String,
    pub name: String,
    pub status: String,
    pub start: Json,
    pub end: Json,
    pub is_deleted: bool,
    pub params: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
    /// Key, moment, step and value.
    pub metrics: Vec<(String, i64, i64, String)>,
}

#[derive(Default)]
pub struct Content {
    pub experiments: BTreeMap<String, String>,
    pub runs: BTreeMap<String, StoredRun>,
    /// What was asked, in order.
    pub requests: Vec<String>,
    /// The words that are wanted in the header `Authorization`.
    pub password: Option<String>,
    /// Rows on a page at most.
    pub page: Option<usize>,
    pub hanging: usize,
    made: usize,
    fault: Option<(usize, String, Fault, bool)>,
    open: Vec<TcpStream>,
}

impl Content {
    /// The runs that are not deleted, by the tag with their trial's number.
    pub fn active(&self) -> BTreeMap<u64, StoredRun> {
        let runs = self.runs.values().filter(|run| !run.is_deleted);
        let all: Vec<_> =
            runs.map(|run| (run.tags["hpsearch.trial"].parse().unwrap(), run)).collect();
        let by_trial: BTreeMap<u64, StoredRun> =
            all.iter().map(|(trial, run)| (*trial, (*run).clone())).collect();
        assert_eq!(by_trial.len(), all.len(), "each run once");
        by_trial
    }

    /// The request number `after` (from 0) of those whose path contains `path` goes wrong, and all
    /// that follow where `lasts`.
    pub fn fail(&mut self, path: &str, after: usize, fault: Fault, lasts: bool) {
        self.fault = Some((after, path.to_owned(), fault, lasts));
    }

    pub fn heal(&mut self) {
        self.fault = None;
    }

    fn fault(&mut self, path: &str) -> Option<Fault> {
        let (after, of, fault, lasts) = self.fault.as_mut()?;
        if !path.contains(of.as_str()) {
            return None;
        }
        if *after > 0 {
            *after -= 1;
            return None;
        }
        let fault = fault.clone();
        if !*lasts {
            self.fault = None;
        }
        Some(fault)
    }
}

#[derive(Clone)]
pub struct Server {
    pub address: String,
    pub content: Arc<Mutex<Content>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let content = Arc::<Mutex<Content>>::default();
        let server = Server { address, content: Arc::clone(&content) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let content = Arc::clone(&content);
                std::thread::spawn(move || serve(stream, &content));
            }
        });
        server
    }

    pub fn destination(&self) -> String {
        format!("mlflow:{}", self.address)
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut Content) -> T) -> T {
        look(&mut self.content.lock().unwrap())
    }

    /// How often was asked for this.
    pub fn asked(&self, path: &str) -> usize {
        self.with(|content| content.requests.iter().filter(|it| it.contains(path)).count())
    }
}

fn serve(stream: TcpStream, content: &Mutex<Content>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    // A client that is killed says nothing any more.
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => authorization = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let path = path.strip_prefix("/api/2.0/mlflow/").unwrap_or("elsewhere").to_owned();
    let request =
        if method == "GET" { of_query(query) } else { serde_json::from_slice(&body).unwrap() };
    let mut content = content.lock().unwrap();
    content.requests.push(path.clone());
    let fault = content.fault(&path);
    if matches!(fault, Some(Fault::Unheard | Fault::Hang { done: false } | Fault::Status(_))) {
        match fault {
            Some(Fault::Status(status)) => {
                answer(&stream, status, &json!({ "message": "a fault" }))
            }
            Some(Fault::Hang { .. }) => {
                content.hanging += 1;
                content.open.push(stream);
            }
            _ => {}
        }
        return;
    }
    let wanted = content.password.clone();
    let answered = if wanted.is_some_and(|wanted| wanted != authorization) {
        Err((401, "UNAUTHENTICATED", "who are you?".to_owned()))
    } else if path == "runs/log-batch" && body.len() > 1_000_000 {
        Err((400, "INVALID_PARAMETER_VALUE", "requests must be at most 1000000 bytes".to_owned()))
    } else {
        content.answer(&path, &request)
    };
    match fault {
        Some(Fault::LostAnswer) => return,
        Some(Fault::Hang { .. }) => {
            content.hanging += 1;
            content.open.push(stream);
            return;
        }
        _ => {}
    }
    drop(content);
    match answered {
        Ok(json) => answer(&stream, 200, &json),
        Err((status, code, message)) => {
            answer(&stream, status, &json!({ "error_code": code, "message": message }));
        }
    }
}

fn answer(mut stream: &TcpStream, status: u16, json: &Json) {
    let body = json.to_string();
    let head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n", body.len());
    let whole = format!("{head}Content-Type: application/json\r\nConnection: close\r\n\r\n{body}");
    let _client_may_be_gone = stream.write_all(whole.as_bytes());
}

fn of_query(query: &str) -> Json {
    let text = |part: &str| {
        let bytes = part.replace('+', " ").into_bytes();
        let (mut out, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            if bytes[at] == b'%' {
                let digits = std::str::from_utf8(&bytes[at + 1..at + 3]).unwrap();
                out.push(u8::from_str_radix(digits, 16).unwrap());
                at += 3;
            } else {
                out.push(bytes[at]);
                at += 1;
            }
        }
        String::from_utf8(out).unwrap()
    };
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (text(name), Json::from(text(value)))).collect()
}

type Answered = Result<Json, (u16, &'static str, String)>;

fn refused(message: impl Into<String>) -> (u16, &'static str, String) {
    (400, "INVALID_PARAMETER_VALUE", message.into())
}

fn missing(what: &str) -> (u16, &'static str, String) {
    (404, "RESOURCE_DOES_NOT_EXIST", format!("{what} does not exist"))
}

/// Refuses a name as the real server does.
fn check_name(name: &str) -> Result<(), (u16, &'static str, String)> {
    let fits = |char: char| char.is_alphanumeric() || "_-. :/".contains(char);
    let is_path = |part: &str| !["", ".", ".."].contains(&part);
    let is_fine = name.chars().all(fits) && name.split('/').all(is_path);
    if is_fine && name.chars().count() <= 250 {
        Ok(())
    } else {
        Err(refused(format!("invalid name {name:?}")))
    }
}

impl Content {
    fn answer(&mut self, path: &str, request: &Json) -> Answered {
        let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
        match path {
            "experiments/get-by-name" => {
                let name = text("experiment_name");
                let found = self.experiments.iter().find(|(_, known)| **known == name);
                let (id, name) = found.ok_or_else(|| missing("the experiment"))?;
                Ok(json!({
                    "experiment": {
                        "experiment_id": id, "name": name, "lifecycle_stage": "active",
                    },
                }))
            }
            "experiments/create" => {
                let id = (self.experiments.len() + 1).to_string();
                self.experiments.insert(id.clone(), text("name"));
                Ok(json!({ "experiment_id": id }))
            }
            "experiments/search" => {
                let all = self.experiments.iter();
                let all = all.map(|(id, name)| json!({ "experiment_id": id, "name": name }));
                Ok(self.paged(request, "experiments", all.collect()))
            }
            "runs/create" => {
                self.made += 1;
                let id = format!("{:032x}", self.made);
                let mut run = StoredRun {
                    experiment: text("experiment_id"),
                    name: text("run_name"),
                    status: "RUNNING".to_owned(),
                    start: request["start_time"].clone(),
                    ..StoredRun::default()
                };
                set_tags(&mut run, &request["tags"])?;
                self.runs.insert(id.clone(), run);
                Ok(json!({ "run": self.shown(&id) }))
            }
            "runs/search" => {
                let of = |run: &StoredRun| {
                    request["experiment_ids"].as_array().unwrap().contains(&json!(run.experiment))
                        && (request["run_view_type"] == "ALL" || !run.is_deleted)
                };
                let filter = text("filter");
                let filter = filter.split('`').nth(1).zip(filter.split('\'').nth(1));
                let fits = |run: &StoredRun| {
                    filter
                        .is_none_or(|(key, value)| run.tags.get(key).is_some_and(|it| it == value))
                };
                let found = self.runs.iter().filter(|(_, run)| of(run) && fits(run));
                let rows = found.map(|(id, _)| self.shown(id)).collect();
                Ok(self.paged(request, "runs", rows))
            }
            "metrics/get-history" => {
                let run = self.runs.get(&text("run_id")).ok_or_else(|| missing("the run"))?;
                let key = text("metric_key");
                let mut points: Vec<_> =
                    run.metrics.iter().filter(|it| it.0 == key).cloned().collect();
                points.sort();
                let row = |(key, at, step, value): (String, i64, i64, String)| {
                    let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
                    let value = number.map_or(json!(value), |number| json!(number));
                    json!({ "key": key, "timestamp": at, "step": step, "value": value })
                };
                Ok(self.paged(request, "metrics", points.into_iter().map(row).collect()))
            }
            "runs/delete" => {
                let run = self.runs.get_mut(&text("run_id")).ok_or_else(|| missing("the run"))?;
                run.is_deleted = true;
                Ok(json!({}))
            }
            "runs/update" | "runs/log-batch" | "runs/delete-tag" => {
                let run = self.runs.get_mut(&text("run_id")).ok_or_else(|| missing("the run"))?;
                if run.is_deleted {
                    return Err(refused("The run must be in the 'active' state."));
                }
                match path {
                    "runs/update" => {
                        let set = |key: &str| request[key].as_str().map(str::to_owned);
                        run.status = set("status").unwrap_or(run.status.clone());
                        run.name = set("run_name").unwrap_or(run.name.clone());
                        if request["end_time"].is_number() {
                            run.end = request["end_time"].clone();
                        }
                    }
                    "runs/delete-tag" => {
                        run.tags.remove(&text("key")).ok_or_else(|| missing("the tag"))?;
                    }
                    _ => log_batch(run, request)?,
                }
                Ok(json!({}))
            }
            _ => Err((404, "ENDPOINT_NOT_FOUND", format!("there is no {path}"))),
        }
    }

    fn paged(&self, request: &Json, rows: &str, all: Vec<Json>) -> Json {
        let asked = request["max_results"].as_u64();
        let asked = asked.or_else(|| request["max_results"].as_str()?.parse().ok()).unwrap_or(1000);
        let most = self.page.unwrap_or(usize::MAX).min(asked as usize);
        let from =
            request["page_token"].as_str().map_or(0, |token| token.parse::<usize>().unwrap());
        let page: Vec<&Json> = all.iter().skip(from).take(most).collect();
        let mut answer = json!({ rows: page });
        if from + page.len() < all.len() {
            answer["next_page_token"] = json!((from + page.len()).to_string());
        }
        answer
    }

    fn shown(&self, id: &str) -> Json {
        let run = &self.runs[id];
        let pairs = |of: &BTreeMap<String, String>| -> Vec<Json> {
            of.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
        };
        let names: BTreeSet<&String> = run.metrics.iter().map(|(key, ..)| key).collect();
        let metrics: Vec<Json> =
            names.iter().map(|key| json!({ "key": key, "value": 0.5 })).collect();
        let stage = if run.is_deleted { "deleted" } else { "active" };
        json!({
            "info": {
                "run_id": id, "run_name": run.name, "status": run.status, "start_time": run.start,
                "end_time": run.end, "lifecycle_stage": stage, "experiment_id": run.experiment,
            },
            "data": { "params": pairs(&run.params), "tags": pairs(&run.tags), "metrics": metrics },
        })
    }
}

fn set_tags(run: &mut StoredRun, tags: &Json) -> Result<(), (u16, &'static str, String)> {
    for tag in tags.as_array().into_iter().flatten() {
        let (key, value) = (tag["key"].as_str().unwrap(), tag["value"].as_str().unwrap());
        check_name(key)?;
        if value.chars().count() > 5_000 {
            return Err(refused("the tag is too long"));
        }
        run.tags.insert(key.to_owned(), value.to_owned());
    }
    Ok(())
}

fn log_batch(run: &mut StoredRun, request: &Json) -> Result<(), (u16, &'static str, String)> {
    let of = |kind: &str| request[kind].as_array().cloned().unwrap_or_default();
    let (metrics, params, tags) = (of("metrics"), of("params"), of("tags"));
    if metrics.len() > 1_000 || params.len() > 100 || tags.len() > 100 {
        return Err(refused("a batch has at most 1000 metrics, 100 params and 100 tags"));
    }
    for param in params {
        let (key, value) = (param["key"].as_str().unwrap(), param["value"].as_str().unwrap());
        check_name(key)?;
        if value.chars().count() > 6_000 {
            return Err(refused("the param is too long"));
        }
        match run.params.get(key) {
            Some(known) if known != value => {
                return Err(refused(format!("Changing param values is not allowed: {key:?}")));
            }
            _ => drop(run.params.insert(key.to_owned(), value.to_owned())),
        }
    }
    for metric in metrics {
        let key = metric["key"].as_str().unwrap();
        check_name(key)?;
        let value = match &metric["value"] {
            Json::String(text) if text == "Infinity" => f64::MAX.to_string(),
            Json::String(text) if text == "-Infinity" => f64::MIN.to_string(),
            Json::String(text) => text.clone(),
            number => number.as_f64().unwrap().to_string(),
        };
        let at = metric["timestamp"].as_i64().unwrap();
        let row = (key.to_owned(), at, metric["step"].as_i64().unwrap(), value);
        if !run.metrics.contains(&row) {
            run.metrics.push(row);
        }
    }
    set_tags(run, &request["tags"])
}
