//! Extracts parameters from a program's command line, and redacts its secrets.

use crate::study::database_url::{UNREADABLE, masked_word};
use crate::study::params::{Params, Value};
use crate::study::secret::{REDACTED, is_secret_option, is_secret_value};

/// Longer texts are truncated.
const LONGEST_TEXT: usize = 10_000;

/// The parameters in a command line, by option name: `--lr 0.1` and `--lr=0.1`, `-x 3`, Hydra's
/// `lr=0.1`; a flag is true, and `--no-x` is `x` = false. Numbers and booleans are typed; several
/// values of one option (`--sizes 64 32`) are one text. Secrets are redacted. Options of an
/// interpreter before its script are ignored.
pub fn params_of(words: &[String]) -> Params {
    let mut params = Params::new();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    for Setting { name, value, at, more } in options(&words[..end]) {
        let is_secret = match value {
            Given::Text(text) => {
                let mut others = words[at + 1..=at + more].iter();
                is_secret_value(name, text) || others.any(|word| is_secret_value(name, word))
            }
            Given::Flag(_) => is_secret_option(name),
        };
        let value = if is_secret {
            Value::Text(REDACTED.to_owned())
        } else {
            match value {
                Given::Text(_) if more > 0 => {
                    let redacted = words[at..=at + more].iter().map(|word| without_secrets(word));
                    typed(&redacted.collect::<Vec<_>>().join(" "))
                }
                Given::Text(text) => typed(text),
                Given::Flag(flag) => Value::Bool(flag),
            }
        };
        params.insert(name, value);
    }
    params
}

/// The typed value of a text: a boolean, an integer, a finite number or itself. Passwords in
/// addresses (`https://user:password@host`) and secrets of headers (`Authorization: Bearer ..`) are
/// redacted.
pub fn typed(text: &str) -> Value {
    match text {
        "true" | "True" => return Value::Bool(true),
        "false" | "False" => return Value::Bool(false),
        _ => {}
    }
    let is_number = text.starts_with(|char: char| char.is_ascii_digit() || "+-.".contains(char));
    if let (true, Ok(integer)) = (is_number, text.parse()) {
        return Value::Int(integer);
    }
    match text.parse::<f64>() {
        Ok(number) if is_number && number.is_finite() => Value::Float(number),
        _ => Value::Text(without_secrets(&text.chars().take(LONGEST_TEXT).collect::<String>())),
    }
}

/// Parses `NAME=VALUE` of `--param`; `None` without a name or an equals sign.
pub fn given(word: &str) -> Option<(String, Value)> {
    let (name, text) = word.split_once('=').filter(|(name, _)| !name.trim().is_empty())?;
    let is_secret = is_secret_value(name, text);
    let value = if is_secret { Value::Text(REDACTED.to_owned()) } else { typed(text) };
    Some((name.trim().to_owned(), value))
}

/// A command line with its secrets redacted, as it is stored.
pub fn masked(words: &[String]) -> Vec<String> {
    let mut masked: Vec<String> = words.iter().map(|word| without_secrets(word)).collect();
    for Setting { name, value, at, more } in options(words) {
        let Given::Text(text) = value else { continue };
        let hides_all = is_secret_value(name, text);
        for (index, word) in masked.iter_mut().enumerate().skip(at).take(1 + more) {
            // The whole word, or what follows the equals sign.
            let kept = if index == at { words[at].len() - text.len() } else { 0 };
            if hides_all || index > at && is_secret_value(name, &words[index]) {
                *word = format!("{}{REDACTED}", &words[index][..kept]);
            }
        }
    }
    // In `hpsearch track --param token=..` the parameter is one word.
    for (word, kept) in masked.iter_mut().zip(words) {
        let assigned = kept.split_once('=').filter(|(name, text)| is_secret_value(name, text));
        if let Some((name, _)) = assigned.filter(|_| header_value(kept).is_none()) {
            *word = format!("{name}={REDACTED}");
        }
    }
    masked
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given<'a> {
    Text(&'a str),
    Flag(bool),
}

/// A setting in a command line; its value is the end of the word at this index.
#[derive(Clone, Copy, Debug)]
struct Setting<'a> {
    name: &'a str,
    value: Given<'a>,
    at: usize,
    /// The number of words after that one which are values of the same option.
    more: usize,
}

fn options(words: &[String]) -> Vec<Setting<'_>> {
    let mut found = Vec::new();
    let mut at = of_program(words);
    while let Some(word) = words.get(at) {
        let next = words.get(at + 1).filter(|next| is_value(next));
        if let Some((name, text)) = attached_header(word) {
            found.push(Setting { name, value: Given::Text(text), at, more: 0 });
        } else if let Some(body) = option_name(word) {
            match (body.split_once('='), body.strip_prefix("no-"), next) {
                (Some((name, text)), ..) => {
                    found.push(Setting { name, value: Given::Text(text), at, more: 0 });
                }
                (None, Some(name), None) if word.starts_with("--") && !name.is_empty() => {
                    found.push(Setting { name, value: Given::Flag(false), at, more: 0 });
                }
                (None, _, Some(text)) => {
                    at += 1;
                    let more = further_values(&words[at..]);
                    found.push(Setting { name: body, value: Given::Text(text), at, more });
                    at += more;
                }
                (None, _, None) => {
                    found.push(Setting { name: body, value: Given::Flag(true), at, more: 0 });
                }
            }
        } else if let Some((name, text)) = assignment(word) {
            found.push(Setting { name, value: Given::Text(text), at, more: 0 });
        }
        at += 1;
    }
    found
}

/// The number of words after the first that are values of the same option: up to the next option,
/// numbers after a number and texts after a text. What is of the other kind is an argument of the
/// program's own: `--epochs 3 data.csv`.
fn further_values(words: &[String]) -> usize {
    let is_number = |word: &String| word.parse::<f64>().is_ok();
    let Some((first, others)) = words.split_first() else { return 0 };
    let is_one = |word: &&String| is_value(word) && is_number(word) == is_number(first);
    others.iter().take_while(is_one).count()
}

/// The index of the program's own words: after an interpreter, its options and its script.
fn of_program(words: &[String]) -> usize {
    let Some(program) = words.first() else { return 0 };
    let name = program.rsplit('/').next().unwrap_or_default();
    let is_interpreter =
        ["python", "pypy", "sh", "bash", "node", "julia", "Rscript", "perl", "ruby"].iter().any(
            |known| {
                name.strip_prefix(known).is_some_and(|rest| {
                    rest.chars().all(|char| char.is_ascii_digit() || char == '.')
                })
            },
        );
    if !is_interpreter {
        return 1;
    }
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            // A module or the program's text follows.
            "-m" | "-c" => return at + 2,
            "-W" | "-X" => at += 2,
            option if option.starts_with('-') => at += 1,
            _ => return at + 1,
        }
    }
    at
}

/// The name of an option, with any `=value`; `None` for other words.
fn option_name(word: &str) -> Option<&str> {
    let body = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let is_name = body.starts_with(|char: char| char.is_alphabetic() || char == '_');
    is_name.then_some(body)
}

/// A Hydra override: `optimizer.lr=0.1`, `+seed=3`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, text) = word.trim_start_matches('+').split_once('=')?;
    let begins = name.starts_with(|char: char| char.is_alphabetic() || char == '_');
    let fits = |char: char| char.is_alphanumeric() || "_.-@/".contains(char);
    (begins && name.chars().all(fits)).then_some((name, text))
}

/// Whether a word can be the value of the option before it: not an option, unless it is a negative
/// number.
fn is_value(word: &str) -> bool {
    let is_number = word.parse::<f64>().is_ok();
    is_number || !word.starts_with('-') && assignment(word).is_none()
}

/// A word with the password of an address or the secret of a header redacted.
fn without_secrets(word: &str) -> String {
    match header_value(word) {
        Some(at) => format!("{}{REDACTED}", &word[..at]),
        None => without_password(word),
    }
}

/// Where the secret of a header begins in a word, also after `--header=` and `-H`.
fn header_value(word: &str) -> Option<usize> {
    if let Some((_, text)) = attached_header(word) {
        return Some(word.len() - text.len() + secret_of_header(text).unwrap_or(0));
    }
    let end = word.find(|char: char| char == ':' || char.is_ascii_whitespace())?;
    let begin = word[..end].rfind('=').map_or(0, |at| at + 1);
    Some(begin + secret_of_header(&word[begin..])?)
}

/// An option of one letter and the header that is its value (`-HAuthorization: Bearer ..`), or an
/// option written as a header (`--token: ..`) and its value.
fn attached_header(word: &str) -> Option<(&str, &str)> {
    let body = option_name(word)?;
    if let Some(at) = secret_of_header(body) {
        let is_separator = |char: char| char == ':' || char.is_whitespace();
        return Some((body[..at].trim_end_matches(is_separator), &body[at..]));
    }
    let (letter, header) = body.split_at_checked(1)?;
    secret_of_header(header).map(|_| (letter, header))
}

/// Where the secret of a header begins: `Authorization: Bearer ..`, `X-Api-Key: ..`, `Bearer ..`.
fn secret_of_header(header: &str) -> Option<usize> {
    const SCHEME: &str = "bearer";
    let is_scheme = |(scheme, after): (&str, &str)| {
        scheme.eq_ignore_ascii_case(SCHEME)
            && after.starts_with(|char: char| char.is_ascii_whitespace())
    };
    if header.split_at_checked(SCHEME.len()).is_some_and(is_scheme) {
        return Some(SCHEME.len() + 1);
    }
    let (name, value) = header.split_once(':')?;
    let is_name = name.chars().all(|char| char.is_ascii_alphanumeric() || "-_".contains(char));
    let secret = value.trim_start();
    (is_name && is_secret_option(name) && !secret.is_empty() && !secret.starts_with("//"))
        .then(|| header.len() - secret.len())
}

/// An address with its password redacted.
fn without_password(text: &str) -> String {
    let masked = masked_word(text);
    // An option of the address may be the password.
    if masked.ends_with(UNREADABLE) || masked != text && text.contains("password=") {
        return masked;
    }
    let Some(at) = text.find("://").map(|at| at + 3) else { return text.to_owned() };
    let authority = text[at..].find(['/', '?', '#']).map_or(text.len(), |end| at + end);
    let Some(host) = text[at..authority].rfind('@') else { return text.to_owned() };
    match text[at..at + host].find(':') {
        Some(colon) => format!("{}:{REDACTED}{}", &text[..at + colon], &text[at + host..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn found(line: &str) -> String {
        params_of(&words(line)).to_string()
    }

    #[test]
    fn options_of_all_habits_are_parameters() {
        for (line, expected) in [
            ("python train.py --lr 0.1", "lr=0.1"),
            ("python train.py --lr=0.1 --epochs=3", "epochs=3 lr=0.1"),
            ("./train -x 3 -v", "v=true x=3"),
            ("python train.py --fp16 --no-shuffle", "fp16=true shuffle=false"),
            (
                "python main.py optimizer.lr=1e-3 +seed=7 model=vit",
                "model=vit optimizer.lr=0.001 seed=7",
            ),
            ("python3.12 -u -X dev -W ignore train.py --lr 1", "lr=1"),
            ("python -m pkg.train --lr -0.5 --name -x", "lr=-0.5 name=true x=true"),
            ("train data.csv --lr 1 -- --other 2", "lr=1"),
            ("train --lr 1 --lr 2", "lr=2"),
            ("sh -c true --sizes 64 32 --lr 0.1", "lr=0.1 sizes=64 32"),
            ("train --betas 0.9 -0.5 --data a.csv b.csv", "betas=0.9 -0.5 data=a.csv b.csv"),
            ("train --epochs 3 data.csv --tags a b x=1", "epochs=3 tags=a b x=1"),
            ("train --model.num-layers 4", "model.num-layers=4"),
            ("train --flag lr=2", "flag=true lr=2"),
            ("train --empty=", "empty="),
            ("train", ""),
            ("sh -c anything --lr", "lr=true"),
            ("train - -- x", ""),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
    }

    #[test]
    fn an_address_of_a_database_with_a_raw_slash_in_its_password_is_redacted() {
        let redacted = without_password("--db=postgres://me:hunter/2@host/d");
        assert_eq!(redacted, "--db=postgres://..");
        let redacted = without_password("postgres://h/d?password=secret&user=u");
        assert_eq!(redacted, "postgres://h/d?user=u");
    }

    #[test]
    fn values_are_typed_as_people_mean_them() {
        for (text, expected) in [
            ("3", Value::Int(3)),
            ("-3", Value::Int(-3)),
            ("0.5", Value::Float(0.5)),
            ("1e-4", Value::Float(1e-4)),
            ("True", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("nan", "nan".into()),
            ("inf", "inf".into()),
            ("1e999", "1e999".into()),
            ("99999999999999999999", Value::Float(1e20)),
            ("infinity-war", "infinity-war".into()),
            ("1.2.3", "1.2.3".into()),
        ] {
            assert_eq!(typed(text), expected, "{text}");
        }
    }

    #[test]
    fn secrets_are_redacted_in_parameters_and_in_the_command() {
        let line = "train --api-key abc --token=def --hub_token ghi --password jkl \
            --max_tokens 5 --pad-token x --tokenizer bert db.password=mno --auth stu vwx \
            --url https://me:pqr@host/path";
        let params = found(line);
        let stored = masked(&words(line)).join(" ");
        for secret in ["abc", "def", "ghi", "jkl", "mno", "pqr", "stu", "vwx"] {
            assert!(!params.contains(secret), "{params}");
            assert!(!stored.contains(secret), "{stored}");
        }
        for kept in ["max_tokens=5", "pad-token=x", "tokenizer=bert", "https://me:***@host/path"] {
            assert!(params.contains(kept), "{params}");
        }
        assert!(stored.starts_with("train --api-key *** --token=*** --hub_token ***"), "{stored}");
        let own = masked(&words("hpsearch track --param api_key=abc -- run -- train --token def"));
        assert_eq!((own[3].as_str(), own.last().map(String::as_str)), ("api_key=***", Some("***")));
        assert_eq!(given("api_key=abc"), Some(("api_key".to_owned(), REDACTED.into())));
        assert_eq!(given("lr=0.1"), Some(("lr".to_owned(), Value::Float(0.1))));
        assert_eq!([given("lr"), given("=1")], [None, None]);
        let header = masked(&["train".to_owned(), "--header".to_owned(), "X-Auth: abc".to_owned()]);
        assert_eq!(header[2], "X-Auth: ***");
        let params =
            params_of(&["train", "-H", "Authorization: Bearer abc", "url"].map(str::to_owned));
        assert!(!params.to_string().contains("abc"), "{params}");
        for (word, expected) in [
            ("-HAuthorization: Bearer abc", "H=Authorization: ***"),
            ("-HAuthorization: Bearer abc=", "H=Authorization: ***"),
            ("-HBearer\tabc", "H=Bearer\t***"),
            ("--token: abc", "token=***"),
            ("x=y=token: abc", "x=y=token: ***"),
        ] {
            let params = params_of(&["curl", word, "url"].map(str::to_owned));
            assert_eq!(params.to_string(), expected);
        }
    }

    /// The cases that the Python client's rule is tested with, too.
    #[test]
    fn secrets_are_those_that_the_python_client_knows() {
        let cases: serde_json::Value =
            serde_json::from_str(include_str!("../../python/tests/secrets.json")).unwrap();
        let list = |key: &str| cases[key].as_array().unwrap().clone();
        for (key, expected) in [("secret_names", true), ("plain_names", false)] {
            for name in list(key) {
                assert_eq!(is_secret_option(name.as_str().unwrap()), expected, "{name}");
            }
        }
        for case in list("commands") {
            let words: Vec<String> = serde_json::from_value(case["words"].clone()).unwrap();
            assert_eq!(serde_json::json!(masked(&words)), case["masked"], "{words:?}");
        }
        for case in list("values") {
            let [text, redacted] = [0, 1].map(|at| case[at].as_str().unwrap());
            assert_eq!(typed(text), redacted.into());
        }
    }
}
