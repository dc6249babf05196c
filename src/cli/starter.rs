//! Handles a missing study file: suggests a similar file, or offers the quickstart.

use std::fs;
use std::path::{Path, PathBuf};

use super::Failure;
use super::console::{ask, can_ask, shown};
use super::output_file::whole_file;
use crate::app::export::directory_of;
use crate::study::suggestion::nearest;

/// The quickstart that ships with the program, and its data.
const FILES: [(&str, &str); 4] = [
    ("quickstart.toml", include_str!("../../studies/quickstart.toml")),
    ("data/train.csv", include_str!("../../studies/data/train.csv")),
    ("data/validation.csv", include_str!("../../studies/data/validation.csv")),
    ("data/test.csv", include_str!("../../studies/data/test.csv")),
];

/// The error about a missing study file, if a similar one exists.
pub fn another_file(file: &Path) -> Option<Failure> {
    let name = file.file_name().filter(|_| !file.exists())?.to_str()?;
    let names = fs::read_dir(directory_of(file)).ok()?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_study = |name: &String| {
        name.ends_with(".toml") && !["Cargo.toml", "pyproject.toml"].contains(&name.as_str())
    };
    let files: Vec<String> = names.filter(is_study).collect();
    let near = match files.as_slice() {
        [only] => only,
        several => nearest(name, several.iter().map(String::as_str))?,
    };
    let failure = Failure::usage(format!("there is no study file `{}`", shown(file)));
    Some(failure.help(format!("did you mean `{}`?", shown(&file.with_file_name(near)))))
}

/// The error about a missing study file, with the verb that writes one.
pub fn no_file(file: &Path) -> Option<Failure> {
    let failure = Failure::usage(format!("there is no study file `{}`", shown(file)));
    (!file.exists()).then(|| {
        failure.help(
            "`hpsearch init DATA.csv` or `hpsearch init --command \"python train.py\"` writes one",
        )
    })
}

/// Offers to write the quickstart; returns its study file if the user accepts.
pub fn offer() -> Result<PathBuf, Failure> {
    let refusal = || {
        Failure::usage("no study file is given, and there is no `study.toml` here").help(
            "`hpsearch run STUDY.toml` runs one; on a terminal, `hpsearch run` offers to \
                write an example",
        )
    };
    if !can_ask() {
        return Err(refusal());
    }
    let taken = FILES.iter().find(|(name, _)| PathBuf::from(name).exists());
    if let Some((name, _)) = taken.filter(|(name, _)| *name != "quickstart.toml") {
        return Err(refusal().help(format!(
            "an example would overwrite `{name}`: `hpsearch run STUDY.toml` runs a study of yours"
        )));
    }
    let file = PathBuf::from("quickstart.toml");
    if taken.is_some() {
        return Ok(file);
    }
    let answer = ask(
        "There is no study file here. Write an example (quickstart.toml and data/, 130 kB) and \
         run it? [Y/n] ",
    )?
    .unwrap_or_default();
    if !["", "y", "yes"].iter().any(|yes| answer.eq_ignore_ascii_case(yes)) {
        return Err(refusal());
    }
    fs::create_dir_all("data")?;
    for (name, content) in FILES {
        whole_file(Path::new(name), |out| Ok(out.write_all(content.as_bytes())?))?;
    }
    Ok(file)
}
