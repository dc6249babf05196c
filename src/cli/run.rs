//! `hpsearch run`: runs or resumes a study.

mod conclusion;
mod refusal;
mod screen;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use conclusion::conclude;
use refusal::{named_like_a_study, refuse_change, stored_beside_its_file};
use screen::{Left, on_screen};

use super::console::{Console, Talk, can_draw, credentials, shown};
use super::exit::{Exit, Failure};
use super::exported;
use super::foreground;
use super::provenance;
use super::starter;
use super::waiting::{Waiting, listener};
use super::warm_start::told;
use crate::app;
use crate::app::export::check_target;
use crate::app::missing_files::missing_files;
use crate::app::prepare_data::prepare_data;
use crate::app::reconcile;
use crate::app::warm_start;
use crate::config::{self, Moved, command_line};
use crate::report::wording::{extension, one_line};
use crate::report::{Reporter, notices, plain, reporter};
use crate::runner::inputs::{self, KnownInputs};
use crate::runner::launcher::Launcher;
use crate::runner::notifier::{Mailbox, Notifier, Recipients};
use crate::runner::ownership::{self, Unreachable};
use crate::runner::process::{ProcessLauncher, own_program};
use crate::runner::provenance::look_around;
use crate::runner::signals::{HangUp, SignalWatch};
use crate::runner::slots::{Machine, left_over, remarks, slots, tried};
use crate::runner::{self, Runner, RunnerError};
use crate::storage::address::is_on_server;
use crate::storage::any::AnyStore;
use crate::storage::paths::component;
use crate::storage::{Holder, Storage, StorageError, StorageReader, StoredStudy};
use crate::study::checkpoint::Checkpoint;
use crate::study::cluster::AgentStart;
use crate::study::counted::count;
use crate::study::device::Slot;
use crate::study::request::Request;
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
    /// Accept changes of the space, the sampler, the pruner or [[enqueue]]
    #[arg(long)]
    pub accept: bool,
    /// Start a new study with this name from the file
    #[arg(long, value_name = "NAME", conflicts_with = "accept")]
    pub fork: Option<String>,
    /// Resume a study that was paused with `hpsearch pause`
    #[arg(long)]
    pub resume: bool,
    /// Take the study from a runner on another host that is gone: a container
    /// that was restarted under another name
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
    let checked = config::load_with_warnings(&file, &arguments.set)?;
    console.warn(&checked.warnings);
    let mut spec = checked.spec.clone();
    if let Some(name) = &arguments.fork {
        if !config::is_study_name(name) {
            return Err(Failure::usage(format!("`{}` cannot be a study's name", one_line(name)))
                .help(config::STUDY_NAME_RULE));
        }
        spec.name.clone_from(name);
    }
    let machine = Machine::detect(&spec.devices.select);
    // Agents have those of other machines.
    let places = match &spec.cluster {
        Some(_) => Vec::new(),
        None => slots(&spec.devices, &spec.program, &machine)?,
    };
    remarks(&places).iter().for_each(|remark| console.say(remark));
    if spec.cluster.is_none()
        && let Some(idle) = left_over(&spec.devices, &spec.program, &machine)
    {
        console.say(&idle);
    }
    let path = console.absolute_store()?;
    reconcile::place_files(&mut spec, &file, &path)?;
    if arguments.dry_run {
        return dry_run(&spec, &path, console);
    }
    let is_new = !is_on_server(&path) && !path.exists();
    if is_new {
        checked.begins()?;
    }
    stored_beside_its_file(&spec, &file, &path, arguments, console).map_or(Ok(()), Err)?;
    let mut store = AnyStore::open(&path)?;
    console.mention(&format!(
        "store: {}{}",
        one_line(&path.display().to_string()),
        if is_new { " (new)" } else { "" }
    ));
    console.print_migration(store.migrated());
    let known = store.study(&spec.name)?;
    if !known.as_ref().is_some_and(|known| command_line::has_earlier_rules(&known.spec, &spec)) {
        checked.begins()?;
    }
    if let (None, Some(note)) = (&known, command_line::unnamed_parameters(&spec)) {
        console.mention(&format!("note: {note}"));
    }
    if let Some(known) = known.as_ref().filter(|known| known.spec.is_tracked()) {
        return Err(StorageError::Tracked { study: known.spec.name.clone() }.into());
    }
    if let Some(known) = &known {
        // The file does not know about `hpsearch extend`, nor the rules with which the study began.
        spec.budget.extend(known.extension);
        command_line::keep_rules(&known.spec, &mut spec);
        print_extension(known, &arguments.set, console);
    }
    let inputs = inputs::of_study(&spec);
    let known_inputs = KnownInputs::of(&inputs);
    if let Some(known) = &known {
        let moved = reconcile::moved(known, &spec, &path);
        if let Some((Moved { from, to }, _)) = &moved {
            let how = if from.exists() { "copied" } else { "moved" };
            console.say(&format!(
                "the project was {how} from {} to {}",
                from.display(),
                to.display()
            ));
        }
        let before = moved.as_ref().map_or(&known.spec, |(_, spec)| spec);
        let changes =
            reconcile::changes(&store, (known.id, before), &spec, &store.salt()?, &inputs)?;
        if let Some(exit) = refuse_change(&changes, &spec, arguments, &file, console) {
            return Ok(exit);
        }
    }
    let stored = known.as_ref().map(|known| (&store as &dyn StorageReader, known.id));
    if let Some(edited) = check_target(&spec, &file, stored, &path)? {
        exported::warn_edited_export(&edited, console);
    }
    let earlier = warm_start::take(&mut spec, known.as_ref().map(|known| &known.spec), &store)?;
    earlier.iter().for_each(|found| console.say(&told(found, &spec)));
    missing_files(&spec).iter().for_each(|missing| console.say(&missing.to_string()));
    let prepared = prepare_data(&spec, &path, &mut listener(console))?;
    for line in &prepared.findings {
        if known.is_none() || console.talk == Talk::Verbose {
            console.say(&format!("data: {line}"));
        }
    }
    if let Some(known) = known.as_ref().filter(|_| arguments.take_over) {
        match runner::take_over(&mut store, known)? {
            Some(Holder { pid, host, .. }) => {
                console.say(&format!("taken over from process {pid} on `{}`", one_line(&host)))
            }
            None => console.say("--take-over: no process of another host holds the study"),
        }
    }
    let study = reconcile::settle(&mut store, known, &spec)?;
    if arguments.resume && store.summary(study.id)?.paused.is_some() {
        store.request(study.id, runner::now(), &Request::ResumeStudy)?;
    }
    let words = std::env::args_os;
    let command = foreground::command_line(words()).unwrap_or_else(|| words().collect());
    let found = look_around(&spec, inputs, command, prepared.directory.as_deref(), &store.salt()?);
    provenance::warn_changed_programs(
        &store,
        &store.summary(study.id)?,
        &found.provenance,
        console,
    )?;
    // If another process runs the study, that is reported, without disturbing its trials.
    let places = if spec.cluster.is_none() && store.summary(study.id)?.held.is_none() {
        working(places, &spec, console)?
    } else {
        places
    };
    let unreachable =
        if arguments.forget_checkpoints { Unreachable::Forget } else { Unreachable::Refuse };
    let before = study.directory.clone();
    let study = ownership::claim(&mut store, study, &path, unreachable)?;
    let own = component(&spec.name);
    if study.directory != before && study.directory.as_ref() != Some(&own) {
        let directory = study.files(&path).directory();
        console.say(&format!(
            "files of trials go to {}: `{own}` beside it belongs to another store",
            shown(&directory)
        ));
    }
    let missing = |checkpoint: &Checkpoint| matches!(checkpoint.path.try_exists(), Ok(false));
    let gone =
        store.checkpoints(study.id)?.iter().filter(|(_, checkpoint)| missing(checkpoint)).count();
    if gone > 0 {
        console.say(&format!(
            "{} missing, and forgotten: trials that need one begin again",
            count(gone as u64, "checkpoint")
        ));
    }
    let protected = vec![path.clone(), std::path::absolute(&file)?];
    let launcher: Box<dyn Launcher + Send> = match &spec.cluster {
        Some(cluster) => {
            if cluster.start == AgentStart::Manual {
                let file = std::path::absolute(app::cluster::file(&study, &path))?;
                console.say(&format!(
                    "start agents on other machines with `hpsearch agent {}`",
                    file.display()
                ));
            }
            let prepared = prepared.directory.as_deref();
            Box::new(app::cluster::launcher(&study, (&spec, cluster), &path, prepared, protected))
        }
        None => {
            let launcher = ProcessLauncher::new(
                own_program(),
                Arc::new(spec.clone()),
                path.clone(),
                study.files(&path),
                protected,
            );
            Box::new(launcher.with_inputs(known_inputs))
        }
    };
    // Adopts orphans of killed supervisors, so that they can be killed.
    let _refused_by_old_kernels =
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let form = if arguments.is_on_screen(console) { Form::Screens } else { Form::Lines };
    let destinations = Follower::start(
        &path,
        study.id,
        &spec.track.to,
        &credentials(),
        &destination_listener(form, console),
    );
    let (notifier, mailbox) = match notifier(&spec, &file, console)? {
        Some((notifier, mailbox)) => (Some(notifier), Some(mailbox)),
        None => (None, None),
    };
    let (outcome, signal) = if form == Form::Lines {
        let mut runner =
            Runner::start(&mut store, &study, places, launcher, &path)?.describe(found)?;
        if let Some(mailbox) = mailbox {
            runner.report_to(notices(&spec), Box::new(mailbox))?;
        }
        if let Some(reporter) = lines(arguments, console) {
            // A separate file handle: the lock of `stdout` would be held while a reader stalls.
            runner.report_to(
                reporter,
                Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            )?;
        }
        let signals =
            SignalWatch::start(runner.inputs(), HangUp::Leaves, None).map_err(no_signals)?;
        (runner.run()?, signals.received())
    } else {
        let log = study.files(&path).directory().join(ownership::RUN_LOG);
        match on_screen(store, &study, &log, console, |store| {
            let mut runner =
                Runner::start(store, &study, places, launcher, &path)?.describe(found)?;
            if let Some(mailbox) = mailbox {
                runner.report_to(notices(&spec), Box::new(mailbox))?;
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
    conclude(&outcome, signal, form, (&study, &file), arguments, console)
}

/// Prints how agents would be started.
fn dry_run(spec: &StudySpec, store: &Path, console: &mut Console) -> Result<Exit, Failure> {
    let lines = app::cluster::command_lines(spec, store);
    for line in &lines {
        writeln!(console.out, "{}", one_line(&command_line::quoted(line)))?;
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

/// The slots on working devices.
fn working(
    places: Vec<Slot>,
    spec: &StudySpec,
    console: &mut Console,
) -> Result<Vec<Slot>, Failure> {
    let waiting = Waiting::start("trying the devices", console);
    let found = tried(places, &spec.devices, &spec.program);
    drop(waiting);
    let (places, troubles) = found?;
    troubles.iter().for_each(|trouble| console.say(&format!("warning: {trouble}")));
    Ok(places)
}

fn print_extension(known: &StoredStudy, set: &[String], console: &mut Console) {
    if !known.extension.is_nothing() {
        let more = extension(known.extension);
        let over_set = set.iter().any(|word| word.trim_start().starts_with("budget."));
        let take_back = if over_set {
            format!("; `--set` is raised by it too: set {more} less to take it back")
        } else {
            String::new()
        };
        console.say(&format!(
            "budget: {more} more than the file says, by `hpsearch extend`{take_back}"
        ));
    }
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
