//! The Hub's HTTP client: metadata and contents of files.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{StatusCode, Uri};
use ureq::{Agent, RequestBuilder};

use super::HubSettings;

type Response = ureq::http::Response<ureq::Body>;

/// Maximum number of redirects followed.
const MAX_REDIRECTS: usize = 8;

/// The metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteFile {
    /// The URL of its contents.
    url: String,
    /// Its commit.
    pub(super) commit: Option<String>,
    /// The id of its content.
    pub(super) etag: String,
    /// Its length in bytes.
    pub(super) size: Option<u64>,
}

/// Why a download failed.
pub(super) enum DownloadError {
    /// A retry may help.
    Transient(String),
    Permanent(String),
}

impl From<String> for DownloadError {
    fn from(problem: String) -> Self {
        Self::Permanent(problem)
    }
}

/// The body of a response.
pub(super) struct Body {
    /// The offset of its first byte.
    pub(super) offset: u64,
    pub(super) reader: Box<dyn Read>,
}

/// A client for one repository.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    /// Its path behind the endpoint: `org/name`, of data sets `datasets/org/name`.
    repository: String,
    token: Option<String>,
    /// The first pause between retries.
    backoff: Duration,
}

impl Client {
    pub(super) fn new(settings: &HubSettings, repository: &str) -> Self {
        let local = settings.endpoint.starts_with("http://127.0.0.1");
        let config = Agent::config_builder();
        // Proxies are not used for this machine.
        let config = if local { config.proxy(None) } else { config };
        let agent: Agent = config
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_per_read(Some(Duration::from_secs(60)))
            .user_agent(concat!("hpsearch/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .build()
            .into();
        let backoff = if local { Duration::from_millis(5) } else { Duration::from_secs(1) };
        Self {
            agent,
            endpoint: settings.endpoint.clone(),
            repository: repository.to_owned(),
            token: settings.token.clone(),
            backoff,
        }
    }

    /// The pause before retry `number`: exponential backoff.
    pub(super) fn pause(&self, number: u32) -> Duration {
        self.backoff * 2_u32.pow(number.min(6) - 1)
    }

    /// The metadata of a file of a revision; `None` if there is no such file.
    pub(super) fn metadata(
        &self,
        revision: &str,
        name: &str,
    ) -> Result<Option<RemoteFile>, String> {
        let mut url = format!(
            "{}/{}/resolve/{}/{name}",
            self.endpoint,
            self.repository,
            revision.replace('/', "%2F"),
            name = encoded(name)
        );
        let (mut commit, mut etag, mut size) = (None, None, None);
        for _ in 0..MAX_REDIRECTS {
            let response =
                self.with_retries(|| self.authorised(self.agent.head(&url), &url).call())?;
            let header = |name: &str| header(&response, name);
            let status = response.status().as_u16();
            commit = commit.or_else(|| header("x-repo-commit"));
            // Headers before a redirect describe the file; a storage server behind it has etags of
            // its own.
            etag = etag.or_else(|| header("x-linked-etag"));
            size = size.or_else(|| header("x-linked-size"));
            let file = |url: String, etag: &str, size: Option<String>| {
                let (commit, etag) = (commit.clone(), bare(etag).to_owned());
                let size = size.and_then(|size| size.parse().ok());
                Ok(Some(RemoteFile { url, commit, etag, size }))
            };
            match status {
                200..=299 => {
                    let missing = || format!("`{name}` came without an etag from {url}");
                    let etag = etag.or_else(|| header("etag")).ok_or_else(missing)?;
                    return file(url, &etag, size.or_else(|| header("content-length")));
                }
                300..=399 => {
                    let target = redirect(&response, &url)?;
                    match &etag {
                        Some(etag) if host(&target) != host(&url) => {
                            return file(target, etag, size);
                        }
                        _ => url = target,
                    }
                }
                404 if header("x-error-code").as_deref() == Some("EntryNotFound") => {
                    return Ok(None);
                }
                404 if header("x-error-code").as_deref() == Some("RevisionNotFound") => {
                    return Err(format!(
                        "has no revision `{revision}` on the Hub: leave out what follows `@`, or \
                         name a branch, a tag or a commit"
                    ));
                }
                _ => return Err(self.refused(status, header("x-error-message").as_deref(), name)),
            }
        }
        Err(too_many_redirects(name))
    }

    /// An answer of the API about the repository, and the path of the next page of a listing;
    /// `None` if there is no such thing.
    pub(super) fn api(&self, path: &str) -> Result<Option<Page>, String> {
        let base = format!("{}/api/{}", self.endpoint, self.repository);
        let url = format!("{base}/{}", encoded(path));
        let mut response =
            self.with_retries(|| self.authorised(self.agent.get(&url), &url).call())?;
        let status = response.status().as_u16();
        let is_known = header(&response, "x-error-code").is_some_and(|code| code != "RepoNotFound");
        match status {
            200..=299 => {
                let next = header(&response, "link").and_then(|link| next_page(&link, &base));
                let text = response.body_mut().read_to_string();
                let text = text.map_err(|error| format!("cannot be listed: {error}"))?;
                let value = serde_json::from_str(&text)
                    .map_err(|error| format!("got no JSON from {url}: {error}"))?;
                Ok(Some((value, next)))
            }
            404 if is_known => Ok(None),
            _ => Err(self.refused(status, header(&response, "x-error-message").as_deref(), path)),
        }
    }

    /// The contents of a file from offset `from` on, if the server supports that.
    pub(super) fn body(
        &self,
        found: &RemoteFile,
        from: u64,
        name: &str,
    ) -> Result<Body, DownloadError> {
        let mut url = found.url.clone();
        for _ in 0..MAX_REDIRECTS {
            let mut request = self.authorised(self.agent.get(&url), &url);
            if from > 0 {
                request = request.header("Range", format!("bytes={from}-"));
            }
            let response = request
                .call()
                .map_err(|error| DownloadError::Transient(format!("{url}: {error}")))?;
            match response.status().as_u16() {
                status @ (200 | 206) => {
                    // `bytes 100-199/200`
                    let first = header(&response, "content-range").and_then(|range| {
                        range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
                    });
                    let offset = if status == 200 { 0 } else { first.unwrap_or(from) };
                    let reader = Box::new(response.into_body().into_reader());
                    return Ok(Body { offset, reader });
                }
                300..=399 => url = redirect(&response, &url)?,
                // The partial download is not a prefix of the file.
                416 => return Ok(Body { offset: 0, reader: Box::new(std::io::empty()) }),
                status @ (408 | 429 | 500..) => {
                    return Err(DownloadError::Transient(format!("the server answered {status}")));
                }
                status => {
                    let message = header(&response, "x-error-message");
                    return Err(self.refused(status, message.as_deref(), name).into());
                }
            }
        }
        Err(too_many_redirects(name).into())
    }

    /// Retries after errors of the connection or the server.
    fn with_retries(
        &self,
        request: impl Fn() -> Result<Response, ureq::Error>,
    ) -> Result<Response, String> {
        const TRIES: u32 = 3;
        let mut number = 1;
        loop {
            match request() {
                Ok(response) if number == TRIES || !is_transient(response.status()) => {
                    return Ok(response);
                }
                Ok(_) => {}
                Err(_) if number < TRIES => {}
                Err(error) => {
                    return Err(format!(
                        "cannot be requested from {} ({error}): check the network and \
                         HF_ENDPOINT, or give a local path",
                        self.endpoint
                    ));
                }
            }
            std::thread::sleep(self.pause(number));
            number += 1;
        }
    }

    /// Adds the token to requests to the Hub, but not to redirect targets.
    fn authorised<B>(&self, request: RequestBuilder<B>, url: &str) -> RequestBuilder<B> {
        match &self.token {
            Some(token) if host(url) == host(&self.endpoint) => {
                request.header("Authorization", format!("Bearer {token}"))
            }
            _ => request,
        }
    }

    /// Why the server refused a file, and the remedy.
    fn refused(&self, status: u16, message: Option<&str>, name: &str) -> String {
        let said = message.map(|message| format!(" ({message})")).unwrap_or_default();
        match (status, &self.token) {
            (401 | 404, None) => {
                format!(
                    "is not on the Hub, or is private{said}: check its name; if it is private, \
                     set HF_TOKEN, or run `hf auth login`"
                )
            }
            (401, Some(_)) => format!(
                "is refused{said}: the token in HF_TOKEN, or of `hf auth login`, is invalid or \
                 may not read it"
            ),
            (403, _) => format!(
                "is gated{said}: accept its terms on its page at {}, with the account of your \
                 token",
                self.endpoint
            ),
            (404, Some(_)) => {
                format!("is not on the Hub, or your token may not see it{said}: check its name")
            }
            _ => format!(
                "cannot be downloaded: the server answered {status} for `{name}`{said}; try again \
                 later, or give a local path"
            ),
        }
    }
}

/// The following page of a listing, in a `Link` header (RFC 8288): its path and query behind the
/// repository's address in the API.
fn next_page(link: &str, api: &str) -> Option<String> {
    let next = link.split(',').find(|link| link.contains("rel=\"next\""))?;
    let url = next.split('<').nth(1)?.split('>').next()?;
    Some(url.strip_prefix(api)?.trim_start_matches('/').to_owned())
}

/// A listing as the API writes it.
pub(super) type Page = (Value, Option<String>);

/// A path in a URL; what it has of percent signs and queries is encoded already.
fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'%' | b'?' | b'=' | b'&' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || status.as_u16() == 429
}

fn too_many_redirects(name: &str) -> String {
    format!("`{name}` is redirected more than {MAX_REDIRECTS} times")
}

/// Where a response from `url` redirects to.
fn redirect(response: &Response, url: &str) -> Result<String, String> {
    let target =
        header(response, "location").ok_or_else(|| format!("{url} redirects to nowhere"))?;
    joined(url, &target)
}

/// `W/"abc"` and `"abc"` are `abc`.
fn bare(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

fn host(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.authority().map(|authority| authority.as_str().to_owned())
}

/// The absolute target of a redirect from `url`.
fn joined(url: &str, target: &str) -> Result<String, String> {
    if target.starts_with("https://") || target.starts_with("http://") && url.starts_with("http://")
    {
        return Ok(target.to_owned());
    }
    let absolute = || {
        let path = target.strip_prefix('/').filter(|path| !path.starts_with('/'))?;
        let uri = url.parse::<Uri>().ok()?;
        Some(format!("{}://{}/{path}", uri.scheme_str()?, uri.authority()?))
    };
    absolute().ok_or_else(|| format!("{url} redirects to `{target}`, which cannot be followed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_listings_follow_each_other() {
        let api = "https://huggingface.co/api/datasets/a/b";
        let link = format!("<{api}/tree/c0/data?cursor=x%3D&limit=2>; rel=\"next\"");
        assert_eq!(next_page(&link, api).as_deref(), Some("tree/c0/data?cursor=x%3D&limit=2"));
        let elsewhere = "<https://example.org/tree>; rel=\"next\"";
        assert_eq!(next_page(elsewhere, api), None);
    }
}
