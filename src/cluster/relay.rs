//! A relay between standard streams and an agent that outlives them: over ssh, an agent does not
//! end with the connection that started it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cache_directory;
use crate::runner::processes::own_program;
use crate::runner::threads;

/// Longest wait for a new agent.
const PATIENCE: Duration = Duration::from_secs(20);

/// Relays to the agent of this key, which is started if it does not run, until either side ends.
///
/// # Errors
/// No agent can be started.
pub fn relay(key: &str, devices: &[String]) -> io::Result<()> {
    let path = socket(key)?;
    let stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(_) => start(&path, devices)?,
    };
    let mut to_agent = stream.try_clone()?;
    threads::spawn("to the agent", move || {
        let mut from = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let copied = copy(&mut from, &mut to_agent);
        // The agent waits for the next relay.
        let _closed_already = to_agent.shutdown(Shutdown::Both);
        copied
    })?;
    let mut from_agent = stream;
    // Unbuffered: frames do not end with a line.
    let mut to = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    copy(&mut from_agent, &mut to)
}

/// Copies by reads and writes. `io::copy` splices, and a reader at the other end of a pipe was not
/// always woken by that (Linux 6.18): both sides waited for ever.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return to.flush(),
            Ok(length) => to.write_all(&buffer[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The agent's socket.
fn socket(key: &str) -> io::Result<PathBuf> {
    Ok(cache_directory()?.join(format!("{key}.socket")))
}

fn start(path: &Path, devices: &[String]) -> io::Result<UnixStream> {
    let mut command = Command::new(own_program());
    command.arg0("hpsearch").args(["agent", "--socket"]).arg(path);
    if !devices.is_empty() {
        command.arg("--devices").arg(devices.join(","));
    }
    let mut agent =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let until = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() >= until => return Err(error),
            // One that has ended may have found that another one runs.
            Err(_) => drop(agent.try_wait()?),
        }
        threads::sleep(Duration::from_millis(20));
    }
}
