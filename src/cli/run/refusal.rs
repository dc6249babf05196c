//! What keeps a study from being run: it is another one than the stored one, or lies elsewhere.

use std::path::Path;

use super::RunArguments;
use crate::app::reconcile::{self, Consent};
use crate::cli::DEFAULT_STORE;
use crate::cli::console::{Console, shown, typed};
use crate::cli::exit::{Exit, Failure};
use crate::cli::overrides::sets;
use crate::cli::provenance;
use crate::config::{Change, ChangeClass};
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
        Failure::usage(format!("`{name}` is a study of the store, and running it takes its file"));
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
        "the study `{name}` is in the store beside its file, and there is none of it in this \
         directory"
    ));
    let run = format!("hpsearch run {}{}", shown(file), sets(&arguments.set));
    Some(failure.help(format!(
        "`{run} --store {}` continues with it; `{run} --store {DEFAULT_STORE}` begins it anew here",
        typed(&there)
    )))
}

/// Prints the changes since the study was stored; returns the exit code if they need consent.
pub(super) fn refuse_change(
    changes: &[Change],
    spec: &StudySpec,
    arguments: &RunArguments,
    file: &Path,
    console: &mut Console,
) -> Option<Exit> {
    if changes.is_empty() {
        return None;
    }
    let consent = if arguments.accept { Consent::Given } else { Consent::Missing };
    let refusal = reconcile::refusal(changes, consent);
    // The reason why nothing runs is an error, printed also with `-q`.
    let say: &dyn Fn(&str) =
        if refusal.is_some() { &|text| console.complain(text) } else { &|text| console.say(text) };
    say(&format!("study `{}` changed since it was last run:", spec.name));
    changes.iter().for_each(|change| say(&format!("  {change}")));
    let run = format!("run {}{}", shown(file), sets(&arguments.set));
    match refusal? {
        ChangeClass::NeedsFork => say(&format!(
            "its trials cannot be compared any more: {} starts a new study; or undo the change",
            console.next(&format!("{run} --fork NAME"))
        )),
        _ => say(&format!(
            "{} continues with the new search; or undo the change",
            console.next(&format!("{run} --accept"))
        )),
    }
    Some(Exit::StudyChanged)
}
