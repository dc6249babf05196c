//! Fine-tuning options applied to a model: frozen parameters, layer-wise learning rates, LoRA
//! adapters, class weights.

use burn::tensor::Device;

use super::adapters::LoraAdapters;
use super::floats::{as_f32, real};
use super::parameters::{Depth, ModelPart, Parameter, Parameters, Role, Values};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::{ClassWeights, TrainerArguments};
use hpsearch_core::study::pattern;

/// The options that are not marked on the parameters themselves.
#[derive(Debug, Clone, Default)]
pub(super) struct FineTuning {
    /// Number of frozen first layers, embeddings included. They run without dropout, so their
    /// outputs can be cached.
    pub(super) frozen_layers: usize,
    pub(super) adapters: Option<LoraAdapters>,
    pub(super) class_weights: Option<Vec<f32>>,
}

impl FineTuning {
    /// Freezes parameters, sets layer-wise learning rates, and adds adapters to the parameters.
    ///
    /// # Errors
    /// Names that match nothing, more layers than the model has, class weights for other labels, no
    /// trainable parameters left.
    pub(super) fn new(
        parameters: &mut Parameters,
        arguments: &TrainerArguments,
        data: &PreparedData,
    ) -> Result<Self, TrainerError> {
        let layers = layers(parameters);
        if arguments.freeze_layers > layers {
            return Err(TrainerError::arguments(format!(
                "`freeze_layers` = {}, and the model has {layers} layers",
                arguments.freeze_layers
            )));
        }
        for pattern in &arguments.freeze {
            if !parameters.iter().any(|parameter| matches(pattern, parameter)) {
                let first = parameters
                    .iter()
                    .map(|parameter| parameter.name.as_str())
                    .find(|name| name.contains(".0."));
                let known = format!(
                    "embeddings, layers.0 to layers.{}, body, head, and names as `{}`",
                    layers.max(1) - 1,
                    first.unwrap_or_default()
                );
                return Err(TrainerError::arguments(format!(
                    "`freeze` names `{pattern}`, which the model does not have; it has {known}"
                )));
            }
        }
        let first = Depth::Layer(arguments.freeze_layers);
        for parameter in parameters.iter_mut() {
            let frozen = arguments.freeze_layers > 0 && parameter.depth < first;
            let named = arguments.freeze.iter().any(|pattern| matches(pattern, parameter));
            let decay = arguments.layerwise_lr_decay;
            let is_buffer = parameter.role == Role::Buffer;
            parameter.rate = (!frozen && !named && !is_buffer)
                .then(|| learning_rate_factor(decay, parameter.depth, layers));
        }
        let adapters = if arguments.lora_r > 0 {
            Some(LoraAdapters::attach(parameters, arguments)?)
        } else {
            None
        };
        if parameters.iter().all(|parameter| parameter.rate.is_none()) {
            return Err(TrainerError::arguments("`freeze` leaves nothing to train"));
        }
        let frozen = |depth: Depth| {
            let mut here = parameters.iter().filter(|parameter| parameter.depth == depth);
            here.all(|parameter| parameter.rate.is_none())
        };
        let frozen_layers = if frozen(Depth::Embeddings) {
            (0..layers).take_while(|layer| frozen(Depth::Layer(*layer))).count()
        } else {
            0
        };
        Ok(Self {
            frozen_layers,
            adapters,
            class_weights: class_weights(arguments, data).map_err(TrainerError::arguments)?,
        })
    }

    /// The values of a model with freshly initialised adapters.
    pub(super) fn begin(
        &self,
        parameters: &Parameters,
        own: Values,
        seed: u64,
        device: &Device,
    ) -> Values {
        match &self.adapters {
            Some(adapters) => adapters.begin(parameters, own, seed, device),
            None => own,
        }
    }

    /// The values with adapters merged.
    pub(super) fn merged(&self, values: &Values) -> Values {
        self.adapters.as_ref().map_or_else(|| values.clone(), |adapters| adapters.merged(values))
    }

    /// Class weights and the total weight of a step's examples; `None` without class weights.
    pub(super) fn step_weight(
        &self,
        data: &PreparedData,
        examples: impl Iterator<Item = usize>,
    ) -> Option<(&[f32], f64)> {
        let weights = self.class_weights.as_deref()?;
        let rows = data.split(Split::Train);
        let weight = |row: usize| weights.get(rows.label(row)).copied().map_or(0.0, f64::from);
        Some((weights, examples.map(weight).sum()))
    }
}

/// The number of parameters and of trainable ones, for the log.
pub(super) fn summary(parameters: &Parameters) -> String {
    let (all, learnt) = (parameters.count(), parameters.trainable().count());
    if learnt == all {
        return format!("{all} parameters");
    }
    let share = 100.0 * real(learnt) / real(all);
    format!("{all} parameters, of which {learnt} are trained ({share:.2} %)")
}

/// Number of layers.
fn layers(parameters: &Parameters) -> usize {
    let number = |parameter: &Parameter| {
        if let Depth::Layer(layer) = parameter.depth { layer + 1 } else { 0 }
    };
    parameters.iter().map(number).max().unwrap_or(0)
}

/// The factor on the learning rate at a depth: 1 above the layers, times `decay` for each layer
/// below (as in BEiT and timm, Bao et al. 2021).
fn learning_rate_factor(decay: f64, depth: Depth, layers: usize) -> f64 {
    let below = match depth {
        Depth::Embeddings => layers + 1,
        Depth::Layer(layer) => layers - layer,
        Depth::Top => 0,
    };
    decay.powi(i32::try_from(below).unwrap_or(i32::MAX))
}

/// Whether a pattern of `freeze` matches a parameter.
fn matches(pattern: &str, parameter: &Parameter) -> bool {
    match pattern {
        "embeddings" => return parameter.depth == Depth::Embeddings,
        "body" => return parameter.part == ModelPart::Body,
        "head" => return parameter.part != ModelPart::Body,
        _ => {}
    }
    if let Some(layers) = pattern.strip_prefix("layers.") {
        let (first, last) = layers.split_once('-').unwrap_or((layers, layers));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            return matches!(
                parameter.depth,
                Depth::Layer(layer) if (first..=last).contains(&layer)
            );
        }
    }
    if pattern.contains('*') {
        return pattern::matches(pattern, &parameter.name);
    }
    format!(".{}.", parameter.name).contains(&format!(".{pattern}."))
}

/// The weight of each label, as scikit-learn's `compute_class_weight("balanced")` or as given.
fn class_weights(
    arguments: &TrainerArguments,
    data: &PreparedData,
) -> Result<Option<Vec<f32>>, String> {
    let labels = data.labels();
    match &arguments.class_weights {
        None => Ok(None),
        Some(ClassWeights::Balanced) => {
            Ok(Some(balanced(&data.label_counts(Split::Train)).into_iter().map(as_f32).collect()))
        }
        Some(ClassWeights::Given(weights)) if weights.len() == labels.len() => {
            Ok(Some(weights.iter().copied().map(as_f32).collect()))
        }
        Some(ClassWeights::Given(weights)) => {
            let known: Vec<String> =
                labels.iter().take(5).map(|label| format!("`{label}`")).collect();
            let more = if labels.len() > known.len() {
                format!(" and {} more", labels.len() - known.len())
            } else {
                String::new()
            };
            Err(format!(
                "`class_weights` are {}, and the data has {} labels: {}{more}, in this order",
                weights.len(),
                labels.len(),
                known.join(", ")
            ))
        }
    }
}

/// Weights inversely proportional to the counts of the labels: rows / (labels * count).
pub(super) fn balanced(counts: &[usize]) -> Vec<f64> {
    let [rows, labels] = [counts.iter().sum(), counts.len()].map(real);
    counts.iter().map(|count| rows / (labels * real((*count).max(1)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fall_from_the_head_to_the_embeddings() {
        let rates = [Depth::Top, Depth::Layer(1), Depth::Layer(0), Depth::Embeddings]
            .map(|depth| learning_rate_factor(0.5, depth, 2));
        assert_eq!(rates, [1.0, 0.5, 0.25, 0.125]);
    }
}
