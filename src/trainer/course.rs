//! The course of a run as pure arithmetic: which rows an optimiser step sees, and what is due after it.

use super::dice::{Dice, key};
use super::{Clock, Milestones, TrainerError};
use crate::arguments::{EvalStrategy, SamplingStrategy, TrainerArguments};

/// The plan of a run, a function of arguments, number of rows and seed alone.
#[derive(Debug, Clone)]
pub(super) struct Course {
    /// Rows of an epoch that are used.
    rows: u64,
    /// Rows there are.
    available: u64,
    micro: u64,
    /// Rows of a full optimiser step.
    group: u64,
    pub(super) steps_per_epoch: u64,
    /// Optimiser steps of the whole run.
    pub(super) total: u64,
    clock: Clock,
    milestones: Milestones,
    until: Option<u64>,
    strategy: EvalStrategy,
    eval_steps: u64,
    eval_delay: f64,
    seed: u64,
    /// Whether rows are seen in their order.
    sequential: bool,
    /// Of all rows, where those of like lengths go together.
    lengths: Option<Vec<usize>>,
    /// Where micro-batches are as large as tokens allow.
    budget: Option<Budget>,
}

/// Micro-batches of at most so many tokens. Rows lie by their lengths, so where batches end is the same in every epoch, and with it the number
/// of steps; which rows of one length a batch has, and when its turn comes, is drawn anew (fairseq's `max_tokens`, whose batches stay as they
/// are).
#[derive(Debug, Clone)]
struct Budget {
    lengths: Vec<usize>,
    /// Rows of each micro-batch, the shortest rows first.
    sizes: Vec<usize>,
    /// Micro-batches of a step.
    together: usize,
    /// The share of a micro-batch that is computed at once: so many rows of so many.
    at_once: (usize, usize),
}

impl Budget {
    /// A micro-batch in parts that are computed at once. A budget of tokens allows more rows than any micro-batch of real texts has:
    /// half of the rows at once is half of each micro-batch.
    fn parts<'a>(&self, rows: &'a [usize]) -> std::slice::Chunks<'a, usize> {
        let (at_once, usual) = self.at_once;
        rows.chunks((rows.len() * at_once).div_ceil(usual).max(1))
    }
}

/// The rows of an epoch in the order in which they are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    rows: Vec<usize>,
    /// Where each micro-batch begins, and the end, where these differ in size.
    ends: Vec<usize>,
}

/// An evaluation that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// The clock value it stands for.
    pub(super) clock: u64,
    /// Whether it has a clock value of its own and is reported, or only logged.
    pub(super) reported: bool,
    /// Whether `eval_strategy` asks for it: what is learnt may depend on it, and must not on where the pruner looks.
    pub(super) asked: bool,
}

impl Course {
    pub(super) fn new(
        arguments: &TrainerArguments,
        rows: usize,
        clock: Clock,
        milestones: Milestones,
        until: Option<u64>,
        seed: u64,
        rows_at_once: Option<usize>,
    ) -> Result<Self, TrainerError> {
        let micro = arguments.per_device_train_batch_size as u64;
        let available = rows as u64;
        let used = if arguments.dataloader_drop_last { available / micro * micro } else { available };
        if used == 0 {
            let message = format!("`dataloader_drop_last` leaves nothing of {rows} training rows with `per_device_train_batch_size` = {micro}");
            return Err(TrainerError::Arguments { message });
        }
        let group = micro * arguments.gradient_accumulation_steps as u64;
        let steps_per_epoch = used.div_ceil(group);
        let total = total(arguments, steps_per_epoch);
        let eval_steps = arguments.eval_steps.unwrap_or(arguments.logging_steps);
        Ok(Self {
            rows: used,
            available,
            // Which rows a step sees does not depend on it.
            micro: rows_at_once.map_or(micro, |rows| micro.min(rows.max(1) as u64)),
            group,
            steps_per_epoch,
            total,
            clock,
            milestones,
            until,
            strategy: arguments.eval_strategy,
            eval_steps,
            eval_delay: arguments.eval_delay,
            seed,
            sequential: arguments.train_sampling_strategy == SamplingStrategy::Sequential,
            lengths: None,
            budget: None,
        })
    }

    /// The micro-batches of optimiser step `step` (counted from 0), as row numbers.
    pub(super) fn micro_batches(&self, step: u64, order: &Order) -> Vec<Vec<usize>> {
        let within = step % self.steps_per_epoch;
        if let Some(budget) = &self.budget {
            let first = index(within) * budget.together;
            let ends = &order.ends[first..(first + budget.together + 1).min(order.ends.len())];
            return ends.windows(2).flat_map(|ends| budget.parts(&order.rows[ends[0]..ends[1]])).map(<[usize]>::to_vec).collect();
        }
        let (first, last) = (index(within * self.group), index(((within + 1) * self.group).min(self.rows)));
        order.rows[first..last].chunks(index(self.micro)).map(<[usize]>::to_vec).collect()
    }

    /// The same course with as many rows in a micro-batch as have at most `tokens` tokens, those of the longest counted for each;
    /// `lengths` are those of all rows.
    pub(super) fn by_tokens(self, arguments: &TrainerArguments, tokens: usize, lengths: Vec<usize>, rows_at_once: Option<usize>) -> Self {
        let mut ascending = lengths.clone();
        ascending.sort_unstable();
        let (mut sizes, mut rows) = (Vec::new(), 0);
        for length in ascending {
            // A row that is longer than the budget is a batch of its own.
            if rows > 0 && ((rows + 1) * length > tokens || rows == arguments.per_device_train_batch_size) {
                sizes.push(rows);
                rows = 0;
            }
            rows += 1;
        }
        sizes.push(rows);
        let together = arguments.gradient_accumulation_steps;
        let steps_per_epoch = sizes.len().div_ceil(together) as u64;
        let usual = arguments.per_device_train_batch_size;
        let budget = Budget { lengths, sizes, together, at_once: (rows_at_once.unwrap_or(usual).clamp(1, usual), usual) };
        Self { steps_per_epoch, total: total(arguments, steps_per_epoch), budget: Some(budget), ..self }
    }

    /// The same course with rows of like lengths in a step; `lengths` are those of all rows.
    pub(super) fn by_length(self, lengths: Vec<usize>) -> Self {
        Self { lengths: Some(lengths), ..self }
    }

    /// The order of the rows in `epoch` (counted from 0).
    pub(super) fn order(&self, epoch: u64) -> Order {
        let all = index(self.available);
        let mut rows = if self.sequential { (0..all).collect() } else { Dice::new(key(self.seed, "data", &[epoch])).permutation(all) };
        if let Some(budget) = &self.budget {
            rows.sort_by_key(|row| budget.lengths[*row]);
            let starts: Vec<usize> = budget.sizes.iter().scan(0, |start, size| Some(std::mem::replace(start, *start + size))).collect();
            let turns = self.turns(epoch, budget);
            let ends = self.ends(epoch, budget);
            return Order { rows: turns.into_iter().flat_map(|batch| rows[starts[batch]..][..budget.sizes[batch]].to_vec()).collect(), ends };
        }
        if let Some(lengths) = &self.lengths {
            group_by_length(&mut rows, lengths, index(self.group));
        }
        rows.truncate(index(self.rows));
        Order { rows, ends: Vec::new() }
    }

    /// When each micro-batch's turn comes in `epoch`.
    fn turns(&self, epoch: u64, budget: &Budget) -> Vec<usize> {
        Dice::new(key(self.seed, "batches", &[epoch])).permutation(budget.sizes.len())
    }

    /// Where each micro-batch begins in `epoch`, and the end.
    fn ends(&self, epoch: u64, budget: &Budget) -> Vec<usize> {
        let sizes = self.turns(epoch, budget).into_iter().map(|batch| budget.sizes[batch]);
        let mut ends = vec![0];
        for size in sizes {
            ends.push(ends[ends.len() - 1] + size);
        }
        ends
    }

    /// The epoch that optimiser step `step` (counted from 0) belongs to.
    pub(super) fn epoch(&self, step: u64) -> u64 {
        step / self.steps_per_epoch
    }

    /// Passes over the rows after `steps` optimiser steps.
    pub(super) fn epochs_done(&self, steps: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "step counts are far below 2^53")]
        let epochs = steps as f64 / self.steps_per_epoch as f64;
        epochs
    }

    /// The clock after `steps` optimiser steps.
    pub(super) fn clock(&self, steps: u64) -> u64 {
        match self.clock {
            Clock::Step => steps,
            // A last, incomplete epoch counts as one: its report must not carry the number of the epoch before.
            Clock::Epoch if steps == self.total => steps.div_ceil(self.steps_per_epoch),
            Clock::Epoch => steps / self.steps_per_epoch,
            Clock::Samples => {
                let within = match &self.budget {
                    Some(budget) => {
                        let ends = self.ends(self.epoch(steps), budget);
                        ends[(index(steps % self.steps_per_epoch) * budget.together).min(ends.len() - 1)] as u64
                    }
                    None => (steps % self.steps_per_epoch * self.group).min(self.rows),
                };
                steps / self.steps_per_epoch * self.rows + within
            }
        }
    }

    /// The evaluation that is due after `steps` optimiser steps, if any.
    pub(super) fn due(&self, steps: u64) -> Option<Due> {
        if steps == 0 {
            return None;
        }
        let (before, now) = (self.clock(steps - 1), self.clock(steps));
        let milestone = self.milestone(before, now);
        #[expect(clippy::cast_precision_loss, reason = "step counts are far below 2^53")]
        let asked = match self.strategy {
            EvalStrategy::No => false,
            EvalStrategy::Epoch => steps.is_multiple_of(self.steps_per_epoch) && self.epochs_done(steps) >= self.eval_delay,
            EvalStrategy::Steps => steps.is_multiple_of(self.eval_steps) && steps as f64 >= self.eval_delay,
        };
        let due = Due { clock: milestone.unwrap_or(now), reported: now > before, asked };
        (milestone.is_some() || asked || steps >= self.total).then_some(due)
    }

    /// Whether a run that reported `clock` is to pause.
    pub(super) fn pauses_at(&self, clock: u64) -> bool {
        self.until.is_some_and(|until| clock >= until)
    }

    /// The greatest milestone in (before, now].
    fn milestone(&self, before: u64, now: u64) -> Option<u64> {
        let multiple = self.milestones.every.filter(|every| *every > 0).map(|every| now / every * every);
        let listed = self.milestones.at.iter().copied().chain(self.until).chain(multiple);
        listed.filter(|milestone| (before + 1..=now).contains(milestone)).max()
    }
}

/// Optimiser steps of a run.
fn total(arguments: &TrainerArguments, steps_per_epoch: u64) -> u64 {
    match u64::try_from(arguments.max_steps) {
        Ok(steps) => steps,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "positive and far below 2^53")]
        Err(_) => (arguments.num_train_epochs * steps_per_epoch as f64).ceil() as u64,
    }
}

/// Sorts up to 50 steps' worth of rows at a time, the longest first, in steps of `group` rows: transformers' `get_length_grouped_indices`.
fn group_by_length(order: &mut [usize], lengths: &[usize], group: usize) {
    let together = (order.len() / (group * 4)).clamp(1, 50) * group;
    for rows in order.chunks_mut(together) {
        rows.sort_by_key(|row| std::cmp::Reverse(lengths[*row]));
    }
    // The longest of all comes first, so that what does not fit into memory is known at once.
    let firsts = (0..order.len()).step_by(together);
    if let Some(longest) = firsts.max_by_key(|first| (lengths[order[*first]], std::cmp::Reverse(*first))) {
        order.swap(0, longest);
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("row numbers come from a Vec's length")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn course(values: Value, clock: Clock, milestones: Milestones, until: Option<u64>) -> Course {
        let arguments = TrainerArguments::resolve(&serde_json::from_value(values).unwrap()).unwrap();
        Course::new(&arguments, 10, clock, milestones, until, 0, None).unwrap()
    }

    fn reports(course: &Course) -> Vec<(u64, u64)> {
        (1..=course.total).filter_map(|step| course.due(step).filter(|due| due.reported).map(|due| (step, due.clock))).collect()
    }

    fn every(every: u64) -> Milestones {
        Milestones { every: Some(every), at: vec![] }
    }

    #[test]
    fn epochs_are_reported_at_their_last_step_and_a_fraction_counts_as_one() {
        let course = course(json!({"per_device_train_batch_size": 4, "num_train_epochs": 2.5}), Clock::Epoch, every(1), None);
        assert_eq!((course.steps_per_epoch, course.total), (3, 8));
        assert_eq!(reports(&course), [(3, 1), (6, 2), (8, 3)]);
    }

    #[test]
    fn samples_reach_a_milestone_at_the_first_step_past_it() {
        let values = json!({"per_device_train_batch_size": 4, "num_train_epochs": 2});
        let course = course(values, Clock::Samples, Milestones { every: None, at: vec![5, 6, 12] }, None);
        assert_eq!(reports(&course), [(2, 6), (4, 12), (6, 20)]);
    }

    #[test]
    fn nothing_asked_for_means_only_the_end() {
        let course = course(json!({"num_train_epochs": 2}), Clock::Step, Milestones::default(), None);
        assert_eq!(reports(&course), [(4, 4)]);
    }

    #[test]
    fn evaluations_between_clock_values_are_not_reported() {
        let values = json!({"per_device_train_batch_size": 2, "num_train_epochs": 1, "eval_strategy": "steps", "eval_steps": 2});
        let course = course(values, Clock::Epoch, Milestones::default(), None);
        assert_eq!(course.due(2), Some(Due { clock: 0, reported: false, asked: true }));
        assert_eq!(course.due(5), Some(Due { clock: 1, reported: true, asked: false }));
    }

    #[test]
    fn eval_delay_puts_off_what_eval_strategy_asks_for_and_nothing_else() {
        let asked = |values: Value| -> Vec<u64> {
            let course = course(values, Clock::Step, every(2), None);
            (1..=course.total).filter(|step| course.due(*step).is_some_and(|due| due.asked)).collect()
        };
        // Two steps an epoch.
        let values = json!({"per_device_train_batch_size": 5, "num_train_epochs": 3, "eval_strategy": "epoch", "eval_delay": 1.5});
        assert_eq!(asked(values), [4, 6]);
        let values = json!({"per_device_train_batch_size": 5, "num_train_epochs": 3, "eval_strategy": "steps", "eval_steps": 1, "eval_delay": 5});
        assert_eq!(asked(values.clone()), [5, 6]);
        assert!(course(values, Clock::Step, every(2), None).due(2).is_some(), "the pruner's evaluations stay");
    }

    #[test]
    fn until_is_a_milestone() {
        let course = course(json!({"num_train_epochs": 9}), Clock::Epoch, Milestones::default(), Some(3));
        assert_eq!(reports(&course)[0].1, 3);
        assert!(course.pauses_at(3) && !course.pauses_at(2));
    }

    #[test]
    fn every_row_is_seen_once_an_epoch_in_an_order_of_its_own() {
        let values = json!({"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2});
        let course = course(values, Clock::Step, Milestones::default(), None);
        let seen = |epoch: u64| -> Vec<usize> {
            let order = course.order(epoch);
            (0..course.steps_per_epoch).flat_map(|step| course.micro_batches(step, &order).concat()).collect()
        };
        assert_ne!(seen(0), seen(1));
        let mut rows = seen(0);
        rows.sort_unstable();
        assert_eq!(rows, (0..10).collect::<Vec<_>>());
        assert_eq!(course.micro_batches(1, &course.order(0)).iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn rows_of_like_lengths_go_together_and_each_is_still_seen_once_an_epoch() {
        let arguments = json!({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2});
        let arguments = TrainerArguments::resolve(&serde_json::from_value(arguments).unwrap()).unwrap();
        let random = Course::new(&arguments, 2_000, Clock::Step, Milestones::default(), None, 3, None).unwrap();
        let lengths: Vec<usize> = (0..2_000).map(|row| 5 + row * 7919 % 60).collect();
        let grouped = random.clone().by_length(lengths.clone());
        let spread = |course: &Course| -> usize {
            let order = course.order(0);
            let steps = (0..course.steps_per_epoch).map(|step| course.micro_batches(step, &order).concat());
            steps.map(|rows| rows.iter().map(|row| lengths[*row]).max().unwrap() - rows.iter().map(|row| lengths[*row]).min().unwrap()).sum()
        };
        assert!(10 * spread(&grouped) < spread(&random), "{} {}", spread(&grouped), spread(&random));
        assert_eq!(lengths[grouped.order(0).rows[0]], 64);
        assert_ne!(grouped.order(0), grouped.order(1));
        let mut rows = grouped.order(1).rows;
        rows.sort_unstable();
        assert_eq!(rows, (0..2_000).collect::<Vec<_>>());
    }

    #[test]
    fn batches_of_tokens_have_every_row_once_an_epoch_and_no_more_tokens_than_asked_for() {
        let values = json!({"max_tokens_per_batch": 200, "gradient_accumulation_steps": 3});
        let arguments = TrainerArguments::resolve(&serde_json::from_value(values).unwrap()).unwrap();
        let lengths: Vec<usize> = (0..500).map(|row| if row == 77 { 300 } else { 5 + row * 7919 % 60 }).collect();
        let course = |at_once, clock| {
            let course = Course::new(&arguments, 500, clock, Milestones::default(), None, 3, at_once).unwrap();
            course.by_tokens(&arguments, 200, lengths.clone(), at_once)
        };
        let whole = course(None, Clock::Samples);
        assert_eq!(whole.total, 3 * whole.steps_per_epoch);
        for epoch in 0..2 {
            let (order, mut rows) = (whole.order(epoch), Vec::new());
            for step in 0..whole.steps_per_epoch {
                let before = epoch * whole.steps_per_epoch + step;
                let batches = whole.micro_batches(before, &order);
                assert!(batches.len() == 3 || step + 1 == whole.steps_per_epoch && !batches.is_empty());
                for batch in &batches {
                    let longest = batch.iter().map(|row| lengths[*row]).max().unwrap();
                    assert!(batch.len() * longest <= 200 || batch == &[77], "{batch:?}");
                }
                // Fewer rows at once are the same step: half of the 200 that the budget allows are half of each micro-batch.
                let few = course(Some(100), Clock::Step).micro_batches(before, &order);
                assert_eq!(few.concat(), batches.concat());
                assert_eq!(few.iter().map(Vec::len).max(), batches.iter().map(|batch| batch.len().div_ceil(2)).max());
                assert!(course(Some(1), Clock::Step).micro_batches(before, &order).iter().all(|rows| rows.len() == 1));
                rows.extend(batches.concat());
                assert_eq!(whole.clock(before + 1), epoch * 500 + rows.len() as u64);
            }
            rows.sort_unstable();
            assert_eq!(rows, (0..500).collect::<Vec<_>>());
        }
        assert_ne!(whole.order(0).ends, whole.order(1).ends, "turns are drawn anew");
        // Batches are nearly full: of 500 rows of 34.5 tokens on average.
        assert!(whole.steps_per_epoch * 3 < 500 * 35 / 200 * 5 / 4, "{}", whole.steps_per_epoch);
    }

    #[test]
    fn rows_can_be_seen_as_they_stand() {
        let course = course(json!({"train_sampling_strategy": "sequential"}), Clock::Step, Milestones::default(), None);
        assert_eq!(course.order(1).rows, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn an_incomplete_batch_can_be_left_out() {
        let values = json!({"per_device_train_batch_size": 4, "dataloader_drop_last": true, "max_steps": 5});
        let course = course(values, Clock::Samples, Milestones::default(), None);
        assert_eq!((course.steps_per_epoch, course.total, course.clock(5)), (2, 5, 20));
    }
}
