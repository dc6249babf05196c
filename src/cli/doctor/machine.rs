//! The program and the machine: versions, devices, the terminal, directories and the disk.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::app::devices;
use crate::cli::console::{Console, shown};
use crate::report::sparkline::Charset;
use crate::report::wording::bytes;
use crate::storage::address::directory_beside;
use crate::storage::sqlite::sqlite_version;

/// Free space below which a disk is nearly full: a checkpoint may need as much.
const LITTLE: u64 = 1 << 30;

/// Free space below which the store itself cannot grow.
const NOTHING: u64 = 16 << 20;

pub(super) fn findings(console: &Console) -> Vec<Finding> {
    let mut found = vec![program(), devices(), terminal(console), completions()];
    let store = console.absolute_store().unwrap_or_else(|_| console.store.clone());
    let places =
        [("directory", Some(directory_beside(&store))), ("temporary", Some(env::temp_dir()))];
    for (check, directory) in places {
        let Some(directory) = directory else { continue };
        let existing =
            directory.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/")).to_owned();
        found.push(writable(check, &directory, &existing));
        found.push(room(&existing));
    }
    found.dedup_by(|one, other| one == other);
    found
}

fn program() -> Finding {
    let built: Vec<&str> = [
        ("train", cfg!(feature = "train")),
        ("ndarray", cfg!(feature = "ndarray")),
        ("cuda", cfg!(feature = "cuda")),
        ("wgpu", cfg!(feature = "wgpu")),
    ]
    .into_iter()
    .filter_map(|(feature, is_there)| is_there.then_some(feature))
    .collect();
    let built = if built.is_empty() {
        "without the built-in trainer".to_owned()
    } else {
        format!("with {}", built.join(", "))
    };
    let version = env!("CARGO_PKG_VERSION");
    let (system, processor) = (env::consts::OS, env::consts::ARCH);
    Finding::ok(
        "program",
        format!(
            "hpsearch {version}, built {built}, on {system} {processor}; SQLite {}",
            sqlite_version()
        ),
    )
}

fn devices() -> Finding {
    let (found, _) = devices::found();
    let named = |usable: bool| {
        found
            .iter()
            .filter(|device| device.usable == usable)
            .filter_map(|device| device.name.clone())
            .collect::<Vec<_>>()
    };
    let (usable, others) = (named(true), named(false));
    let gpus: Vec<String> =
        others.iter().filter(|name| name.starts_with("cuda")).cloned().collect();
    if cfg!(feature = "train") && !gpus.is_empty() {
        let next = "build with `cargo install --path . --features cuda` to train on them; \
            commands run on them as it is";
        return Finding::warning(
            "devices",
            format!("the built-in trainer of this binary cannot use {}", gpus.join(", ")),
            next,
        );
    }
    if usable.is_empty() {
        return Finding::ok(
            "devices",
            format!(
                "{}: for commands; this binary was built without the trainer",
                others.join(", ")
            ),
        );
    }
    Finding::ok("devices", format!("the built-in trainer can use {}", usable.join(", ")))
}

fn terminal(console: &Console) -> Finding {
    if console.look.charset == Charset::Ascii {
        return Finding::warning(
            "terminal",
            "the locale is not UTF-8: charts are drawn in ASCII",
            "set for example LANG=C.UTF-8",
        );
    }
    Finding::ok("terminal", "the locale is UTF-8")
}

/// The directories where the user's shells search for completions, by the XDG rules.
fn completions() -> Finding {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let place = |variable: &str, otherwise: &str| {
        let set = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        set.unwrap_or_else(|| home.join(otherwise))
    };
    let (data, config) =
        (place("XDG_DATA_HOME", ".local/share"), place("XDG_CONFIG_HOME", ".config"));
    let shell = env::var("SHELL").unwrap_or_default();
    let (shell, file) = match shell.rsplit('/').next() {
        Some("zsh") => ("zsh", home.join(".zfunc/_hpsearch")),
        Some("fish") => ("fish", config.join("fish/completions/hpsearch.fish")),
        _ => ("bash", data.join("bash-completion/completions/hpsearch")),
    };
    if file.exists() {
        return Finding::ok(
            "shell",
            format!("{shell} completes command lines ({})", file.display()),
        );
    }
    let next = format!("they are optional: hpsearch completions {shell} > {}", file.display());
    Finding { next: Some(next), ..Finding::ok("shell", format!("no completions for {shell}")) }
}

/// Whether files can be created in a directory, or in its future parent.
fn writable(check: &'static str, directory: &Path, existing: &Path) -> Finding {
    let probe = existing.join(format!(".hpsearch-doctor-{}", std::process::id()));
    let written = fs::write(&probe, "probe");
    let _was_only_a_probe = fs::remove_file(&probe);
    let place = shown(directory);
    let place = if place.is_empty() { ".".to_owned() } else { place };
    match written {
        Ok(()) if directory == existing => Finding::ok(check, format!("`{place}` can be written")),
        Ok(()) => Finding::ok(check, format!("`{place}` does not exist yet and can be created")),
        Err(error) => {
            let next = format!(
                "make `{}` writable, or choose another place (--store PATH, TMPDIR)",
                existing.display()
            );
            Finding::broken(check, format!("`{place}` cannot be written: {error}"), next)
        }
    }
}

/// The space left on the disk of a directory.
pub(super) fn room(directory: &Path) -> Finding {
    let Ok(disk) = rustix::fs::statvfs(directory) else {
        return Finding::warning(
            "disk",
            format!("the free space on the disk of `{}` is unknown", directory.display()),
            "check with `df -h`",
        );
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    judged(directory, free, disk.f_favail)
}

fn judged(directory: &Path, free: u64, files: u64) -> Finding {
    let said = format!("{} free for `{}`", bytes(free), directory.display());
    let next = "free some space, for example checkpoints and logs of old studies";
    match (free, files) {
        (..NOTHING, _) => Finding::broken("disk", said, next),
        (_, 0) => Finding::broken(
            "disk",
            format!(
                "no new file fits the disk of `{}`: its inodes are used up",
                directory.display()
            ),
            next,
        ),
        (..LITTLE, _) => Finding::warning("disk", said, next),
        _ => Finding::ok("disk", said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::CheckStatus;

    #[test]
    fn a_full_disk_is_broken_and_a_nearly_full_one_a_warning() {
        let state = |free, files| judged(Path::new("/data"), free, files).state;
        assert_eq!(
            (state(1 << 20, 9), state(100 << 20, 9), state(5 << 30, 9), state(5 << 30, 0)),
            (CheckStatus::Broken, CheckStatus::Warning, CheckStatus::Ok, CheckStatus::Broken)
        );
        assert_eq!(judged(Path::new("/data"), 100 << 20, 9).message, "100.0 MiB free for `/data`");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_broken() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(
            writable("directory", directory.path(), directory.path()).state,
            CheckStatus::Ok
        );
        let missing = directory.path().join("file");
        fs::write(&missing, "").unwrap();
        let finding = writable("directory", &missing, &missing);
        assert_eq!(finding.state, CheckStatus::Broken);
        assert!(finding.next.unwrap().contains("--store PATH"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
