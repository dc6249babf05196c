//! What each sampler takes of earlier studies is what it says.

use super::conformance::{float, space, trial_of};
use super::fixtures::{ask, number, stream, unit_cube};
use super::start::given_to;
use super::*;
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::trial::Trial;

/// Complete trials of a study of so many objectives, spread over the square.
#[expect(clippy::cast_precision_loss, reason = "a few trials")]
fn complete(trials: u64, objectives: usize) -> Vec<Trial> {
    let of = |index: u64| {
        let part = |by: f64| (index as f64 * by).fract();
        let params = [("x0", part(0.618_034)), ("x1", part(0.754_878))];
        let params: Params =
            params.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let (x, y) = (number(&params, "x0"), number(&params, "x1"));
        let far = |a: f64, b: f64| (x - a).powi(2) + (y - b).powi(2);
        let values = [far(0.4, 0.6), far(0.7, 0.3), far(0.2, 0.2), far(0.5, 0.9)];
        let values = values[..objectives].to_vec();
        let value = (objectives == 1).then_some(values[0]);
        let trial = trial_of(index, params, TrialState::Complete, value);
        let values = if objectives == 1 { Vec::new() } else { values };
        Trial { values, ..trial }
    };
    (0..trials).map(of).collect()
}

fn earlier() -> Vec<Earlier> {
    let of = |index: u32| {
        let rank = f64::from(index) / 30.0;
        let params = [("x0", 0.9 - rank * 0.8), ("x1", 0.1 + rank * 0.7)];
        let params = params.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        Earlier { params: params.collect(), rank }
    };
    (0..30).map(of).collect()
}

/// Whether earlier studies change what a sampler proposes after so many complete trials.
fn is_changed(name: &str, objectives: usize, trials: u64) -> bool {
    let (space, earlier) = (unit_cube(2), earlier());
    let directions = [Direction::Minimize; 4];
    let trials = complete(trials, objectives);
    let history = match objectives {
        1 => History::of(&trials, Direction::Minimize),
        several => History::of_several(&trials, &directions[..several]),
    };
    let proposed = |earlier: &[Earlier]| {
        let entry = find(name).unwrap();
        let sampler = (entry.build)(&entry.defaults(), &space).unwrap();
        let ask = Ask { earlier, history, ..ask(&space, &trials, 7) };
        sampler.suggest(&ask, &mut stream(&ask)).unwrap()
    };
    proposed(&[]) != proposed(&earlier)
}

#[test]
fn samplers_take_of_earlier_studies_what_they_say() {
    for entry in SAMPLERS {
        for objectives in [1, 2, 4] {
            if check_objectives(&entry.defaults(), objectives).is_err() {
                continue;
            }
            let space = unit_cube(2);
            let Ok(sampler) = (entry.build)(&entry.defaults(), &space) else { continue };
            let takes = sampler.takes_of_earlier(&space, objectives);
            let begins = is_changed(entry.name, objectives, 0);
            // Beyond any start-up.
            let learns = [60, 90, 121].into_iter().any(|of| is_changed(entry.name, objectives, of));
            let told = format!("{} of {objectives} objectives", entry.name);
            match takes {
                OfEarlier::Nothing => assert!(!begins && !learns, "{told} takes something"),
                OfEarlier::Best => assert!(begins && !learns, "{told}: {begins} {learns}"),
                OfEarlier::Results => assert!(learns, "{told} does not learn"),
            }
        }
    }
}

#[test]
fn samplers_start_with_the_priors_and_earlier_bests_where_they_say_so() {
    let unit = |name: &str| Dimension { prior: Some(0.25.into()), ..float(name, 0.0, 1.0) };
    let (space, earlier) = (space([unit("x0"), unit("x1")]), earlier());
    for entry in SAMPLERS {
        let Ok(sampler) = (entry.build)(&entry.defaults(), &space) else { continue };
        // `auto` leaves it to another.
        if entry.name == "auto" {
            continue;
        }
        let takes = |place: u64| {
            let (_, given) = given_to(&space, &earlier, place).unwrap();
            let ask = ask(&space, &[], 7);
            let ask = Ask { earlier: &earlier, number: TrialNumber(place), place, ..ask };
            let proposal = sampler.suggest(&ask, &mut stream(&ask)).unwrap().unwrap();
            proposal.params == given
        };
        let told = entry.name;
        assert_eq!((0..4).all(takes), sampler.starts_as_given(), "{told}");
    }
}
