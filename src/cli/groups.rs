//! `--by` and `--over`: groups of trials, and what JSON calls them.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::Value as Json;

use super::console::Console;
use crate::app::groups::{GroupBy, Groups, TrialGroup};
use crate::report::wording::one_line;
use crate::storage::StudySummary;
use crate::study::params::Value;

/// How trials are grouped.
#[derive(Clone, Debug, Default, Args)]
pub struct GroupArguments {
    /// Mean and standard deviation of each group: of the runs of each `group`, or of the trials
    /// with each value of a parameter
    #[arg(long, value_name = "NAME", conflicts_with = "over")]
    pub by: Option<String>,
    /// Mean and standard deviation over this parameter, as often as needed: trials that agree in
    /// all others are a group; with `seed`, also runs of one configuration
    #[arg(long, value_name = "NAME")]
    pub over: Vec<String>,
}

impl GroupArguments {
    /// What trials are grouped by, if they are.
    pub fn group_by(&self) -> Option<GroupBy> {
        let over = || (!self.over.is_empty()).then(|| GroupBy::Over(self.over.clone()));
        self.by.clone().map(GroupBy::Name).or_else(over)
    }
}

/// Says which trials are in no group; names their study if there are several.
pub fn say_left_out(study: &StudySummary, groups: &Groups, is_several: bool, console: &Console) {
    if let Some(lack) = groups.lack() {
        console.say(&match is_several {
            true => format!("`{}`: {lack}", one_line(&study.spec.name)),
            false => lack,
        });
    }
}

/// What trials are grouped by.
#[derive(Serialize)]
pub struct GroupByJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<&'a [String]>,
}

impl<'a> From<&'a GroupBy> for GroupByJson<'a> {
    fn from(by: &'a GroupBy) -> Self {
        match by {
            GroupBy::Name(name) => GroupByJson { by: Some(name), over: None },
            GroupBy::Over(over) => GroupByJson { by: None, over: Some(over) },
        }
    }
}

/// What the trials of a group have in common: a value, or with `--over` parameters.
#[derive(Serialize)]
pub struct GroupKeyJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<BTreeMap<&'a str, Json>>,
}

impl<'a> GroupKeyJson<'a> {
    /// That of one of the groups.
    pub fn new(groups: &'a Groups, group: &'a TrialGroup) -> Self {
        match groups.by {
            GroupBy::Name(_) => {
                let value = group.values.first().and_then(Option::as_ref).map(Value::to_json);
                GroupKeyJson { value, params: None }
            }
            GroupBy::Over(_) => {
                let named = groups.names.iter().zip(&group.values);
                let given = named
                    .filter_map(|(name, value)| Some((name.as_str(), value.as_ref()?.to_json())));
                GroupKeyJson { value: None, params: Some(given.collect()) }
            }
        }
    }
}
