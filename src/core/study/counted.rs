//! Numbers of things in messages.

/// A number of things: `1 trial`, `12 trials`.
pub fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
