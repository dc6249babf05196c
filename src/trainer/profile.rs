//! Where a training's time goes: spans of phases and layers, noted by the thread that trains while somebody asks for them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::course::Due;
use super::training::{Run, Stepped};
use super::{Host, Job, TrainerError};

/// Steps before those that are noted: memory is taken and pages are touched in them for the first time.
const WARM_UP: u64 = 2;

/// What a training's time went into.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Optimiser steps that were noted.
    pub steps: u32,
    /// Seconds that they took together.
    pub seconds: f64,
    /// The phases of the steps in the order in which they began, with their seconds; what a phase has within it is not its own.
    pub phases: Vec<(String, f64)>,
    /// One evaluation and one checkpoint, with their seconds.
    pub besides: Vec<(String, f64)>,
    /// The layers in the order in which they began, with their seconds forward and backward; none where another device computes.
    pub layers: Vec<(String, [f64; 2])>,
}

/// Makes `steps` steps, an evaluation and a checkpoint, and says where the time went; every span is written to `trace` in the form that
/// chrome://tracing and Perfetto read.
///
/// # Errors
/// As [`train`](super::train); a trace that cannot be written.
pub fn profile(job: &Job<'_>, steps: u32, trace: &Path, host: &mut dyn Host) -> Result<Profile, TrainerError> {
    let mut run = Run::begin(job, host)?;
    run.keep_features(host)?;
    let rate = job.arguments.learning_rate;
    let step = |run: &mut Run<'_>, number: u64| match run.step_on(number, rate)? {
        Stepped::Loss(_) | Stepped::Overflow => Ok(()),
        Stepped::NotFinite(what) => Err(TrainerError::Arguments { message: format!("{what}: lower `learning_rate` for a profile") }),
    };
    host.at(0, u64::from(steps));
    for number in 0..WARM_UP {
        step(&mut run, number)?;
    }
    NOTES.set(Some(Notes::new()));
    let began = Instant::now();
    for number in 0..steps {
        let _span = open(Kind::Step, || format!("step {}", number + 1));
        step(&mut run, WARM_UP + u64::from(number))?;
        host.at(u64::from(number) + 1, u64::from(steps));
    }
    let seconds = began.elapsed().as_secs_f64();
    {
        let _span = phase(EVALUATION);
        run.evaluate(Due { clock: 0, reported: false, asked: false }, host)?;
    }
    {
        let _span = phase(CHECKPOINT);
        run.checkpoint(host)?;
    }
    let notes = NOTES.take().unwrap_or_else(Notes::new);
    fs::write(trace, notes.trace().to_string()).map_err(TrainerError::io("write", trace))?;
    Ok(notes.profile(steps, seconds))
}

const EVALUATION: &str = "evaluation";
const CHECKPOINT: &str = "checkpoint";

thread_local! {
    /// The spans of this thread while they are asked for.
    static NOTES: RefCell<Option<Notes>> = const { RefCell::new(None) };
}

/// What a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Step,
    Phase,
    Forward,
    Backward,
}

impl Kind {
    /// As the trace has it.
    fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Phase => "phase",
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// A layer's number among those noted; operations keep it, so that their gradients are noted under the layer's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

/// A span that ends when it is dropped.
pub(super) struct Span(());

impl Drop for Span {
    fn drop(&mut self) {
        NOTES.with_borrow_mut(|notes| notes.as_mut().into_iter().for_each(Notes::end));
    }
}

/// Begins a phase, if spans are asked for.
pub(super) fn phase(name: &str) -> Option<Span> {
    open(Kind::Phase, || name.to_owned())
}

/// Begins a layer's way forward, if spans are asked for.
pub(super) fn layer(name: impl FnOnce() -> String) -> Option<Span> {
    open(Kind::Forward, name)
}

/// The layer whose way forward this is, if spans are asked for.
pub(super) fn here() -> Option<Place> {
    NOTES.with_borrow(|notes| {
        let notes = notes.as_ref()?;
        notes.open.iter().rev().map(|span| &notes.spans[*span]).find(|span| span.kind == Kind::Forward).map(|span| Place(span.name))
    })
}

/// Begins a part of a layer's way back.
pub(super) fn back(layer: Option<Place>) -> Option<Span> {
    let Place(name) = layer?;
    NOTES.with_borrow_mut(|notes| notes.as_mut().filter(|notes| name < notes.names.len()).map(|notes| notes.begin(Kind::Backward, name)))
}

fn open(kind: Kind, name: impl FnOnce() -> String) -> Option<Span> {
    NOTES.with_borrow_mut(|notes| {
        let notes = notes.as_mut()?;
        let name = notes.number(name());
        Some(notes.begin(kind, name))
    })
}

/// Spans so far.
struct Notes {
    start: Instant,
    names: Vec<String>,
    spans: Vec<Noted>,
    /// Those that have not ended, the innermost last.
    open: Vec<usize>,
}

/// A span.
struct Noted {
    kind: Kind,
    name: usize,
    begin: Duration,
    length: Duration,
    /// Time of the phases right within it.
    within: Duration,
}

impl Notes {
    fn new() -> Self {
        Self { start: Instant::now(), names: Vec::new(), spans: Vec::new(), open: Vec::new() }
    }

    fn number(&mut self, name: String) -> usize {
        self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }

    fn begin(&mut self, kind: Kind, name: usize) -> Span {
        self.open.push(self.spans.len());
        self.spans.push(Noted { kind, name, begin: self.start.elapsed(), length: Duration::ZERO, within: Duration::ZERO });
        Span(())
    }

    fn end(&mut self) {
        let Some(last) = self.open.pop() else { return };
        let length = self.start.elapsed().saturating_sub(self.spans[last].begin);
        self.spans[last].length = length;
        if self.spans[last].kind == Kind::Phase
            && let Some(around) = self.open.iter().rev().find(|span| self.spans[**span].kind == Kind::Phase)
        {
            self.spans[*around].within += length;
        }
    }

    fn profile(&self, steps: u32, seconds: f64) -> Profile {
        let mut profile = Profile { steps, seconds, ..Profile::default() };
        let mut forward: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        // Within an evaluation layers run forward too; only steps are asked about.
        let mut steps_over = Duration::ZERO;
        for span in &self.spans {
            let (name, own) = (&self.names[span.name], span.length.saturating_sub(span.within).as_secs_f64());
            match span.kind {
                Kind::Step => steps_over = span.begin + span.length,
                Kind::Phase if span.begin >= steps_over => {
                    if name == EVALUATION || name == CHECKPOINT {
                        profile.besides.push((name.clone(), span.length.as_secs_f64()));
                    }
                }
                Kind::Phase => match profile.phases.iter_mut().find(|(known, _)| known == name) {
                    Some((_, seconds)) => *seconds += own,
                    None => profile.phases.push((name.clone(), own)),
                },
                Kind::Forward | Kind::Backward if span.begin < steps_over => {
                    forward.entry(span.name).or_default()[usize::from(span.kind == Kind::Backward)] += span.length.as_secs_f64();
                }
                Kind::Forward | Kind::Backward => {}
            }
        }
        profile.layers = forward.into_iter().map(|(name, seconds)| (self.names[name].clone(), seconds)).collect();
        profile
    }

    /// In the Trace Event Format: complete events (`X`), in microseconds.
    fn trace(&self) -> serde_json::Value {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        let named = json!({"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "hpsearch train --profile"}});
        let event = |span: &Noted| {
            json!({
                "name": self.names[span.name], "cat": span.kind.word(), "ph": "X", "ts": micros(span.begin), "dur": micros(span.length),
                "pid": 1, "tid": 1,
            })
        };
        json!({"displayTimeUnit": "ms", "traceEvents": std::iter::once(named).chain(self.spans.iter().map(event)).collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_within_another_is_not_the_others_and_nothing_is_noted_unasked() {
        assert!(phase("forward").is_none() && here().is_none() && back(Some(Place(0))).is_none());
        NOTES.set(Some(Notes::new()));
        let kept;
        {
            let _step = open(Kind::Step, || "step 1".to_owned());
            {
                let _forward = phase("forward");
                drop(phase("data"));
                let _layer = layer(|| "layer 0".to_owned());
                kept = here();
            }
            let _backward = phase("backward");
            drop(back(kept));
        }
        drop(phase(EVALUATION));
        let mut notes = NOTES.take().unwrap();
        // Lengths that can be told apart: step, forward, data, layer, backward, the layer's way back, evaluation.
        for (span, (begin, length)) in notes.spans.iter_mut().zip([(0, 100), (0, 60), (5, 10), (20, 30), (60, 40), (70, 20), (100, 9)]) {
            (span.begin, span.length) = (Duration::from_secs(begin), Duration::from_secs(length));
        }
        notes.spans[1].within = Duration::from_secs(10);
        let profile = notes.profile(1, 100.0);
        let phases: Vec<(&str, f64)> = profile.phases.iter().map(|(name, seconds)| (name.as_str(), *seconds)).collect();
        assert_eq!(phases, [("forward", 50.0), ("data", 10.0), ("backward", 40.0)]);
        assert_eq!(profile.layers, [("layer 0".to_owned(), [30.0, 20.0])]);
        assert_eq!(profile.besides, [(EVALUATION.to_owned(), 9.0)]);
    }
}
