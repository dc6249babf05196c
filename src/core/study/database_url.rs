//! Addresses of databases: told from paths, and written without their passwords.

/// How they begin.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Whether a text is the address of a database.
pub fn is_database_url(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// Stands for an address in which no part is certain to be no password.
pub const UNREADABLE: &str = "postgres://..";

/// Why [`UNREADABLE`] is refused.
pub const UNREADABLE_REASON: &str = "an address is `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, \
     with `/` written as `%2F`, `?` as `%3F`, `#` as `%23`, `@` as `%40` and a space as `%20` in a \
     user, a password and options; or give the password in `PGPASSWORD` or `~/.pgpass`";

/// An address without its password, and the password; [`UNREADABLE`] if it is not certain which
/// part is the password.
pub fn without_password(url: &str) -> (String, Option<String>) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let place = rest.find(|char: char| "/?#".contains(char) || char.is_whitespace());
    let (authority, path) = rest.split_at(place.unwrap_or(rest.len()));
    let (mut user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    // A password may contain the character that seems to end the user and the hosts, or be what
    // seems to be a port.
    if path.contains('@') || !hosts.split(',').all(has_a_port) {
        return (UNREADABLE.to_owned(), None);
    }
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let mut password = None;
    if let Some((name, given)) = user.and_then(|user| user.split_once(':')) {
        (user, password) = (Some(name), Some(decoded(given)));
    }
    let mut kept: Vec<&str> = Vec::new();
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        match pair.split_once('=') {
            Some(("password", given)) => password = Some(decoded(given)),
            Some(("sslpassword", _)) => {}
            _ => kept.push(pair),
        }
    }
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    (format!("{scheme}://{user}{hosts}{path}{query}"), password)
}

/// Whether what follows the name of a host is a port, or nothing.
fn has_a_port(host: &str) -> bool {
    let name = host.rfind(']').map_or(0, |end| end + 1);
    let port = host[name..].split_once(':').map_or("", |(_, port)| port);
    port.bytes().all(|byte| byte.is_ascii_digit())
}

/// A word of a command line, in which an address, perhaps after `--store=`, has no password.
pub fn masked_word(word: &str) -> String {
    let begin = SCHEMES.iter().filter_map(|scheme| word.find(scheme)).min();
    match begin.map(|begin| word.split_at(begin)) {
        Some((before, url)) => format!("{before}{}", without_password(url).0),
        None => word.to_owned(),
    }
}

/// Text without the percent signs of URLs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &others[2..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_taken_out_of_an_address_wherever_it_is() {
        for (url, address, password) in [
            ("postgres://u:p@h:5432/d", "postgres://u@h:5432/d", Some("p")),
            ("postgresql://u:a%40b%3a@h/d?a=b", "postgresql://u@h/d?a=b", Some("a@b:")),
            ("postgres://h/d?password=p&user=u", "postgres://h/d?user=u", Some("p")),
            ("postgres://h/d?sslpassword=p&user=u", "postgres://h/d?user=u", None),
            ("postgres://u@/d?host=/run/pg", "postgres://u@/d?host=/run/pg", None),
            ("postgres://h/d", "postgres://h/d", None),
            ("postgres://u:p@ss:1@h:1,g:2/d", "postgres://u@h:1,g:2/d", Some("p@ss:1")),
            ("postgres://u:p%@[::1]:5/d?a=b", "postgres://u@[::1]:5/d?a=b", Some("p%")),
        ] {
            let found = without_password(url);
            assert_eq!(found, (address.to_owned(), password.map(str::to_owned)), "{url}");
            assert!(is_database_url(url));
        }
        assert_eq!(masked_word("--store=postgres://u:p@h/d"), "--store=postgres://u@h/d");
        assert_eq!(masked_word("runs/hpsearch.db"), "runs/hpsearch.db");
        assert!(!is_database_url("runs/postgres://"));
    }

    #[test]
    fn an_address_shows_nothing_where_its_password_is_uncertain() {
        for url in [
            "postgres://carol:hunter/2secret@127.0.0.1:5544/carol",
            "postgres://carol:hunter?2secret@h/d",
            "postgres://carol:hunter#2secret@h/d",
            "postgresql://carol:p@ss:w/o rd#1%?é@h/d",
            "postgres://carol:pass word@h",
            "postgres://carol:secret",
            "postgres://carol:secret/d",
            "postgres://u@h:secret/d",
            "postgres://u@h/d?password=se@cret",
        ] {
            assert_eq!(without_password(url), (UNREADABLE.to_owned(), None), "{url}");
            assert_eq!(masked_word(&format!("--store={url}")), format!("--store={UNREADABLE}"));
        }
        assert_eq!(without_password(UNREADABLE).0, UNREADABLE);
    }
}
