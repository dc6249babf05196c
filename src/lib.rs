//! hpsearch: hyperparameter search and experiment tracking from one binary. This page is the plan
//! of the house.
//!
//! A **study** (a `study.toml`, or [`Study`] in Rust) names a search space, a sampler, a pruner, a
//! budget, devices and an objective. The **runner** starts **trials** on slots, writes what they
//! report into a store, lets the pruner stop the hopeless ones, and leaves the best checkpoint
//! ready for export. The objective is the built-in trainer, a command in any language, or a Rust
//! closure:
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
//! A module uses the layers below it and a few friends of its own; `tests/it/layering.rs` holds the
//! table and checks it, and that files of a room use each other in one direction. Layers 0 to 2
//! read no clock, draw no numbers of their own and start no thread; of them only the store and the
//! study file touch the disk.
//!
//! | layer | module | what it is for |
//! |---|---|---|
//! | 0 | [`study`] | the nouns as plain data: specification, space, trials, decisions, events, and the state they fold to |
//! | 1 | [`arguments`] | the trainer's arguments and their checks, known to binaries that cannot train |
//! | | [`analysis`] | what results say: learning curves, memory, importance, the forecast of a study's time and cost |
//! | | [`storage`] | the store: in memory or one SQLite file; where trials' files lie |
//! | | [`samplers`], [`pruners`] | who proposes configurations; who stops trials |
//! | | [`config`] | `study.toml` to a specification, or everything that is wrong with it |
//! | 2 | [`engine`] | the whole search as a state machine without a clock, files or processes |
//! | 3 | [`runner`] | the one loop: waits, asks the engine, writes, then acts; processes, devices, the protocol with children |
//! | | [`report`] | lines and tables for people and programs |
//! | | [`tracking`] | runs without a search: each process writes its own, fenced by its attempt |
//! | | [`export`] | the best trial as a directory, written all or nothing |
//! | 3' | [`worker`] | the child process that carries out jobs and dies with its runner |
//! | | [`trainer`] | the built-in trainer: the only home of burn and tokenizers; sees `arguments` and nothing else |
//! | 4 | [`app`] | use cases without a console: find, reconcile, prepare data, request, export, train once; progress by a callback |
//! | 5 | [`cli`] | one thin file a verb: it parses, calls [`app`] and prints; no verb uses another's file |
//! | | [`tui`] | the live screens |
//! | | [`library`] | [`Study`], for Rust programs |
//! | | [`ask_tell`] | a study whose trials other programs run, line by line; of a stored one that several share, one process has the lease and serves the others ([`app::study_clients`]) |
//!
//! Three packages, so that an edit builds little again: `src/core` (layer 0, `arguments`, `analysis`,
//! `samplers`, `pruners`), `src/trainer`, and this one, which re-exports them.
//!
//! # Seams
//!
//! [`Sampler`](samplers::Sampler) and [`Pruner`](pruners::Pruner) are functions of history and a
//! random stream: they keep nothing that cannot be computed again. [`Storage`](storage::Storage)
//! and [`StorageReader`](storage::StorageReader) pass one conformance suite in both stores.
//! [`Engine::step`](engine::Engine::step) turns one [`Input`](engine::Input) into
//! [`Effect`](engine::Effect)s; the [simulator](engine::simulator) drives it under a virtual clock.
//! [`Launcher`](runner::launcher::Launcher) and [`Job`](runner::launcher::Job) stand for whatever
//! carries out a trial, processes or threads. [`Reporter`](report::Reporter) says what happened;
//! [`Host`](trainer::Host) is all that the trainer knows of the rest. Every sampler and pruner runs
//! its kind's conformance suite by being in the table.
//!
//! # Data flow
//!
//! 1. [`config`] reads `study.toml` as a tree with places and resolves it to a
//!    [`StudySpec`](study::spec::StudySpec), or tells all problems at once.
//! 2. The store is opened and migrated, the study found by name. A changed file is shown as a
//!    difference, and taken, taken with `--accept`, or refused without `--fork`, by one rule for
//!    verbs and programs ([`app::reconcile`]).
//! 3. A worker of its own reads, checks and tokenises the data, once for each digest of data and
//!    tokenizer.
//! 4. A directory is taken for the files of its trials: a mark there names the store, so that no
//!    store touches another's ([`runner::ownership`]). The lease is taken, and with it a lock
//!    beside the store, by which everybody on this machine sees that its holder lives
//!    ([`runner::lease`]). Processes that a dead runner left are killed, and its end is written in
//!    its stead; whole checkpoints that it did not store are adopted or removed; open attempts are
//!    closed as lost, and their trials continue from the newest checkpoint that is not ahead of
//!    their reports.
//! 5. The loop: wait for one input, drain the rest, step the engine for each, append the events of
//!    the turn in **one transaction**, and only then launch, answer, kill, remove, print
//!    ([`runner::commit`], for programs that ask and tell too).
//! 6. A child carries out the attempt: one long-lived worker a slot for the built-in trainer, one
//!    supervisor an attempt for a command. It says `@hpsearch {..}` on stdout; every other line is
//!    its log, in which patterns may find metrics ([`study::printed_metrics`]). A report of the
//!    metric gets a decision; other metrics become points of series, which are written with the
//!    events of their turn and are not in the journal ([`runner::point_queue`]); what is not taken of a line is an event
//!    ([`Remarked`](study::event::TrialEvent::Remarked)), and said.
//! 7. A checkpoint is written beside its place, synced, renamed, then told. The engine keeps the
//!    best of the study, what runs and what is paused, and drops the others, and more where
//!    `max_disk` is short: one rule, which `du` reads too. Of what is dropped only what lies in its
//!    own trial's directory is removed ([`runner::removal`]); paths are stored relative to the
//!    directory of files, so that a project may be moved.
//! 8. The screens read the store, and logs beside it, in `run` as in `watch`: a thread loads what
//!    they want and draws what takes long, so that no frame waits. Their commands are rows of
//!    `request`, as those of every verb that asks for something ([`app::request`]). Whoever runs
//!    the study serves them; where nobody does, the asker takes the lease for a moment and has the
//!    engine serve them at rest. A request and what it leads to are answered in one transaction, or
//!    stay asked; notes and tags are written with their event by whoever writes them, without a
//!    lease.
//! 9. Export checks digests, measures the test split, and renames a complete directory into place;
//!    it replaces only what an export wrote, by the digests in its marker.
//!
//! # Crashes and signals
//!
//! Nothing is visible before it is durable, so any process may be killed at any time: run the study
//! again. The first SIGINT, SIGTERM or SIGHUP lets trials save and leave (30 s), the second kills
//! them, the third aborts. On a terminal `run` is the child of a process that only waits there and
//! passes signals on, so that it can be detached: the run stays the process that it was
//! (`cli/foreground.rs`). Children have process groups of their own and die with their parent; a
//! supervisor adopts what its command leaves behind, and says how it ended on a socket that the
//! command does not have; what a runner and its supervisors leave that are killed at once, a
//! watchdog ends ([`worker::watchdog`]). A lease carries an epoch, and a write with an old one is
//! refused. The store runs in WAL mode with `synchronous = NORMAL`: after a power loss it is sound,
//! and may lack its last moments.
//!
//! A trial of the built-in trainer that runs out of memory continues with half the rows at once, in
//! the same optimiser steps ([`engine::batch_halving`]): that is no retry, and the search does not
//! see it. So do `train`, `predict` and the test split at `export`. Checkpoints are written and
//! read without lying in memory a second time.
//!
//! A program at fault ends its study after its first three failures, if they are alike
//! (`engine/first_failures.rs`). What takes too long, or says nothing, is asked to leave, and
//! killed after the same grace as everything else that was asked.
//!
//! What the machine refuses is no trial's fault: the trial stays queued, and after ten refusals in
//! a row the run ends (`engine/refusals.rs`). A store that refuses (no space, a limit, a file that
//! was moved away or replaced, its log and index included) ends the run: what runs may save and
//! leave, nothing is answered that is not written, and the error says what to do. A run reads the
//! system's clock once and counts on from there ([`runner::clock`]), and a study's time never goes
//! back from one run to the next, so that budgets, stalls and orders do not depend on who sets the
//! clock. Children are listened to as fast as their words are written, and no faster. Reporters
//! write on threads of their own, so that a reader who does not read holds up nothing ([`report`]).
//!
//! # Determinism
//!
//! Draws come from streams named after what they are for (`sampler/7`, `trial/7`), so none depends
//! on another. The trainer draws from (seed, name, counters) and can continue at any optimiser step
//! exactly. With one slot on the CPU a study repeats bit for bit; with several, proposals depend on
//! the order in which trials report. With `deterministic = true` they do not: results become known
//! to decisions one trial after the other, in the order in which trials began, and a trial begins
//! when all but the last `slots - 1` before it are known; its verdicts know what was known when it
//! began. The journal says when ([`ResultsKnown`](study::event::TrialEvent::ResultsKnown)), so that
//! any number of slots continues with it. The price is a slot that waits for a straggler, and
//! decisions that know `slots - 1` results less.
//!
//! [`engine::verify`] feeds a journal to an engine and decides everything in it again, with the
//! specification of that time.
//!
//! # Devices that share themselves out
//!
//! With `trials_per_device = "auto"` the runner looks at devices and trials once a second and tells
//! the engine ([`Input::Load`](engine::Input::Load)); [`engine::concurrency`] decides, without
//! clock and devices of its own, and the journal has each change
//! ([`ConcurrencyChanged`](study::event::DeviceEvent::ConcurrencyChanged)), from which the next run
//! goes on. It also has what each attempt took of memory, of which [`analysis::memory_model`]
//! learns what others will take: who has no room waits, and what fits no device is not proposed.
//!
//! # Several runs of a configuration
//!
//! Every run is a trial; [`Origin`](study::trial::Origin) says whose configuration it repeats.
//! [`study::configuration`] takes them together: samplers see one point with the mean of its runs,
//! pruners do not see runs that only measure (`replicates`, `race`). A race is a function of the
//! state too ([`engine::finalists`]): rounds of one seed each, paired t tests, and only fresh runs
//! count.
//!
//! # Store
//!
//! STRICT tables with singular names are the truth; `event` is the journal of the same
//! transactions, and folding it gives the same state. NULL means NaN. Optuna's table names are
//! read-only views. Network file systems are refused. A removed study goes with all its rows in one
//! transaction, which notes the directories of its files until they are removed
//! ([`app::remove_study`]); its key is never given again. A trial of a search is never removed: an
//! event hides it.
//!
//! # Where things are added
//!
//! A sampler or pruner: one file and one line of [`SAMPLERS`](samplers::SAMPLERS) or
//! [`PRUNERS`](pruners::PRUNERS). A reporter: one file, one line of
//! [`REPORTERS`](report::REPORTERS), and its flag in `cli`. A training argument: one line of
//! [`ARGUMENTS`](arguments::ARGUMENTS) and its field. A key of the study file: one line of
//! [`TABLES`](config::TABLES), and the place in `config` that reads it: all of them, options of
//! samplers and pruners too, are [`Field`](study::field::Field)s. A task: one file with its `Task`
//! and `Model`, one line of the trainer's `TASKS`, and its words in
//! [`TRAINER_TASKS`](arguments::TRAINER_TASKS), which binaries that cannot train know too. An
//! architecture of pretrained models: one entry of the trainer's `ENCODERS` or `DECODERS` (its keys
//! of `config.json`, its names of tensors) and its word in
//! [`ENCODER_TYPES`](arguments::ENCODER_TYPES) or [`DECODER_TYPES`](arguments::DECODER_TYPES). A
//! verb: one file in `cli` and its line in `dispatch`; what it does to a study, or two verbs do, is
//! a function of `app`. A module: a line here and one in `tests/it/layering.rs`.
//!
//! # Where the plan was left
//!
//! - No traits for objectives and exporters: there is one exporter, and the three kinds of
//!   objective are [`Program`](study::spec::Program) and the launchers. A trait comes with the
//!   second of its kind.
//! - The engine's `Send` became [`Answer`](engine::Effect::Answer) and
//!   [`Leave`](engine::Effect::Leave), and it also removes files and serves requests. A pruner also
//!   has `first_rung` and `conclude`: ladders of pauses need a first stop and an end.
//!   Promotions clone nothing and draw nothing, so they are decided from the history alone; of a
//!   sampler's capabilities only `exhausts` differs.
//! - Data is prepared before the lease is taken, and the test split measured at export: both are
//!   worker jobs, not trials.
//! - [`report::wording`] counts columns with ratatui, so that tables in pipes and on screens agree.
//! - A command's checkpoint that the store does not know is left alone: what it holds, and of which
//!   step, only the command knows. What it may write over is copied when it is announced
//!   (`runner/copies.rs`); the store lists the copy.
//! - The winner of a race is measured on the test split by `run`, after the runner has left: a
//!   worker job, as at export.
//! - Cloning (PBT), several objectives and other machines are not built; the journal, the leases
//!   and the schema leave room for them.

pub mod app;
pub mod ask_tell;
pub mod cli;
pub mod config;
pub mod engine;
pub mod export;
pub mod library;
pub mod report;
pub mod runner;
pub mod storage;
pub mod tracking;
pub mod tui;
pub mod worker;

pub use hpsearch_core::{analysis, arguments, pruners, samplers, study};
#[cfg(feature = "train")]
pub use hpsearch_trainer as trainer;

pub use engine::TellOutcome;
pub use library::{AskedTrial, Finished, OpenStudy, Study, StudyError};
pub use runner::inline::{GoOn, TrialContext, TrialEnd, TrialError};
