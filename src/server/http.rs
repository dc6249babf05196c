//! HTTP requests: one head is parsed and checked as a whole before anything is done with it.
//!
//! Whatever two programs could read differently is refused: line ends without a carriage return,
//! two lengths, `Transfer-Encoding`, two hosts. Paths are compared as they are written and never
//! decoded; names come in the query.

use httparse::{EMPTY_HEADER, Error as ParseError, Status as Parsed};

use super::response::{Response, Status};

/// Longest head of a request, in bytes.
pub const MOST_HEAD: usize = 16 * 1024;
/// Longest body of a request, in bytes.
pub const MOST_BODY: usize = 64 * 1024;
const MOST_HEADERS: usize = 64;

/// What is asked of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The resource.
    Get,
    /// Its headers.
    Head,
    /// A change.
    Post,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// What is asked.
    pub method: Method,
    /// As written, without the query.
    pub path: String,
    /// Names and values of the query, decoded.
    pub query: Vec<(String, String)>,
    /// Names in lower case, and values.
    headers: Vec<(String, String)>,
    /// Bytes of the body.
    pub body: usize,
    /// Whether the client may send another request on this connection.
    pub is_kept: bool,
}

/// A request with its body.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: Vec<u8>,
}

impl Head {
    /// The value of a header that is there once; several are none.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(own, _)| own == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(value.as_str())
    }

    /// All values of a header.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The first value of a name in the query.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether the client has the content with this tag already.
    pub fn has_tagged(&self, tag: &str) -> bool {
        let mut known = self.values("if-none-match").flat_map(|tags| tags.split(','));
        known.any(|known| known.trim().trim_start_matches("W/") == tag)
    }

    /// All values of a name in the query.
    pub fn queries<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The head at the beginning of `input`, with its length; `None`: it is not complete. `scanned`
/// bytes are known to hold no end of a head, and the number is brought up to date, so that a head
/// that comes byte by byte costs no more than another.
///
/// # Errors
/// The answer to what is no request, or one that is not served.
pub fn head(input: &[u8], scanned: &mut usize) -> Result<Option<(Head, usize)>, Response> {
    let Some(first) = input.first() else { return Ok(None) };
    // A program that speaks another protocol, such as TLS, is not waited for.
    if !first.is_ascii_uppercase() {
        return Err(malformed("it is not an HTTP request"));
    }
    let from = scanned.saturating_sub(3);
    let Some(end) = input[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
        *scanned = input.len();
        return match input.len() > MOST_HEAD {
            true => Err(too_large()),
            false => Ok(None),
        };
    };
    let length = from + end + 4;
    if length > MOST_HEAD {
        return Err(too_large());
    }
    *scanned = 0;
    let text = &input[..length];
    let is_bare = |(at, byte): (usize, &u8)| match byte {
        b'\n' => at == 0 || text[at - 1] != b'\r',
        b'\r' => text.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    if text.iter().enumerate().any(is_bare) {
        return Err(malformed("its lines do not end with CR LF"));
    }
    parsed(text).map(|head| Some((head, length)))
}

fn parsed(text: &[u8]) -> Result<Head, Response> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(text) {
        Ok(Parsed::Complete(length)) if length == text.len() => {}
        Ok(_) => return Err(malformed("its head has no end")),
        Err(ParseError::TooManyHeaders) => return Err(too_large()),
        Err(ParseError::Version) => {
            return Err(Response::text(
                Status::VersionNotSupported,
                "only HTTP/1.1 is supported here\n",
            ));
        }
        Err(error) => return Err(malformed(&error.to_string())),
    }
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST") => Method::Post,
        _ => {
            let refused = Response::text(
                Status::MethodNotAllowed,
                "the methods served here are GET, HEAD and POST\n",
            );
            return Err(refused.with("Allow", "GET, HEAD, POST"));
        }
    };
    let headers = request.headers.iter().map(|header| {
        let value = std::str::from_utf8(header.value).map_err(|_| malformed("it is not UTF-8"))?;
        Ok((header.name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let headers = headers.collect::<Result<_, Response>>()?;
    let target = request.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(malformed("its target is not a path"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = decoded_query(query).ok_or_else(|| malformed("its query cannot be decoded"))?;
    let path = path.to_owned();
    let mut head = Head { method, path, query, headers, body: 0, is_kept: true };
    head.body = body_length(&head)?;
    let connection = head.header("connection").unwrap_or_default().to_ascii_lowercase();
    let says = |word: &str| connection.split(',').any(|own| own.trim() == word);
    head.is_kept = match request.version {
        Some(1) => !says("close"),
        _ => says("keep-alive"),
    };
    Ok(head)
}

/// The length of the body, which must be said once and in one way: a proxy that reads it otherwise
/// would take a part of one request for another.
fn body_length(head: &Head) -> Result<usize, Response> {
    if head.values("host").count() != 1 {
        return Err(malformed("it names no host, or several"));
    }
    let lengths: Vec<&str> = head.values("content-length").collect();
    match (head.values("transfer-encoding").next(), lengths.as_slice()) {
        (Some(_), [_, ..]) => return Err(malformed("it has a length and a transfer encoding")),
        (Some(_), []) => {
            return Err(Response::text(
                Status::LengthRequired,
                "send the body with `Content-Length`, not in chunks\n",
            ));
        }
        _ => {}
    }
    if head.values("expect").next().is_some() {
        return Err(Response::text(Status::ExpectationFailed, "send the body without `Expect`\n"));
    }
    match (lengths.as_slice(), head.method) {
        ([], _) => Ok(0),
        ([length], method) => {
            let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            match length.parse::<u64>() {
                Ok(0) => Ok(0),
                Ok(_) if method != Method::Post => Err(malformed("only POST has a body")),
                Ok(length) if is_number && length <= MOST_BODY as u64 => {
                    Ok(usize::try_from(length).unwrap_or(MOST_BODY))
                }
                _ if is_number => Err(Response::text(
                    Status::ContentTooLarge,
                    format!("the body is longer than {MOST_BODY} bytes\n"),
                )),
                _ => Err(malformed("its length is not a number")),
            }
        }
        _ => Err(malformed("it has several lengths")),
    }
}

fn malformed(why: &str) -> Response {
    Response::text(Status::BadRequest, format!("the request cannot be read: {why}\n"))
}

fn too_large() -> Response {
    Response::text(
        Status::HeaderFieldsTooLarge,
        format!(
            "the head of the request is longer than {MOST_HEAD} bytes or {MOST_HEADERS} headers\n"
        ),
    )
}

/// The names and values of a query; `None` if an escape is broken, or what it stands for is no
/// UTF-8.
fn decoded_query(query: &str) -> Option<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decoded(name)?, decoded(value)?))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Option<(Head, usize)>, Response> {
        head(text.as_bytes(), &mut 0)
    }

    fn status(text: &str) -> u16 {
        read(text).unwrap_err().status().code()
    }

    #[test]
    fn a_request_is_read_with_its_query_and_the_next_one_is_left_alone() {
        let text = "GET /api/trials?study=a%2Fb+c&x=%C3%A9&flag HTTP/1.1\r\nHost: localhost\r\n\
                    X-One: 1\r\n\r\n";
        let (head, length) = read(&format!("{text}GET / HTTP/1.1\r\n")).unwrap().unwrap();
        assert_eq!(
            (length, head.method, head.path.as_str()),
            (text.len(), Method::Get, "/api/trials")
        );
        assert_eq!(head.query("study"), Some("a/b c"));
        assert_eq!(head.query("x"), Some("é"));
        assert_eq!(head.query("flag"), Some(""));
        assert_eq!(head.header("x-one"), Some("1"));
        assert!(head.is_kept && head.body == 0);
    }

    #[test]
    fn connections_are_kept_as_the_version_says() {
        let kept = |version: &str, connection: &str| {
            let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
            read(&text).unwrap().unwrap().0.is_kept
        };
        assert!(kept("1.1", "") && !kept("1.1", "Connection: close\r\n"));
        assert!(!kept("1.0", "") && kept("1.0", "Connection: Keep-Alive\r\n"));
    }

    #[test]
    fn whatever_two_programs_could_read_differently_is_refused() {
        let post = |headers: &str| format!("POST /x HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        for (text, code) in [
            (post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400),
            (post("Content-Length: 3\r\nContent-Length: 3\r\n"), 400),
            (post("Content-Length: 3, 3\r\n"), 400),
            (post("Content-Length: +3\r\n"), 400),
            (post("Content-Length: -1\r\n"), 400),
            (post("Content-Length: 0x10\r\n"), 400),
            (post("Content-Length: \r\n"), 400),
            (post("Content-Length : 3\r\n"), 400),
            (post("Content-Length: 99999999999999999999999\r\n"), 413),
            (post("Content-Length: 70000\r\n"), 413),
            (post("Transfer-Encoding: chunked\r\n"), 411),
            (post("Transfer-Encoding: identity\r\n"), 411),
            (post("Expect: 100-continue\r\nContent-Length: 3\r\n"), 417),
            (post("X: a\r\n folded\r\n"), 400),
            (post("X: a\nY: b\r\n"), 400),
            (post("X: a\rY: b\r\n"), 400),
            (post("X: a\0b\r\n"), 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".into(), 400),
            ("GET / HTTP/1.1\r\n\r\n".into(), 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n".into(), 400),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
            ("GET /?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
            ("GET /?a=%ff HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".into(), 505),
            ("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n".into(), 405),
            ("\u{16}\u{3}\u{1}".into(), 400),
        ] {
            assert_eq!(status(&text), code, "{text:?}");
        }
    }

    #[test]
    fn a_head_that_never_ends_is_refused_at_its_limit() {
        let mut text = "GET / HTTP/1.1\r\nHost: a\r\nX: ".to_owned();
        let mut scanned = 0;
        while text.len() <= MOST_HEAD {
            assert_eq!(head(text.as_bytes(), &mut scanned), Ok(None));
            assert_eq!(scanned, text.len());
            text += &"x".repeat(1000);
        }
        assert_eq!(head(text.as_bytes(), &mut scanned).unwrap_err().status().code(), 431);
        let many = "X: y\r\n".repeat(MOST_HEADERS + 1);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")), 431);
    }

    #[test]
    fn a_head_in_pieces_is_the_same_head() {
        let text = "POST /api/control?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n";
        let whole = read(text).unwrap().unwrap();
        let mut scanned = 0;
        for end in 1..text.len() {
            assert_eq!(head(&text.as_bytes()[..end], &mut scanned), Ok(None), "{end}");
        }
        assert_eq!(head(text.as_bytes(), &mut scanned), Ok(Some(whole)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_an_error_or_not_complete(
            begin in "(GET /|POST /|)",
            rest in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut bytes = begin.into_bytes();
            bytes.extend(rest);
            for end in [&b""[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"] {
                let mut bytes = bytes.clone();
                bytes.extend(end);
                if let Ok(Some((_, length))) = head(&bytes, &mut 0) {
                    prop_assert!(length <= bytes.len());
                }
            }
        }
    }
}
