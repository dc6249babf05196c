//! Files of an agent's trials that arrive from its runner, and those that are sent there.

use super::carrying::Arrived;
use super::work::Work;
use super::{Agent, AgentEnd};
use crate::cluster::message::{ToRunner, bytes};
use crate::cluster::transfer::Carried;
use crate::engine::Input;
use crate::study::event::AttemptEnd;

impl Agent {
    /// Takes in a part of files that it asked for.
    pub(super) fn arrive(&mut self, message: Carried) {
        let Some(carrying) = self.work.as_mut().and_then(|work| work.carrying.as_mut()) else {
            return;
        };
        let arrived = carrying.arrive(message);
        self.take(arrived);
        // Before the window is full: it would be the next ping.
        self.send_raw(None, &bytes(&ToRunner::Received));
    }

    fn take(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Nothing => {}
            Arrived::Checkpoint(assignments) => {
                assignments.into_iter().for_each(|assignment| self.start(assignment));
            }
            Arrived::Inputs => self.take_inputs(),
            Arrived::Failed { why, is_input: true, .. } => self.leave(AgentEnd::Unusable(why)),
            Arrived::Failed { why, attempts, .. } => {
                for attempt in attempts {
                    self.end_unbegun(attempt, AttemptEnd::Refused, Some(why.clone()));
                }
            }
        }
    }

    fn take_inputs(&mut self) {
        let taken = self.work.as_mut().map_or(Ok(()), Work::take_inputs);
        if self.leaving.is_none()
            && let Err(why) = taken.and_then(|()| self.put_slots())
        {
            self.leave(AgentEnd::Unusable(why));
        }
    }

    /// Sends the next pieces of files, and what waited for them.
    pub(super) fn carry(&mut self) {
        let carrying = self.work.as_mut().and_then(|work| work.carrying.as_mut());
        let Some(carrying) = carrying else { return };
        let ready = carrying.send(&mut self.outbox);
        let heard = carrying.waiting_to_be_heard();
        let (requests, arrived) = carrying.arrived();
        self.send();
        ready.into_iter().for_each(|input| self.relay(input));
        for (trial, attempt) in heard {
            self.put(&ToRunner::Input(Input::Heard { trial, attempt }));
        }
        for request in requests {
            self.put(&request);
        }
        arrived.into_iter().for_each(|arrived| self.take(arrived));
    }
}
