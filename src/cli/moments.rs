//! Timestamps for users and programs.

use crate::study::time::Timestamp;

/// A timestamp in the local time zone.
pub fn moment(at: Timestamp) -> String {
    let Ok(at) = jiff::Timestamp::from_microsecond(at.0) else {
        return String::new();
    };
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A timestamp in RFC 3339, UTC.
pub fn instant(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(|_| String::new(), |at| at.to_string())
}
