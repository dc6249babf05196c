//! The reporter of `[notify]`: one JSON object per line for each notice.

use std::io::{self, Write};

use super::journal::Journal;
use super::plain::is_new_best;
use super::progress::Progress;
use super::run_clock::RunClock;
use super::wording::{front_in_words, number, one_line, params, values};
use super::{Happening, LeftOut, Reporter};
use crate::study::device::Slot;
use crate::study::event::{AttemptEnd, Event, StudyEvent};
use crate::study::front;
use crate::study::notify::{Notice, Occasion};
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::state::{StudyState, shown_params};
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};
use crate::study::usage::Used;

/// The share of a budget that triggers its notice.
const NEARLY: f64 = 0.9;

/// The state needed to detect news.
struct Notices {
    spec: StudySpec,
    clock: RunClock,
    slots: Vec<Slot>,
    best: Option<(TrialNumber, f64)>,
    /// The front of several objectives so far.
    front: Journal,
    /// Whether the budget's notice was given.
    is_nearly_used: bool,
}

/// The reporter of a study's notices.
pub fn notices(spec: &StudySpec) -> Box<dyn Reporter> {
    Box::new(Notices {
        spec: spec.clone(),
        clock: RunClock::default(),
        slots: Vec::new(),
        best: None,
        front: Journal::default(),
        is_nearly_used: false,
    })
}

impl Notices {
    fn say(
        &self,
        out: &mut dyn Write,
        occasion: Occasion,
        trial: Option<TrialNumber>,
        text: &str,
    ) -> io::Result<()> {
        if !self.spec.notify.on.contains(&occasion) {
            return Ok(());
        }
        let study = self.spec.name.clone();
        let text = format!("{}: {}", one_line(&study), one_line(text));
        let notice = Notice { occasion, study, trial: trial.map(|trial| trial.0), text };
        writeln!(out, "{}", serde_json::to_string(&notice)?)
    }

    fn fraction(&self, happening: &Happening<'_>) -> f64 {
        let state = happening.state;
        let elapsed = self.clock.elapsed(happening.at);
        let used = Used::of(state, &self.slots).device_time(happening.at);
        let counts = state.counts.without(state.race_counts);
        Progress::new(&self.spec, counts, elapsed, used).fraction.unwrap_or(0.0)
    }
}

impl Reporter for Notices {
    fn study_started(
        &mut self,
        _out: &mut dyn Write,
        at: Timestamp,
        spec: &StudySpec,
        state: &StudyState,
    ) -> io::Result<()> {
        self.spec = spec.clone();
        self.clock = RunClock::start(at, state);
        self.best = state.leader();
        for (_, values) in front::points(&state.trials) {
            self.front.joins(state.directions(), &values);
        }
        Ok(())
    }

    fn event(&mut self, out: &mut dyn Write, happening: &Happening<'_>) -> io::Result<()> {
        self.clock.note(happening);
        let event = happening.event;
        if let Event::Study(StudyEvent::BudgetExtended { by }) = event {
            self.spec.budget.extend(*by);
            self.is_nearly_used = false;
        }
        if let Some(slots) = event.slots() {
            self.slots = slots.to_vec();
        }
        if let Some((trial, AttemptEnd::Failed(FailureCause::Timeout))) = event.attempt_end() {
            let text = Journal::line(happening, false);
            self.say(out, Occasion::Stalled, Some(trial), &text)?;
        }
        match event.finished_trial() {
            Some(trial) => self.finished(out, trial, happening),
            None => Ok(()),
        }
    }

    fn left_out(&mut self, _out: &mut dyn Write, _left_out: &LeftOut) -> io::Result<()> {
        Ok(())
    }

    fn study_ended(
        &mut self,
        out: &mut dyn Write,
        _at: Timestamp,
        reason: &str,
        state: &StudyState,
    ) -> io::Result<()> {
        let best = match state.leader() {
            Some((trial, value)) => format!("best: trial {trial} with {}", number(value)),
            None if state.has_several_objectives() && state.counts.complete > 0 => {
                front_in_words(&state.front())
            }
            None => "no trial has a value".to_owned(),
        };
        self.say(out, Occasion::Finished, None, &format!("the run ended: {reason}; {best}"))
    }
}

impl Notices {
    fn finished(
        &mut self,
        out: &mut dyn Write,
        number: TrialNumber,
        happening: &Happening<'_>,
    ) -> io::Result<()> {
        let state = happening.state;
        let Some(trial) = state.trial(number) else { return Ok(()) };
        if trial.state == TrialState::Failed {
            let text = Journal::line(happening, false);
            self.say(out, Occasion::Failed, Some(number), &text)?;
        }
        if self.front.take(happening) && state.has_several_objectives() {
            let reached = values(&trial.values);
            let text = format!(
                "trial {number} joins the front with {reached}, {}",
                params(shown_params(&self.spec, trial))
            );
            self.say(out, Occasion::Best, Some(number), &text)?;
        }
        let before = std::mem::replace(&mut self.best, state.leader());
        if is_new_best(number, before, self.best, state.direction())
            && let Some((_, value)) = self.best
        {
            let metric = &self.spec.objective().metric;
            let value = super::wording::number(value);
            let text = format!(
                "trial {number} is the best: {metric} {value}, {}",
                params(shown_params(&self.spec, trial))
            );
            self.say(out, Occasion::Best, Some(number), &text)?;
        }
        let fraction = self.fraction(happening);
        if !self.is_nearly_used && (NEARLY..1.0).contains(&fraction) {
            self.is_nearly_used = true;
            let text = format!("{:.0} % of the budget is used", fraction * 100.0);
            self.say(out, Occasion::Budget, None, &text)?;
        }
        Ok(())
    }
}
