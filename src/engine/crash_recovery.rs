//! After a crash: what the runner that was killed had spent, and what becomes of the attempts that
//! it left open.

use std::collections::BTreeMap;

use super::Engine;
use super::device_time::DeviceMeter;
use crate::study::decision::Decision;
use crate::study::device::Device;
use crate::study::event::{AttemptEnd, Event, RunnerEvent, StudyEvent, TrialEvent};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber, TrialState};

/// The end of a runner that was killed, to be written instead of it: when it was last heard, and
/// how long it had run until then. While the study was paused and nothing ran, time stood still.
///
/// `events`: what was written since the runner began, in order, its own beginning first; `None` if
/// that is not there. `paused`: whether the study is paused at the end of it.
pub fn end_of_killed_runner<'a>(
    paused: bool,
    events: impl IntoIterator<Item = (Timestamp, &'a Event)>,
) -> Option<Event> {
    // Anyone may write notes and tags, at any time.
    let mut events = events.into_iter().filter(|(_, event)| !event.is_entry()).peekable();
    let (begun, Event::Runner(RunnerEvent::Started { .. })) = *events.peek()? else { return None };
    let mut heard = begun;
    let mut running: BTreeMap<(TrialNumber, AttemptNumber), Device> = BTreeMap::new();
    let mut meter = DeviceMeter::default();
    // From when on the study was paused (or not), and nothing ran (or something did).
    let (mut pauses, mut rests) = (Vec::new(), Vec::new());
    for (at, event) in events {
        // Clocks may be set back.
        heard = heard.max(at);
        match event {
            Event::Study(StudyEvent::Paused { .. }) => pauses.push((at, true)),
            Event::Study(StudyEvent::Resumed { .. }) => pauses.push((at, false)),
            Event::Trial(trial, TrialEvent::AttemptStarted { attempt, slot, .. }) => {
                meter.start(&slot.device, at);
                running.insert((*trial, *attempt), slot.device.clone());
                rests.push((at, running.is_empty()));
            }
            Event::Trial(trial, TrialEvent::AttemptEnded { attempt, .. }) => {
                if let Some(device) = running.remove(&(*trial, *attempt)) {
                    meter.end(&device, at);
                }
                rests.push((at, running.is_empty()));
            }
            _ => {}
        }
    }
    let paused_before = pauses.first().map_or(paused, |(_, is_paused)| !is_paused);
    let idle = idle_micros(begun, heard, paused_before, &pauses, &rests);
    Some(Event::Runner(RunnerEvent::Stopped {
        reason: "it was killed".to_owned(),
        ran_micros: heard.0.saturating_sub(begun.0).saturating_sub(idle).max(0),
        heard: Some(heard),
        device_micros: i64::try_from(meter.untold(heard).as_micros()).unwrap_or(i64::MAX),
    }))
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

impl Engine {
    /// Closes the attempts that a dead runner left open.
    pub(super) fn recover(&mut self) {
        for number in self.trials_that(|trial| trial.state == TrialState::Running) {
            let Some(trial) = self.view.trial(number) else { continue };
            let Some(attempt) = trial.last_attempt() else { continue };
            let (until, last, continued) = (trial.until, trial.last(), trial.continued);
            let decision = last.and_then(|(step, _)| trial.decision_at(step));
            let verdict = decision.map(|decision| decision.verdict.clone());
            // What its device was used for is told with the end of that runner.
            self.emit(Event::Trial(
                number,
                TrialEvent::AttemptEnded {
                    attempt,
                    end: AttemptEnd::Lost,
                    reason: Some("the runner died".to_owned()),
                    device_micros: Some(0),
                    memory: None,
                },
            ));
            // A pause counts if the attempt was to reach it; otherwise it is the one that this
            // attempt was resumed from.
            let arrived = until.zip(last).is_some_and(|(until, (step, _))| until <= step);
            match (verdict, self.hold_of(number)) {
                _ if continued.is_some() && arrived => self.complete(number, None),
                (Some(Decision::Stop(reason)), _) if continued.is_none() => {
                    self.finish_trial(number, TrialState::Pruned, None, Some(reason.to_string()))
                }
                (Some(Decision::Pause(reason)), hold) if arrived && continued.is_none() => {
                    self.emit(Event::Trial(
                        number,
                        TrialEvent::Paused { reason: reason.to_string(), hold },
                    ));
                }
                (_, Some(hold)) => self.hold(number, hold),
                _ => {
                    self.queue_again(number, "its runner died");
                    self.queue.recover(number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::device::Slot;

    const SECOND: i64 = 1_000_000;

    fn ran(paused: bool, events: &[(i64, Event)]) -> Option<(i64, i64)> {
        let started =
            Event::Runner(RunnerEvent::Started { pid: 1, host: "h".to_owned(), slots: Vec::new() });
        let all: Vec<(Timestamp, &Event)> = [(Timestamp(0), &started)]
            .into_iter()
            .chain(events.iter().map(|(at, event)| (Timestamp(at * SECOND), event)))
            .collect();
        match end_of_killed_runner(paused, all)? {
            Event::Runner(RunnerEvent::Stopped { ran_micros, heard: Some(heard), .. }) => {
                Some((ran_micros / SECOND, heard.0 / SECOND))
            }
            other => panic!("{other:?}"),
        }
    }

    fn start() -> Event {
        Event::Trial(
            TrialNumber(0),
            TrialEvent::AttemptStarted {
                attempt: AttemptNumber(0),
                slot: Slot { index: 0, device: Device::Cpu },
                resume: None,
                until: None,
                rows_at_once: None,
                device_micros: 0,
            },
        )
    }

    fn end() -> Event {
        Event::Trial(
            TrialNumber(0),
            TrialEvent::AttemptEnded {
                attempt: AttemptNumber(0),
                end: AttemptEnd::Interrupted,
                reason: None,
                device_micros: None,
                memory: None,
            },
        )
    }

    fn pause() -> Event {
        Event::Study(StudyEvent::Paused { reason: "paused by you".to_owned() })
    }

    fn resume() -> Event {
        Event::Study(StudyEvent::Resumed { reason: "resumed by you".to_owned() })
    }

    #[test]
    fn a_killed_runner_ran_until_it_was_last_heard_and_notes_are_not_its_own() {
        let note = Event::Study(StudyEvent::Noted { text: "by hand".to_owned() });
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
        let left = [(1, start()), (10, pause()), (12, end())];
        let resumed = [&left[..], &[(100, resume()), (100, start()), (105, end())]].concat();
        assert_eq!(ran(false, &resumed), Some((17, 105)));
        // Killed while it was paused: whatever it wrote last.
        let paused = [&left[..], &[(50, pause())]].concat();
        assert_eq!(ran(true, &paused), Some((12, 50)));
        // Paused from its beginning on.
        assert_eq!(ran(false, &[(40, resume()), (40, start()), (45, end())]), Some((5, 45)));
        assert_eq!(ran(true, &[]), Some((0, 0)));
    }
}
