//! A site whose store the test wrote, as if the study had been run.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;

use hpsearch::runner::artifacts::digest_of;
use hpsearch::storage::any::AnyStore;
use hpsearch::storage::{Holder, Lease, Storage, StorageReader as _, Takeover};
use hpsearch::study::artifact::{Artifact, ArtifactKind};
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, Event, RecordEvent, RunnerEvent, TrialEvent,
};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::{Params, Value};
use hpsearch::study::program::Program;
use hpsearch::study::space::{Condition, Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::StudySpec;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

use super::site::{STORE, Site};

pub struct Scene {
    site: Site,
    pub store: AnyStore,
    lease: Option<Lease>,
    clock: i64,
}

fn at(second: i64) -> Timestamp {
    Timestamp(1_764_000_000_000_000 + second * 1_000_000)
}

fn slot() -> Slot {
    Slot::on(0, Device::Cpu)
}

fn spec(name: &str) -> StudySpec {
    let dimension = |name: &str, distribution| Dimension {
        name: name.into(),
        distribution,
        prior: None,
        when: None,
    };
    let mut momentum =
        dimension("momentum", Distribution::float(0.0, 0.99, Scale::Linear, None).unwrap());
    momentum.when = Some(Condition(vec![("optim".into(), vec!["sgd".into()])]));
    let space = Space::new(vec![
        dimension("learning_rate", Distribution::float(1e-5, 1e-1, Scale::Log, None).unwrap()),
        dimension("model.num_layers", Distribution::int(1, 8, Scale::Linear, 1).unwrap()),
        dimension("optim", Distribution::choice(vec!["adamw".into(), "sgd".into()]).unwrap()),
        momentum,
    ])
    .unwrap();
    let mut spec = StudySpec::new(name, "eval_loss", Direction::Minimize, space, Program::Inline);
    spec.budget.trials = Some(24);
    spec
}

impl Scene {
    /// A store without studies.
    pub fn new() -> Self {
        let site = Site::empty();
        let store = site.store();
        Scene { site, store, lease: None, clock: 0 }
    }

    /// The study `digits`: a complete trial, a pruned one, one whose value is NaN, and one that
    /// runs.
    pub fn digits() -> Self {
        let mut scene = Scene::new();
        scene.begin("digits");
        scene.start(0, 3.162_277e-4, 2, "adamw");
        scene.report(0, &[0.9, 0.184_213, 0.2]);
        scene.append(&[Event::of(
            TrialNumber(0),
            CheckpointEvent::Saved {
                step: 2,
                path: PathBuf::from("/data/trial-0/step-2"),
                bytes: None,
                system: None,
                digest: None,
            },
        )]);
        scene.end(0, AttemptEnd::Completed, TrialState::Complete, Some(0.184_213), None);
        scene.start(1, 0.1, 8, "sgd");
        scene.report(1, &[1.5]);
        scene.end(
            1,
            AttemptEnd::Stopped,
            TrialState::Pruned,
            None,
            Some("rank 2 of 2 at step 1; 1 continues"),
        );
        scene.start(2, 0.05, 1, "sgd");
        scene.report(2, &[f64::NAN]);
        scene.end(2, AttemptEnd::Diverged, TrialState::Complete, Some(f64::NAN), None);
        scene.start(3, 1e-3, 4, "adamw");
        scene.report(3, &[0.7]);
        scene
    }

    /// A path in the scene's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.site.path(name)
    }

    /// A new study, which this process seems to run.
    pub fn begin(&mut self, name: &str) {
        let study = self.store.create_study(at(0), &spec(name)).unwrap();
        let holder = hpsearch::runner::this_process();
        self.lease = Some(self.store.acquire(study, &holder, at(0), Takeover::IfFree).unwrap());
        let Holder { pid, host, .. } = holder;
        self.append(&[Event::Runner(RunnerEvent::Started {
            pid,
            host,
            slots: vec![slot()],
            tracker: None,
        })]);
    }

    pub fn append(&mut self, events: &[Event]) {
        self.clock += 1;
        self.store.append(self.lease.as_ref().unwrap(), at(self.clock), events).unwrap();
    }

    pub fn leave(&mut self) {
        self.append(&[Event::Runner(RunnerEvent::Stopped {
            reason: "stopped".into(),
            ran_micros: 31_000_000,
            heard: None,
            device_micros: 0,
            runner: None,
        })]);
        self.store.release(&self.lease.take().unwrap()).unwrap();
    }

    /// Closes the store; what is in the write-ahead log goes into the file.
    pub fn close(self) -> Site {
        self.site
    }

    pub fn start(&mut self, number: u64, rate: f64, layers: i64, optim: &str) {
        let trial = TrialNumber(number);
        let mut params: Params = [
            ("learning_rate", Value::from(rate)),
            ("model.num_layers", layers.into()),
            ("optim", optim.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        if optim == "sgd" {
            params.insert("momentum", 0.9);
        }
        self.append(&[
            Event::Trial(trial, TrialEvent::created(params, Origin::Sampled("random".into()))),
            Event::of(
                trial,
                AttemptEvent::Started {
                    attempt: AttemptNumber(0),
                    slot: slot(),
                    resume: None,
                    until: None,
                    rows_at_once: None,
                    device_micros: 0,
                },
            ),
        ]);
    }

    pub fn report(&mut self, number: u64, values: &[f64]) {
        for (step, value) in (1..).zip(values) {
            let metrics =
                [("eval_loss".to_owned(), *value), ("eval_accuracy".to_owned(), 1.0 - *value)]
                    .into_iter()
                    .collect();
            self.append(&[Event::of(
                TrialNumber(number),
                AttemptEvent::reported(AttemptNumber(0), step, metrics),
            )]);
        }
    }

    /// Logs an image of a trial, and returns its file.
    pub fn log_image(
        &mut self,
        study: &str,
        trial: u64,
        (name, step): (&str, Option<u64>),
        content: &[u8],
    ) -> PathBuf {
        let (trial, digest) = (TrialNumber(trial), digest_of(content));
        let study = self.store.study(study).unwrap().unwrap();
        let copies = study.files(&self.path(STORE)).artifacts(trial);
        fs::create_dir_all(&copies).unwrap();
        let file = copies.join(&digest);
        fs::write(&file, content).unwrap();
        let artifact = Artifact {
            name: name.to_owned(),
            kind: ArtifactKind::Image,
            digest,
            bytes: content.len() as u64,
            step,
            path: None,
            copied: true,
        };
        let saved = TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, content: None });
        self.append(&[Event::Trial(trial, saved)]);
        file
    }

    pub fn end(
        &mut self,
        number: u64,
        end: AttemptEnd,
        state: TrialState,
        value: Option<f64>,
        reason: Option<&str>,
    ) {
        let (trial, reason) = (TrialNumber(number), reason.map(str::to_owned));
        self.append(&[
            Event::of(
                trial,
                AttemptEvent::Ended {
                    attempt: AttemptNumber(0),
                    end,
                    reason: reason.clone(),
                    device_micros: None,
                    memory: None,
                    superseded: Default::default(),
                },
            ),
            Event::Trial(trial, TrialEvent::finished(state, value, reason)),
        ]);
    }
}

impl Deref for Scene {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}
