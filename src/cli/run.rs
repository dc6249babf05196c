//! `hpsearch run`: runs or resumes a study.

mod conclusion;
mod refusal;
mod screen;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use conclusion::conclude;
use refusal::{named_like_a_study, stored_beside_its_file};
use screen::{Left, on_screen};

use super::console::{Console, Talk, can_draw, credentials};
use super::exit::{Exit, Failure};
use super::foreground;
use super::output::RunLines;
use super::starter;
use super::study_notices::Notices;
use crate::app;
use crate::app::check_study::FileOptions;
use crate::app::reconcile::Consent;
use crate::app::run_study::{self, Prepared, ReadyStudy, RunOptions};
use crate::config::{self, shell};
use crate::report::wording::one_line;
use crate::report::{self, Reporter, plain, reporter};
use crate::runner::RunnerError;
use crate::runner::notifier::{Mailbox, Notifier, Recipients};
use crate::runner::ownership::{self, Unreachable};
use crate::runner::signals::{HangUp, SignalWatch};
use crate::storage::StorageReader as _;
use crate::storage::any::AnyReader;
use crate::study::spec::StudySpec;
use crate::tracking::{Behind, Follower, Listener};

const EXAMPLES: &str = "\
Examples:
  hpsearch run study.toml
  hpsearch run study.toml --set budget.trials=50 --plain
  hpsearch run study.toml --accept         the space or sampler changed
  hpsearch run study.toml --fork digits-2  the metric or data changed
  hpsearch run study.toml --take-over      its runner died on another host

On a terminal the live leaderboard is shown; into a pipe or a file, plain lines.
To leave it, press `q`, then `d` to detach (the study continues in the
background, and `hpsearch watch` shows it) or `y` to stop. Ctrl-C stops and
saves; run again to continue. A study that was paused with `hpsearch pause`
stays paused until `hpsearch resume`, or until it is run with --resume.";

/// Arguments of `hpsearch run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    /// The study file
    #[arg(value_name = "STUDY.toml")]
    pub study: Option<PathBuf>,
    /// Override a key of the study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
    /// Accept changes of the space, the sampler, the pruner or [[enqueue]], and
    /// of the command while no trial is complete; the trials stay
    #[arg(long)]
    pub accept: bool,
    /// Start a new study with this name from the file; the other stays as it is
    #[arg(long, value_name = "NAME", conflicts_with = "accept")]
    pub fork: Option<String>,
    /// Resume a study that was paused with `hpsearch pause`
    #[arg(long)]
    pub resume: bool,
    /// Take over the study from a dead runner on another host, such as a container that was
    /// restarted under another name
    #[arg(long)]
    pub take_over: bool,
    /// Continue without missing checkpoints, which are gone for good
    #[arg(long)]
    pub forget_checkpoints: bool,
    /// Print the command lines that start agents ([cluster]), and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print plain lines instead of the live leaderboard
    #[arg(long, group = "form")]
    pub plain: bool,
    /// Print the journal as JSON lines
    #[arg(long, group = "form")]
    pub events: bool,
    /// The same as --plain
    #[arg(long, group = "form")]
    pub no_tui: bool,
}

impl RunArguments {
    /// What the use case needs of them.
    fn options<'a>(&'a self, file: &'a Path) -> RunOptions<'a> {
        let consent = if self.accept { Consent::Given } else { Consent::Missing };
        let (set, fork) = (&self.set, self.fork.as_deref());
        RunOptions {
            file: FileOptions { file, set, fork, consent },
            resume: self.resume,
            take_over: self.take_over,
            unreachable: match self.forget_checkpoints {
                true => Unreachable::Forget,
                false => Unreachable::Refuse,
            },
        }
    }

    /// Whether the run is shown on live screens.
    pub fn is_on_screen(&self, console: &Console) -> bool {
        !self.plain && !self.events && !self.no_tui && console.talk != Talk::Quiet && can_draw()
    }
}

/// Runs it to its end, or until it is interrupted.
pub fn run(arguments: &RunArguments, console: &mut Console) -> Result<Exit, Failure> {
    let file = match &arguments.study {
        Some(file) => file.clone(),
        None if Path::new("study.toml").exists() => PathBuf::from("study.toml"),
        None => starter::offer()?,
    };
    let misnamed = named_like_a_study(&file, console).or_else(|| starter::another_file(&file));
    misnamed.map_or(Ok(()), Err)?;
    if let Some(name) = arguments.fork.as_ref().filter(|name| !config::is_study_name(name)) {
        return Err(Failure::usage(format!("`{}` cannot be a study's name", one_line(name)))
            .help(config::STUDY_NAME_RULE));
    }
    let options = arguments.options(&file);
    let path = console.absolute_store()?;
    let notices = Notices::new(&file, &arguments.set, console);
    let read = run_study::read(&options, &path, &mut notices.teller())?;
    if arguments.dry_run {
        return dry_run(&read.spec, &path, console);
    }
    stored_beside_its_file(&read.spec, &file, &path, arguments, console).map_or(Ok(()), Err)?;
    let words = std::env::args_os;
    let command = foreground::command_line(words()).unwrap_or_else(|| words().collect());
    let notices = Notices::new(&file, &arguments.set, console);
    let prepared = run_study::prepare(read, &options, &path, command, &mut notices.teller())?;
    match prepared {
        Prepared::Ready(ready) => attend(*ready, (&file, &path), arguments, console),
        Prepared::Refused => Ok(Exit::StudyChanged),
    }
}

/// Runs a study that is ready, with screens or lines, destinations and messages, to its end.
fn attend(
    ready: ReadyStudy,
    (file, path): (&Path, &Path),
    arguments: &RunArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let ReadyStudy { study, mut store, start } = ready;
    // Adopts orphans of killed supervisors, so that they can be killed.
    let _refused_by_old_kernels =
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let form = if arguments.is_on_screen(console) { Form::Screens } else { Form::Lines };
    let destinations = Follower::start(
        path,
        study.id,
        &study.spec.track.to,
        &credentials(),
        &destination_listener(form, console),
    );
    let (notifier, mailbox) = match notifier(&study.spec, file, console)? {
        Some((notifier, mailbox)) => (Some(notifier), Some(mailbox)),
        None => (None, None),
    };
    let may_wait = console.talk == Talk::Quiet && !arguments.resume;
    if may_wait && AnyReader::open(path)?.summary(study.id)?.paused.is_some() {
        let resume = console.next(&format!("resume {}", study.spec.name));
        console.say_anyway(&format!(
            "study `{}` is paused, so that nothing starts: {resume} lets it continue",
            study.spec.name
        ));
    }
    let (outcome, signal) = if form == Form::Lines {
        let mut runner = start.runner(&mut store, &study)?;
        if let Some(mailbox) = mailbox {
            runner.report_to(report::notices(&study.spec), Box::new(mailbox))?;
        }
        if let Some(reporter) = lines(arguments, console) {
            runner.report_to(reporter, Box::new(RunLines::new()?))?;
        }
        let signals =
            SignalWatch::start(runner.inputs(), HangUp::Leaves, None).map_err(no_signals)?;
        (runner.run()?, signals.received())
    } else {
        let log = study.files(path).directory().join(ownership::RUN_LOG);
        match on_screen(store, &study, &log, console, |store| {
            let mut runner = start.runner(store, &study)?;
            if let Some(mailbox) = mailbox {
                runner.report_to(report::notices(&study.spec), Box::new(mailbox))?;
            }
            Ok(runner)
        })? {
            Left::Over(outcome, signal) => (outcome, signal),
            // Earlier results no longer apply.
            Left::ToRunAgain => {
                return run(&RunArguments { take_over: false, ..arguments.clone() }, console);
            }
        }
    };
    if let Some(why) = notifier.and_then(Notifier::finish) {
        console.say(&format!("the last message of [notify] was not delivered: {why}"));
    }
    for Behind { destination, why } in destinations.finish() {
        let sync = console.next(&format!("sync {} --to {destination}", study.spec.name));
        console.say(&format!("{destination} lacks some of the runs, {sync} adds them: {why}"));
    }
    conclude(&outcome, signal, form, (&study, file), arguments, console)
}

/// Prints how agents would be started.
fn dry_run(spec: &StudySpec, store: &Path, console: &mut Console) -> Result<Exit, Failure> {
    let lines = app::cluster::command_lines(spec, store);
    for line in &lines {
        writeln!(console.out, "{}", one_line(&shell::quoted(line)))?;
    }
    if lines.is_empty() {
        console.say("nothing is started on other machines: [cluster] names no `type`");
    }
    Ok(Exit::Done)
}

/// Reports a destination that is behind, and its recovery, while the study runs; the screens read
/// that from a file beside the store.
fn destination_listener(form: Form, console: &Console) -> Listener {
    if form == Form::Screens || console.talk == Talk::Quiet {
        return Arc::new(|_, _| ());
    }
    Arc::new(|destination, why| {
        let destination = one_line(&destination.to_string());
        let line = match why {
            Some(why) => format!("{destination} is behind, trials continue: {}", one_line(why)),
            None => format!("{destination} is up to date again"),
        };
        // A blocked standard error delays only the thread of the destination.
        let _unread = writeln!(io::stderr(), "{line}");
    })
}

/// Starts the delivery of notices; problems are reported, and do not prevent the run.
fn notifier(
    spec: &StudySpec,
    file: &Path,
    console: &Console,
) -> Result<Option<(Notifier, Mailbox)>, Failure> {
    if spec.notify.has_no_recipient() {
        return Ok(None);
    }
    let mut to = Recipients::default();
    if !spec.notify.command.is_empty() {
        let file = std::path::absolute(file)?;
        let directory = file.parent().unwrap_or(Path::new(".")).to_owned();
        to.command = Some((spec.notify.command.clone(), directory));
    }
    if let Some(name) = &spec.notify.webhook {
        to.webhook = std::env::var(name).ok().filter(|address| !address.is_empty());
        if to.webhook.is_none() {
            console.say(&format!(
                "warning: no message is posted: the variable {name}, which [notify] webhook names, \
                 is not set"
            ));
        }
        #[cfg(not(feature = "webhook"))]
        if to.webhook.take().is_some() {
            console.say(&format!("warning: {}", crate::runner::notifier::NO_WEBHOOKS));
        }
    }
    let doing = "start the thread of notices";
    let started = Notifier::start(to).map_err(|source| RunnerError::System { doing, source })?;
    Ok(Some(started))
}

/// How a run is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Live screens.
    Screens,
    /// Lines, or no output.
    Lines,
}

fn no_signals(source: io::Error) -> RunnerError {
    RunnerError::System { doing: "listen for signals", source }
}

fn lines(arguments: &RunArguments, console: &Console) -> Option<Box<dyn Reporter>> {
    if arguments.events {
        return reporter("events");
    }
    if console.talk == Talk::Quiet { None } else { Some(plain(console.store_option())) }
}
