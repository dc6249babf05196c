//! The images that trials logged, for their pages in a report: the newest first, up to a limit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use serde_json::{Value as Json, json};

use super::Scope;
use crate::app::images::{ImageError, of_artifact};
use crate::report::document::images::{ImageOmission, ReportImages};
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::artifact::{Artifact, ArtifactKind, StoredArtifact};
use crate::study::trial::{Trial, TrialNumber};

/// The images of one name of a trial.
#[derive(Debug, Default)]
struct Strip {
    logged: Vec<StoredArtifact>,
    /// Places in `logged`.
    shown: BTreeSet<usize>,
    left_out: BTreeMap<ImageOmission, u64>,
    /// Why the last of those without a file has none.
    error: Option<String>,
}

impl Scope<'_> {
    /// Takes the images of the trials that have pages, and for each such trial returns what its
    /// page shows. They take at most `room` bytes: first the newest of each name, of the best trial
    /// first, then the second newest, and so on.
    pub(super) fn images(
        &self,
        study: &StudySummary,
        (pages, visible): (&[&Trial], &[&Trial]),
        mut room: u64,
        images: &mut ReportImages,
    ) -> Result<BTreeMap<TrialNumber, Json>, StorageError> {
        let mut places = BTreeMap::new();
        for (place, trial) in pages.iter().enumerate() {
            places.entry(trial.number).or_insert(place);
        }
        let visible: BTreeSet<TrialNumber> = visible.iter().map(|trial| trial.number).collect();
        let mut strips: BTreeMap<(usize, String), Strip> = BTreeMap::new();
        for stored in self.reader.artifacts(study.id, None)? {
            match places.get(&stored.trial) {
                _ if stored.artifact.kind != ArtifactKind::Image => {}
                _ if images.limit() == 0 => images.leave_out(ImageOmission::Unwanted),
                Some(place) => {
                    let strip = strips.entry((*place, stored.artifact.name.clone())).or_default();
                    strip.logged.push(stored);
                }
                None if visible.contains(&stored.trial) => {
                    images.leave_out(ImageOmission::WithoutPage);
                }
                None => {}
            }
        }
        let mut order = Vec::new();
        for (key, strip) in &mut strips {
            strip.logged.sort_by_key(|stored| Reverse((stored.artifact.step, stored.version)));
            order.extend((0..strip.logged.len()).map(|age| (age, key.clone())));
        }
        order.sort_by(|(age, (place, _)), (other_age, (other, _))| {
            (age, place).cmp(&(other_age, other))
        });
        for (age, key) in order {
            let Some(strip) = strips.get_mut(&key) else { continue };
            match self.embed(study, &strip.logged[age], &mut room, images) {
                Ok(()) => {
                    strip.shown.insert(age);
                }
                Err(NotEmbedded::Storage(error)) => return Err(error),
                Err(NotEmbedded::LeftOut(why, error)) => {
                    images.leave_out(why);
                    *strip.left_out.entry(why).or_default() += 1;
                    strip.error = error.or(strip.error.take());
                }
            }
        }
        let mut of_trials: BTreeMap<TrialNumber, Json> = BTreeMap::new();
        for ((place, name), strip) in &strips {
            let shown = of_trials.entry(pages[*place].number).or_insert_with(|| json!([]));
            if let Some(list) = shown.as_array_mut() {
                list.push(strip.to_json(name, images));
            }
        }
        Ok(of_trials)
    }

    fn embed(
        &self,
        study: &StudySummary,
        stored: &StoredArtifact,
        room: &mut u64,
        images: &mut ReportImages,
    ) -> Result<(), NotEmbedded> {
        let Artifact { digest, bytes, .. } = &stored.artifact;
        if images.contains(digest) {
            return Ok(());
        }
        // Before its file is opened by what the store has, and again by what it is.
        check_size(*bytes, room, images)?;
        let image = match of_artifact(self.reader, study, self.store, stored) {
            Ok(image) => image,
            Err(ImageError::Storage(error)) => return Err(NotEmbedded::Storage(error)),
            Err(error) => return Err(without_file(&error)),
        };
        check_size(image.bytes, room, images)?;
        let content = content(image.file, image.bytes).map_err(|error| without_file(&error))?;
        *room -= image.bytes;
        images.embed(digest, image.media_type, &content);
        Ok(())
    }
}

/// Why an image is not in the report.
enum NotEmbedded {
    Storage(StorageError),
    LeftOut(ImageOmission, Option<String>),
}

fn content(mut file: File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.rewind()?;
    file.take(bytes).read_to_end(&mut content)?;
    if content.len() as u64 != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(content)
}

fn without_file(error: &dyn std::error::Error) -> NotEmbedded {
    NotEmbedded::LeftOut(ImageOmission::NoFile, Some(one_line(&error.to_string())))
}

fn check_size(bytes: u64, room: &mut u64, images: &ReportImages) -> Result<(), NotEmbedded> {
    if bytes > images.largest() {
        return Err(NotEmbedded::LeftOut(ImageOmission::TooLarge, None));
    }
    if bytes > *room {
        // No older one takes the place of one that is left out.
        *room = 0;
        return Err(NotEmbedded::LeftOut(ImageOmission::BeyondLimit, None));
    }
    Ok(())
}

impl Strip {
    /// The name, the images in the order of their steps, and what is not there.
    fn to_json(&self, name: &str, images: &ReportImages) -> Json {
        let shown = self.shown.iter().rev().map(|place| {
            let stored = &self.logged[*place];
            json!([one_line(&stored.label()), stored.artifact.step, stored.artifact.digest])
        });
        let left_out = self.left_out.iter().map(|(why, number)| match (why, &self.error) {
            (ImageOmission::NoFile, Some(error)) if *number == 1 => error.clone(),
            (ImageOmission::NoFile, Some(error)) => {
                format!("{}; the last: {error}", images.in_words(*why, *number))
            }
            _ => images.in_words(*why, *number),
        });
        json!([one_line(name), shown.collect::<Vec<_>>(), left_out.collect::<Vec<_>>()])
    }
}
