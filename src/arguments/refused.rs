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

/// Arguments another part of the study file, or another verb, says.
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
    ("project", "`[study] name` and `tags` say it"),
    ("logging_dir", METRICS),
    ("report_to", METRICS),
    ("trackio_space_id", METRICS),
    ("trackio_bucket_id", METRICS),
    ("trackio_static_space_id", METRICS),
    ("no_cuda", "`[devices] use` says it"),
    ("use_cpu", "`[devices] use` says it"),
    ("use_mps_device", "`[devices] use` says it"),
    ("train_file", "`[data] train` says it"),
    ("validation_file", "`[data] validation` says it"),
    ("test_file", "`[data] test` says it"),
    ("dataset_text_field", "`[data] text` says it"),
    ("max_seq_length", "`[data] max_length` says it"),
    ("max_length", "`[data] max_length` says it"),
    ("num_labels", "the labels of the training data say it"),
    ("tokenizer_name", "the directory of `model` holds its tokenizer"),
    ("config_name", "the directory of `model` holds its config.json"),
    ("do_train", "a trial always trains"),
    ("do_eval", "a trial always evaluates; `eval_strategy` says when"),
    ("do_predict", "`hpsearch predict` does it after the search"),
    ("predict_with_generate", "`hpsearch generate` writes texts with an exported model"),
    ("generation_max_length", "`hpsearch generate --max-new-tokens` says it"),
    ("generation_num_beams", "`hpsearch generate` samples; it has no beams"),
    ("generation_config", "options of `hpsearch generate` say it"),
    ("push_to_hub", UPLOAD),
    ("hub_model_id", UPLOAD),
    ("hub_strategy", UPLOAD),
    ("hub_token", UPLOAD),
    ("hub_private_repo", UPLOAD),
    ("hub_always_push", UPLOAD),
    ("hub_revision", UPLOAD),
    ("push_to_hub_model_id", UPLOAD),
    ("push_to_hub_organization", UPLOAD),
    ("push_to_hub_token", UPLOAD),
    ("adafactor", "`optim` names the optimiser; `adafactor` is not among them"),
    ("optim_args", "`momentum`, `adam_beta1`, `adam_beta2` and `adam_epsilon` say it"),
];

const METRICS: &str = "metrics go to the store: see `hpsearch trials --json` and `hpsearch watch`";
const UPLOAD: &str = "nothing is uploaded: `hpsearch export` writes a directory that `hf upload` takes";

/// Arguments that mean nothing here, with the reason.
const WITHOUT_MEANING: &[(&str, &str)] = &[
    ("gradient_checkpointing_kwargs", "computing layers again takes no settings"),
    ("activation_checkpointing_kwargs", "computing layers again takes no settings"),
    ("use_peft", "`lora_r` above 0 asks for adapters"),
    ("modules_to_save", "the head is trained whole beside LoRA adapters"),
    ("dataloader_num_workers", LOADED),
    ("dataloader_pin_memory", LOADED),
    ("dataloader_prefetch_factor", LOADED),
    ("dataloader_persistent_workers", LOADED),
    ("dataloader_multiprocessing_context", LOADED),
    ("dataloader_in_order", LOADED),
    ("dispatch_batches", LOADED),
    ("split_batches", LOADED),
    ("packing", "a language model reads the texts as one stream of tokens, without padding"),
    ("length_column_name", "the lengths of tokenised rows are known"),
    ("remove_unused_columns", "`[data] text` and `label` name the columns that are read"),
    ("label_names", "`[data] label` names the column of labels"),
    ("ignore_data_skip", "going on from a checkpoint takes no time, and is exact"),
    ("restore_callback_states_from_checkpoint", "a checkpoint holds what early stopping and the schedule remember"),
    ("enable_jit_checkpoint", "a trial that is told to leave always saves first"),
    ("save_safetensors", "checkpoints are always safetensors"),
    ("past_index", "no model here hands anything from one batch to the next"),
    ("use_cache", "training keeps no keys and values, and `hpsearch generate` always does"),
    ("eval_accumulation_steps", KEPT),
    ("eval_do_concat_batches", KEPT),
    ("eval_use_gather_object", KEPT),
    ("batch_eval_metrics", KEPT),
    ("include_for_metrics", TASK_METRICS),
    ("include_inputs_for_metrics", TASK_METRICS),
    ("prediction_loss_only", TASK_METRICS),
    ("include_num_input_tokens_seen", COUNTED),
    ("include_tokens_per_second", COUNTED),
    ("torch_empty_cache_steps", "memory is used again from step to step"),
    ("torch_compile", FUSED),
    ("torch_compile_backend", FUSED),
    ("torch_compile_mode", FUSED),
    ("torchdynamo", FUSED),
    ("use_liger_kernel", FUSED),
    ("liger_kernel_config", FUSED),
    ("use_ipex", FUSED),
    ("jit_mode_eval", FUSED),
    ("deepspeed", ONE_DEVICE),
    ("fsdp", ONE_DEVICE),
    ("fsdp_config", ONE_DEVICE),
    ("fsdp_min_num_params", ONE_DEVICE),
    ("fsdp_transformer_layer_cls_to_wrap", ONE_DEVICE),
    ("sharded_ddp", ONE_DEVICE),
    ("num_processes", ONE_DEVICE),
    ("ddp_backend", ONE_DEVICE),
    ("ddp_find_unused_parameters", ONE_DEVICE),
    ("ddp_bucket_cap_mb", ONE_DEVICE),
    ("ddp_broadcast_buffers", ONE_DEVICE),
    ("ddp_static_graph", ONE_DEVICE),
    ("ddp_timeout", ONE_DEVICE),
    ("local_rank", ONE_DEVICE),
    ("parallelism_config", ONE_DEVICE),
    ("accelerator_config", ONE_DEVICE),
    ("average_tokens_across_devices", ONE_DEVICE),
    ("log_on_each_node", ONE_DEVICE),
    ("save_on_each_node", ONE_DEVICE),
    ("log_level_replica", ONE_DEVICE),
    ("ray_scope", "hpsearch searches itself"),
    ("logging_nan_inf_filter", "a loss that is not finite ends the trial, with the first layer that is to blame"),
    ("disable_tqdm", "`--plain` draws nothing"),
    ("log_level", "`-q` and `-v` say how much is told"),
    ("skip_memory_metrics", "`hpsearch watch` shows memory, and measuring it costs nothing"),
    ("debug", "`hpsearch train --overfit-one-batch` looks for mistakes"),
    ("cache_dir", "`model` names a directory"),
    ("model_revision", "`model` names a directory, or `name@revision`"),
    ("trust_remote_code", "no code of a model's is run"),
];

const LOADED: &str = "data is tokenised once and mapped into memory: nothing has to be loaded ahead";
const KEPT: &str = "evaluations keep no predictions";
const TASK_METRICS: &str = "a task's metrics are its own: `hpsearch list tasks`";
const COUNTED: &str = "`steps_per_second` is reported, and `[study] step = \"samples\"` counts rows";
const FUSED: &str = "operations are fused already";
const ONE_DEVICE: &str = "a trial runs on one device; `[devices]` says how many trials run beside each other";

/// Arguments that the trainer does not have, with what it does instead.
const NOT_HERE: &[(&str, &str)] = &[
    ("fp16_full_eval", EVALUATED),
    ("bf16_full_eval", EVALUATED),
    ("mixed_precision", "write `bf16 = true` or `fp16 = true`"),
    ("half_precision_backend", "leave it out: `bf16` and `fp16` need no choice of a backend"),
    ("fp16_backend", "leave it out: `bf16` and `fp16` need no choice of a backend"),
    ("fp16_opt_level", "leave it out: `fp16` is what apex calls O1"),
    ("tf32", "leave it out: GPUs take the quickest kernel, with TF32 or without; `bf16 = true` makes products of shorter numbers"),
    ("optim_target_modules", "leave it out: it is of optimisers that are not built (GaLore, APOLLO); `lora_r` trains few numbers, too"),
    ("neftune_noise_alpha", "leave it out: `model.dropout` is the noise there is"),
    ("use_dora", "leave it out: adapters are LoRA's, with `use_rslora` if wanted"),
    ("init_lora_weights", "leave it out: adapters begin as peft's do by default"),
];

const EVALUATED: &str = "leave it out: evaluations are made with single floats, as checkpoints and exports are";

/// Why `key` is not taken, if it is an argument of Hugging Face's trainer that is known and refused.
pub(super) fn problem(key: &str) -> Option<ArgumentProblem> {
    let of = |list: &[(&str, &'static str)]| list.iter().find(|(name, _)| *name == key).map(|(_, words)| *words);
    if let Some(instead) = of(SAID_ELSEWHERE) {
        return Some(ArgumentProblem::new(key, format!("`{key}` is not a trainer argument here")).with_help(instead));
    }
    if let Some(reason) = of(WITHOUT_MEANING) {
        return Some(ArgumentProblem::new(key, format!("`{key}` means nothing here")).with_help(format!("leave it out: {reason}")));
    }
    of(NOT_HERE).map(|instead| ArgumentProblem::new(key, format!("`{key}` is not supported")).with_help(instead))
}

/// What to do instead of giving an argument a value that Hugging Face's trainer takes and this one does not.
pub(super) fn instead_of(name: &str, value: &str) -> Option<&'static str> {
    if name != "optim" {
        return None;
    }
    let has = |words: &[&str]| words.iter().any(|word| value.contains(word));
    match value {
        "adamw_apex_fused" | "adamw_torch_xla" | "adamw_torch_npu_fused" | "adamw_anyprecision" => Some("`adamw` is the same rule"),
        _ if value.contains("adamw") && has(&["8bit", "4bit", "bnb", "paged"]) => Some("`adamw` is the same rule, with its state in single floats"),
        _ if has(&[
            "adafactor",
            "lion",
            "ademamix",
            "adagrad",
            "rmsprop",
            "galore",
            "apollo",
            "lomo",
            "schedule_free",
            "grokadamw",
            "stable_adamw",
        ]) =>
        {
            Some("it is not built; `adamw` is transformers' default, too")
        }
        _ => None,
    }
}
