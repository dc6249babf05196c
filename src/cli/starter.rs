//! What `hpsearch run` without a file offers: the quickstart, written where the person stands.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use super::exit::Failure;

/// The quickstart that ships with the program, and its data.
const FILES: [(&str, &str); 4] = [
    ("quickstart.toml", include_str!("../../studies/quickstart.toml")),
    ("data/train.csv", include_str!("../../studies/data/train.csv")),
    ("data/validation.csv", include_str!("../../studies/data/validation.csv")),
    ("data/test.csv", include_str!("../../studies/data/test.csv")),
];

/// Offers to write the quickstart; its study file if the person wants it.
pub fn offer() -> Result<PathBuf, Failure> {
    let refusal = || {
        Failure::usage("no study file is given, and there is no `study.toml` here").help(
            "`hpsearch run STUDY.toml` runs one; on a terminal, `hpsearch run` offers to \
                write an example",
        )
    };
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
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
    eprint!(
        "There is no study file here. Write an example (quickstart.toml and data/, 130 kB) and \
         run it? [Y/n] "
    );
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if !matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes") {
        return Err(refusal());
    }
    fs::create_dir_all("data")?;
    for (name, content) in FILES {
        fs::File::create_new(name)?.write_all(content.as_bytes())?;
    }
    Ok(file)
}
