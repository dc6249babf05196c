//! Resource usage of a logging program's processes, as series of its run.

#![expect(clippy::disallowed_methods, reason = "the ids of this process and its program")]

use std::sync::Arc;

use super::spool::Header;
use super::{Run, TrackingError};
use crate::runner::peak_memory::{self, PeakMemory};
use crate::runner::point_queue::PointQueue;
use crate::runner::processes;
use crate::runner::system_metrics::SystemMetrics;
use crate::storage::Storage;
use crate::study::field;
use crate::study::series::LoggedSeries;
use crate::study::spec::TrackSpec;

/// Measures the program of a run, if it is this writer's own.
#[derive(Debug)]
pub(super) struct Measuring {
    program: Option<u32>,
    points: Arc<PointQueue>,
    peak: PeakMemory,
    /// Measures until it is dropped.
    _system: Option<SystemMetrics>,
}

impl Measuring {
    /// Starts measuring the program that the header names.
    pub fn start(run: &Run, header: &Header) -> Self {
        let points = Arc::<PointQueue>::default();
        let program = header.pid.filter(|pid| *pid == std::os::unix::process::parent_id());
        let wanted = header.system.as_deref().and_then(|text| field::period(text).ok());
        let period = wanted.unwrap_or(TrackSpec::default().system).filter(|_| program.is_some());
        // If no thread can be started, there are no such series.
        let system =
            period.and_then(|period| SystemMetrics::start(period, Arc::clone(&points)).ok());
        if let (Some(system), Some(pid)) = (&system, program) {
            system.follow_run(run.number(), run.attempt(), pid);
        }
        Measuring { program, points, peak: PeakMemory::start(), _system: system }
    }

    /// The measurements since the last call; at the end of the run with the peak.
    pub fn points(
        &mut self,
        storage: &mut dyn Storage,
        run: &Run,
        is_last: bool,
    ) -> Result<Vec<LoggedSeries>, TrackingError> {
        let Some(pid) = self.program else { return Ok(Vec::new()) };
        let tree = || {
            let below = processes::descendants(pid).into_iter();
            below.filter(|pid| *pid != std::process::id()).chain([pid]).collect()
        };
        if is_last {
            self.peak.look_now(tree());
            if let Some(bytes) = self.peak.bytes() {
                let (trial, attempt) = (run.number(), run.attempt());
                self.points.measure(trial, attempt, peak_memory::measured(bytes));
            }
        } else {
            self.peak.look(tree);
        }
        if !is_last && !self.points.is_due() {
            return Ok(Vec::new());
        }
        let study = run.study().id;
        Ok(self.points.take(run.clock(), |trial| storage.began(study, trial))?)
    }
}
