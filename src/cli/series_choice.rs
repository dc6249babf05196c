//! `--metric`, `--clock` and `--wall`: which series of trials is meant.

use std::collections::BTreeSet;

use clap::Args;

use super::exit::Failure;
use crate::app::curves::By;
use crate::report::wording::one_line;
use crate::study::series::{SeriesClock, SeriesSummary};

/// A series, and what it is drawn by.
#[derive(Clone, Debug, Default, Args)]
pub struct SeriesArguments {
    /// Another metric than the study's: any that trials reported or logged
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// The clock of the steps, where the metric has several [default: the study's]
    #[arg(long, value_name = "CLOCK", value_parser = clock_of)]
    pub clock: Option<SeriesClock>,
    /// Draw by seconds since each trial began instead of steps
    #[arg(long)]
    pub wall: bool,
}

fn clock_of(word: &str) -> Result<SeriesClock, String> {
    SeriesClock::from_word(word).ok_or_else(|| "it is step, epoch, samples or seconds".to_owned())
}

impl SeriesArguments {
    /// What curves are drawn by.
    pub fn by(&self) -> By {
        if self.wall { By::Wall } else { By::Step }
    }

    /// Whether something else is asked for than the study's metric by its steps.
    pub fn is_given(&self) -> bool {
        self.metric.is_some() || self.clock.is_some() || self.wall
    }

    /// Those of the trials' series that are of `metric`.
    ///
    /// # Errors
    /// They have others, but none of this metric, or none of it on the clock that is asked for.
    pub fn of<'a>(
        &self,
        all: &'a [SeriesSummary],
        metric: &str,
    ) -> Result<Vec<&'a SeriesSummary>, Failure> {
        let own: Vec<&SeriesSummary> =
            all.iter().filter(|series| series.metric == metric).collect();
        let known: BTreeSet<&str> = all.iter().map(|series| series.metric.as_str()).collect();
        if own.is_empty() && !known.is_empty() {
            let failure = Failure::usage(format!("these trials report no `{}`", one_line(metric)));
            return Err(failure.known(metric, "they report", known));
        }
        let clocks: BTreeSet<SeriesClock> = own.iter().map(|series| series.clock).collect();
        if let Some(clock) = self.clock
            && !clocks.is_empty()
            && !clocks.contains(&clock)
        {
            let message = format!("these trials have no `{}` by {clock}", one_line(metric));
            let clocks: Vec<&str> = clocks.into_iter().map(SeriesClock::as_str).collect();
            let help = format!("they have it by {}", clocks.join(" and "));
            return Err(Failure::usage(message).help(help));
        }
        Ok(own)
    }
}
