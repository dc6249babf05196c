//! Which values of a metric are better, as the command line has it.

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
