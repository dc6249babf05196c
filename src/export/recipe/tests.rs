//! Recipes as text, and what contradicts them.

use super::*;
use crate::study::seed::SeedTree;
use crate::study::space::Space;
use crate::study::spec::SeedRule;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, TrialNumber};
use proptest::prelude::*;

fn spec(step_unit: StepUnit, length: &str) -> StudySpec {
    let arguments = BTreeMap::from([(length.to_owned(), serde_json::Value::from(4))]);
    let mut spec = StudySpec::new(
        "s",
        "loss",
        Direction::Minimize,
        Space::default(),
        Program::Trainer { arguments, data: BTreeMap::new() },
    );
    spec.step = step_unit;
    spec
}

fn trial(until: Option<u64>) -> Trial {
    let mut trial = Trial::new(TrialNumber(0), Params::new(), Origin::Asked, Timestamp(0));
    trial.until = until;
    trial
}

proptest! {
    #[test]
    fn a_recipe_is_read_back_whatever_texts_it_holds(
        text in "[\\x00-\\x1f\\x7f-\\u{9f}\\u{2028}\\u{202e}'\"\\\\#\\[a-cé🙂\n]{0,12}",
        metric in "[\\x00-\\x1fa-c]{1,6}",
    ) {
        let mut spec = spec(StepUnit::Step, "max_steps");
        spec.objectives[0].metric = metric;
        spec.program = Program::Command {
            run: vec![text.clone(), "{x}".to_owned()],
            cwd: "/".into(),
            env: BTreeMap::new(),
            args: Default::default(),
            metrics: Default::default(),
        };
        let mut trial = trial(None);
        trial.params.insert(text.clone(), text.as_str());
        trial.params.insert("plain", 1i64);
        trial.params.insert("nothing", Value::Null);
        trial.params.insert("list", Value::List(vec![Value::Int(1), Value::Float(0.5)]));
        let recipe = Recipe::of(&spec, &trial, Some(1), Milestones::default()).unwrap();
        let written = recipe.to_text().unwrap();
        let again: Recipe = toml::from_str(&written)
            .map_err(|error| TestCaseError::fail(format!("{error}: {written:?}")))?;
        prop_assert_eq!(again, recipe);
        let quotes = text.contains(['\'', '"', '\\']);
        let driving =
            written.chars().find(|char| !is_tame(*char) && (char.is_ascii() || !quotes));
        prop_assert_eq!(driving, None, "{:?}", written);
    }
}

#[test]
fn a_run_of_the_final_comparison_has_the_seed_of_its_round() {
    let spec = spec(StepUnit::Step, "max_steps");
    let mut raced = trial(None);
    raced.origin = Origin::Race { of: TrialNumber(7), race: 0, round: 2 };
    let seed = |trial: &Trial| Recipe::of(&spec, trial, None, Milestones::default()).unwrap().seed;
    assert_eq!(seed(&raced), SeedTree::new(spec.seed).number("race/0/2"));
    assert_eq!(seed(&trial(None)), SeedTree::new(spec.seed).number("trial/0"));
}

#[test]
fn seeds_of_new_studies_of_other_programs_are_below_2_to_the_32() {
    let mut spec = StudySpec { program: Program::Inline, ..spec(StepUnit::Step, "max_steps") };
    let stored = serde_json::to_value(&spec).unwrap();
    assert!(stored.get("seed_rule").is_none(), "as stored before there was the rule");
    let trials = (0..100).map(|number| Trial { number: TrialNumber(number), ..trial(None) });
    let trials: Vec<Trial> = trials.collect();
    let largest = |spec: &StudySpec| trials.iter().map(|trial| seed_of(spec, trial)).max().unwrap();
    assert!(largest(&spec) > u64::from(u32::MAX));
    spec.seed_rule = SeedRule::Narrow;
    assert!((u64::from(u32::MAX) / 2..=u64::from(u32::MAX)).contains(&largest(&spec)));
    let new = |program| {
        StudySpec::new("s", "loss", Direction::Minimize, Space::default(), program).seed_rule
    };
    assert_eq!(new(Program::Inline), SeedRule::Narrow);
    let (arguments, data) = Default::default();
    assert_eq!(new(Program::Trainer { arguments, data }), SeedRule::Wide);
}

#[test]
fn a_continued_trial_is_as_long_as_it_became_and_says_that_it_may_differ() {
    for (step_unit, key) in [(StepUnit::Step, "max_steps"), (StepUnit::Epoch, "num_train_epochs")] {
        let spec = spec(step_unit, key);
        let recipe = Recipe::of(&spec, &trial(Some(9)), Some(9), Milestones::default()).unwrap();
        assert_eq!(
            (recipe.trainer_arguments()[key].as_f64(), recipe.continued_after),
            (Some(9.0), Some(4))
        );
        let text = recipe.to_text().unwrap();
        assert!(text.contains("was continued") && !text.contains("trains it again"), "{text}");
        assert_eq!(toml::from_str::<Recipe>(&text).unwrap(), recipe);
    }
}

/// The recipe of a trial with searched parameters.
fn searched(until: Option<u64>) -> Recipe {
    let spec = spec(StepUnit::Epoch, "num_train_epochs");
    let mut trial = trial(until);
    trial.params.insert("learning_rate", 0.001);
    trial.params.insert("model.hidden_size", 64i64);
    trial.params.insert("num_train_epochs", 4i64);
    Recipe::of(&spec, &trial, until, Milestones::default()).unwrap()
}

#[test]
fn a_searched_parameter_with_two_values_is_a_contradiction() {
    let written = searched(None);
    let recipe: Recipe = toml::from_str(&written.to_text().unwrap()).unwrap();
    assert_eq!(recipe.contradiction(), None);
    for (name, value, shown) in [
        ("learning_rate", Value::Float(0.1), ["0.1", "0.001"]),
        ("model.hidden_size", Value::Int(32), ["32", "64"]),
        ("learning_rate", Value::Text("fast".to_owned()), ["fast", "0.001"]),
    ] {
        let mut edited = recipe.clone();
        edited.params.insert(name, value);
        let found = edited.contradiction().unwrap();
        assert_eq!((found.name.as_str(), found.table), (name, "[trainer]"));
        assert_eq!([found.params, found.other], shown.map(|text| Some(text.to_owned())));
    }
    let mut edited = recipe.clone();
    edited.trainer.insert("model.hidden_size".to_owned(), 32.into());
    assert!(edited.contradiction().is_some());
    edited.params.insert("model.hidden_size", 32i64);
    assert_eq!(edited.contradiction(), None);
}

#[test]
fn the_stages_of_a_schedule_contradict_edited_parameters() {
    let mut recipe = searched(None);
    let params = recipe.params.clone();
    recipe.schedule =
        vec![RecipeStage { trial: 0, seed: 0, start: 0, end: 4, digest: None, params }];
    assert_eq!(recipe.contradiction(), None);
    recipe.schedule[0].params.insert("learning_rate", 0.1);
    let found = recipe.contradiction().unwrap();
    assert_eq!((found.name.as_str(), found.table), ("learning_rate", "[[schedule]]"));
    assert_eq!((found.params.as_deref(), found.other.as_deref()), (Some("0.001"), Some("0.1")));
}

#[test]
fn a_continued_trial_is_no_contradiction_and_is_trained_with_its_new_length() {
    let recipe = searched(Some(9));
    assert_eq!((recipe.contradiction(), recipe.continued_after), (None, Some(4)));
    let params = recipe.trained_params();
    assert_eq!(params.get("num_train_epochs").and_then(Value::as_number), Some(9.0));
    let again = Recipe { params, continued_after: None, ..recipe };
    assert_eq!(again.contradiction(), None);
}

#[test]
fn only_files_that_are_read_are_compared_with_their_digests() {
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["old.csv", "new.csv"].map(|name| directory.path().join(name));
    fs::write(&old, "text").unwrap();
    let mut recipe = searched(None);
    recipe.digests.insert(old.display().to_string(), "another".to_owned());
    recipe.data.insert("train".to_owned(), "old.csv".into());
    recipe.make_absolute(directory.path()).unwrap();
    assert_eq!(recipe.changed_files(), [old]);
    recipe.data.insert("train".to_owned(), new.display().to_string().into());
    assert_eq!(recipe.changed_files(), Vec::<PathBuf>::new());
}

#[test]
fn a_value_of_the_first_part_keeps_the_first_length() {
    let spec = spec(StepUnit::Step, "max_steps");
    let recipe = Recipe::of(&spec, &trial(Some(9)), Some(4), Milestones::default()).unwrap();
    assert_eq!(
        (recipe.trainer_arguments()["max_steps"].as_u64(), recipe.continued_after),
        (Some(4), None)
    );
    assert!(recipe.to_text().unwrap().contains("trains it again"));
}
