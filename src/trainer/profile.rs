//! Profiling of training: spans of phases and layers, recorded by the training thread while
//! profiling is on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

/// The time spent in each part of training.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Profiled optimiser steps.
    pub steps: u32,
    /// Their seconds.
    pub seconds: f64,
    /// The phases of the steps in the order in which they began, with their seconds, without nested
    /// phases.
    pub phases: Vec<(String, f64)>,
    /// One evaluation and one checkpoint, with their seconds.
    pub besides: Vec<(String, f64)>,
    /// The layers in the order in which they began, with their seconds forward and backward; empty
    /// on GPUs, which compute asynchronously.
    pub layers: Vec<(String, [f64; 2])>,
}

pub(super) const EVALUATION: &str = "evaluation";
pub(super) const CHECKPOINT: &str = "checkpoint";

thread_local! {
    /// The recorder of this thread while profiling is on.
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Step,
    Phase,
    Forward,
    Backward,
}

impl Kind {
    /// The category in the trace.
    fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Phase => "phase",
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// A recorded layer; operations keep it, so that their backward pass is recorded under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerId(usize);

/// A span that ends when it is dropped.
pub(super) struct Span(());

impl Drop for Span {
    fn drop(&mut self) {
        RECORDER.with_borrow_mut(|recorder| recorder.as_mut().into_iter().for_each(Recorder::end));
    }
}

/// Begins the span of a phase, if profiling is on.
pub(super) fn phase(name: &str) -> Option<Span> {
    open(Kind::Phase, || name.to_owned())
}

/// Begins the span of a layer's forward pass, if profiling is on.
pub(super) fn layer(name: impl FnOnce() -> String) -> Option<Span> {
    open(Kind::Forward, name)
}

/// The layer whose forward pass is being recorded, if profiling is on.
pub(super) fn current_layer() -> Option<LayerId> {
    RECORDER.with_borrow(|recorder| {
        let recorder = recorder.as_ref()?;
        recorder
            .open
            .iter()
            .rev()
            .map(|span| &recorder.spans[*span])
            .find(|span| span.kind == Kind::Forward)
            .map(|span| LayerId(span.name))
    })
}

/// Begins the span of a part of a layer's backward pass.
pub(super) fn backward(layer: Option<LayerId>) -> Option<Span> {
    let LayerId(name) = layer?;
    RECORDER.with_borrow_mut(|recorder| {
        recorder
            .as_mut()
            .filter(|recorder| name < recorder.names.len())
            .map(|recorder| recorder.begin(Kind::Backward, name))
    })
}

/// Begins the span of an optimiser step, if profiling is on.
pub(super) fn step(number: u32) -> Option<Span> {
    open(Kind::Step, || format!("step {number}"))
}

/// Turns profiling on.
pub(super) fn start() {
    RECORDER.set(Some(Recorder::new()));
}

/// Turns profiling off; the profile of `steps` steps that took `seconds`, and all spans in the
/// Trace Event Format.
pub(super) fn finish(steps: u32, seconds: f64) -> (Profile, serde_json::Value) {
    let recorder = RECORDER.take().unwrap_or_else(Recorder::new);
    (recorder.profile(steps, seconds), recorder.trace())
}

fn open(kind: Kind, name: impl FnOnce() -> String) -> Option<Span> {
    RECORDER.with_borrow_mut(|recorder| {
        let recorder = recorder.as_mut()?;
        let name = recorder.number(name());
        Some(recorder.begin(kind, name))
    })
}

/// The spans so far.
struct Recorder {
    start: Instant,
    names: Vec<String>,
    spans: Vec<RecordedSpan>,
    /// The open spans, the innermost last.
    open: Vec<usize>,
}

/// A recorded span.
struct RecordedSpan {
    kind: Kind,
    name: usize,
    begin: Duration,
    length: Duration,
    /// Time of directly nested phases.
    within: Duration,
}

impl Recorder {
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
        self.spans.push(RecordedSpan {
            kind,
            name,
            begin: self.start.elapsed(),
            length: Duration::ZERO,
            within: Duration::ZERO,
        });
        Span(())
    }

    fn end(&mut self) {
        let Some(last) = self.open.pop() else { return };
        let length = self.start.elapsed().saturating_sub(self.spans[last].begin);
        self.spans[last].length = length;
        if self.spans[last].kind == Kind::Phase
            && let Some(around) =
                self.open.iter().rev().find(|span| self.spans[**span].kind == Kind::Phase)
        {
            self.spans[*around].within += length;
        }
    }

    fn profile(&self, steps: u32, seconds: f64) -> Profile {
        let mut profile = Profile { steps, seconds, ..Profile::default() };
        let mut forward: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        // Evaluations run layers forward, too; only those of steps count.
        let mut steps_over = Duration::ZERO;
        for span in &self.spans {
            let (name, own) =
                (&self.names[span.name], span.length.saturating_sub(span.within).as_secs_f64());
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
                    forward.entry(span.name).or_default()
                        [usize::from(span.kind == Kind::Backward)] += span.length.as_secs_f64();
                }
                Kind::Forward | Kind::Backward => {}
            }
        }
        profile.layers = forward
            .into_iter()
            .map(|(name, seconds)| (self.names[name].clone(), seconds))
            .collect();
        profile
    }

    /// All spans in the Trace Event Format: complete events (`X`), in microseconds.
    fn trace(&self) -> serde_json::Value {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        let named = json!({
            "name": "process_name", "ph": "M", "pid": 1, "tid": 1,
            "args": {"name": "hpsearch train --profile"},
        });
        let event = |span: &RecordedSpan| {
            json!({
                "name": self.names[span.name], "cat": span.kind.word(), "ph": "X",
                "ts": micros(span.begin), "dur": micros(span.length),
                "pid": 1, "tid": 1,
            })
        };
        let events: Vec<_> = std::iter::once(named).chain(self.spans.iter().map(event)).collect();
        json!({"displayTimeUnit": "ms", "traceEvents": events})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_phases_do_not_count_for_the_outer_one_and_nothing_is_recorded_unless_profiling_is_on()
    {
        assert!(
            phase("forward").is_none()
                && current_layer().is_none()
                && backward(Some(LayerId(0))).is_none()
        );
        RECORDER.set(Some(Recorder::new()));
        let kept;
        {
            let _step = open(Kind::Step, || "step 1".to_owned());
            {
                let _forward = phase("forward");
                drop(phase("data"));
                let _layer = layer(|| "layer 0".to_owned());
                kept = current_layer();
            }
            let _backward = phase("backward");
            drop(backward(kept));
        }
        drop(phase(EVALUATION));
        let mut recorder = RECORDER.take().unwrap();
        // Distinct lengths: step, forward, data, layer, backward, the layer's backward pass,
        // evaluation.
        for (span, (begin, length)) in recorder.spans.iter_mut().zip([
            (0, 100),
            (0, 60),
            (5, 10),
            (20, 30),
            (60, 40),
            (70, 20),
            (100, 9),
        ]) {
            (span.begin, span.length) = (Duration::from_secs(begin), Duration::from_secs(length));
        }
        recorder.spans[1].within = Duration::from_secs(10);
        let profile = recorder.profile(1, 100.0);
        let phases: Vec<(&str, f64)> =
            profile.phases.iter().map(|(name, seconds)| (name.as_str(), *seconds)).collect();
        assert_eq!(phases, [("forward", 50.0), ("data", 10.0), ("backward", 40.0)]);
        assert_eq!(profile.layers, [("layer 0".to_owned(), [30.0, 20.0])]);
        assert_eq!(profile.besides, [(EVALUATION.to_owned(), 9.0)]);
    }
}
