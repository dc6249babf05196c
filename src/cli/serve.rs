//! `hpsearch serve`: the live page in a browser.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use clap::Args;

use super::console::{Console, shown};
use super::exit::{AGAIN, Exit, Failure};
use crate::report::wording::one_line;
use crate::runner::signals::PassedOn;
use crate::runner::threads;
use crate::server::{Access, Limits, Notices, Server, ServerOptions};
use crate::storage::StorageError;
use crate::storage::any::AnyReader;
use crate::storage::sqlite::Migrated;

const EXAMPLES: &str = "\
Examples:
  hpsearch serve                         read-only, on http://127.0.0.1:7373
  hpsearch serve --control               notes, tags, enqueue, pause, stop, kill
  hpsearch serve --listen 127.0.0.1:0    on any free port
  hpsearch serve --allow-host lab.example    behind a proxy of that name

Open the printed address: its token signs the browser in. From another
machine, forward the port: ssh -L 7373:127.0.0.1:7373 HOST
Ctrl-C ends the server; studies continue.";

/// The port without `--listen`.
const PORT: u16 = 7373;

/// Arguments of `hpsearch serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// The address to listen on, its port, or both (port 0: any free one)
    #[arg(long, visible_alias = "port", value_name = "ADDR",
          default_value_t = format!("127.0.0.1:{PORT}"))]
    pub listen: String,
    /// Let the page change studies: notes, tags, enqueue, pause, stop, kill
    #[arg(long)]
    pub control: bool,
    /// Also answer requests for this host name, such as a proxy's; as often as needed
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
}

/// Serves until a signal ends it.
pub fn serve(arguments: &ServeArguments, console: &mut Console) -> Result<Exit, Failure> {
    let listen = address(&arguments.listen)?;
    if let Some(name) = arguments.allow_host.iter().find(|name| !is_host(name)) {
        return Err(Failure::usage(format!("`{}` is not a host name", one_line(name)))
            .help("write it as browsers do, without scheme and path: lab.example"));
    }
    // An unreadable store is an error now; one that is not there yet may come.
    match AnyReader::open(&console.store) {
        Ok(reader) => console.print_migration(reader.migrated()),
        Err(error @ StorageError::Missing { .. }) => {
            console.say(&format!("{error} yet: the page shows its studies once there is"));
        }
        Err(error) => return Err(error.into()),
    }
    let options = ServerOptions {
        store: console.absolute_store()?,
        listen,
        access: if arguments.control { Access::Control } else { Access::ReadOnly },
        allowed_hosts: arguments.allow_host.clone(),
        limits: Limits::default(),
    };
    let server = Server::start(&options, &notices())
        .map_err(|error| not_listening(&error, &arguments.listen))?;
    let stop = server.stopper();
    // Before the address is shown, so that whoever has read it can end the server.
    let passed_on = PassedOn::start()?;
    announce(&server, &options, console)?;
    let signals = passed_on.signals().clone();
    threads::spawn("ending", move || {
        // The channel closes without a signal if the server fails.
        if signals.recv().is_ok() {
            stop.stop();
        }
    })?;
    server.run().map_err(|error| Failure::new(Exit::Internal, error).help(AGAIN))?;
    Ok(Exit::Done)
}

fn announce(
    server: &Server,
    options: &ServerOptions,
    console: &mut Console,
) -> Result<(), Failure> {
    writeln!(console.out, "{}", server.url())?;
    console.out.flush()?;
    let access = match options.access {
        Access::ReadOnly => "read-only: --control lets the page change studies",
        Access::Control => "the page can change studies",
    };
    console.say(&format!("serving {}, {access}", shown(&console.store)));
    let ip = server.address().ip();
    if !ip.is_loopback() {
        console.complain(&format!(
            "warning: {} can be reached from other machines, and its traffic is not encrypted: \
             anyone who reads it on the way can take the token. An ssh tunnel or a proxy with TLS \
             is safer",
            server.address()
        ));
    }
    if options.access == Access::Control && !ip.is_loopback() {
        console.complain("warning: with --control, anyone who has the token can stop studies");
    }
    console.say("open the address above in a browser; Ctrl-C ends the server, studies continue");
    Ok(())
}

/// Says on standard error that the store was brought up to date while it is served.
fn notices() -> Notices {
    Arc::new(|migrated: &Migrated| {
        let Migrated { from, copy, .. } = migrated;
        // A closed standard error is ignored.
        let _ = writeln!(
            io::stderr(),
            "the store was migrated from schema version {from}; `{}` is a copy of it \
             as it was",
            one_line(&copy.display().to_string())
        );
    })
}

/// The address that `--listen` names: an address or name with a port, or one of the two.
fn address(text: &str) -> Result<SocketAddr, Failure> {
    let whole = match (text.parse::<IpAddr>(), text.parse::<u16>()) {
        (Ok(ip), _) => return Ok(SocketAddr::new(ip, PORT)),
        (_, Ok(port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    let found = whole.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        Failure::usage(format!("`{}` is not an address to listen on", one_line(text)))
            .help("write an address of this machine and a port: 127.0.0.1:7373, [::1]:7373")
    })
}

fn is_host(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    !name.is_empty() && name.bytes().all(is_of_name)
}

fn not_listening(error: &io::Error, listen: &str) -> Failure {
    let listen = one_line(listen);
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            Failure::new(Exit::Store, format!("another program listens on {listen}")).help(
                "`--listen 127.0.0.1:0` takes a free port; another `hpsearch serve` may be \
                 running already",
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            Failure::usage(format!("{listen} is not an address of this machine"))
                .help("`--listen 127.0.0.1:7373` serves this machine alone")
        }
        io::ErrorKind::PermissionDenied => {
            Failure::new(Exit::Store, format!("this user may not listen on {listen}"))
                .help("ports below 1024 need a privileged user: name a higher one")
        }
        _ => {
            Failure::new(Exit::Internal, format!("cannot listen on {listen}: {error}")).help(AGAIN)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_port_or_its_host() {
        for (text, expected) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1", "127.0.0.1:7373"),
            ("8080", "127.0.0.1:8080"),
            ("[::1]:9", "[::1]:9"),
            ("::1", "[::1]:7373"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected, "{text}");
        }
        assert!(address("localhost:9").unwrap().ip().is_loopback());
        for text in ["", "here", "127.0.0.1:", "127.0.0.1:99999", ":x"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
