//! What verbs print on a real pseudo-terminal of 80 columns: fitting tables, a pager, colours,
//! questions.

use hpsearch::study::event::{Event, TrialEvent};
use hpsearch::study::params::{Params, Value};
use hpsearch::study::trial::{Origin, TrialNumber};

use crate::harness::{Scene, Site, assert_names, on_terminal};

fn of(scene: &Scene, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let (printed, code) = on_terminal(&scene.path(""), arguments, variables, "");
    assert_eq!(code, 0, "{printed}");
    printed
}

/// A study of more trials than a screen has lines.
fn long() -> Scene {
    let mut scene = Scene::digits();
    let params: Params = [("optim".to_owned(), Value::from("adamw"))].into_iter().collect();
    let created = |number| {
        Event::Trial(
            TrialNumber(number),
            TrialEvent::created(params.clone(), Origin::Sampled("random".into())),
        )
    };
    scene.append(&(4..64).map(created).collect::<Vec<_>>());
    scene
}

#[test]
fn a_table_fits_the_terminal_and_wide_shows_all_of_it() {
    let scene = Scene::digits();
    let fitting = of(&scene, &["trials"], &[("COLUMNS", "60")]);
    assert!(fitting.lines().all(|line| line.chars().count() <= 60), "{fitting}");
    assert!(
        fitting.contains(" left out: --wide shows all\n") && !fitting.contains("momentum"),
        "{fitting}"
    );
    let wide = of(&scene, &["trials", "--wide"], &[("COLUMNS", "60")]);
    assert_names(&wide, &["momentum", "rank 2 of 2 at step 1; 1 continues"]);
}

#[test]
fn every_reading_verb_fits_80_columns() {
    let scene = Scene::digits();
    let verbs: &[&[&str]] = &[
        &["ls"],
        &["show"],
        &["trials"],
        &["curves"],
        &["curves", "--table"],
        &["plot", "history"],
        &["plot", "slice"],
        &["plot", "parallel"],
        &["explain", "1"],
        &["diff", "0", "1"],
        &["list", "pruners"],
        &["devices"],
        &["doctor"],
    ];
    for arguments in verbs {
        let printed = of(&scene, arguments, &[("NO_COLOR", "1")]);
        let wide: Vec<&str> = printed.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{arguments:?}: {wide:?}");
    }
}

#[test]
fn what_is_longer_than_the_screen_goes_through_the_pager() {
    let scene = long();
    let pager = [("PAGER", "sed 's/^/paged: /'")];
    let paged = of(&scene, &["trials"], &pager);
    assert!(
        paged.lines().count() > 60 && paged.lines().all(|line| line.starts_with("paged: ")),
        "{paged}"
    );
    assert!(!of(&scene, &["trials", "--no-pager"], &pager).contains("paged: "));
    assert!(!of(&scene, &["ls"], &pager).contains("paged: "), "what fits the screen is printed");
    let without = of(&scene, &["trials"], &[("PAGER", "no-such-pager")]);
    assert!(without.lines().count() > 60, "{without}");
}

#[test]
fn leaving_the_pager_early_is_success() {
    let printed = of(&long(), &["trials"], &[("PAGER", "head -n 2")]);
    assert_eq!(printed.lines().count(), 2, "{printed}");
}

#[test]
fn a_terminal_gets_colours_unless_they_are_refused() {
    let scene = Scene::digits();
    assert!(of(&scene, &["plot", "history"], &[]).contains('\x1b'));
    assert!(!of(&scene, &["plot", "history"], &[("NO_COLOR", "1")]).contains('\x1b'));
    assert!(!of(&scene, &["plot", "history"], &[("TERM", "dumb")]).contains('\x1b'));
}

#[test]
fn init_asks_on_a_terminal_and_enter_takes_the_guess() {
    let site = Site::empty();
    let row = |index: usize| {
        format!(
            "text number {index},{},{}\n",
            ["good", "bad"][index % 2],
            ["a", "b", "c"][index % 3]
        )
    };
    let rows: String = (0..60).map(row).collect();
    site.write("data.csv", format!("text,verdict,source\n{rows}"));
    let (printed, code) = on_terminal(&site.path(""), &["init", "data.csv"], &[], "\nsource\n7\n");
    assert_eq!(code, 0, "{printed}");
    assert_names(
        &printed,
        &["Which column holds the texts? (of `text`, `verdict`, `source`) [text]"],
    );
    assert!(printed.contains("Which column holds the labels? [verdict]"), "{printed}");
    let text = site.read("study.toml");
    assert!(text.contains("label = \"source\"") && text.contains("trials = 7\n"), "{text}");
}

#[test]
fn init_asks_whether_a_doubtful_first_line_is_a_header() {
    let site = Site::empty();
    let rows: String = (0..60)
        .map(|index| format!("{}\tmessage number {index}\n", ["ham", "spam"][index % 2]))
        .collect();
    site.write("sms.tsv", rows);
    for (answer, label) in [("", "column1"), ("n", "column1"), ("yes", "ham")] {
        let (printed, code) =
            on_terminal(&site.path(""), &["init", "sms.tsv"], &[], &format!("{answer}\n\n\n\n"));
        assert_eq!(code, 0, "{printed}");
        assert!(
            printed.contains(
                "Does line 1 of sms.tsv name the columns? `ham` in column 1 is \
            also a value of 29 other rows [no]"
            ),
            "{printed}"
        );
        let text = site.read("study.toml");
        assert!(text.contains(&format!("label = \"{label}\"")), "{text}");
        std::fs::remove_file(site.path("study.toml")).unwrap();
    }
}

#[cfg(feature = "train")]
#[test]
fn preparing_data_shows_how_far_it_is_with_the_time_left_and_leaves_no_trace() {
    const STUDY: &str = "[study]\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n[budget]\n\
        trials = 1\n\
        [space]\nlearning_rate = [1e-3, 1e-4]\n[trainer]\ntask = \"text-classification\"\n[data]\n\
        train = \"reviews.csv\"\n";
    let site = Site::empty();
    let row = |index: u64| {
        let words: Vec<String> = (0..12)
            .map(|word| format!("word{}", (index * 7_919 + word * 104_729) % 5_003))
            .collect();
        format!(
            "{} {index},{}\n",
            words.join(" "),
            ["good", "bad"][usize::from(index.is_multiple_of(2))]
        )
    };
    site.write("reviews.csv", format!("text,label\n{}", (0..30_000).map(row).collect::<String>()));
    site.write("study.toml", STUDY);
    let check = |arguments: &[&str]| {
        let (printed, code) =
            on_terminal(&site.path(""), &[&["check", "study.toml"], arguments].concat(), &[], "");
        assert_eq!(code, 0, "{printed}");
        printed
    };
    let printed = check(&[]);
    let frames: Vec<&str> =
        printed.split('\r').filter(|frame| frame.contains('━') || frame.contains('─')).collect();
    assert!(
        frames.iter().any(|frame| frame.contains(" %, ")
            && frame.contains(", about ")
            && frame.contains(" left\x1b[K")),
        "{printed:?}"
    );
    assert!(
        frames.iter().all(|frame| frame.trim_end_matches("\x1b[K").chars().count() < 80),
        "{frames:?}"
    );
    let mut screen = vt100::Parser::new(24, 80, 0);
    screen.process(printed.replace('\n', "\r\n").as_bytes());
    let contents = screen.screen().contents();
    assert!(
        contents.contains("\ndata      ") && !contents.contains('━') && !contents.contains("left"),
        "{contents}"
    );
    let quiet = check(&["-q", "--set", "data.seed=1"]);
    assert!(quiet.contains("\ndata      ") && !quiet.contains('\r'), "{quiet:?}");
}
