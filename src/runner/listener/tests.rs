//! A child that is gone takes no trial.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crossbeam_channel::unbounded;

use super::*;
use crate::runner::fixtures;
use crate::runner::protocol::StepCounter;
use crate::storage::paths::StudyFiles;
use crate::study::program::Program;
use crate::study::step::StepUnit;

#[test]
fn a_worker_that_is_gone_before_its_trial_is_expected_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (inputs, _heard) = unbounded();
    let files = StudyFiles::of(&fixtures::spec(Program::Inline), None, directory.path());
    let registrar = Arc::new(Registrar::new(files, Vec::new(), None));
    let mut command = Command::new("true");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (_stream, aside) = UnixStream::pair().unwrap();
    let points = Arc::default();
    let listener = Listener { single: false, is_shown: false, inputs, registrar, points };
    let listening = listener.listen(child, aside).unwrap();
    while !listening.is_over() {
        std::thread::yield_now();
    }
    let expected = Expected {
        trial: fixtures::TRIAL,
        attempt: fixtures::ATTEMPT,
        cwd: PathBuf::new(),
        step_counter: StepCounter::after(StepUnit::Step, 0),
        is_resumed: false,
        metric: "loss".to_owned(),
        reported: Arc::new(["loss".to_owned()]),
        printed: None,
        per_device: false,
    };
    assert!(listening.expect_trial(expected, None, &directory.path().join("log")).is_err());
}
