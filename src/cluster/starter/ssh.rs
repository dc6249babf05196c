//! Agents by ssh: the program is copied to a host that lacks it, and checked.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use super::AgentCommand;
use crate::config::shell;
use crate::runner::processes::own_program;
use crate::study::cluster::SshHost;

/// The exit status of a host that lacks the program.
pub(super) const MISSING: i32 = 86;

/// Options of every call: no questions, and an end if the link is dead for a minute.
const OPTIONS: [&str; 6] = [
    "-oBatchMode=yes",
    "-oConnectTimeout=20",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=4",
    "-oRequestTTY=no",
    "-oEscapeChar=none",
];

/// The directory of programs, for the shell of the host.
const DIRECTORY: &str = "\"${XDG_CACHE_HOME:-$HOME/.cache}/hpsearch/agents\"";

/// What keeps an agent on a host.
pub(super) fn agent_command(host: &SshHost, file: &Path) -> AgentCommand {
    let digest = digest();
    // The same for the next runner of the study, which finds the agent that still runs.
    let mut key = blake3::Hasher::new();
    key.update(file.as_os_str().as_encoded_bytes()).update(b"\0").update(host.name.as_bytes());
    let key = &key.finalize().to_hex()[..16];
    let devices = if host.devices.is_empty() {
        String::new()
    } else {
        // Names of devices have no character that a shell knows but `*`.
        format!(" --devices '{}'", host.devices.join(","))
    };
    let agent = format!(
        "f={DIRECTORY}/{digest}; [ -x \"$f\" ] || exit {MISSING}; \
         exec \"$f\" agent --stdio --keep {key}{devices}"
    );
    let install = format!(
        "d={DIRECTORY}; f=\"$d/{digest}\"; umask 077; mkdir -p \"$d\" && cat > \"$f.$$\" && \
         [ \"$(sha256sum \"$f.$$\" | cut -c1-64)\" = {digest} ] && chmod 700 \"$f.$$\" && \
         mv \"$f.$$\" \"$f\" || \
         {{ rm -f \"$f.$$\"; echo 'the copy of hpsearch is not complete' >&2; exit 1; }}; \
         [ -x \"$f\" ] || \
         {{ echo \"no program can be run from $d: set XDG_CACHE_HOME there\" >&2; exit 1; }}"
    );
    AgentCommand {
        name: host.name.clone(),
        words: call(&host.name, &agent),
        install: Some(call(&host.name, &install)),
    }
}

fn call(host: &str, script: &str) -> Vec<String> {
    // The login shell may be another one.
    let script = format!("exec /bin/sh -c {}", shell::in_quotes(script));
    let words = std::iter::once("ssh").chain(OPTIONS).chain(["--", host]);
    words.map(str::to_owned).chain([script]).collect()
}

/// The digest of this program, by which hosts know it.
fn digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| {
        let mut hasher = Sha256::new();
        let copied =
            File::open(own_program()).and_then(|mut file| io::copy(&mut file, &mut hasher));
        match copied {
            Ok(_) => hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
            // Nothing has this digest: the copy is refused, in words.
            Err(_) => "unreadable".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_called_without_questions_and_its_name_is_no_option() {
        let devices = vec!["cuda:0".to_owned(), "cuda:1".to_owned()];
        let command = agent_command(
            &SshHost { name: "node1".to_owned(), devices },
            Path::new("/a/agents.json"),
        );
        let place = command.words.iter().position(|word| word == "node1").unwrap();
        assert_eq!(command.words[place - 1], "--");
        assert!(command.words.contains(&"-oBatchMode=yes".to_owned()));
        let script = command.words.last().unwrap();
        assert!(script.contains("agent --stdio --keep "), "{script}");
        assert!(script.contains("cuda:0,cuda:1"), "{script}");
        assert!(command.install.unwrap().last().unwrap().contains(digest()));
    }
}
