//! The reporter `events`: one JSON object per line with the journal position, the time and the
//! event.

use std::io;

use serde::Serialize;

use super::{Happening, LeftOut, Reporter};
use crate::config::shown::json;
use crate::study::event::{Event, Seq};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;

/// Writes `{"seq":..,"at":..,"event":{"type":..}}` for each event; `at` is in microseconds since
/// 1970 in UTC.
pub(super) struct Events;

#[derive(Serialize)]
struct EventLine<'a> {
    seq: Seq,
    at: Timestamp,
    event: &'a Event,
}

/// Replaces events dropped for a stalled reader: `hpsearch events` has them.
#[derive(Serialize)]
struct Skipped {
    event: &'static str,
    after: Seq,
    count: u64,
}

impl Reporter for Events {
    fn study_started(
        &mut self,
        _out: &mut dyn io::Write,
        _at: Timestamp,
        _spec: &StudySpec,
        _state: &StudyState,
    ) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, out: &mut dyn io::Write, happening: &Happening<'_>) -> io::Result<()> {
        let line = EventLine { seq: happening.seq, at: happening.at, event: happening.event };
        writeln!(out, "{}", json(&serde_json::to_string(&line)?))?;
        out.flush()
    }

    fn left_out(&mut self, out: &mut dyn io::Write, left_out: &LeftOut) -> io::Result<()> {
        let line = Skipped { event: "skipped", after: left_out.after, count: left_out.events };
        writeln!(out, "{}", serde_json::to_string(&line)?)?;
        out.flush()
    }

    fn study_ended(
        &mut self,
        _out: &mut dyn io::Write,
        _at: Timestamp,
        _reason: &str,
        _state: &StudyState,
    ) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::event::TrialEvent;
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::trial::{TrialNumber, TrialState};

    #[test]
    fn an_event_is_one_json_line_that_reads_back() {
        let spec =
            StudySpec::new("study", "loss", Direction::Minimize, Space::default(), Program::Inline);
        let event = Event::Trial(
            TrialNumber(3),
            TrialEvent::finished(TrialState::Complete, Some(f64::NAN), None),
        );
        let mut out = Vec::new();
        let happening = Happening {
            seq: Seq(12),
            at: Timestamp(1_000_000),
            event: &event,
            state: &StudyState::new(&spec),
        };
        Events.event(&mut out, &happening).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"seq\":12,\"at\":1000000,\"event\":{\"type\":\"trial_finished\",\"trial\":3,\
             \"state\":\"complete\",\"value\":\"NaN\",\"reason\":null}}\n"
        );
    }
}
