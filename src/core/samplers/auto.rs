//! The default sampler: a fixed rule that chooses another one by the space, the budget and the
//! history.

use super::cmaes::CmaEs;
use super::gp::{Gp, MEDIAN_SINCE, MOST_EXACT};
use super::grid::Grid;
use super::tpe::Tpe;
use super::{
    Ask, Choice, Chosen, OfEarlier, Proposal, Sampler, SamplerEntry, SamplerError, Situation,
};
use crate::study::params::Params;
use crate::study::seed::StreamRng;
use crate::study::space::{Distribution, Space};
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::TrialNumber;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "auto",
    aliases: &[],
    summary: "selects a sampler by the space, the budget and the trials so far; `explain` names it",
    // 5: no alternation with `tpe` in small spaces; 6: as `gp` 5; 7: of several objectives whose
    // trials are paused all reports count, as in `gp` 8; 8: proposals have their predicted values;
    // 9: where trials are paused, some of the first ones learn from all reports, as in `gp` 11; 10:
    // intervals as in `gp` 12.
    version: WIDER_SINCE,
    oldest: 5,
    options: &[],
    several: true,
    build: |spec, space| Ok(Box::new(Auto::new(spec, space))),
};

/// The first version that learns from all reports of several objectives.
const CURVES_OF_SEVERAL_SINCE: u32 = 7;

/// The first version whose proposals have their predicted values.
const PREDICTED_SINCE: u32 = 8;

/// The first version that learns from all reports of one objective, while few trials are complete.
const CURVES_SINCE: u32 = 9;
/// The first version whose intervals are wider while few values are known.
const WIDER_SINCE: u32 = 10;
/// Below this number of complete trials, it learns from all reports.
const FEW_COMPLETE: u64 = 10;

/// With more finished trials than this, the Gaussian process is no longer worth its cost: its lead
/// over TPE is largest in the first hundred, and its training set is capped at this size.
const GP_MOST: u64 = 250;
/// With this many unfinished trials, suggestions must be fast.
const MANY_WORKERS: u64 = 32;
/// With more axes than this, a few dozen trials do not determine the length scales, and a
/// suggestion takes long.
const MANY_AXES: usize = 40;
/// In spaces of at most this many points `gp` does not get stuck where its model is wrong, because
/// it rarely proposes a point twice; `tpe` is not needed.
const FEW_POINTS: u64 = 100_000;

/// Chooses a sampler for every trial; keeps no state.
#[derive(Debug)]
pub struct Auto {
    /// Number of points of the space, if it is finite.
    points: Option<u64>,
    /// Proposes each of them.
    grid: Option<Grid>,
    gp: Gp,
    /// A `gp` that also learns from stopped trials during its start-up.
    early_gp: Gp,
    /// A `gp` that learns from all reports where trials are paused.
    curves_gp: Option<Gp>,
    tpe: Tpe,
    /// Set if all parameters are numeric and always active.
    cmaes: Option<CmaEs>,
}

impl Auto {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec, space: &Space) -> Self {
        // Not the process over configurations and steps of later versions, but for some of the
        // first trials: it is ahead of these rules neither on rows of a pool nor on nearest rows.
        // With several objectives it is (benches/search/README.md).
        let gp = AlgorithmSpec {
            version: if spec.version < 6 { 4 } else { MEDIAN_SINCE },
            ..AlgorithmSpec::named("gp")
        };
        let points = space.cardinality();
        let grid = points
            .is_some()
            .then(|| Grid::new(&AlgorithmSpec::named("grid").with("order", "random"), space).ok())
            .flatten();
        let numbers = space.dimensions().iter().all(|dimension| {
            dimension.when.is_none()
                && !matches!(dimension.distribution, Distribution::Choice { .. })
        });
        let cmaes =
            numbers.then(|| CmaEs::new(&AlgorithmSpec::named("cmaes"), space).ok()).flatten();
        let predicting = |gp: Gp| match spec.version {
            PREDICTED_SINCE.. => gp.predicting(spec.version >= WIDER_SINCE),
            _ => gp,
        };
        let early_gp = predicting(Gp::learning_from_stopped_trials(&gp));
        let own = predicting(Gp::new(&gp));
        let curves = AlgorithmSpec { version: 11, ..AlgorithmSpec::named("gp") };
        Auto {
            curves_gp: (spec.version >= CURVES_SINCE).then(|| Gp::new(&curves)),
            points,
            cmaes,
            grid,
            early_gp,
            gp: if spec.version < CURVES_OF_SEVERAL_SINCE {
                own
            } else {
                own.with_curves_of_several()
            },
            tpe: Tpe::new(&AlgorithmSpec::named("tpe").with("rules", "own")),
        }
    }

    /// The first rule that matches:
    ///
    /// 1. The budget covers every point of the space: `grid`, in random order.
    /// 2. Many finished trials: `cmaes` if all parameters are numeric and always active, else
    ///    `tpe`; `tpe` also for many unfinished trials or many axes.
    /// 3. Conditional parameters: `gp` and `tpe` alternate. On the conditional problems of
    ///    benches/search/README.md neither is best everywhere, and alternating beats both.
    /// 4. Otherwise `gp`, and `tpe` for every fourth trial: where the process's model is wrong
    ///    (losses with heavy tails or cusps) it does not recover, and where it is right a fourth of
    ///    the trials costs little. In small spaces without stopped trials, `gp` alone is as good or
    ///    better (benches/search/README.md). Where trials are stopped early, `gp` continues its
    ///    initial design until ten trials are complete; every fourth trial learns from stopped
    ///    trials instead of waiting, and where trials are paused another fourth from all reports.
    ///
    /// With several objectives the rules are the same but for these: never `cmaes`; `tpe` beyond
    /// three objectives, for which `gp` has no exact acquisition function; and in 4. `gp` alone,
    /// which is far ahead of `tpe` and `nsga2` (benches/search/fronts.py).
    fn decide(&self, situation: &Situation<'_>) -> (&dyn Sampler, Choice) {
        let Situation { space, number, finished, stopped, unfinished, budget, objectives, .. } =
            *situation;
        let gp = |reason| (&self.gp as &dyn Sampler, Choice { sampler: "gp", reason });
        let tpe = |reason| (&self.tpe as &dyn Sampler, Choice { sampler: "tpe", reason });
        if let (Some(grid), Some(points), Some(budget)) = (&self.grid, self.points, budget)
            && points <= budget
        {
            return (
                grid,
                Choice {
                    sampler: "grid",
                    reason: format!(
                        "all {points} points of the space fit the budget of {budget} trials"
                    ),
                },
            );
        }
        let axes = space.dimensions().len();
        let cmaes = self.cmaes.as_ref().filter(|_| objectives == 1);
        if let (Some(cmaes), true) = (cmaes, finished >= GP_MOST && axes <= MANY_AXES) {
            let reason = format!(
                "every parameter is a number, and {finished} trials are finished, {GP_MOST} or more"
            );
            return (cmaes, Choice { sampler: "cmaes", reason });
        }
        if finished >= GP_MOST {
            return tpe(format!("{finished} trials are finished, {GP_MOST} or more"));
        }
        if unfinished >= MANY_WORKERS {
            return tpe(format!("{unfinished} trials are unfinished, {MANY_WORKERS} or more"));
        }
        if axes > MANY_AXES {
            return tpe(format!("the space has {axes} parameters, more than {MANY_AXES}"));
        }
        if objectives > MOST_EXACT {
            return tpe(format!("the study has {objectives} objectives, more than {MOST_EXACT}"));
        }
        if space.is_conditional() {
            let reason = "some parameters are conditional: `gp` and `tpe` alternate".to_owned();
            return if number.0.is_multiple_of(2) { gp(reason) } else { tpe(reason) };
        }
        if objectives > 1 {
            return gp(format!(
                "the study has {objectives} objectives, no parameter is conditional, and fewer \
                 than {GP_MOST} trials are finished, {finished} so far"
            ));
        }
        let few = stopped == 0 && self.points.is_some_and(|points| points <= FEW_POINTS);
        if number.0 % 4 == 3 && !few {
            return tpe(
                "every fourth trial is left to `tpe`, in case the Gaussian process is wrong"
                    .to_owned(),
            );
        }
        if number.0 % 4 == 1 && stopped > 0 {
            let reason = format!(
                "every fourth trial is left to a Gaussian process that also learns from stopped \
                 trials, {stopped} so far"
            );
            return (&self.early_gp, Choice { sampler: "gp", reason });
        }
        if let Some(curves_gp) = &self.curves_gp
            && situation.paused > 0
            && situation.complete < FEW_COMPLETE
            && number.0 % 4 == 2
        {
            let reason = format!(
                "while fewer than {FEW_COMPLETE} trials are complete, {} so far, every fourth \
                 trial is left to a Gaussian process that learns from all reports of paused ones",
                situation.complete
            );
            return (curves_gp, Choice { sampler: "gp", reason });
        }
        gp(format!(
            "no parameter is conditional, and fewer than {GP_MOST} trials are finished, {finished} \
             so far"
        ))
    }
}

impl Sampler for Auto {
    fn takes_of_earlier(&self, space: &Space, objectives: usize) -> OfEarlier {
        let of = |number| {
            let situation = Situation {
                space,
                number: TrialNumber(number),
                finished: 0,
                stopped: 0,
                paused: 0,
                complete: 0,
                unfinished: 0,
                budget: None,
                objectives,
            };
            self.decide(&situation).0.takes_of_earlier(space, objectives)
        };
        // Two samplers may alternate.
        of(0).max(of(1))
    }

    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        self.decide(&ask.situation()).0.suggest(ask, rng)
    }

    fn choose(
        &self,
        ask: &Ask<'_>,
        candidates: &[&Params],
        rng: &mut StreamRng,
    ) -> Result<Chosen, SamplerError> {
        self.decide(&ask.situation()).0.choose(ask, candidates, rng)
    }

    fn choice(&self, situation: &Situation<'_>) -> Option<Choice> {
        Some(self.decide(situation).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, int, space, trial_of, under};
    use crate::samplers::fixtures::{ask, number, params, unit_cube};
    use crate::study::seed::SeedTree;
    use crate::study::trial::{Trial, TrialNumber, TrialState};

    fn situation(space: &Space, finished: u64, unfinished: u64) -> Situation<'_> {
        Situation {
            space,
            number: TrialNumber(finished + unfinished),
            finished,
            stopped: 0,
            paused: 0,
            complete: finished,
            unfinished,
            budget: None,
            objectives: 1,
        }
    }

    fn chosen(situation: Situation<'_>) -> Choice {
        Auto::new(&ENTRY.defaults(), situation.space).choice(&situation).unwrap()
    }

    fn choices() -> Space {
        space([choice("word", ["a", "b", "c"]), under("word", "a", int("child", 1, 4))])
    }

    /// `most` points, squared.
    fn points(most: i64) -> Space {
        space([int("x", 1, most), int("y", 1, most)])
    }

    #[test]
    fn the_choice_follows_space_budget_and_history() {
        for (space, finished, unfinished, budget, sampler) in [
            (choices(), 0, 0, Some(6), "grid"),
            (choices(), 4, 0, Some(5), "gp"),
            (choices(), 5, 0, None, "tpe"),
            (unit_cube(3), 0, 0, Some(10), "gp"),
            (unit_cube(3), 249, 31, None, "gp"),
            (unit_cube(3), 19, 0, None, "tpe"),
            (choices(), 250, 0, None, "tpe"),
            (unit_cube(3), 20, 32, None, "tpe"),
            (unit_cube(41), 20, 0, None, "tpe"),
            (unit_cube(3), 250, 0, None, "cmaes"),
            (unit_cube(41), 250, 0, None, "tpe"),
            // In small spaces the process is alone.
            (points(316), 18, 0, Some(100), "gp"),
            (points(316), 19, 0, Some(100), "gp"),
            (points(317), 18, 0, Some(100), "gp"),
            (points(317), 19, 0, Some(100), "tpe"),
        ] {
            let situation = Situation { budget, ..situation(&space, finished, unfinished) };
            assert_eq!(chosen(situation).sampler, sampler, "{situation:?}");
        }
    }

    #[test]
    fn the_first_trials_of_a_search_that_pauses_learn_from_all_reports_in_turn() {
        let space = unit_cube(2);
        let reason = |version: u32, number: u64, paused: u64, complete: u64| {
            let auto = Auto::new(&AlgorithmSpec { version, ..ENTRY.defaults() }, &space);
            let situation = Situation {
                number: TrialNumber(number),
                stopped: paused,
                paused,
                complete,
                ..situation(&space, paused + complete, 0)
            };
            auto.choice(&situation).unwrap().reason
        };
        let from_all = "while fewer than 10 trials are complete, 3 so far, every fourth trial is \
                        left to a Gaussian process that learns from all reports of paused ones";
        assert_eq!(reason(CURVES_SINCE, 22, 19, 3), from_all);
        for (version, number, paused, complete) in
            [(PREDICTED_SINCE, 22, 19, 3), (9, 21, 19, 3), (9, 22, 0, 3), (9, 22, 19, 10)]
        {
            assert_ne!(reason(version, number, paused, complete), from_all);
        }
    }

    #[test]
    fn with_several_objectives_the_process_is_alone_while_trials_are_few() {
        let (choices, numbers) = (choices(), unit_cube(3));
        for (space, finished, objectives, sampler) in [
            (&numbers, 19, 2, "gp"),
            (&numbers, 249, 3, "gp"),
            (&numbers, 250, 2, "tpe"),
            (&numbers, 20, 4, "tpe"),
            (&choices, 4, 2, "gp"),
            (&choices, 5, 2, "tpe"),
        ] {
            let situation = Situation { objectives, ..situation(space, finished, 0) };
            assert_eq!(chosen(situation).sampler, sampler, "{situation:?}");
        }
    }

    #[test]
    fn the_reason_has_its_numbers() {
        let (choices, numbers) = (choices(), unit_cube(2));
        let after_17 = situation(&numbers, 17, 0);
        for (situation, reason) in [
            (
                Situation { budget: Some(9), ..situation(&choices, 0, 0) },
                "all 6 points of the space fit the budget of 9 trials",
            ),
            (
                after_17,
                "no parameter is conditional, and fewer than 250 trials are finished, 17 so far",
            ),
            (
                Situation { stopped: 5, ..after_17 },
                "every fourth trial is left to a Gaussian process that also learns from stopped \
                 trials, 5 so far",
            ),
        ] {
            assert_eq!(chosen(situation).reason, reason);
        }
    }

    #[test]
    fn every_fourth_trial_learns_from_stopped_trials_before_ten_are_complete() {
        // Losses fall towards x0 = 0.8; all but the best trial were stopped at step 1.
        let space = unit_cube(2);
        let trials: Vec<Trial> = (0..31)
            .map(|number| {
                let unit = |by: f64| (number as f64 * by).fract();
                let params = params([("x0", unit(0.618).into()), ("x1", unit(0.755).into())]);
                let loss = (unit(0.618) - 0.8).powi(2);
                let (state, value) = if number == 11 {
                    (TrialState::Complete, Some(loss))
                } else {
                    (TrialState::Pruned, None)
                };
                Trial { curve: vec![(1, loss)], ..trial_of(number, params, state, value) }
            })
            .collect();
        let drawn = |turn: u64| {
            let ask = Ask { number: TrialNumber(turn), ..ask(&space, &trials, 0) };
            let point = Auto::new(&ENTRY.defaults(), &space)
                .suggest(&ask, &mut SeedTree::new(turn).stream("draw"))
                .unwrap();
            (number(&point.unwrap().params, "x0") - 0.8).abs()
        };
        let mean = |turn: u64| (0..8).map(|round| drawn(4 * (round + 8) + turn)).sum::<f64>() / 8.0;
        assert!(mean(1) < 0.12, "{}", mean(1));
        let evenly = 0.5 * (mean(0) + mean(2));
        assert!(evenly > 0.25, "{evenly}");
    }
}
