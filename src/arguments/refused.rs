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

/// Arguments that mean nothing here, with the reason.
const WITHOUT_MEANING: &[(&str, &str)] = &[
    ("gradient_checkpointing_kwargs", "computing layers again takes no settings"),
    ("use_peft", "`lora_r` above 0 asks for adapters"),
    ("modules_to_save", "the head is trained whole beside LoRA adapters"),
    ("dataloader_num_workers", "data is tokenised once and mapped into memory: nothing has to be loaded ahead"),
    ("dataloader_pin_memory", "data is tokenised once and mapped into memory"),
    ("dataloader_prefetch_factor", "data is tokenised once and mapped into memory: nothing has to be loaded ahead"),
    ("dataloader_persistent_workers", "data is tokenised once and mapped into memory: nothing has to be loaded ahead"),
    ("length_column_name", "the lengths of tokenised rows are known"),
    ("remove_unused_columns", "`[data] text` and `label` name the columns that are read"),
    ("label_names", "`[data] label` names the column of labels"),
    ("ignore_data_skip", "going on from a checkpoint takes no time, and is exact"),
    ("past_index", "no model here hands anything from one batch to the next"),
    ("eval_accumulation_steps", "evaluations keep no predictions"),
    ("batch_eval_metrics", "evaluations keep no predictions"),
    ("include_for_metrics", "a task's metrics are its own: `hpsearch list tasks`"),
    ("prediction_loss_only", "a task's metrics are its own: `hpsearch list tasks`"),
    ("torch_empty_cache_steps", "memory is used again from step to step"),
    ("torch_compile", "operations are fused already"),
    ("torch_compile_backend", "operations are fused already"),
    ("torch_compile_mode", "operations are fused already"),
    ("use_liger_kernel", "operations are fused already"),
    ("use_ipex", "operations are fused already"),
    ("jit_mode_eval", "operations are fused already"),
    ("deepspeed", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("fsdp", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("fsdp_config", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("num_processes", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("ddp_backend", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("local_rank", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("parallelism_config", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("accelerator_config", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("average_tokens_across_devices", "a trial runs on one device; `[devices]` says how many trials run beside each other"),
    ("logging_nan_inf_filter", "a loss that is not finite ends the trial, with the first layer that is to blame"),
    ("disable_tqdm", "`--plain` draws nothing"),
    ("log_level", "`-q` and `-v` say how much is told"),
    ("skip_memory_metrics", "`hpsearch watch` shows memory, and measuring it costs nothing"),
    ("debug", "`hpsearch train --overfit-one-batch` looks for mistakes"),
    ("adafactor", "`optim` names the optimiser"),
    ("cache_dir", "`model` names a directory"),
    ("model_revision", "`model` names a directory"),
];

/// Arguments that may come; until then they are refused.
const NOT_YET: &[&str] = &[
    "fp16",
    "bf16",
    "tf32",
    "fp16_full_eval",
    "bf16_full_eval",
    "mixed_precision",
    "half_precision_backend",
    "push_to_hub",
    "hub_model_id",
    "hub_strategy",
    "hub_token",
    "neftune_noise_alpha",
    "optim_args",
    "include_num_input_tokens_seen",
];

/// Why `key` is not taken, if it is an argument of Hugging Face's trainer that is known and refused.
pub(super) fn problem(key: &str) -> Option<ArgumentProblem> {
    if let Some((_, instead)) = SAID_ELSEWHERE.iter().find(|(name, _)| *name == key) {
        return Some(ArgumentProblem::new(key, format!("`{key}` is not a trainer argument here")).with_help(*instead));
    }
    if let Some((_, reason)) = WITHOUT_MEANING.iter().find(|(name, _)| *name == key) {
        return Some(ArgumentProblem::new(key, format!("`{key}` means nothing here")).with_help(format!("leave it out: {reason}")));
    }
    NOT_YET
        .contains(&key)
        .then(|| ArgumentProblem::new(key, format!("`{key}` is not supported yet")).with_help("leave it out; it is refused rather than ignored"))
}
