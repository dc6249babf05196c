//! What of a model a run trains, and how strongly: frozen parts, rates by layer, low-rank adapters, weights of labels.

use burn::tensor::Device;

use super::adapters::Adapters;
use super::parameters::{Depth, Parameter, Parameters, Part, Role, Values};
use super::task::task;
use super::{Finding, PreparedData, Split, TrainerError};
use crate::arguments::{ClassWeights, TrainerArguments};

/// How a model is tuned, besides the marks that its parameters carry.
#[derive(Debug, Clone, Default)]
pub(super) struct Tuning {
    /// First layers that are frozen, the embeddings with them. They run without dropout: what they say of a text is always the same.
    pub(super) frozen_layers: usize,
    pub(super) adapters: Option<Adapters>,
    /// What rows of each label weigh, where they do not weigh the same.
    pub(super) label_weights: Option<Vec<f32>>,
}

impl Tuning {
    /// Marks what is frozen and what learns more slowly, and adds adapters to the list.
    ///
    /// # Errors
    /// Names that fit nothing, more layers than there are, weights of other labels, nothing left to train.
    pub(super) fn new(parameters: &mut Parameters, arguments: &TrainerArguments, data: &PreparedData) -> Result<Self, TrainerError> {
        let wrong = |message: String| TrainerError::Arguments { message };
        let layers = layers(parameters);
        if arguments.freeze_layers > layers {
            return Err(wrong(format!("`freeze_layers` = {}, and the model has {layers} layers", arguments.freeze_layers)));
        }
        for pattern in &arguments.freeze {
            if !parameters.iter().any(|parameter| names(pattern, parameter)) {
                let first = parameters.iter().map(|parameter| parameter.name.as_str()).find(|name| name.contains(".0."));
                let known = format!("embeddings, layers.0 to layers.{}, body, head, and names as `{}`", layers.max(1) - 1, first.unwrap_or_default());
                return Err(wrong(format!("`freeze` names `{pattern}`, which the model does not have; it has {known}")));
            }
        }
        let first = Depth::Layer(arguments.freeze_layers);
        for parameter in parameters.iter_mut() {
            let frozen = arguments.freeze_layers > 0 && parameter.depth < first;
            let named = arguments.freeze.iter().any(|pattern| names(pattern, parameter));
            parameter.rate = (!frozen && !named).then(|| rate(arguments.layerwise_lr_decay, parameter.depth, layers));
        }
        let adapters = if arguments.lora_r > 0 { Some(Adapters::attach(parameters, arguments)?) } else { None };
        if parameters.iter().all(|parameter| parameter.rate.is_none()) {
            return Err(wrong("`freeze` leaves nothing to train".to_owned()));
        }
        let frozen = |depth: Depth| parameters.iter().filter(|parameter| parameter.depth == depth).all(|parameter| parameter.rate.is_none());
        let frozen_layers = if frozen(Depth::Embeddings) { (0..layers).take_while(|layer| frozen(Depth::Layer(*layer))).count() } else { 0 };
        Ok(Self { frozen_layers, adapters, label_weights: label_weights(arguments, data).map_err(wrong)? })
    }

    /// A model's own values with those of fresh adapters.
    pub(super) fn begin(&self, parameters: &Parameters, own: Values, seed: u64, device: &Device) -> Values {
        match &self.adapters {
            Some(adapters) => adapters.begin(parameters, own, seed, device),
            None => own,
        }
    }

    /// The values of an ordinary model that does the same as this one.
    pub(super) fn merged(&self, values: &Values) -> Values {
        self.adapters.as_ref().map_or_else(|| values.clone(), |adapters| adapters.merged(values))
    }

    /// What a step's examples weigh together; `None`: each weighs the same.
    pub(super) fn step_weight(&self, data: &PreparedData, examples: impl Iterator<Item = usize>) -> Option<(&[f32], f64)> {
        let weights = self.label_weights.as_deref()?;
        let rows = data.split(Split::Train);
        let weight = |row: usize| weights.get(rows.label(row)).copied().map_or(0.0, f64::from);
        Some((weights, examples.map(weight).sum()))
    }
}

/// Whether a model can be tuned as arguments say, on these data: a note of what is trained where it is not everything.
///
/// # Errors
/// Names that fit nothing in the model, weights of other labels than the data's.
pub fn fits(arguments: &TrainerArguments, data: &PreparedData) -> Result<Option<Finding>, TrainerError> {
    let mut model = task(arguments.task).model(&arguments.model, data)?;
    let all = model.parameters().count();
    Tuning::new(model.parameters_mut(), arguments, data)?;
    let parameters = model.parameters();
    Ok((parameters.learnt().count() < all).then(|| Finding::note("trained", summary(parameters))))
}

/// What is said of a model's size at the beginning of a run.
pub(super) fn summary(parameters: &Parameters) -> String {
    let (all, learnt) = (parameters.count(), parameters.learnt().count());
    if learnt == all {
        return format!("{all} parameters");
    }
    #[expect(clippy::cast_precision_loss, reason = "a share to show")]
    let share = 100.0 * learnt as f64 / all as f64;
    format!("{all} parameters, of which {learnt} are trained ({share:.2} %)")
}

/// How many layers there are.
fn layers(parameters: &Parameters) -> usize {
    let number = |parameter: &Parameter| if let Depth::Layer(layer) = parameter.depth { layer + 1 } else { 0 };
    parameters.iter().map(number).max().unwrap_or(0)
}

/// The share of the learning rate at a depth: 1 above the layers, a factor less for each layer below (as BEiT's and timm's layer decay,
/// Bao et al. 2021).
fn rate(decay: f64, depth: Depth, layers: usize) -> f64 {
    let below = match depth {
        Depth::Embeddings => layers + 1,
        Depth::Layer(layer) => layers - layer,
        Depth::Top => 0,
    };
    decay.powi(i32::try_from(below).unwrap_or(i32::MAX))
}

/// Whether a pattern of `freeze` means a parameter.
fn names(pattern: &str, parameter: &Parameter) -> bool {
    match pattern {
        "embeddings" => return parameter.depth == Depth::Embeddings,
        "body" => return parameter.part == Part::Body,
        "head" => return parameter.part != Part::Body,
        _ => {}
    }
    if let Some(layers) = pattern.strip_prefix("layers.") {
        let (first, last) = layers.split_once('-').unwrap_or((layers, layers));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            return matches!(parameter.depth, Depth::Layer(layer) if (first..=last).contains(&layer));
        }
    }
    if pattern.contains('*') {
        return is_like(pattern, &parameter.name);
    }
    format!(".{}.", parameter.name).contains(&format!(".{pattern}."))
}

/// Whether `name` is `pattern` with some text for each `*`.
fn is_like(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(left) = name.strip_prefix(first) else { return false };
    (0..=left.len()).any(|skipped| left.get(skipped..).is_some_and(|left| is_like(rest, left)))
}

/// The weight of each label, as scikit-learn's `compute_class_weight("balanced")` or as given.
fn label_weights(arguments: &TrainerArguments, data: &PreparedData) -> Result<Option<Vec<f32>>, String> {
    let labels = data.labels();
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let singles = |weights: Vec<f64>| weights.into_iter().map(|weight| weight as f32).collect();
    match &arguments.class_weights {
        None => Ok(None),
        Some(ClassWeights::Balanced) => Ok(Some(singles(balanced(&data.label_counts(Split::Train))))),
        Some(ClassWeights::Given(weights)) if weights.len() == labels.len() => Ok(Some(singles(weights.clone()))),
        Some(ClassWeights::Given(weights)) => {
            let known: Vec<String> = labels.iter().take(5).map(|label| format!("`{label}`")).collect();
            let more = if labels.len() > known.len() { format!(" and {} more", labels.len() - known.len()) } else { String::new() };
            Err(format!("`class_weights` are {}, and the data has {} labels: {}{more}, in this order", weights.len(), labels.len(), known.join(", ")))
        }
    }
}

/// Rows by labels and rows of each label: all rows over labels times rows of the label.
pub(super) fn balanced(counts: &[usize]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "row counts")]
    let [rows, labels] = [counts.iter().sum::<usize>() as f64, counts.len() as f64];
    #[expect(clippy::cast_precision_loss, reason = "row counts")]
    let weight = |count: &usize| rows / (labels * (*count).max(1) as f64);
    counts.iter().map(weight).collect()
}

/// Whether a parameter is a linear map of the body, which an adapter may stand beside.
pub(super) fn is_map(parameter: &Parameter) -> bool {
    parameter.part == Part::Body && matches!(parameter.role, Role::Weight | Role::Kernel { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_letters() {
        for (pattern, name, fitting) in [
            ("*.attention.*", "encoder.layer.0.attention.query.weight", true),
            ("encoder*bias", "encoder.layer.0.attention.query.bias", true),
            ("encoder*bias", "encoder.layer.0.attention.query.weight", false),
            ("*", "anything", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("*é*", "encodér", true),
        ] {
            assert_eq!(is_like(pattern, name), fitting, "{pattern} {name}");
        }
    }

    #[test]
    fn rates_fall_from_the_head_to_the_embeddings() {
        let rates = [Depth::Top, Depth::Layer(1), Depth::Layer(0), Depth::Embeddings].map(|depth| rate(0.5, depth, 2));
        assert_eq!(rates, [1.0, 0.5, 0.25, 0.125]);
    }
}
