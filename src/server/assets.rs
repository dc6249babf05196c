//! The files of the page, which are in the program: nothing is read from the disk by a path of a
//! request.

use super::http::Head;
use super::page::PageFile;
use super::response::{Response, Status};

/// All files of the page, each with the digest that browsers know it by.
pub struct Assets(Vec<(PageFile, String)>);

impl Assets {
    /// The assets of these files, with their digests.
    pub fn new(files: &[PageFile]) -> Self {
        let tagged = files.iter().map(|asset| {
            let digest = blake3::hash(asset.content.as_bytes()).to_hex();
            (*asset, format!("\"{}\"", &digest[..32]))
        });
        Assets(tagged.collect())
    }

    /// The file at a request's address, or that it is still the one that the browser has.
    pub fn response(&self, head: &Head) -> Option<Response> {
        let (asset, tag) = self.0.iter().find(|(asset, _)| asset.path == head.path)?;
        let response = match head.has_tagged(tag) {
            true => Response::text(Status::NotModified, ""),
            false => Response::new(Status::Ok, asset.content_type, asset.content.as_bytes()),
        };
        Some(response.tagged(tag.clone()))
    }
}
