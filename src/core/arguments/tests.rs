//! How arguments are resolved, rejected and suggested.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::study::field::FieldKind;

fn map(value: Value) -> BTreeMap<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn resolved(values: Value) -> TrainerArguments {
    TrainerArguments::resolve(&map(values)).unwrap()
}

/// The problems of arguments.
fn problems(values: Value) -> Vec<ArgumentProblem> {
    TrainerArguments::resolve(&map(values)).err().unwrap_or_default()
}

/// The keys of these problems.
fn keys(values: Value) -> Vec<String> {
    problems(values).into_iter().map(|problem| problem.key).collect()
}

#[test]
fn nothing_given_resolves_to_the_documented_defaults() {
    let arguments = TrainerArguments::resolve(&BTreeMap::new()).unwrap();
    assert_eq!(arguments.adam_epsilon, 1e-8);
    assert_eq!(arguments.num_train_epochs, 3.0);
    assert_eq!(arguments.model.from_scratch().intermediate_size, 512);
    for argument in ARGUMENTS {
        let default = argument.default.json();
        assert!(default.is_null() || argument.kind.check(&default).is_ok(), "{}", argument.name);
    }
}

#[test]
fn resolved_arguments_survive_being_stored() {
    let arguments = resolved(json!({"learning_rate": 0.1, "eval_steps": 7}));
    let stored = serde_json::to_string(&arguments).unwrap();
    assert_eq!(serde_json::from_str::<TrainerArguments>(&stored).unwrap(), arguments);
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems(json!({
        "learning_rte": 0.1, "weight_decay": "much", "model.dropout": 1.0, "output_dir": "x",
        "fp16_full_eval": true,
        "model.hidden_size": 65, "optim": "adam", "num_train_epochs": 0
    }));
    let keys: Vec<&str> = found.iter().map(|problem| problem.key.as_str()).collect();
    let expected = "fp16_full_eval learning_rte model.dropout num_train_epochs optim output_dir \
        weight_decay model.hidden_size";
    assert_eq!(keys, expected.split(' ').collect::<Vec<_>>());
    let message = |key: &str| found.iter().find(|problem| problem.key == key).unwrap().to_string();
    assert!(message("learning_rte").contains("did you mean `learning_rate`?"));
    assert!(message("output_dir").contains("[checkpoints] dir"));
    assert_eq!(
        message("fp16_full_eval"),
        "`fp16_full_eval` is not supported (leave it out: evaluations run in f32, and checkpoints \
         and exports are f32)"
    );
    assert!(message("optim").contains("did you mean \"adamw\""));
    assert!(message("model.hidden_size").contains("not divisible"));
    assert_eq!(
        message("model.dropout"),
        "`model.dropout` must be a number of at least 0 and below 1, not `1.0` (dropout (default: \
         0.1, or the pretrained model's value))"
    );
}

#[test]
fn whole_floats_are_integers_and_others_are_refused() {
    let arguments = resolved(json!({"per_device_train_batch_size": 16.0}));
    assert_eq!(arguments.per_device_train_batch_size, 16);
    for refused in [json!(16.5), json!(true)] {
        let key = "per_device_train_batch_size";
        assert_eq!(keys(json!({ key: refused })), [key]);
    }
}

#[test]
fn aliases_and_nested_tables_mean_the_dotted_name() {
    let arguments = resolved(json!({
        "num_hidden_layers": 3, "model": {"hidden_size": 64}, "optim": "adamw_torch"
    }));
    assert_eq!((arguments.model.num_layers, arguments.model.hidden_size), (Some(3), Some(64)));
    assert_eq!(arguments.optim, Optim::AdamW);
    let twice = problems(json!({"num_hidden_layers": 3, "model.num_layers": 2}));
    assert!(twice[0].message.contains("same argument"));
}

#[test]
fn defaults_of_the_model_follow_the_task() {
    let of = |task: &str| resolved(json!({"task": task})).model;
    let (classifier, language) = (of("text-classification"), of("language-modeling"));
    assert_eq!(
        (classifier.tokenizer, classifier.lowercase, classifier.pooling),
        (Some(TokenizerKind::WordPiece), Some(true), Some(Pooling::Mean))
    );
    assert_eq!(
        (language.tokenizer, language.lowercase, language.pooling),
        (Some(TokenizerKind::Bpe), Some(false), None)
    );
    assert_eq!((classifier.tie_word_embeddings, language.tie_word_embeddings), (None, Some(true)));
    assert_eq!(
        TaskKind::of(&map(json!({"task": "language-modeling"}))),
        TaskKind::LanguageModeling
    );
    assert_eq!(TaskKind::of(&map(json!({"task": "tasks"}))), TaskKind::TextClassification);
}

#[test]
fn arguments_of_another_task_are_refused() {
    let refused = |values: Value| problems(values)[0].to_string();
    assert_eq!(
        refused(json!({"task": "language-modeling", "model.pooling": "cls"})),
        "`model.pooling` belongs to the task `text-classification`, and this is \
         `language-modeling` (leave it out)"
    );
    assert!(
        refused(json!({"tie_word_embeddings": true}))
            .contains("belongs to the task `language-modeling`")
    );
    assert!(
        refused(json!({"model.tokenizer": "chars"}))
            .contains("it takes \"wordpiece\", \"bpe\", \"word\"")
    );
    assert!(
        refused(json!({
            "task": "language-modeling", "model.tokenizer": "bytes", "model.vocab_size": 100,
        }))
        .contains("at least 257")
    );
    let data = |values: Value, task: TaskKind| -> Vec<String> {
        DataArguments::misfits(&map(values), task).into_iter().map(|problem| problem.key).collect()
    };
    assert_eq!(
        data(json!({"train": "a.txt", "label": "x"}), TaskKind::TextClassification),
        ["train"]
    );
    assert_eq!(
        data(json!({"train": "a.txt", "label": "x", "stratify": true}), TaskKind::LanguageModeling),
        ["label", "stratify"]
    );
    let pairs = || json!({"train": "a.csv", "text_pair": "b", "label_all_tokens": true});
    assert_eq!(data(pairs(), TaskKind::TextRegression), ["label_all_tokens"]);
    assert_eq!(data(pairs(), TaskKind::TokenClassification), ["text_pair"]);
    let none = ["label_all_tokens", "text_pair"];
    assert_eq!(data(pairs(), TaskKind::MaskedLanguageModeling), none);
    assert!(data(json!({"train": "a.txt"}), TaskKind::MaskedLanguageModeling).is_empty());
    let asked = || json!({"train": "a.jsonl", "question": "q", "doc_stride": 8});
    assert!(data(asked(), TaskKind::QuestionAnswering).is_empty());
    assert_eq!(data(asked(), TaskKind::TextClassification), ["question", "doc_stride"]);
    let named = json!({"train": "a.jsonl", "text": "q", "label": "a", "stratify": false});
    assert_eq!(data(named, TaskKind::QuestionAnswering), ["text", "label", "stratify"]);
    assert_eq!(data(json!({"train": "a.txt"}), TaskKind::QuestionAnswering), ["train"]);
    let similar = TaskKind::SentenceSimilarity;
    assert_eq!(data(json!({"train": "a.csv"}), similar), ["text_pair"]);
    let labelled = json!({"train": "a.csv", "text_pair": "b", "label": "c", "score": "d"});
    assert_eq!(data(labelled.clone(), similar), ["label"]);
    assert_eq!(data(labelled, TaskKind::TextClassification), ["score"]);
    for (task, key, value) in [
        ("sentence-similarity", "model.pooling", json!("cls")),
        ("sentence-similarity", "model.classifier_dropout", json!(0.1)),
        ("token-classification", "model.pooling", json!("cls")),
        ("token-classification", "whole_word_mask", json!(true)),
        ("text-classification", "mlm_probability", json!(0.2)),
        ("masked-language-modeling", "model.classifier_dropout", json!(0.1)),
        ("masked-language-modeling", "class_weights", json!("balanced")),
        ("masked-language-modeling", "model.num_kv_heads", json!(2)),
        ("token-classification", "class_weights", json!("balanced")),
    ] {
        assert_eq!(keys(json!({"task": task, key: value})), [key], "{task}");
    }
}

#[test]
fn the_columns_of_a_row_are_different_ones() {
    let problems = |values: Value| -> Vec<String> {
        let problems = DataArguments::resolve(&map(values)).unwrap_err();
        problems.iter().map(|problem| problem.message.clone()).collect()
    };
    assert_eq!(
        problems(json!({"train": "a.csv", "text": "x", "label": "x"})),
        ["`text` and `label` are the same column `x`"]
    );
    assert_eq!(
        problems(json!({"train": "a.csv", "text_pair": "text"})),
        ["`text` and `text_pair` are the same column `text`"]
    );
    assert_eq!(
        problems(json!({"train": "a.csv", "text_pair": "b", "column_names": ["text", "label"]})),
        ["`text_pair` is the column `b`, which is not among `column_names`"]
    );
}

#[test]
fn a_schedule_that_ends_above_nothing_says_where() {
    assert_eq!(keys(json!({"lr_scheduler_type": "cosine_with_min_lr"})), ["lr_scheduler_type"]);
    assert_eq!(
        keys(json!({"lr_scheduler_kwargs": {"min_lr": 1e-5}})),
        ["lr_scheduler_kwargs.min_lr"]
    );
    let both = json!({
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr": 1e-5, "min_lr_rate": 0.1},
    });
    assert_eq!(keys(both), ["lr_scheduler_kwargs.min_lr_rate"]);
}

#[test]
fn warm_up_is_steps_or_a_share() {
    for good in [json!(0), json!(0.1), json!(100), json!(100.0)] {
        assert!(check_values("warmup_steps", &[good]).is_empty());
    }
    assert_eq!(check_values("warmup_steps", &[json!(1.5), json!(-1)]).len(), 2);
}

#[test]
fn a_dimension_is_checked_before_any_value_is_drawn() {
    assert_eq!(check_key("num_attention_heads").unwrap(), FieldKind::Integer { min: 1, max: 256 });
    assert!(check_key("hidden_size").unwrap_err().to_string().contains("`model.hidden_size`"));
    assert!(check_key("seed").unwrap_err().to_string().contains("[study] seed"));
    assert_eq!(check_values("model.dropout", &[json!(0.0), json!(1.5)]).len(), 1);
    assert_eq!(check_values("optim", &[json!("sgd"), json!("adam")]).len(), 1);
}

#[test]
fn a_missing_validation_file_means_a_tenth_is_held_out() {
    let arguments = DataArguments::resolve(&map(json!({"train": "a.csv"}))).unwrap();
    assert_eq!(arguments.validation_split, Some(0.1));
    let arguments =
        DataArguments::resolve(&map(json!({"train": "a.csv", "validation": "b.csv"}))).unwrap();
    assert_eq!(arguments.validation_split, None);
}

#[test]
fn all_data_problems_are_reported_at_once() {
    let problems = DataArguments::resolve(&map(json!({
        "validation": "v.xls", "validation_split": 0.5, "test_split": 0.5, "text": "x",
        "label": "x", "cleen": true
    })))
    .unwrap_err();
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["cleen", "train", "validation", "validation_split", "test_split", "label"]);
}

#[test]
fn the_schema_nests_dotted_names() {
    let schema = table_schema(ARGUMENTS);
    assert_eq!(
        schema["properties"]["model"]["properties"]["dropout"]["exclusiveMaximum"],
        json!(1.0)
    );
    assert_eq!(schema["properties"]["learning_rate"]["default"], json!(1e-3));
}

#[test]
fn names_that_transformers_gave_up_are_taken_and_newer_ones_known() {
    for old in [
        "evaluation_strategy",
        "warmup_ratio",
        "per_gpu_train_batch_size",
        "per_gpu_eval_batch_size",
    ] {
        assert!(newer_name(old).is_some() && check_key(old).is_ok(), "{old}");
    }
    assert!(
        ARGUMENTS
            .iter()
            .all(|argument| newer_name(argument.name).is_none() || argument.name == "warmup_ratio")
    );
}

#[test]
fn a_schedule_takes_its_own_settings_and_no_others() {
    let of = |schedule: &str, settings: Value| -> Vec<String> {
        keys(json!({
            "lr_scheduler_type": schedule, "eval_strategy": "epoch",
            "lr_scheduler_kwargs": settings,
        }))
    };
    assert!(of("cosine_with_restarts", json!({"num_cycles": 3})).is_empty());
    assert!(of("reduce_lr_on_plateau", json!({"patience": 0, "min_lr": 0})).is_empty());
    assert_eq!(
        of("linear", json!({"num_cycles": 3, "power": 2})),
        ["lr_scheduler_kwargs.num_cycles", "lr_scheduler_kwargs.power"]
    );
    assert_eq!(of("warmup_stable_decay", json!({})), ["lr_scheduler_type"]);
    assert_eq!(of("polynomial", json!({"lr_end": 1})), ["lr_scheduler_kwargs.lr_end"]);
    assert_eq!(
        keys(json!({"lr_scheduler_type": "reduce_lr_on_plateau", "early_stopping_patience": 2})),
        ["eval_strategy", "early_stopping_patience"]
    );
}

#[test]
fn a_pretrained_model_says_its_own_shape_and_tokenizer() {
    let arguments = resolved(json!({"model": "/models/minilm", "model.dropout": 0.0}));
    assert_eq!(arguments.tokenizer(), TokenizerSource::Pretrained("/models/minilm".into()));
    assert_eq!(
        (arguments.learning_rate, arguments.model.dropout, arguments.model.attention_dropout),
        (5e-5, Some(0.0), None)
    );
    assert_eq!(
        (arguments.model.hidden_size, arguments.model.vocab_size, arguments.model.activation),
        (None, None, None)
    );
    let stored = serde_json::to_value(&arguments).unwrap();
    assert_eq!(serde_json::from_value::<TrainerArguments>(stored).unwrap(), arguments);

    let found = problems(json!({
        "model_name_or_path": "/models/minilm", "hidden_act": "relu", "model.tokenizer": "bpe",
    }));
    let found: Vec<_> =
        found.iter().map(|problem| (problem.key.as_str(), &problem.message)).collect();
    assert_eq!([found[0].0, found[1].0], ["hidden_act", "model.tokenizer"]);
    assert!(found[0].1.contains("is defined by the pretrained `model`"), "{}", found[0].1);
}

#[test]
fn a_model_of_another_kind_than_the_task_needs_is_refused_with_those_that_fit() {
    let problem = |values: Value| problems(values)[0].to_string();
    assert!(
        problem(json!({"model.model_type": "gpt2"}))
            .contains("it takes \"hpsearch-encoder\", \"modernbert\", \"bert\"")
    );
    assert!(
        problem(json!({"model.model_type": "bert", "model.pooling": "mean"}))
            .contains("by their first token")
    );
    assert!(
        problem(json!({"task": "text-regression", "label_smoothing_factor": 0.1}))
            .contains("does not apply to `text-regression`")
    );
}

#[test]
fn names_and_weights_are_lists_or_texts_with_commas_so_that_they_can_be_searched() {
    let one = resolved(json!({"freeze": "embeddings, layers.0-3", "class_weights": "1, 2.5"}));
    assert_eq!(
        one,
        resolved(json!({"freeze": ["embeddings", "layers.0-3"], "class_weight": [1, 2.5]}))
    );
    assert_eq!(one.class_weights, Some(ClassWeights::Given(vec![1.0, 2.5])));
    let none = resolved(
        json!({"freeze": "", "class_weights": "none", "lora_r": 0, "lora_target_modules": []}),
    );
    assert_eq!(
        (none.freeze.len(), none.class_weights, none.lora_target_modules.len()),
        (0, None, 0)
    );
    assert_eq!(
        resolved(json!({"class_weights": "balanced"})).class_weights,
        Some(ClassWeights::Balanced)
    );
    assert_eq!(
        check_values("class_weights", &[json!("balancd"), json!([1, 0]), json!([]), json!(3)])
            .len(),
        4
    );
    assert_eq!(check_values("freeze", &[json!(3), json!([1])]).len(), 2);
    assert!(check_values("lora_r", &[json!(0), json!(8)]).is_empty());
}

#[test]
fn how_a_model_is_tuned_survives_being_stored_and_given_again() {
    let arguments = resolved(json!({
        "freeze": "embeddings", "class_weights": [1, 2], "lora_r": 4,
        "lora_target_modules": "all-linear", "max_tokens": 4096,
        "gradient_checkpointing": true, "layer_decay": 0.9, "cache_frozen_features": false
    }));
    assert_eq!(
        (arguments.max_tokens_per_batch, arguments.per_device_train_batch_size),
        (Some(4096), 4096)
    );
    let stored = serde_json::to_value(&arguments).unwrap();
    assert_eq!(serde_json::from_value::<TrainerArguments>(stored.clone()).unwrap(), arguments);
    let given: BTreeMap<String, Value> = serde_json::from_value(stored).unwrap();
    let given = given
        .into_iter()
        .filter(|(name, value)| {
            !value.is_null() && name != "model" && name != "lr_scheduler_kwargs"
        })
        .collect();
    assert_eq!(TrainerArguments::resolve(&given).unwrap(), arguments);
    // Stored before these arguments existed.
    let mut older =
        serde_json::to_value(TrainerArguments::resolve(&BTreeMap::new()).unwrap()).unwrap();
    let newer = [
        "metric_for_best_model",
        "greater_is_better",
        "freeze",
        "freeze_layers",
        "layerwise_lr_decay",
        "lora_r",
        "lora_alpha",
        "class_weights",
        "max_tokens_per_batch",
        "cache_frozen_features",
    ];
    older.as_object_mut().unwrap().retain(|name, _| !newer.contains(&name.as_str()));
    assert_eq!(
        serde_json::from_value::<TrainerArguments>(older).unwrap(),
        TrainerArguments::resolve(&BTreeMap::new()).unwrap()
    );
}

#[test]
fn what_says_nothing_beside_the_rest_is_refused() {
    assert_eq!(keys(json!({"lora_alpha": 16, "use_rslora": true})), ["lora_alpha", "use_rslora"]);
    assert_eq!(keys(json!({"bf16": true, "fp16": true})), ["fp16"]);
    assert_eq!(
        keys(json!({"task": "text-regression", "class_weights": "balanced"})),
        ["class_weights"]
    );
    assert_eq!(
        keys(json!({"max_tokens_per_batch": 512, "dataloader_drop_last": true})),
        ["dataloader_drop_last"]
    );
    let reason = |key: &str| check_key(key).unwrap_err().to_string();
    assert_eq!(
        reason("torch_compile"),
        "`torch_compile` does not apply here (leave it out: operations are fused already)"
    );
    assert!(reason("use_peft").contains("`lora_r` above 0"));
}

#[test]
fn early_stopping_may_watch_another_metric_of_the_task() {
    let base = |more: Value| {
        let mut values = json!({"eval_strategy": "epoch", "early_stopping_patience": 2});
        values["task"] = "text-regression".into();
        values.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        values
    };
    let watched = |more: Value| resolved(base(more)).watched_metric();
    assert_eq!(watched(json!({})), None);
    for (name, more, greater) in [
        ("rmse", json!({}), false),
        ("eval_pearson", json!({}), true),
        ("loss", json!({"greater_is_better": true}), true),
    ] {
        let mut more = more;
        more["metric_for_best_model"] = name.into();
        let metric = format!("eval_{}", name.trim_start_matches("eval_"));
        assert_eq!(watched(more), Some((metric, greater)));
    }
    let refused =
        |values: Value| TrainerArguments::resolve(&map(values)).unwrap_err().remove(0).to_string();
    let said = refused(base(json!({"metric_for_best_model": "pearsn"})));
    assert!(
        said.contains("no `eval_pearsn`") && said.contains("did you mean `eval_pearson`?"),
        "{said}"
    );
    let said = refused(base(json!({"metric_for_best_model": "accuracy"})));
    assert!(said.contains("evaluations of `text-regression` have no `eval_accuracy`"), "{said}");
    let plateau = json!({
        "lr_scheduler_type": "reduce_lr_on_plateau", "eval_strategy": "epoch",
        "metric_for_best_model": "accuracy",
    });
    assert_eq!(resolved(plateau).watched_metric(), Some(("eval_accuracy".to_owned(), true)));
    let said = refused(json!({"metric_for_best_model": "accuracy"}));
    assert!(said.contains("`early_stopping_patience` is absent"), "{said}");
    assert!(said.contains("the best checkpoint is that of `[study] metric`"), "{said}");
    let said = refused(base(json!({"greater_is_better": false})));
    assert!(said.contains("says nothing without `metric_for_best_model`"), "{said}");
}

/// The fields of `transformers.TrainingArguments` 5.23, and from `overwrite_output_dir` on those of
/// versions before that scripts still give.
const FIELDS: &str = "\
    output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate \
    lr_scheduler_type warmup_steps optim optim_args weight_decay adam_beta1 adam_beta2 \
    adam_epsilon optim_target_modules gradient_accumulation_steps average_tokens_across_devices \
    max_grad_norm label_smoothing_factor bf16 fp16 bf16_full_eval fp16_full_eval tf32 \
    activation_checkpointing activation_checkpointing_kwargs gradient_checkpointing \
    gradient_checkpointing_kwargs torch_compile torch_compile_backend torch_compile_mode \
    use_liger_kernel liger_kernel_config use_cache neftune_noise_alpha torch_empty_cache_steps \
    auto_find_batch_size logging_strategy logging_steps logging_first_step log_on_each_node \
    logging_nan_inf_filter include_num_input_tokens_seen log_level log_level_replica disable_tqdm \
    report_to run_name project trackio_space_id trackio_bucket_id trackio_static_space_id \
    eval_strategy eval_steps eval_delay per_device_eval_batch_size prediction_loss_only \
    eval_on_start eval_do_concat_batches eval_use_gather_object eval_accumulation_steps \
    include_for_metrics batch_eval_metrics save_only_model save_strategy save_steps \
    save_on_each_node save_total_limit enable_jit_checkpoint push_to_hub hub_token \
    hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision \
    load_best_model_at_end metric_for_best_model greater_is_better ignore_data_skip \
    restore_callback_states_from_checkpoint full_determinism seed data_seed use_cpu \
    accelerator_config parallelism_config dataloader_drop_last dataloader_num_workers \
    dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor \
    dataloader_multiprocessing_context dataloader_in_order remove_unused_columns label_names \
    train_sampling_strategy length_column_name ddp_find_unused_parameters ddp_bucket_cap_mb \
    ddp_broadcast_buffers ddp_static_graph ddp_backend ddp_timeout fsdp fsdp_config deepspeed \
    debug skip_memory_metrics do_train do_eval do_predict resume_from_checkpoint local_rank \
    overwrite_output_dir evaluation_strategy warmup_ratio per_gpu_train_batch_size \
    per_gpu_eval_batch_size logging_dir no_cuda use_mps_device use_ipex jit_mode_eval \
    fp16_backend fp16_opt_level half_precision_backend save_safetensors group_by_length adafactor \
    torchdynamo ray_scope fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap sharded_ddp \
    dispatch_batches split_batches include_inputs_for_metrics include_tokens_per_second \
    past_index push_to_hub_model_id push_to_hub_organization push_to_hub_token";

#[test]
fn every_training_argument_of_transformers_is_taken_or_refused_with_what_to_do() {
    for field in FIELDS.split_whitespace() {
        if let Err(problem) = check_key(field) {
            assert!(
                !problem.message.contains("unknown argument") && problem.help.is_some(),
                "{problem}"
            );
        }
    }
    for key in ["lr_scheduler_kwargs.power", "activation_checkpointing"] {
        assert_eq!(check_key(key).map(|_| ()), Ok(()));
    }
    assert!(resolved(json!({"activation_checkpointing": true})).gradient_checkpointing);
}

/// `transformers.training_args.OptimizerNames` of 5.23.
const OPTIMISERS: &str = "\
    adamw_torch adamw_torch_fused adamw_torch_xla adamw_torch_npu_fused adafactor \
    adamw_anyprecision adamw_torch_4bit adamw_torch_8bit ademamix sgd adagrad adamw_bnb_8bit \
    adamw_8bit ademamix_8bit lion_8bit lion_32bit paged_adamw_32bit paged_adamw_8bit \
    paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit paged_lion_8bit rmsprop rmsprop_bnb \
    rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw galore_adamw_8bit galore_adafactor \
    galore_adamw_layerwise galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo adalomo \
    grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd apollo_adamw \
    apollo_adamw_layerwise stable_adamw";

#[test]
fn a_schedule_free_optimiser_takes_no_schedule() {
    let optim = "schedule_free_adamw";
    let plain = resolved(json!({"optim": optim, "warmup_steps": 10}));
    assert_eq!(plain.lr_scheduler_type, SchedulerType::Constant);
    let refused =
        |values: Value| TrainerArguments::resolve(&map(values)).unwrap_err().remove(0).to_string();
    assert!(refused(json!({"optim": optim, "lr_scheduler_type": "cosine"})).contains("`cosine`"));
    assert!(refused(json!({"optim": optim, "ema_decay": 0.9})).contains("`ema_decay`"));
    assert!(refused(json!({"optim": optim, "adam_beta1": 0.0})).contains("`adam_beta1`"));
    assert!(resolved(json!({"ema_decay": 0.999})).averages_weights());
    assert!(refused(json!({"ema_decay": 1.0})).contains("`ema_decay`"));
}

#[test]
fn every_optimiser_of_transformers_is_taken_or_refused_with_what_to_do() {
    for name in OPTIMISERS.split_whitespace() {
        for problem in check_values("optim", &[json!(name)]) {
            assert_eq!(problem.message, format!("`optim` = \"{name}\" is not supported"));
        }
    }
    let help = |name: &str| check_values("optim", &[json!(name)]).remove(0).help.unwrap();
    assert_eq!(
        help("paged_adamw_8bit"),
        "`adamw` is the same rule, with its state in f32, and `adamw_8bit` in 8 bits"
    );
    assert_eq!(help("grokadamw"), "it is not implemented; `adamw` is also transformers' default");
    assert_eq!(help("paged_lion_8bit"), "`lion_32bit` is the same rule, with its state in f32");
    assert_eq!(help("rmsprop_bnb"), "`rmsprop` is the same rule, with its state in f32");
}

#[test]
fn functions_of_hugging_face_for_metrics_are_answered_with_where_metrics_are_listed() {
    let problem = check_key("compute_metrics").unwrap_err();
    assert!(problem.help.is_some_and(|help| help.contains("`hpsearch list tasks`")));
}
