//! Who may ask what: the token and its cookie, the hosts this server answers as, and the origin of
//! writes.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;

use super::http::{Head, Method};
use super::response::{Response, Status};

/// The header that no form of another page can send.
pub const CUSTOM_HEADER: &str = "x-hpsearch";

/// A secret of 192 bits, in hexadecimal digits.
#[derive(Clone)]
struct Secret(String);

impl Secret {
    fn new() -> io::Result<Self> {
        let mut bytes = [0_u8; 24];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Whether it is this text. The digests are compared in constant time, and they say nothing
    /// about how much of the text was right.
    fn is(&self, text: &str) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(text.as_bytes())
    }
}

/// Whether the page may change studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    ReadOnly,
    /// It sends requests to studies, too (`--control`).
    Control,
}

/// The rules about requests, before anything is looked up.
pub struct Gate {
    /// In the printed URL.
    token: Secret,
    /// In the cookie that the token is exchanged for.
    session: Secret,
    cookie: String,
    allowed: Vec<String>,
    access: Access,
}

/// A request that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// A read.
    Read,
    /// A write.
    Write,
}

impl Gate {
    /// With new secrets; `allowed` are further hosts that browsers may know this server by.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(port: u16, allowed: &[String], access: Access) -> io::Result<Self> {
        let allowed = allowed.iter().map(|name| name.to_ascii_lowercase()).collect();
        // Cookies do not know ports: servers on one machine must not take each other's.
        let cookie = format!("hpsearch-{port}");
        Ok(Gate { token: Secret::new()?, session: Secret::new()?, cookie, allowed, access })
    }

    /// The token of the printed URL.
    pub fn token(&self) -> &str {
        &self.token.0
    }

    /// Whether a request may be answered; `local` is the address that the client connected to.
    ///
    /// # Errors
    /// The answer to one that may not, or that exchanges the token.
    pub fn admit(&self, head: &Head, local: IpAddr) -> Result<Admitted, Response> {
        let Some((host, trust)) = self.host(head, local) else {
            return Err(Response::text(
                Status::MisdirectedRequest,
                "hpsearch does not serve this host name: open the address that `hpsearch serve` \
                 printed, or start it with `--allow-host NAME`\n",
            ));
        };
        if let Some(exchanged) = self.exchange(head, trust) {
            return Err(exchanged);
        }
        if !self.has_session(head) {
            return Err(unauthorized(head));
        }
        let is_foreign =
            |site: &str| head.path.starts_with("/api/") && !matches!(site, "same-origin" | "none");
        if head.values("sec-fetch-site").any(is_foreign) {
            return Err(refused("the request comes from another site's page"));
        }
        match head.method {
            Method::Get | Method::Head => Ok(Admitted::Read),
            Method::Post => self.admit_write(head, &host).map(|()| Admitted::Write),
        }
    }

    /// The request's host, if it is one of this server, and what it may be believed. A page of
    /// another site that made its own name point here (DNS rebinding) sends that name.
    fn host(&self, head: &Head, local: IpAddr) -> Option<(String, Trust)> {
        let host = head.header("host")?.to_ascii_lowercase();
        let name = without_port(&host)?;
        if self.allowed.iter().any(|allowed| allowed == name || *allowed == host) {
            return Some((host, Trust::Proxy));
        }
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let own = name == "localhost"
            || address
                .is_some_and(|address| address.is_loopback() || address == local.to_canonical());
        own.then_some((host, Trust::Direct))
    }

    /// The redirect that follows the right token: the cookie is set, and the token leaves the
    /// address bar.
    fn exchange(&self, head: &Head, trust: Trust) -> Option<Response> {
        let token = head.query("token")?;
        if head.path != "/" || head.method == Method::Post || !self.token.is(token) {
            return None;
        }
        let is_encrypted = trust == Trust::Proxy
            && head.header("x-forwarded-proto").is_some_and(|by| by.eq_ignore_ascii_case("https"));
        let secure = if is_encrypted { "; Secure" } else { "" };
        let (name, value) = (&self.cookie, &self.session.0);
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}");
        let moved = Response::text(Status::SeeOther, "");
        Some(moved.with("Location", "/").with("Set-Cookie", cookie))
    }

    fn has_session(&self, head: &Head) -> bool {
        let mut pairs = head.values("cookie").flat_map(|value| value.split(';'));
        pairs.any(|pair| {
            let pair = pair.trim().split_once('=');
            pair.is_some_and(|(name, value)| name == self.cookie && self.session.is(value))
        })
    }

    /// Whether a write may be carried out: with `--control`, by this server's own page. No other
    /// page can send the header, or that content type, without asking first, and nothing here
    /// answers that it may.
    fn admit_write(&self, head: &Head, host: &str) -> Result<(), Response> {
        if self.access == Access::ReadOnly {
            return Err(Response::problem(
                Status::Forbidden,
                "this server is read-only",
                Some("start it with `hpsearch serve --control` to change studies from the page"),
            ));
        }
        let origin = head.header("origin").map(str::to_ascii_lowercase).unwrap_or_default();
        let is_own = ["http://", "https://"]
            .iter()
            .any(|scheme| origin.strip_prefix(scheme).is_some_and(|rest| rest == host));
        if !is_own {
            return Err(refused("the request does not come from this server's own page"));
        }
        if head.header(CUSTOM_HEADER) != Some("1") {
            return Err(refused("the header `X-Hpsearch: 1` is missing"));
        }
        let content_type = head.header("content-type").unwrap_or_default();
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        if !content_type.eq_ignore_ascii_case("application/json") {
            return Err(Response::problem(
                Status::UnsupportedMediaType,
                "the body must be JSON",
                Some("send it with `Content-Type: application/json`"),
            ));
        }
        Ok(())
    }
}

/// What a request is believed about how it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// It names this machine: it came as it is.
    Direct,
    /// It names a host that the user allowed: a proxy says how it came.
    Proxy,
}

/// The host without its port; `None` if it is written otherwise.
fn without_port(host: &str) -> Option<&str> {
    let end = match host.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at(end);
    let port = match port {
        "" => "0",
        port => port.strip_prefix(':')?,
    };
    (!name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

/// A refusal that says nothing about what would have been right.
fn refused(why: &str) -> Response {
    Response::problem(Status::Forbidden, why, Some("use the page that `hpsearch serve` opened"))
}

fn unauthorized(head: &Head) -> Response {
    if head.path.starts_with("/api/") {
        return Response::problem(
            Status::Unauthorized,
            "this browser is not signed in, or the server was restarted",
            Some("open the address that `hpsearch serve` printed"),
        );
    }
    // Browsers hold the cookie back while they follow a link of another site; a page of this server
    // that reloads itself gets it.
    let again = match head.header("sec-fetch-site") {
        Some("cross-site") => "<meta http-equiv=\"refresh\" content=\"0; url=/\">",
        _ => "",
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">{again}<title>hpsearch</title>\
         <p>Open the address that <code>hpsearch serve</code> printed: it has the token that signs \
         this browser in.</p></html>\n"
    );
    Response::new(Status::Unauthorized, "text/html; charset=utf-8", page.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::http::head;
    use super::super::response::Parts;
    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn request(text: &str) -> Head {
        head(text.as_bytes(), &mut 0).unwrap().unwrap().0
    }

    fn gate(access: Access) -> Gate {
        Gate::new(7373, &["Lab.Example".to_owned()], access).unwrap()
    }

    fn get(path: &str, headers: &str) -> Head {
        request(&format!("GET {path} HTTP/1.1\r\n{headers}\r\n"))
    }

    fn code(refused: Result<Admitted, Response>) -> u16 {
        refused.map_or_else(|response| response.status().code(), |_| 200)
    }

    #[test]
    fn only_the_hosts_of_this_server_are_answered() {
        let gate = gate(Access::ReadOnly);
        let cookie = format!("Cookie: a=b; hpsearch-7373={}\r\n", gate.session.0);
        let asked = |host: &str, local: &str| {
            let head = get("/", &format!("Host: {host}\r\n{cookie}"));
            code(gate.admit(&head, local.parse().unwrap()))
        };
        for host in [
            "localhost",
            "LOCALHOST:7373",
            "127.0.0.1:9",
            "127.0.0.2",
            "[::1]:7373",
            "lab.example",
            "lab.example:443",
        ] {
            assert_eq!(asked(host, "127.0.0.1"), 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil.example:7373",
            "127.0.0.1.evil.example",
            "10.0.0.5",
            "",
            "localhost:x",
            "[::1",
            "[::1]x",
            "evil@localhost",
            "lab.example.",
            "0.0.0.0",
            "notlocalhost",
            "localhost:1:2",
        ] {
            assert_eq!(asked(host, "127.0.0.1"), 421, "{host}");
        }
        assert_eq!(asked("10.0.0.5:7373", "10.0.0.5"), 200, "the address connected to");
        assert_eq!(asked("10.0.0.5:7373", "::ffff:10.0.0.5"), 200);
    }

    #[test]
    fn the_token_is_exchanged_for_a_cookie_and_neither_passes_for_the_other() {
        let gate = gate(Access::ReadOnly);
        let exchange = |path: &str, headers: &str| {
            let refused = gate.admit(&get(path, headers), LOCAL).unwrap_err();
            (refused.status().code(), String::from_utf8(refused.bytes(Parts::Whole, true)).unwrap())
        };
        let right = format!("/?token={}", gate.token());
        let (code, text) = exchange(&right, "Host: localhost\r\n");
        assert_eq!(code, 303);
        let cookie = format!(
            "Set-Cookie: hpsearch-7373={}; Path=/; HttpOnly; SameSite=Strict\r\n",
            gate.session.0
        );
        assert!(text.contains(&cookie) && text.contains("Location: /\r\n"), "{text}");
        assert!(!text.contains(gate.token()), "{text}");
        for (headers, is_secure) in [
            ("Host: lab.example\r\nX-Forwarded-Proto: https\r\n", true),
            ("Host: lab.example\r\nX-Forwarded-Proto: http\r\n", false),
            ("Host: localhost\r\nX-Forwarded-Proto: https\r\n", false),
        ] {
            assert_eq!(exchange(&right, headers).1.contains("; Secure"), is_secure, "{headers}");
        }
        let short = &right[..right.len() - 1];
        let session = format!("/?token={}", gate.session.0);
        let elsewhere = format!("/api/studies?token={}", gate.token());
        for path in [short, "/?token=", "/", &session, &elsewhere, "/api/studies"] {
            let (code, text) = exchange(path, "Host: localhost\r\n");
            assert_eq!(code, 401, "{path}");
            assert!(!text.contains("Set-Cookie") && !text.contains(gate.token()), "{text}");
        }
        for cookie in ["", "x", gate.token(), gate.session.0.get(1..).unwrap()].map(str::to_owned) {
            let headers = format!("Host: localhost\r\nCookie: hpsearch-7373={cookie}\r\n");
            assert_eq!(exchange("/", &headers).0, 401);
            let other = format!("Host: localhost\r\nCookie: hpsearch-7374={}\r\n", gate.session.0);
            assert_eq!(exchange("/", &other).0, 401, "another server's");
        }
    }

    #[test]
    fn secrets_have_192_bits_and_are_never_the_same() {
        let (one, other) = (gate(Access::ReadOnly), gate(Access::ReadOnly));
        assert_eq!(one.token().len(), 48);
        assert!(one.token() != other.token() && one.token() != one.session.0);
    }

    #[test]
    fn a_write_needs_everything_that_only_the_own_page_has() {
        let gate = gate(Access::Control);
        let cookie = format!("Cookie: hpsearch-7373={}", gate.session.0);
        let whole = [
            "Host: localhost:7373",
            &cookie,
            "Origin: http://localhost:7373",
            "X-Hpsearch: 1",
            "Content-Type: application/json; charset=utf-8",
        ];
        let post = |headers: &[&str]| {
            let headers = headers.iter().map(|line| format!("{line}\r\n")).collect::<String>();
            request(&format!("POST /api/control HTTP/1.1\r\n{headers}\r\n"))
        };
        assert_eq!(gate.admit(&post(&whole), LOCAL), Ok(Admitted::Write));
        for (left_out, expected) in [(1, 401), (2, 403), (3, 403), (4, 415)] {
            let mut headers = whole.to_vec();
            headers.remove(left_out);
            assert_eq!(code(gate.admit(&post(&headers), LOCAL)), expected, "{left_out}");
        }
        for (at, other, expected) in [
            (2, "Origin: http://localhost:3000", 403),
            (2, "Origin: http://evil.example", 403),
            (2, "Origin: null", 403),
            (2, "Origin: http://localhost:7373.evil.example", 403),
            (3, "X-Hpsearch: 2", 403),
            (4, "Content-Type: text/plain", 415),
            (4, "Content-Type: application/x-www-form-urlencoded", 415),
        ] {
            let mut headers = whole.to_vec();
            headers[at] = other;
            assert_eq!(code(gate.admit(&post(&headers), LOCAL)), expected, "{other}");
        }
        let mut headers = whole.to_vec();
        headers.push("Sec-Fetch-Site: same-site");
        assert_eq!(code(gate.admit(&post(&headers), LOCAL)), 403, "another port of this host");
        let reading = Gate { access: Access::ReadOnly, ..gate };
        assert_eq!(code(reading.admit(&post(&whole), LOCAL)), 403);
    }
}
