//! Spaces: the order of their dimensions, their points, how many they have.

use super::*;

fn dimension(
    name: &str,
    distribution: Distribution,
    when: Option<(&str, Vec<Value>)>,
) -> Dimension {
    let when = when.map(|(parent, values)| Condition(vec![(parent.into(), values)]));
    Dimension { when, ..Dimension::new(name, distribution) }
}

fn int(low: i64, high: i64) -> Distribution {
    Distribution::int(low, high, Scale::Linear, 1).unwrap()
}

fn choice(choices: [&str; 2]) -> Distribution {
    Distribution::choice(choices.map(Value::from).into()).unwrap()
}

fn optimizer_space() -> Space {
    let momentum = Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap();
    Space::new(vec![
        dimension("momentum", momentum, Some(("optim", vec!["sgd".into()]))),
        dimension("optim", choice(["sgd", "adamw"]), None),
    ])
    .unwrap()
}

#[test]
fn parents_come_before_children_whatever_the_order_given() {
    let names: Vec<_> =
        optimizer_space().dimensions().iter().map(|dimension| dimension.name.clone()).collect();
    assert_eq!(names, ["optim", "momentum"]);
}

#[test]
fn a_point_holds_exactly_the_active_parameters() {
    let space = optimizer_space();
    let mut params = Params::new();
    params.insert("optim", "sgd");
    assert_eq!(space.check(&params), Err(PointError::Missing { name: "momentum".into() }));
    params.insert("momentum", 0.9);
    assert_eq!(space.check(&params), Ok(()));
    params.insert("optim", "adamw");
    assert_eq!(space.check(&params), Err(PointError::Inactive { name: "momentum".into() }));
}

#[test]
fn all_that_is_wrong_with_a_part_of_a_point_is_found() {
    let space = optimizer_space();
    let params = |pairs: &[(&str, Value)]| -> Params {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    assert_eq!(space.problems(&params(&[("momentum", 0.5.into())])), []);
    assert_eq!(
        space.problems(&params(&[("optim", "sgd".into()), ("momentum", Value::Int(1))])),
        []
    );
    let wrong =
        params(&[("optim", "adamw".into()), ("momentum", 7.0.into()), ("rate", 1.0.into())]);
    let texts: Vec<String> = space.problems(&wrong).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "`7` is not a value of `momentum`",
            "`momentum` has a value although its condition does not hold",
            "`rate` is not a parameter of the space",
        ]
    );
}

#[test]
fn circles_and_impossible_conditions_are_refused() {
    let choice = || choice(["a", "b"]);
    let circle = Space::new(vec![
        dimension("x", choice(), Some(("y", vec!["a".into()]))),
        dimension("y", choice(), Some(("x", vec!["a".into()]))),
    ]);
    assert!(matches!(circle, Err(SpaceError::Circle { .. })));
    let impossible = Space::new(vec![
        dimension("x", choice(), None),
        dimension("y", choice(), Some(("x", vec!["c".into()]))),
    ]);
    assert!(matches!(impossible, Err(SpaceError::ImpossibleParentValue { .. })));
}

#[test]
fn the_number_of_points_respects_conditions() {
    let space = Space::new(vec![
        dimension("optim", choice(["sgd", "adamw"]), None),
        dimension("momentum", int(0, 2), Some(("optim", vec!["sgd".into()]))),
        dimension("layers", int(1, 4), None),
    ]);
    assert_eq!(space.unwrap().cardinality(), Some((3 + 1) * 4));
}

#[test]
fn wide_parents_are_counted_without_going_through_their_values() {
    let space = Space::new(vec![
        dimension("wide", int(1, 4_000_000_000), None),
        dimension("child", int(1, 3), Some(("wide", vec![Value::Int(7)]))),
    ]);
    assert_eq!(space.unwrap().cardinality(), Some(4_000_000_000 - 1 + 3));
}

#[test]
fn a_space_round_trips_through_json() {
    let space = optimizer_space();
    let text = serde_json::to_string(&space).unwrap();
    assert_eq!(serde_json::from_str::<Space>(&text).unwrap(), space);
}

/// A flag, active when another is on.
fn flag(name: &str, when: Option<&str>) -> Dimension {
    dimension(name, int(0, 1), when.map(|parent| (parent, vec![1i64.into()])))
}

fn chain(length: usize) -> Result<Space, SpaceError> {
    let parameter = |index: usize| match index {
        0 => flag("p0", None),
        _ => flag(&format!("p{index}"), Some(&format!("p{}", index - 1))),
    };
    Space::new((0..length).map(parameter).collect())
}

#[test]
fn a_hundred_conditions_in_a_row_are_a_space_and_more_are_not() {
    assert_eq!(chain(100).unwrap().cardinality(), Some(101));
    assert_eq!(chain(1000), Err(SpaceError::Nested { name: "p999".to_owned(), depth: 1000 }));
}

#[test]
fn thirty_flags_with_a_parameter_each_are_counted_at_once() {
    let pairs = (0..30).flat_map(|index| {
        let (name, child) = (format!("flag{index}"), format!("with{index}"));
        [flag(&name, None), flag(&child, Some(&name))]
    });
    assert_eq!(Space::new(pairs.collect()).unwrap().cardinality(), Some(3u64.pow(30)));
}

#[test]
fn a_space_that_would_take_ages_to_count_is_given_up() {
    let flags = (0..30).map(|index| flag(&format!("flag{index}"), None));
    let others = (0..30).map(|index| flag(&format!("with{index}"), Some(&format!("flag{index}"))));
    assert_eq!(Space::new(flags.chain(others).collect()).unwrap().cardinality(), None);
}

#[test]
fn a_space_of_many_parameters_keeps_their_order_and_finds_each_by_its_name() {
    let int = || Distribution::int(0, 1, Scale::Linear, 1).unwrap();
    let when = |parent: String| Some(Condition(vec![(parent, vec![1i64.into()])]));
    let many: u32 = 50_000;
    let dimensions = (0..many).map(|index| Dimension {
        when: (index % 2 == 0).then(|| when(format!("p{}", index + 1))).flatten(),
        ..Dimension::new(format!("p{index}"), int())
    });
    let space = Space::new(dimensions.collect()).unwrap();
    let names: Vec<&str> = space.dimensions()[..4].iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["p1", "p0", "p3", "p2"], "a child as soon as its parent is there");
    for index in 0..many {
        let name = format!("p{index}");
        assert_eq!(space.dimension(&name).map(|one| &one.name), Some(&name));
    }
    assert_eq!(space.dimension("q"), None);
}
