//! `hpsearch run`: runs or resumes a study.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use crossbeam_channel::Sender;
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::console::{Console, Talk, can_draw, credentials, shown, typed};
use super::exit::{AGAIN, Exit, Failure};
use super::exported;
use super::failures;
use super::foreground::{self, Foreground};
use super::overrides::sets;
use super::provenance;
use super::waiting::{Waiting, listener};
use super::warm_start::told;
use super::{DEFAULT_STORE, starter};
use crate::app;
use crate::app::best::view_of_runs;
use crate::app::best_runs;
use crate::app::export::{Wanted, check_target, export_trial, target, test_winner};
use crate::app::missing_files::missing_files;
use crate::app::prepare_data::prepare_data;
use crate::app::reconcile::{self, Consent};
use crate::app::request::post;
use crate::app::study_state::life;
use crate::app::warm_start;
use crate::config::{self, Change, ChangeClass, Moved, command_line};
use crate::engine::{Input, Outcome};
use crate::export::Otherwise;
use crate::report::wording::{count, extension, front_in_words, number, one_line};
use crate::report::{Reporter, notices, plain, reporter};
use crate::runner::launcher::Launcher;
use crate::runner::notifier::{Mailbox, Notifier, Recipients};
use crate::runner::ownership::{self, Unreachable};
use crate::runner::process::{ProcessLauncher, own_program};
use crate::runner::provenance::look_around;
use crate::runner::signals::{HangUp, SignalWatch};
use crate::runner::slots::{Machine, left_over, remarks, slots, tried};
use crate::runner::{self, Runner, RunnerError};
use crate::storage::address::is_on_server;
use crate::storage::any::{AnyReader, AnyStore};
use crate::storage::paths::component;
use crate::storage::{Holder, Storage, StorageError, StorageReader, StoredStudy};
use crate::study::checkpoint::Checkpoint;
use crate::study::cluster::AgentStart;
use crate::study::device::Slot;
use crate::study::front::Front;
use crate::study::request::Request;
use crate::study::spec::StudySpec;
use crate::tracking::{Behind, Follower, Listener};
use crate::tui::{Detach, RunnerEnd, TuiContext, TuiExit, TuiMode, Watched, run_tui};

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
        let changes = reconcile::changes(&store, (known.id, before), &spec, &store.salt()?)?;
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
    let found = look_around(&spec, command, prepared.directory.as_deref(), &store.salt()?);
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
        None => Box::new(ProcessLauncher::new(
            own_program(),
            Arc::new(spec.clone()),
            path.clone(),
            study.files(&path),
            protected,
        )),
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

/// How a run with screens ended.
enum Left {
    /// It is over: its outcome, and the signal that ended it.
    Over(Outcome, Option<i32>),
    /// It was over, and a request on its screens continues the study.
    ToRunAgain,
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

/// The error about a study's name in place of its file.
fn named_like_a_study(file: &Path, console: &Console) -> Option<Failure> {
    let name = file.to_str().filter(|_| !file.exists())?;
    let reader = AnyReader::open(&console.store).ok()?;
    let study = reader.study(name).ok()??;
    let failure =
        Failure::usage(format!("`{name}` is a study of the store, and running it takes its file"));
    let run = provenance::run(&reader.runners(study.id).ok()?);
    Some(failure.help(format!(
        "`hpsearch {run}` continues with it; `hpsearch watch` and `hpsearch show` take the name"
    )))
}

/// The error about a study that is in the store beside its file but not in this directory's store:
/// starting it anew was hardly intended.
fn stored_beside_its_file(
    spec: &StudySpec,
    file: &Path,
    here: &Path,
    arguments: &RunArguments,
    console: &Console,
) -> Option<Failure> {
    let there = std::path::absolute(file).ok()?.parent()?.join(DEFAULT_STORE);
    let is_same = || matches!((there.canonicalize(), here.canonicalize()), (Ok(there), Ok(here)) if there == here);
    if console.is_store_named || !there.is_file() || is_same() {
        return None;
    }
    let has = |store: &Path| {
        AnyReader::open(store).ok().and_then(|reader| reader.study(&spec.name).ok()?).is_some()
    };
    if (here.exists() && has(here)) || !has(&there) {
        return None;
    }
    let name = one_line(&spec.name);
    let failure = Failure::usage(format!(
        "the study `{name}` is in the store beside its file, and there is none of it in this \
         directory"
    ));
    let run = format!("hpsearch run {}{}", shown(file), sets(&arguments.set));
    Some(failure.help(format!(
        "`{run} --store {}` continues with it; `{run} --store {DEFAULT_STORE}` begins it anew here",
        typed(&there)
    )))
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

/// Prints the changes since the study was stored; returns the exit code if they need consent.
fn refuse_change(
    changes: &[Change],
    spec: &StudySpec,
    arguments: &RunArguments,
    file: &Path,
    console: &mut Console,
) -> Option<Exit> {
    if changes.is_empty() {
        return None;
    }
    let consent = if arguments.accept { Consent::Given } else { Consent::Missing };
    let refusal = reconcile::refusal(changes, consent);
    // The reason why nothing runs is an error, printed also with `-q`.
    let say: &dyn Fn(&str) =
        if refusal.is_some() { &|text| console.complain(text) } else { &|text| console.say(text) };
    say(&format!("study `{}` changed since it was last run:", spec.name));
    changes.iter().for_each(|change| say(&format!("  {change}")));
    let run = format!("run {}{}", shown(file), sets(&arguments.set));
    match refusal? {
        ChangeClass::NeedsFork => say(&format!(
            "its trials cannot be compared any more: {} starts a new study; or undo the change",
            console.next(&format!("{run} --fork NAME"))
        )),
        _ => say(&format!(
            "{} continues with the new search; or undo the change",
            console.next(&format!("{run} --accept"))
        )),
    }
    Some(Exit::StudyChanged)
}

/// Shared by the screen's and the runner's thread: written once by the runner's.
type Ended = Arc<Mutex<Option<RunnerEnd>>>;

/// Stops the runner if the screen panics: the scope waits for it, and without a screen it could not
/// be stopped.
struct InOrder(Sender<Input>);

impl Drop for InOrder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(self.0.send(Input::Interrupt));
        }
    }
}

/// Runs with the live leaderboard: the runner on its own thread, the screen here, connected by the
/// store only.
fn on_screen(
    mut store: AnyStore,
    study: &StoredStudy,
    log: &Path,
    console: &Console,
    start: impl for<'a> FnOnce(&'a mut AnyStore) -> Result<Runner<'a>, RunnerError> + Send,
) -> Result<Left, Failure> {
    let reader = AnyReader::open(&console.store)?;
    let ended: Ended = Arc::default();
    let (inputs_tx, inputs_rx) =
        crossbeam_channel::bounded::<Result<Sender<Input>, RunnerError>>(1);
    std::thread::scope(|scope| {
        let ended_there = Arc::clone(&ended);
        let running = scope.spawn(move || {
            let runner = match start(&mut store) {
                Ok(runner) => runner,
                Err(error) => {
                    let _screen_waits = inputs_tx.send(Err(error));
                    return None;
                }
            };
            let _screen_waits = inputs_tx.send(Ok(runner.inputs()));
            let outcome = runner.run();
            let end = match &outcome {
                Ok(Outcome::Interrupted(_)) => RunnerEnd::Interrupted,
                Ok(outcome) => RunnerEnd::Finished(outcome.reason().to_owned()),
                Err(error) => RunnerEnd::Finished(error.to_string()),
            };
            *ended_there.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            // The log's remains are saved once the screen has closed its own connection.
            Some((outcome, store))
        });
        let inputs = match inputs_rx.recv() {
            Ok(Ok(inputs)) => inputs,
            Ok(Err(error)) => return Err(Failure::from(error)),
            Err(_) => {
                return Err(
                    Failure::new(Exit::Internal, "the runner ended before it began").help(AGAIN)
                );
            }
        };
        let _in_order = InOrder(inputs.clone());
        let signals = SignalWatch::start(
            inputs.clone(),
            HangUp::IsTheScreens,
            console.foreground.as_ref().map(Foreground::signals),
        )
        .map_err(no_signals)?;
        let store = console.store.clone();
        let mut context = TuiContext {
            mode: TuiMode::Embedded,
            detach: if console.foreground.is_some() {
                Detach::Possible
            } else {
                Detach::Impossible
            },
            theme: console.look,
            store: console.store.clone(),
            // Requests after the end are served here.
            request: &mut |study, request| post(&store, study, &request),
            ended: &|| ended.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            life,
        };
        let left = run_tui(Box::new(reader), Watched::One(study.id), &mut context);
        match &left {
            Ok(TuiExit::Left | TuiExit::RunAgain) => {}
            Ok(TuiExit::Detached) => detach(study, log, console),
            Ok(TuiExit::KillNow) => drop(inputs.send(Input::KillAll)),
            // Without a screen the run could not be stopped: it is ended in order.
            Ok(TuiExit::Gone) | Err(_) => drop(inputs.send(Input::Interrupt)),
        }
        let outcome = running
            .join()
            .map_err(|_| Failure::new(Exit::Internal, "the runner panicked").help(AGAIN))?;
        let left = left?;
        let (outcome, _store) = outcome
            .ok_or_else(|| Failure::new(Exit::Internal, "the runner did not start").help(AGAIN))?;
        if left == TuiExit::RunAgain {
            return Ok(Left::ToRunAgain);
        }
        let hung_up = (left == TuiExit::Gone).then_some(SIGHUP);
        Ok(Left::Over(outcome?, hung_up.or(signals.received())))
    })
}

/// Detaches the run from its terminal. If that fails, it stays there, without its screen.
fn detach(study: &StoredStudy, log: &Path, console: &Console) {
    let (name, pid) = (&study.spec.name, std::process::id());
    let says = || {
        console.say(&format!(
            "study `{name}` continues in the background, as process {pid}; what it \
            says at its end goes to {}",
            shown(log)
        ));
        let [watch, stop] = ["watch", "stop"].map(|verb| console.next(&format!("{verb} {name}")));
        console.say(&format!("{watch} shows it, {stop} stops it"));
    };
    let detached = console.foreground.as_ref().map(|foreground| foreground.detach(log, says));
    if let Some(Err(error)) = detached {
        let log = shown(log);
        console.say(&format!(
            "cannot detach, `{log}` or a session is refused ({error}): the study \
            continues here without its screen; Ctrl-C stops it"
        ));
    }
}

/// Prints the outcome, exports if configured, and returns the exit code.
fn conclude(
    outcome: &Outcome,
    signal: Option<i32>,
    form: Form,
    (study, file): (&StoredStudy, &Path),
    arguments: &RunArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    // The run is over: the remaining output does not wait for stalled readers.
    console.drop_output_of_stalled_readers();
    let reader = AnyReader::open(&console.store)?;
    let summary = reader.summary(study.id)?;
    let name = &study.spec.name;
    let again = command_to_continue(arguments, &shown(file), console);
    // The plain reporter has printed this already.
    let is_told = form == Form::Lines && !arguments.events && console.talk != Talk::Quiet;
    if !is_told {
        console.say(&format!("study `{name}`: {}", outcome.reason()));
    }
    if let (Some((trial, value)), false) = (summary.best, is_told) {
        let total = count(summary.counts.total(), "trial");
        console.say(&format!(
            "best of {total}: trial {trial} with {} {}",
            study.spec.objective().metric,
            number(value)
        ));
    }
    if let (Some(front @ Front { knee: Some(knee), .. }), false) = (&summary.front, is_told) {
        console.say(&format!("{}; trial {knee} is its compromise", front_in_words(front)));
    }
    match outcome {
        Outcome::Finished(_) => {
            let store = console.absolute_store()?;
            let tested =
                test_winner(&mut AnyStore::open(&store)?, study, &store, &mut listener(console));
            if let Err(error) = tested {
                let export = console.next(&format!("export {name}"));
                console.say(&format!(
                    "the winner was not measured on the test split; {export} tries again: {}",
                    Failure::from(error)
                ));
            }
            if let Some(race) = view_of_runs(&reader, &summary)?.as_ref().and_then(best_runs::race)
            {
                console.say(&format!("race: {race}"));
            }
            failures::warn_failing_choices(&reader, &summary, console)?;
            if let (true, Some(directory)) = (study.spec.export.on_finish, &study.spec.export.dir) {
                let known = Some((&reader as &dyn StorageReader, study.id));
                let target = target(directory, &study.spec, Some(file), known, &store)?;
                let wanted = Wanted {
                    trial: None,
                    quantize: study.spec.export.quantize,
                    target: &target,
                    otherwise: Otherwise::Beside,
                };
                let written =
                    export_trial(&reader, &summary, wanted, &store, &mut listener(console))?;
                exported::tell(&written, &study.spec, console);
            } else if summary.best_trial().is_some() {
                let [best, export] = [format!("best {name}"), format!("export {name} -o DIR")]
                    .map(|words| console.next(&words));
                console.say(&format!("{best} shows it, {export} takes it"));
            }
            Ok(Exit::Done)
        }
        Outcome::NoValue(_) => {
            let [trials, logs] = [format!("trials {name}"), format!("logs {name} N")]
                .map(|words| console.next(&words));
            console.say(&format!("{trials} says why each trial ended, {logs} what it printed"));
            if summary.counts.failed > 0 {
                failures::print_next_steps(&reader, &summary, &again, console)?;
            }
            Ok(Exit::NoCompletedTrial)
        }
        Outcome::TooManyFailures(_) => {
            failures::print_next_steps(&reader, &summary, &again, console)?;
            Ok(Exit::FailureLimit)
        }
        Outcome::Interrupted(_) => {
            console.say(&format!("nothing is lost; continue with: {again}"));
            if summary.paused.is_some() {
                let resume = console.next(&format!("resume {name}"));
                console.say(&format!(
                    "it stays paused until {resume}, or until it is run with --resume"
                ));
            }
            Ok(match signal {
                Some(SIGTERM) => Exit::Terminated,
                Some(SIGHUP) => Exit::HungUp,
                _ => Exit::Interrupted,
            })
        }
        Outcome::Refused(reason) => {
            let help = format!(
                "nothing is lost, and no trial failed: make room on the disk (`df -h`, `df -i`), \
                 raise the limit (`ulimit -n`, `ulimit -u`) or allow writing there, then continue \
                 with: {again}"
            );
            Err(Failure::new(Exit::Store, reason.clone()).help(help))
        }
        Outcome::Broken(reason) => Err(Failure::new(Exit::Internal, reason.clone()).help(AGAIN)),
    }
}

fn command_to_continue(arguments: &RunArguments, file: &str, console: &Console) -> String {
    let fork = arguments.fork.as_ref().map_or(String::new(), |fork| format!(" --fork {fork}"));
    format!("hpsearch run {file}{}{fork}{}", sets(&arguments.set), console.store_option())
}
