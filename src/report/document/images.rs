//! The images of a report: within a limit, the newest first.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use crate::report::wording::bytes;
use crate::study::counted::count;

/// The default limit of all images of a report, in bytes: 8 MiB.
pub const IMAGE_BYTES: u64 = 8 << 20;

/// The images of a report, and how many were left out.
#[derive(Clone, Debug, Default)]
pub struct ReportImages {
    limit: u64,
    embedded: BTreeMap<String, ImageData>,
    left_out: BTreeMap<ImageOmission, u64>,
}

/// An image as the address that a browser shows it by.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
struct ImageData(String);

/// Why an image is not in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageOmission {
    /// The report has no images.
    Unwanted,
    /// It is larger than one image may be.
    TooLarge,
    /// Newer ones take all bytes that there are for images.
    BeyondLimit,
    /// Its file is gone, or not what was logged.
    NoFile,
    /// Its trial has no page.
    WithoutPage,
}

impl ReportImages {
    /// None yet, of at most `limit` bytes together.
    pub fn with_limit(limit: u64) -> Self {
        ReportImages { limit, ..ReportImages::default() }
    }

    /// The most bytes of all images together; 0: there are none.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The most bytes of one image.
    pub fn largest(&self) -> u64 {
        self.limit / 8
    }

    /// Whether an image with this SHA-256 is there.
    pub fn contains(&self, digest: &str) -> bool {
        self.embedded.contains_key(digest)
    }

    /// Adds an image. Its media type is one that
    /// [`image_type`](crate::study::artifact::image_type) knows: never SVG or HTML.
    pub fn embed(&mut self, digest: &str, media_type: &'static str, content: &[u8]) {
        let content = BASE64_STANDARD.encode(content);
        let address = format!("data:{media_type};base64,{content}");
        self.embedded.insert(digest.to_owned(), ImageData(address));
    }

    /// Counts an image that is not there.
    pub fn leave_out(&mut self, why: ImageOmission) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Whether the report shows images.
    pub fn has_any(&self) -> bool {
        !self.embedded.is_empty()
    }

    /// The images by their digests.
    pub fn by_digest(&self) -> &impl Serialize {
        &self.embedded
    }

    /// How many images are not there.
    pub fn left_out(&self) -> u64 {
        self.left_out.values().sum()
    }

    /// What is not there, and the option that changes it.
    pub fn left_out_in_words(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.left_out.iter().map(|(why, number)| (self.in_words(*why, *number), why.remedy()))
    }

    /// So many images that are not there, in words.
    pub fn in_words(&self, why: ImageOmission, number: u64) -> String {
        let images = count(number, "image");
        match why {
            ImageOmission::Unwanted => format!("{images} of trials"),
            ImageOmission::TooLarge => {
                format!("{images} larger than {}", bytes(self.largest()))
            }
            ImageOmission::BeyondLimit => {
                let older = count(number, "older image");
                format!("{older} beyond the limit of {} for all images", bytes(self.limit))
            }
            ImageOmission::NoFile => format!("{images} without a file, or with another one now"),
            ImageOmission::WithoutPage => format!("{images} of trials without a page"),
        }
    }
}

impl ImageOmission {
    /// The option or command that changes it, or tells more.
    fn remedy(self) -> &'static str {
        match self {
            ImageOmission::Unwanted | ImageOmission::TooLarge | ImageOmission::BeyondLimit => {
                "--images SIZE"
            }
            ImageOmission::NoFile => "hpsearch verify",
            ImageOmission::WithoutPage => "--trial TRIAL",
        }
    }
}
