//! The Hub's answers, good and bad, from a server on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request as a server sees it, header names in small letters.
#[derive(Debug, Clone)]
struct Asked {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
}

/// An answer: status, headers, body, and how much of the body is sent before the connection is closed.
#[derive(Debug, Clone, Default)]
struct Answered {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    sent: Option<usize>,
}

/// A server that lives as long as this.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(answer: impl Fn(&Asked, usize) -> Answered + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (asked, over) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(AtomicBool::new(false)));
        let (noted, ended) = (Arc::clone(&asked), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let Some((stream, request)) = stream.ok().and_then(read) else { continue };
                noted.lock().unwrap().push(request.clone());
                // How often the same was asked before.
                let before = noted
                    .lock()
                    .unwrap()
                    .iter()
                    .filter(|one| one.path == request.path && one.method == request.method)
                    .count()
                    - 1;
                write(stream, &request, &answer(&request, before));
            }
        });
        Self { address, asked, over, thread: Some(thread) }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _wakes_it = TcpStream::connect(&self.address);
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

fn read(stream: TcpStream) -> Option<(TcpStream, Asked)> {
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
    Some((stream, Asked { method, path, headers }))
}

fn write(mut stream: TcpStream, request: &Asked, answer: &Answered) {
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", answer.status);
    if !answer.headers.iter().any(|(name, _)| *name == "Content-Length") {
        head += &format!("Content-Length: {}\r\n", answer.body.len());
    }
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let body: &[u8] = if request.method == "HEAD" {
        &[]
    } else {
        &answer.body[..answer.sent.unwrap_or(answer.body.len())]
    };
    let _gone = stream.write_all((head + "\r\n").as_bytes()).and_then(|()| stream.write_all(body));
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn weights() -> Vec<u8> {
    (0..5_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// The Hub with one repository: small files are its own, the weights lie on `store`.
fn hub(
    store: &str,
    small: &'static [(&'static str, &'static str)],
) -> impl Fn(&Asked, usize) -> Answered + Send + 'static {
    let store = store.to_owned();
    move |asked, _| {
        let commit = ("X-Repo-Commit", COMMIT.to_owned());
        let Some(name) = ["main", COMMIT].iter().find_map(|revision| {
            asked.path.strip_prefix(&format!("/org/tiny/resolve/{revision}/"))
        }) else {
            return Answered {
                status: 404,
                headers: vec![("X-Error-Code", "RevisionNotFound".to_owned())],
                ..Answered::default()
            };
        };
        if let Some((_, content)) = small.iter().find(|(file, _)| *file == name) {
            let etag = format!("W/\"{}\"", &sha256(content.as_bytes())[..40]);
            return Answered {
                status: 200,
                headers: vec![commit, ("ETag", etag)],
                body: content.as_bytes().to_vec(),
                sent: None,
            };
        }
        if name == "model.safetensors" {
            let headers = vec![
                commit,
                ("X-Linked-Etag", format!("\"{}\"", sha256(&weights()))),
                ("X-Linked-Size", weights().len().to_string()),
                ("Location", format!("http://{store}/weights?signed=1")),
            ];
            return Answered { status: 302, headers, ..Answered::default() };
        }
        Answered {
            status: 404,
            headers: vec![commit, ("X-Error-Code", "EntryNotFound".to_owned())],
            ..Answered::default()
        }
    }
}

const SMALL: &[(&str, &str)] = &[
    ("config.json", "{}"),
    ("tokenizer.json", "{\"a\": 1}"),
    ("tokenizer_config.json", "{\"b\": 2}"),
];

fn whole_store(asked: &Asked, _: usize) -> Answered {
    ranged(asked, weights())
}

/// The part of `body` that is asked for.
fn ranged(asked: &Asked, body: Vec<u8>) -> Answered {
    let from = asked
        .headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    match from {
        Some(from) => {
            let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
            Answered {
                status: 206,
                headers: vec![("Content-Range", range)],
                body: body[from..].to_vec(),
                sent: None,
            }
        }
        None => Answered { status: 200, body, ..Answered::default() },
    }
}

fn settings(server: &Server, cache: &TempDir) -> HubSettings {
    HubSettings {
        cache: cache.path().join("hub"),
        endpoint: format!("http://{}", server.address),
        token: None,
        offline: false,
    }
}

fn take(settings: &HubSettings) -> Result<PathBuf, String> {
    download_or_find(settings, "org/tiny", &|_, _, _| {})
}

#[test]
fn a_model_is_downloaded_once_in_the_layout_that_huggingface_hub_shares() {
    let (store, cache) = (Server::start(whole_store), TempDir::new().unwrap());
    let server = Server::start(hub(&store.address, SMALL));
    let settings = HubSettings { token: Some("hf_secret".to_owned()), ..settings(&server, &cache) };
    let directory = take(&settings).unwrap();
    let repository = cache.path().join("hub/models--org--tiny");
    assert_eq!(directory, repository.join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(repository.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(fs::read(directory.join("model.safetensors")).unwrap(), weights());
    let link = fs::read_link(directory.join("model.safetensors")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(sha256(&weights())));
    assert_eq!(fs::read_to_string(directory.join("tokenizer_config.json")).unwrap(), "{\"b\": 2}");
    assert!(repository.join(".no_exist").join(COMMIT).join("added_tokens.json").is_file());
    // Who is told the token, and that nobody is asked again.
    assert!(
        server.asked().iter().all(|asked| asked.headers["authorization"] == "Bearer hf_secret")
    );
    assert!(store.asked().iter().all(|asked| !asked.headers.contains_key("authorization")));
    let before = (server.asked().len(), store.asked().len());
    assert_eq!(take(&settings).unwrap(), directory);
    assert_eq!(take(&HubSettings { offline: true, ..settings.clone() }).unwrap(), directory);
    assert_eq!(
        download_or_find(&settings, &format!("org/tiny@{COMMIT}"), &|_, _, _| {}).unwrap(),
        directory
    );
    assert_eq!((server.asked().len(), store.asked().len()), before);
}

#[test]
fn an_interrupted_download_goes_on_where_it_ended() {
    let cache = TempDir::new().unwrap();
    // Twice the connection breaks.
    let store = Server::start(|asked, before| {
        let answer = ranged(asked, weights());
        let sent = answer.body.len() / 2;
        if before < 2 { Answered { sent: Some(sent), ..answer } } else { answer }
    });
    let server = Server::start(hub(&store.address, SMALL));
    let directory = take(&settings(&server, &cache)).unwrap();
    assert_eq!(fs::read(directory.join("model.safetensors")).unwrap(), weights());
    let ranges: Vec<Option<String>> =
        store.asked().iter().map(|asked| asked.headers.get("range").cloned()).collect();
    assert_eq!(ranges, [None, Some("bytes=10000-".to_owned()), Some("bytes=15000-".to_owned())]);
}

#[test]
fn a_server_that_cannot_go_on_begins_anew() {
    let cache = TempDir::new().unwrap();
    let store = Server::start(|_, before| Answered {
        status: 200,
        body: weights(),
        sent: (before == 0).then_some(7_000),
        ..Answered::default()
    });
    let server = Server::start(hub(&store.address, SMALL));
    let directory = take(&settings(&server, &cache)).unwrap();
    assert_eq!(fs::read(directory.join("model.safetensors")).unwrap(), weights());
}

#[test]
fn what_is_not_what_was_promised_is_never_taken_for_the_model() {
    type Edit = fn(&mut Vec<u8>);
    let other = |edit: Edit| {
        move |asked: &Asked, _: usize| {
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
        let problem = take(&settings(&server, &cache)).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
        let repository = cache.path().join("hub/models--org--tiny");
        assert!(
            !repository.join("blobs").join(sha256(&weights())).exists()
                && !repository.join("refs/main").exists()
        );
    }
}

#[test]
fn what_the_server_refuses_is_said_with_what_to_do() {
    let refusal = |status: u16, headers: Vec<(&'static str, String)>, token: Option<&str>| {
        let cache = TempDir::new().unwrap();
        let server = Server::start(move |_, _| Answered {
            status,
            headers: headers.clone(),
            ..Answered::default()
        });
        let problem =
            take(&HubSettings { token: token.map(str::to_owned), ..settings(&server, &cache) })
                .unwrap_err();
        (problem, server.asked().len())
    };
    let (problem, asked) = refusal(401, Vec::new(), None);
    assert!(
        problem.contains("is not on the Hub, or is private")
            && problem.contains("HF_TOKEN")
            && asked == 1,
        "{problem}"
    );
    assert!(refusal(401, Vec::new(), Some("wrong")).0.contains("the token in HF_TOKEN"));
    let gated = vec![("X-Error-Message", "ask its authors".to_owned())];
    assert!(
        refusal(403, gated, Some("mine"))
            .0
            .contains("is gated (ask its authors): accept its terms")
    );
    assert!(refusal(404, Vec::new(), None).0.contains("is not on the Hub"));
    let (problem, asked) = refusal(500, Vec::new(), None);
    assert!(
        problem.contains("the server answered 500 for `config.json`") && asked == 3,
        "{problem}"
    );

    let (store, cache) = (Server::start(whole_store), TempDir::new().unwrap());
    let server = Server::start(hub(&store.address, SMALL));
    let named =
        |name: &str| download_or_find(&settings(&server, &cache), name, &|_, _, _| {}).unwrap_err();
    assert!(named("org/tiny@v9").contains("has no revision `v9`"));
    let offline = download_or_find(
        &HubSettings { offline: true, ..settings(&server, &cache) },
        "org/tiny",
        &|_, _, _| {},
    )
    .unwrap_err();
    assert!(offline.contains("HF_HUB_OFFLINE"), "{offline}");
    drop(server);
    let gone = HubSettings {
        cache: cache.path().join("hub"),
        endpoint: format!("http://{}", store.address),
        token: None,
        offline: false,
    };
    drop(store);
    assert!(take(&gone).unwrap_err().contains("check the network and HF_ENDPOINT"));
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
                return Answered {
                    status: 404,
                    headers: vec![("X-Error-Code", "EntryNotFound".to_owned())],
                    ..Answered::default()
                };
            }
            answer(asked, before)
        })
    };
    let server = plain(small);
    let directory = take(&settings(&server, &cache)).unwrap();
    assert_eq!(fs::read_to_string(directory.join("two.safetensors")).unwrap(), "2");
    assert!(server.asked().iter().all(|asked| !asked.path.contains("evil")));
    let (server, cache) = (plain(SMALL), TempDir::new().unwrap());
    assert!(
        take(&settings(&server, &cache))
            .unwrap_err()
            .contains("has no `model.safetensors` on the Hub; weights must be safetensors")
    );
}

#[test]
fn huggingface_hubs_variables_are_honoured() {
    let of = |pairs: &'static [(&'static str, &'static str)]| {
        HubSettings::of(&|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    };
    let plain = of(&[("HOME", "/home/me")]);
    assert_eq!(
        (plain.cache.to_str().unwrap(), plain.endpoint.as_str()),
        ("/home/me/.cache/huggingface/hub", "https://huggingface.co")
    );
    assert!(!plain.offline && plain.token.is_none());
    assert_eq!(
        of(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/x")]).cache,
        Path::new("/x/huggingface/hub")
    );
    assert_eq!(of(&[("HOME", "/home/me"), ("HF_HOME", "/hf")]).cache, Path::new("/hf/hub"));
    assert_eq!(of(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/cache")]).cache, Path::new("/cache"));
    let told = of(&[
        ("HF_TOKEN", " hf_x\n"),
        ("HF_ENDPOINT", "https://mirror/"),
        ("HF_HUB_OFFLINE", "true"),
    ]);
    assert_eq!(
        (told.token.as_deref(), told.endpoint.as_str(), told.offline),
        (Some("hf_x"), "https://mirror", true)
    );
    assert!(
        of(&[("TRANSFORMERS_OFFLINE", "1")]).offline && !of(&[("HF_HUB_OFFLINE", "0")]).offline
    );
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("token"), "hf_file\n").unwrap();
    let path = home.path().to_str().unwrap().to_owned();
    assert_eq!(
        HubSettings::of(&|name| (name == "HF_HOME").then(|| path.clone())).token.as_deref(),
        Some("hf_file")
    );
}
