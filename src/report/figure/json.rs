//! The parts of figures as JSON.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{Axis, HeatMap, Mark, Series, SeriesRole};
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
        let mut json = serializer.serialize_struct("Series", 4)?;
        json.serialize_field("name", &self.name)?;
        json.serialize_field("mark", self.mark.as_str())?;
        json.serialize_field("role", self.tone.as_str())?;
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
