//! What keeps a file from being run: it is none, or its study is stored elsewhere.

use std::path::Path;

use super::RunArguments;
use crate::cli::DEFAULT_STORE;
use crate::cli::console::{Console, typed};
use crate::cli::exit::Failure;
use crate::cli::overrides::sets;
use crate::cli::provenance;
use crate::report::wording::one_line;
use crate::storage::StorageReader as _;
use crate::storage::any::AnyReader;
use crate::study::spec::StudySpec;

/// The error about a study's name in place of its file.
pub(super) fn named_like_a_study(file: &Path, console: &Console) -> Option<Failure> {
    let name = file.to_str().filter(|_| !file.exists())?;
    let reader = AnyReader::open(&console.store).ok()?;
    let study = reader.study(name).ok()??;
    let failure =
        Failure::usage(format!("`{name}` is a study in the store; `run` takes its study file"));
    let run = provenance::run(&reader.runners(study.id).ok()?);
    Some(failure.help(format!(
        "`hpsearch {run}` continues with it; `hpsearch watch` and `hpsearch show` take the name"
    )))
}

/// The error about a study that is in the store beside its file but not in this directory's store:
/// starting it anew was hardly intended.
pub(super) fn stored_beside_its_file(
    spec: &StudySpec,
    file: &Path,
    here: &Path,
    arguments: &RunArguments,
    console: &Console,
) -> Option<Failure> {
    let there = std::path::absolute(file).ok()?.parent()?.join(DEFAULT_STORE);
    let is_same = || {
        matches!(
            (there.canonicalize(), here.canonicalize()),
            (Ok(there), Ok(here)) if there == here
        )
    };
    if console.is_store_named || !there.is_file() || is_same() {
        return None;
    }
    let has = |store: &Path| {
        AnyReader::open(store).ok().and_then(|reader| reader.study(&spec.name).ok()?).is_some()
    };
    if (here.exists() && has(here)) || !has(&there) {
        return None;
    }
    let name = one_line(&spec.name);
    let failure = Failure::usage(format!(
        "the study `{name}` is in the store beside its file; the store in this directory does \
         not have it"
    ));
    let run = format!("hpsearch run {}{}", typed(file), sets(&arguments.set));
    Some(failure.help(format!(
        "`{run} --store {}` continues with it; `{run} --store {DEFAULT_STORE}` starts it again \
         here",
        typed(&there)
    )))
}
