//! HTTP responses, with the headers that every one of them has.

use std::fmt::Write as _;
use std::fs::File;
use std::sync::Arc;

use serde::Serialize;

use super::body::FileBody;

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    SeeOther,
    NotModified,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    Conflict,
    LengthRequired,
    ContentTooLarge,
    UnsupportedMediaType,
    ExpectationFailed,
    MisdirectedRequest,
    HeaderFieldsTooLarge,
    InternalServerError,
    ServiceUnavailable,
    VersionNotSupported,
}

impl Status {
    /// Its number.
    pub fn code(self) -> u16 {
        self.row().0
    }

    fn row(self) -> (u16, &'static str) {
        match self {
            Status::Ok => (200, "OK"),
            Status::SeeOther => (303, "See Other"),
            Status::NotModified => (304, "Not Modified"),
            Status::BadRequest => (400, "Bad Request"),
            Status::Unauthorized => (401, "Unauthorized"),
            Status::Forbidden => (403, "Forbidden"),
            Status::NotFound => (404, "Not Found"),
            Status::MethodNotAllowed => (405, "Method Not Allowed"),
            Status::RequestTimeout => (408, "Request Timeout"),
            Status::Conflict => (409, "Conflict"),
            Status::LengthRequired => (411, "Length Required"),
            Status::ContentTooLarge => (413, "Content Too Large"),
            Status::UnsupportedMediaType => (415, "Unsupported Media Type"),
            Status::ExpectationFailed => (417, "Expectation Failed"),
            Status::MisdirectedRequest => (421, "Misdirected Request"),
            Status::HeaderFieldsTooLarge => (431, "Request Header Fields Too Large"),
            Status::InternalServerError => (500, "Internal Server Error"),
            Status::ServiceUnavailable => (503, "Service Unavailable"),
            Status::VersionNotSupported => (505, "HTTP Version Not Supported"),
        }
    }
}

/// Sent with every response. Nothing but this server's own files runs in the page, nothing of the
/// page goes anywhere else, and no other page shows or reads it.
const ALWAYS: &[(&str, &str)] = &[
    (
        "Content-Security-Policy",
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
];

/// Which parts of a response are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Head and body.
    Whole,
    /// The head only, with the length of the body.
    Head,
}

/// What a browser may keep.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    /// Nothing.
    Nothing,
    /// The content, if it asks each time whether it still has this tag.
    Tagged(String),
    /// The content with this tag: the address never has another.
    Always(String),
}

/// The content of a response.
#[derive(Clone, Debug, PartialEq)]
enum Body {
    Bytes(Arc<[u8]>),
    File(FileBody),
}

impl Body {
    fn length(&self) -> u64 {
        match self {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::File(file) => file.length(),
        }
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    status: Status,
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Body,
    kept: Kept,
}

/// What went wrong, as JSON.
#[derive(Debug, Serialize)]
struct Problem<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'a str>,
}

impl Response {
    /// A response of this content.
    pub fn new(status: Status, content_type: &'static str, body: impl Into<Arc<[u8]>>) -> Self {
        Response::of(status, content_type, Body::Bytes(body.into()))
    }

    /// A file, `length` bytes of it, which is read while it is sent.
    pub fn file(content_type: &'static str, file: File, length: u64) -> Self {
        Response::of(Status::Ok, content_type, Body::File(FileBody::new(file, length)))
    }

    fn of(status: Status, content_type: &'static str, body: Body) -> Self {
        Response { status, content_type, headers: Vec::new(), body, kept: Kept::Nothing }
    }

    /// A text.
    pub fn text(status: Status, text: impl Into<String>) -> Self {
        Response::new(status, "text/plain; charset=utf-8", text.into().into_bytes())
    }

    /// A value as JSON.
    pub fn json(status: Status, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Response::new(status, "application/json", body),
            Err(error) => {
                let error = format!("the answer cannot be written as JSON: {error}");
                Response::problem(Status::InternalServerError, &error, None)
            }
        }
    }

    /// An error, and what to do about it.
    pub fn problem(status: Status, error: &str, remedy: Option<&str>) -> Self {
        Response::json(status, &Problem { error, remedy })
    }

    /// Adds a header, or replaces one that all responses have; names and values are this program's
    /// own, without line ends.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Lets browsers keep the content and ask whether it is still the same.
    #[must_use]
    pub fn tagged(self, tag: String) -> Self {
        Response { kept: Kept::Tagged(tag), ..self }
    }

    /// Lets browsers keep the content for good.
    #[must_use]
    pub fn lasting(self, tag: String) -> Self {
        Response { kept: Kept::Always(tag), ..self }
    }

    /// Its status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The file that follows [`Response::bytes`].
    pub fn file_body(&self, parts: Parts) -> Option<FileBody> {
        match &self.body {
            Body::File(file) if parts == Parts::Whole => Some(file.clone()),
            _ => None,
        }
    }

    /// What is sent; `is_kept` is whether the connection stays.
    pub fn bytes(&self, parts: Parts, is_kept: bool) -> Vec<u8> {
        let (code, reason) = self.status.row();
        let mut head = format!("HTTP/1.1 {code} {reason}\r\n");
        let mut line = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        };
        if self.status != Status::NotModified {
            line("Content-Type", self.content_type);
            line("Content-Length", &self.body.length().to_string());
        }
        match &self.kept {
            Kept::Nothing => line("Cache-Control", "no-store"),
            Kept::Tagged(tag) => {
                line("Cache-Control", "no-cache");
                line("ETag", tag);
            }
            Kept::Always(tag) => {
                line("Cache-Control", "private, max-age=31536000, immutable");
                line("ETag", tag);
            }
        }
        let is_replaced = |name: &str| self.headers.iter().any(|(own, _)| *own == name);
        let usual = ALWAYS.iter().filter(|(name, _)| !is_replaced(name));
        usual.for_each(|(name, value)| line(name, value));
        self.headers.iter().for_each(|(name, value)| line(name, value));
        line("Connection", if is_kept { "keep-alive" } else { "close" });
        head += "\r\n";
        let mut bytes = head.into_bytes();
        if let Body::Bytes(body) = &self.body
            && parts == Parts::Whole
            && self.status != Status::NotModified
        {
            bytes.extend_from_slice(body);
        }
        bytes
    }

    /// The head of a stream of server-sent events.
    pub fn event_stream() -> Vec<u8> {
        let mut head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                        Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n\
                        Connection: close\r\n"
            .to_owned();
        for (name, value) in ALWAYS {
            head += &format!("{name}: {value}\r\n");
        }
        (head + "\r\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_its_length_and_the_defences() {
        let response = Response::json(Status::Ok, &["a"]).with("X-One", "1");
        let text = String::from_utf8(response.bytes(Parts::Whole, true)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "[\"a\"]");
        for line in [
            "HTTP/1.1 200 OK",
            "Content-Type: application/json",
            "Content-Length: 5",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "X-One: 1",
            "Connection: keep-alive",
        ] {
            assert!(head.lines().any(|own| own == line), "{line}: {head}");
        }
        assert!(!head.contains("Access-Control") && !head.contains("unsafe"));
        let of_head = String::from_utf8(response.bytes(Parts::Head, false)).unwrap();
        assert!(of_head.contains("Content-Length: 5") && of_head.ends_with("\r\n\r\n"));
    }
}
