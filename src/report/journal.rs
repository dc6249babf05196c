//! The whole journal as lines for people: what the reporter `plain` says, and what it leaves out.

use super::Happening;
use super::plain;
use super::wording::{
    attempt_end, disk_exceeded, duration, extension, micros, number, one_line, param, passed_over,
    slots,
};
use crate::study::decision::Verdict;
use crate::study::event::{Answer, Event};
use crate::study::metric::{Direction, Score};
use crate::study::trial::{Origin, TrialState};

/// Says what each event of a journal means; it has to be told all of them, in order.
#[derive(Debug, Default)]
pub struct Journal {
    best: Option<Score>,
}

impl Journal {
    /// Takes an event in, and tells whether it gave the study its best value. Looking for the best among all trials at
    /// each end would take the square of their number.
    pub fn take(&mut self, happening: &Happening<'_>) -> bool {
        let Event::TrialFinished { state: TrialState::Complete, value: Some(value), .. } =
            happening.event
        else {
            return false;
        };
        let score = Score::new(happening.view.direction(), *value);
        let is_best = !value.is_nan() && self.best.is_none_or(|best| score < best);
        if is_best {
            self.best = Some(score);
        }
        is_best
    }

    /// Is told a value that a trial ended with before the first event that is taken in.
    pub fn know(&mut self, direction: Direction, value: f64) {
        let score = Score::new(direction, value);
        if !value.is_nan() && self.best.is_none_or(|best| score < best) {
            self.best = Some(score);
        }
    }

    /// One line about an event that was just taken in.
    pub fn line(happening: &Happening<'_>, is_best: bool) -> String {
        let line = plain::line(happening, |_| is_best);
        line.unwrap_or_else(|| one_line(&other(happening)))
    }
}

/// The events that the reporter is silent about.
fn other(happening: &Happening<'_>) -> String {
    let clock = happening.view.clock().as_str();
    match happening.event {
        Event::RunnerStarted { .. } => "a runner took the study up".to_owned(),
        Event::RunnerDescribed { lineage } => {
            format!("it is hpsearch {} on {}", lineage.hpsearch.version, lineage.machine.system)
        }
        Event::ResultsKnown { trial } => {
            format!("results of trial {trial} are known to decisions from here on")
        }
        // The reporter has a line for these.
        Event::RaceBegun { .. } | Event::RaceDropped { .. } | Event::RaceWon { .. } => {
            String::new()
        }
        Event::WinnerTested { trial, .. } => {
            format!("trial {trial} was measured on the test split")
        }
        Event::RunnerStopped { reason, ran_micros, .. } => {
            format!("the runner left after {}: {reason}", duration(micros(*ran_micros)))
        }
        Event::TrialCreated { trial, params, origin } => {
            let pairs: Vec<String> =
                params.iter().map(|(name, value)| format!("{name}={}", param(value))).collect();
            format!("trial {trial} {}: {}", source(origin), pairs.join(" "))
        }
        Event::AttemptStarted { trial, attempt, slot, .. } => {
            format!("trial {trial} attempt {attempt} started on {}", slot.device)
        }
        Event::AttemptLaunched { trial, attempt, pid, .. } => {
            format!("trial {trial} attempt {attempt} is process {pid}")
        }
        Event::Reported { trial, step, metrics, .. } => {
            let pairs: Vec<String> =
                metrics.iter().map(|(name, value)| format!("{name} {}", number(value))).collect();
            format!("trial {trial} {clock} {step}: {}", pairs.join(", "))
        }
        // The reporter has a line for it.
        Event::Remarked { .. } => String::new(),
        Event::Decided { trial, step, verdict } => match verdict {
            Verdict::Continue(reason) => {
                format!(
                    "trial {trial} goes on at {clock} {step}{}",
                    because(reason.as_ref().map(|reason| reason.0.as_str()))
                )
            }
            Verdict::Pause(reason) => {
                format!("trial {trial} shall pause at {clock} {step}: {reason}")
            }
            Verdict::Stop(reason) => {
                format!("trial {trial} shall stop at {clock} {step}: {reason}")
            }
        },
        Event::CheckpointSaved { trial, step, path, .. } => {
            format!("trial {trial} saved a checkpoint at {clock} {step}: {}", path.display())
        }
        Event::CheckpointDropped { trial, path } => {
            format!("trial {trial} no longer needs the checkpoint {}", path.display())
        }
        Event::AttemptEnded { trial, attempt, end, reason, .. } => {
            format!(
                "trial {trial} attempt {attempt} ended: {}{}",
                attempt_end(Some(end)),
                because(reason.as_deref())
            )
        }
        Event::TrialQueued { trial, reason, .. } => format!("trial {trial} queued again: {reason}"),
        Event::TrialPaused { trial, reason, .. } => format!("trial {trial} paused: {reason}"),
        Event::TrialContinued { trial, until, from } => {
            format!("trial {trial}, {} before, goes on to {clock} {until}", from.as_str())
        }
        Event::TrialHeld { trial, hold: Some(_) } => format!("trial {trial} is to pause"),
        Event::TrialHeld { trial, hold: None } => format!("trial {trial} need not pause any more"),
        Event::LimitsBroken { trial, reason, .. } => {
            format!("trial {trial} breaks limits: {reason}")
        }
        Event::TrialFinished { trial, state, reason, .. } => {
            format!("trial {trial} {}{}", state.as_str(), because(reason.as_deref()))
        }
        Event::StudyFinished { reason } => format!("the study is over: {reason}"),
        Event::StudyReopened { reason } => format!("the study goes on: {reason}"),
        Event::StudyPaused { reason } => format!("the study is paused: {reason}"),
        Event::StudyResumed { reason } => format!("the study is resumed: {reason}"),
        Event::BudgetExtended { by } => format!("the budget is raised by {}", extension(*by)),
        Event::DevicePaused { device } => format!("{device} is paused by you"),
        Event::DeviceResumed { device } => format!("{device} is resumed by you"),
        Event::SlotsChanged { slots: now } => format!("the study has {} now", slots(now)),
        Event::PassedOver { trial, points, reason } => {
            format!("for trial {trial} {}", passed_over(*points, reason))
        }
        // The reporter has a line for it.
        Event::Packed { .. } => String::new(),
        Event::DiskExceeded { bytes, limit } => disk_exceeded(*bytes, *limit),
        Event::Noted { trial, text } => format!("note on {}: {text}", subject(*trial)),
        Event::Tagged { trial, tag, present: true } => {
            format!("{} is tagged `{tag}`", subject(*trial))
        }
        Event::Tagged { trial, tag, present: false } => {
            format!("{} is no longer tagged `{tag}`", subject(*trial))
        }
        Event::RequestServed { id, answer: Answer::Done(said) } => {
            format!("request {id} done: {said}")
        }
        Event::RequestServed { id, answer: Answer::Refused(said) } => {
            format!("request {id} refused: {said}")
        }
    }
}

fn source(origin: &Origin) -> String {
    match origin {
        Origin::Sampled(sampler) => format!("proposed by {sampler}"),
        Origin::Enqueued(_) => "enqueued by the study file".to_owned(),
        Origin::Asked => "enqueued by its user".to_owned(),
        Origin::Replicate(of) => format!("trial {of} on another seed"),
        Origin::Repeat(of) => format!("proposed again, as trial {of}"),
        Origin::Race { of, round, .. } => format!("trial {of} in round {} of the race", round + 1),
    }
}

fn subject(trial: Option<crate::study::trial::TrialNumber>) -> String {
    trial.map_or_else(|| "the study".to_owned(), |trial| format!("trial {trial}"))
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}
