//! Writes an export: verified files in a draft, synced, then moved into place; the previous one is
//! removed last, or set aside.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::card::card;
use super::contents::{Kind, OURS, Plan, plan};
use super::draft::save;
use super::draft::{self, Draft, Purpose};
use super::earlier::{Stamps, TargetContent};
use super::marker::{ExportState, Marker};
use super::target::Target;
use super::{ExportError, Exported, Holds, Obstacle, Placed, Recipe, SetAside, custom_code};
use crate::study::metric::Number;
use crate::study::program::Program;

/// Called with the number of bytes copied, and the total.
type CopyProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// Retries if a directory is taken concurrently.
const TRIES: u32 = 10;

/// Number of directories `model-2`, `model-3` and so on that are tried.
const OTHERS: u32 = 1000;

/// What to do if the target must not be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Nothing is written.
    Refuse,
    /// The export goes to `model-2` beside `model`, or the next one that may be written.
    Beside,
}

/// What becomes of an earlier export whose place is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Previous {
    /// It is removed, unless it is of `hpsearch train`: no store can export that again.
    Removed,
    /// It is set aside as `model.1`, `model.2` and so on beside `model`.
    SetAside,
}

/// How an export may take its place.
#[derive(Clone, Copy, Debug)]
struct Rules {
    otherwise: Otherwise,
    previous: Previous,
    model: Model,
}

/// Writes `exported` to `target` in place of an earlier export; `progress` receives the number of
/// the checkpoint's bytes read, and the total.
///
/// # Errors
/// The target must not be replaced, the checkpoint is damaged, or files cannot be read or written.
/// Then nothing is left half-written, and the previous content is untouched.
pub fn write(
    exported: &Exported<'_>,
    target: &Target,
    otherwise: Otherwise,
    previous: Previous,
    progress: CopyProgress<'_>,
) -> Result<Placed, ExportError> {
    let missing: Vec<&Path> =
        target.path().ancestors().skip(1).take_while(|parent| !parent.exists()).collect();
    let model = if exported.checkpoint.is_some() { Model::Exported } else { Model::None };
    let written = write_to(exported, target, Rules { otherwise, previous, model }, progress);
    written.map_err(|error| {
        // Empty ones only.
        missing.into_iter().for_each(|parent| drop(fs::remove_dir(parent)));
        error.of_target(target.path())
    })
}

fn write_to(
    exported: &Exported<'_>,
    target: &Target,
    rules: Rules,
    progress: CopyProgress<'_>,
) -> Result<Placed, ExportError> {
    let parent = target.path().parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(ExportError::io("make", parent))?;
    let mut kept = Vec::new();
    let known = {
        let _alone = draft::alone(target.path());
        kept.extend(draft::settle(target.path()));
        match place(target, rules, &Stamps::new())? {
            (_, TargetContent::Export(earlier), _) => earlier.stamps,
            _ => Stamps::new(),
        }
    };
    let mut draft = Draft::beside(target.path(), Purpose::Draft)?;
    let contents = fill(exported, &mut draft, progress)?;
    let _alone = draft::alone(target.path());
    let placed = put_in_place(draft, target, rules, &known)?;
    sync(parent)?;
    kept.extend(placed.kept);
    Ok(Placed { kept, left_out: contents.left_out, renamed: contents.renamed, ..placed })
}

/// Whether the export contains a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Exported,
    None,
}

impl Model {
    /// Rejects replacing a model by an export without one.
    fn may_replace(
        self,
        target: &Target,
        found: TargetContent,
    ) -> Result<TargetContent, ExportError> {
        let TargetContent::Export(earlier) = &found else { return Ok(found) };
        let names: Vec<PathBuf> = earlier
            .stamps
            .keys()
            .filter(|name| !OURS.iter().any(|ours| name.as_os_str() == *ours))
            .cloned()
            .collect();
        if self == Model::Exported || names.is_empty() {
            return Ok(found);
        }
        Err(ExportError::Occupied {
            path: target.path().to_owned(),
            why: Obstacle::HoldsModel(names),
        })
    }
}

/// The first possible directory, its content, and why it is not the requested one.
fn place(
    target: &Target,
    Rules { otherwise, model, .. }: Rules,
    known: &Stamps,
) -> Result<(Target, TargetContent, Option<ExportError>), ExportError> {
    let look =
        |target: &Target| target.look(known).and_then(|found| model.may_replace(target, found));
    let refused = match look(target) {
        Ok(found) => return Ok((target.clone(), found, None)),
        Err(error @ ExportError::Occupied { .. }) if otherwise == Otherwise::Beside => error,
        Err(error) => return Err(error),
    };
    for number in 2..OTHERS {
        let other = target.other(number);
        match look(&other) {
            Ok(found) => return Ok((other, found, Some(refused))),
            Err(ExportError::Occupied { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}

/// Fills the draft; returns what the caller reports.
fn fill(
    exported: &Exported<'_>,
    draft: &mut Draft,
    progress: CopyProgress<'_>,
) -> Result<Plan, ExportError> {
    let is_trainers = matches!(exported.spec.program, Program::Trainer { .. });
    let directory = draft.path().to_owned();
    let mut marker = Marker { state: ExportState::Complete, ..Marker::draft() };
    let mut contents = Plan::default();
    if let Some(checkpoint) = exported.checkpoint {
        contents = plan(checkpoint, if is_trainers { Kind::Trainer } else { Kind::Command })?;
        marker.files = contents.copy(checkpoint, &directory, progress)?;
        marker.directories.clone_from(&contents.directories);
        if is_trainers {
            marker.files.extend(custom_code::add(&directory)?);
        }
    }
    let mut add = |name: &str, bytes: &[u8]| {
        let (path, written) = save(&directory, name, bytes)?;
        marker.files.insert(path, written);
        Ok(())
    };
    add("best.toml", exported.recipe.to_text()?.as_bytes())?;
    let mut metrics = serde_json::json!({
        "version": 1, "study": exported.spec.name, "trial": exported.recipe.trial,
        "metric": exported.spec.objective().metric,
        "value": json(exported.held_value()), "step": exported.held_step(),
        "metrics": exported.metrics,
    });
    if exported.spec.has_several_objectives() {
        metrics["metric"] = serde_json::Value::Null;
        metrics["value"] = serde_json::Value::Null;
        metrics["values"] = exported
            .spec
            .objective_names()
            .into_iter()
            .zip(exported.trial.values.iter().map(|value| Number(*value).to_json()))
            .collect::<serde_json::Map<_, _>>()
            .into();
    }
    if exported.holds != Holds::Value {
        metrics["trial_value"] =
            serde_json::json!({ "step": exported.step, "value": json(exported.trial.value) });
    }
    if let Some(quantized) = &exported.quantized {
        metrics["quantize"] = quantized.format.word().into();
        metrics["metrics_before_quantizing"] = serde_json::json!(quantized.before);
    }
    add("metrics.json", format!("{metrics:#}\n").as_bytes())?;
    add("README.md", card(exported).as_bytes())?;
    for inner in &marker.directories {
        sync(&directory.join(inner))?;
    }
    draft.complete(&marker)?;
    sync(&directory)?;
    Ok(contents)
}

fn json(value: Option<f64>) -> Option<serde_json::Value> {
    value.map(|value| Number(value).to_json())
}

fn sync(directory: &Path) -> Result<(), ExportError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(ExportError::io("sync", directory))
}

/// Moves the draft into place, then removes the previous export, or sets it aside.
fn put_in_place(
    draft: Draft,
    target: &Target,
    rules: Rules,
    known: &Stamps,
) -> Result<Placed, ExportError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let (place, found, refused) = place(target, rules, known)?;
        let (path, from) = (place.path().to_owned(), draft.path().to_owned());
        let mut placed = Placed { refused, ..Placed::at(&path) };
        let moved = match found {
            TargetContent::Nothing | TargetContent::Empty => {
                fs::rename(&from, &path).map(|()| None)
            }
            TargetContent::Export(earlier) => {
                let recipe = Recipe::of_export(&path);
                let is_only_one = recipe.as_ref().is_none_or(|recipe| recipe.training.is_some());
                if is_only_one || rules.previous == Previous::SetAside {
                    set_aside(&from, &path).map(|directory| {
                        placed.set_aside = Some(SetAside { directory, recipe });
                        None
                    })
                } else {
                    swap(&from, &path, target.path()).map(|old| Some((old, earlier)))
                }
            }
            // It may have been edited, which cannot be detected: it is kept under a visible name.
            TargetContent::WithoutMarker => {
                draft::aside(&path, &path, Some("old")).and_then(|aside| {
                    fs::rename(&from, &path).inspect_err(|_| drop(fs::rename(&aside, &path)))?;
                    placed.kept.push(aside);
                    Ok(None)
                })
            }
        };
        match moved {
            Ok(old) => {
                draft.placed();
                if let Some((old, earlier)) = old {
                    placed.kept.extend(draft::remove(
                        &old,
                        &path,
                        super::earlier::Depth::Contents,
                        &earlier.stamps,
                    ));
                }
                return Ok(placed);
            }
            // Another process was faster: the content is checked again.
            Err(error) if tries < TRIES && is_taken(&error) => {}
            Err(error) => return Err(ExportError::io("replace", &path)(error)),
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
    )
}

/// Exchanges the directories `new` and `path`, atomically if the file system can; returns the new
/// path of the old one.
fn swap(new: &Path, path: &Path, target: &Path) -> io::Result<PathBuf> {
    if exchange(new, path)? {
        return Ok(new.to_owned());
    }
    swap_in_two_steps(new, path, target)
}

/// Exchanges two directories atomically; `false` if the file system cannot.
fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts the directory `new` in the place of `path`, which becomes `path.1`, or the next one that is
/// free; returns its new path. Until then the new one has that name: whenever the process is
/// killed, both are complete, under names that nothing removes.
fn set_aside(new: &Path, path: &Path) -> io::Result<PathBuf> {
    let aside = draft::aside(new, path, None)?;
    let placed = match exchange(&aside, path) {
        Ok(true) => Ok(aside.clone()),
        Ok(false) => set_aside_in_two_steps(&aside, path),
        Err(error) => Err(error),
    };
    placed.inspect_err(|_| drop(fs::rename(&aside, new)))
}

/// The same for a directory that has a visible name, without an atomic exchange (NFS, FUSE).
fn set_aside_in_two_steps(new: &Path, path: &Path) -> io::Result<PathBuf> {
    let old = draft::aside(path, path, None)?;
    fs::rename(new, path).inspect_err(|_| drop(fs::rename(&old, path)))?;
    Ok(fs::rename(&old, new).map_or(old, |()| new.to_owned()))
}

/// The same without an atomic exchange (NFS, FUSE).
pub(super) fn swap_in_two_steps(new: &Path, path: &Path, target: &Path) -> io::Result<PathBuf> {
    let old = (0..)
        .map(|number| draft::free(target, Purpose::Old, number))
        .find(|old| fs::symlink_metadata(old).is_err());
    let old = old.unwrap_or_else(|| draft::free(target, Purpose::Old, 0));
    fs::rename(path, &old)?;
    // If killed here, the next export restores it.
    fs::rename(new, path).inspect_err(|_| drop(fs::rename(&old, path)))?;
    Ok(old)
}

#[cfg(test)]
mod tests;
