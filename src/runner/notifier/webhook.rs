//! Posts messages to webhooks, in the format of their server. The URL is a secret: no error
//! contains it.

use std::time::Duration;

use serde_json::json;

use crate::study::notify::Notice;

/// Posts a message.
///
/// # Errors
/// The server cannot be reached or refuses the message; the text does not contain the URL.
pub fn post(address: &str, message: &Notice, patience: Duration) -> Result<(), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(patience))
        .max_redirects(0)
        .build()
        .into();
    let (kind, body) = body(address, message);
    match agent.post(address).header("Content-Type", kind).send(body) {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("the webhook answered with status {}", answer.status().as_u16())),
        Err(ureq::Error::StatusCode(status)) => {
            Err(format!("the webhook answered with status {status}"))
        }
        Err(ureq::Error::Timeout(_)) => {
            Err(format!("the webhook did not answer in {} s", patience.as_secs()))
        }
        Err(ureq::Error::Io(error)) => {
            Err(format!("the webhook cannot be reached: {}", error.kind()))
        }
        Err(ureq::Error::HostNotFound) => Err("the webhook's host is not known".to_owned()),
        Err(_) => Err("the webhook cannot be reached".to_owned()),
    }
}

/// The format of a server: Slack's and Discord's, plain text for ntfy, else the message as JSON.
fn body(address: &str, message: &Notice) -> (&'static str, String) {
    let after = address.split_once("://").map_or(address, |(_, after)| after);
    let host = after.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    let is_of = |name: &str| host == name || host.ends_with(&format!(".{name}"));
    let json = "application/json";
    if is_of("slack.com") {
        (json, json!({ "text": message.text }).to_string())
    } else if is_of("discord.com") || is_of("discordapp.com") {
        (json, json!({ "content": message.text }).to_string())
    } else if host.split('.').next() == Some("ntfy") {
        ("text/plain; charset=utf-8", message.text.clone())
    } else {
        (json, serde_json::to_string(message).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::study::notify::Occasion;

    fn message() -> Notice {
        let (study, text) = ("s".to_owned(), "s: \"done\"".to_owned());
        Notice { occasion: Occasion::Finished, study, trial: None, text }
    }

    #[test]
    fn each_server_gets_its_form() {
        for (address, text) in [
            ("https://hooks.slack.com/services/T/B/x", r#"{"text":"s: \"done\""}"#),
            ("https://discord.com/api/webhooks/1/x", r#"{"content":"s: \"done\""}"#),
            ("https://ntfy.sh/topic", "s: \"done\""),
            ("https://ntfy.example.org/topic", "s: \"done\""),
            (
                "https://example.org/slack.com",
                r#"{"occasion":"finished","study":"s","text":"s: \"done\""}"#,
            ),
        ] {
            assert_eq!(body(address, &message()).1, text, "{address}");
        }
    }

    #[test]
    fn a_message_arrives_and_what_goes_wrong_does_not_name_the_address() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/secret", server.local_addr().unwrap());
        let heard = std::thread::spawn(move || {
            let answers = ["204 No Content", "404 Not Found"];
            answers.map(|answer| {
                let (mut stream, _) = server.accept().unwrap();
                let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
                while !bytes.ends_with(b"}") {
                    let read = stream.read(&mut piece).unwrap();
                    bytes.extend(&piece[..read]);
                }
                write!(
                    stream,
                    "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                .unwrap();
                String::from_utf8(bytes).unwrap()
            })
        });
        let patience = Duration::from_secs(5);
        assert_eq!(post(&address, &message(), patience), Ok(()));
        let refused = post(&address, &message(), patience).unwrap_err();
        assert_eq!(refused, "the webhook answered with status 404");
        let [first, _] = heard.join().unwrap();
        assert!(first.starts_with("POST /secret ") && first.contains(r#""study":"s""#), "{first}");
        let gone = post(&address, &message(), patience).unwrap_err();
        assert!(!gone.contains("secret") && !gone.contains("127."), "{gone}");
    }
}
