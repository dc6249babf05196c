//! JSON formats shared by several verbs; part of the public interface.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::moments::instant;
use crate::analysis::forecast::{Forecast, Span};
use crate::report::wording::run_name;
use crate::study::device::DeviceGroup;
use crate::study::front::Front;
use crate::study::metric::{Direction, Metrics, Number};
use crate::study::params::Params;
use crate::study::segment::Segment;
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// The front of a study of several objectives.
#[derive(Clone, Debug, Serialize)]
pub struct FrontJson<'a> {
    /// Numbers of its trials.
    pub trials: &'a [TrialNumber],
    /// The compromise among them.
    pub knee: Option<TrialNumber>,
    /// Its hypervolume.
    pub hypervolume: Option<Number>,
    /// The reference point of the hypervolume.
    pub reference: Vec<Number>,
}

impl<'a> From<&'a Front> for FrontJson<'a> {
    fn from(front: &'a Front) -> Self {
        FrontJson {
            trials: &front.trials,
            knee: front.knee,
            hypervolume: front.hypervolume.map(Number),
            reference: front.reference.iter().copied().map(Number).collect(),
        }
    }
}

/// One objective.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectiveJson {
    /// Its metric.
    pub metric: String,
    /// Which direction is better.
    pub direction: Direction,
}

/// The objectives of a study that has several.
pub fn objectives(spec: &StudySpec) -> Option<Vec<ObjectiveJson>> {
    spec.has_several_objectives().then(|| {
        let of = spec.objectives.iter();
        of.map(|one| ObjectiveJson { metric: one.metric.clone(), direction: one.direction })
            .collect()
    })
}

/// The best trial of a study, abbreviated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BestJson {
    /// Its number.
    pub number: TrialNumber,
    /// Its value.
    pub value: Number,
}

impl From<(TrialNumber, f64)> for BestJson {
    fn from((number, value): (TrialNumber, f64)) -> Self {
        BestJson { number, value: Number(value) }
    }
}

/// A moment, for `serde(serialize_with)`.
pub fn as_instant<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    instant(*at).serialize(serializer)
}

/// One trial.
#[derive(Clone, Debug, Serialize)]
pub struct TrialJson {
    /// Its study, if trials of several are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study: Option<String>,
    /// Its number.
    pub number: u64,
    /// The name of a tracked run, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The group of a tracked run, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its state.
    pub state: TrialState,
    /// Its value; null unless complete.
    pub value: Option<Number>,
    /// Its values in a study of several objectives; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Number>>,
    /// By how much it violates the study's limits; null if feasible.
    pub violation: Option<Number>,
    /// Whether it is hidden; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// What it reported last of each objective of several; null where it has not. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_values: Option<Vec<Option<Number>>>,
    /// Its last report, of several objectives that of the first.
    pub last_value: Option<Number>,
    /// Its step.
    pub last_step: Option<u64>,
    /// Its active parameters: those with which the value, or else the last one, was measured.
    pub params: Params,
    /// The last value of each metric; absent where a verb has none, or others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// Values about the whole trial; absent if it has none, or a verb has them apart.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub summary: BTreeMap<String, serde_json::Value>,
    /// Where it continued from other trials of its population; absent if it never did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentJson>,
    /// Device of its last attempt, or its devices: `cuda:0+cuda:1`.
    pub device: Option<DeviceGroup>,
    /// Seconds spent in its attempts, an open one included.
    pub seconds: f64,
    /// Number of attempts.
    pub attempts: u32,
    /// The reason for its state.
    pub reason: Option<String>,
    /// Its user's tags.
    pub tags: Vec<String>,
    /// Its user's notes, oldest first.
    pub notes: Vec<NoteJson>,
}

/// The beginning of a segment: a trial took over another's checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentJson {
    /// Step of the checkpoint.
    pub start: u64,
    /// The trial that saved it.
    pub from: TrialNumber,
    /// Its digest, if known.
    pub digest: Option<String>,
    /// The trial's parameters before.
    pub replaced: Params,
    /// Its parameters from there on.
    pub params: Params,
}

fn segments(trial: &Trial) -> Vec<SegmentJson> {
    let next = trial.segments.iter().skip(1).map(|segment| &segment.replaced);
    let each = trial.segments.iter().zip(next.chain([&trial.params]));
    let segment = |(segment, params): (&Segment, &Params)| {
        let Segment { start, from, digest, replaced, .. } = segment.clone();
        SegmentJson { start, from, digest, replaced, params: params.clone() }
    };
    each.map(segment).collect()
}

/// One note.
#[derive(Clone, Debug, Serialize)]
pub struct NoteJson {
    /// When it was written.
    pub at: String,
    /// The note.
    pub text: String,
}

impl TrialJson {
    /// A trial of a study.
    pub fn new(spec: &StudySpec, trial: &Trial) -> Self {
        TrialJson {
            study: None,
            number: trial.number.0,
            name: run_name(trial).map(str::to_owned),
            group: trial.origin.tracked().and_then(|run| run.group.clone()),
            state: trial.state,
            value: trial.value.map(Number),
            values: (!trial.values.is_empty())
                .then(|| trial.values.iter().copied().map(Number).collect()),
            violation: trial.violation.map(Number),
            hidden: trial.hidden,
            last_values: spec.has_several_objectives().then(|| last_values(spec, trial)),
            last_value: trial.last().map(|(_, value)| Number(value)),
            last_step: trial.last_step(),
            params: shown_params(spec, trial).clone(),
            metrics: None,
            summary: BTreeMap::new(),
            segments: segments(trial),
            device: trial.devices.clone(),
            seconds: seconds(trial.busy_micros),
            attempts: trial.attempts,
            reason: trial.reason.clone(),
            tags: trial.tags.clone(),
            notes: trial
                .notes
                .iter()
                .map(|note| NoteJson { at: instant(note.at), text: note.text.clone() })
                .collect(),
        }
    }

    /// The same with the time spent on it until now, if it is running.
    pub fn after(self, spent: Option<Duration>) -> Self {
        let spent = spent.filter(|_| self.state == TrialState::Running);
        TrialJson { seconds: spent.map_or(self.seconds, |spent| spent.as_secs_f64()), ..self }
    }

    /// The same with the trial's last metrics and its summary.
    pub fn measured(
        self,
        trial: &Trial,
        summary: Option<BTreeMap<String, serde_json::Value>>,
    ) -> Self {
        let metrics = Some(trial.last_metrics.clone()).filter(|metrics| !metrics.0.is_empty());
        TrialJson { metrics, summary: summary.unwrap_or_default(), ..self }
    }

    /// A trial with the name of its study.
    pub fn of_study(spec: &StudySpec, trial: &Trial) -> Self {
        TrialJson { study: Some(spec.name.clone()), ..TrialJson::new(spec, trial) }
    }
}

fn last_values(spec: &StudySpec, trial: &Trial) -> Vec<Option<Number>> {
    let last = trial.vectors.last();
    let mut values = last.map(|(step, _)| trial.values_at(*step)).unwrap_or_default();
    values.resize(spec.objectives.len(), None);
    values.into_iter().map(|value| value.map(Number)).collect()
}

/// The forecast of the study: likely values with ranges.
#[derive(Serialize)]
pub struct ForecastJson {
    seconds_left: Option<[f64; 3]>,
    device_hours: Option<[f64; 3]>,
    cost: Option<[f64; 3]>,
    trials: Option<[f64; 3]>,
    disk_bytes: Option<[f64; 3]>,
}

impl From<&Forecast> for ForecastJson {
    /// Low, likely, high.
    fn from(forecast: &Forecast) -> Self {
        let span = |span: Option<Span>| span.map(|span| [span.low, span.likely, span.high]);
        ForecastJson {
            seconds_left: span(forecast.seconds_left),
            device_hours: span(forecast.device_hours),
            cost: span(forecast.cost),
            trials: span(forecast.trials),
            disk_bytes: span(forecast.disk),
        }
    }
}

/// The kind of a trial's origin.
pub fn origin_kind(origin: &Origin) -> &'static str {
    match origin {
        Origin::Sampled(_) => "sampled",
        Origin::Enqueued(_) => "enqueued",
        Origin::Asked => "asked",
        Origin::Imported(_) => "imported",
        Origin::Replicate(_) => "replicate",
        Origin::Repeat(_) => "repeat",
        Origin::Race { .. } => "race",
        Origin::Tracked(_) => "tracked",
    }
}

/// Stored microseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
pub fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}
