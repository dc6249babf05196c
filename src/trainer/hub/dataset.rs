//! Files and folders of data sets of the Hub.
//!
//! Their URIs are those of `huggingface_hub`: `hf://datasets/OWNER/NAME[@REVISION]/PATH`.
//! <https://huggingface.co/docs/huggingface_hub/guides/hf_file_system>
//!
//! As with models, what is cached is not looked up again.

use std::fs;
use std::path::{Path, PathBuf};

use super::HubSettings;
use super::cache::{self, Cache};
use super::client::Client;
use crate::progress::ProgressCallback;
use hpsearch_core::arguments::data_file::pattern_of;
use hpsearch_core::arguments::data_format::{HUB_DATA, format_of};
use hpsearch_core::study::pattern::matches;

/// Most pages of a listing, of 1,000 entries each.
const MOST_PAGES: usize = 100;

/// The branch with Parquet files that the Hub makes of a data set.
const PARQUET_BRANCH: &str = "refs/convert/parquet";

/// A path in a data set's repository.
#[derive(Debug, PartialEq, Eq)]
struct DataReference {
    repository: String,
    revision: String,
    /// Empty: the whole repository.
    path: String,
}

impl DataReference {
    fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix(HUB_DATA)?.trim_end_matches('/');
        let (owner, rest) = rest.split_once('/')?;
        let (name, rest) = match rest.find(['/', '@']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (revision, path) = match rest.strip_prefix('@') {
            None => ("main".to_owned(), rest),
            Some(rest) => {
                // Only these have slashes that are not written `%2F`.
                let parts = if rest.starts_with("refs/") { 3 } else { 1 };
                let end = rest.match_indices('/').nth(parts - 1).map_or(rest.len(), |(at, _)| at);
                let (revision, path) = rest.split_at(end);
                (revision.replace("%2F", "/").replace("%2f", "/"), path)
            }
        };
        let revision = match revision.as_str() {
            "~parquet" => PARQUET_BRANCH.to_owned(),
            _ => revision,
        };
        let path = path.trim_matches('/').to_owned();
        let is_sound = cache::is_name(owner)
            && cache::is_name(name)
            && revision.split('/').all(cache::is_name)
            && (path.is_empty() || is_path(&path));
        is_sound.then(|| Self { repository: format!("{owner}/{name}"), revision, path })
    }
}

/// Whether a path of the network stays below its directory, and hides nothing.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    path.split('/').all(is_part) && !path.contains(['\\', '\0'])
}

/// The file or folder behind a URI, downloaded if necessary, or the end of a sentence about why
/// that failed.
pub(super) fn data(
    settings: &HubSettings,
    uri: &str,
    on_progress: ProgressCallback<'_>,
) -> Result<PathBuf, String> {
    let of = DataReference::parse(uri).ok_or_else(|| {
        format!(
            "is not the path of a data set: write {HUB_DATA}OWNER/NAME/PATH, or NAME@REVISION/PATH"
        )
    })?;
    let cache = Cache::of(&settings.cache, "datasets", &of.repository);
    if let Some(found) = cached(&cache, &of) {
        return Ok(found);
    }
    if settings.offline {
        return Err(format!(
            "is not complete in the cache {}, and HF_HUB_OFFLINE forbids downloads: unset it, or \
             give a local path",
            settings.cache.display()
        ));
    }
    download(settings, &cache, &of, on_progress)
}

/// What the cache has all of.
fn cached(cache: &Cache, of: &DataReference) -> Option<PathBuf> {
    let commit = cache.commit(&of.revision)?;
    let place = cache.snapshot(&commit).join(&of.path);
    if place.is_file() {
        return Some(place);
    }
    let names = fs::read_to_string(cache.listing(&commit, &of.path)).ok()?;
    names.lines().all(|name| cache.has(&commit, name)).then_some(place)
}

fn download(
    settings: &HubSettings,
    cache: &Cache,
    of: &DataReference,
    on_progress: ProgressCallback<'_>,
) -> Result<PathBuf, String> {
    let client = Client::new(settings, &format!("datasets/{}", of.repository));
    let revision = of.revision.replace('/', "%2F");
    let (about, _) = client.api(&format!("revision/{revision}"))?.ok_or_else(|| {
        format!("has no revision `{}` on the Hub, or there is no such data set", of.revision)
    })?;
    let commit = about["sha"].as_str().unwrap_or_default().to_owned();
    if !cache::is_name(&commit) {
        return Err(format!("got the invalid commit `{commit}` from {}", settings.endpoint));
    }
    let place = cache.snapshot(&commit).join(&of.path);
    let store = |name: &str| -> Result<bool, String> {
        if cache.has(&commit, name) {
            return Ok(true);
        }
        let Some(file) = client.metadata(&commit, name)? else { return Ok(false) };
        cache.store(&client, &file, &commit, name, on_progress).map(|()| true)
    };
    let pattern = pattern_of(Path::new(&of.path));
    let is_file = pattern.is_none() && format_of(Path::new(&of.path)).is_some() && store(&of.path)?;
    if !is_file {
        let names = list(&client, &commit, &of.path)?;
        for name in &names {
            if !store(name)? {
                return Err(format!("no longer has `{name}`"));
            }
        }
        cache.set_listing(&commit, &of.path, &names)?;
    }
    cache.set_ref(&of.revision, &commit)?;
    Ok(place)
}

/// The data files of a folder, not of those below it; or of those the ones that match the pattern
/// in which `path` ends.
fn list(client: &Client, commit: &str, path: &str) -> Result<Vec<String>, String> {
    let nothing = || format!("has no file or folder `{path}` on the Hub");
    let pattern = pattern_of(Path::new(path));
    let folder = match pattern {
        Some(_) => path.rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    };
    let is_chosen = |name: &&str| {
        let last = name.rsplit_once('/').map_or(*name, |(_, last)| last);
        is_data_in(name, folder) && pattern.is_none_or(|pattern| matches(pattern, last))
    };
    let below = if folder.is_empty() { String::new() } else { format!("/{folder}") };
    let mut next = Some(format!("tree/{commit}{below}"));
    let mut names = Vec::new();
    for _ in 0..MOST_PAGES {
        let Some(page) = next else { break };
        let (entries, following) = client.api(&page)?.ok_or_else(nothing)?;
        let entries = entries.as_array().map_or(&[][..], Vec::as_slice);
        let files = entries.iter().filter(|entry| entry["type"] == "file");
        let names_of = files.filter_map(|entry| entry["path"].as_str());
        names.extend(names_of.filter(is_chosen).map(str::to_owned));
        next = following;
    }
    if names.is_empty() {
        return Err(format!("{}: no data file is in it", nothing()));
    }
    Ok(names)
}

fn is_data_in(name: &str, folder: &str) -> bool {
    let parent = name.rsplit_once('/').map_or("", |(parent, _)| parent);
    is_path(name) && parent == folder && format_of(Path::new(name)).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{COMMIT, Request, Response, Server, settings, sha256};
    use super::*;

    fn get(settings: &HubSettings, uri: &str) -> Result<PathBuf, String> {
        data(settings, uri, &|_, _, _| {})
    }

    const FILES: [(&str, &str); 5] = [
        ("README.md", "about"),
        ("data/train 1.csv", "text,label\nx,1\n"),
        ("data/train 2.csv", "text,label\ny,2\n"),
        ("data/more/test.csv", "text,label\nz,1\n"),
        ("all.jsonl", "{}"),
    ];

    /// A data set of the Hub, with listings of one entry a page.
    fn hub(asked: &Request, _: usize) -> Response {
        let path = asked.path.replace("%20", " ");
        let json = |text: String| Response::ok(text.into_bytes());
        if let Some(revision) = path.strip_prefix("/api/datasets/org/small/revision/") {
            return match revision {
                "main" | "refs%2Fconvert%2Fparquet" => json(format!("{{\"sha\": \"{COMMIT}\"}}")),
                _ => Response::error(404, "RevisionNotFound"),
            };
        }
        if let Some(rest) = path.strip_prefix(&format!("/api/datasets/org/small/tree/{COMMIT}")) {
            let (folder, page) = rest.split_once("?page=").unwrap_or((rest, "0"));
            let folder = folder.trim_start_matches('/');
            let below = |name: &str| {
                let rest = name.strip_prefix(folder)?.trim_start_matches('/');
                let (first, is_directory) =
                    rest.split_once('/').map_or((rest, false), |(first, _)| (first, true));
                let kind = if is_directory { "directory" } else { "file" };
                let path = format!("{folder}/{first}");
                let path = path.trim_start_matches('/').to_owned();
                Some(format!("[{{\"type\": \"{kind}\", \"path\": \"{path}\"}}]"))
            };
            let mut entries: Vec<String> =
                FILES.iter().filter_map(|(name, _)| below(name)).collect();
            // A server that wants to write elsewhere.
            entries.push("[{\"type\": \"file\", \"path\": \"data/../../evil.csv\"}]".to_owned());
            if entries.len() == 1 {
                return Response::error(404, "EntryNotFound");
            }
            let page: usize = page.parse().unwrap();
            let mut answer = json(entries[page].clone());
            if page + 1 < entries.len() {
                let host = &asked.headers["host"];
                let folder = folder.replace(' ', "%20");
                answer.headers.push((
                    "Link",
                    format!(
                        "<http://{host}/api/datasets/org/small/tree/{COMMIT}/{folder}?page={}>; \
                         rel=\"next\"",
                        page + 1
                    ),
                ));
            }
            return answer;
        }
        let name = path.strip_prefix(&format!("/datasets/org/small/resolve/{COMMIT}/"));
        let found = name.and_then(|name| FILES.iter().find(|(file, _)| *file == name));
        match found {
            Some((_, content)) => {
                let etag = format!("\"{}\"", &sha256(content.as_bytes())[..40]);
                let mut answer = Response::ok(content.as_bytes().to_vec());
                answer.headers = vec![("X-Repo-Commit", COMMIT.to_owned()), ("ETag", etag)];
                answer
            }
            None if name.is_some() => Response::error(404, "EntryNotFound"),
            None => Response::error(404, "RepoNotFound"),
        }
    }

    #[test]
    fn folders_and_files_are_downloaded_once() {
        let (server, cache) = (Server::start(hub), tempfile::TempDir::new().unwrap());
        let settings = settings(&server, &cache);
        let folder = get(&settings, "hf://datasets/org/small/data").unwrap();
        let repository = cache.path().join("hub/datasets--org--small");
        assert_eq!(folder, repository.join("snapshots").join(COMMIT).join("data"));
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        assert_eq!(names, ["train 1.csv", "train 2.csv"].map(|name| folder.join(name)));
        assert_eq!(fs::read_to_string(&names[1]).unwrap(), "text,label\ny,2\n");
        let link = fs::read_link(&names[0]).unwrap();
        assert!(link.starts_with("../../../blobs"), "{}", link.display());
        let file = get(&settings, "hf://datasets/org/small@~parquet/data/more/test.csv").unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "text,label\nz,1\n");
        let some = get(&settings, "hf://datasets/org/small/data/*2.csv").unwrap();
        assert_eq!(some, folder.join("*2.csv"));
        let root = get(&settings, "hf://datasets/org/small").unwrap();
        assert_eq!(fs::read_to_string(root.join("all.jsonl")).unwrap(), "{}");
        assert!(!root.join("README.md").exists());
        // Nothing is requested again; what is missing then is.
        let before = server.requests().len();
        let offline = HubSettings { offline: true, ..settings.clone() };
        for settings in [&settings, &offline] {
            assert_eq!(get(settings, "hf://datasets/org/small/data/").unwrap(), folder);
        }
        assert_eq!(server.requests().len(), before);
        fs::remove_file(&names[0]).unwrap();
        assert!(
            get(&offline, "hf://datasets/org/small/data").unwrap_err().contains("HF_HUB_OFFLINE")
        );
        assert_eq!(get(&settings, "hf://datasets/org/small/data").unwrap(), folder);
        assert!(names[0].is_file());
        assert!(server.requests().iter().all(|asked| !asked.path.contains("evil")));
    }

    #[test]
    fn what_is_not_there_is_told() {
        let (server, cache) = (Server::start(hub), tempfile::TempDir::new().unwrap());
        let settings = settings(&server, &cache);
        for (uri, expected) in [
            ("hf://datasets/org/other/data", "is not on the Hub, or is private"),
            ("hf://datasets/org/small@v9/data", "has no revision `v9` on the Hub"),
            ("hf://datasets/org/small/nothing", "has no file or folder `nothing` on the Hub"),
            ("hf://datasets/org/small/data/train 3.csv", "has no file or folder"),
            ("hf://datasets/org/small/data/dev*.csv", "has no file or folder `data/dev*.csv`"),
            (
                "hf://datasets/small",
                "is not the path of a data set: write hf://datasets/OWNER/NAME",
            ),
        ] {
            let said = get(&settings, uri).unwrap_err();
            assert!(said.contains(expected), "{uri}: {said}");
        }
    }

    #[test]
    fn uris_are_those_of_huggingface_hub() {
        let parse =
            |uri: &str| DataReference::parse(uri).map(|of| (of.repository, of.revision, of.path));
        let of = |repository: &str, revision: &str, path: &str| {
            Some((repository.to_owned(), revision.to_owned(), path.to_owned()))
        };
        assert_eq!(parse("hf://datasets/a/b"), of("a/b", "main", ""));
        assert_eq!(parse("hf://datasets/a/b/data/x.csv"), of("a/b", "main", "data/x.csv"));
        assert_eq!(parse("hf://datasets/a/b@v1/data/"), of("a/b", "v1", "data"));
        let parquet = of("a/b", "refs/convert/parquet", "plain_text/train");
        for revision in ["~parquet", "refs/convert/parquet", "refs%2Fconvert%2Fparquet"] {
            assert_eq!(parse(&format!("hf://datasets/a/b@{revision}/plain_text/train")), parquet);
        }
        for wrong in
            ["hf://a/b", "hf://datasets/a", "hf://datasets/a/b/../x", "hf://datasets/../b/x.csv"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
