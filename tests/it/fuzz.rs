//! Hostile bytes for whatever reads what others wrote: study files, the words of commands, the
//! wire, ask-tell, stored JSON, requests, checkpoints.
//!
//! Each target has a corpus, `tests/it/fuzz/TARGET/`: sound inputs to begin with, and every input
//! that was once a finding. Tests read all of them, and a few hundred mutations. To hunt, each
//! target for so many seconds: `HPSEARCH_FUZZ=120 cargo test --test it -- --ignored --nocapture
//! fuzz::hunt`. A finding is printed with its file.

mod mutator;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hpsearch::ask_tell::serve;
use hpsearch::config::placeholder::{ArgumentPiece, escaped, fill_in, pieces};
use hpsearch::config::shown::{self, drives_a_terminal};
use hpsearch::config::{self, Look};
use hpsearch::engine::simulator::Simulation;
use hpsearch::report::wording::{toml_key, toml_text};
use hpsearch::runner;
use hpsearch::runner::protocol::{MessageToRunner, MessageToTrial};
use hpsearch::storage::any::{AnyReader, AnyStore};
use hpsearch::storage::conformance::{random_journal, small_study};
use hpsearch::storage::{Holder, OutcomeCursor, Storage, StorageReader, StudyId, Takeover};
use hpsearch::study::event::Seq;
use hpsearch::study::metric::Direction;
use hpsearch::study::query::{SortKey, TrialQuery};
use hpsearch::study::request::RequestAnswer;
use hpsearch::study::seed::SeedTree;
use hpsearch::study::spec::StudySpec;
use hpsearch::study::time::Timestamp;
use rand::RngExt as _;
use rusqlite::Connection;
use serde_json::Value as Json;

use mutator::Mutator;

use crate::harness::cases;

/// What takes longer than this, on a machine however busy, is a finding.
const LONGEST: Duration = Duration::from_secs(20);

/// Reads an input; the kind of what came of it, so that inputs that lead elsewhere are kept to go
/// on from.
type Reader = Box<dyn FnMut(&[u8]) -> String>;

/// Whether checkpoints are read as well: a model is trained for that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checkpoints {
    Not,
    Too,
}

/// A target's name, and what reads its inputs.
fn targets(with: Checkpoints) -> Vec<(&'static str, Reader)> {
    let mut stored = Stored::new();
    let mut asked = Asked::new();
    #[cfg_attr(
        not(feature = "train"),
        expect(unused_mut, reason = "checkpoints are read by the trainer")
    )]
    let mut targets: Vec<(&'static str, Reader)> = vec![
        ("study", Box::new(study)),
        ("word", Box::new(word)),
        ("request", Box::new(move |input| asked.serve(input))),
        ("wire", Box::new(wire)),
        ("ask_tell", Box::new(ask_tell)),
        ("stored", Box::new(move |input| stored.read(input))),
    ];
    #[cfg(not(feature = "train"))]
    let _no_trainer = with;
    #[cfg(feature = "train")]
    if with == Checkpoints::Too {
        let checkpoint = checkpoint::Checkpoint::new();
        targets.push(("checkpoint", Box::new(move |input| checkpoint.read(input))));
    }
    targets
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fuzz").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(directory).map_or_else(
        |_| Vec::new(),
        |entries| entries.map(|entry| entry.unwrap().path()).collect(),
    );
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// Words only, so that messages with other numbers and names are of one kind.
fn kind(message: &str) -> String {
    let word = |char: char| if char.is_ascii_alphabetic() || char == ' ' { char } else { '.' };
    message.chars().take(120).map(word).collect()
}

fn study(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies");
    match config::parse(&text, Path::new("fuzzed.toml"), &here, &[]) {
        Err(diagnostics) => {
            let rendered = diagnostics.render(Look::default());
            assert!(!rendered.trim().is_empty());
            assert!(
                rendered.chars().all(|char| char == '\n' || !drives_a_terminal(char)),
                "{rendered:?}"
            );
            let errors: BTreeSet<String> = rendered
                .lines()
                .filter(|line| line.starts_with("error"))
                .map(|line| line.chars().take(40).collect())
                .collect();
            errors.iter().take(3).map(|error| kind(error)).collect()
        }
        Ok(spec) => {
            let stored = serde_json::to_string(&spec).unwrap();
            let read: StudySpec =
                serde_json::from_str(&stored).unwrap_or_else(|error| panic!("{error}: {stored}"));
            assert_eq!(
                serde_json::to_string(&read).unwrap(),
                stored,
                "what is stored is read back"
            );
            assert!(
                config::difference(&read, &spec).is_empty(),
                "a study does not differ from itself"
            );
            searched(spec)
        }
    }
}

/// Whatever a study file may say can be searched for a few trials.
fn searched(mut spec: StudySpec) -> String {
    spec.budget.trials = Some(spec.budget.trials.unwrap_or(3).min(3));
    let budget = [spec.budget.time, spec.budget.trial_time, spec.budget.stall_time];
    let simulation = Simulation::new(spec, 2, 2, |_, step| 1.0 / step as f64);
    match simulation.run(&[]) {
        Ok(run) => format!("{} {}", kind(run.outcome.reason()), budget.iter().flatten().count()),
        Err(error) => kind(&error.to_string()),
    }
}

/// A word of a command: what is escaped is itself, no letter is lost, and it can be written and
/// shown.
fn word(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let knows = |name: &str| ["lr", "2nd"].contains(&name);
    assert_eq!(fill_in(&escaped(&text, knows, |_| false), knows, |_| String::new()), text);
    let letters =
        |text: &str| text.chars().filter(|char| !"{}".contains(*char)).collect::<String>();
    assert_eq!(letters(&fill_in(&text, knows, str::to_owned)), letters(&text));
    let (key, value) = (toml_key(&text), toml_text(&text));
    let table: toml::Table = format!("{key} = {value}")
        .parse()
        .unwrap_or_else(|error| panic!("{error}: {key} = {value}"));
    // A dotted name is written bare, and is a table in a table.
    assert!(table.get(&*text).is_none_or(|read| read.as_str() == Some(&text)), "{key} = {value}");
    let line = shown::json(&serde_json::to_string(&text).unwrap());
    assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    for shown in [&key, &value, &line, &shown::one_line(&text)] {
        assert!(!shown.chars().any(drives_a_terminal), "{shown:?}");
    }
    let names = pieces(&text, knows)
        .iter()
        .filter(|piece| matches!(piece, ArgumentPiece::Placeholder(..)))
        .count();
    format!("{} names", names.min(3))
}

/// A study with a request of any bytes, which is answered by whoever comes upon it.
struct Asked {
    directory: tempfile::TempDir,
}

impl Asked {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut spec = small_study("s", Direction::Minimize);
        (spec.budget.trials, spec.budget.time) = (Some(10), Some(Duration::from_secs(60)));
        (spec.budget.device_hours, spec.budget.cost, spec.budget.price_per_hour) =
            (Some(1.0), Some(1.0), Some(1.0));
        let mut store = AnyStore::open(&directory.path().join("new.db")).unwrap();
        let study = store.create_study(Timestamp(1), &spec).unwrap();
        let lease =
            store.acquire(study, &runner::this_process(), Timestamp(2), Takeover::IfFree).unwrap();
        let journal = random_journal(&spec, 60, &mut SeedTree::new(5).stream("fuzz"));
        store.append(&lease, Timestamp(3), &journal).unwrap();
        store.release(&lease).unwrap();
        drop(store);
        Asked { directory }
    }

    fn serve(&mut self, input: &[u8]) -> String {
        let path = self.directory.path().join("hpsearch.db");
        fs::copy(self.directory.path().join("new.db"), &path).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
        connection.pragma_update(None, "synchronous", false).unwrap();
        // Text of any bytes, as a damaged or another program's store may have it.
        connection
            .execute(
                "INSERT INTO request (study_id, body, at) VALUES (1, CAST(?1 AS TEXT), 1)",
                [input],
            )
            .unwrap();
        let id = connection.last_insert_rowid();
        drop(connection);
        let mut store = AnyStore::open(&path).unwrap();
        let study = store.study("s").unwrap().unwrap();
        runner::offline_requests::serve_at_rest(&mut store, &study, &path).unwrap();
        let answer = store
            .answer(study.id, id)
            .unwrap()
            .unwrap_or_else(|| panic!("not answered: {:?}", String::from_utf8_lossy(input)));
        store.study_state(study.id).unwrap();
        let after = store.study("s").unwrap().unwrap();
        assert!(after.spec.budget.beyond_a_store().is_empty(), "{:?}", after.spec.budget);
        match answer {
            RequestAnswer::Done(done) => kind(&done),
            RequestAnswer::Refused(why) => kind(&why),
        }
    }
}

fn wire(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let down = serde_json::from_str::<MessageToTrial>(&text).map_or_else(
        |error| kind(&error.to_string()),
        |down| {
            let again: MessageToTrial =
                serde_json::from_str(&serde_json::to_string(&down).unwrap()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{down:?}"));
            "down".to_owned()
        },
    );
    match MessageToRunner::parse(&text) {
        Err(error) => format!("{} {down}", kind(&error.to_string())),
        Ok(up) => {
            let line = up.to_line();
            assert!(!line.contains('\n'), "{line}");
            let again = MessageToRunner::parse(
                line.strip_prefix(hpsearch::runner::protocol::PREFIX).unwrap(),
            )
            .unwrap_or_else(|error| panic!("{error}: {line}"));
            // NaN is itself, as text.
            assert_eq!(format!("{again:?}"), format!("{up:?}"));
            format!("{:?}", std::mem::discriminant(&up))
        }
    }
}

fn ask_tell(input: &[u8]) -> String {
    let mut output = Vec::new();
    serve(input, &mut output).unwrap();
    let mut kinds = BTreeSet::new();
    for line in std::str::from_utf8(&output).unwrap().lines() {
        let answer: Json =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let answer = answer.as_object().unwrap_or_else(|| panic!("no object: {line}"));
        let error = answer.get("error").and_then(Json::as_str).unwrap_or_default();
        assert!(!error.contains("report it"), "{line}");
        kinds.insert(kind(&format!("{} {error}", answer.keys().next().map_or("", String::as_str))));
    }
    kinds.into_iter().collect::<Vec<_>>().join("|")
}

/// A store of which one column of one row is overwritten, read by all that reads stores, and put
/// right again.
struct Stored {
    directory: tempfile::TempDir,
    connection: Connection,
    /// Table, column, and row by its place.
    cells: Vec<(&'static str, &'static str, i64)>,
}

impl Stored {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hpsearch.db");
        let spec = small_study("s", Direction::Minimize);
        let mut store = AnyStore::open(&path).unwrap();
        let study = store.create_study(Timestamp(1), &spec).unwrap();
        let holder = Holder { pid: 1, pid_started: 1, host: "here".to_owned(), boot_id: None };
        let lease = store.acquire(study, &holder, Timestamp(2), Takeover::IfFree).unwrap();
        let journal = random_journal(&spec, 120, &mut SeedTree::new(5).stream("fuzz"));
        store.append(&lease, Timestamp(3), &journal).unwrap();
        drop(store);
        let connection = Connection::open(&path).unwrap();
        // As a disk does it, not as a program may.
        connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
        connection.pragma_update(None, "synchronous", false).unwrap();
        let columns = [
            ("event", "body"),
            ("study", "spec"),
            ("trial", "origin"),
            ("trial", "last_metrics"),
            ("trial", "device"),
            ("trial", "state"),
            ("param", "value"),
            ("attempt", "outcome"),
            ("attempt", "device"),
            ("dimension", "optuna_json"),
            ("dimension", "name"),
            ("decision", "verdict"),
            ("decision", "reason"),
            ("checkpoint", "path"),
            ("request", "body"),
            ("runner", "slots"),
        ];
        let mut cells = Vec::new();
        for (table, column) in columns {
            let count: i64 = connection
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
                .unwrap();
            cells.extend((0..count.min(25)).map(|row| (table, column, row)));
        }
        Stored { directory, connection, cells }
    }

    /// The first byte chooses a cell, for the rest to be in.
    fn read(&mut self, input: &[u8]) -> String {
        let (&[high, low], text) = input.split_first_chunk().unwrap_or((&[0, 0], input));
        let (table, column, row) =
            self.cells[usize::from(u16::from_be_bytes([high, low])) % self.cells.len()];
        let text = String::from_utf8_lossy(text);
        // Tables have no rowid each: a row is found by its place in the order of all its columns.
        let key = if ["param", "attempt", "decision", "checkpoint", "dimension"].contains(&table) {
            key_of(table)
        } else {
            "rowid"
        };
        let place =
            format!("({key}) = (SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {row})");
        let before: Option<String> = self
            .connection
            .query_row(&format!("SELECT {column} FROM {table} WHERE {place}"), [], |row| row.get(0))
            .unwrap();
        let set = format!("UPDATE {table} SET {column} = ?1 WHERE {place}");
        if self.connection.execute(&set, [&text]).is_err() {
            return "not storable".to_owned();
        }
        let read =
            catch_unwind(AssertUnwindSafe(|| read_all(&self.directory.path().join("hpsearch.db"))));
        self.connection.execute(&set, [&before]).unwrap();
        match read {
            Ok(said) => format!("{table} {column} {said}"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn key_of(table: &str) -> &'static str {
    match table {
        "param" => "trial_id, dimension",
        "attempt" => "trial_id, attempt",
        "decision" => "trial_id, step",
        "checkpoint" => "trial_id, seq",
        _ => "study_id, idx",
    }
}

/// Everything that anyone reads of a store; the kinds of what could not be read.
fn read_all(path: &Path) -> String {
    let study = StudyId(1);
    let mut kinds = BTreeSet::new();
    let mut note = |error: Option<String>| kinds.extend(error.map(|error| kind(&error)));
    let reader = match AnyReader::open(path) {
        Ok(reader) => reader,
        Err(error) => return kind(&error.to_string()),
    };
    let said = |error: hpsearch::storage::StorageError| error.to_string();
    note(reader.studies().map_err(said).err());
    note(reader.summary(study).map_err(said).err());
    note(reader.study("s").map_err(said).err());
    note(reader.trials(study, &TrialQuery::all(SortKey::Number)).map_err(said).err());
    note(reader.attempts(study, None).map_err(said).err());
    note(reader.outcomes(study, OutcomeCursor::default()).map_err(said).err());
    note(reader.events_after(study, Seq(0), 1000).map_err(said).err());
    note(reader.params(study).map_err(said).err());
    note(reader.running_since(study).map_err(said).err());
    let found = reader.study("s").ok().flatten().zip(reader.study_state(study).map_err(said).ok());
    if let Some((stored, state)) = found {
        // What can be read can be gone on with.
        let slot = hpsearch::study::device::Slot::on(0, hpsearch::study::device::Device::Cpu);
        if let Ok(mut engine) = hpsearch::engine::Engine::new(stored.spec, state, vec![slot]) {
            let begin = hpsearch::engine::Input::Begin {
                pid: 1,
                host: "here".to_owned(),
                requests: Vec::new(),
            };
            let effects = engine.step(Timestamp(1_000_000), begin);
            kinds.insert(format!("continues {}", effects.is_empty()));
        }
    }
    kinds.into_iter().collect::<Vec<_>>().join("|")
}

#[cfg(feature = "train")]
mod checkpoint;

/// Reads an input; a panic, or a long time, is an error.
fn tried(read: &mut Reader, input: &[u8]) -> Result<String, String> {
    let began = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| read(input)));
    let took = began.elapsed();
    match result {
        Ok(_) if took > LONGEST => Err(format!("took {took:?}")),
        Ok(kind) => Ok(kind),
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()),
    }
}

/// A short name that depends on all bytes (FNV-1a).
fn name_of(input: &[u8]) -> String {
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("finding-{hash:016x}")
}

#[test]
fn the_corpora_and_their_mutations_are_read_without_a_panic() {
    for (target, mut read) in targets(Checkpoints::Not) {
        let files = corpus(target);
        assert!(!files.is_empty(), "{target} has no corpus");
        for (file, input) in &files {
            tried(&mut read, input).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        }
        let mut mutator = Mutator::new(
            SeedTree::new(11).stream(target),
            files.into_iter().map(|(_, input)| input).collect(),
        );
        // Each request has a store of its own.
        for _ in 0..if target == "request" { cases(20, 60) } else { cases(80, 250) } {
            let input = mutator.next();
            tried(&mut read, &input).unwrap_or_else(|why| {
                panic!("{target}: {why}\n{:?}", String::from_utf8_lossy(&input))
            });
        }
    }
}

/// Files of a model have no corpus beside them: they are trained for it.
#[cfg(feature = "train")]
#[test]
fn a_models_files_with_other_bytes_are_read_without_a_panic() {
    let checkpoint = checkpoint::Checkpoint::new();
    let mut read: Reader = Box::new(move |input| checkpoint.read(input));
    let mut mutator = Mutator::new(
        SeedTree::new(11).stream("checkpoint"),
        corpus("checkpoint").into_iter().map(|(_, input)| input).collect(),
    );
    let mut kinds = BTreeSet::new();
    for _ in 0..600 {
        let input = mutator.next();
        let kind = tried(&mut read, &input).unwrap_or_else(|why| panic!("{why}\n{input:?}"));
        if kinds.insert(kind) {
            mutator.keep(input);
        }
    }
    assert!(kinds.len() > 20, "{kinds:?}");
}

#[test]
#[ignore = "hunts as long as it is told: HPSEARCH_FUZZ=120 cargo test --test it -- --ignored \
    --nocapture fuzz::hunt"]
fn hunt() {
    let seconds =
        std::env::var("HPSEARCH_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let seed = std::env::var("HPSEARCH_CHAOS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let only = std::env::var("HPSEARCH_FUZZ_TARGET").ok();
    let out = std::env::temp_dir().join("hpsearch-fuzz");
    fs::create_dir_all(&out).unwrap();
    let mut found = 0;
    for (target, mut read) in targets(Checkpoints::Too)
        .into_iter()
        .filter(|(target, _)| only.as_ref().is_none_or(|only| only == target))
    {
        let mut rng = SeedTree::new(seed).stream(&format!("fuzz/{target}"));
        let mut mutator = Mutator::new(
            SeedTree::new(rng.random_range(0..u64::MAX)).stream(target),
            corpus(target).into_iter().map(|(_, input)| input).collect(),
        );
        // What takes the whole process with it (a stack that overflows) is found here afterwards.
        let last = out.join(format!("{target}-last"));
        let (began, mut inputs, mut kinds, mut findings) =
            (Instant::now(), 0_u64, BTreeSet::new(), BTreeSet::new());
        while began.elapsed() < Duration::from_secs(seconds) {
            let input = mutator.next();
            inputs += 1;
            fs::write(&last, &input).unwrap();
            match tried(&mut read, &input) {
                Ok(kind) => {
                    if kinds.insert(kind) {
                        mutator.keep(input);
                    }
                }
                Err(why) => {
                    if findings.insert(kind(&why)) {
                        let file = out.join(format!("{target}-{}", name_of(&input)));
                        fs::write(&file, &input).unwrap();
                        println!("{target}: {} {why}", file.display());
                    }
                }
            }
        }
        found += findings.len();
        println!(
            "{target}: {inputs} inputs in {:.0} s, {} kinds of answers, {} findings",
            began.elapsed().as_secs_f64(),
            kinds.len(),
            findings.len()
        );
    }
    assert_eq!(found, 0, "findings are in {}", out.display());
}
