//! The arguments that may change while a model trains, when it continues from a checkpoint.

/// They change neither the model's shape, nor the order of its data, nor the optimiser's state.
pub const CHANGEABLE: &[&str] = &[
    "learning_rate",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "momentum",
    "lr_scheduler_type",
    "lr_scheduler_kwargs.num_cycles",
    "lr_scheduler_kwargs.min_lr",
    "lr_scheduler_kwargs.min_lr_rate",
    "lr_scheduler_kwargs.min_lr_ratio",
    "lr_scheduler_kwargs.lr_end",
    "lr_scheduler_kwargs.power",
    "lr_scheduler_kwargs.timescale",
    "warmup_steps",
    "warmup_ratio",
    "label_smoothing_factor",
    "layerwise_lr_decay",
    "lora_dropout",
    "model.dropout",
    "model.attention_dropout",
    "model.classifier_dropout",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::ARGUMENTS;

    #[test]
    fn each_is_an_argument_of_the_trainer() {
        for name in CHANGEABLE {
            assert!(ARGUMENTS.iter().any(|argument| argument.name == *name), "{name}");
        }
    }
}
