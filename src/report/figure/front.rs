//! Several objectives: the front, and how its hypervolume grew.

use std::collections::BTreeSet;

use super::of_study::{present, series, whole};
use super::{Axis, Figure, Mark, SeriesRole};
use crate::report::wording::one_line;
use crate::study::front::{self, Front, Growing};
use crate::study::outcome::TrialSummary;
use crate::study::pareto;
use crate::study::spec::{Objective, StudySpec};
use crate::study::trial::{TrialNumber, TrialState};

const NO_TRIAL: &str = "there is no front yet: no trial is complete";
const NO_VALUE: &str =
    "there is no front yet: no trial is complete with a number for each objective";
const NONE_WITHIN: &str = "there is no front yet: every complete trial is beyond a limit";
const INFINITE: &str = "the hypervolume is infinite: a trial on the front has an infinite value";

/// The complete trials over each pair of objectives, with the front of all of them.
pub fn fronts(spec: &StudySpec, outcomes: &[TrialSummary]) -> Vec<Figure<'static>> {
    let front = Front::of(&spec.objectives, &front::points_of(outcomes));
    let members: BTreeSet<TrialNumber> = front.trials.iter().copied().collect();
    let objectives: Vec<(usize, &Objective)> = spec.objectives.iter().enumerate().collect();
    let mut figures = Vec::new();
    for (place, x) in objectives.iter().enumerate() {
        for y in objectives.iter().skip(place + 1) {
            figures.push(pair(spec, outcomes, &members, (*x, *y)));
        }
    }
    figures
}

/// Why there is no front: the last obstacle that some trial has come to.
fn why_none(outcomes: &[TrialSummary]) -> &'static str {
    let complete = outcomes.iter().filter(|one| one.state == TrialState::Complete && !one.hidden);
    let limits: Vec<bool> = complete.map(|one| one.violation.is_some()).collect();
    match limits.as_slice() {
        [] => NO_TRIAL,
        all if all.iter().all(|is_beyond| *is_beyond) => NONE_WITHIN,
        _ => NO_VALUE,
    }
}

/// One objective and its place among all.
type Placed<'a> = (usize, &'a Objective);

fn pair(
    spec: &StudySpec,
    outcomes: &[TrialSummary],
    members: &BTreeSet<TrialNumber>,
    ((x, x_objective), (y, y_objective)): (Placed<'_>, Placed<'_>),
) -> Figure<'static> {
    let points = |is_drawn: &dyn Fn(&TrialSummary) -> bool| -> Vec<(f64, f64)> {
        let complete = outcomes.iter().filter(|one| one.state == TrialState::Complete);
        let complete = complete.filter(|one| is_drawn(one));
        complete.filter_map(|one| Some((*one.values.get(x)?, *one.values.get(y)?))).collect()
    };
    let is_on = |one: &TrialSummary| members.contains(&one.number);
    let mut on = points(&is_on);
    on.sort_by(|a, b| a.0.total_cmp(&b.0));
    let feasible = points(&|one| !is_on(one) && one.violation.is_none());
    let infeasible = points(&|one| !is_on(one) && one.violation.is_some());
    // A line joins the front only where it is the whole of it.
    let line = if spec.objectives.len() == 2 { on.clone() } else { Vec::new() };
    let keep = |of: fn(&(f64, f64)) -> f64| on.iter().map(of).collect();
    let axis = |objective: &Objective, keep| {
        let label = format!("{}, {}d", one_line(&objective.metric), objective.direction.as_str());
        Axis::without_outliers(keep).labelled(label)
    };
    Figure {
        title: one_line(&format!(
            "{}: {} and {}",
            spec.name, x_objective.metric, y_objective.metric
        )),
        x: axis(x_objective, keep(|point| point.0)),
        y: axis(y_objective, keep(|point| point.1)),
        series: present(vec![
            series("beyond a limit", infeasible, Mark::Dots, SeriesRole::Behind),
            series("complete", feasible, Mark::Dots, SeriesRole::Compared(0)),
            series("", line, Mark::Line, SeriesRole::Best),
            series("on the front", on, Mark::Star, SeriesRole::Best),
        ]),
        cells: None,
        empty: why_none(outcomes),
    }
}

/// The hypervolume of the front after each complete trial, with the reference point of the whole
/// study. Where it is infinite, or takes too long, the title says from which trial on.
pub fn hypervolume(spec: &StudySpec, outcomes: &[TrialSummary]) -> Figure<'static> {
    let points = front::points_of(outcomes);
    let reference = Front::of(&spec.objectives, &points).reference;
    let directions = front::directions(&spec.objectives);
    let limit = pareto::losses(&directions, &reference);
    let (mut growing, mut volume) = (Growing::default(), 0.0);
    let (mut steps, mut infinite, mut unknown) = (Vec::new(), None, None);
    for (number, values) in points.iter().filter(|_| !limit.is_empty()) {
        if growing.add(pareto::losses(&directions, values)) {
            let Some(larger) = growing.hypervolume(&limit) else {
                unknown = Some(*number);
                break;
            };
            volume = larger;
        }
        if volume.is_infinite() {
            infinite = Some(*number);
            break;
        }
        steps.push((whole(number.0), volume));
    }
    let end = match (infinite, unknown) {
        (Some(from), _) => format!("; infinite from trial {from} on"),
        (None, Some(from)) => format!("; from trial {from} on it takes too long"),
        (None, None) => String::new(),
    };
    let words: Vec<String> =
        reference.iter().map(|one| super::super::wording::number(*one)).collect();
    let up_to = match words.as_slice() {
        [] => String::new(),
        words => format!(", reference point ({})", words.join(", ")),
    };
    Figure {
        title: one_line(&format!("{}: hypervolume of the front by trial{up_to}{end}", spec.name)),
        x: Axis::whole().labelled("trial"),
        y: Axis::linear().labelled("hypervolume"),
        series: present(vec![series("", steps, Mark::Steps, SeriesRole::Best)]),
        cells: None,
        empty: if infinite.is_some() { INFINITE } else { why_none(outcomes) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::time::Timestamp;

    fn outcome(number: u64, values: &[f64], violation: Option<f64>) -> TrialSummary {
        TrialSummary {
            number: TrialNumber(number),
            state: TrialState::Complete,
            value: None,
            values: values.to_vec(),
            violation,
            last_step: None,
            last_value: None,
            params: Params::new(),
            seconds: 0.0,
            created: Timestamp(0),
            finished: None,
            hidden: false,
        }
    }

    fn spec(objectives: &[(&str, Direction)]) -> StudySpec {
        let mut spec = crate::report::figure::of_study::tests::spec();
        let new = |(metric, direction): &(&str, Direction)| Objective::new(metric, *direction);
        spec.objectives = objectives.iter().map(new).collect();
        spec
    }

    #[test]
    fn the_front_of_two_objectives_is_joined_and_of_three_drawn_by_pairs() {
        let two = spec(&[("error", Direction::Minimize), ("speed", Direction::Maximize)]);
        let outcomes = [
            outcome(0, &[0.5, 2.0], None),
            outcome(1, &[0.25, 1.0], None),
            outcome(2, &[0.75, 1.5], None),
            outcome(3, &[0.0, 9.0], Some(1.0)),
            outcome(4, &[f64::NAN, 9.0], None),
        ];
        let figures = fronts(&two, &outcomes);
        let names: Vec<&str> = figures[0].series.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["beyond a limit", "complete", "", "on the front"]);
        let on = &figures[0].series[3].points;
        assert_eq!(on.as_ref(), [(0.25, 1.0), (0.5, 2.0)]);
        assert_eq!(figures[0].series[2].points.as_ref(), on.as_ref());
        let three = spec(&[
            ("a", Direction::Minimize),
            ("b", Direction::Minimize),
            ("c", Direction::Minimize),
        ]);
        let outcomes = [outcome(0, &[1.0, 2.0, 3.0], None), outcome(1, &[2.0, 1.0, 3.0], None)];
        let titles: Vec<String> =
            fronts(&three, &outcomes).into_iter().map(|figure| figure.title).collect();
        assert_eq!(titles.len(), 3);
        assert!(titles[1].ends_with("a and c"), "{titles:?}");
    }

    #[test]
    fn the_hypervolume_never_shrinks_and_ends_at_that_of_the_front() {
        let spec = spec(&[("a", Direction::Minimize), ("b", Direction::Minimize)]);
        let outcomes = [
            outcome(0, &[3.0, 3.0], None),
            outcome(1, &[1.0, 2.0], None),
            outcome(2, &[2.0, 1.0], None),
            outcome(3, &[2.0, 2.0], None),
        ];
        let figure = hypervolume(&spec, &outcomes);
        let steps: Vec<f64> = figure.series[0].points.iter().map(|point| point.1).collect();
        assert!(steps.is_sorted());
        let front = Front::of(&spec.objectives, &front::points_of(&outcomes));
        assert_eq!(steps.last().copied(), front.hypervolume);
    }

    #[test]
    fn an_infinite_hypervolume_is_said_and_not_drawn() {
        let mut spec = spec(&[("a", Direction::Minimize), ("b", Direction::Minimize)]);
        spec.objectives.iter_mut().for_each(|objective| objective.threshold = Some(4.0));
        let infinite = outcome(7, &[f64::NEG_INFINITY, 2.0], None);
        let figure = hypervolume(&spec, &[outcome(0, &[3.0, 3.0], None), infinite.clone()]);
        assert_eq!(figure.series[0].points.as_ref(), [(0.0, 1.0)]);
        assert!(
            figure.title.ends_with("reference point (4, 4); infinite from trial 7 on"),
            "{}",
            figure.title
        );
        let figure = hypervolume(&spec, &[infinite]);
        assert!(figure.series.is_empty());
        assert_eq!(figure.empty, INFINITE);
    }

    #[test]
    fn without_a_front_the_reason_is_said_and_no_reference_point() {
        let spec = spec(&[("a", Direction::Minimize), ("b", Direction::Minimize)]);
        let running = TrialSummary { state: TrialState::Running, ..outcome(0, &[], None) };
        let undefined = outcome(1, &[1.0, f64::NAN], None);
        let beyond = outcome(2, &[1.0, 2.0], Some(0.5));
        for (outcomes, why) in [
            (vec![], NO_TRIAL),
            (vec![running], NO_TRIAL),
            (vec![undefined, beyond.clone()], NO_VALUE),
            (vec![beyond], NONE_WITHIN),
        ] {
            let figure = hypervolume(&spec, &outcomes);
            assert_eq!((figure.series.len(), figure.empty), (0, why));
            assert!(figure.title.ends_with(": hypervolume of the front by trial"));
            assert_eq!(fronts(&spec, &outcomes)[0].empty, why);
        }
    }
}
