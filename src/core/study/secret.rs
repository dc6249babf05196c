//! What counts as a secret, and what replaces it in stored texts.

/// Replaces a secret in parameters and command lines.
pub const REDACTED: &str = "***";

/// Replaces a value of `[command] env` in stored texts. Digests are those of texts with it: after a
/// change of it, equal files would differ from stored ones.
pub const MASK: &str = "...";

/// Words for a password.
const PASSWORDS: [&str; 8] =
    ["password", "passwd", "pwd", "passphrase", "passcode", "secret", "credential", "credentials"];

/// Parts of file names that indicate secrets, also within a word.
const FILES: [&str; 12] = [
    "secret",
    "credential",
    "password",
    "passwd",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "private",
    "id_rsa",
    "id_ed25519",
    "service-account",
];

/// Whether an option of this name has a secret value.
pub fn is_secret_option(name: &str) -> bool {
    let name = name.trim_start_matches(['-', '+']).to_lowercase();
    let parts: Vec<&str> = name.split(['-', '_', '.', ':', '/', ' ']).collect();
    // Tokens of a tokenizer, not credentials.
    const TEXT: [&str; 8] = ["pad", "eos", "bos", "unk", "sep", "cls", "mask", "special"];
    const WORDS: [&str; 7] =
        ["apikey", "accesskey", "auth", "authorization", "bearer", "jwt", "pat"];
    let is_token = parts.last() == Some(&"token")
        && !parts.iter().rev().nth(1).is_some_and(|before| TEXT.contains(before));
    let is_key = parts.windows(2).any(|pair| {
        pair[1] == "key" && ["api", "access", "private", "secret", "auth"].contains(&pair[0])
    });
    let is_word = |part: &&str| WORDS.contains(part) || PASSWORDS.contains(part);
    is_token || is_key || parts.iter().any(is_word)
}

/// Whether `text` is a secret as the value of an option of this name: short numbers are not
/// (`max_token`, `auth_dim`), except under the name of a password.
pub fn is_secret_value(name: &str, text: &str) -> bool {
    /// More digits may be those of an account.
    const MOST_DIGITS: usize = 9;
    let is_number =
        text.parse::<f64>().is_ok() && (text.contains('.') || text.len() <= MOST_DIGITS);
    let lower = name.to_lowercase();
    let mut parts =
        lower.split(['-', '_', '.', ':', '/', ' ']).skip_while(|part| !PASSWORDS.contains(part));
    let is_password = parts.next().is_some()
        && parts.all(|part| {
            PASSWORDS.contains(&part)
                || ["key", "confirm"].contains(&part)
                || part.bytes().all(|byte| byte.is_ascii_digit())
        });
    is_secret_option(name) && (!is_number || is_password)
}

/// Whether a file's name indicates that it contains secrets.
pub fn is_secret_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    name.starts_with(".env") || FILES.iter().any(|part| name.contains(part))
}
