//! Checkpoint retention: what running and paused trials continue from, the best trials' best,
//! within `max_disk`.
//!
//! What a command saved is its own until its trial has ended: it may read it again
//! (`load_best_model_at_end`) and remove it (`save_total_limit`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::attempt::RunningAttempt;
use super::superseding::Superseded;
use super::{Effect, Engine};
use crate::pruners::{is_asynchronous, is_population};
use crate::storage::paths::{is_copy, original_of};
use crate::study::checkpoint::Checkpoint;
use crate::study::event::{CheckpointEvent, Event, StudyEvent, TrialEvent};
use crate::study::front;
use crate::study::metric::{Direction, Score};
use crate::study::program::Program;
use crate::study::remark::{Remark, RemarkKind};
use crate::study::spec::{Objective, StudySpec, ValueRule, WhileRunning};
use crate::study::state::{StudyState, supersede, value_of, value_step};
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// The retention rule of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    keep_best: Option<u32>,
    max_disk: Option<u64>,
    value: ValueRule,
    direction: Direction,
    objectives: Vec<Objective>,
    /// Whether other trials may continue from a running one's checkpoint of its last rung.
    offers: bool,
    held: Held,
    program: Program,
}

/// Whose checkpoints `keep` leaves alone, whether needed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nobody's.
    Nobodys,
    /// Those of trials that run now: a member of a population does not look at what it saved before
    /// its last pause.
    OfRunning,
    /// Those of trials that have not ended.
    OfUnfinished,
}

/// A checkpoint to drop.
pub type Dropped = (TrialNumber, PathBuf);

/// The result of the rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Checkpoints to drop.
    pub dropped: Vec<Dropped>,
    /// Size of the others, as far as measured, if it exceeds `max_disk`.
    pub exceeded: Option<u64>,
}

impl Rule {
    /// The rule of a study.
    pub fn of(spec: &StudySpec) -> Rule {
        let checkpoints = &spec.checkpoints;
        // Any finalist of a race may win.
        let keep_best =
            checkpoints.keep_best.map(|keep| if keep == 0 { 0 } else { keep.max(spec.race) });
        Rule {
            keep_best,
            max_disk: checkpoints.max_disk,
            value: spec.value,
            direction: spec.direction(),
            objectives: spec.objectives.clone(),
            offers: is_asynchronous(&spec.pruner),
            held: match (&spec.program, checkpoints.while_running) {
                (Program::Command { .. }, WhileRunning::All) if is_population(&spec.pruner) => {
                    Held::OfRunning
                }
                (Program::Command { .. }, WhileRunning::All) => Held::OfUnfinished,
                (Program::Command { .. }, WhileRunning::Needed)
                | (Program::Trainer { .. } | Program::Inline, _) => Held::Nobodys,
            },
            program: spec.program.clone(),
        }
    }

    /// Decides which checkpoints of `trials` to drop. `trials`: all of a study that have some.
    /// `compromise`: the trial that the study of several objectives would export, which is the
    /// first of the best ones.
    ///
    /// `keep`: a complete trial keeps its best one while it is among the best; a pruned one keeps
    /// none; a failed one keeps what a retry continues from (not with `keep = "none"`); an
    /// unfinished one keeps the one to continue from, its best, those newer than its reports, what
    /// it offers to its population, and what it had before it continued past its end. One of a
    /// command keeps all that the command wrote.
    ///
    /// `max_disk`: drops more until the rest fits, in this order: what `keep = "all"` and commands
    /// kept beyond that; then those of complete trials, worst first; then the best ones of
    /// unfinished trials that are behind the study's best. The checkpoint that a trial continues
    /// from and the best trial's are always kept.
    pub fn plan(&self, trials: &[&Trial], compromise: Option<TrialNumber>) -> Plan {
        let mut dropped = self.beyond_keep(trials, compromise);
        let room = |limit| self.make_room(trials, compromise, limit, &mut dropped);
        let exceeded = self.max_disk.and_then(room);
        let path = |(number, checkpoint): (_, &Checkpoint)| (number, checkpoint.path.clone());
        Plan { dropped: dropped.into_iter().map(path).collect(), exceeded }
    }

    /// Drops more until the rest fits; returns the size of the rest if it does not.
    fn make_room<'a>(
        &self,
        trials: &[&'a Trial],
        compromise: Option<TrialNumber>,
        limit: u64,
        dropped: &mut Vec<(TrialNumber, &'a Checkpoint)>,
    ) -> Option<u64> {
        let size = |checkpoint: &Checkpoint| checkpoint.bytes.unwrap_or(0);
        let all: u64 = trials.iter().flat_map(|trial| &trial.checkpoints).map(size).sum();
        let mut bytes =
            all - dropped.iter().map(|(_, checkpoint)| size(checkpoint)).sum::<u64>().min(all);
        // The common case; sorting costs more than the sum.
        if bytes <= limit {
            return None;
        }
        let mut gone: HashSet<*const Checkpoint> =
            dropped.iter().map(|(_, checkpoint)| std::ptr::from_ref(*checkpoint)).collect();
        for (number, checkpoint) in self.in_order(trials, compromise) {
            if bytes <= limit {
                break;
            }
            if gone.insert(std::ptr::from_ref(checkpoint)) {
                bytes -= size(checkpoint).min(bytes);
                dropped.push((number, checkpoint));
            }
        }
        (bytes > limit).then_some(bytes)
    }

    fn beyond_keep<'a>(
        &self,
        trials: &[&'a Trial],
        compromise: Option<TrialNumber>,
    ) -> Vec<(TrialNumber, &'a Checkpoint)> {
        let Some(keep) = self.keep_best else { return Vec::new() };
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let ranked = self.ranked(trials, compromise);
        let best: HashSet<TrialNumber> =
            ranked.iter().take(keep).map(|trial| trial.number).collect();
        let mut dropped = Vec::new();
        for trial in trials {
            let is_kept = match trial.state {
                TrialState::Complete | TrialState::Pruned => best.contains(&trial.number),
                TrialState::Failed => keep > 0,
                TrialState::Queued | TrialState::Running | TrialState::Paused => true,
            };
            let needed = if is_kept { self.needed(trial) } else { Vec::new() };
            let unneeded = others(trial, &needed).into_iter();
            dropped.extend(unneeded.filter(|(_, checkpoint)| self.is_free(trial, checkpoint)));
        }
        dropped
    }

    /// Whether `keep` may drop a checkpoint: not what a command wrote while it is held. A copy is
    /// hpsearch's own, but the last one takes its original with it.
    fn is_free(&self, trial: &Trial, checkpoint: &Checkpoint) -> bool {
        let is_held = match self.held {
            Held::Nobodys => false,
            Held::OfRunning => trial.state == TrialState::Running,
            Held::OfUnfinished => !trial.state.is_finished(),
        };
        let has_later_copy = |original: PathBuf| {
            let newer = trial.checkpoints.iter().rev();
            let mut newer = newer.take_while(|other| !std::ptr::eq(*other, checkpoint));
            newer.any(|other| original_of(&other.path).as_ref() == Some(&original))
        };
        !is_held
            || is_copy(&checkpoint.path) && original_of(&checkpoint.path).is_none_or(has_later_copy)
    }

    /// Candidates in the order in which they are dropped; some repeat.
    fn in_order<'a>(
        &self,
        trials: &[&'a Trial],
        compromise: Option<TrialNumber>,
    ) -> Vec<(TrialNumber, &'a Checkpoint)> {
        let mut order: Vec<(TrialNumber, &Checkpoint)> = Vec::new();
        let ranked = self.ranked(trials, compromise);
        // Kept by `keep = "all"` only: those of trials without result, then those that are neither
        // a trial's best nor its newest.
        let without_result =
            |trial: &&&Trial| matches!(trial.state, TrialState::Pruned | TrialState::Failed);
        order.extend(trials.iter().filter(without_result).flat_map(|trial| others(trial, &[])));
        order.extend(trials.iter().flat_map(|trial| others(trial, &self.needed(trial))));
        order.extend(ranked.iter().skip(1).rev().filter_map(|trial| {
            Some((trial.number, trial.checkpoints.get(self.best_of(trial)?)?))
        }));
        // A trial that is behind now can only win with a later report, which has a later
        // checkpoint.
        let to_beat = ranked.first().and_then(|best| self.score(best));
        let is_behind = |trial: &&Trial| {
            !trial.state.is_finished() && to_beat.is_some_and(|best| self.score(trial) > Some(best))
        };
        let mut behind: Vec<&Trial> = trials.iter().copied().filter(is_behind).collect();
        behind.sort_by_key(|trial| std::cmp::Reverse(self.score(trial)));
        for trial in behind {
            let offered = self.offered(trial);
            let is_best_only =
                |best: &usize| ![newest_reported(trial), offered].contains(&Some(*best));
            let best = self.best_of(trial).filter(is_best_only);
            let mut newer = self.needed_to_continue(trial);
            newer.retain(|index| Some(*index) != best);
            order.extend(others(trial, &newer));
        }
        order
    }

    /// Complete trials with checkpoints, best first. Replicates are never exported.
    fn ranked<'a>(&self, trials: &[&'a Trial], compromise: Option<TrialNumber>) -> Vec<&'a Trial> {
        let is_kept = |trial: &&Trial| {
            trial.state == TrialState::Complete
                && trial.origin.is_judged()
                && !trial.checkpoints.is_empty()
        };
        let mut ranked: Vec<&Trial> = trials.iter().copied().filter(is_kept).collect();
        if self.objectives.len() > 1 {
            let points = front::points(ranked.iter().copied());
            let others = front::ranked(&self.objectives, &points);
            // A compromise without a checkpoint has no place here.
            let order: Vec<TrialNumber> = compromise.into_iter().chain(others).collect();
            let place = |trial: &&Trial| {
                order.iter().position(|number| *number == trial.number).unwrap_or(usize::MAX)
            };
            ranked.sort_by_key(place);
            return ranked;
        }
        ranked.sort_by_key(|trial| {
            (trial.violation.is_some(), Score::new(self.direction, trial.value.unwrap_or(f64::NAN)))
        });
        ranked
    }

    /// The value of a trial, as if it ended now.
    fn score(&self, trial: &Trial) -> Option<Score> {
        if self.objectives.len() > 1 {
            return None;
        }
        let value = value_of(self.value, self.direction, trial)?;
        Some(Score::new(self.direction, trial.value.unwrap_or(value)))
    }

    /// The checkpoint of the trial's value, or else the newest one.
    fn best_of(&self, trial: &Trial) -> Option<usize> {
        trial.checkpoint_index(value_step(self.value, self.direction, trial), &self.program)
    }

    /// What a trial needs: a complete one its best; a failed one what a retry continues from; an
    /// unfinished one what it needs to continue.
    fn needed(&self, trial: &Trial) -> Vec<usize> {
        match trial.state {
            TrialState::Complete => self.best_of(trial).into_iter().collect(),
            TrialState::Pruned => Vec::new(),
            TrialState::Failed => newest_reported(trial).into_iter().collect(),
            TrialState::Queued | TrialState::Running | TrialState::Paused => {
                self.needed_to_continue(trial)
            }
        }
    }

    /// What a trial offers to other members of its population.
    fn offered(&self, trial: &Trial) -> Option<usize> {
        self.offers.then(|| trial.offered_index()).flatten()
    }

    /// The checkpoint to continue from, the best one (to export), those not yet reported, and what
    /// it offers.
    fn needed_to_continue(&self, trial: &Trial) -> Vec<usize> {
        let Some(resumable) = newest_reported(trial) else {
            return (0..trial.checkpoints.len()).collect();
        };
        let others = [self.best_of(trial), self.offered(trial)];
        (0..trial.checkpoints.len())
            .filter(|index| {
                *index >= resumable
                    || others.contains(&Some(*index))
                    || is_from_before(trial, &trial.checkpoints[*index])
            })
            .collect()
    }
}

/// Whether a trial that continues past its end had this checkpoint then: its result may be that
/// again.
fn is_from_before(trial: &Trial, checkpoint: &Checkpoint) -> bool {
    trial.before.as_ref().is_some_and(|before| before.checkpoints.contains(&checkpoint.path))
}

/// The checkpoint to continue from.
fn newest_reported(trial: &Trial) -> Option<usize> {
    trial.resumable_index()
}

/// A trial's checkpoints except some, which are given in ascending order.
fn others<'a>(trial: &'a Trial, but: &[usize]) -> Vec<(TrialNumber, &'a Checkpoint)> {
    trial
        .checkpoints
        .iter()
        .enumerate()
        .filter(|(index, _)| but.binary_search(index).is_err())
        .map(|(_, checkpoint)| (trial.number, checkpoint))
        .collect()
}

/// The checkpoints of a study, as far as retention needs them.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    rule: Rule,
    /// Trials that have checkpoints.
    holding: BTreeSet<TrialNumber>,
    /// Whether checkpoints exceed `max_disk` although none can be dropped; recorded when it begins.
    exceeded: bool,
}

impl Retention {
    pub fn new(spec: &StudySpec, state: &StudyState) -> Self {
        let holding = state.trials.iter().filter(|trial| !trial.checkpoints.is_empty());
        let holding = holding.map(|trial| trial.number).collect();
        Retention { rule: Rule::of(spec), holding, exceeded: false }
    }

    /// Applies an event that `state` includes.
    pub fn apply(&mut self, state: &StudyState, event: &Event) {
        let Event::Trial(number, TrialEvent::Checkpoint(event)) = event else { return };
        match event {
            CheckpointEvent::Saved { .. } => {
                self.holding.insert(*number);
            }
            CheckpointEvent::Dropped { .. } => {
                if state.trial(*number).is_none_or(|trial| trial.checkpoints.is_empty()) {
                    self.holding.remove(number);
                }
            }
        }
    }

    /// The plan for the whole study. `cleared`: trials without what their running attempts have
    /// superseded, whose files these may be writing again.
    fn plan(
        &self,
        spec: &StudySpec,
        state: &StudyState,
        cleared: &BTreeMap<TrialNumber, Trial>,
    ) -> Option<Plan> {
        let is_limited = self.rule.keep_best.is_some() || self.rule.max_disk.is_some();
        if self.holding.is_empty() || !is_limited {
            return None;
        }
        // With several runs of a configuration, its mean counts.
        let configurations =
            if spec.replicates == 1 { Vec::new() } else { state.ranked_configurations() };
        let means: BTreeMap<TrialNumber, f64> =
            configurations.into_iter().map(|(number, sample)| (number, sample.mean)).collect();
        let with_mean = |trial: &Trial| {
            let mean = means.get(&trial.number)?;
            Some(Trial { value: Some(*mean), ..trial.clone() })
        };
        let holding = self.holding.iter().filter_map(|number| state.trial(*number));
        let size = |trial: &Trial| -> u64 {
            trial.checkpoints.iter().filter_map(|checkpoint| checkpoint.bytes).sum()
        };
        let mut superseded = 0;
        let holding: Vec<Cow<'_, Trial>> = holding
            .map(|trial| match cleared.get(&trial.number) {
                Some(cleared) => {
                    superseded += size(trial) - size(cleared);
                    Cow::Borrowed(cleared)
                }
                None => with_mean(trial).map_or(Cow::Borrowed(trial), Cow::Owned),
            })
            .collect();
        let is_several = state.has_several_objectives();
        let compromise = state.best().filter(|_| is_several).map(|best| best.number);
        let max_disk = self.rule.max_disk.map(|limit| limit.saturating_sub(superseded));
        let rule = match superseded {
            0 => Cow::Borrowed(&self.rule),
            _ => Cow::Owned(Rule { max_disk, ..self.rule.clone() }),
        };
        let plan = rule.plan(&holding.iter().map(Cow::as_ref).collect::<Vec<_>>(), compromise);
        Some(Plan { exceeded: plan.exceeded.map(|bytes| bytes + superseded), ..plan })
    }

    /// Checkpoints that one running trial no longer needs.
    fn superseded(&self, trial: &Trial) -> Vec<Dropped> {
        // Only checkpoints before the one to continue from: few, however many exist.
        let resumable = newest_reported(trial).filter(|resumable| *resumable > 0);
        let Some(resumable) = resumable.filter(|_| self.rule.keep_best.is_some()) else {
            return Vec::new();
        };
        let needed = [self.rule.best_of(trial), self.rule.offered(trial)];
        let before = trial.checkpoints[..resumable].iter().enumerate();
        before
            .filter(|(index, _)| !needed.contains(&Some(*index)))
            .filter(|(_, checkpoint)| !is_from_before(trial, checkpoint))
            .filter(|(_, checkpoint)| self.rule.is_free(trial, checkpoint))
            .map(|(_, checkpoint)| (trial.number, checkpoint.path.clone()))
            .collect()
    }

    /// Whether as many complete trials as `keep` allows are better than this one is now.
    fn cannot_win(&self, state: &StudyState, trial: &Trial) -> bool {
        let Some(own) = self.rule.score(trial) else { return false };
        let better = state.trials.iter().filter(|trial| {
            trial.state == TrialState::Complete
                && self.rule.score(trial).is_some_and(|score| score < own)
        });
        let keep = self.rule.keep_best.unwrap_or(1);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX).max(1);
        better.take(keep).count() == keep
    }
}

/// Tells whether a trial's checkpoint is gone from the disk.
pub type IsGone = Box<dyn Fn(TrialNumber, &Path) -> bool + Send>;

impl Engine {
    /// Adds the only look at the disk, without which every checkpoint that is listed is there. What
    /// is gone is recorded as dropped, so that nothing that is decided depends on the disk again.
    #[must_use]
    pub fn with_look_at_disk(self, is_gone: IsGone) -> Self {
        Engine { is_gone: Some(is_gone), ..self }
    }

    /// Drops what one running trial no longer needs; with `max_disk`, what the whole study does
    /// not.
    pub(super) fn drop_superseded(&mut self, number: TrialNumber) {
        if self.retention.rule.max_disk.is_some() {
            return self.tidy();
        }
        loop {
            let Some(trial) = self.cleared(number) else { return };
            let dropped = self.retention.superseded(&trial);
            if !self.forget_gone_beside(&dropped) {
                return self.drop_all(dropped);
            }
        }
    }

    /// A trial without what its running attempt has superseded of the earlier ones, which goes when
    /// that ends.
    fn cleared(&self, number: TrialNumber) -> Option<Cow<'_, Trial>> {
        let trial = self.state.trial(number)?;
        let running = self.slots.running().find(|running| running.trial == number);
        let superseded = running
            .map(|running| self.superseded_by(&running.superseding, number, None))
            .unwrap_or_default();
        if superseded == Superseded::default() {
            return Some(Cow::Borrowed(trial));
        }
        let mut cleared = trial.clone();
        supersede(&mut cleared, &self.spec.objectives, &superseded.reports);
        let gone: HashSet<&Path> =
            superseded.checkpoints.iter().map(|(_, path)| path.as_path()).collect();
        cleared.checkpoints.retain(|saved| !gone.contains(saved.path.as_path()));
        Some(Cow::Owned(cleared))
    }

    /// Drops everything that the study no longer needs.
    pub(super) fn tidy(&mut self) {
        let Plan { dropped, exceeded } = loop {
            let running = self.slots.running().filter_map(|running| self.cleared(running.trial));
            let cleared = running.filter_map(|trial| match trial {
                Cow::Borrowed(_) => None,
                Cow::Owned(cleared) => Some((cleared.number, cleared)),
            });
            let cleared = cleared.collect();
            let Some(plan) = self.retention.plan(&self.spec, &self.state, &cleared) else { return };
            if !self.forget_gone_beside(&plan.dropped) {
                break plan;
            }
        };
        self.remark_on_removal(&dropped);
        self.drop_all(dropped);
        if let (Some(bytes), Some(limit)) = (exceeded, self.spec.checkpoints.max_disk)
            && !self.retention.exceeded
        {
            self.emit(Event::Study(StudyEvent::DiskExceeded { bytes, limit }));
        }
        self.retention.exceeded = exceeded.is_some();
    }

    /// Forgets checkpoints that are gone of those for which others are about to be dropped: their
    /// trials' own, and those of the best trials. Whether there were any.
    fn forget_gone_beside(&mut self, dropped: &[Dropped]) -> bool {
        let Some(is_gone) = self.is_gone.as_ref().filter(|_| !dropped.is_empty()) else {
            return false;
        };
        let losing: HashSet<TrialNumber> = dropped.iter().map(|(trial, _)| *trial).collect();
        let dropped: HashSet<(TrialNumber, &Path)> =
            dropped.iter().map(|(trial, path)| (*trial, path.as_path())).collect();
        let holding = self.retention.holding.iter().filter_map(|number| self.state.trial(*number));
        let stays = holding
            .filter(|trial| trial.state == TrialState::Complete || losing.contains(&trial.number))
            .flat_map(|trial| trial.checkpoints.iter().map(|saved| (trial.number, &saved.path)))
            .filter(|(number, path)| !dropped.contains(&(*number, path.as_path())));
        let gone: Vec<Dropped> = stays
            .filter(|(number, path)| is_gone(*number, path))
            .map(|(number, path)| (number, path.clone()))
            .collect();
        let was_any = !gone.is_empty();
        self.forget(gone);
        was_any
    }

    /// Forgets which of a trial's checkpoints are gone: its attempt has ended, and may have removed
    /// some of its own.
    pub(super) fn forget_gone_of(&mut self, number: TrialNumber) {
        let Some(is_gone) = &self.is_gone else { return };
        let own = self.state.trial(number).map(|trial| trial.checkpoints.iter());
        let gone = own.into_iter().flatten().filter(|saved| is_gone(number, &saved.path));
        let gone = gone.map(|saved| (number, saved.path.clone())).collect();
        self.forget(gone);
    }

    fn forget(&mut self, gone: Vec<Dropped>) {
        for (trial, path) in gone {
            self.emit(Event::of(trial, CheckpointEvent::Dropped { path }));
        }
    }

    /// At the pause of a member of a population: what it saved up to there is no longer held.
    pub(super) fn release_held(&mut self, number: TrialNumber) {
        let is_unfinished = |trial: &Trial| !trial.state.is_finished();
        if self.retention.rule.held == Held::OfRunning
            && self.state.trial(number).is_some_and(is_unfinished)
        {
            self.drop_superseded(number);
        }
    }

    /// Tells that a command loses checkpoints while it runs.
    fn remark_on_removal(&mut self, dropped: &[Dropped]) {
        let held: BTreeSet<TrialNumber> =
            dropped.iter().filter(|(_, path)| !is_copy(path)).map(|(trial, _)| *trial).collect();
        for number in held {
            let running = self.slots.running().find(|running| running.trial == number);
            let Some(attempt) = running.map(|running| running.attempt) else { continue };
            if self.retention.rule.held != Held::Nobodys
                && !self.remarked.contains(&(number, RemarkKind::Removed))
            {
                let why = "checkpoints of its own were removed while it runs: all together they \
                           exceed `[checkpoints] max_disk`";
                self.remark(number, attempt, &Remark::new(RemarkKind::Removed, why));
            }
        }
    }

    /// Records a new checkpoint of a running trial; if it exceeds the space, a trial without
    /// prospects loses it at once.
    ///
    /// A trial that may be paused, or is about to leave, needs it to continue from.
    pub(super) fn record_checkpoint(&mut self, number: TrialNumber, slot: usize, path: &Path) {
        self.drop_superseded(number);
        let running = self.slots[slot].running.as_ref();
        if self.retention.exceeded
            && !running.is_some_and(RunningAttempt::is_leaving)
            && self.pruner.first_rung(number).is_none()
            && self.cleared(number).is_some_and(|own| self.retention.cannot_win(&self.state, &own))
            && self.lists(number, |listed| listed == path)
        {
            let dropped = vec![(number, path.to_owned())];
            self.remark_on_removal(&dropped);
            self.drop_all(dropped);
            self.tidy();
        }
    }

    /// A copy was taken of what the command overwrites: the original is no longer a checkpoint of
    /// an earlier step.
    pub(super) fn forget_original(&mut self, number: TrialNumber, copy: &Path) {
        if let Some(path) =
            original_of(copy).filter(|original| self.lists(number, |listed| listed == original))
        {
            self.emit(Event::of(number, CheckpointEvent::Dropped { path }));
        }
    }

    /// Drops checkpoints, except those from which another trial of a population is about to
    /// continue: these go with a later plan.
    pub(super) fn drop_all(&mut self, mut dropped: Vec<Dropped>) {
        // Also where the study has another pruner by now.
        if !dropped.is_empty() && self.state.trials.iter().any(|trial| !trial.segments.is_empty()) {
            let donated = self.state.donated();
            dropped.retain(|(trial, path)| !donated.contains(&(*trial, path.as_path())));
        }
        for (trial, path) in dropped {
            let original = original_of(&path);
            self.drop_one(trial, path);
            // An original that the command overwrites is removed with the last of its copies.
            let is_needed = |original: &PathBuf| {
                self.lists(trial, |listed| {
                    listed.starts_with(original) || original_of(listed).as_ref() == Some(original)
                })
            };
            if let Some(original) = original.filter(|original| !is_needed(original)) {
                self.drop_one(trial, original);
            }
        }
    }

    fn drop_one(&mut self, trial: TrialNumber, path: PathBuf) {
        self.emit(Event::of(trial, CheckpointEvent::Dropped { path: path.clone() }));
        self.effects.push(Effect::Remove { trial, path });
    }

    /// Whether a trial has such a checkpoint.
    fn lists(&self, number: TrialNumber, is_such: impl Fn(&Path) -> bool) -> bool {
        self.state.trial(number).is_some_and(|trial| {
            trial.checkpoints.iter().any(|checkpoint| is_such(&checkpoint.path))
        })
    }
}
