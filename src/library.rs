//! The Rust API: a study with a closure as its objective, or with trials that the program runs
//! itself.

#![expect(
    clippy::disallowed_methods,
    reason = "a front: it reads the clock and starts threads for the layers below"
)]

mod open;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::AppError;
use crate::app::held_study::{self, HeldError};
use crate::app::reconcile::Consent;
use crate::config::ChangeClass;
use crate::engine::{RunOutcome, TellError};
use crate::pruners;
use crate::runner::inline::{InlineLauncher, TrialContext, TrialEnd, TrialError};
use crate::runner::{Runner, RunnerError};
use crate::samplers;
use crate::storage::address::as_given;
use crate::storage::any::AnyStore;
use crate::storage::memory::MemoryStore;
use crate::storage::{Storage, StorageError, StoredStudy};
use crate::study::condition::{self, Expression, ExpressionError, KnownNames};
use crate::study::constraint::Constraint;
use crate::study::device::{Device, Slot};
use crate::study::metric::Direction;
use crate::study::params::Value;
use crate::study::program::Program;
use crate::study::space::distribution::DistributionError;
use crate::study::space::{Dimension, Distribution, Scale, Space, SpaceError};
use crate::study::spec::{AlgorithmSpec, Objective, StudySpec, ValueRule};
use crate::study::state::StudyState;
use crate::study::trial::{LARGEST_STEP, Trial};

pub use open::{AskedTrial, OpenStudy};

/// Why a study could not be built or run.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A parameter's range is invalid.
    #[error("parameter `{name}`")]
    Distribution {
        /// The parameter.
        name: String,
        /// What is wrong.
        #[source]
        source: DistributionError,
    },
    /// A constraint is not a valid condition.
    #[error("the condition `{condition}`")]
    Condition {
        /// As written.
        condition: String,
        /// What is wrong.
        #[source]
        source: ExpressionError,
    },
    /// The parameters do not form a space.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The store failed, or contains another study with this name.
    #[error("{}", .0.with_remedy())]
    Storage(#[from] StorageError),
    /// The run failed.
    #[error("{}", in_words(.0))]
    Runner(#[from] RunnerError),
    /// The warm start failed.
    #[error("{}", .0.with_remedy())]
    App(#[from] AppError),
    /// The store has a study with this name and another specification.
    #[error("the store holds a study called `{name}` that differs: {difference}; \
        {}", way_out(*class))]
    Changed {
        /// The name.
        name: String,
        /// The most important difference.
        difference: String,
        /// What it requires: [`Study::accept_changes`], or another name.
        class: ChangeClass,
    },
    /// A budget limit that no store can represent.
    #[error(
        "`budget.{key}` is larger than a store can hold, or not finite: set a smaller one, \
         or none for no limit"
    )]
    Budget {
        /// Its key under `[budget]`.
        key: &'static str,
    },
    /// A key compares trials by one value, and the study has several objectives.
    #[error(
        "`spec.{key}` compares trials by one value, and this study has several objectives: leave \
         it as it was"
    )]
    OneValue {
        /// The key.
        key: &'static str,
    },
    /// Two objectives have the same metric.
    #[error("`{metric}` is already an objective: give the other one a different metric")]
    RepeatedObjective {
        /// The metric.
        metric: String,
    },
    /// The target is a hypervolume, and an objective has no threshold to measure it from.
    #[error(
        "`budget.target` is the front's hypervolume, and `{metric}` has no threshold to measure it \
         from: set `spec.objectives[..].threshold` of each, the worst value of interest"
    )]
    NoThreshold {
        /// The metric of the objective.
        metric: String,
    },
    /// A step that no store can represent.
    #[error("step {step} is beyond the largest one, {LARGEST_STEP}")]
    Step {
        /// The step.
        step: u64,
    },
    /// The sampler or pruner is unknown.
    #[error(transparent)]
    Unknown(#[from] crate::study::registry::UnknownName),
    /// The sampler cannot propose a configuration.
    #[error("{0}")]
    Sampler(String),
    /// The trial has ended already.
    #[error(transparent)]
    Tell(#[from] TellError),
    /// An earlier call could not write to the store.
    #[error("the store failed earlier: open the study again to continue from its last state")]
    Broken,
}

impl From<HeldError> for StudyError {
    fn from(error: HeldError) -> Self {
        match error {
            HeldError::Storage(error) => error.into(),
            HeldError::Runner(error) => error.into(),
            HeldError::App(error) => error.into(),
            HeldError::Changed { name, difference, class } => {
                StudyError::Changed { name, difference, class }
            }
            HeldError::Sampler(why) => StudyError::Sampler(why),
            HeldError::Tell(error) => error.into(),
            // Rust programs neither define parameters at run time nor share their study.
            error @ (HeldError::Define(_)
            | HeldError::RunOtherwise { .. }
            | HeldError::ChangedMeanwhile { .. }
            | HeldError::Over { .. }) => StudyError::Sampler(error.to_string()),
            HeldError::Broken => StudyError::Broken,
        }
    }
}

/// The error with, if the store failed, what to do.
fn in_words(error: &RunnerError) -> String {
    match error {
        RunnerError::Storage(error) => error.with_remedy(),
        other => other.to_string(),
    }
}

fn way_out(class: ChangeClass) -> &'static str {
    if class == ChangeClass::NeedsFork {
        "choose another name"
    } else {
        "`accept_changes()` continues with it, or choose another name"
    }
}

/// A study built in Rust.
///
/// Chain its methods, then [`Study::run`] it; [`Study::spec`] has everything else that a study file
/// can specify.
pub struct Study {
    /// The specification; all fields may be changed before the run.
    pub spec: StudySpec,
    dimensions: Vec<Dimension>,
    store: Option<PathBuf>,
    threads: usize,
    takes_over: bool,
    accepts: bool,
    problem: Option<StudyError>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub outcome: RunOutcome,
    /// All trials.
    pub state: StudyState,
}

impl Finished {
    /// The best complete trial; the compromise on the front of several objectives.
    pub fn best(&self) -> Option<&Trial> {
        self.state.best()
    }

    /// The trials on the front of several objectives, by number.
    pub fn front(&self) -> Vec<&Trial> {
        self.state.front().trials.iter().filter_map(|number| self.state.trial(*number)).collect()
    }
}

impl Study {
    /// A study that minimises `metric`.
    pub fn minimize(name: &str, metric: &str) -> Self {
        Study::new(name, metric, Direction::Minimize)
    }

    /// A study that maximises `metric`.
    pub fn maximize(name: &str, metric: &str) -> Self {
        Study::new(name, metric, Direction::Maximize)
    }

    fn new(name: &str, metric: &str, direction: Direction) -> Self {
        let mut spec = StudySpec::new(name, metric, direction, Space::default(), Program::Inline);
        spec.sampler = crate::config::default_sampler();
        Study {
            spec,
            dimensions: Vec::new(),
            store: None,
            threads: 1,
            takes_over: false,
            accepts: false,
            problem: None,
        }
    }

    /// Adds another objective: trials have values instead of one value, reported by
    /// [`TrialContext::report_metrics`](crate::TrialContext::report_metrics), and the best of them
    /// are a front: see [`Finished::front`].
    pub fn and(mut self, metric: &str, direction: Direction) -> Self {
        self.spec.objectives.push(Objective::new(metric, direction));
        self.spec.value = ValueRule::Last;
        self
    }

    /// Searches a real number from `low` to `high`.
    pub fn float(self, name: &str, low: f64, high: f64) -> Self {
        self.dimension(name, Distribution::float(low, high, Scale::Linear, None))
    }

    /// Searches a real number from `low` to `high` on a logarithmic axis.
    pub fn log_float(self, name: &str, low: f64, high: f64) -> Self {
        self.dimension(name, Distribution::float(low, high, Scale::Log, None))
    }

    /// Searches an integer from `low` to `high`.
    pub fn int(self, name: &str, low: i64, high: i64) -> Self {
        self.dimension(name, Distribution::int(low, high, Scale::Linear, 1))
    }

    /// Searches one of `choices`.
    pub fn choice<V: Into<Value>>(self, name: &str, choices: impl IntoIterator<Item = V>) -> Self {
        self.dimension(name, Distribution::choice(choices.into_iter().map(Into::into).collect()))
    }

    /// Makes the parameter added last active only while `parent` has `value`.
    pub fn when(mut self, parent: &str, value: impl Into<Value>) -> Self {
        if let Some(dimension) = self.dimensions.last_mut() {
            dimension.when.get_or_insert_default().0.push((parent.to_owned(), vec![value.into()]));
        }
        self
    }

    /// Sets the expected best value of the parameter added last: it is tried first, and its
    /// neighbourhood is preferred.
    pub fn prior(mut self, value: impl Into<Value>) -> Self {
        if let Some(dimension) = self.dimensions.last_mut() {
            dimension.prior = Some(value.into());
        }
        self
    }

    /// Requires a condition over parameters, such as `"width * depth <= 4096"`: configurations that
    /// violate it are never proposed.
    pub fn require(self, condition: &str) -> Self {
        self.constraint(condition, Constraint::Require)
    }

    /// Limits metrics by a condition, such as `"latency_ms <= 20"`: trials whose last values
    /// violate it rank below all others.
    pub fn limit(self, condition: &str) -> Self {
        self.constraint(condition, Constraint::Limit)
    }

    /// Limits metrics by a condition that cannot be met again once it is broken, such as
    /// `"n_params <= 70e6"`: the first report that violates it ends the trial as pruned.
    pub fn limit_that_prunes(self, condition: &str) -> Self {
        self.constraint(condition, Constraint::PruningLimit)
    }

    fn constraint(mut self, condition: &str, kind: fn(Expression) -> Constraint) -> Self {
        match Expression::parse(condition) {
            Ok(expression) => self.spec.constraints.push(kind(expression)),
            Err(source) => {
                let condition = condition.to_owned();
                self.problem.get_or_insert(StudyError::Condition { condition, source });
            }
        }
        self
    }

    /// Learns from earlier studies: `earlier` is the name of a study in the same store, `store.db`
    /// (all studies of that store), or `store.db:study`. Parameters are matched by name, and others
    /// are ignored; metrics need not be the same, since trials count by their rank within their
    /// study. The trials found when the study is created are stored with it: later changes there
    /// have no effect.
    pub fn warm_start(mut self, earlier: &str) -> Self {
        self.spec.warm_start.push(earlier.to_owned());
        self
    }

    /// Ends after this many trials.
    pub fn trials(mut self, trials: u64) -> Self {
        self.spec.budget.trials = Some(trials);
        self
    }

    /// The seed of all random streams.
    pub fn seed(mut self, seed: u64) -> Self {
        self.spec.seed = seed;
        self
    }

    /// The sampler; by default the same as in a study file.
    pub fn sampler(mut self, sampler: AlgorithmSpec) -> Self {
        let version = samplers::find(&sampler.name).map_or(sampler.version, |entry| entry.version);
        self.spec.sampler = AlgorithmSpec { version, ..sampler };
        self
    }

    /// The pruner; by default none.
    pub fn pruner(mut self, pruner: AlgorithmSpec) -> Self {
        let version = pruners::find(&pruner.name).map_or(pruner.version, |entry| entry.version);
        self.spec.pruner = AlgorithmSpec { version, ..pruner };
        self
    }

    /// Stores the study in a SQLite file, where it can be watched and continued after a crash; in
    /// memory by default. `sqlite:///file.db` is the path of a file, too, and `postgres://..` a
    /// database.
    pub fn store(mut self, path: impl Into<PathBuf>) -> Self {
        self.store = Some(as_given(path.into()));
        self
    }

    /// Takes the study over from a process on another host, whose liveness cannot be determined:
    /// only if you know that it is gone. If it is alive, its next write is rejected, and it ends.
    pub fn take_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Continues a stored study whose search has changed (its space, constraints, enqueued
    /// configurations, sampler, warm start, pruner, `duplicates`, `replicates` or `deterministic`),
    /// or that follows the rules of an earlier version of this library, as `hpsearch run --accept`
    /// does: earlier trials stay as they are.
    pub fn accept_changes(mut self) -> Self {
        self.accepts = true;
        self
    }

    /// Runs this many trials at a time, each on its own thread; one by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    fn dimension(
        mut self,
        name: &str,
        distribution: Result<Distribution, DistributionError>,
    ) -> Self {
        let name = name.to_owned();
        match distribution {
            Ok(distribution) => {
                self.dimensions.push(Dimension { name, distribution, prior: None, when: None });
            }
            Err(source) => {
                self.problem.get_or_insert(StudyError::Distribution { name, source });
            }
        }
        self
    }

    /// Runs the study to its end, continuing from what the store has of it.
    ///
    /// # Errors
    /// The study is invalid, the store cannot be used, or another process runs the study.
    pub fn run<F>(self, objective: F) -> Result<Finished, StudyError>
    where
        F: Fn(&mut TrialContext) -> Result<TrialEnd, TrialError> + Send + Sync + 'static,
    {
        let (path, threads) = (self.store.clone(), self.threads);
        let (mut store, study) = self.stored()?;
        let launcher = InlineLauncher::new(Arc::new(objective), study.spec.objective_names());
        let slots = (0..threads).map(|index| Slot::on(index, Device::Cpu)).collect();
        let path = path.as_deref().unwrap_or(Path::new("hpsearch.db"));
        let outcome =
            Runner::start(store.as_mut(), &study, slots, Box::new(launcher), path)?.run()?;
        Ok(Finished { outcome, state: store.study_state(study.id)? })
    }

    /// Opens the study for a program that runs its trials itself, continuing from what the store
    /// has of it.
    ///
    /// # Errors
    /// The study is invalid, the store cannot be used, or another process runs the study.
    pub fn open(self) -> Result<OpenStudy, StudyError> {
        let (store, study) = self.stored()?;
        OpenStudy::new(store, study)
    }

    /// The study in its store.
    fn stored(self) -> Result<(Box<dyn Storage>, StoredStudy), StudyError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let mut spec = self.spec;
        if let Some(key) = spec.budget.beyond_a_store().into_iter().next() {
            return Err(StudyError::Budget { key });
        }
        if let Some(key) = spec.keys_of_one_value().into_iter().next() {
            return Err(StudyError::OneValue { key });
        }
        if let Some(Objective { metric, .. }) = spec.repeated_objective() {
            return Err(StudyError::RepeatedObjective { metric: metric.clone() });
        }
        if let Some(Objective { metric, .. }) = spec.unmeasurable_objective() {
            return Err(StudyError::NoThreshold { metric: metric.clone() });
        }
        spec.space = Space::new(self.dimensions)?;
        for constraint in &spec.constraints {
            let known = match constraint {
                Constraint::Limit(_) | Constraint::PruningLimit(_) => KnownNames::Metrics,
                Constraint::Require(_) => KnownNames::Parameters(&spec.space),
            };
            let expression = constraint.expression();
            if let Some(source) = condition::check(expression, known).into_iter().next() {
                let condition = expression.text().to_owned();
                return Err(StudyError::Condition { condition, source });
            }
        }
        let mut store: Box<dyn Storage> = match &self.store {
            Some(path) => Box::new(AnyStore::open(path)?),
            None => Box::new(MemoryStore::new()),
        };
        if self.takes_over
            && let Some(known) = store.study(&spec.name)?
        {
            crate::runner::take_over(store.as_mut(), &known)?;
        }
        let consent = if self.accepts { Consent::Given } else { Consent::Missing };
        let study = held_study::settle(store.as_mut(), &mut spec, consent)?;
        Ok((store, study))
    }
}
