//! The plan of a training run as pure arithmetic: the rows of each optimiser step, and what is due
//! after it.

use super::floats::real;
use super::rng::{Rng, key};
use super::{Finding, Milestones, StepUnit, TrainerError};
use hpsearch_core::arguments::{EvalStrategy, SamplingStrategy, StepInterval, TrainerArguments};
use hpsearch_core::study::counted::count;

/// Trainings of fewer optimiser steps are remarked on.
const FEW_STEPS: u64 = 10;

/// The plan of a run: a function of arguments, number of rows and seed alone.
///
/// "Optimiser step" is the unit of training; "study step" is the step of reports and milestones, in
/// the study's [`StepUnit`].
#[derive(Debug, Clone)]
pub(super) struct TrainingPlan {
    /// Rows used in an epoch.
    used_rows: u64,
    /// Rows in the training split.
    available_rows: u64,
    /// Rows of a micro-batch.
    micro_batch_rows: u64,
    /// Rows of a full optimiser step.
    step_rows: u64,
    pub(super) steps_per_epoch: u64,
    /// Optimiser steps of the whole run.
    pub(super) total_steps: u64,
    step_unit: StepUnit,
    milestones: Milestones,
    until: Option<u64>,
    eval_strategy: EvalStrategy,
    eval_steps: StepInterval,
    eval_delay: f64,
    seed: u64,
    /// Whether rows are seen in the order of the data.
    sequential: bool,
    /// The lengths of all rows, if rows are grouped by length.
    lengths: Option<Vec<usize>>,
    /// Set if micro-batches are limited by tokens.
    token_budget: Option<TokenBudget>,
}

/// Micro-batches of a limited number of tokens. Rows are sorted by length, so the sizes of the
/// batches, and with them the number of steps, are the same in every epoch; the rows of equal
/// length in a batch, and the order of the batches, are redrawn (fairseq's `max_tokens` keeps its
/// batches).
#[derive(Debug, Clone)]
struct TokenBudget {
    lengths: Vec<usize>,
    /// Rows of each micro-batch, the shortest rows first.
    sizes: Vec<usize>,
    /// Micro-batches of a step.
    accumulation_steps: usize,
    /// The part of a micro-batch that is computed at once: this many rows of so many.
    at_once: (usize, usize),
}

impl TokenBudget {
    /// Splits a micro-batch into parts that are computed at once. A budget of tokens allows more
    /// rows than any micro-batch of real texts has: half of the rows at once is half of each
    /// micro-batch.
    fn parts<'a>(&self, rows: &'a [usize]) -> std::slice::Chunks<'a, usize> {
        let (at_once, usual) = self.at_once;
        rows.chunks((rows.len() * at_once).div_ceil(usual).max(1))
    }
}

/// The rows of an epoch in the order in which they are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EpochOrder {
    rows: Vec<usize>,
    /// The first row of each micro-batch, and the end; only with a token budget.
    offsets: Vec<usize>,
}

/// An evaluation that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueEvaluation {
    /// Its study step.
    pub(super) study_step: u64,
    /// Whether it is reported as a study step of its own, or only logged.
    pub(super) reported: bool,
    /// Whether `eval_strategy` asks for it. Training may depend on these, but not on evaluations
    /// for the pruner.
    pub(super) scheduled: bool,
}

impl TrainingPlan {
    pub(super) fn new(
        arguments: &TrainerArguments,
        rows: usize,
        step_unit: StepUnit,
        milestones: Milestones,
        until: Option<u64>,
        seed: u64,
        rows_at_once: Option<usize>,
    ) -> Result<Self, TrainerError> {
        let batch_size = arguments.per_device_train_batch_size as u64;
        let available_rows = rows as u64;
        let used_rows = if arguments.dataloader_drop_last {
            available_rows / batch_size * batch_size
        } else {
            available_rows
        };
        if used_rows == 0 {
            return Err(TrainerError::arguments(format!(
                "`dataloader_drop_last` leaves nothing of {rows} training rows with \
                 `per_device_train_batch_size` = {batch_size}"
            )));
        }
        let step_rows = batch_size * arguments.gradient_accumulation_steps as u64;
        let steps_per_epoch = used_rows.div_ceil(step_rows);
        Ok(Self {
            used_rows,
            available_rows,
            // The rows of a step do not depend on it.
            micro_batch_rows: rows_at_once
                .map_or(batch_size, |rows| batch_size.min(rows.max(1) as u64)),
            step_rows,
            steps_per_epoch,
            total_steps: total_steps(arguments, steps_per_epoch),
            step_unit,
            milestones,
            until,
            eval_strategy: arguments.eval_strategy,
            eval_steps: arguments.eval_steps.unwrap_or(arguments.logging_steps),
            eval_delay: arguments.eval_delay,
            seed,
            sequential: arguments.train_sampling_strategy == SamplingStrategy::Sequential,
            lengths: None,
            token_budget: None,
        })
    }

    /// The micro-batches of optimiser step `step` (counted from 0), as row indices.
    pub(super) fn micro_batches(&self, step: u64, order: &EpochOrder) -> Vec<Vec<usize>> {
        let within = step % self.steps_per_epoch;
        if let Some(budget) = &self.token_budget {
            let first = index(within) * budget.accumulation_steps;
            let offsets = &order.offsets
                [first..(first + budget.accumulation_steps + 1).min(order.offsets.len())];
            return offsets
                .windows(2)
                .flat_map(|ends| budget.parts(&order.rows[ends[0]..ends[1]]))
                .map(<[usize]>::to_vec)
                .collect();
        }
        let (first, last) = (
            index(within * self.step_rows),
            index(((within + 1) * self.step_rows).min(self.used_rows)),
        );
        order.rows[first..last]
            .chunks(index(self.micro_batch_rows))
            .map(<[usize]>::to_vec)
            .collect()
    }

    /// Whether every micro-batch is a single row, for lack of tokens.
    pub(super) fn has_single_rows(&self) -> bool {
        self.token_budget.as_ref().is_some_and(|budget| budget.sizes.iter().all(|size| *size == 1))
    }

    /// Number of rows that are longer than a micro-batch may be, each a batch of its own.
    pub(super) fn rows_beyond_budget(&self, arguments: &TrainerArguments) -> usize {
        let lengths = self.token_budget.iter().flat_map(|budget| &budget.lengths);
        arguments
            .max_tokens_per_batch
            .map_or(0, |tokens| lengths.filter(|length| **length > tokens).count())
    }

    /// What is remarkable about the length of the training, for `hpsearch check`.
    pub(super) fn findings(&self, arguments: &TrainerArguments) -> Vec<Finding> {
        let mut findings = Vec::new();
        let rows = self.used_rows;
        // With `max_steps` the number is the user's.
        if arguments.max_steps <= 0 && self.total_steps < FEW_STEPS {
            let accumulation = match arguments.gradient_accumulation_steps {
                1 => String::new(),
                steps => format!(" times `gradient_accumulation_steps` = {steps}"),
            };
            let (batch, epochs) =
                (arguments.per_device_train_batch_size, arguments.num_train_epochs);
            findings.push(Finding::warning(
                "few_steps",
                format!(
                    "the training is {} in all, which hardly teaches a model anything: {}, \
                     `per_device_train_batch_size` = {batch}{accumulation}, `num_train_epochs` = \
                     {epochs}",
                    count(self.total_steps, "optimiser step"),
                    count(rows, "training row"),
                ),
            ));
        }
        let longer = self.rows_beyond_budget(arguments) as u64;
        if let Some(tokens) = arguments.max_tokens_per_batch.filter(|_| longer > 0) {
            findings.push(Finding::warning(
                "token_budget",
                format!(
                    "`max_tokens_per_batch` = {tokens} is less than {longer} of {} {}: each of \
                     them forms a separate batch",
                    count(rows, "training row"),
                    if longer == 1 { "has" } else { "have" },
                ),
            ));
        }
        findings
    }

    /// The same plan with batches by the lengths of all rows, as far as the arguments ask for it.
    pub(super) fn with_lengths(
        self,
        arguments: &TrainerArguments,
        rows_at_once: Option<usize>,
        lengths: impl FnOnce() -> Vec<usize>,
    ) -> Self {
        match (arguments.max_tokens_per_batch, arguments.train_sampling_strategy) {
            (Some(tokens), _) => self.with_token_budget(arguments, tokens, lengths(), rows_at_once),
            (None, SamplingStrategy::Random | SamplingStrategy::Sequential) => self,
            (None, SamplingStrategy::GroupByLength) => self.grouped_by_length(lengths()),
        }
    }

    /// The same plan with micro-batches of at most `tokens` tokens, padding included; `lengths` are
    /// those of all rows.
    fn with_token_budget(
        self,
        arguments: &TrainerArguments,
        tokens: usize,
        lengths: Vec<usize>,
        rows_at_once: Option<usize>,
    ) -> Self {
        let mut ascending = lengths.clone();
        ascending.sort_unstable();
        let (mut sizes, mut rows) = (Vec::new(), 0);
        for length in ascending {
            // A row that is longer than the budget is a batch of its own.
            if rows > 0
                && ((rows + 1) * length > tokens || rows == arguments.per_device_train_batch_size)
            {
                sizes.push(rows);
                rows = 0;
            }
            rows += 1;
        }
        sizes.push(rows);
        let accumulation_steps = arguments.gradient_accumulation_steps;
        let steps_per_epoch = sizes.len().div_ceil(accumulation_steps) as u64;
        let usual = arguments.per_device_train_batch_size;
        let at_once = (rows_at_once.unwrap_or(usual).clamp(1, usual), usual);
        let token_budget = Some(TokenBudget { lengths, sizes, accumulation_steps, at_once });
        Self {
            steps_per_epoch,
            total_steps: total_steps(arguments, steps_per_epoch),
            token_budget,
            ..self
        }
    }

    /// The same plan with rows of similar lengths in a step; `lengths` are those of all rows.
    fn grouped_by_length(self, lengths: Vec<usize>) -> Self {
        Self { lengths: Some(lengths), ..self }
    }

    /// The order of the rows in `epoch` (counted from 0).
    pub(super) fn order(&self, epoch: u64) -> EpochOrder {
        let all = index(self.available_rows);
        let mut rows = if self.sequential {
            (0..all).collect()
        } else {
            Rng::new(key(self.seed, "data", &[epoch])).permutation(all)
        };
        if let Some(budget) = &self.token_budget {
            rows.sort_by_key(|row| budget.lengths[*row]);
            let starts: Vec<usize> = budget
                .sizes
                .iter()
                .scan(0, |start, size| Some(std::mem::replace(start, *start + size)))
                .collect();
            let batches = self.batch_order(epoch, budget);
            let offsets = self.batch_offsets(epoch, budget);
            return EpochOrder {
                rows: batches
                    .into_iter()
                    .flat_map(|batch| rows[starts[batch]..][..budget.sizes[batch]].to_vec())
                    .collect(),
                offsets,
            };
        }
        if let Some(lengths) = &self.lengths {
            group_by_length(&mut rows, lengths, index(self.step_rows));
        }
        rows.truncate(index(self.used_rows));
        EpochOrder { rows, offsets: Vec::new() }
    }

    /// The order of the micro-batches in `epoch`.
    fn batch_order(&self, epoch: u64, budget: &TokenBudget) -> Vec<usize> {
        Rng::new(key(self.seed, "batches", &[epoch])).permutation(budget.sizes.len())
    }

    /// The first row of each micro-batch in `epoch`, and the end.
    fn batch_offsets(&self, epoch: u64, budget: &TokenBudget) -> Vec<usize> {
        let sizes = self.batch_order(epoch, budget).into_iter().map(|batch| budget.sizes[batch]);
        let mut offsets = vec![0];
        offsets.extend(sizes.scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        offsets
    }

    /// The epoch that optimiser step `step` (counted from 0) belongs to.
    pub(super) fn epoch(&self, step: u64) -> u64 {
        step / self.steps_per_epoch
    }

    /// Passes over the rows after `steps` optimiser steps.
    pub(super) fn epochs_done(&self, steps: u64) -> f64 {
        real(steps) / real(self.steps_per_epoch)
    }

    /// The study step after `steps` optimiser steps.
    pub(super) fn study_step(&self, steps: u64) -> u64 {
        match self.step_unit {
            StepUnit::Step => steps,
            // A last, incomplete epoch counts as one: its report must not carry the number of the
            // epoch before.
            StepUnit::Epoch if steps == self.total_steps => steps.div_ceil(self.steps_per_epoch),
            StepUnit::Epoch => steps / self.steps_per_epoch,
            StepUnit::Samples => {
                let within = match &self.token_budget {
                    Some(budget) => {
                        let offsets = self.batch_offsets(self.epoch(steps), budget);
                        offsets[(index(steps % self.steps_per_epoch) * budget.accumulation_steps)
                            .min(offsets.len() - 1)] as u64
                    }
                    None => (steps % self.steps_per_epoch * self.step_rows).min(self.used_rows),
                };
                steps / self.steps_per_epoch * self.used_rows + within
            }
        }
    }

    /// The evaluation that is due after `steps` optimiser steps, if any.
    pub(super) fn evaluation_due(&self, steps: u64) -> Option<DueEvaluation> {
        if steps == 0 {
            return None;
        }
        let (before, now) = (self.study_step(steps - 1), self.study_step(steps));
        let milestone = self.milestone(before, now);
        let scheduled = match self.eval_strategy {
            EvalStrategy::No => false,
            EvalStrategy::Epoch => {
                steps.is_multiple_of(self.steps_per_epoch)
                    && self.epochs_done(steps) >= self.eval_delay
            }
            EvalStrategy::Steps => {
                steps.is_multiple_of(self.eval_steps.of(self.total_steps))
                    && real(steps) >= self.eval_delay
            }
        };
        let due = DueEvaluation {
            study_step: milestone.unwrap_or(now),
            reported: now > before,
            scheduled,
        };
        (milestone.is_some() || scheduled || steps >= self.total_steps).then_some(due)
    }

    /// Whether a run that reported `study_step` is to pause.
    pub(super) fn pauses_at(&self, study_step: u64) -> bool {
        self.until.is_some_and(|until| study_step >= until)
    }

    /// The greatest milestone in (before, now].
    fn milestone(&self, before: u64, now: u64) -> Option<u64> {
        let multiple =
            self.milestones.every.filter(|every| *every > 0).map(|every| now / every * every);
        let listed = self.milestones.at.iter().copied().chain(self.until).chain(multiple);
        listed.filter(|milestone| (before + 1..=now).contains(milestone)).max()
    }
}

/// Optimiser steps of a run.
fn total_steps(arguments: &TrainerArguments, steps_per_epoch: u64) -> u64 {
    match u64::try_from(arguments.max_steps) {
        Ok(steps) => steps,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive and far below 2^53"
        )]
        Err(_) => (arguments.num_train_epochs * real(steps_per_epoch)).ceil() as u64,
    }
}

/// Sorts up to 50 steps' worth of rows at a time, the longest first: transformers'
/// `get_length_grouped_indices`.
fn group_by_length(order: &mut [usize], lengths: &[usize], step_rows: usize) {
    let mega_batch = (order.len() / (step_rows * 4)).clamp(1, 50) * step_rows;
    for rows in order.chunks_mut(mega_batch) {
        rows.sort_by_key(|row| std::cmp::Reverse(lengths[*row]));
    }
    // The longest of all comes first, so that running out of memory happens at once.
    let firsts = (0..order.len()).step_by(mega_batch);
    if let Some(longest) =
        firsts.max_by_key(|first| (lengths[order[*first]], std::cmp::Reverse(*first)))
    {
        order.swap(0, longest);
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("row numbers come from a Vec's length")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::resolve;
    use super::*;

    fn plan_of(values: Value, step_unit: StepUnit, milestones: Milestones) -> TrainingPlan {
        TrainingPlan::new(&resolve(values), 10, step_unit, milestones, None, 0, None).unwrap()
    }

    fn reports(plan: &TrainingPlan) -> Vec<(u64, u64)> {
        let report = |step| {
            let due = plan.evaluation_due(step).filter(|due| due.reported)?;
            Some((step, due.study_step))
        };
        (1..=plan.total_steps).filter_map(report).collect()
    }

    fn every(every: u64) -> Milestones {
        Milestones { every: Some(every), at: vec![] }
    }

    #[test]
    fn epochs_are_reported_at_their_last_step_and_a_fraction_counts_as_one() {
        let values = json!({"per_device_train_batch_size": 4, "num_train_epochs": 2.5});
        let plan = plan_of(values, StepUnit::Epoch, every(1));
        assert_eq!((plan.steps_per_epoch, plan.total_steps), (3, 8));
        assert_eq!(reports(&plan), [(3, 1), (6, 2), (8, 3)]);
    }

    #[test]
    fn samples_reach_a_milestone_at_the_first_step_past_it() {
        let values = json!({"per_device_train_batch_size": 4, "num_train_epochs": 2});
        let milestones = Milestones { every: None, at: vec![5, 6, 12] };
        let plan = plan_of(values, StepUnit::Samples, milestones);
        assert_eq!(reports(&plan), [(2, 6), (4, 12), (6, 20)]);
    }

    #[test]
    fn nothing_asked_for_means_only_the_end() {
        let plan = plan_of(json!({"num_train_epochs": 2}), StepUnit::Step, Milestones::default());
        assert_eq!(reports(&plan), [(4, 4)]);
    }

    #[test]
    fn evaluations_between_study_steps_are_not_reported() {
        let values = json!({
            "per_device_train_batch_size": 2, "num_train_epochs": 1, "eval_strategy": "steps",
            "eval_steps": 2,
        });
        let plan = plan_of(values, StepUnit::Epoch, Milestones::default());
        let between = DueEvaluation { study_step: 0, reported: false, scheduled: true };
        assert_eq!(plan.evaluation_due(2), Some(between));
        let last = DueEvaluation { study_step: 1, reported: true, scheduled: false };
        assert_eq!(plan.evaluation_due(5), Some(last));
    }

    #[test]
    fn a_share_of_all_steps_counts_those_of_batches_by_tokens_too() {
        let due = |values: Value, lengths: Option<Vec<usize>>| -> Vec<u64> {
            let arguments = resolve(values.clone());
            let plan = plan_of(values, StepUnit::Step, Milestones::default());
            let plan = match lengths {
                Some(lengths) => plan.with_lengths(&arguments, None, || lengths),
                None => plan,
            };
            let due = |step: &u64| plan.evaluation_due(*step).is_some_and(|due| due.scheduled);
            (1..=plan.total_steps).filter(due).collect()
        };
        let values = json!({
            "per_device_train_batch_size": 2, "num_train_epochs": 3, "eval_strategy": "steps",
            "eval_steps": 0.3,
        });
        // 15 steps, every fifth: 4.5 rounded up.
        assert_eq!(due(values, None), [5, 10, 15]);
        // One row a step: 30 steps, every ninth.
        let values = json!({
            "max_tokens_per_batch": 4, "num_train_epochs": 3, "eval_strategy": "steps",
            "logging_steps": 0.3,
        });
        assert_eq!(due(values, Some(vec![4; 10])), [9, 18, 27]);
    }

    #[test]
    fn eval_delay_puts_off_what_eval_strategy_asks_for_and_nothing_else() {
        let asked = |values: Value| -> Vec<u64> {
            let plan = plan_of(values, StepUnit::Step, every(2));
            (1..=plan.total_steps)
                .filter(|step| plan.evaluation_due(*step).is_some_and(|due| due.scheduled))
                .collect()
        };
        // Two steps an epoch.
        let values = json!({
            "per_device_train_batch_size": 5, "num_train_epochs": 3, "eval_strategy": "epoch",
            "eval_delay": 1.5,
        });
        assert_eq!(asked(values), [4, 6]);
        let values = json!({
            "per_device_train_batch_size": 5, "num_train_epochs": 3, "eval_strategy": "steps",
            "eval_steps": 1, "eval_delay": 5,
        });
        assert_eq!(asked(values.clone()), [5, 6]);
        let plan = plan_of(values, StepUnit::Step, every(2));
        assert!(plan.evaluation_due(2).is_some(), "the pruner's evaluations stay");
    }

    #[test]
    fn until_is_a_milestone() {
        let values = json!({"num_train_epochs": 9});
        let plan = plan_of(values, StepUnit::Epoch, Milestones::default());
        let plan = TrainingPlan { until: Some(3), ..plan };
        assert_eq!(reports(&plan)[0].1, 3);
        assert!(plan.pauses_at(3) && !plan.pauses_at(2));
    }

    #[test]
    fn every_row_is_seen_once_an_epoch_in_an_order_of_its_own() {
        let values = json!({"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2});
        let plan = plan_of(values, StepUnit::Step, Milestones::default());
        let seen = |epoch: u64| -> Vec<usize> {
            let order = plan.order(epoch);
            (0..plan.steps_per_epoch)
                .flat_map(|step| plan.micro_batches(step, &order).concat())
                .collect()
        };
        assert_ne!(seen(0), seen(1));
        let mut rows = seen(0);
        rows.sort_unstable();
        assert_eq!(rows, (0..10).collect::<Vec<_>>());
        let sizes = plan.micro_batches(1, &plan.order(0)).into_iter().map(|batch| batch.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn rows_of_like_lengths_go_together_and_each_is_still_seen_once_an_epoch() {
        let arguments =
            resolve(json!({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}));
        let (unit, milestones) = (StepUnit::Step, Milestones::default());
        let random = TrainingPlan::new(&arguments, 2_000, unit, milestones, None, 3, None).unwrap();
        let lengths: Vec<usize> = (0..2_000).map(|row| 5 + row * 7919 % 60).collect();
        let grouped = random.clone().grouped_by_length(lengths.clone());
        let spread = |plan: &TrainingPlan| -> usize {
            let order = plan.order(0);
            let spread = |step| {
                let rows = plan.micro_batches(step, &order).concat();
                let lengths = || rows.iter().map(|row| lengths[*row]);
                lengths().max().unwrap() - lengths().min().unwrap()
            };
            (0..plan.steps_per_epoch).map(spread).sum()
        };
        let [of_grouped, of_random] = [&grouped, &random].map(spread);
        assert!(10 * of_grouped < of_random, "{of_grouped} {of_random}");
        assert_eq!(lengths[grouped.order(0).rows[0]], 64);
        assert_ne!(grouped.order(0), grouped.order(1));
        let mut rows = grouped.order(1).rows;
        rows.sort_unstable();
        assert_eq!(rows, (0..2_000).collect::<Vec<_>>());
    }

    #[test]
    fn batches_of_tokens_have_every_row_once_an_epoch_and_no_more_tokens_than_asked_for() {
        let arguments =
            resolve(json!({"max_tokens_per_batch": 200, "gradient_accumulation_steps": 3}));
        let lengths: Vec<usize> =
            (0..500).map(|row| if row == 77 { 300 } else { 5 + row * 7919 % 60 }).collect();
        let plan_of = |at_once, step_unit| {
            let milestones = Milestones::default();
            let plan = TrainingPlan::new(&arguments, 500, step_unit, milestones, None, 3, at_once);
            let plan = plan.unwrap();
            plan.with_token_budget(&arguments, 200, lengths.clone(), at_once)
        };
        let whole = plan_of(None, StepUnit::Samples);
        assert_eq!(whole.total_steps, 3 * whole.steps_per_epoch);
        for epoch in 0..2 {
            let (order, mut rows) = (whole.order(epoch), Vec::new());
            for step in 0..whole.steps_per_epoch {
                let before = epoch * whole.steps_per_epoch + step;
                let batches = whole.micro_batches(before, &order);
                let is_last = step + 1 == whole.steps_per_epoch;
                assert!(batches.len() == 3 || is_last && !batches.is_empty());
                for batch in &batches {
                    let longest = batch.iter().map(|row| lengths[*row]).max().unwrap();
                    assert!(batch.len() * longest <= 200 || batch == &[77], "{batch:?}");
                }
                // Fewer rows at once are the same step: half of the 200 that the budget allows are
                // half of each micro-batch.
                let few = plan_of(Some(100), StepUnit::Step).micro_batches(before, &order);
                assert_eq!(few.concat(), batches.concat());
                let halves = batches.iter().map(|batch| batch.len().div_ceil(2));
                assert_eq!(few.iter().map(Vec::len).max(), halves.max());
                let single = plan_of(Some(1), StepUnit::Step).micro_batches(before, &order);
                assert!(single.iter().all(|rows| rows.len() == 1));
                rows.extend(batches.concat());
                assert_eq!(whole.study_step(before + 1), epoch * 500 + rows.len() as u64);
            }
            rows.sort_unstable();
            assert_eq!(rows, (0..500).collect::<Vec<_>>());
        }
        let [first, second] = [0, 1].map(|epoch| whole.order(epoch).offsets);
        assert_ne!(first, second, "the order of batches is drawn anew");
        // Batches are nearly full, with 500 rows of 34.5 tokens on average.
        assert!(whole.steps_per_epoch * 3 < 500 * 35 / 200 * 5 / 4, "{}", whole.steps_per_epoch);
    }

    #[test]
    fn rows_can_be_seen_as_they_stand() {
        let values = json!({"train_sampling_strategy": "sequential"});
        let plan = plan_of(values, StepUnit::Step, Milestones::default());
        assert_eq!(plan.order(1).rows, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn an_incomplete_batch_can_be_left_out() {
        let values =
            json!({"per_device_train_batch_size": 4, "dataloader_drop_last": true, "max_steps": 5});
        let plan = plan_of(values, StepUnit::Samples, Milestones::default());
        assert_eq!((plan.steps_per_epoch, plan.total_steps, plan.study_step(5)), (2, 5, 20));
    }
}
