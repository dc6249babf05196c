//! The direction of a metric on the command line.

use clap::ValueEnum;

use crate::study::metric::Direction;

/// Which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Smaller ones.
    Minimize,
    /// Larger ones.
    Maximize,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Direction {
        match way {
            Way::Minimize => Direction::Minimize,
            Way::Maximize => Direction::Maximize,
        }
    }
}
