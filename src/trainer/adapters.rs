//! Low-rank adapters beside frozen linear maps: `y = x W + b + s dropout(x) A B` (Hu et al. 2021, "LoRA"), with peft's names and meanings.

use std::collections::BTreeMap;

use burn::tensor::Device;

use super::TrainerError;
use super::parameters::{Parameter, Parameters, Part, Role, Slot, Values};
use super::tuning::is_map;
use crate::arguments::TrainerArguments;

/// The adapters of a model, whose values stand behind the model's own in the list.
#[derive(Debug, Clone)]
pub(super) struct Adapters {
    /// By the place of the map that each stands beside: its first and its second map.
    beside: BTreeMap<usize, [Slot; 2]>,
    /// Parameters that are the model's own.
    own: usize,
    /// What they add is multiplied with this.
    pub(super) scale: f64,
    /// Share of their inputs dropped in training.
    pub(super) dropout: f64,
}

/// Last words of the names of maps for queries and values, peft's default.
const QUERIES_AND_VALUES: [&str; 7] = ["query", "value", "q_lin", "v_lin", "c_attn", "q_proj", "v_proj"];

impl Adapters {
    /// Freezes the body, and puts an adapter beside each map that the arguments name and that was not frozen before.
    pub(super) fn attach(parameters: &mut Parameters, arguments: &TrainerArguments) -> Result<Self, TrainerError> {
        let wrong = |message: String| TrainerError::Arguments { message };
        let own = parameters.iter().len();
        let targets = &arguments.lora_target_modules;
        for target in targets.iter().filter(|target| *target != "all-linear") {
            if !parameters.iter().any(|parameter| is_map(parameter) && module(parameter).is_some_and(|module| ends(module, target))) {
                let mut known: Vec<&str> = parameters.iter().filter(|map| is_map(map)).filter_map(module).filter_map(last).collect();
                known.sort_unstable();
                known.dedup();
                return Err(wrong(format!(
                    "`lora_target_modules` names `{target}`, which no linear map is called; there are {}, or all-linear",
                    known.join(", ")
                )));
            }
        }
        let wanted = |module: &str| match &targets[..] {
            [] => last(module).is_some_and(|word| QUERIES_AND_VALUES.contains(&word)),
            targets => targets.iter().any(|target| target == "all-linear" || ends(module, target)),
        };
        let chosen: Vec<(usize, Parameter)> =
            parameters.iter().cloned().enumerate().filter(|(_, map)| map.rate.is_some() && is_map(map) && module(map).is_some_and(wanted)).collect();
        if chosen.is_empty() {
            return Err(wrong("`lora_r` asks for adapters, and no linear map is left for them: see `freeze` and `lora_target_modules`".to_owned()));
        }
        for parameter in parameters.iter_mut().filter(|parameter| parameter.part == Part::Body || parameter.role == Role::Table) {
            parameter.rate = None;
        }
        let mut beside = BTreeMap::new();
        for (place, map) in chosen {
            let (name, [input, output]) = (module(&map).unwrap_or_default(), map.shape);
            let mut add = |part: &str, shape: [usize; 2], role: Role| {
                parameters.append(Parameter { name: format!("{name}.lora_{part}.weight"), shape, role, ..map.clone() })
            };
            let down = add("A", [input, arguments.lora_r], Role::Down);
            let up = add("B", [arguments.lora_r, output], Role::Up);
            beside.insert(place, [down, up]);
        }
        #[expect(clippy::cast_precision_loss, reason = "a rank")]
        let rank = arguments.lora_r as f64;
        let scale = arguments.lora_alpha / if arguments.use_rslora { rank.sqrt() } else { rank };
        Ok(Self { beside, own, scale, dropout: arguments.lora_dropout })
    }

    /// The two maps beside the map at a place of the list.
    pub(super) fn beside(&self, map: Slot) -> Option<[Slot; 2]> {
        self.beside.get(&map.place()).copied()
    }

    /// The parameters that adapters need besides the merged model's: themselves, and the maps that they stand beside as they were.
    pub(super) fn apart(&self, parameters: &Parameters) -> Parameters {
        parameters.filtered(|place, _| self.is_apart(place))
    }

    /// The values of [`apart`](Self::apart)'s parameters.
    pub(super) fn values_apart(&self, values: &Values) -> Values {
        Values(values.0.iter().enumerate().filter(|(place, _)| self.is_apart(*place)).map(|(_, value)| value.clone()).collect())
    }

    /// All values again, of the merged model's and of those apart.
    pub(super) fn joined(&self, merged: Values, apart: Values) -> Values {
        let mut apart = apart.0.into_iter();
        let mut all: Vec<_> = merged.0.into_iter().take(self.own).collect();
        for (place, value) in all.iter_mut().enumerate().filter(|(place, _)| self.beside.contains_key(place)) {
            *value = apart.next().unwrap_or_else(|| unreachable!("no value for the map at {place}: as many were read as are apart"));
        }
        all.extend(apart);
        Values(all)
    }

    /// The values of an ordinary model that does the same: each map with what its adapter adds.
    pub(super) fn merged(&self, values: &Values) -> Values {
        let mut merged: Vec<_> = values.0[..self.own].to_vec();
        for (place, [down, up]) in &self.beside {
            merged[*place] = merged[*place].clone() + values.get(*down).matmul(values.get(*up)) * self.scale;
        }
        Values(merged)
    }

    /// The model's own values with adapters that add nothing yet.
    pub(super) fn begin(&self, parameters: &Parameters, own: Values, seed: u64, device: &Device) -> Values {
        let fresh = parameters.filtered(|place, _| place >= self.own).fresh(seed, device);
        Values(own.0.into_iter().take(self.own).chain(fresh.0).collect())
    }

    fn is_apart(&self, place: usize) -> bool {
        place >= self.own || self.beside.contains_key(&place)
    }
}

/// The name of a map: that of its weight without the last word.
fn module(parameter: &Parameter) -> Option<&str> {
    parameter.name.strip_suffix(".weight")
}

fn last(module: &str) -> Option<&str> {
    module.rsplit('.').next()
}

/// Whether a map's name is this, or ends with it after a point.
fn ends(module: &str, name: &str) -> bool {
    module.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
