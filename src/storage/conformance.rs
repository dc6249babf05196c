//! The conformance suite of stores: `run` it with a function that makes empty stores.

mod folding;
mod journal;
mod leases;
mod listing;
mod queries;
mod records;
mod series;

use super::{Storage, StorageError};

pub use journal::{random_journal, small_study};

/// Opens handles on one store, as processes would: all see the same data.
pub type Opener = Box<dyn FnMut() -> Box<dyn Storage>>;

type Case = fn(&mut Opener) -> Result<(), StorageError>;

const SUITES: &[&[(&str, Case)]] =
    &[leases::CASES, records::CASES, series::CASES, listing::CASES, queries::CASES, folding::CASES];

/// Runs every case, each on a fresh, empty store from `fresh`.
///
/// # Panics
/// When a case fails; the message names the case.
pub fn run(fresh: &mut dyn FnMut() -> Opener) {
    for (name, case) in SUITES.iter().copied().flatten() {
        if let Err(error) = case(&mut fresh()) {
            panic!("{name}: {error} ({error:?})");
        }
    }
}

/// The error of an operation that must fail.
fn refused<T>(result: Result<T, StorageError>, what: &str) -> StorageError {
    match result {
        Ok(_) => panic!("{what} was not refused"),
        Err(error) => error,
    }
}
