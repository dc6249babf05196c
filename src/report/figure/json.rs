//! The parts of figures as JSON.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{Axis, Figure, HeatMap, Mark, Series, SeriesRole};
use crate::study::metric::Number;
use crate::study::space::Scale;

impl Serialize for Axis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("Axis", 4)?;
        json.serialize_field("label", &self.label)?;
        json.serialize_field("log", &(self.scale == Scale::Log))?;
        let ends = self.ends.map(|(low, high)| [Number(low), Number(high)]);
        json.serialize_field("ends", &ends)?;
        if !self.names.is_empty() {
            let names: Vec<(Number, &str)> =
                self.names.iter().map(|(at, name)| (Number(*at), name.as_str())).collect();
            json.serialize_field("names", &names)?;
        }
        json.end()
    }
}

/// A figure as a page draws it: of each axis also the range that shows what matters.
impl Serialize for Figure<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct ShownAxis<'a> {
            label: &'a str,
            log: bool,
            range: Option<[Number; 2]>,
        }
        fn shown(axis: &Axis, range: Option<(f64, f64)>) -> ShownAxis<'_> {
            let range = range.map(|(low, high)| [Number(low), Number(high)]);
            ShownAxis { label: &axis.label, log: axis.scale == Scale::Log, range }
        }
        let (x, y) = self.ranges().map(|(x, y)| (x.values(), y.values())).unzip();
        let mut json = serializer.serialize_struct("Figure", 5)?;
        json.serialize_field("title", &self.title)?;
        json.serialize_field("x", &shown(&self.x, x))?;
        json.serialize_field("y", &shown(&self.y, y))?;
        json.serialize_field("series", &self.series)?;
        json.serialize_field("empty", self.empty)?;
        json.end()
    }
}

impl Serialize for HeatMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers =
            |values: &[f64]| values.iter().map(|value| Number(*value)).collect::<Vec<_>>();
        let mut json = serializer.serialize_struct("HeatMap", 4)?;
        json.serialize_field("label", &self.label)?;
        json.serialize_field("x", &numbers(&self.x))?;
        json.serialize_field("y", &numbers(&self.y))?;
        let values: Vec<Option<Number>> =
            self.values.iter().map(|value| value.map(Number)).collect();
        json.serialize_field("values", &values)?;
        json.end()
    }
}

impl Serialize for Series<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let points: Vec<(Number, Number)> =
            self.points.iter().map(|(x, y)| (Number(*x), Number(*y))).collect();
        let mut json = serializer.serialize_struct("Series", 6)?;
        json.serialize_field("name", &self.name)?;
        json.serialize_field("mark", self.mark.as_str())?;
        json.serialize_field("role", self.tone.as_str())?;
        if let SeriesRole::Compared(index) = self.tone {
            json.serialize_field("index", &index)?;
        }
        if let Some(trial) = self.trial {
            json.serialize_field("trial", &trial)?;
        }
        json.serialize_field("points", &points)?;
        json.end()
    }
}

impl Mark {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Mark::Line => "line",
            Mark::Steps => "steps",
            Mark::Dots => "dots",
            Mark::Star => "star",
            Mark::Bars => "bars",
            Mark::Band => "band",
        }
    }
}

impl SeriesRole {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            SeriesRole::Behind => "background",
            SeriesRole::Compared(_) => "compared",
            SeriesRole::Best => "best",
        }
    }
}
