//! Credentials for a tracking server: read from the environment only, never stored or shown.

use std::fmt;

/// User name and password, a token, or nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    authorization: Option<String>,
}

impl Credentials {
    /// Reads the variables of MLflow's client.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Credentials {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(token) = set("MLFLOW_TRACKING_TOKEN") {
            return Credentials { authorization: Some(format!("Bearer {token}")) };
        }
        let basic = set("MLFLOW_TRACKING_USERNAME").map(|user| {
            let password = set("MLFLOW_TRACKING_PASSWORD").unwrap_or_default();
            format!("Basic {}", base64(format!("{user}:{password}").as_bytes()))
        });
        Credentials { authorization: basic }
    }

    /// The header `Authorization` of a request.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.authorization.is_some() { "Credentials(..)" } else { "Credentials" })
    }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap_or(0);
            out.push(if digit <= group.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_known_from_the_environment_alone_and_not_shown() {
        let of = |variables: &[(&str, &str)]| {
            Credentials::from_environment(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]).authorization(), None);
        let token = of(&[("MLFLOW_TRACKING_TOKEN", "secret")]);
        assert_eq!(token.authorization(), Some("Bearer secret"));
        assert_eq!(format!("{token:?}"), "Credentials(..)");
        let both =
            [("MLFLOW_TRACKING_USERNAME", "Aladdin"), ("MLFLOW_TRACKING_PASSWORD", "open sesame")];
        // RFC 7617, section 2.
        assert_eq!(of(&both).authorization(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    }
}
