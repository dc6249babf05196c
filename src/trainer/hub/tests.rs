//! Downloads from a mock server of the Hub.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::super::tests::assert_contains;
use super::*;

pub(super) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request as a server sees it, header names in small letters.
#[derive(Debug, Clone)]
pub(super) struct Request {
    method: String,
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
}

/// A response: status, headers, body, and how much of the body is sent before the connection is
/// closed.
#[derive(Debug, Clone, Default)]
pub(super) struct Response {
    status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    sent: Option<usize>,
}

impl Response {
    fn new(status: u16, headers: Vec<(&'static str, String)>) -> Self {
        Self { status, headers, ..Self::default() }
    }

    pub(super) fn error(status: u16, code: &str) -> Self {
        Self::new(status, vec![("X-Error-Code", code.to_owned())])
    }

    pub(super) fn ok(body: Vec<u8>) -> Self {
        Self { body, ..Self::new(200, Vec::new()) }
    }
}

/// A mock server that lives as long as this.
pub(super) struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(answer: impl Fn(&Request, usize) -> Response + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (requests, over) =
            (Arc::<Mutex<Vec<Request>>>::default(), Arc::new(AtomicBool::new(false)));
        let (seen, ended) = (Arc::clone(&requests), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let Some((stream, request)) = stream.ok().and_then(read) else { continue };
                let mut seen = seen.lock().unwrap();
                let is_same =
                    |one: &&Request| one.path == request.path && one.method == request.method;
                let before = seen.iter().filter(is_same).count();
                seen.push(request.clone());
                drop(seen);
                write(stream, &request, &answer(&request, before));
            }
        });
        Self { address, requests, over, thread: Some(thread) }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _wakes_it = TcpStream::connect(&self.address);
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

fn read(stream: TcpStream) -> Option<(TcpStream, Request)> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    Some((stream, Request { method, path, headers }))
}

fn write(mut stream: TcpStream, request: &Request, answer: &Response) {
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", answer.status);
    if !answer.headers.iter().any(|(name, _)| *name == "Content-Length") {
        head += &format!("Content-Length: {}\r\n", answer.body.len());
    }
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let sent = if request.method == "HEAD" { 0 } else { answer.sent.unwrap_or(answer.body.len()) };
    let body = &answer.body[..sent];
    let _gone = stream.write_all((head + "\r\n").as_bytes()).and_then(|()| stream.write_all(body));
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn weights() -> Vec<u8> {
    (0..5_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// The Hub with one repository: small files are its own, the weights lie on `store`.
fn hub(
    store: &str,
    small: &'static [(&'static str, &'static str)],
) -> impl Fn(&Request, usize) -> Response + Send + 'static {
    let store = store.to_owned();
    move |asked, _| {
        let commit = ("X-Repo-Commit", COMMIT.to_owned());
        let Some(name) = ["main", COMMIT].iter().find_map(|revision| {
            asked.path.strip_prefix(&format!("/org/tiny/resolve/{revision}/"))
        }) else {
            return Response::error(404, "RevisionNotFound");
        };
        if let Some((_, content)) = small.iter().find(|(file, _)| *file == name) {
            let etag = format!("W/\"{}\"", &sha256(content.as_bytes())[..40]);
            let headers = vec![commit, ("ETag", etag)];
            return Response { headers, ..Response::ok(content.as_bytes().to_vec()) };
        }
        if name == "model.safetensors" {
            let headers = vec![
                commit,
                ("X-Linked-Etag", format!("\"{}\"", sha256(&weights()))),
                ("X-Linked-Size", weights().len().to_string()),
                ("Location", format!("http://{store}/weights?signed=1")),
            ];
            return Response::new(302, headers);
        }
        Response::new(404, vec![commit, ("X-Error-Code", "EntryNotFound".to_owned())])
    }
}

const SMALL: &[(&str, &str)] = &[
    ("config.json", "{}"),
    ("tokenizer.json", "{\"a\": 1}"),
    ("tokenizer_config.json", "{\"b\": 2}"),
];

fn whole_store(asked: &Request, _: usize) -> Response {
    ranged(asked, weights())
}

/// The part of `body` that is asked for.
fn ranged(asked: &Request, body: Vec<u8>) -> Response {
    let from = asked
        .headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    match from {
        Some(from) => {
            let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
            let headers = vec![("Content-Range", range)];
            Response { body: body[from..].to_vec(), ..Response::new(206, headers) }
        }
        None => Response::ok(body),
    }
}

pub(super) fn settings(server: &Server, cache: &TempDir) -> HubSettings {
    HubSettings {
        cache: cache.path().join("hub"),
        endpoint: format!("http://{}", server.address),
        token: None,
        offline: false,
    }
}

fn find(settings: &HubSettings, name: &str) -> Result<PathBuf, String> {
    download_or_find(settings, name, &|_, _, _| {})
}

fn find_tiny(settings: &HubSettings) -> Result<PathBuf, String> {
    find(settings, "org/tiny")
}

#[test]
fn a_model_is_downloaded_once_in_the_layout_that_huggingface_hub_shares() {
    let (store, cache) = (Server::start(whole_store), TempDir::new().unwrap());
    let server = Server::start(hub(&store.address, SMALL));
    let settings = HubSettings { token: Some("hf_secret".to_owned()), ..settings(&server, &cache) };
    let directory = find_tiny(&settings).unwrap();
    let repository = cache.path().join("hub/models--org--tiny");
    assert_eq!(directory, repository.join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(repository.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(fs::read(directory.join("model.safetensors")).unwrap(), weights());
    let link = fs::read_link(directory.join("model.safetensors")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(sha256(&weights())));
    assert_eq!(fs::read_to_string(directory.join("tokenizer_config.json")).unwrap(), "{\"b\": 2}");
    assert!(repository.join(".no_exist").join(COMMIT).join("added_tokens.json").is_file());
    // Only the Hub receives the token, and nothing is requested again.
    let token = |request: &Request| request.headers.get("authorization").cloned();
    let with_token = Some("Bearer hf_secret".to_owned());
    assert!(server.requests().iter().all(|request| token(request) == with_token));
    assert!(store.requests().iter().all(|request| token(request).is_none()));
    let before = (server.requests().len(), store.requests().len());
    assert_eq!(find_tiny(&settings).unwrap(), directory);
    assert_eq!(find_tiny(&HubSettings { offline: true, ..settings.clone() }).unwrap(), directory);
    assert_eq!(find(&settings, &format!("org/tiny@{COMMIT}")).unwrap(), directory);
    assert_eq!((server.requests().len(), store.requests().len()), before);
}

#[test]
fn a_model_without_a_tokenizer_file_brings_the_files_that_it_is_made_of() {
    const BERT: &[(&str, &str)] =
        &[("config.json", "{\"model_type\": \"bert\"}"), ("vocab.txt", "[UNK]\na\n")];
    let store = Server::start(whole_store);
    let found = |small: &'static [(&'static str, &'static str)]| {
        let (server, cache) = (Server::start(hub(&store.address, small)), TempDir::new().unwrap());
        find_tiny(&settings(&server, &cache)).map(|directory| {
            let there = |name: &str| directory.join(name).is_file();
            ["tokenizer.json", "vocab.txt", "source.spm", "target.spm"].map(there)
        })
    };
    assert_eq!(found(BERT).unwrap(), [false, true, false, false]);
    assert_contains(&found(&BERT[..1]).unwrap_err(), "has no `tokenizer.json` on the Hub");
    let marian = &[
        ("config.json", "{\"model_type\": \"marian\"}"),
        ("tokenizer.json", "{}"),
        ("source.spm", ""),
        ("target.spm", ""),
        ("vocab.json", "{}"),
    ];
    assert_eq!(found(marian).unwrap(), [true, false, true, true]);
}

#[test]
fn an_interrupted_download_resumes_where_it_ended() {
    let cache = TempDir::new().unwrap();
    // Twice the connection breaks.
    let store = Server::start(|asked, before| {
        let answer = ranged(asked, weights());
        let sent = answer.body.len() / 2;
        if before < 2 { Response { sent: Some(sent), ..answer } } else { answer }
    });
    let server = Server::start(hub(&store.address, SMALL));
    let directory = find_tiny(&settings(&server, &cache)).unwrap();
    assert_eq!(fs::read(directory.join("model.safetensors")).unwrap(), weights());
    let ranges: Vec<Option<String>> =
        store.requests().iter().map(|asked| asked.headers.get("range").cloned()).collect();
    assert_eq!(ranges, [None, Some("bytes=10000-".to_owned()), Some("bytes=15000-".to_owned())]);
}

#[test]
fn a_server_without_ranges_starts_over() {
    let cache = TempDir::new().unwrap();
    let store = Server::start(|_, before| {
        let sent = (before == 0).then_some(7_000);
        Response { sent, ..Response::ok(weights()) }
    });
    let server = Server::start(hub(&store.address, SMALL));
    let directory = find_tiny(&settings(&server, &cache)).unwrap();
    assert_eq!(fs::read(directory.join("model.safetensors")).unwrap(), weights());
}

#[test]
fn a_download_that_fails_verification_is_discarded() {
    type Edit = fn(&mut Vec<u8>);
    let other = |edit: Edit| {
        move |asked: &Request, _: usize| {
            let mut body = weights();
            edit(&mut body);
            ranged(asked, body)
        }
    };
    let cases: [(Edit, &str); 3] = [
        (|body| body[9_000] ^= 1, "is corrupt (its SHA-256 differs)"),
        (|body| body.extend([0; 8]), "has 20008 bytes instead of 20000"),
        (|body| body.truncate(12_000), "the connection ended after 12000 of 20000 bytes"),
    ];
    for (edit, expected) in cases {
        let (store, cache) = (Server::start(other(edit)), TempDir::new().unwrap());
        let server = Server::start(hub(&store.address, SMALL));
        let problem = find_tiny(&settings(&server, &cache)).unwrap_err();
        assert_contains(&problem, expected);
        let repository = cache.path().join("hub/models--org--tiny");
        assert!(!repository.join("blobs").join(sha256(&weights())).exists());
        assert!(!repository.join("refs/main").exists());
    }
}

#[test]
fn refusals_of_the_server_are_told_with_a_remedy() {
    let refusal = |status: u16, headers: Vec<(&'static str, String)>, token: Option<&str>| {
        let cache = TempDir::new().unwrap();
        let server = Server::start(move |_, _| Response::new(status, headers.clone()));
        let token = token.map(str::to_owned);
        let settings = HubSettings { token, ..settings(&server, &cache) };
        (find_tiny(&settings).unwrap_err(), server.requests().len())
    };
    let (problem, requests) = refusal(401, Vec::new(), None);
    assert_contains(&problem, "is not on the Hub, or is private");
    assert_contains(&problem, "HF_TOKEN");
    assert_eq!(requests, 1);
    assert_contains(&refusal(401, Vec::new(), Some("wrong")).0, "the token in HF_TOKEN");
    let gated = vec![("X-Error-Message", "ask its authors".to_owned())];
    let expected = "is gated (ask its authors): accept its terms";
    assert_contains(&refusal(403, gated, Some("mine")).0, expected);
    assert_contains(&refusal(404, Vec::new(), None).0, "is not on the Hub");
    let (problem, requests) = refusal(500, Vec::new(), None);
    assert_contains(&problem, "the server answered 500 for `config.json`");
    assert_eq!(requests, 3);

    let (store, cache) = (Server::start(whole_store), TempDir::new().unwrap());
    let server = Server::start(hub(&store.address, SMALL));
    let settings = settings(&server, &cache);
    assert_contains(&find(&settings, "org/tiny@v9").unwrap_err(), "has no revision `v9`");
    let offline = HubSettings { offline: true, ..settings.clone() };
    assert_contains(&find_tiny(&offline).unwrap_err(), "HF_HUB_OFFLINE");
    drop(server);
    let gone = HubSettings { endpoint: format!("http://{}", store.address), ..settings };
    drop(store);
    assert_contains(&find_tiny(&gone).unwrap_err(), "check the network and HF_ENDPOINT");
}

#[test]
fn weights_in_several_files_are_taken_by_their_index_and_pytorchs_are_not() {
    const INDEX_FILE: &str =
        r#"{"weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "../../evil"}}"#;
    let cache = TempDir::new().unwrap();
    let small: &[(&str, &str)] = &[
        ("config.json", "{}"),
        ("tokenizer.json", "{}"),
        (INDEX, INDEX_FILE),
        ("one.safetensors", "1"),
        ("two.safetensors", "2"),
    ];
    let plain = |small: &'static [(&'static str, &'static str)]| {
        let answer = hub("nowhere", small);
        Server::start(move |asked, before| {
            if asked.path.ends_with("/model.safetensors") {
                return Response::error(404, "EntryNotFound");
            }
            answer(asked, before)
        })
    };
    let server = plain(small);
    let directory = find_tiny(&settings(&server, &cache)).unwrap();
    assert_eq!(fs::read_to_string(directory.join("two.safetensors")).unwrap(), "2");
    assert!(server.requests().iter().all(|asked| !asked.path.contains("evil")));
    let (server, cache) = (plain(SMALL), TempDir::new().unwrap());
    let problem = find_tiny(&settings(&server, &cache)).unwrap_err();
    let expected = "has no `model.safetensors` on the Hub; weights must be safetensors";
    assert_contains(&problem, expected);
}

#[test]
fn huggingface_hubs_variables_are_honoured() {
    let of = |pairs: &'static [(&'static str, &'static str)]| {
        HubSettings::of(&|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    };
    let plain = of(&[("HOME", "/home/me")]);
    assert_eq!(plain.cache, Path::new("/home/me/.cache/huggingface/hub"));
    assert_eq!(plain.endpoint, "https://huggingface.co");
    assert!(!plain.offline && plain.token.is_none());
    let moved = of(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/x")]);
    assert_eq!(moved.cache, Path::new("/x/huggingface/hub"));
    assert_eq!(of(&[("HOME", "/home/me"), ("HF_HOME", "/hf")]).cache, Path::new("/hf/hub"));
    assert_eq!(of(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/cache")]).cache, Path::new("/cache"));
    let given = of(&[
        ("HF_TOKEN", " hf_x\n"),
        ("HF_ENDPOINT", "https://mirror/"),
        ("HF_HUB_OFFLINE", "true"),
    ]);
    assert_eq!((given.token.as_deref(), given.offline), (Some("hf_x"), true));
    assert_eq!(given.endpoint, "https://mirror");
    assert!(of(&[("TRANSFORMERS_OFFLINE", "1")]).offline);
    assert!(!of(&[("HF_HUB_OFFLINE", "0")]).offline);
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("token"), "hf_file\n").unwrap();
    let path = home.path().to_str().unwrap().to_owned();
    let settings = HubSettings::of(&|name| (name == "HF_HOME").then(|| path.clone()));
    assert_eq!(settings.token.as_deref(), Some("hf_file"));
}
