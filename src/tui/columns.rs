//! Which columns the table of trials has: what each is called, whether it is shown, and what
//! sorting by it means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;
use super::together::TableScope;
use crate::report::wording::one_line;
use crate::study::query::SortKey;

/// What a column shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnKey {
    /// The place by value.
    Rank,
    /// The study, where the table has several.
    Study,
    /// The trial's number.
    Trial,
    /// Its state.
    State,
    /// Its value, or its last report.
    Value,
    /// Which metric that is, where studies have several.
    Objective,
    /// The step of the last report.
    Step,
    /// The metric over the steps.
    Curve,
    /// The time spent on it.
    Time,
    /// Since when it runs, or how long ago it ended.
    Age,
    /// Another metric's last report.
    Metric(String),
    /// A parameter.
    Param(String),
    /// Where it ran last.
    Device,
    /// Attempts begun.
    Attempts,
    /// Its tags.
    Tags,
    /// Its last note.
    Note,
    /// Why it is in its state.
    Reason,
}

impl ColumnKey {
    /// All columns of the table, from left to right.
    pub fn all(seen: &Snapshot) -> Vec<ColumnKey> {
        use ColumnKey::{
            Age, Attempts, Curve, Device, Metric, Note, Objective, Param, Rank, Reason, State,
            Step, Study, Tags, Time, Trial, Value,
        };
        let table = &seen.table;
        let is_other = |metric: &&String| {
            (table.has_metrics || **metric != table.metric) && !table.objectives.contains(*metric)
        };
        let objectives = table.objectives.iter().cloned().map(Metric);
        let others = seen.names.metrics.iter().filter(is_other).cloned().map(Metric);
        let params = table.params.iter().map(|(name, _)| Param(name.clone()));
        let study = table.has_studies.then_some(Study);
        let objective = table.has_metrics.then_some(Objective);
        [Rank]
            .into_iter()
            .chain(study)
            .chain([Trial, State, Value])
            .chain(objectives)
            .chain(objective)
            .chain([Step, Curve, Time, Age])
            .chain(others)
            .chain(params)
            .chain([Device, Attempts, Tags, Note, Reason])
            .collect()
    }

    /// The first word of the name under which the choice is kept, and what the list of columns
    /// says.
    fn described(&self) -> (&'static str, &'static str) {
        match self {
            ColumnKey::Rank => ("rank", "rank by value"),
            ColumnKey::Study => ("study", "study of the trial"),
            ColumnKey::Trial => ("trial", "trial number"),
            ColumnKey::State => ("state", "queued, running, ..."),
            ColumnKey::Value => ("value", "the metric of the study"),
            ColumnKey::Objective => ("objective", "metric of the study"),
            ColumnKey::Step => ("step", "step of the last report"),
            ColumnKey::Curve => ("curve", "over time"),
            ColumnKey::Time => ("time", "running time of the trial"),
            ColumnKey::Age => ("age", "time since it began or ended"),
            ColumnKey::Device => ("device", "device of the last attempt"),
            ColumnKey::Attempts => ("attempts", "attempts begun"),
            ColumnKey::Tags => ("tags", "your tags"),
            ColumnKey::Note => ("note", "your last note"),
            ColumnKey::Reason => ("reason", "why it is in its state"),
            ColumnKey::Metric(_) => ("metric", "metric, last report"),
            ColumnKey::Param(_) => ("param", "parameter"),
        }
    }

    /// The name under which the choice is kept.
    fn word(&self) -> String {
        let (word, _) = self.described();
        match self {
            ColumnKey::Metric(name) | ColumnKey::Param(name) => format!("{word} {name}"),
            _ => word.to_owned(),
        }
    }

    /// The name on the screen.
    pub fn title(&self, table: &TableScope) -> String {
        match self {
            ColumnKey::Value => one_line(&table.metric),
            ColumnKey::Objective => "metric".to_owned(),
            ColumnKey::Step => table.step.to_owned(),
            ColumnKey::Attempts => "tries".to_owned(),
            ColumnKey::Metric(name) => one_line(name),
            ColumnKey::Param(name) => one_line(table.short_name(name)),
            other => other.word(),
        }
    }

    /// What the list of columns says about it.
    pub fn about(&self, table: &TableScope) -> String {
        let (_, about) = self.described();
        match self {
            ColumnKey::Curve => format!("{} {about}", one_line(&table.metric)),
            _ => about.to_owned(),
        }
    }

    /// The order by this column, where there is one.
    pub fn sort_key(&self) -> Option<SortKey> {
        Some(match self {
            ColumnKey::Rank | ColumnKey::Value => SortKey::Value,
            ColumnKey::Trial => SortKey::Number,
            ColumnKey::State => SortKey::State,
            ColumnKey::Step => SortKey::Step,
            ColumnKey::Time => SortKey::Seconds,
            ColumnKey::Age => SortKey::Started,
            ColumnKey::Metric(name) => SortKey::Metric(name.clone()),
            ColumnKey::Param(name) => SortKey::Param(name.clone()),
            _ => return None,
        })
    }

    /// The column that shows what is sorted by.
    pub fn of(sort: &SortKey) -> ColumnKey {
        match sort {
            SortKey::Value => ColumnKey::Value,
            // Trials are created in the order of their numbers.
            SortKey::Number | SortKey::Created => ColumnKey::Trial,
            SortKey::Step => ColumnKey::Step,
            SortKey::Seconds => ColumnKey::Time,
            SortKey::State => ColumnKey::State,
            SortKey::Started => ColumnKey::Age,
            SortKey::Param(name) => ColumnKey::Param(name.clone()),
            SortKey::Metric(name) => ColumnKey::Metric(name.clone()),
        }
    }

    /// Whether it is shown as long as nobody says otherwise.
    fn is_usual(&self) -> bool {
        !matches!(
            self,
            ColumnKey::Age | ColumnKey::Metric(_) | ColumnKey::Device | ColumnKey::Attempts
        )
    }

    /// Which of several objectives it shows.
    pub fn objective(&self, table: &TableScope) -> Option<usize> {
        let ColumnKey::Metric(name) = self else { return None };
        table.objectives.iter().position(|metric| metric == name)
    }

    /// Whether the table cannot do without it.
    pub fn is_fixed(&self) -> bool {
        matches!(self, ColumnKey::Study | ColumnKey::Trial | ColumnKey::State | ColumnKey::Value)
    }
}

/// What a person chose: columns, and the order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableSettings {
    /// Columns shown or hidden against the usual, by the names under which they are kept.
    columns: BTreeMap<String, bool>,
    /// What is sorted by, as a word of the sort language.
    pub sort: Option<String>,
}

impl TableSettings {
    /// Whether `column` is shown.
    pub fn shows(&self, column: &ColumnKey) -> bool {
        column.is_fixed()
            || self.columns.get(&column.word()).copied().unwrap_or_else(|| column.is_usual())
    }

    /// Whether `column` is shown in this table: each of several objectives has its own.
    pub fn shows_in(&self, table: &TableScope, column: &ColumnKey) -> bool {
        match column {
            ColumnKey::Value => table.objectives.is_empty(),
            _ => column.objective(table).is_some() || self.shows(column),
        }
    }

    /// Whether someone asked for it by name.
    pub fn insists_on(&self, column: &ColumnKey) -> bool {
        self.columns.get(&column.word()) == Some(&true)
    }

    /// Shows `column` if it is hidden, hides it if it is shown.
    pub fn toggle(&mut self, column: &ColumnKey) {
        if column.is_fixed() {
            return;
        }
        let shown = !self.shows(column);
        if shown == column.is_usual() {
            self.columns.remove(&column.word());
        } else {
            self.columns.insert(column.word(), shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_against_the_usual_is_kept_and_its_return_is_forgotten() {
        let mut settings = TableSettings::default();
        let (curve, device) = (ColumnKey::Curve, ColumnKey::Device);
        assert!(settings.shows(&curve) && !settings.shows(&device));
        settings.toggle(&curve);
        settings.toggle(&device);
        assert!(!settings.shows(&curve) && settings.shows(&device));
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<TableSettings>(&text).unwrap(), settings);
        settings.toggle(&curve);
        settings.toggle(&device);
        assert_eq!(settings, TableSettings::default());
    }

    #[test]
    fn what_a_trial_is_known_by_cannot_be_hidden() {
        let mut settings = TableSettings::default();
        settings.toggle(&ColumnKey::Trial);
        assert!(settings.shows(&ColumnKey::Trial));
    }
}
