//! Values as columns of the store hold them: NaN is NULL, unsigned integers are signed, the rest is
//! JSON.

use serde::de::DeserializeOwned;

use crate::study::trial::TrialNumber;

use super::fault::Fault;
use crate::storage::StudyId;

/// Distance between the first trial ids of neighbouring studies: more trials than a study in memory
/// can have.
pub(super) const TRIALS_PER_STUDY: i64 = 1_000_000_000;

/// A number for a REAL column. NaN becomes NULL here and nowhere else; infinities stay; SQLite
/// drops the sign of `-0.0`.
pub(super) fn to_real(value: f64) -> Option<f64> {
    if value.is_nan() { None } else { Some(value) }
}

/// The number of a REAL column: NULL means NaN.
pub(super) fn from_real(column: Option<f64>) -> f64 {
    column.unwrap_or(f64::NAN)
}

/// A count, step or process fact for an INTEGER column; an error beyond 2^63 - 1.
pub(super) fn to_integer(value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| {
        Fault::unstorable(format!("{value} is larger than the store's integers (2^63 - 1)"))
    })
}

/// An INTEGER column that holds something unsigned.
pub(super) fn from_integer<T: TryFrom<i64>>(
    column: i64,
    place: impl FnOnce() -> String,
) -> Result<T, Fault> {
    T::try_from(column)
        .map_err(|_| Fault::corrupt(place(), format!("{column} is outside its range")))
}

/// A JSON column's content.
pub(super) fn json<T: DeserializeOwned>(
    text: &str,
    place: impl FnOnce() -> String,
) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::corrupt(place(), error))
}

/// The first id that a trial of `study` can have, and the last.
pub(super) fn trial_ids(study: StudyId) -> (i64, i64) {
    let first = study.0.saturating_mul(TRIALS_PER_STUDY);
    (first, first.saturating_add(TRIALS_PER_STUDY - 1))
}

/// A trial's id; an error for a number no study has.
pub(super) fn trial_id(study: StudyId, number: TrialNumber) -> Result<i64, Fault> {
    let (first, last) = trial_ids(study);
    let id = first.saturating_add(to_integer(number.0)?);
    if id > last {
        Err(Fault::unstorable(format!("a study cannot have a trial {number}")))
    } else {
        Ok(id)
    }
}

/// The number of the trial with this id.
pub(super) fn number_of(id: i64) -> TrialNumber {
    TrialNumber(id.rem_euclid(TRIALS_PER_STUDY).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_null_and_infinities_are_themselves() {
        assert_eq!(to_real(f64::NAN), None);
        assert!(from_real(None).is_nan());
        for value in [f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e308, f64::MIN_POSITIVE] {
            assert_eq!(
                to_real(value).map(|value| from_real(Some(value)).to_bits()),
                Some(value.to_bits())
            );
        }
    }

    #[test]
    fn a_trial_id_tells_its_number() {
        let id = trial_id(StudyId(3), TrialNumber(17)).ok().unwrap();
        assert_eq!(id, 3_000_000_017);
        assert_eq!(number_of(id), TrialNumber(17));
        assert!(trial_id(StudyId(3), TrialNumber(1_000_000_000)).is_err());
        assert!(to_integer(u64::MAX).is_err());
    }
}
