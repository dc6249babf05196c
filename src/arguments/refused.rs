//! Hugging Face training arguments that are known but not taken here, each with the reason: never ignored silently. And older names that are taken.

use super::table::ArgumentProblem;

/// Names that transformers has given up, and what it writes today.
const OLDER: &[(&str, &str)] = &[
    ("evaluation_strategy", "eval_strategy"),
    ("warmup_ratio", "warmup_steps, which takes a share of all steps below 1"),
    ("per_gpu_train_batch_size", "per_device_train_batch_size"),
    ("per_gpu_eval_batch_size", "per_device_eval_batch_size"),
];

/// Today's name for an argument that is taken under an older one, too.
#[must_use]
pub fn newer_name(key: &str) -> Option<&'static str> {
    OLDER.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// Arguments another part of the study file says.
const SAID_ELSEWHERE: &[(&str, &str)] = &[
    ("output_dir", "`[checkpoints] dir` says where checkpoints go"),
    ("overwrite_output_dir", "`[checkpoints] dir` says where checkpoints go"),
    ("seed", "`[study] seed` says it, for the search and every trial"),
    ("data_seed", "`[data] seed` says it for splits, `[study] seed` for the order of rows"),
    ("full_determinism", "trials on the CPU always repeat bit for bit; `[study] deterministic` says it for the search"),
    ("save_total_limit", "`[checkpoints] keep` says it, for example `keep = \"best-3\"`"),
    ("save_strategy", "a checkpoint is written at every evaluation; `[checkpoints] keep` says which stay"),
    ("save_steps", "a checkpoint is written at every evaluation: set `eval_steps`"),
    ("save_only_model", "`[checkpoints] keep` says it"),
    ("load_best_model_at_end", "`[study] value = \"best\"` (the default) or `\"last\"` says it"),
    ("metric_for_best_model", "`[study] metric` says it"),
    ("greater_is_better", "`[study] direction` says it"),
    ("resume_from_checkpoint", "running the same study again resumes it"),
    ("group_by_length", "`train_sampling_strategy = \"group_by_length\"` says it, as in transformers 5"),
    ("run_name", "`[study] name` says it"),
    ("logging_dir", "metrics go to the store: see `hpsearch trials --json` and `hpsearch watch`"),
    ("report_to", "metrics go to the store: see `hpsearch trials --json` and `hpsearch watch`"),
    ("no_cuda", "`[devices] use` says it"),
    ("use_cpu", "`[devices] use` says it"),
    ("train_file", "`[data] train` says it"),
    ("validation_file", "`[data] validation` says it"),
    ("test_file", "`[data] test` says it"),
    ("max_seq_length", "`[data] max_length` says it"),
    ("max_length", "`[data] max_length` says it"),
    ("num_labels", "the labels of the training data say it"),
    ("tokenizer_name", "the directory of `model` holds its tokenizer"),
    ("config_name", "the directory of `model` holds its config.json"),
    ("do_train", "a trial always trains"),
    ("do_eval", "a trial always evaluates; `eval_strategy` says when"),
    ("do_predict", "`hpsearch predict` does it after the search"),
];

/// Arguments that may come; until then they are refused.
const NOT_YET: &[&str] = &[
    "fp16",
    "bf16",
    "tf32",
    "fp16_full_eval",
    "bf16_full_eval",
    "half_precision_backend",
    "deepspeed",
    "fsdp",
    "fsdp_config",
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "push_to_hub",
    "hub_model_id",
    "hub_strategy",
    "hub_token",
    "gradient_checkpointing",
    "gradient_checkpointing_kwargs",
    "length_column_name",
    "neftune_noise_alpha",
    "optim_args",
    "optim_target_modules",
    "parallelism_config",
    "accelerator_config",
    "ddp_backend",
    "local_rank",
    "use_liger_kernel",
    "dataloader_num_workers",
    "dataloader_pin_memory",
    "eval_accumulation_steps",
    "include_for_metrics",
    "include_num_input_tokens_seen",
    "logging_nan_inf_filter",
    "log_level",
    "label_names",
    "remove_unused_columns",
    "past_index",
    "debug",
    "ignore_data_skip",
    "torch_empty_cache_steps",
    "batch_eval_metrics",
    "use_ipex",
    "jit_mode_eval",
    "average_tokens_across_devices",
    "prediction_loss_only",
    "disable_tqdm",
    "skip_memory_metrics",
    "adafactor",
    "cache_dir",
    "model_revision",
    "use_peft",
    "lora_r",
    "lora_alpha",
    "lora_dropout",
];

/// Why `key` is not taken, if it is an argument of Hugging Face's trainer that is known and refused.
pub(super) fn problem(key: &str) -> Option<ArgumentProblem> {
    if let Some((_, instead)) = SAID_ELSEWHERE.iter().find(|(name, _)| *name == key) {
        return Some(ArgumentProblem::new(key, format!("`{key}` is not a trainer argument here")).with_help(*instead));
    }
    NOT_YET
        .contains(&key)
        .then(|| ArgumentProblem::new(key, format!("`{key}` is not supported yet")).with_help("leave it out; it is refused rather than ignored"))
}
