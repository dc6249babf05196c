//! LoRA, low-rank adapters of frozen linear layers: `y = x W + b + s dropout(x) A B` (Hu et al.
//! 2021), with peft's names and meanings.

use std::collections::BTreeMap;

use burn::tensor::Device;

use super::TrainerError;
use super::floats::real;
use super::parameters::{ModelPart, Parameter, ParameterId, Parameters, Role, Values};
use hpsearch_core::arguments::TrainerArguments;

/// The adapters of a model, whose parameters follow the model's own in the list.
#[derive(Debug, Clone)]
pub(super) struct LoraAdapters {
    /// A and B of each linear layer with an adapter, by the index of its weight.
    by_linear: BTreeMap<usize, [ParameterId; 2]>,
    /// Number of the model's own parameters.
    base_parameters: usize,
    /// Scale of the adapters' output.
    pub(super) scale: f64,
    /// Dropout of their inputs.
    pub(super) dropout: f64,
}

/// The modules that get adapters by default, peft's: queries and values.
const QUERIES_AND_VALUES: [&str; 12] = [
    "query",
    "value",
    "q_lin",
    "v_lin",
    "c_attn",
    "q_proj",
    "v_proj",
    "q",
    "v",
    "qkv_proj",
    "query_proj",
    "value_proj",
];

impl LoraAdapters {
    /// Freezes the body, and adds an adapter for each trainable linear layer that the arguments
    /// name.
    pub(super) fn attach(
        parameters: &mut Parameters,
        arguments: &TrainerArguments,
    ) -> Result<Self, TrainerError> {
        let base_parameters = parameters.iter().len();
        let targets = &arguments.lora_target_modules;
        for target in targets.iter().filter(|target| *target != "all-linear") {
            if !parameters.iter().filter_map(linear_name).any(|name| ends_with_name(name, target)) {
                let mut names: Vec<&str> =
                    parameters.iter().filter_map(linear_name).filter_map(last_component).collect();
                names.sort_unstable();
                names.dedup();
                return Err(TrainerError::arguments(format!(
                    "`lora_target_modules` names `{target}`, but no linear layer has that name; \
                     there are {}, or all-linear",
                    names.join(", ")
                )));
            }
        }
        let wanted = |name: &str| match &targets[..] {
            [] => last_component(name).is_some_and(|word| QUERIES_AND_VALUES.contains(&word)),
            targets => {
                targets.iter().any(|target| target == "all-linear" || ends_with_name(name, target))
            }
        };
        let is_adapted = |parameter: &Parameter| {
            parameter.rate.is_some() && linear_name(parameter).is_some_and(wanted)
        };
        let all = parameters.iter().cloned().enumerate();
        let adapted: Vec<(usize, Parameter)> =
            all.filter(|(_, parameter)| is_adapted(parameter)).collect();
        if adapted.is_empty() {
            return Err(TrainerError::arguments(
                "`lora_r` asks for adapters, but no trainable linear layer is left for them: see \
                 `freeze` and `lora_target_modules`",
            ));
        }
        for parameter in parameters.iter_mut().filter(|parameter| {
            parameter.part == ModelPart::Body || parameter.role == Role::Embedding
        }) {
            parameter.rate = None;
        }
        let mut by_linear = BTreeMap::new();
        for (index, linear) in adapted {
            let (name, [input, output]) = (linear_name(&linear).unwrap_or_default(), linear.shape);
            let mut add = |part: &str, shape: [usize; 2], role: Role| {
                parameters.append(Parameter {
                    name: format!("{name}.lora_{part}.weight"),
                    shape,
                    role,
                    ..linear.clone()
                })
            };
            let a = add("A", [input, arguments.lora_r], Role::LoraA);
            let b = add("B", [arguments.lora_r, output], Role::LoraB);
            by_linear.insert(index, [a, b]);
        }
        let rank = real(arguments.lora_r);
        let scale = arguments.lora_alpha / if arguments.use_rslora { rank.sqrt() } else { rank };
        Ok(Self { by_linear, base_parameters, scale, dropout: arguments.lora_dropout })
    }

    /// The adapter's A and B of a linear layer.
    pub(super) fn of(&self, linear: ParameterId) -> Option<[ParameterId; 2]> {
        self.by_linear.get(&linear.index()).copied()
    }

    /// The parameters that a checkpoint needs besides the merged model: adapters, and the frozen
    /// weights that they adapt.
    pub(super) fn adapter_parameters(&self, parameters: &Parameters) -> Parameters {
        parameters.filtered(|index, _| self.is_adapter_parameter(index))
    }

    /// The values of [`adapter_parameters`](Self::adapter_parameters).
    pub(super) fn adapter_values(&self, values: &Values) -> Values {
        let own = values.0.iter().enumerate().filter(|(at, _)| self.is_adapter_parameter(*at));
        Values(own.map(|(_, value)| value.clone()).collect())
    }

    /// All values, from those of the merged model and of
    /// [`adapter_parameters`](Self::adapter_parameters).
    pub(super) fn joined(&self, merged: Values, apart: Values) -> Values {
        let mut apart = apart.0.into_iter();
        let mut all: Vec<_> = merged.0.into_iter().take(self.base_parameters).collect();
        for index in self.by_linear.keys() {
            all[*index] = apart.next().expect("as many values are read as are written");
        }
        all.extend(apart);
        Values(all)
    }

    /// The values of an equivalent model without adapters.
    pub(super) fn merged(&self, values: &Values) -> Values {
        let mut merged: Vec<_> = values.0[..self.base_parameters].to_vec();
        for (index, [a, b]) in &self.by_linear {
            merged[*index] =
                merged[*index].clone() + values.get(*a).matmul(values.get(*b)) * self.scale;
        }
        Values(merged)
    }

    /// The model's own values with those of initial adapters, whose output is 0.
    pub(super) fn begin(
        &self,
        parameters: &Parameters,
        base: Values,
        seed: u64,
        device: &Device,
    ) -> Values {
        let initial = parameters
            .filtered(|index, _| index >= self.base_parameters)
            .initial_values(seed, device);
        Values(base.0.into_iter().take(self.base_parameters).chain(initial.0).collect())
    }

    fn is_adapter_parameter(&self, index: usize) -> bool {
        index >= self.base_parameters || self.by_linear.contains_key(&index)
    }
}

/// The name of a linear layer of the body: its weight's without `.weight`.
fn linear_name(parameter: &Parameter) -> Option<&str> {
    parameter.name.strip_suffix(".weight").filter(|_| parameter.is_linear())
}

fn last_component(module_name: &str) -> Option<&str> {
    module_name.rsplit('.').next()
}

/// Whether a module is called `name`, or `..` and then `.name`.
fn ends_with_name(module_name: &str, name: &str) -> bool {
    module_name.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
