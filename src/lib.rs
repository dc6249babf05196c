//! hpsearch: hyperparameter search and experiment tracking in one binary. This page describes the
//! architecture.
//!
//! A **study** (a `study.toml`, or [`Study`] in Rust) defines a search space, a sampler, a pruner,
//! a budget, devices and an objective. The **runner** starts **trials** on slots, stores their
//! reports, lets the pruner stop unpromising ones, and keeps the best checkpoint ready for export.
//! The objective is the built-in trainer, a command in any language, or a Rust closure:
//!
//! ```
//! use hpsearch::{Study, TrialEnd};
//!
//! let finished = Study::minimize("parabola", "loss")
//!     .float("x", -5.0, 5.0)
//!     .trials(30)
//!     .run(|trial| {
//!         let x = trial.number_of("x")?;
//!         trial.report(1, (x - 1.0).powi(2));
//!         Ok(TrialEnd::Finished)
//!     })?;
//! assert!(finished.best().and_then(|best| best.value).is_some_and(|loss| loss < 1.0));
//! # Ok::<(), hpsearch::StudyError>(())
//! ```
//!
//! # Layers
//!
//! A module uses the layers below it and a few modules of its own layer; `tests/it/layering.rs` has
//! the table and checks it, and also that the files of a module depend on each other in one
//! direction. Layers 0 to 2 read no clock, have no randomness of their own and start no threads; of
//! them, only the store and the study file touch the disk.
//!
//! | layer | module | contents |
//! |---|---|---|
//! | 0 | [`study`] | specification, space, trials, decisions, events, and the state they fold to |
//! | | [`simd`] | functions compiled for the vector instructions of several processors |
//! | 1 | [`arguments`] | the trainer's arguments and their checks, with or without the trainer |
//! | | [`analysis`] | forecasts of curves, memory, time and cost; parameter importance |
//! | | [`storage`] | the store: memory, a SQLite file, a PostgreSQL server; paths of trial files |
//! | | [`samplers`], [`pruners`] | propose configurations; stop trials |
//! | | [`config`] | parses `study.toml` to a specification, or reports all problems at once |
//! | 2 | [`engine`] | the search as a state machine, without clock, files or processes |
//! | 3 | [`runner`] | the event loop; processes, devices, the protocol with children |
//! | | [`cluster`] | agents on other machines: the link to them, what they do, their start |
//! | | [`report`] | lines, tables, figures (plain data) and reports for users and programs |
//! | | [`tracking`] | runs without a search: each process writes its own, fenced by its attempt |
//! | | [`export`] | the best trial as a directory, written atomically |
//! | 3' | [`worker`] | the child process that runs jobs and dies with its runner |
//! | | [`trainer`] | the built-in trainer, on `arguments` alone; only it uses burn and tokenizers |
//! | 4 | [`app`] | use cases without a console, which tell their progress by callbacks |
//! | 5 | [`cli`] | a file per verb: it parses, calls [`app`] and prints; it uses no other verb's |
//! | | [`tui`] | the live screens |
//! | | [`server`] | the live page in a browser: HTTP, its defences, server-sent events |
//! | | [`library`] | [`Study`], for Rust programs |
//! | | [`ask_tell`] | a study whose trials another program runs, over a line protocol |
//!
//! There are three packages, so that an edit rebuilds little: `src/core` (layer 0, `arguments`,
//! `analysis`, `samplers`, `pruners`), `src/trainer`, and this one, which re-exports them.
//!
//! # Interfaces
//!
//! [`Sampler`](samplers::Sampler) and [`Pruner`](pruners::Pruner) are functions of the history and
//! a random stream; their only state is caches. Each entry of their tables runs the conformance
//! suite of its trait. [`Storage`](storage::Storage) and [`StorageReader`](storage::StorageReader)
//! have one conformance suite for all stores, and one set of queries: the store in memory is an
//! SQLite database, and PostgreSQL is reached through the same SQL.
//! [`Engine::step`](engine::Engine::step) turns one [`Input`](engine::Input) into
//! [`Effect`](engine::Effect)s; the [simulator](engine::simulator) drives it under a virtual clock.
//! [`Launcher`](runner::launcher::Launcher) and [`Job`](runner::launcher::Job) abstract over
//! processes and threads. [`Reporter`](report::Reporter) writes the output of a run;
//! [`Host`](trainer::Host) is the trainer's only connection to the rest.
//!
//! # Data flow
//!
//! 1. [`config`] parses `study.toml` with source spans and resolves it to a
//!    [`StudySpec`](study::spec::StudySpec), or reports all problems at once.
//! 2. The store is opened and migrated, and the study looked up by name. Changes of the file are
//!    shown and, depending on the key, accepted, accepted with `--accept`, or refused without
//!    `--fork`; verbs and programs share this rule ([`app::reconcile`]).
//! 3. A separate worker reads, checks and tokenises the data, once per digest of data and
//!    tokenizer.
//! 4. A directory for the trials' files is claimed: a mark in it names the store, so that no store
//!    touches another's files ([`runner::ownership`]). The lease is taken, and with it a lock
//!    beside the store, which shows every process on this machine that the holder is alive
//!    ([`runner::lease`]). Recovery after a dead runner: its processes are killed and its end is
//!    recorded; complete checkpoints that it did not record are adopted or removed; open attempts
//!    are closed as lost, and their trials continue from the newest checkpoint that is not ahead of
//!    their reports.
//! 5. The event loop: wait for one input, drain the rest, step the engine for each, append the
//!    events of the turn in **one transaction**, and only then launch, answer, kill, remove and
//!    print ([`runner::commit`], also for ask and tell).
//! 6. A child runs the attempt: a long-lived worker per slot for the built-in trainer, a supervisor
//!    per attempt for a command, which is one process or one per device of the slot's group
//!    (`worker/ranks.rs`; only rank 0 sends messages). A group over several agents is one attempt
//!    of all of them, led by the first (`cluster/hub/group.rs`). Messages are lines `@hpsearch
//!    {..}` on stdout; every other line is the trial's log, from which patterns may extract metrics
//!    ([`study::printed_metrics`]). A report of the study's metric gets a decision; other metrics
//!    become points of series, which are written with the events of their turn but are not in the
//!    journal ([`runner::point_queue`]). Rejected lines are events
//!    ([`Remarked`](study::event::AttemptEvent::Remarked)) and are reported.
//! 7. A checkpoint is written to a temporary directory, synced, renamed, then announced. The engine
//!    keeps those of the best, the running and the paused trials, fewer if `max_disk` is exceeded,
//!    and drops the others; `du` uses the same rule. What a command wrote is its own until its
//!    trial has ended. Before one is dropped for the sake of others, these are looked for: what is
//!    gone is an event as well. Dropped checkpoints are deleted only inside their own trial's
//!    directory ([`runner::removal`]). Paths are stored relative to the directory of files, so that
//!    a project can be moved.
//! 8. The screens read the store, and the logs beside it, in `run` as in `watch`; a thread loads
//!    data and renders slow charts, so that no frame waits. Trials of several studies are one list
//!    ([`app::several`]); everything else on a screen belongs to the study of the selected trial.
//!    The screens' commands, like those of the verbs, are rows of `request` ([`app::request`]),
//!    served by the runner; if the study is not running, the requester takes the lease briefly and
//!    has the engine serve them. A request is answered in the same transaction as its consequences,
//!    or stays pending. Notes and tags need no lease: their author writes them with their event.
//! 9. Export verifies digests, measures the test split, and renames a complete directory into
//!    place. It replaces only a previous export, recognised by the digests in its marker; one that
//!    the store could not export again, such as a model of `train`, is set aside.
//!
//! # Crashes and signals
//!
//! Nothing is visible before it is durable, so any process may be killed at any time: run the study
//! again. The first SIGINT, SIGTERM or SIGHUP lets trials save and exit (30 s), the second kills
//! them, the third aborts. On a terminal `run` is the child of a process that only waits there and
//! forwards signals, so that it can be detached without restarting (`cli/foreground.rs`). Children
//! have their own process groups and die with their parent. A supervisor adopts its command's
//! orphans, and reports its command's end on a socket out of the command's reach. If a runner is
//! killed together with its supervisors, a watchdog ends what they leave ([`worker::watchdog`]). A
//! lease has an epoch, and writes with an older epoch are rejected. The store runs in WAL mode with
//! `synchronous = NORMAL`: after a power loss it is consistent, and may lack the last transactions.
//!
//! A trial of the built-in trainer that runs out of memory continues with half the batch size and
//! the same optimiser steps ([`engine::batch_halving`]); this is not a retry, and the search does
//! not notice. `train`, `predict` and the test split at `export` do the same. Checkpoints are
//! written and read without a second copy in memory.
//!
//! A broken program ends its study after the first three failures, if they are alike
//! (`engine/first_failures.rs`). An attempt that times out is asked to exit, and killed after the
//! usual grace.
//!
//! Refusals by the machine are no trial's fault: the trial stays queued, and after ten consecutive
//! refusals the run ends (`engine/refusals.rs`). If the store fails (no space, a limit, a file
//! moved or replaced, including its log and index), the run ends: running trials may save and exit,
//! nothing is answered that is not written, and the error says what to do. A run reads the system
//! clock once and then counts on ([`runner::clock`]), and a study's time never goes back between
//! runs, so that adjusting the clock affects neither budgets nor the order of events. A suspension
//! of the runner counts towards no trial's limits ([`runner::suspension`]). Children are read only
//! as fast as their messages are written. Reporters write on their own threads, so that a stalled
//! reader blocks nothing ([`report`]).
//!
//! # Determinism
//!
//! Random streams are named by their purpose (`sampler/7`, `trial/7`), so that no draw depends on
//! another. The trainer's random numbers are functions of (seed, name, counters), and it resumes
//! exactly at any optimiser step. With one slot on the CPU a study repeats bit for bit, unless its
//! pauses are priced: `engine/restarts.rs` measures how long trials take to start again. With
//! several slots, proposals depend on the order in which trials report, unless `deterministic =
//! true`: then results become known to decisions one trial at a time, in the order in which trials
//! started, and a trial starts when all but the last `slots - 1` trials before it are known; its
//! decisions use what was known at its start. The journal records when
//! ([`ResultsKnown`](study::event::DecisionEvent::ResultsKnown)), so that any number of slots can
//! continue the study. The price is waiting for stragglers, and decisions with `slots - 1` fewer
//! results.
//!
//! [`engine::verify`] replays a journal and repeats every decision in it, with the specification of
//! that time.
//!
//! # Automatic concurrency
//!
//! With `trials_per_device = "auto"` the runner measures devices and trials once a second and
//! passes the loads to the engine ([`Input::Load`](engine::Input::Load)); agents measure theirs and
//! send them. [`engine::concurrency`]
//! decides the number of concurrent trials, and the journal records each change
//! ([`ConcurrencyChanged`](study::event::DeviceEvent::ConcurrencyChanged)), from which the next run
//! continues. The journal also has the peak memory of each attempt, from which
//! [`analysis::memory_model`] estimates that of others: a trial without enough memory waits, and a
//! configuration that fits no device is not proposed.
//!
//! # Populations
//!
//! With `[pruner] type = "pbt"` trials are members of populations, which are created whole and meet
//! at each interval. Once all members that have not ended are there, [`pruners::Pruner::exploit`]
//! decides about all of them in one turn, from their reports and named random streams, so that no
//! checkpoint is superseded between two decisions and nothing depends on who is faster
//! (`engine/populations.rs`). A copy is an event with the checkpoint's digest and the parameters
//! ([`Cloned`](study::event::StateEvent::Cloned)); until the member has a checkpoint of its own,
//! retention keeps the other's. With `asynchronous = true` each member is decided about when it
//! arrives, by the others' latest results. That is a function of the state, too, and the journal
//! has the order of arrivals: a killed run goes on with its decisions, and [`engine::verify`]
//! repeats them, but another run has others. Retention then keeps what each member saved at its
//! last interval. Digests are computed when checkpoints are registered, and compared before a copy
//! is used ([`runner::checkpoint_digest`]). [`study::schedule::schedule`] follows the checkpoints
//! of a state back to the start.
//!
//! # Several runs of a configuration
//!
//! Every run is a trial; [`Origin`](study::trial::Origin) says which configuration it repeats, and
//! [`study::configuration`] groups them. Samplers see one configuration with the mean of its runs;
//! pruners ignore runs that only measure (`replicates`, `race`). The final comparison (`race`) is a
//! function of the state, too ([`engine::finalists`]): rounds with one seed each, paired t tests,
//! and only fresh runs count.
//!
//! # Store
//!
//! The source of truth are STRICT tables with singular names; `event` is the journal of the same
//! transactions, and folding it gives the same state. NULL means NaN. On a PostgreSQL server the
//! tables are the same; a lease ends by the server's clock unless its holder renews it, and every
//! write locks the row of its lease first. Read-only views have Optuna's table names. Network file
//! systems are rejected. Removing a study deletes all its rows in one
//! transaction, which records the directories of its files until they are deleted
//! ([`app::remove_study`]); its key is never reused. A trial of a search is never removed, only
//! hidden by an event.
//!
//! # Extension points
//!
//! A sampler or pruner: one file and one line of [`SAMPLERS`](samplers::SAMPLERS) or
//! [`PRUNERS`](pruners::PRUNERS). A reporter: one file, one line of
//! [`REPORTERS`](report::REPORTERS), and its flag in `cli`. A training argument: one line of
//! [`ARGUMENTS`](arguments::ARGUMENTS) and its field. A key of the study file: one line of
//! [`TABLES`](config::TABLES), and the code in `config` that reads it; all keys, including the
//! options of samplers and pruners, are [`Field`](study::field::Field)s. A task: one file with its
//! `Task` and `Model`, one line of the trainer's `TASKS`, and its entry in
//! [`TRAINER_TASKS`](arguments::TRAINER_TASKS), which binaries without the trainer have too. An
//! architecture of pretrained models: one entry of the trainer's `ENCODERS`, `DECODERS` or
//! `SEQ2SEQ` (its keys of `config.json` and tensor names) and its name in
//! [`ENCODER_TYPES`](arguments::ENCODER_TYPES), [`DECODER_TYPES`](arguments::DECODER_TYPES) or
//! [`SEQ2SEQ_TYPES`](arguments::SEQ2SEQ_TYPES). A verb: one file in `cli` and its line in
//! `dispatch`; what it does to a study, or shares with another verb, is a function of `app`. A
//! module: a line here and one in `tests/it/layering.rs`.
//!
//! # Design notes
//!
//! - There are no traits for objectives and exporters: there is one exporter, and the three kinds
//!   of objective are [`Program`](study::program::Program) and the launchers. A trait comes with
//!   its second implementation.
//! - Besides `judge`, a pruner has `first_rung` and `conclude`: ladders of pauses need a first stop
//!   and an end. Promotions clone nothing and draw nothing, so they are decided from the history
//!   alone. The only capability that differs between samplers is `exhausts`.
//! - Data is prepared before the lease is taken, and the test split is measured at export: both are
//!   worker jobs, not trials.
//! - [`report::wording`] measures text width with ratatui, so that tables in pipes and on screens
//!   agree.
//! - An unlisted checkpoint of a command is left alone: only the command knows its content and
//!   step. One that it may overwrite is copied when it is announced (`runner/copies.rs`); the store
//!   lists the copy.
//! - The winner of a race is measured on the test split by `run`, after the runner has ended: a
//!   worker job, as at export.
//! - A member of a population remains one trial when it takes over another's checkpoint: its
//!   segments ([`study::segment`]) say where, and `param` has its present parameters. Samplers know
//!   nothing of this, since populations are created whole.

pub mod app;
pub mod ask_tell;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod engine;
pub mod export;
pub mod library;
pub mod report;
pub mod runner;
pub mod server;
pub mod storage;
pub mod tracking;
pub mod tui;
pub mod worker;

pub use hpsearch_core::{analysis, arguments, pruners, samplers, simd, study};
#[cfg(feature = "train")]
pub use hpsearch_trainer as trainer;

pub use engine::TellOutcome;
pub use library::{AskedTrial, Finished, OpenStudy, Study, StudyError};
pub use runner::inline::{Continue, TrialContext, TrialEnd, TrialError};
