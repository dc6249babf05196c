//! Pictures of the real screens for the README: `cargo test --test it -- --ignored pictures` writes
//! them to `.github/pictures`.
//!
//! The program runs on a pseudo-terminal, keys are pressed, and what its terminal shows is drawn.
//! HPSEARCH_PICTURES names a directory with a store in `runs/hpsearch.db`, and
//! HPSEARCH_PICTURES_STUDY its study: the pictures of the repository are of the quickstart, run
//! there by a release build on an idle machine, since the screens show times. Without it,
//! `studies/command.toml` is run and shown (Python is needed).

mod svg;

use std::path::{Path, PathBuf};
use std::process::Command;

use svg::{DARK, LIGHT, picture};

use crate::harness::{OnTerminal, PROGRAM};

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;

/// One picture.
struct Shot {
    name: &'static str,
    rows: u16,
    keys: &'static [&'static str],
    /// What is on the screen when it is the right one.
    shows: &'static str,
}

const SHOTS: &[Shot] = &[
    Shot { name: "trials", rows: ROWS, keys: &[], shows: "best" },
    Shot { name: "trial", rows: ROWS, keys: &["\r"], shows: "parameters" },
    Shot {
        name: "compare",
        rows: ROWS,
        keys: &[" ", "j", " ", "j", "j", " ", "3"],
        shows: "━━ trial",
    },
    Shot { name: "history", rows: ROWS, keys: &["4"], shows: "best so far" },
    Shot { name: "parameters", rows: ROWS, keys: &["4", "v"], shows: "learning_rate" },
    Shot { name: "devices", rows: 16, keys: &["5"], shows: "cores" },
];

#[test]
#[ignore = "writes .github/pictures"]
fn pictures() {
    let made = tempfile::tempdir().unwrap();
    let (directory, study) = match std::env::var_os("HPSEARCH_PICTURES") {
        Some(given) => (
            PathBuf::from(given),
            std::env::var("HPSEARCH_PICTURES_STUDY").unwrap_or_else(|_| "quickstart".to_owned()),
        ),
        None => {
            searched(made.path());
            (made.path().to_owned(), "command".to_owned())
        }
    };
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/pictures");
    std::fs::create_dir_all(&out).unwrap();
    for shot in SHOTS {
        let mut terminal =
            OnTerminal::start_with(&directory, &["watch", &study], &[], (shot.rows, COLUMNS));
        terminal.settle("best");
        for keys in shot.keys {
            terminal.press(keys);
            terminal.settle("");
        }
        terminal.settle(shot.shows);
        for theme in [DARK, LIGHT] {
            let drawn = picture(terminal.screen(), &format!("hpsearch watch {study}"), &theme);
            std::fs::write(out.join(format!("{}-{}.svg", shot.name, theme.name)), drawn).unwrap();
        }
        terminal.press("q");
        terminal.leave();
    }
    for kind in ["history", "contour"] {
        for (theme, options) in [("light", &[][..]), ("dark", &["--dark"])] {
            let file = out.join(format!("figure-{kind}-{theme}.svg"));
            let plot = Command::new(PROGRAM)
                .args(["plot", kind, &study, "--overwrite", "-o"])
                .arg(file)
                .args(options)
                .current_dir(&directory)
                .status();
            assert!(plot.unwrap().success(), "{kind}");
        }
    }
}

#[test]
#[ignore = "prints the screens without colours, for looking at"]
fn pictures_without_colours() {
    let made = tempfile::tempdir().unwrap();
    searched(made.path());
    for shot in SHOTS {
        let mut terminal = OnTerminal::start_with(
            made.path(),
            &["watch", "command"],
            &[("NO_COLOR", "1"), ("LC_ALL", "C")],
            (shot.rows, COLUMNS),
        );
        terminal.settle("best");
        for keys in shot.keys {
            terminal.press(keys);
            terminal.settle("");
        }
        terminal.settle("");
        println!("{}\n", terminal.screen().contents());
        terminal.press("q");
        terminal.leave();
    }
}

/// A store with a finished study.
fn searched(directory: &Path) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/command.toml");
    let run = Command::new(PROGRAM)
        .arg("run")
        .arg(file)
        .args(["--plain", "--set", "budget.trials=60"])
        .current_dir(directory)
        .output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
