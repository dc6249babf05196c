//! A client of `hpsearch serve` that sends what it is told to, byte by byte where a test wants it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hpsearch::server::{Limits, Server, ServerOptions, StopServer};
use serde_json::Value as Json;

use super::process::{PATIENCE, Running, wait_until};
use super::site::{STORE, Site};

/// A server, and a browser that is signed in to it.
pub struct Browser {
    pub address: SocketAddr,
    pub url: String,
    pub cookie: String,
    /// The server, if it is a program of its own.
    pub running: Option<Running>,
    here: Option<(StopServer, JoinHandle<()>)>,
}

/// What a server answered.
#[derive(Debug)]
pub struct Answered {
    pub code: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answered {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Json {
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Browser {
    /// Starts `hpsearch serve` on a free port, and signs in.
    pub fn start(site: &Site, arguments: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let running = site.start(&words);
        wait_until("the server has printed its address", || running.said_so_far().contains('\n'));
        let url = running.said_so_far().lines().next().unwrap().to_owned();
        Browser::sign_in(url, Some(running), None)
    }

    /// Starts a server in this process, with other limits.
    pub fn with_limits(site: &Site, limits: Limits, control: bool) -> Self {
        let options = ServerOptions {
            store: site.path(STORE),
            listen: "127.0.0.1:0".parse().unwrap(),
            access: match control {
                true => hpsearch::server::Access::Control,
                false => hpsearch::server::Access::ReadOnly,
            },
            allowed_hosts: vec!["lab.example".to_owned()],
            limits,
        };
        let server = Server::start(&options, &(Arc::new(|_: &_| {}) as _)).unwrap();
        let (url, stop) = (server.url(), server.stopper());
        let thread = std::thread::spawn(move || server.run().unwrap());
        Browser::sign_in(url, None, Some((stop, thread)))
    }

    fn sign_in(
        url: String,
        running: Option<Running>,
        here: Option<(StopServer, JoinHandle<()>)>,
    ) -> Self {
        let (host, _) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        let address = host.parse().unwrap();
        let mut browser =
            Browser { address, url: url.clone(), cookie: String::new(), running, here };
        let path = url.split_once(host).unwrap().1;
        let answered = browser.get(path);
        assert_eq!(answered.code, 303, "{}", answered.head);
        let cookie = answered.header("set-cookie").unwrap().split(';').next().unwrap();
        browser.cookie = cookie.to_owned();
        browser
    }

    /// A browser of the same server that does not end it; signed in with another cookie, or none.
    pub fn elsewhere(address: SocketAddr, url: String, cookie: String) -> Self {
        Browser { address, url, cookie, running: None, here: None }
    }

    pub fn token(&self) -> &str {
        self.url.split_once("token=").unwrap().1
    }

    /// The lines that a browser sends with each request.
    pub fn headers(&self) -> String {
        format!("Host: {}\r\nCookie: {}\r\n", self.address, self.cookie)
    }

    pub fn connect(&self) -> Connected {
        Connected::to(self.address)
    }

    /// One request on a connection of its own.
    pub fn get(&self, path: &str) -> Answered {
        let mut connected = self.connect();
        connected.send(format!("GET {path} HTTP/1.1\r\n{}\r\n", self.headers()));
        connected.answer()
    }

    pub fn json(&self, path: &str) -> Json {
        let answered = self.get(path);
        assert_eq!(answered.code, 200, "{path}: {}", answered.text());
        answered.json()
    }

    /// A write as the page sends it.
    pub fn post(&self, body: &Json) -> Answered {
        self.post_with(&[], body)
    }

    /// The same with other values of some headers; an empty one is left out.
    pub fn post_with(&self, other: &[(&str, &str)], body: &Json) -> Answered {
        let body = body.to_string();
        let (host, origin) = (self.address.to_string(), format!("http://{}", self.address));
        let length = body.len().to_string();
        let mut headers = vec![
            ("Host", host.as_str()),
            ("Cookie", &self.cookie),
            ("Origin", &origin),
            ("X-Hpsearch", "1"),
            ("Content-Type", "application/json"),
            ("Content-Length", &length),
        ];
        for (name, value) in other {
            headers.retain(|(own, _)| own != name);
            headers.push((name, value));
        }
        let lines = headers.iter().filter(|(_, value)| !value.is_empty());
        let lines: String = lines.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut connected = self.connect();
        connected.send(format!("POST /api/control HTTP/1.1\r\n{lines}\r\n{body}"));
        connected.answer()
    }

    /// The stream of events of a study.
    pub fn stream(&self, study: &str, headers: &str) -> Stream {
        let mut connected = self.connect();
        let query = if study.is_empty() { String::new() } else { format!("?study={study}") };
        let path = format!("/api/stream{query}");
        connected.send(format!("GET {path} HTTP/1.1\r\n{}{headers}\r\n", self.headers()));
        let head = connected.until(b"\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("Content-Type: text/event-stream\r\n"), "{head}");
        Stream { connected }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.here.take() {
            stop.stop();
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server failed");
        }
    }
}

/// A connection.
pub struct Connected {
    pub stream: TcpStream,
    unread: Vec<u8>,
}

impl Connected {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Connected { stream, unread: Vec::new() }
    }

    pub fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).unwrap();
    }

    /// Sends it, though the server may have closed the connection; whether it took it.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Reads until these bytes, and returns what came up to them.
    pub fn until(&mut self, end: &[u8]) -> String {
        let mut searched = 0;
        loop {
            let found = self.unread[searched..].windows(end.len()).position(|part| part == end);
            if let Some(at) = found {
                let rest = self.unread.split_off(searched + at + end.len());
                let part = std::mem::replace(&mut self.unread, rest);
                return String::from_utf8(part).unwrap();
            }
            searched = self.unread.len().saturating_sub(end.len());
            assert!(self.read_more(), "the connection ended: {}", self.unread_text());
        }
    }

    fn unread_text(&self) -> String {
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// Whether the server sent something, and has not closed the connection.
    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 65_536];
        match self.stream.read(&mut bytes) {
            Ok(length) => {
                self.unread.extend_from_slice(&bytes[..length]);
                length > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next answer.
    pub fn answer(&mut self) -> Answered {
        let head = self.until(b"\r\n\r\n");
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answered = Answered { code, head, body: Vec::new() };
        let length: usize =
            answered.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            assert!(self.read_more(), "the connection ended in an answer");
        }
        let rest = self.unread.split_off(length);
        answered.body = std::mem::replace(&mut self.unread, rest);
        answered
    }

    /// Reads to the end of the connection.
    pub fn rest(&mut self) -> String {
        while self.read_more() {}
        std::mem::take(&mut self.unread).iter().map(|byte| char::from(*byte)).collect()
    }

    /// Whether the server closes the connection within some time, whatever it sends before.
    pub fn is_closed_within(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        self.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut bytes = [0; 65_536];
        while Instant::now() < until {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return true,
            }
        }
        false
    }
}

/// A stream of events.
pub struct Stream {
    pub connected: Connected,
}

/// A server-sent event.
#[derive(Clone, Debug)]
pub struct Sent {
    pub id: Option<i64>,
    pub name: String,
    pub data: Json,
}

impl Stream {
    /// The next event; signs of life are skipped.
    pub fn next(&mut self) -> Sent {
        loop {
            let text = self.connected.until(b"\n\n");
            let field = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            if let Some(name) = field("event") {
                return Sent {
                    id: field("id").map(|id| id.parse().unwrap()),
                    name: name.to_owned(),
                    data: serde_json::from_str(field("data").unwrap()).unwrap(),
                };
            }
        }
    }

    /// The next event of this name.
    pub fn wait_for(&mut self, name: &str) -> Sent {
        loop {
            let sent = self.next();
            if sent.name == name {
                return sent;
            }
        }
    }

    /// The next entry of the journal whose text holds this.
    pub fn wait_for_entry(&mut self, text: &str) -> Json {
        loop {
            let sent = self.wait_for("journal");
            let entries = sent.data["entries"].as_array().unwrap();
            let is_meant = |entry: &&Json| entry["text"].as_str().unwrap().contains(text);
            if let Some(entry) = entries.iter().find(is_meant) {
                return entry.clone();
            }
        }
    }
}
