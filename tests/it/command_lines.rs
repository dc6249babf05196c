//! Scripts and their command lines: the words of a trial, what `check` and `init` say of a script,
//! and which commands are named next.

use std::path::Path;

use hpsearch::config;
use hpsearch::storage::{Storage, StorageReader};
use hpsearch::study::program::{ArgsRules, Program};
use hpsearch::study::spec::StudySpec;
use hpsearch::study::time::Timestamp;
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::harness::{ONE_SLOT, REPORT_X, Site, assert_done, assert_names, run, study, wait_until};

/// Writes the words it is given, a line for each trial, and reports.
const TELL_WORDS: &str = "(printf '%s' \"$#\"; for word in \"$@\"; do printf '|%s' \"$word\"; \
    done; echo) >> seen\n\
                          echo '@hpsearch {\"step\":1,\"loss\":1}'\n";

/// The study `s` of a grid of two optimisers, one of which has a momentum and a flag; `run` are the
/// words behind the script.
fn optimizers(run: &str, rest: &str) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         [space]\noptimizer = [\"adam\", \"sgd\"]\nmomentum = {{ choice = [0.5], when = {{ \
         optimizer = \"sgd\" }} }}\nfast = [true, false]\n\
         [sampler]\ntype = \"grid\"\n[command]\nrun = [\"sh\", \"trial.sh\", \
         {run}]\n{rest}\n{ONE_SLOT}"
    )
}

const WORDS: &str =
    r#""--optimizer", "{optimizer}", "--momentum", "{momentum}", "--fast", "{fast}""#;

/// The words of all trials, sorted.
fn seen(site: &Site) -> Vec<String> {
    let mut lines = site.lines("seen");
    lines.sort();
    lines
}

#[test]
fn a_command_names_its_trial_and_a_parameter_that_no_argument_names_is_noted() {
    let words = r#""--save={trial_dir}/{trial}", "{seed}", "--optimizer", "{optimizer}""#;
    let site = Site::new(&optimizers(words, "env = { MINE = \"1\" }"), TELL_WORDS);
    let note = "no argument of `run` names `momentum`, `fast`: the program finds them in the file \
        HPSEARCH_PARAMS, and in variables such as HPSEARCH_PARAM_MOMENTUM";
    let checked = site.run(&["check", "study.toml"]);
    assert!(checked.out.contains(&format!("note      {note}\n")), "{}", checked.out);
    let (first, again) = (site.run_study(), site.run_study());
    assert_done(&first);
    assert!(first.err.contains(&format!("note: {note}\n")), "{}", first.err);
    assert!(!again.err.contains(note), "{}", again.err);
    let saved: Vec<String> =
        site.lines("seen").iter().map(|line| line.split('|').nth(1).unwrap().to_owned()).collect();
    let places = [0, 1, 2, 3].map(|trial| format!("runs/files/s/trial-{trial}/{trial}"));
    for (saved, place) in saved.iter().zip(places) {
        assert!(saved.starts_with("--save=/") && saved.ends_with(&place), "{saved}");
    }
    // The seed is the trial's, and its directory a name: it must not be written to again.
    let best = site.json(&["best", "s", "--json"])["trial"]["number"].to_string();
    let seed = site.json(&["show", "s", &best, "--json"])["seed"].to_string();
    let line = site.run(&["best", "s", "--command"]).out;
    assert!(line.contains(&format!(" {seed} ")) && line.contains("{trial_dir}/{trial}"), "{line}");
    let told = site.run(&["best", "s", "--command"]).err;
    assert_names(&told, &["note: its trials also have `MINE`, from `[command] env`"]);
    // Its parameters alone, for other tools.
    let formatted = |format: &str| site.run(&["best", "s", "--format", format]).out;
    let params = site.json(&["best", "s", "--json"])["trial"]["params"].take();
    let whole = site.run(&["best", "s"]).out;
    let toml: String = whole.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
    assert_eq!(formatted("toml"), toml);
    let (yaml, args) = (formatted("yaml"), formatted("args"));
    for (name, value) in params.as_object().unwrap() {
        assert!(yaml.contains(&format!("{name}: {value}\n")), "{yaml} {params}");
        let is_named = args.split_whitespace().any(|word| word == format!("--{name}"));
        assert_eq!(is_named, *value != false, "{args} {params}");
    }
    assert_eq!((yaml.lines().count(), args.lines().count()), (toml.lines().count(), 1));
    let where_nothing_is = site.run(&["trials", "s", "--where", "adamm"]);
    assert!(where_nothing_is.err.contains("warning: no trial holds the text `adamm`"));
}

#[test]
fn an_inactive_parameter_leaves_no_words_and_booleans_are_what_the_style_says() {
    let site = Site::new(&optimizers(WORDS, ""), TELL_WORDS);
    assert_done(&site.run_study());
    let values = [
        "4|--optimizer|adam|--fast|false",
        "4|--optimizer|adam|--fast|true",
        "6|--optimizer|sgd|--momentum|0.5|--fast|false",
        "6|--optimizer|sgd|--momentum|0.5|--fast|true",
    ];
    assert_eq!(seen(&site), values);
    for style in ["dashes", "equals"] {
        let site = Site::new(&optimizers(WORDS, &format!("args_style = \"{style}\"")), TELL_WORDS);
        assert_done(&site.run_study());
        let flags = [
            "2|--optimizer|adam",
            "3|--optimizer|adam|--fast",
            "4|--optimizer|sgd|--momentum|0.5",
            "5|--optimizer|sgd|--momentum|0.5|--fast",
        ];
        assert_eq!(seen(&site), flags);
    }
    let site = Site::new(
        &optimizers(
            r#""optimizer={optimizer}", "momentum={momentum}", "fast={fast}""#,
            "args_style = \"hydra\"",
        ),
        TELL_WORDS,
    );
    assert_done(&site.run_study());
    assert_eq!(seen(&site)[..2], ["2|optimizer=adam|fast=false", "2|optimizer=adam|fast=true"]);
    let said =
        Site::new(&optimizers(WORDS, "args_style = \"dahses\""), "").run(&["check", "study.toml"]);
    assert!(said.code == 2 && said.err.contains("did you mean \"dashes\"?"), "{}", said.err);
}

#[test]
fn check_prints_two_command_lines_and_what_becomes_of_booleans() {
    let site = Site::new(&optimizers(WORDS, ""), TELL_WORDS);
    let checked = site.run(&["check", "study.toml"]);
    assert_done(&checked);
    let at = checked
        .out
        .lines()
        .position(|line| line.starts_with("runs      sh trial.sh --optimizer "))
        .unwrap();
    let lines: Vec<&str> = checked.out.lines().skip(at).collect();
    assert!(lines[1].starts_with("          sh trial.sh --optimizer "), "{}", checked.out);
    assert_eq!(
        lines[..2].iter().filter(|line| line.contains("--momentum 0.5")).count(),
        1,
        "{}",
        checked.out
    );
    assert!(
        checked.out.contains(
            "flags     `fast` is written as true and false; with `args_style = \"dashes\""
        ),
        "{}",
        checked.out
    );
    let styled = Site::new(&optimizers(WORDS, "args_style = \"dashes\""), TELL_WORDS)
        .run(&["check", "study.toml"]);
    assert!(styled.code == 0 && !styled.out.contains("flags "), "{}", styled.out);
}

#[test]
fn an_inactive_parameter_that_is_known_by_its_place_is_refused() {
    for run in [
        r#""{optimizer}", "{momentum}""#,
        r#""--optimizer={optimizer}", "{momentum}""#,
        r#""--betas", "{optimizer}", "{momentum}""#,
    ] {
        let site = Site::new(&optimizers(run, ""), TELL_WORDS);
        for verb in [&["check", "study.toml"][..], &["run", "study.toml", "--plain"]] {
            let refused = site.run(verb);
            assert_eq!(refused.code, 2, "{run}: {}", refused.out);
            assert_names(&refused.err, &["error: `{momentum}` is inactive in some configurations"]);
            assert_names(
                &refused.err,
                &["\"--momentum\", \"{momentum}\"", "HPSEARCH_PARAM_MOMENTUM"],
            );
        }
        assert!(!site.exists("runs"), "nothing is made for a study that is refused");
    }
    // Whoever gives all of its values a place is told nothing.
    assert_done(
        &Site::new(&optimizers(r#""{optimizer}", "{fast}""#, ""), TELL_WORDS)
            .run(&["check", "study.toml"]),
    );
}

/// Stores the study of `site` as an hpsearch stored it that had no rules for words.
fn store_as_before(site: &Site) -> StudySpec {
    let mut spec = config::load(&site.path("study.toml"), &[]).unwrap();
    let Program::Command { args, .. } = &mut spec.program else { panic!("not a command") };
    *args = ArgsRules::default();
    assert!(!serde_json::to_string(&spec.program).unwrap().contains("args"));
    let mut store = site.store();
    store.create_study(Timestamp(1_764_000_000_000_000), &spec).unwrap();
    spec
}

#[test]
fn a_stored_study_goes_on_with_the_words_it_began_with() {
    // The second has an inactive parameter in a place, which a new study must not.
    for run in [WORDS, r#""--optimizer", "{optimizer}", "{momentum}", "{fast}""#] {
        let site = Site::new(&optimizers(run, ""), TELL_WORDS);
        let spec = store_as_before(&site);
        assert_done(&site.run(&["check", "study.toml"]));
        let ended = site.run_study();
        assert_done(&ended);
        assert!(!ended.err.contains("changed since"), "{}", ended.err);
        let empty = if run == WORDS {
            "6|--optimizer|adam|--momentum||--fast|false"
        } else {
            "4|--optimizer|adam||false"
        };
        assert_eq!(seen(&site)[0], empty);
        let stored = site.store().study("s").unwrap().unwrap();
        assert_eq!(stored.spec, spec);
    }
    // With other words it is another study, which has today's rules.
    let site = Site::new(&optimizers(WORDS, ""), TELL_WORDS);
    store_as_before(&site);
    site.write("study.toml", optimizers(&format!("{WORDS}, \"--new\""), ""));
    assert_eq!(site.run_study().code, 6);
    assert_done(&site.run_study_with(&["--fork", "t"]));
    assert_eq!(seen(&site)[0], "5|--optimizer|adam|--fast|false|--new");
}

#[test]
fn a_script_that_is_not_there_is_told_by_check_run_and_init() {
    let site = Site::new(&study("trials = 1", ONE_SLOT).replace("trial.sh", "trail.sh"), REPORT_X);
    let said = format!(
        "warning: there is no `trail.sh` in {}, so every trial would fail\nhelp: did you mean \
         `trial.sh`?\n",
        site.path("").display()
    );
    let said = said.replace("/, so", ", so");
    for verb in [
        &["check", "study.toml"][..],
        &["run", "study.toml", "--plain"],
        &["init", "--command", "sh trail.sh", "-o", "other.toml"],
    ] {
        let ended = site.run(verb);
        assert!(ended.err.contains(&said), "{verb:?}: {}", ended.err);
    }
    assert!(site.exists("other.toml"));
    let fine = site.run(&["init", "--command", "sh trial.sh", "-o", "fine.toml"]);
    assert!(fine.code == 0 && !fine.err.contains("warning"), "{}", fine.err);
}

#[test]
fn init_keeps_the_scripts_other_options_and_leaves_out_what_is_no_hyperparameter() {
    let site = Site::empty();
    let script = "parser.add_argument('--lr', type=float, \
        default=0.1)\nparser.add_argument('--dropout', type=float, default=0.2)\n\
                  parser.add_argument('--seed', type=int, \
                  default=1)\nparser.add_argument('--num-workers', type=int, default=4)\n\
                  parser.add_argument('--max-samples', type=int, default=9, \
                  help='x')\nparser.add_argument('--log_dir', default='logs')\n";
    site.write("train.py", script);
    let ended = site.run(&["init", "--command", "python3 train.py --lr 0.01 --epochs 3"]);
    assert_done(&ended);
    let spec = config::load(&site.path("study.toml"), &[]).unwrap();
    let Program::Command { run, .. } = &spec.program else { panic!("not a command") };
    assert_eq!(run[2..], ["--log_dir", "{trial_dir}/logs", "{args}", "--epochs", "3"]);
    assert_names(&ended.err, &["its own directory: --log_dir {trial_dir}/logs"]);
    let searched: Vec<&str> =
        spec.space.dimensions().iter().map(|dimension| dimension.name.as_str()).collect();
    assert_eq!(searched, ["lr", "dropout", "max-samples"]);
    let text = site.read("study.toml");
    assert!(
        text.contains("dropout = { float = [0.0, 0.5] }")
            && !text.contains("workers")
            && !text.contains("seed"),
        "{text}"
    );
    // Called after its script, not after its directory.
    assert_eq!(spec.name, "train");
}

#[test]
fn a_study_is_called_after_the_file_that_was_asked_for() {
    let site = Site::empty();
    let rows: String =
        (0..60).map(|row| format!("text number {row},{}\n", ["good", "bad"][row % 2])).collect();
    site.write("X.csv", format!("text,label\n{rows}"));
    for (arguments, name) in [
        (&["init", "X.csv", "-o", "y.toml"][..], "y"),
        (&["init", "--command", "sh train.sh", "-o", "z.toml"], "z"),
        (&["init", "X.csv", "-o", "w.toml", "--name", "v"], "v"),
        (&["init", "X.csv"], "X"),
    ] {
        let ended = site.run(arguments);
        assert_done(&ended);
        let file = arguments.iter().find(|word| word.ends_with(".toml")).unwrap_or(&"study.toml");
        assert_eq!(config::load(&site.path(file), &[]).unwrap().name, name, "{arguments:?}");
    }
}

#[test]
fn another_type_by_set_needs_nothing_else() {
    let site = Site::new(
        &study(
            "trials = 1",
            "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\nmin_resource = \
             1\nmax_resource = 9",
        ),
        REPORT_X,
    );
    for set in [
        "pruner.type=none",
        "pruner.type=median",
        "sampler.type=grid",
        "space.x.choice=[0.5]",
        "study.metric=loss",
    ] {
        let checked = site.run(&["check", "study.toml", "--set", set]);
        assert_eq!(checked.code, 0, "{set}: {}", checked.err);
    }
    let checked = site.run(&[
        "check",
        "study.toml",
        "--set",
        "pruner.type=none",
        "--set",
        "pruner.min_resource=2",
    ]);
    assert!(
        checked.code == 2 && checked.err.contains("min_resource"),
        "what another override says stays: {}",
        checked.err
    );
}

/// Heads that divide few widths: an eighth of the space can be trained.
fn few_divide(rest: &str) -> String {
    format!(
        "[study]\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n[budget]\ntrials = \
         3\n[trainer]\ntask = \"text-classification\"\n\
         [data]\ntrain = \"t.csv\"\ntext = \"text\"\nlabel = \"label\"\nvalidation_split = 0.5\n\
         [space]\nmodel.d_model = {{ int = [32, 256] }}\nmodel.num_heads = {{ int = [3, 16] \
         }}\n{rest}"
    )
}

#[test]
fn a_space_of_which_little_can_be_trained_names_the_constraint_that_is_missing() {
    let site = Site::empty();
    site.write("t.csv", "text,label\na,b\nc,d\n");
    let warnings = |text: &str| {
        config::parse_with_warnings(text, Path::new("s.toml"), &site.path(""), &[])
            .unwrap()
            .warnings
            .to_string()
    };
    let said = warnings(&few_divide(""));
    assert!(said.contains("% of the space cannot be trained"), "{said}");
    let condition =
        said.split("`require = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_eq!(condition, "model.d_model % model.num_heads == 0");
    // Written as it is said, nothing is left to warn of.
    assert!(
        config::parse_with_warnings(
            &few_divide(&format!("[[constraint]]\nrequire = \"{condition}\"\n")),
            Path::new("s.toml"),
            &site.path(""),
            &[]
        )
        .unwrap()
        .warnings
        .is_empty()
    );
    let fixed = few_divide("")
        .replace("[space]\nmodel.d_model = { int = [32, 256] }", "[space]")
        .replace("[data]", "model.d_model = 90\n[data]");
    assert!(warnings(&fixed).contains("`require = \"90 % model.num_heads == 0\"`"));
}

#[test]
fn run_says_which_store_it_uses_and_begins_no_study_again_unasked() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    let store = site.path("runs/hpsearch.db");
    let first = site.run_study();
    assert_done(&first);
    assert!(first.err.starts_with(&format!("store: {} (new)\n", store.display())), "{}", first.err);
    assert!(site.run_study().err.starts_with(&format!("store: {}\n", store.display())));
    assert!(!site.run_study_with(&["-q"]).err.contains("store:"));
    let elsewhere = tempfile::tempdir().unwrap();
    let file = site.path("study.toml").display().to_string();
    let refused = run(elsewhere.path(), &["run", &file, "--plain", "--set", "budget.trials=2"]);
    let expected = format!(
        "error: the study `s` is in the store beside its file; the store in this directory \
         does not have it\n\
         help: `hpsearch run {file} --set budget.trials=2 --store {}` continues with it; `hpsearch \
         run {file} --set budget.trials=2 --store \
         runs/hpsearch.db` starts it again here\n",
        store.display()
    );
    assert_eq!((refused.code, refused.err.as_str()), (2, expected.as_str()));
    assert!(!elsewhere.path().join("runs").exists());
    // As it is said.
    let on = run(
        elsewhere.path(),
        &[
            "run",
            &file,
            "--plain",
            "--set",
            "budget.trials=2",
            "--store",
            &store.display().to_string(),
        ],
    );
    assert_done(&on);
    assert_eq!(site.trials().len(), 2);
    let anew = run(elsewhere.path(), &["run", &file, "--plain", "--store", "runs/hpsearch.db"]);
    assert_done(&anew);
    // It is here now.
    assert_eq!(run(elsewhere.path(), &["run", &file, "--plain"]).code, 0);
}

#[test]
fn commands_that_are_named_next_work_as_they_are_written() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), "exit 3");
    let checked =
        site.run(&["check", "study.toml", "--store", "my store.db", "--set", "budget.trials=2"]);
    assert!(
        checked.out.ends_with(
            "`hpsearch run study.toml --set budget.trials=2 --store 'my store.db'` runs it\n"
        ),
        "{}",
        checked.out
    );
    let failed = site.run_study_with(&["--store", "my store.db"]);
    assert_ne!(failed.code, 0);
    assert_names(&failed.err, &["`hpsearch logs s 2 --store 'my store.db'`"]);
    let best = site.run(&["best", "--store", "my store.db"]);
    assert!(
        best.err
            .ends_with("help: `hpsearch trials s --store 'my store.db'` shows where they stand\n"),
        "{}",
        best.err
    );
    // What knows no store says so once.
    let refused = site.run(&["continue", "s", "0", "--until", "9", "--store", "my store.db"]);
    assert!(
        refused.err.ends_with("note: these commands take --store 'my store.db' here\n"),
        "{}",
        refused.err
    );
    // A study that is paused says with what it continues.
    assert_ne!(site.run_study_with(&["--fork", "t", "--store", "paused.db"]).code, 2);
    assert_done(&site.run(&["extend", "t", "--trials", "1", "--store", "paused.db"]));
    assert_done(&site.run(&["pause", "t", "--device", "sim:0", "--store", "paused.db"]));
    let on = site.start(&["run", "study.toml", "--plain", "--fork", "t", "--store", "paused.db"]);
    wait_until("it says so", || {
        on.said_so_far().contains(
            "sim:0 is paused: `hpsearch resume t --device sim:0 --store paused.db` lets it \
             continue",
        )
    });
    on.signal(Signal::INT);
    assert_eq!(on.end().code, 130);
    site.write("study.toml", study("trials = 1", ONE_SLOT).replace("[0.0, 1.0]", "[0.0, 2.0]"));
    let changed = site.run_study_with(&["--store", "my store.db", "--set", "budget.trials=3"]);
    assert_eq!(changed.code, 6);
    assert!(
        changed.err.contains(
            "`hpsearch run study.toml --set budget.trials=3 --accept --store 'my store.db'` \
             continues"
        ),
        "{}",
        changed.err
    );
    let listed: Json = site.json(&["ls", "--json", "--store", "my store.db"]);
    assert_eq!(listed["studies"][0]["name"], json!("s"));
}

#[test]
fn a_run_that_is_refused_says_so_to_the_quiet_too() {
    let site = Site::finished("trials = 1");
    site.write("study.toml", study("trials = 1", ONE_SLOT).replace("[0.0, 1.0]", "[0.0, 2.0]"));
    let refused = site.run(&["-q", "run", "study.toml"]);
    assert_eq!(refused.code, 6);
    assert_names(&refused.err, &["changed since it was last run"]);
    assert_names(&refused.err, &["--accept"]);
}
