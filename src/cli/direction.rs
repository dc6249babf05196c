//! The direction of a metric on the command line.

use clap::ValueEnum;

use crate::study::metric::Direction;

/// Which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectionArgument {
    /// Smaller ones.
    Minimize,
    /// Larger ones.
    Maximize,
}

impl From<DirectionArgument> for Direction {
    fn from(direction: DirectionArgument) -> Direction {
        match direction {
            DirectionArgument::Minimize => Direction::Minimize,
            DirectionArgument::Maximize => Direction::Maximize,
        }
    }
}
