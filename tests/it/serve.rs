//! `hpsearch serve`: its defences, its events, and what it changes, by a client without a browser.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hpsearch::runner::artifacts::digest_of;
use hpsearch::server::Limits;
use hpsearch::storage::{Storage as _, StorageReader as _, StudyId};
use hpsearch::study::artifact::{Artifact, ArtifactKind};
use hpsearch::study::event::{Event, RecordEvent, RunnerEvent, TrialEvent};
use hpsearch::study::request::Request;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::TrialNumber;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::{Value as Json, json};

use crate::harness::{
    Browser, ONE_SLOT, RESUMABLE, Scene, Site, TWO_SLOTS, assert_code, assert_done, assert_names,
    held, study, wait_until,
};
use crate::several_objectives;

/// Limits that a test does not wait long for, and that its own requests keep on a busy machine,
/// where it may have to wait for its turn between connecting and sending.
fn quick() -> Limits {
    Limits {
        head: Duration::from_secs(3),
        body: Duration::from_secs(3),
        write: Duration::from_secs(3),
        unread: Duration::from_secs(3),
        ..Limits::default()
    }
}

/// A store with the study `digits`, and a server of it in this process.
fn served(limits: Limits) -> (Scene, Browser) {
    let mut scene = Scene::digits();
    scene.leave();
    let browser = Browser::with_limits(&scene, limits, false);
    (scene, browser)
}

fn digits(scene: &Scene) -> StudyId {
    scene.store.study("digits").unwrap().unwrap().id
}

fn note(scene: &mut Scene, text: &str) {
    let study = digits(scene);
    let request = Request::Note { trial: None, text: text.to_owned() };
    scene.store.request(study, Timestamp(1_764_100_000_000_000), &request).unwrap();
}

#[test]
fn the_printed_token_signs_a_browser_in_and_stands_nowhere_else() {
    let mut scene = Scene::digits();
    scene.leave();
    let browser = Browser::start(&scene, &[]);
    let signed_out = Browser::elsewhere(browser.address, browser.url.clone(), String::new());
    for path in ["/", "/api/events?study=digits", "/api/stream", "/nothing"] {
        let refused = signed_out.get(path);
        assert_eq!(refused.code, 401, "{path}");
        assert!(!refused.text().contains(browser.token()), "{path}");
        assert_eq!(refused.header("set-cookie"), None);
    }
    assert_eq!(signed_out.get(&format!("/?token={}", "0".repeat(48))).code, 401);
    let exchanged = signed_out.get(&format!("/?token={}", browser.token()));
    assert_eq!((exchanged.code, exchanged.header("location")), (303, Some("/")));
    let cookie = exchanged.header("set-cookie").unwrap();
    assert_names(cookie, &["HttpOnly", "SameSite=Strict", "Path=/"]);
    assert!(!cookie.contains(browser.token()), "the cookie is another secret");
    assert_eq!(browser.get("/api/events?study=digits").code, 200);
    let running = browser.running.as_ref().unwrap();
    let command_line = fs::read_to_string(format!("/proc/{}/cmdline", running.id())).unwrap();
    let environment = fs::read_to_string(format!("/proc/{}/environ", running.id())).unwrap();
    for text in [command_line, environment, running.complained_so_far()] {
        assert!(!text.contains(browser.token()), "{text}");
    }
}

#[test]
fn a_name_that_was_made_to_point_here_is_not_served() {
    let (_scene, browser) = served(Limits::default());
    let asked = |host: &str| {
        let mut connected = browser.connect();
        let cookie = &browser.cookie;
        connected
            .send(format!("GET /api/server HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"));
        connected.answer()
    };
    for host in [
        "evil.example",
        "evil.example:7373",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example.",
        "10.1.2.3",
        "127.0.0.1@evil.example",
        "[::ffff:10.1.2.3]",
        "2130706433.evil.example",
    ] {
        let refused = asked(host);
        assert_eq!(refused.code, 421, "{host}");
        assert!(!refused.text().contains("evil"), "{}", refused.text());
    }
    for host in ["localhost", "localhost:9999", "[::1]:80", "lab.example"] {
        assert_eq!(asked(host).code, 200, "{host}");
    }
    // A target that names a host itself does not take the place of the header.
    for (target, host) in
        [("http://evil.example/api/server", "localhost"), ("http://localhost/", "evil.example")]
    {
        let mut connected = browser.connect();
        let cookie = &browser.cookie;
        connected
            .send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"));
        let refused = connected.answer();
        assert!((400..500).contains(&refused.code), "{target}: {}", refused.code);
    }
}

#[test]
fn every_answer_has_the_headers_that_keep_other_pages_out() {
    let (_scene, browser) = served(Limits::default());
    for path in ["/", "/api/server", "/api/events?study=digits", "/nothing", "/api/events"] {
        let answered = browser.get(path);
        let policy = answered.header("content-security-policy").unwrap();
        assert_names(
            policy,
            &["default-src 'self'", "frame-ancestors 'none'", "object-src 'none'"],
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answered.header(name), Some(value), "{path}");
        }
        assert!(!answered.head.to_lowercase().contains("access-control"), "{}", answered.head);
        if path.starts_with("/api/") {
            assert_eq!(answered.header("cache-control"), Some("no-store"), "{path}");
        }
    }
    let mut stream = browser.connect();
    stream.send(format!("GET /api/stream HTTP/1.1\r\n{}\r\n", browser.headers()));
    let head = stream.until(b"\r\n\r\n");
    assert_names(&head, &["nosniff", "no-store", "frame-ancestors 'none'"]);
}

#[test]
fn no_path_leads_to_a_file() {
    let (scene, browser) = served(Limits::default());
    scene.write("secret.txt", "a secret");
    let below = scene.path("secret.txt").display().to_string();
    for path in [
        "/../secret.txt",
        "/../../../../../../etc/passwd",
        "/%2e%2e/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets/..\\..\\secret.txt",
        "//etc/passwd",
        "/assets/%00/secret.txt",
        "/runs/hpsearch.db",
        "/uplot/LICENSE",
        "/page/elements.js",
        "/elements.js/../../../Cargo.toml",
        "/main.js%00.html",
        "/api/../secret.txt",
        "/./",
        &below,
        &format!("/api/events?study={below}"),
        "/api/events?study=..%2F..%2Fstudy.toml",
    ] {
        let refused = browser.get(path);
        assert_eq!(refused.code, 404, "{path}");
        assert!(!refused.text().contains("a secret"), "{path}");
    }
}

#[test]
fn what_is_no_request_is_refused_and_the_connection_closed() {
    let (_scene, browser) = served(Limits::default());
    let host = format!("Host: {}\r\n", browser.address);
    let post = |headers: &str| format!("POST /api/control HTTP/1.1\r\n{host}{headers}\r\n");
    for (text, code) in [
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0".to_owned(), 400),
        ("\0\0\0\0".to_owned(), 400),
        ("hello\r\n\r\n".to_owned(), 400),
        ("GET\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\n{host}\n\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(20_000)), 431),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "x".repeat(20_000)), 431),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X: y\r\n".repeat(100)), 431),
        (format!("GET / HTTP/1.1\r\n{}\r\n", host.repeat(2)), 400),
        (format!("TRACE / HTTP/1.1\r\n{host}\r\n"), 405),
        (post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\nG", 400),
        (post("Content-Length: 6\r\nContent-Length: 5\r\n") + "GET / ", 400),
        (post("Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", 411),
        (post("Content-Length: 1000000\r\n"), 413),
    ] {
        let mut connected = browser.connect();
        let _may_be_closed_already = connected.try_send(text.as_bytes());
        let answered = connected.answer();
        assert_eq!(answered.code, code, "{text:?}");
        assert_eq!(answered.header("connection"), Some("close"));
        assert_eq!(connected.rest(), "", "nothing else is taken for a request: {text:?}");
    }
    assert_eq!(browser.get("/api/server").code, 200);
}

#[test]
fn a_connection_serves_one_request_after_the_other_even_if_they_come_at_once() {
    let (_scene, browser) = served(Limits::default());
    let mut connected = browser.connect();
    let headers = browser.headers();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
    let head = format!("HEAD /api/server HTTP/1.1\r\n{headers}\r\n");
    connected
        .send(get("/api/server") + &get("/nothing") + &get("/api/events?study=digits") + &head);
    assert!(connected.answer().json()["version"].is_string());
    assert_eq!(connected.answer().code, 404);
    assert!(connected.answer().json()["entries"].is_array());
    let head = connected.until(b"\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    connected.send(format!("GET /api/server HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"));
    assert_eq!(connected.answer().code, 200, "an answer to HEAD has no body");
    assert_eq!(connected.rest(), "");
}

#[test]
fn slow_clients_are_left_and_keep_nobody_waiting() {
    let (_scene, browser) = served(quick());
    let headers = browser.headers();
    let begun = |text: &str| {
        let mut connected = browser.connect();
        connected.send(text);
        connected
    };
    let mut of_head = begun(&format!("GET / HTTP/1.1\r\n{headers}"));
    let mut of_body =
        begun(&format!("POST /api/control HTTP/1.1\r\n{headers}Content-Length: 100\r\n\r\n{{"));
    let mut silent = browser.connect();
    let until = Instant::now() + Duration::from_secs(60);
    let mut dripping = begun("GET / HTTP/1.1\r\nX: ");
    // A byte now and then does not move the deadline.
    while dripping.try_send(b"x") {
        assert!(Instant::now() < until, "it may send one byte after the other for ever");
        let asked = Instant::now();
        assert_eq!(browser.get("/api/server").code, 200);
        assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    for connected in [&mut of_head, &mut of_body] {
        assert_eq!(connected.answer().code, 408);
        assert_eq!(connected.rest(), "");
    }
    assert_eq!(silent.rest(), "", "one that asked for nothing is not told");
}

#[test]
fn a_client_that_does_not_read_its_answers_is_left() {
    let (_scene, browser) = served(quick());
    let mut connected = browser.connect();
    connected.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let asked = format!("GET /nothing HTTP/1.1\r\n{}\r\n", browser.headers()).repeat(500);
    // The server stops reading where it cannot write; it may also just not have had its turn. So
    // nothing is read here, which would make room, until it has closed the connection.
    let until = Instant::now() + Duration::from_secs(60);
    let mut rest = asked.as_bytes();
    loop {
        assert!(Instant::now() < until, "the server takes any number of requests");
        match connected.stream.write(rest) {
            Ok(length) => rest = &rest[length..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        if rest.is_empty() {
            rest = asked.as_bytes();
        }
    }
    assert_eq!(browser.get("/api/server").code, 200);
}

#[test]
fn a_thousand_connections_leave_those_who_are_served_alone() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(8_192).min(8_192);
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).unwrap();
    let mut scene = Scene::digits();
    scene.leave();
    let browser = Browser::start(&scene, &[]);
    let mut kept = browser.connect();
    let get = format!("GET /api/server HTTP/1.1\r\n{}\r\n", browser.headers());
    kept.send(&get);
    assert_eq!(kept.answer().code, 200);
    let mut stream = browser.stream("digits", "");
    stream.wait_for("hello");
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..1_000 {
        let mut one = TcpStream::connect(browser.address).unwrap();
        if number % 2 == 0 {
            let _may_be_closed_already = one.write_all(b"GET / HTTP/1.1\r\nX: ");
        }
        idle.push(one);
    }
    kept.send(&get);
    assert_eq!(kept.answer().code, 200, "a connection from before is served");
    assert_eq!(browser.get("/api/server").code, 200, "and a new one");
    note(&mut scene, "in the crowd");
    stream.wait_for_entry("in the crowd");
    let running = browser.running.as_ref().unwrap();
    let descriptors = fs::read_dir(format!("/proc/{}/fd", running.id())).unwrap().count();
    assert!(descriptors < 600, "{descriptors}");
    let threads = fs::read_dir(format!("/proc/{}/task", running.id())).unwrap().count();
    assert!(threads < 20, "{threads}");
}

#[test]
fn hostile_words_are_data_and_never_markup() {
    let mut scene = Scene::digits();
    scene.leave();
    let hostile = "<script>alert(1)</script>\"'&</style>\u{2028}\u{202e}";
    note(&mut scene, hostile);
    let browser = Browser::with_limits(&scene, Limits::default(), false);
    let answered = browser.get("/api/events?study=digits");
    assert_eq!(answered.header("content-type"), Some("application/json"));
    assert_eq!(answered.header("x-content-type-options"), Some("nosniff"));
    let said = answered.json()["entries"].as_array().unwrap().last().unwrap()["text"].clone();
    assert!(said.as_str().unwrap().contains("<script>alert(1)</script>"), "{said}");
    // A name in an error is data, too.
    let answered = browser.get("/api/events?study=%3Cscript%3Ealert(1)%3C/script%3E%0d%0aX:y");
    assert_eq!(answered.code, 404);
    assert_eq!(answered.header("content-type"), Some("application/json"));
    assert_eq!(answered.header("x"), None);
    let mut stream = browser.stream("digits", "Last-Event-ID: 1\r\n");
    let entry = stream.wait_for_entry("<script>");
    assert_eq!(entry["kind"], "study");
}

#[test]
fn an_event_is_at_the_client_soon_after_it_is_stored() {
    let (mut scene, browser) = served(Limits::default());
    let mut stream = browser.stream("digits", "");
    stream.wait_for("hello");
    let mut times = Vec::new();
    for round in 0..30 {
        let stored = Instant::now();
        note(&mut scene, &format!("round {round}."));
        let entry = stream.wait_for_entry(&format!("round {round}."));
        assert!(entry["seq"].as_i64().unwrap() > 0);
        times.push(stored.elapsed());
    }
    times.sort();
    // Shown by `cargo test -- --nocapture`.
    println!("an event reaches the client after {:?}, at most {:?}", times[15], times[29]);
    assert!(times[15] < Duration::from_secs(1), "{times:?}");
}

#[test]
fn a_stream_goes_on_where_it_was_broken_off() {
    let (mut scene, browser) = served(Limits::default());
    let mut stream = browser.stream("digits", "");
    let first = stream.wait_for("hello").id.unwrap();
    note(&mut scene, "seen");
    let seen = stream.wait_for("journal").id.unwrap();
    assert!(seen > first);
    drop(stream);
    for number in 0..5 {
        note(&mut scene, &format!("missed {number}"));
    }
    let mut other = browser.stream("digits", "");
    other.wait_for("hello");
    let mut again = browser.stream("digits", &format!("Last-Event-ID: {seen}\r\n"));
    note(&mut scene, "after");
    let mut texts = Vec::new();
    while texts.len() < 6 {
        let sent = again.wait_for("journal");
        let entries = sent.data["entries"].as_array().unwrap();
        texts.extend(entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()));
        assert_eq!(sent.id, entries.last().unwrap()["seq"].as_i64());
    }
    let expected: Vec<String> =
        (0..5).map(|number| format!("note on the study: missed {number}")).collect();
    assert_eq!(texts[..5], expected);
    assert_eq!(texts[5..], ["note on the study: after"], "each once");
    // A place that this store never had.
    let mut beyond = browser.stream("digits", "Last-Event-ID: 1000000\r\n");
    assert_eq!(beyond.wait_for("reset").id.unwrap(), seen + 6);
}

#[test]
fn a_client_that_does_not_read_its_events_is_dropped_and_the_others_have_theirs() {
    let (mut scene, browser) = served(quick());
    let mut asleep = browser.stream("digits", "");
    asleep.wait_for("hello");
    let mut awake = browser.stream("digits", "");
    awake.wait_for("hello");
    let long = "x".repeat(3_900);
    let until = Instant::now() + Duration::from_secs(120);
    for round in 0.. {
        for _ in 0..100 {
            note(&mut scene, &long);
        }
        note(&mut scene, &format!("end of round {round}."));
        awake.wait_for_entry(&format!("end of round {round}."));
        // Its events stay unread in the system until they fill its buffers.
        if round >= 25 && asleep.connected.is_closed_within(Duration::from_millis(10)) {
            break;
        }
        assert!(Instant::now() < until || round < 30, "it is fed for ever");
    }
}

#[test]
fn the_number_of_streams_is_bounded() {
    let limits = Limits { streams: 3, ..Limits::default() };
    let (_scene, browser) = served(limits);
    let mut streams: Vec<_> = (0..3).map(|_| browser.stream("digits", "")).collect();
    let refused = browser.get("/api/stream?study=digits");
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")));
    streams.pop();
    wait_until("its place is free", || {
        let mut connected = browser.connect();
        connected.send(format!("GET /api/stream HTTP/1.1\r\n{}\r\n", browser.headers()));
        connected.until(b"\r\n\r\n").starts_with("HTTP/1.1 200")
    });
}

#[test]
fn a_stream_has_signs_of_life_and_ends_with_its_study() {
    let limits = Limits { heartbeat: Duration::from_millis(50), ..Limits::default() };
    let (scene, browser) = served(limits);
    let mut stream = browser.stream("digits", "");
    stream.wait_for("hello");
    let sign = stream.connected.until(b"\n:\n\n");
    assert!(!sign.contains("journal"), "{sign}");
    assert_done(&scene.run(&["rm", "digits", "--yes"]));
    assert_names(stream.wait_for("gone").data["error"].as_str().unwrap(), &["removed"]);
    stream.connected.rest();
    let mut none = browser.stream("digits", "");
    assert_names(none.wait_for("gone").data["error"].as_str().unwrap(), &["no such study"]);
}

#[test]
fn a_store_may_come_later_vanish_and_come_back() {
    let site = Site::empty();
    let browser = Browser::start(&site, &[]);
    let running = browser.running.as_ref().unwrap();
    wait_until("it is said", || running.complained_so_far().contains("there is no store"));
    let refused = browser.get("/api/events?study=s");
    assert_eq!(refused.code, 503);
    assert_names(&refused.text(), &["there is no store at", "hpsearch run"]);
    site.write("study.toml", study("trials = 1", ONE_SLOT));
    site.write("trial.sh", crate::harness::REPORT_X);
    assert_done(&site.run_study());
    assert_eq!(browser.get("/api/events?study=s").code, 200);
    let mut stream = browser.stream("s", "");
    stream.wait_for("hello");
    fs::rename(site.path("runs"), site.path("elsewhere")).unwrap();
    let trouble = stream.wait_for("trouble");
    assert_names(trouble.data["error"].as_str().unwrap(), &["there is no store at"]);
    assert_eq!(browser.get("/api/events?study=s").code, 503);
    fs::rename(site.path("elsewhere"), site.path("runs")).unwrap();
    stream.wait_for("changed");
    assert_eq!(browser.get("/api/events?study=s").code, 200);
    assert_done(&site.run(&["note", "s", "-m", "it is back"]));
    stream.wait_for_entry("it is back");
}

#[test]
fn a_port_that_is_taken_is_an_error_with_a_way_out() {
    let (scene, browser) = served(Limits::default());
    let taken = browser.address.to_string();
    let refused = scene.run(&["serve", "--listen", &taken]);
    assert_code(&refused, 5);
    assert_names(&refused.err, &[&taken, "another program listens", "--listen 127.0.0.1:0"]);
    let wrong = scene.run(&["serve", "--listen", "nowhere"]);
    assert_code(&wrong, 2);
    let wrong = scene.run(&["serve", "--allow-host", "https://lab.example/"]);
    assert_code(&wrong, 2);
    assert_names(&wrong.err, &["is not a host name", "lab.example"]);
}

#[test]
fn a_signal_ends_the_server_in_order() {
    let mut scene = Scene::digits();
    scene.leave();
    for signal in [Signal::INT, Signal::TERM] {
        let mut browser = Browser::start(&scene, &[]);
        let mut stream = browser.stream("digits", "");
        stream.wait_for("hello");
        let running = browser.running.take().unwrap();
        running.signal(signal);
        let ended = running.end();
        assert_done(&ended);
        assert_names(&ended.err, &["read-only", "Ctrl-C ends the server"]);
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
        stream.connected.rest();
    }
}

#[test]
fn an_address_that_others_can_reach_is_warned_of() {
    let mut scene = Scene::digits();
    scene.leave();
    let site = scene.close();
    let running = site.start(&["serve", "--listen", "0.0.0.0:0", "--control", "-q"]);
    // Either stream may be read first.
    wait_until("it warns", || running.complained_so_far().contains('\n'));
    let said = running.complained_so_far();
    assert_names(&said, &["warning", "other machines", "not encrypted", "ssh", "--control"]);
    running.signal(Signal::INT);
    assert_done(&running.end());
}

#[test]
fn writes_need_control_and_everything_that_only_the_page_has() {
    let (scene, reading) = served(Limits::default());
    let asked = json!({"study": "digits", "request": {"type": "note", "text": "by the page"}});
    let refused = reading.post(&asked);
    assert_eq!(refused.code, 403);
    assert_names(&refused.text(), &["read-only", "--control"]);
    let browser = Browser::with_limits(&scene, Limits::default(), true);
    let evil = "http://evil.example";
    for (headers, code) in [
        (vec![("Cookie", "")], 401),
        (vec![("Cookie", reading.cookie.as_str())], 401),
        (vec![("Origin", "")], 403),
        (vec![("Origin", evil)], 403),
        (vec![("Origin", "null")], 403),
        (vec![("Origin", "http://127.0.0.1:1")], 403),
        (vec![("X-Hpsearch", "")], 403),
        (vec![("Content-Type", "")], 415),
        (vec![("Content-Type", "text/plain")], 415),
        (vec![("Host", "evil.example"), ("Origin", evil)], 421),
        (vec![("Sec-Fetch-Site", "cross-site")], 403),
    ] {
        assert_eq!(browser.post_with(&headers, &asked).code, code, "{headers:?}");
    }
    // A form or a link of another page has no way to write at all.
    assert_eq!(browser.get("/api/control").code, 404);
    assert_eq!(browser.get("/api/control?study=digits&request=%7B%7D").code, 404);
    // Nor is another page told that it might.
    let mut connected = browser.connect();
    connected.send(format!(
        "OPTIONS /api/control HTTP/1.1\r\nHost: {}\r\nOrigin: {evil}\r\n\
         Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-hpsearch\r\n\r\n",
        browser.address
    ));
    let preflight = connected.answer();
    assert!(preflight.code >= 400, "{}", preflight.code);
    assert!(!preflight.head.to_lowercase().contains("access-control"), "{}", preflight.head);
    assert!(scene.store.summary(digits(&scene)).unwrap().notes.is_empty());
    let done = browser.post(&asked);
    assert_eq!(done.json(), json!({"answer": "done", "text": "noted on the study"}));
    let notes = scene.store.summary(digits(&scene)).unwrap().notes;
    assert_eq!(notes[0].text, "by the page");
}

#[test]
fn wrong_writes_are_refused_in_the_words_of_the_verbs() {
    let (scene, _) = served(Limits::default());
    let browser = Browser::with_limits(&scene, Limits::default(), true);
    let refused = |request: Json, study: &str| {
        let answered =
            browser.post(&json!({"study": study, "request": request, "confirmed": true}));
        assert!(answered.code >= 400, "{}", answered.text());
        let json = answered.json();
        format!("{} {}: {}", answered.code, json["error"], json["remedy"])
    };
    for (request, words) in [
        (json!({"type": "note", "text": "  "}), &["400", "the note is empty"][..]),
        (json!({"type": "note", "text": "x".repeat(5_000)}), &["400", "longer than 4000 bytes"]),
        (json!({"type": "note", "trial": 99, "text": "x"}), &["404", "no trial 99"]),
        (json!({"type": "tag", "tag": "a b", "present": true}), &["400", "is not a valid tag"]),
        (json!({"type": "kill", "trial": 0}), &["409", "trial 0 is already complete"]),
        (json!({"type": "stop"}), &["409", "is not running"]),
        (json!({"type": "enqueue", "params": {"optim": "adam"}}), &["400", "optim"]),
        (json!({"type": "enqueue", "params": {"learning_rate": 7.0}}), &["400", "learning_rate"]),
        (json!({"type": "enqueue", "params": {"rate": 7.0}}), &["400", "rate"]),
        (json!({"type": "enqueue"}), &["400", "params"]),
        (json!({"type": "explode"}), &["400", "explode"]),
        (json!({}), &["400"]),
    ] {
        assert_names(&refused(request, "digits"), words);
    }
    assert_names(&refused(json!({"type": "stop"}), "digit"), &["404", "did you mean `digits`"]);
    let unknown = browser.post(&json!({"study": "digits", "request": {}, "extra": 1}));
    assert_names(&unknown.text(), &["unknown field `extra`"]);
}

#[test]
fn the_page_steers_a_study_that_runs() {
    // Trials last until they may go.
    let script = RESUMABLE.replace("sleep 0.1", "[ -e go ] || sleep 0.3");
    let script = script.replace("HPSEARCH_UNTIL:-6", "HPSEARCH_UNTIL:-200");
    let site = Site::new(&study("trials = 4", TWO_SLOTS), &script);
    let running = site.start_study();
    site.wait_for_lines("steps", 1);
    let browser = Browser::start(&site, &["--control"]);
    let mut stream = browser.stream("s", "");
    stream.wait_for("hello");
    let ask = |request: Json, confirmed: bool| {
        let body = json!({"study": "s", "request": request, "confirmed": confirmed});
        let answered = browser.post(&body);
        (answered.code, answered.json())
    };
    let (code, done) = ask(json!({"type": "enqueue", "params": {"x": "0.125"}}), false);
    assert_eq!((code, &done["answer"]), (200, &json!("done")), "{done}");
    assert_eq!(ask(json!({"type": "note", "trial": 0, "text": "look"}), false).0, 200);
    assert_eq!(
        ask(json!({"type": "tag", "trial": 0, "tag": "keep", "present": true}), false).0,
        200
    );
    stream.wait_for_entry("keep");
    let (code, done) = ask(json!({"type": "pause_trial", "trial": 0}), false);
    assert_eq!((code, &done["answer"]), (200, &json!("done")), "{done}");
    assert_names(done["text"].as_str().unwrap(), &["trial 0 saves and leaves"]);
    wait_until("it is paused", || site.states()[0] == "paused");
    let running_trial = || {
        let trials = site.trials();
        let is_running = |trial: &&Json| trial["state"] == "running";
        trials.iter().find(is_running).map(|trial| trial["number"].as_u64().unwrap())
    };
    let victim = running_trial().unwrap();
    let kill = json!({"type": "kill", "trial": victim});
    let (code, question) = ask(kill.clone(), false);
    assert_eq!((code, &question["answer"]), (409, &json!("question")));
    assert_eq!(question["asks"], format!("kill trial {victim}?"));
    assert_eq!(question["then"], "it ends at once and counts as failed");
    assert_eq!(ask(kill.clone(), true).0, 200);
    let number = usize::try_from(victim).unwrap();
    wait_until("it is killed", || site.states()[number] == "failed");
    // Nothing is asked where the answer is no.
    let (code, refused) = ask(kill, false);
    assert_eq!(code, 409, "{refused}");
    assert_names(refused["error"].as_str().unwrap(), &["is already failed"]);
    let (code, question) = ask(json!({"type": "stop"}), false);
    assert_eq!((code, &question["asks"]), (409, &json!("stop the study?")));
    assert_eq!(ask(json!({"type": "stop"}), true).0, 200);
    // As after Ctrl-C: it can be continued.
    assert_code(&running.end(), 130);
    site.write("go", "");
    // The study stands still: its requests are served by the server itself.
    let (code, done) = ask(json!({"type": "resume_trial", "trial": 0}), false);
    assert_eq!((code, &done["answer"]), (200, &json!("done")), "{done}");
    assert_done(&site.run_study());
    let trials = site.trials();
    assert!(trials.iter().any(|trial| trial["params"]["x"] == 0.125), "{trials:?}");
    assert_eq!(trials[0]["tags"], json!(["keep"]));
    assert_eq!(trials[0]["notes"][0]["text"], "look");
    site.assert_folds();
}

#[test]
fn a_runner_that_is_killed_is_noticed_though_it_writes_nothing() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(RESUMABLE));
    let mut running = site.start_study();
    site.wait_for("started");
    let browser = Browser::start(&site, &[]);
    let mut stream = browser.stream("s", "");
    stream.wait_for("hello");
    // Whatever was still being written is out when nothing new comes.
    let last = |browser: &Browser| {
        let entries = browser.json("/api/events?study=s&limit=1");
        entries["entries"][0]["seq"].as_i64().unwrap()
    };
    let before = last(&browser);
    running.kill();
    stream.wait_for("changed");
    assert_eq!(last(&browser), before, "the journal says nothing of it");
    site.write("go", "");
    assert_done(&site.run_study());
    stream.wait_for_entry("the study is over");
}

#[test]
fn one_stream_hears_of_all_studies_and_of_runners_that_are_killed() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(RESUMABLE));
    let mut running = site.start_study();
    site.wait_for("started");
    let browser = Browser::start(&site, &[]);
    let mut stream = browser.stream("", "");
    stream.wait_for("hello");
    assert_done(&site.run(&["note", "s", "-m", "of a study that the stream does not name"]));
    stream.wait_for("changed");
    let state = |browser: &Browser| browser.json("/api/studies")["studies"][0]["state"].clone();
    assert_eq!(state(&browser), "running");
    running.kill();
    wait_until("the page is asked to read the state", || {
        stream.wait_for("changed");
        state(&browser) == "interrupted"
    });
    site.write("go", "");
    assert_done(&site.run_study());
}

#[test]
fn journals_are_read_page_by_page_from_their_end() {
    let (mut scene, browser) = served(Limits::default());
    for number in 0..20 {
        note(&mut scene, &format!("note {number}"));
    }
    let whole = browser.json("/api/events?study=digits&limit=10000");
    assert_eq!(whole["before"], Json::Null);
    let mut pages = Vec::new();
    let mut before = String::new();
    loop {
        let page = browser.json(&format!("/api/events?study=digits&limit=7{before}"));
        let entries = page["entries"].as_array().unwrap().clone();
        pages.splice(0..0, entries);
        let Some(seq) = page["before"].as_i64() else { break };
        before = format!("&before={seq}");
    }
    assert_eq!(Json::from(pages), whole["entries"]);
    assert_eq!(browser.get("/api/events?study=digits&limit=x").code, 400);
    assert_eq!(browser.get("/api/events").code, 400);
}

#[test]
fn the_parts_of_the_page_are_what_the_verbs_print() {
    let mut scene = Scene::digits();
    let summary = [("test_accuracy".to_owned(), json!(0.91))].into_iter().collect();
    let recorded = TrialEvent::Record(RecordEvent::SummaryRecorded { summary });
    let (kind, digest) = (ArtifactKind::Text, digest_of(b"once"));
    let (name, step) = ("sample".to_owned(), Some(3));
    let artifact = Artifact { name, kind, digest, bytes: 4, step, path: None, copied: false };
    let content = Some("once".to_owned());
    let saved = TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, content });
    scene.append(&[recorded, saved].map(|event| Event::Trial(TrialNumber(1), event)));
    scene.leave();
    let browser = Browser::with_limits(&scene, Limits::default(), false);
    let studies = browser.json("/api/studies");
    let study = &studies["studies"][0];
    assert_eq!((&study["name"], &study["state"]), (&json!("digits"), &json!("stopped")));
    assert_eq!(study["best"], json!({"number": 0, "value": 0.184213}));
    let listed: Json = scene.json(&["ls", "--json"]);
    for key in ["trials", "metric", "direction", "best", "state"] {
        assert_eq!(study[key], listed["studies"][0][key], "{key}");
    }
    let study = browser.json("/api/study?study=digits");
    assert_eq!(study["params"][1]["name"], "model.num_layers");
    assert_names(study["params"][1]["range"].as_str().unwrap(), &["1", "8"]);
    assert_eq!(study["metrics"], json!(["eval_accuracy", "eval_loss"]));
    let numbers = |query: &str| -> Vec<u64> {
        let part = browser.json(&format!("/api/trials?study=digits&{query}"));
        let trials = part["trials"].as_array().unwrap();
        trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    let printed = |arguments: &[&str]| -> Vec<u64> {
        let listed: Json = scene.json(&[&["trials", "digits", "--json"], arguments].concat());
        let trials = listed["trials"].as_array().unwrap();
        trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    for (query, arguments) in [
        ("", &[][..]),
        ("sort=number&reverse=1", &["--sort", "number", "--reverse"]),
        ("sort=learning_rate", &["--sort", "learning_rate"]),
        ("sort=-number", &["--sort", "-number"]),
        ("where=optim%3Dsgd+-state:pruned", &["--where", "optim=sgd -state:pruned"]),
        ("where=eval_loss%3C1", &["--where", "eval_loss<1"]),
    ] {
        assert_eq!(numbers(query), printed(arguments), "{query}");
    }
    assert_eq!(numbers("sort=number&offset=1&limit=2"), [1, 2]);
    let part = browser.json("/api/trials?study=digits&where=optim%3Dsgd&limit=1");
    assert_eq!((&part["matching"], part["trials"].as_array().unwrap().len()), (&json!(2), 1));
    let nan = browser.json("/api/trials?study=digits&where=number%3D2");
    assert_eq!(nan["trials"][0]["value"], "NaN");
    let wrong = browser.get("/api/trials?study=digits&where=optimm%3E3");
    assert_eq!(wrong.code, 400);
    assert_eq!(wrong.json()["span"], json!([0, 6]));
    assert_names(&wrong.text(), &["optimm"]);
    assert_eq!(browser.get("/api/trials?study=digits&sort=nothing").code, 400);
    let trial = browser.json("/api/trial?study=digits&trial=1");
    assert_eq!(trial["summary"], json!({"test_accuracy": 0.91}));
    let kept = json!([{"name": "sample:v1", "kind": "text", "bytes": 4, "step": 3}]);
    assert_eq!(trial["artifacts"], kept);
    assert_eq!((&trial["state"], &trial["params"]["momentum"]), (&json!("pruned"), &json!(0.9)));
    assert_eq!(trial["attempts_made"][0]["device"], "cpu");
    assert_eq!(browser.get("/api/trial?study=digits&trial=9").code, 404);
    let curves = browser.json("/api/curves?study=digits&trial=0&trial=3&columns=100");
    assert_eq!(curves["metric"], "eval_loss");
    assert_eq!(curves["curves"][1], json!({"trial": 3, "points": [[1.0, 0.7]]}));
    let points = curves["curves"][0]["points"].as_array().unwrap();
    assert!(points.contains(&json!([2.0, 0.184213])), "{points:?}");
    assert_eq!(browser.get("/api/curves?study=digits&trial=0&clock=x").code, 400);
    assert!(browser.json("/api/devices")["devices"][0]["name"] == "cpu");
    assert_eq!(browser.json("/api/server")["is_controlled"], false);
}

#[test]
fn a_study_of_several_objectives_has_a_front_instead_of_a_best_trial() {
    let site = several_objectives::finished("[sampler]\ntype = \"random\"");
    let (trials, browser) = (site.trials(), Browser::start(&site, &[]));
    let on = json!(several_objectives::front(&trials));
    let best = site.json(&["best", "s", "--json"]);
    let listed = browser.json("/api/studies")["studies"][0].clone();
    for study in [listed, browser.json("/api/study?study=s")] {
        assert_eq!(study["best"], Json::Null);
        assert_eq!(study["objectives"][1], json!({"metric": "speed", "direction": "maximize"}));
        let front = &study["front"];
        assert_eq!((&front["trials"], &front["knee"]), (&on, &best["trial"]["number"]));
        for key in ["hypervolume", "reference"] {
            assert_eq!(front[key], best[key], "{key}");
        }
    }
    let rows = |query: &str| -> Vec<Json> {
        let part = browser.json(&format!("/api/trials?study=s{query}"));
        part["trials"].as_array().unwrap().clone()
    };
    let first: Vec<u64> = rows("").iter().map(|row| row["number"].as_u64().unwrap()).collect();
    let length = on.as_array().unwrap().len();
    assert!(first[..length].iter().all(|number| on.as_array().unwrap().contains(&json!(number))));
    for (index, metric) in ["error", "speed"].into_iter().enumerate() {
        let sorted = rows(&format!("&sort={metric}"));
        assert!(sorted.iter().map(|row| row["values"][index].as_f64().unwrap()).is_sorted());
        assert!(sorted.iter().all(|row| row["values_are_last"] == Json::Null));
    }
    let trial = browser.json("/api/trial?study=s&trial=3");
    assert_eq!(trial["values"], trials[3]["values"]);
    let figures = |query: &str| {
        let part = browser.json(&format!("/api/figures?study=s&{query}"));
        part["figures"].as_array().unwrap().len()
    };
    assert_eq!((figures("kind=history"), figures("kind=history&metric=speed")), (2, 1));
    for kind in ["pareto", "hypervolume"] {
        let drawn = browser.get(&format!("/api/figure.svg?study=s&kind={kind}"));
        assert_eq!(drawn.code, 200, "{kind}: {}", drawn.text());
    }
}

#[test]
fn what_a_trial_reported_before_it_failed_is_marked_as_the_last() {
    let study = several_objectives::study(["", ""], "trials = 1\nfailures = 2", "");
    let script = "echo '@hpsearch {\"step\":1,\"speed\":2}'; exit 3\n";
    let site = Site::new(&study, script);
    site.run_study();
    let browser = Browser::start(&site, &[]);
    let row = browser.json("/api/trials?study=s")["trials"][0].clone();
    assert_eq!((&row["values"], &row["values_are_last"]), (&json!([null, 2.0]), &json!(true)));
    assert_eq!(browser.json("/api/study?study=s")["front"]["trials"], json!([]));
}

#[test]
fn the_end_of_a_log_is_text_and_is_sent_once() {
    // Colours, a title, a bar that overwrites itself, markup, a character that turns text around.
    let script = "printf '\\033[31mred\\033[0m\\n\\033]0;title\\007x\\n10%%\\r100%%\\n'\n\
        echo '</pre><script>alert(1)</script>'\nprintf 'a\\342\\200\\256b\\000c\\n'\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&study("trials = 2", ONE_SLOT), script);
    assert_done(&site.run_study());
    let browser = Browser::start(&site, &[]);
    let log = browser.json("/api/log?study=s&trial=0");
    let lines: Vec<&str> =
        log["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(lines[..5], ["red", "x", "100%", "</pre><script>alert(1)</script>", "abc"]);
    assert_eq!((&log["attempt"], &log["cut"]), (&json!(0), &json!(false)));
    let bytes = log["bytes"].as_u64().unwrap();
    let again = browser.json(&format!("/api/log?study=s&trial=0&known=0&bytes={bytes}"));
    assert_eq!(again["lines"], Json::Null, "the page has it");
    let grown = browser.json(&format!("/api/log?study=s&trial=0&known=0&bytes={}", bytes - 1));
    assert!(grown["lines"].is_array());
    let path = log_of(&site, 0);
    // Long logs are cut, at a line.
    fs::write(&path, format!("{}last\n", "a line of a log\n".repeat(100_000))).unwrap();
    let answered = browser.get("/api/log?study=s&trial=0");
    assert!(answered.text().len() < 100_000, "{}", answered.text().len());
    let lines = answered.json()["lines"].as_array().unwrap().clone();
    assert_eq!((&lines[0], lines.last().unwrap()), (&json!("a line of a log"), &json!("last")));
    // Nothing in a request is part of a path, and nothing beside a log is read in its place.
    for query in [
        "study=s&trial=..%2F..%2F..%2Fetc%2Fpasswd",
        "study=s&trial=0&attempt=..%2F..%2Fstudy.toml",
        "study=s&trial=0&attempt=-1",
        "study=s&trial=0&attempt=7",
        "study=s&trial=0&attempt=99999999999999999999",
        "study=s&trial=0%00&attempt=0",
        "study=s",
        "study=s&trial=9",
        "study=..%2Fs&trial=0",
    ] {
        let refused = browser.get(&format!("/api/log?{query}"));
        assert!(matches!(refused.code, 400 | 404), "{query}: {}", refused.code);
        assert!(!refused.text().contains("lines"), "{query}");
    }
    site.write("secret.txt", "a secret\n");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(site.path("secret.txt"), &path).unwrap();
    let refused = browser.get("/api/log?study=s&trial=0");
    assert_names(&refused.text(), &["a link"]);
    assert!(refused.code >= 400 && !refused.text().contains("a secret"));
    fs::remove_file(&path).unwrap();
    let none = browser.json("/api/log?study=s&trial=0");
    assert_eq!((&none["bytes"], &none["lines"]), (&json!(0), &json!([])));
}

/// The log of a trial's first attempt, wherever it is below the site's directory.
fn log_of(site: &Site, trial: u64) -> PathBuf {
    let wanted = format!("{trial}/attempt-0.log");
    let mut directories = vec![site.path("runs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.display().to_string().ends_with(&wanted) {
                return path;
            }
        }
    }
    panic!("there is no {wanted}");
}

#[test]
fn figures_are_drawn_for_the_page_and_given_as_data() {
    let (_scene, browser) = served(Limits::default());
    let history = browser.json("/api/figures?study=digits&kind=history&log_y=1");
    let figure = &history["figures"][0];
    assert_eq!((&figure["x"]["label"], &figure["y"]["log"]), (&json!("trial"), &json!(true)));
    assert_eq!(figure["x"]["range"], json!([0.0, 1.0]), "{figure}");
    let series = figure["series"].as_array().unwrap();
    let best = series.iter().find(|one| one["role"] == "best").unwrap();
    assert_eq!((&best["mark"], &best["points"][0]), (&json!("steps"), &json!([0.0, 0.184213])));
    let curves = browser.json("/api/figures?study=digits&kind=curves&trial=0&trial=3");
    let series = curves["figures"][0]["series"].as_array().unwrap();
    let told: Vec<_> = series.iter().map(|one| (&one["trial"], &one["index"])).collect();
    assert_eq!(told, [(&json!(0), &json!(0)), (&json!(3), &json!(1))]);
    assert_eq!(browser.get("/api/figures?study=digits&kind=curves&metric=nothing").code, 400);
    assert_eq!(browser.get("/api/figures?study=digits&kind=curves&over=nothing").code, 400);
    let drawn = browser.get("/api/figure.svg?study=digits&kind=history&theme=dark&width=400");
    assert_eq!((drawn.code, drawn.header("content-type")), (200, Some("image/svg+xml")));
    assert_names(&drawn.text(), &["<svg", "width=\"400\"", "#0f1419"]);
    // The policy lets no inline style through.
    assert!(!drawn.text().contains("style="), "{}", drawn.text());
    let compared = browser.get("/api/figure.svg?study=digits&kind=curves&trial=0&trial=3").text();
    assert_names(&compared, &["trial 0", "trial 3"]);
    for kind in
        ["slice", "parallel", "importance", "contour", "rungs", "edf", "comparison", "timeline"]
    {
        let drawn = browser.get(&format!("/api/figure.svg?study=digits&kind={kind}"));
        assert_eq!(drawn.code, 200, "{kind}: {}", drawn.text());
    }
    let refused = browser.get("/api/figure.svg?study=digits&kind=pie");
    assert_eq!((refused.code, refused.header("content-type")), (400, Some("application/json")));
    assert_eq!(browser.get("/api/figure.svg?kind=history").code, 400);
}

#[test]
fn the_pages_files_are_in_the_program_and_kept_by_browsers_until_they_change() {
    let (_scene, browser) = served(Limits::default());
    let page = browser.get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    let mut linked = Vec::new();
    for attribute in ["src=\"", "href=\"/"] {
        linked.extend(text.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap()));
    }
    assert!(linked.len() >= 3, "{text}");
    for path in linked {
        let path = format!("/{}", path.trim_start_matches('/'));
        let file = browser.get(&path);
        assert_eq!((file.code, file.header("cache-control")), (200, Some("no-cache")), "{path}");
        let tag = file.header("etag").unwrap();
        let mut connected = browser.connect();
        let headers = browser.headers();
        connected.send(format!("GET {path} HTTP/1.1\r\n{headers}If-None-Match: {tag}\r\n\r\n"));
        assert_eq!(connected.answer().code, 304, "{path}");
    }
}

/// Logs an image of a trial, and returns its file and its address.
fn logged(scene: &mut Scene, trial: u64, name: &str, content: &[u8]) -> (PathBuf, String) {
    let file = scene.log_image("digits", trial, (name, Some(3)), content);
    let digest = digest_of(content);
    (file, format!("/api/image?study=digits&trial={trial}&digest={digest}"))
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n<script>alert(1)</script>";

#[test]
fn an_image_is_served_by_its_digest_and_as_what_it_begins_like() {
    let mut scene = Scene::digits();
    let (_, png) = logged(&mut scene, 1, "page.html", PNG);
    let (_, webp) = logged(&mut scene, 1, "sample", b"RIFF1234WEBPVP8 ");
    scene.leave();
    let browser = Browser::with_limits(&scene, Limits::default(), false);
    let artifacts = &browser.json("/api/trial?study=digits&trial=1")["artifacts"];
    assert_eq!(
        (&artifacts[0]["kind"], &artifacts[0]["digest"]),
        (&json!("image"), &json!(digest_of(PNG)))
    );
    let served = browser.get(&png);
    assert_eq!((served.code, served.body.as_slice()), (200, PNG));
    for (name, value) in [
        ("content-type", "image/png"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "private, max-age=31536000, immutable"),
    ] {
        assert_eq!(served.header(name), Some(value), "{}", served.head);
    }
    assert_eq!(browser.get(&webp).header("content-type"), Some("image/webp"));
    let mut connected = browser.connect();
    let (headers, tag) = (browser.headers(), served.header("etag").unwrap());
    connected.send(format!("GET {png} HTTP/1.1\r\n{headers}If-None-Match: {tag}\r\n\r\n"));
    assert_eq!(connected.answer().code, 304);
    // The connection stays in step after each kind of answer.
    connected.send(format!("HEAD {png} HTTP/1.1\r\n{headers}\r\n"));
    let head = connected.until(b"\r\n\r\n");
    assert!(head.contains(&format!("Content-Length: {}\r\n", PNG.len())), "{head}");
    connected.send(format!("GET {webp} HTTP/1.1\r\n{headers}\r\n").repeat(2));
    assert_eq!((connected.answer().code, connected.answer().code), (200, 200));
    let signed_out = Browser::elsewhere(browser.address, browser.url.clone(), String::new());
    assert_eq!(signed_out.get(&png).code, 401);
}

#[test]
fn an_image_that_is_not_what_was_logged_is_not_served() {
    let mut scene = Scene::digits();
    let (gone, of_gone) = logged(&mut scene, 1, "gone", PNG);
    let (changed, of_changed) = logged(&mut scene, 1, "changed", b"GIF89a 1");
    let (in_the_way, of_unreadable) = logged(&mut scene, 1, "unreadable", b"GIF89a 2");
    let (_, of_svg) = logged(&mut scene, 1, "drawing", b"<svg onload='alert(1)'/>");
    let (linked, of_link) = logged(&mut scene, 1, "link", b"GIF89a 3");
    fs::remove_file(&gone).unwrap();
    fs::write(&changed, "GIF89a 0").unwrap();
    fs::remove_file(&in_the_way).unwrap();
    fs::create_dir(&in_the_way).unwrap();
    fs::remove_file(&linked).unwrap();
    scene.write("secret.gif", "GIF89a, a secret");
    std::os::unix::fs::symlink(scene.path("secret.gif"), &linked).unwrap();
    // Trial 4 ran elsewhere, where its files are.
    let holder = hpsearch::runner::this_process();
    scene.append(&[Event::Runner(RunnerEvent::Started {
        pid: holder.pid,
        host: "gpu-7".to_owned(),
        slots: Vec::new(),
        tracker: None,
    })]);
    scene.start(4, 0.1, 1, "adamw");
    let (away, of_away) = logged(&mut scene, 4, "away", PNG);
    fs::remove_file(&away).unwrap();
    scene.leave();
    let browser = Browser::with_limits(&scene, Limits::default(), false);
    let path = |file: &PathBuf| file.display().to_string();
    for (address, code, said) in [
        (&of_gone, 404, vec!["`gone:v1` is gone".to_owned(), path(&gone)]),
        (&of_changed, 409, vec!["has changed".to_owned(), path(&changed)]),
        (&of_unreadable, 500, vec!["cannot be read".to_owned(), path(&in_the_way)]),
        (&of_svg, 415, vec!["`drawing:v1` is not a PNG".to_owned()]),
        (&of_link, 409, vec!["has changed".to_owned()]),
        (&of_away, 404, vec!["is on gpu-7, at".to_owned(), path(&away), holder.host.clone()]),
    ] {
        let refused = browser.get(address);
        assert_eq!(refused.code, code, "{address}");
        assert_eq!(refused.header("content-type"), Some("application/json"));
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        let text = refused.json()["error"].as_str().unwrap().to_owned();
        assert_names(&text, &said.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let remedy = browser.get(&of_away).json()["remedy"].clone();
    assert_names(remedy.as_str().unwrap(), &["`hpsearch serve` on gpu-7"]);
    for digest in ["", "../../trial-0", "..%2F..%2Fstudy.toml", &digest_of(b"other")] {
        let address = format!("/api/image?study=digits&trial=1&digest={digest}");
        assert_eq!(browser.get(&address).code, 404, "{digest}");
    }
}

#[test]
fn a_large_image_is_sent_in_parts_and_ends_early_if_its_file_does() {
    const MIB: usize = 1 << 20;
    let mut content = PNG.to_vec();
    content.resize(64 * MIB, 7);
    let mut scene = Scene::digits();
    let (file, address) = logged(&mut scene, 1, "large", &content);
    scene.leave();
    let browser = Browser::start(&scene, &[]);
    let running = browser.running.as_ref().unwrap();
    let served = browser.get(&address);
    assert_eq!((served.code, served.body.len()), (200, content.len()));
    assert!(served.body == content, "the content is another");
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak / 1024 < 60, "{peak} kB for an image of 64 MiB");
    // A client that has read the head, and not the rest, while the file is cut.
    let mut connected = browser.connect();
    connected.send(format!("GET {address} HTTP/1.1\r\n{}\r\n", browser.headers()));
    let head = connected.until(b"\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    fs::File::options().write(true).open(&file).unwrap().set_len(MIB as u64).unwrap();
    assert!(connected.rest().len() < content.len());
    assert_eq!(browser.get("/api/server").code, 200);
}
