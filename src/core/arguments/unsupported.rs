//! Names of Hugging Face training arguments that are not accepted, each with the reason, and
//! accepted names that are deprecated there.

use super::problem::ArgumentProblem;

/// Names that transformers has deprecated, and their replacements.
const DEPRECATED: &[(&str, &str)] = &[
    ("evaluation_strategy", "eval_strategy"),
    ("warmup_ratio", "warmup_steps, which takes a share of all steps below 1"),
    ("per_gpu_train_batch_size", "per_device_train_batch_size"),
    ("per_gpu_eval_batch_size", "per_device_eval_batch_size"),
];

/// The replacement of a deprecated name that is still accepted.
#[must_use]
pub fn newer_name(key: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// Arguments whose counterpart is another key of the study file, or another command: names,
/// separated by spaces, and what to use.
const ELSEWHERE: &[(&str, &str)] = &[
    ("output_dir overwrite_output_dir", "set `[checkpoints] dir`"),
    ("seed", "set `[study] seed`, for the search and every trial"),
    ("data_seed", "set `[data] seed` for splits, `[study] seed` for the order of rows"),
    (
        "full_determinism",
        "trials on the CPU always repeat bit for bit; set `[study] deterministic` for the search",
    ),
    ("save_total_limit", "set `[checkpoints] keep`, for example `keep = \"best-3\"`"),
    (
        "save_strategy",
        "a checkpoint is written at every evaluation; `[checkpoints] keep` decides which are kept",
    ),
    (
        "save_steps",
        "a checkpoint is written at every evaluation: set `eval_strategy = \"steps\"` and \
         `eval_steps`, which also takes a share of all steps below 1",
    ),
    ("save_only_model", "set `[checkpoints] keep`"),
    (
        "load_best_model_at_end",
        "`[study] value = \"best\"` (the default) exports the checkpoint that is best by `[study] \
         metric`, `\"last\"` the last one",
    ),
    ("metric", "set `[study] metric`; early stopping may watch another, `metric_for_best_model`"),
    ("resume_from_checkpoint", "running the same study again resumes it"),
    (
        "group_by_length",
        "set `train_sampling_strategy = \"group_by_length\"`, as in transformers 5",
    ),
    ("run_name", "set `[study] name`"),
    ("project", "set `[study] name` and `tags`"),
    (
        "logging_dir report_to trackio_space_id trackio_bucket_id trackio_static_space_id",
        "metrics go to the store; `[track] to` copies them to TensorBoard, W&B and MLflow",
    ),
    ("no_cuda use_cpu use_mps_device", "set `[devices] use`"),
    ("train_file", "set `[data] train`"),
    ("validation_file", "set `[data] validation`"),
    ("test_file", "set `[data] test`"),
    ("dataset_text_field", "set `[data] text`"),
    ("max_seq_length max_length seq_len sequence_length context_length", "set `[data] max_length`"),
    ("num_labels", "the labels of the training data determine it"),
    ("tokenizer_name", "the directory of `model` holds its tokenizer"),
    ("config_name", "the directory of `model` holds its config.json"),
    ("do_train", "a trial always trains"),
    ("do_eval", "a trial always evaluates; set `eval_strategy`"),
    ("do_predict", "`hpsearch predict` does it after the search"),
    ("predict_with_generate", "`hpsearch generate` writes texts with an exported model"),
    ("generation_max_length", "use `hpsearch generate --max-new-tokens`"),
    ("generation_num_beams", "`hpsearch generate` samples; it has no beams"),
    ("generation_config", "use the options of `hpsearch generate`"),
    (
        "push_to_hub hub_model_id hub_strategy hub_token hub_private_repo hub_always_push \
         hub_revision push_to_hub_model_id \
         push_to_hub_organization push_to_hub_token",
        "nothing is uploaded: `hpsearch export` writes a directory that `hf upload` takes",
    ),
    ("adafactor", "write `optim = \"adafactor\"`"),
    ("optim_args", "`momentum`, `adam_beta1`, `adam_beta2` and `adam_epsilon` replace it"),
];

/// Arguments without any effect here: names, and the reason.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    (
        "gradient_checkpointing_kwargs activation_checkpointing_kwargs",
        "recomputing activations takes no settings",
    ),
    ("use_peft", "`lora_r` above 0 asks for adapters"),
    ("modules_to_save", "the head is fully trained beside LoRA adapters"),
    (
        "dataloader_num_workers num_workers dataloader_pin_memory dataloader_prefetch_factor \
         dataloader_persistent_workers \
         dataloader_multiprocessing_context dataloader_in_order dispatch_batches split_batches",
        "data is tokenised once and memory-mapped: nothing has to be prefetched",
    ),
    ("packing", "a language model reads the texts as one stream of tokens, without padding"),
    ("length_column_name", "the lengths of tokenised rows are known"),
    ("remove_unused_columns", "`[data] text` and `label` name the columns that are read"),
    ("label_names", "`[data] label` names the column of labels"),
    ("ignore_data_skip", "resuming from a checkpoint takes no time, and is exact"),
    (
        "restore_callback_states_from_checkpoint",
        "a checkpoint holds the state of early stopping and the schedule",
    ),
    ("enable_jit_checkpoint", "a trial that is asked to stop always saves first"),
    ("save_safetensors", "checkpoints are always safetensors"),
    ("past_index", "no model here carries state from one batch to the next"),
    ("use_cache", "training keeps no keys and values, and `hpsearch generate` always does"),
    (
        "eval_accumulation_steps eval_do_concat_batches eval_use_gather_object batch_eval_metrics",
        "evaluations keep no predictions",
    ),
    (
        "compute_metrics include_for_metrics include_inputs_for_metrics prediction_loss_only",
        "a task's metrics are its own: `hpsearch list tasks`",
    ),
    (
        "include_num_input_tokens_seen include_tokens_per_second",
        "`steps_per_second` is reported, and `[study] step = \"samples\"` counts rows",
    ),
    ("torch_empty_cache_steps", "memory is reused from step to step"),
    (
        "torch_compile torch_compile_backend torch_compile_mode torchdynamo use_liger_kernel \
         liger_kernel_config use_ipex \
         jit_mode_eval",
        "operations are fused already",
    ),
    (
        "deepspeed fsdp fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap \
         sharded_ddp num_processes ddp_backend \
         ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph \
         ddp_timeout local_rank parallelism_config \
         accelerator_config average_tokens_across_devices log_on_each_node save_on_each_node \
         log_level_replica",
        "a trial runs on one device; set the number of concurrent trials in `[devices]`",
    ),
    ("ray_scope", "hpsearch searches itself"),
    (
        "logging_nan_inf_filter",
        "a loss that is not finite ends the trial, and the first non-finite parameter is named",
    ),
    ("disable_tqdm", "`--plain` draws nothing"),
    ("log_level", "use `-q` or `-v`"),
    ("skip_memory_metrics", "`hpsearch watch` shows memory, and measuring it costs nothing"),
    ("debug", "`hpsearch train --overfit-one-batch` finds mistakes"),
    ("cache_dir", "`model` names a directory"),
    ("model_revision", "`model` names a directory, or `name@revision`"),
    ("trust_remote_code", "code of a model is never run"),
];

/// Features that the trainer does not have: names, and the alternative.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "fp16_full_eval bf16_full_eval",
        "leave it out: evaluations run in f32, and checkpoints and exports are f32",
    ),
    (
        "mixed_precision precision amp half",
        "write `bf16 = true` or `fp16 = true`, or leave it out for f32",
    ),
    (
        "half_precision_backend fp16_backend",
        "leave it out: `bf16` and `fp16` need no choice of a backend",
    ),
    ("fp16_opt_level", "leave it out: `fp16` is what apex calls O1"),
    (
        "tf32",
        "leave it out: GPUs use the fastest kernel, with TF32 or without; `bf16 = true` \
         computes products in bf16",
    ),
    (
        "optim_target_modules",
        "leave it out: it belongs to optimisers that are not implemented (GaLore, APOLLO); \
         `lora_r` also trains few parameters",
    ),
    ("neftune_noise_alpha", "leave it out: `model.dropout` is the only noise"),
    ("use_dora dora", "leave it out: adapters are LoRA's, optionally with `use_rslora`"),
    ("init_lora_weights", "leave it out: adapters are initialised as peft's are by default"),
];

/// Why `key` is not accepted, if it is a known argument of Hugging Face's trainer.
pub(super) fn problem(key: &str) -> Option<ArgumentProblem> {
    let lists = [
        (ELSEWHERE, "is not a trainer argument here", ""),
        (NOT_APPLICABLE, "does not apply here", "leave it out: "),
        (UNSUPPORTED, "is not supported", ""),
    ];
    lists.into_iter().find_map(|(list, what, before)| {
        let (_, help) = list.iter().find(|(names, _)| names.split(' ').any(|name| name == key))?;
        let problem = ArgumentProblem::new(key, format!("`{key}` {what}"));
        Some(problem.with_help(format!("{before}{help}")))
    })
}

/// Words in the names of optimisers that are not implemented.
const NOT_IMPLEMENTED: &[&str] =
    &["ademamix", "adagrad", "galore", "apollo", "lomo", "grokadamw", "stable_adamw"];

/// The alternative to a value that Hugging Face's trainer accepts and this one does not.
pub(super) fn instead_of(name: &str, value: &str) -> Option<&'static str> {
    if name != "optim" {
        return None;
    }
    let has = |words: &[&str]| words.iter().any(|word| value.contains(word));
    match value {
        "adamw_apex_fused" | "adamw_torch_xla" | "adamw_torch_npu_fused" | "adamw_anyprecision" => {
            Some("`adamw` is the same rule")
        }
        _ if value.contains("adamw") && has(&["8bit", "4bit", "bnb", "paged"]) => {
            Some("`adamw` is the same rule, with its state in f32, and `adamw_8bit` in 8 bits")
        }
        _ if has(NOT_IMPLEMENTED) => {
            Some("it is not implemented; `adamw` is also transformers' default")
        }
        _ if has(&["schedule_free"]) => Some("it is not implemented; `schedule_free_adamw` is"),
        _ if has(&["lion"]) => Some("`lion_32bit` is the same rule, with its state in f32"),
        _ if has(&["rmsprop"]) => Some("`rmsprop` is the same rule, with its state in f32"),
        _ => None,
    }
}
