//! Patterns of names: `*` stands for any characters, `?` for any one.

/// Whether `pattern` matches all of `name`.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of_name) = (0, 0);
    // Behind the last `*`, and how much of the name it took.
    let mut last = None;
    while of_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                last = Some((at, of_name));
            }
            Some(one) if *one == '?' || *one == name[of_name] => {
                at += 1;
                of_name += 1;
            }
            _ => {
                let Some((behind, taken)) = last else { return false };
                last = Some((behind, taken + 1));
                (at, of_name) = (behind, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, name, is_match) in [
            ("sms", "sms", true),
            ("sms", "sms-2", false),
            ("sms*", "sms", true),
            ("sms*", "sms-2", true),
            ("*", "", true),
            ("*-2", "sms-2-2", true),
            ("s?s-*-x", "sms-a-b-x", true),
            ("s?s-*-x", "sms-x", false),
            ("?", "\u{5b66}", true),
            ("?", "", false),
            ("**a**", "ba", true),
            ("[s]", "s", false),
            ("train-*.parquet", "train-00000-of-00002.parquet", true),
            ("train-*.parquet", "test-00000-of-00002.parquet", false),
            ("*.attention.*", "encoder.layer.0.attention.query.weight", true),
            ("encoder*bias", "encoder.layer.0.attention.query.bias", true),
            ("encoder*bias", "encoder.layer.0.attention.query.weight", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("*é*", "encodér", true),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_with_many_stars_takes_no_time() {
        let (pattern, name) = ("*a".repeat(2_000), "a".repeat(4_000) + "b");
        assert!(!matches(&pattern, &name));
    }
}
