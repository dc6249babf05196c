//! What a runner that was killed had spent, of its time and its devices': it could not say so itself, its part of the journal does.

use std::collections::BTreeMap;

use super::meter::Meter;
use crate::study::device::Device;
use crate::study::event::Event;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The end of a runner that was killed, to be written in its stead: when it was last heard, and how long it had run until
/// then. While the study was paused and nothing ran, time stood still.
///
/// `events`: what was written since the runner began, in order, its own beginning first; `None` if that is not there.
/// `paused`: whether the study is paused at the end of it.
pub fn end_of_killed_runner<'a>(
    paused: bool,
    events: impl IntoIterator<Item = (Timestamp, &'a Event)>,
) -> Option<Event> {
    // Anyone may write notes and tags, at any time.
    let mut events = events
        .into_iter()
        .filter(|(_, event)| !matches!(event, Event::Noted { .. } | Event::Tagged { .. }))
        .peekable();
    let (begun, Event::RunnerStarted { .. }) = *events.peek()? else { return None };
    let mut spent = Spent {
        heard: begun,
        running: BTreeMap::new(),
        stretches: Vec::new(),
        meter: Meter::default(),
    };
    let mut changes = Vec::new();
    for (at, event) in events {
        // Clocks may be set back.
        spent.heard = spent.heard.max(at);
        match event {
            Event::StudyPaused { .. } => changes.push((at, true)),
            Event::StudyResumed { .. } => changes.push((at, false)),
            Event::AttemptStarted { trial, attempt, slot, .. } => {
                spent.meter.start(&slot.device, at);
                spent.running.insert((*trial, *attempt), slot.device.clone());
                spent.stretches.push((at, spent.running.is_empty()));
            }
            Event::AttemptEnded { trial, attempt, .. } => {
                if let Some(device) = spent.running.remove(&(*trial, *attempt)) {
                    spent.meter.end(&device, at);
                }
                spent.stretches.push((at, spent.running.is_empty()));
            }
            _ => {}
        }
    }
    let paused_before = changes.first().map_or(paused, |(_, is_paused)| !is_paused);
    let idle = idle_micros(begun, spent.heard, paused_before, &changes, &spent.stretches);
    let ran_micros = spent.heard.0.saturating_sub(begun.0).saturating_sub(idle).max(0);
    let device_micros =
        i64::try_from(spent.meter.untold(spent.heard).as_micros()).unwrap_or(i64::MAX);
    Some(Event::RunnerStopped {
        reason: "it was killed".to_owned(),
        ran_micros,
        heard: Some(spent.heard),
        device_micros,
    })
}

/// What is gathered from the journal.
struct Spent {
    heard: Timestamp,
    /// What ran, and where.
    running: BTreeMap<(TrialNumber, AttemptNumber), Device>,
    /// The time of devices.
    meter: Meter,
    /// From when on nothing ran (or something did).
    stretches: Vec<(Timestamp, bool)>,
}

/// Microseconds between two moments in which the study was paused and nothing ran.
fn idle_micros(
    begun: Timestamp,
    end: Timestamp,
    mut paused: bool,
    pauses: &[(Timestamp, bool)],
    rests: &[(Timestamp, bool)],
) -> i64 {
    let mut moments: Vec<Timestamp> =
        pauses.iter().chain(rests).map(|(at, _)| *at).chain([end]).collect();
    moments.sort_unstable();
    let (mut pauses, mut rests) = (pauses.iter().peekable(), rests.iter().peekable());
    let (mut rests_now, mut since, mut idle) = (true, begun, 0);
    for at in moments {
        if paused && rests_now {
            idle += at.0.saturating_sub(since.0).max(0);
        }
        while let Some((_, now)) = pauses.next_if(|(when, _)| *when <= at) {
            paused = *now;
        }
        while let Some((_, now)) = rests.next_if(|(when, _)| *when <= at) {
            rests_now = *now;
        }
        since = since.max(at);
    }
    idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::device::Slot;
    use crate::study::event::AttemptEnd;

    const SECOND: i64 = 1_000_000;

    fn ran(paused: bool, events: &[(i64, Event)]) -> Option<(i64, i64)> {
        let started = Event::RunnerStarted { pid: 1, host: "h".to_owned(), slots: Vec::new() };
        let all: Vec<(Timestamp, &Event)> = [(Timestamp(0), &started)]
            .into_iter()
            .chain(events.iter().map(|(at, event)| (Timestamp(at * SECOND), event)))
            .collect();
        match end_of_killed_runner(paused, all)? {
            Event::RunnerStopped { ran_micros, heard: Some(heard), .. } => {
                Some((ran_micros / SECOND, heard.0 / SECOND))
            }
            other => panic!("{other:?}"),
        }
    }

    fn start() -> Event {
        let slot = Slot { index: 0, device: Device::Cpu };
        Event::AttemptStarted {
            trial: TrialNumber(0),
            attempt: AttemptNumber(0),
            slot,
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        }
    }

    fn end() -> Event {
        Event::AttemptEnded {
            trial: TrialNumber(0),
            attempt: AttemptNumber(0),
            end: AttemptEnd::Interrupted,
            reason: None,
            device_micros: None,
            memory: None,
        }
    }

    fn pause() -> Event {
        Event::StudyPaused { reason: "paused by you".to_owned() }
    }

    fn resume() -> Event {
        Event::StudyResumed { reason: "resumed by you".to_owned() }
    }

    #[test]
    fn a_killed_runner_ran_until_it_was_last_heard_and_notes_are_not_its_own() {
        let note = Event::Noted { trial: None, text: "by hand".to_owned() };
        assert_eq!(ran(false, &[(3, start()), (70, note)]), Some((3, 3)));
        assert_eq!(
            end_of_killed_runner(false, [(Timestamp(1), &start())]),
            None,
            "its beginning is not there"
        );
    }

    #[test]
    fn time_stands_still_while_the_study_is_paused_and_nothing_runs() {
        // Paused at 10, its trial leaves at 12, resumed at 100, heard last at 105.
        let paused = [
            (1, start()),
            (10, pause()),
            (12, end()),
            (100, resume()),
            (100, start()),
            (105, end()),
        ];
        assert_eq!(ran(false, &paused), Some((17, 105)));
        // Killed while it was paused: whatever it wrote last.
        assert_eq!(
            ran(true, &[(1, start()), (10, pause()), (12, end()), (50, pause())]),
            Some((12, 50))
        );
        // Paused from its beginning on.
        assert_eq!(ran(false, &[(40, resume()), (40, start()), (45, end())]), Some((5, 45)));
        assert_eq!(ran(true, &[]), Some((0, 0)));
    }
}
