//! Tests of the filter and sort language.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::study::condition::{Measured, Statistic, TrialNames};
use crate::study::device::Device;
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::space::{Dimension, Distribution, Scale, Space};
use crate::study::spec::{Objective, StudySpec};
use crate::study::time::Timestamp;
use crate::study::tracked::TrackedRun;
use crate::study::trial::{Note, Origin, Trial, TrialNumber, TrialState};

fn spec() -> StudySpec {
    let space = Space::new(vec![
        Dimension::new("learning_rate", Distribution::float(1e-5, 1e-1, Scale::Log, None).unwrap()),
        Dimension::new("model.num_layers", Distribution::int(1, 8, Scale::Linear, 1).unwrap()),
        Dimension::new(
            "optim",
            Distribution::choice(vec!["sgd".into(), "AdamW".into(), "x, y=z".into()]).unwrap(),
        ),
        Dimension::new("batch", Distribution::choice(vec![8i64.into(), 16i64.into()]).unwrap()),
        Dimension::new("step", Distribution::int(1, 8, Scale::Linear, 1).unwrap()),
    ]);
    StudySpec::new("s", "eval_loss", Direction::Minimize, space.unwrap(), Program::Inline)
}

fn trial(number: u64) -> Trial {
    let params: [(&str, Value); 5] = [
        ("learning_rate", 1e-3.into()),
        ("model.num_layers", 4i64.into()),
        ("optim", "AdamW".into()),
        ("batch", 16i64.into()),
        ("step", 7i64.into()),
    ];
    let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let origin = Origin::Sampled("random".to_owned());
    Trial {
        state: TrialState::Complete,
        value: Some(0.5),
        curve: vec![(1, 0.5), (3, 0.75)],
        last_metrics: [("eval_loss".to_owned(), 0.75), ("f1 score".to_owned(), f64::NAN)]
            .into_iter()
            .collect(),
        attempts: 2,
        failures: 1,
        devices: Some(Device::Cuda(0).into()),
        notes: vec![Note { at: Timestamp(4), text: "An odd curve.".to_owned() }],
        tags: vec!["base".to_owned()],
        reason: Some("Rank 9 of 12 at step 3".to_owned()),
        started: Some(Timestamp(5)),
        busy_micros: 90_000_000,
        ..Trial::new(TrialNumber(number), params, origin, Timestamp(0))
    }
}

fn names() -> TrialNames {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    TrialNames {
        params: names(&["warmup"]),
        metrics: names(&["f1 score"]),
        series: names(&["eval_loss", "train/loss", "grad_norm"]),
    }
}

/// Values of the trial that only a store has.
fn measured() -> Measured {
    let series = [
        ("train/loss", Statistic::Last, 0.25),
        ("train/loss", Statistic::Min, 0.125),
        ("eval_loss", Statistic::Max, 3.0),
    ];
    Measured {
        series: series
            .into_iter()
            .map(|(name, statistic, value)| ((name.to_owned(), statistic), value))
            .collect(),
        summary: [
            ("test_accuracy".to_owned(), 0.91.into()),
            ("converged".to_owned(), true.into()),
            ("verdict".to_owned(), "Good".into()),
        ]
        .into(),
    }
}

fn holds(text: &str) -> bool {
    Filter::parse_with(text, &spec(), &names())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .matches(&trial(7), &measured())
}

#[test]
fn every_kind_of_term_tells_trials_apart() {
    for (term, other) in [
        ("adamw", "lion"),
        ("\"rank 9\"", "\"rank  9\""),
        ("learning_", "momentum"),
        ("COMPLETE", "pruned"),
        ("cuda", "cpu"),
        ("state:complete", "state:queued,running"),
        ("state:finished", "state!=complete"),
        ("state=complete,failed", "state:pruned"),
        ("device:cuda", "device:cpu"),
        ("device=cuda:0", "device=cuda"),
        ("device!=cpu", "device!=cuda:0"),
        ("reason:rank", "reason:time"),
        ("note:odd", "note:even"),
        ("tag:base,other", "tag:bas"),
        ("tag=Base", "tag!=base"),
        ("tag!=other", "-tag:base"),
        ("curve.", "base."),
        ("learning_rate>1e-4", "learning_rate>1e-3"),
        ("learning_rate>=1e-3", "learning_rate<1e-3"),
        ("learning_rate=0.001", "learning_rate=0.002"),
        ("num_layers=4", "num_layers!=4"),
        ("model.num_layers<=4", "params.num_layers<4"),
        ("batch=8,16", "batch=8"),
        ("batch==16.0", "batch!=8,16"),
        ("batch>8", "batch>16"),
        ("optim=adamw", "optim=adam"),
        ("optim!=sgd", "optim!=adamw"),
        ("optim:ada,sg", "optim:lion"),
        ("value=0.5", "value>0.5"),
        ("last_value=0.75", "last_value<0.75"),
        ("eval_loss=0.5", "eval_loss>0.5"),
        ("metrics.eval_loss=0.75", "metrics.eval_loss=0.5"),
        ("number=7", "number<7"),
        ("trial:7", "number!=7"),
        ("step=3", "step=7"),
        ("epoch=3", "epoch>3"),
        ("params.step=7", "params.step=3"),
        ("seconds>=90", "seconds<90"),
        ("attempts=2", "attempts>2"),
        ("failures=1", "failures=0"),
        ("-pruned", "-adamw"),
        ("!batch=8", "!batch=16"),
        ("\"f1 score\"=nan", "\"f1 score\">0"),
        ("metrics.eval_loss<1", "metrics.other<1"),
        ("adamw batch=16", "adamw batch=8"),
        ("", "-\"\""),
        // The language of constraints.
        ("learning_rate < 0.01", "learning_rate < 0.0001"),
        ("0 < learning_rate <= 1e-3", "num_layers * batch == 65"),
        ("num_layers * batch == 64 and optim == 'adamw'", "optim == 'sgd' or batch<16"),
        ("num_layers*batch<=64", "num_layers*batch<64"),
        ("0<learning_rate<=1e-3", "-1<learning_rate<1e-9"),
        ("batch<8 or state:complete", "batch<8 or state:failed"),
        ("not batch<8", "not (batch<8 or state:complete)"),
        ("(adamw or lion) -state:failed", "(sgd or lion) cuda"),
        ("-(state:failed or optim=sgd)", "!(batch=16 learning_rate>0)"),
        ("learning_rate < 0.1 -state:failed", "learning_rate < 0.1 -state:complete"),
        ("log10(learning_rate) < -2.5", "max(batch, num_layers) > 16"),
        ("state == 'complete' tag == 'base'", "state != 'complete'"),
        ("(batch + 0) * 2 > 31 \"f1 score\"=nan", "\"f1 score\" > 0"),
        ("batch - num_layers > 11", "-device:cuda or (lion)"),
        ("optim='AdamW'", "optim='sgd'"),
        ("optim = \"adamw\"", "optim = 'x, y=z'"),
        ("optim == \"adamw\" state='complete'", "optim != \"adamw\""),
        // Series, by their last, smallest and largest values.
        ("train/loss<0.3", "train/loss<0.2"),
        ("\"train/loss\" < 0.3", "\"train/loss\" > 0.3"),
        ("train/loss < 0.3", "0.3 < train/loss"),
        ("train/loss * 4 == 1", "train/loss*4 > 1"),
        ("min(train/loss)<=0.125", "min(\"train/loss\") < 0.125"),
        ("min(\"train/loss\") < 0.2", "max(train/loss)<9"),
        ("max(eval_loss) == 3", "max(eval_loss)<3"),
        ("max(eval_loss) - value > 2", "min(eval_loss)<9"),
        ("metrics.train/loss=0.25", "grad_norm<100"),
        ("min(batch, 3) == 3", "min(batch, 3) > 3"),
        // The study, and the summary of a run.
        ("study=s", "study=sms"),
        ("study:s", "study!=S"),
        ("study == 'S'", "study == 'digit'"),
        ("study = s", "study = sms"),
        ("optim = AdamW", "optim != adamw"),
        ("summary.test_accuracy>0.9", "summary.test_accuracy>0.95"),
        ("summary.converged=true", "summary.converged=false"),
        ("summary.verdict=good", "summary.verdict=bad"),
        ("summary.test_accuracy * 2 > 1.8", "summary.nothing>0"),
        ("note:'An odd' num_layers*batch=64", "optim='x, y=z'"),
    ] {
        assert!(holds(term), "`{term}` does not hold");
        assert!(!holds(other), "`{other}` holds");
    }
}

#[test]
fn a_run_is_found_by_its_name_and_its_group() {
    let run = TrackedRun {
        name: Some("Baseline-2".to_owned()),
        group: Some("ablation".to_owned()),
        ..TrackedRun::default()
    };
    let run = Trial { origin: Origin::Tracked(Box::new(run)), ..trial(0) };
    let passes = |text: &str, trial: &Trial| {
        let filter = Filter::parse_with(text, &spec(), &names()).unwrap();
        filter.matches(trial, &Measured::default())
    };
    for text in
        ["name:base", "name=baseline-2", "group=ablation", "baseline", "name == 'Baseline-2'"]
    {
        assert!(passes(text, &run) && !passes(text, &trial(0)), "{text}");
    }
    assert!(!passes("name=base", &run) && !passes("warmup>0", &run));
    // A parameter that ends so is another one, but may be named by its end where nothing else is.
    let nested = ["model.name", "optimizer.group", "data.created", "a.study", "model.depth"];
    let nested = TrialNames { params: nested.map(str::to_owned).to_vec(), ..TrialNames::default() };
    let mut with = run.clone();
    with.params.insert("model.name", "vit");
    with.params.insert("optimizer.group", 3);
    with.params.insert("model.depth", 8);
    for (text, holds) in [
        ("name:base", true),
        ("-name:base", false),
        ("name:vit", false),
        ("group=ablation", true),
        ("group=3", false),
        ("study=s", true),
        ("created>1970-01-02", false),
        ("depth=8", true),
        ("model.name=vit", true),
    ] {
        let filter = Filter::parse_with(text, &spec(), &nested).unwrap();
        assert_eq!(filter.matches(&with, &Measured::default()), holds, "{text}");
    }
    // A parameter of the same name comes first.
    let named = TrialNames { params: vec!["group".to_owned()], ..TrialNames::default() };
    let filter = Filter::parse_with("group=3", &spec(), &named).unwrap();
    let mut with = trial(0);
    with.params.insert("group", 3);
    assert!(filter.matches(&with, &Measured::default()));
}

#[test]
fn a_date_is_compared_as_a_whole() {
    let at = |created: i64| Trial { created: Timestamp(created), ..trial(7) };
    let passes = |text: &str, trial: &Trial| {
        let filter = Filter::parse(text, &spec()).unwrap_or_else(|error| panic!("{text}: {error}"));
        filter.matches(trial, &Measured::default())
    };
    let day = 1_795_996_800_000_000;
    let (before, first, last, after) = (day - 1, day, day + 86_399_999_999, day + 86_400_000_000);
    for (text, holds) in [
        ("created<2026-11-30", [true, false, false, false]),
        ("created<=2026-11-30", [true, true, true, false]),
        ("created>2026-11-30", [false, false, false, true]),
        ("created>=2026-11-30", [false, true, true, true]),
        ("created=2026-11-30", [false, true, true, false]),
        ("created:2026-11-30,2026-12-01", [false, true, true, true]),
        ("created!=2026-11-30", [true, false, false, true]),
        ("-created>2026-11-30", [true, true, true, false]),
        ("created >= 2026-11-30", [false, true, true, true]),
        ("2026-11-30 > created", [true, false, false, false]),
        ("2026-11-30 <= created < 2026-12-01", [false, true, true, false]),
        ("created == 2026-11-30 and num_layers == 4", [false, true, true, false]),
        ("(created<2026-11-30) or adamw created>2026-11-30", [true, false, false, true]),
        ("created=2026-11-30T00:00", [false, true, false, false]),
        ("created>2026-11-30T00:00:00Z", [false, false, true, true]),
        ("created>=2026-11-30T23:59:59.999999", [false, false, true, true]),
    ] {
        let held = [before, first, last, after].map(|created| passes(text, &at(created)));
        assert_eq!(held, holds, "{text}");
    }
    // A parameter of the same name comes first.
    let named = TrialNames { params: vec!["created".to_owned()], ..TrialNames::default() };
    let filter = Filter::parse_with("created=3", &spec(), &named).unwrap();
    let mut with = trial(0);
    with.params.insert("created", 3);
    assert!(filter.matches(&with, &Measured::default()));
    let sort = |names: &TrialNames| SortKey::parse_with("-created", &spec(), names).unwrap();
    assert_eq!(sort(&TrialNames::default()), (SortKey::Created, true));
    assert_eq!(sort(&named), (SortKey::Param("created".to_owned()), true));
}

#[test]
fn comparisons_with_nan_and_with_what_is_not_there_do_not_hold() {
    let mut trial = trial(0);
    trial.value = Some(f64::NAN);
    trial.params = Params::new();
    for term in [
        "value<1",
        "value>=1",
        "value=1",
        "value!=1",
        "num_layers=4",
        "num_layers!=4",
        "batch>0",
        "optim!=sgd",
        "metrics.no<1",
    ] {
        let parse = |text: &str| Filter::parse(text, &spec()).unwrap();
        assert!(!parse(term).matches(&trial, &Measured::default()), "{term}");
        assert!(parse(&format!("-{term}")).matches(&trial, &Measured::default()), "-{term}");
    }
    assert!(Filter::parse("value=nan", &spec()).unwrap().matches(&trial, &Measured::default()));
}

#[test]
fn errors_say_what_is_wrong_and_what_to_write() {
    for (text, message) in [
        ("lr>1e-3", "`lr` is not a parameter or metric; did you mean `learning_rate`?"),
        ("layers=4", "`layers` is not a parameter or metric; did you mean `model.num_layers`?"),
        ("optmi=sgd", "`optmi` is not a parameter or metric; did you mean `optim`?"),
        ("train/los<1", "`train` is not a parameter or metric; did you mean `train/loss`?"),
        ("min(optim) < 1", "`optim` is not a metric: it has no smallest or largest value"),
        ("eval_los<1", "`eval_los` is not a parameter or metric; did you mean `eval_loss`?"),
        ("zzzz=1", "`zzzz` is not a parameter or metric"),
        ("created>5", "`created` is compared with a date, not with `5`"),
        ("created>2026-02-30", "`created` is compared with a date, not with `2026-02-30`"),
        ("created > 5", "`created` is compared with a date, and a date with it alone"),
        ("seconds > 2026-11-30", "`created` is compared with a date, and a date with it alone"),
        ("created + 1 > 2026-11-30", "a number is expected, and this is a date"),
        (
            "state:prunned",
            "`prunned` is not a state; did you mean `pruned`? there are queued, running, paused, \
             complete, pruned, failed and finished",
        ),
        (
            "state:interrupted",
            "`interrupted` is not a state: trials of a runner that died are `running`, tracked \
             runs that did not end `paused`",
        ),
        (
            "value>high",
            "`value` is compared with a number, not with `high`: write for example `value>0.5`",
        ),
        ("value>", "`value>` lacks its value: write `value>VALUE`"),
        (">5", "`>5` lacks the name of a parameter or metric: write `NAME>5`"),
        ("optim>adamw", "`optim` has no order: write `optim=adamw` or `optim!=adamw`"),
        ("reason:\"out of", "a quote is not closed in `\"out of`: write `\"` at its end too"),
    ] {
        let error = Filter::parse_with(text, &spec(), &names()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_value_of_several_objectives_is_refused_in_filters_and_an_order() {
    let mut several = spec();
    let size = Objective { metric: "size".to_owned(), ..several.objectives[0].clone() };
    several.objectives.push(size);
    for text in ["value<0.3", "last_value>1", "batch<8 and -value=nan"] {
        let error = Filter::parse(text, &several).unwrap_err();
        assert!(error.message.contains("this study has several"), "{text}: {error}");
        assert!(error.help.unwrap().contains("`eval_loss`"), "{text}");
    }
    assert!(Filter::parse("size<0.3", &several).is_ok());
    assert_eq!(SortKey::parse("value", &several).unwrap().0, SortKey::Value);
    several.objectives[1].metric = "value".to_owned();
    assert!(Filter::parse("value<0.3", &several).is_ok(), "an objective has this name");
}

#[test]
fn errors_point_at_the_place() {
    for (text, wrong, message) in [
        ("adamw lr>1e-3 cuda", "lr", "did you mean `learning_rate`?"),
        ("adamw -state:prunned", "prunned", "`prunned` is not a state"),
        ("batch * widht < 8", "widht", "`widht` is not a parameter or metric"),
        ("optim < 3", "optim", "only numbers have an order, and this is a text"),
        ("state == 'prunned'", "'prunned'", "`prunned` is not a state"),
        ("(adamw or batch<8", "(", "this parenthesis is never closed"),
        ("batch<8 or", "", "the filter ends where a condition is expected"),
        ("or batch<8", "or", "write `\"or\"` to look for the text"),
        ("batch < ", "", "the condition ends where a value is expected"),
        ("1 < 2", "1 < 2", "the condition names nothing"),
    ] {
        let error = Filter::parse(text, &spec()).unwrap_err();
        assert!(error.message.contains(message), "{text}: {error}");
        assert_eq!(&text[error.span], wrong, "{text}");
    }
}

#[test]
fn a_store_looks_only_where_a_filter_can_hold() {
    use TrialState::{Complete, Failed, Pruned, Queued, Running};
    let states = |text: &str| Filter::parse(text, &spec()).unwrap().states();
    assert_eq!(states("state:running,queued adamw"), Some(vec![Queued, Running]));
    assert_eq!(
        states("state:failed or (state:finished batch<8)"),
        Some(vec![Complete, Pruned, Failed])
    );
    assert_eq!(states("state:failed or adamw"), None);
    let is_about_states = |text: &str| Filter::parse(text, &spec()).unwrap().is_about_states_only();
    assert!(is_about_states("-state:failed state:finished") && is_about_states(""));
    assert!(!is_about_states("state:failed adamw"));
}

#[test]
fn a_sort_key_is_a_word_a_parameter_or_a_metric() {
    let parse = |text: &str| SortKey::parse_with(text, &spec(), &names());
    assert_eq!(parse("value"), Ok((SortKey::Value, false)));
    assert_eq!(parse("eval_loss"), Ok((SortKey::Value, false)));
    assert_eq!(parse("-num_layers"), Ok((SortKey::Param("model.num_layers".to_owned()), true)));
    assert_eq!(parse("warmup"), Ok((SortKey::Param("warmup".to_owned()), false)));
    assert_eq!(
        parse("train/loss").unwrap_err().to_string(),
        "`train/loss` was logged and not reported: it is not a sort key"
    );
    assert_eq!(parse("metrics.f1"), Ok((SortKey::Metric("f1".to_owned()), false)));
    assert_eq!(
        parse("lr").unwrap_err().to_string(),
        "`lr` is not a parameter or metric; did you mean `learning_rate`?"
    );
}

#[test]
fn what_a_trial_lacks_comes_last_in_both_directions() {
    let mut trials: Vec<Trial> = (0..5).map(trial).collect();
    for (trial, rate) in trials.iter_mut().zip([Some(0.3), None, Some(0.1), Some(0.3), Some(0.2)]) {
        trial.params.remove("learning_rate");
        if let Some(rate) = rate {
            trial.params.insert("learning_rate", rate);
        }
    }
    let sorted = |reverse| {
        let key = SortKey::Param("learning_rate".to_owned());
        let mut positions: Vec<SortPosition> =
            trials.iter().map(|trial| key.position(Direction::Minimize, trial)).collect();
        positions.sort_by(|mine, theirs| mine.compare(theirs, reverse));
        positions.iter().map(|position| position.number().0).collect::<Vec<_>>()
    };
    assert_eq!(sorted(false), [2, 4, 0, 3, 1]);
    assert_eq!(sorted(true), [0, 3, 4, 2, 1]);
}

#[test]
fn nan_is_worst_among_values() {
    let position = |value| {
        SortKey::Value.position(Direction::Maximize, &Trial { value: Some(value), ..trial(0) })
    };
    assert_eq!(position(f64::NEG_INFINITY).compare(&position(f64::NAN), false), Ordering::Less);
    assert_eq!(position(f64::NEG_INFINITY).compare(&position(f64::NAN), true), Ordering::Greater);
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC*") {
        let _ = Filter::parse(&text, &spec());
        let _ = SortKey::parse(&text, &spec());
    }

    #[test]
    fn what_looks_like_a_filter_never_panics(words in prop::collection::vec("(or|not|[(])?[ \
        ]?[-!]{0,2}(lr|optim|state|value|batch|step|\")?[ ]?[:=<>!]{0,3}[ \
        ]?[a-z0-9.,+*\"\\\\-]{0,4}[)]?", 0..5)) {
        if let Ok(filter) = Filter::parse(&words.join(" "), &spec()) {
            let _ = filter.matches(&trial(0), &Measured::default());
            prop_assert_eq!(Filter::parse(filter.text(), &spec()), Ok(filter.clone()));
        }
    }
}
