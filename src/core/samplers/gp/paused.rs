//! The search where trials are paused: by what is expected at the end of a full trial, from all
//! reports.

use std::cell::RefCell;

use super::Gp;
use super::curves::{self, CurveData, CurveProcess, Lengths};
use super::front::{HypervolumeImprovement, ObjectiveProcess};
use super::limit::Limit;
use super::process::Acquisition;
use super::projection::projected;
use super::search::{BEST, BEST_OF_SEVERAL, Model, Search};
use super::several::{reference, thinned};
use super::value::ValuePredictor;
use crate::samplers::cube::{Cube, Point, key};
use crate::samplers::prior::Prior;
use crate::samplers::{Ask, start};
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::pareto;
use crate::study::seed::StreamRng;
use crate::study::trial::{Trial, TrialState};

impl Gp {
    /// The answer of the search by the expected improvement at the end of a full trial; `None` if
    /// too few trials have reported.
    pub(super) fn learned_from_curves<T>(
        &self,
        ask: &Ask<'_>,
        lengths: Lengths,
        rng: &mut StreamRng,
        answer: impl FnOnce(&Search<'_>, &mut StreamRng) -> T,
    ) -> Option<T> {
        let cube = Cube::new(ask.space);
        let data = CurveData::new(&cube, ask, self.rules);
        if (data.reported() as u64) < start::trials(ask, self.startup_trials) {
            return None;
        }
        let exponential = self.rules.exponential();
        let hyperparameters =
            curves::hyperparameters(&self.curves_fitted, &cube, &data, lengths, exponential);
        let known = CurveProcess::new(&cube, &hyperparameters, &data)?;
        let ends = known.ends();
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by(|a, b| {
            data.is_feasible[*b].cmp(&data.is_feasible[*a]).then(ends[*a].total_cmp(&ends[*b]))
        });
        let incumbent = order.first().map(|index| ends[*index]).filter(|end| end.is_finite())?;
        // Trials that have not reported take the process's own predictions (the kriging believer).
        let believed = data.with_pending(|point| known.mean_of_new(point));
        let believing = match &believed {
            Some(believed) => Some(CurveProcess::new(&cube, &hyperparameters, believed)?),
            None => None,
        };
        let process = believing.as_ref().unwrap_or(&known);
        let predictor = || ValuePredictor {
            process: ObjectiveProcess::Curves(&known),
            scale: data.scale,
            direction: ask.history.direction(),
            widening: curves::widening(&known, &data, 0.0),
        };
        let limit_data = Limit::all(&cube, ask, self.middle, self.rules);
        let limit_hyperparameters = self.limit_hyperparameters(&cube, &limit_data);
        let limits = Limit::processes(&cube, &limit_data, &limit_hyperparameters)?;
        let limits =
            limits.iter().map(|(process, bound)| Model::One(process, Acquisition::AtMost(*bound)));
        let search = Search {
            cube: &cube,
            ask,
            rules: self.rules,
            models: [Model::Curves(process, incumbent)].into_iter().chain(limits).collect(),
            centres: BEST,
            prior: Prior::new(&cube, ask.space),
            finished: data.reported(),
            fixed: &cube.encode(ask.fixed),
            best: order.iter().map(|index| data.points[*index].as_slice()).collect(),
            taken: data.points.iter().chain(&data.pending).map(|point| key(point)).collect(),
            predictors: self.predicts.then(predictor).into_iter().collect(),
        };
        Some(answer(&search, rng))
    }

    /// The same with such a process for each objective, by the expected hypervolume improvement at
    /// the end; `None` if too few trials have reported.
    pub(super) fn learned_from_curves_of_several<T>(
        &self,
        ask: &Ask<'_>,
        lengths: Lengths,
        rng: &mut StreamRng,
        answer: impl FnOnce(&Search<'_>, &mut StreamRng) -> T,
    ) -> Option<T> {
        let cube = Cube::new(ask.space);
        let objectives = ask.history.directions().len();
        let data: Vec<CurveData> = (0..objectives)
            .map(|objective| {
                let trials = projected(&ask.history, |losses| losses[objective]);
                let history = History::of(&trials, Direction::Minimize)
                    .with_step_unit(ask.history.step_unit());
                let ask = Ask { history, earlier: &[], ..*ask };
                CurveData::of_objective(&cube, &ask, self.rules)
            })
            .collect();
        let reported = data.iter().map(CurveData::reported).min()?;
        if (reported as u64) < start::trials(ask, self.startup_trials) {
            return None;
        }
        let mut memos = self.objective_curves_fitted.borrow_mut();
        memos.resize_with(objectives, RefCell::default);
        let fits: Vec<_> = data
            .iter()
            .zip(memos.iter())
            .map(|(data, memo)| {
                curves::hyperparameters(memo, &cube, data, lengths, self.rules.exponential())
            })
            .collect();
        let known: Vec<CurveProcess<'_>> = data
            .iter()
            .zip(&fits)
            .map(|(data, fitted)| CurveProcess::new(&cube, fitted, data))
            .collect::<Option<_>>()?;
        let is_known = |(_, trial): &(usize, &Trial)| {
            trial.violation.is_none()
                && trial.state != TrialState::Failed
                && !(trial.vectors.is_empty() && trial.values.is_empty())
        };
        let trials = ask.history.trials().iter().enumerate().filter(is_known);
        let (means, points): (Vec<Vec<f64>>, Vec<Point>) = trials
            .map(|(index, trial)| {
                let point = cube.encode(&trial.params);
                let ends = known.iter().map(|process| process.end_of(index, &point)).collect();
                (ends, point)
            })
            .unzip();
        let mut front: Vec<Vec<f64>> =
            pareto::front(&means).into_iter().map(|index| means[index].clone()).collect();
        let reference = reference(&means, &front, ask.number)?;
        let pending = &data.first()?.pending;
        front.extend(pending.iter().map(|point| {
            known.iter().map(|process| process.mean_of_new(point)).collect::<Vec<f64>>()
        }));
        let believing: Vec<Option<CurveProcess<'_>>> = data
            .iter()
            .zip(&fits)
            .zip(&known)
            .map(|((data, fitted), known)| {
                match data.with_pending(|point| known.mean_of_new(point)) {
                    Some(believed) => CurveProcess::new(&cube, fitted, &believed).map(Some),
                    None => Some(None),
                }
            })
            .collect::<Option<_>>()?;
        let processes = known.iter().zip(&believing);
        let processes = processes
            .map(|(known, believing)| ObjectiveProcess::Curves(believing.as_ref().unwrap_or(known)))
            .collect();
        let front = thinned(front, &reference);
        let improvement = HypervolumeImprovement::new(processes, &front, &reference);
        let limit_data = Limit::all(&cube, ask, self.middle, self.rules);
        let limit_hyperparameters = self.limit_hyperparameters(&cube, &limit_data);
        let limits = Limit::processes(&cube, &limit_data, &limit_hyperparameters)?;
        let limits =
            limits.iter().map(|(process, bound)| Model::One(process, Acquisition::AtMost(*bound)));
        let order = pareto::order(&means);
        let predictor =
            |((process, data), direction): ((_, &CurveData), &Direction)| ValuePredictor {
                process: ObjectiveProcess::Curves(process),
                scale: data.scale,
                direction: *direction,
                widening: curves::widening(process, data, 0.0),
            };
        let predicted = known.iter().zip(&data).zip(ask.history.directions());
        let predicted = predicted.filter(|_| self.predicts);
        let search = Search {
            cube: &cube,
            ask,
            rules: self.rules,
            models: [Model::Front(&improvement)].into_iter().chain(limits).collect(),
            prior: Prior::new(&cube, ask.space),
            finished: reported,
            fixed: &cube.encode(ask.fixed),
            best: order.into_iter().map(|index| points[index].as_slice()).collect(),
            centres: BEST_OF_SEVERAL,
            taken: points.iter().chain(pending).map(|point| key(point)).collect(),
            predictors: predicted.map(predictor).collect(),
        };
        Some(answer(&search, rng))
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::Exponential;
    use super::super::rules::Rules;
    use super::*;
    use crate::samplers::Sampler as _;
    use crate::samplers::conformance::trial_of;
    use crate::samplers::fixtures::{ask, number, params, unit_cube};
    use crate::study::seed::SeedTree;
    use crate::study::space::Space;
    use crate::study::spec::AlgorithmSpec;

    const DIRECTIONS: [Direction; 2] = [Direction::Minimize, Direction::Maximize];

    /// Trials of two losses that level off at `(x0 - 0.6)^2 + 0.3 x1` and the same around .3, of
    /// which the second is to be maximized with its sign turned: the front is at `x1 = 0`, with
    /// `x0` between these. One in nine is complete, the others are paused at one of two rungs.
    fn of_two_objectives(count: u64) -> Vec<Trial> {
        let trial = |number: u64| {
            let unit = |by: f64| (number as f64 * by).fract();
            let (x, y) = (unit(0.618), unit(0.755));
            let params = params([("x0", x.into()), ("x1", y.into())]);
            let last = if number % 9 == 8 { 27 } else { [3, 9][(number % 2) as usize] };
            let loss =
                |best: f64, step: u64| (x - best).powi(2) + 0.3 * y + 1.0 / (1.0 + step as f64);
            let values = |step: u64| [loss(0.6, step), -loss(0.3, step)];
            let is_complete = last == 27;
            let state = if is_complete { TrialState::Complete } else { TrialState::Paused };
            let vectors = (1..=last).map(|step| (step, values(step).map(Some).to_vec())).collect();
            let values = if is_complete { values(27).to_vec() } else { Vec::new() };
            Trial { vectors, values, ..trial_of(number, params, state, None) }
        };
        (0..count).map(trial).collect()
    }

    fn suggested(version: u32, space: &Space, trials: &[Trial], seed: u64) -> [f64; 2] {
        let spec = AlgorithmSpec { version, ..AlgorithmSpec::named("gp") };
        let history = History::of_several(trials, &DIRECTIONS);
        let ask = Ask { max_resource: Some(27), history, ..ask(space, trials, 0) };
        let mut rng = SeedTree::new(seed).stream("draw");
        let found = Gp::new(&spec).suggest(&ask, &mut rng).unwrap().unwrap().params;
        [number(&found, "x0"), number(&found, "x1")]
    }

    #[test]
    fn gradients_of_the_improvement_match_finite_differences() {
        let (space, trials) = (unit_cube(2), of_two_objectives(18));
        let cube = Cube::new(&space);
        let history = History::of_several(&trials, &DIRECTIONS);
        let data: Vec<CurveData> = (0..2)
            .map(|objective| {
                let projected = projected(&history, |losses| losses[objective]);
                let history = History::of(&projected, Direction::Minimize);
                let ask = Ask { max_resource: Some(27), history, ..ask(&space, &projected, 0) };
                CurveData::of_objective(&cube, &ask, Rules::Since10)
            })
            .collect();
        let fit = |data| {
            let memo = RefCell::default();
            curves::hyperparameters(&memo, &cube, data, Lengths::Own, Exponential::Own)
        };
        let fits: Vec<_> = data.iter().map(fit).collect();
        let process = |(data, fitted)| CurveProcess::new(&cube, fitted, data);
        let processes: Option<Vec<_>> = data.iter().zip(&fits).map(process).collect();
        let processes = processes.unwrap();
        let processes = processes.iter().map(ObjectiveProcess::Curves).collect();
        let front = [vec![-1.0, 0.2], vec![0.1, -0.9]];
        let improvement = HypervolumeImprovement::new(processes, &front, &[1.0, 1.0]);
        let at = [0.45, 0.35];
        let (value, gradient) = improvement.value_and_gradient(&at);
        assert!((value - improvement.value(&at)).abs() < 1e-9);
        for axis in 0..2 {
            let value = |by: f64| {
                let mut moved = at;
                moved[axis] += by;
                improvement.value(&moved)
            };
            let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
            let error = (gradient[axis] - numeric).abs();
            assert!(error < 1e-4 * numeric.abs().max(1.0), "{} {numeric}", gradient[axis]);
        }
    }

    /// Three of 27 trials are complete, and versions before 8 begin at ten.
    #[test]
    fn paused_trials_of_several_objectives_lead_to_their_front() {
        let (space, trials) = (unit_cube(2), of_two_objectives(27));
        let is_near = |version: u32| {
            move |seed: &u64| {
                let [x, y] = suggested(version, &unit_cube(2), &of_two_objectives(27), *seed);
                (0.2..0.7).contains(&x) && y < 0.2
            }
        };
        assert!((0..10).all(|seed| is_near(8)(&seed)), "{:?}", suggested(8, &space, &trials, 0));
        assert!((0..10).filter(is_near(7)).count() < 5);
        // Nothing is known yet of the first trials.
        assert_eq!(suggested(8, &space, &trials[..4], 1), suggested(7, &space, &trials[..4], 1));
    }
}
