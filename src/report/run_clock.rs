//! The clock of a run: its time without that in which the study was paused and nothing ran.

use std::time::Duration;

use super::Happening;
use super::wording::micros;
use crate::study::event::{Event, RunnerEvent};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;

/// The clock of a run, moved by the run's events.
#[derive(Debug, Default)]
pub(super) struct RunClock {
    started: Timestamp,
    /// Running time of the runs before.
    ran_before: Duration,
    idle_since: Option<Timestamp>,
    idle: Duration,
}

impl RunClock {
    /// The clock of a run that starts now.
    pub fn start(at: Timestamp, state: &StudyState) -> Self {
        RunClock {
            started: at,
            ran_before: micros(state.ran_micros),
            idle_since: is_idle(state).then_some(at),
            idle: Duration::ZERO,
        }
    }

    /// Notes whether the study is idle after an event.
    pub fn note(&mut self, happening: &Happening<'_>) {
        if let Event::Runner(RunnerEvent::Started { .. }) = happening.event {
            // Until then the time of a killed run before it is unknown.
            self.ran_before = micros(happening.state.ran_micros);
        }
        match (is_idle(happening.state), self.idle_since) {
            (true, None) => self.idle_since = Some(happening.at),
            (false, Some(since)) => {
                self.idle += happening.at.since(since);
                self.idle_since = None;
            }
            _ => {}
        }
    }

    /// The time in which the study was idle in this run.
    pub fn idle(&self, now: Timestamp) -> Duration {
        self.idle + self.idle_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// The running time of this run.
    pub fn ran(&self, now: Timestamp) -> Duration {
        now.since(self.started).saturating_sub(self.idle(now))
    }

    /// The running time of all runs.
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        self.ran_before + self.ran(now)
    }
}

fn is_idle(state: &StudyState) -> bool {
    state.paused.is_some() && state.counts.running == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::event::{Seq, StudyEvent};
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::spec::StudySpec;

    #[test]
    fn a_paused_study_does_not_grow_older() {
        let space = Space::default();
        let spec = StudySpec::new("s", "loss", Direction::Minimize, space, Program::Inline);
        let mut state = StudyState::new(&spec);
        state.ran_micros = 5_000_000;
        let second = |second: i64| Timestamp(second * 1_000_000);
        let seconds = Duration::from_secs;
        let mut clock = RunClock::start(second(10), &state);
        let mut note = |at: i64, event: StudyEvent| {
            let event = Event::Study(event);
            state.apply(second(at), &event);
            let at = second(at);
            clock.note(&Happening { seq: Seq(1), at, event: &event, state: &state });
            (clock.ran(second(100)), clock.idle(second(100)), clock.elapsed(second(100)))
        };
        let paused = StudyEvent::Paused { reason: "asked".to_owned() };
        assert_eq!(note(30, paused), (seconds(20), seconds(70), seconds(25)));
        let resumed = StudyEvent::Resumed { reason: "asked".to_owned() };
        assert_eq!(note(90, resumed), (seconds(30), seconds(60), seconds(35)));
    }
}
