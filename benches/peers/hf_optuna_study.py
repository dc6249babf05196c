#!/usr/bin/env python3
"""The peer's side of the whole-study comparison: Optuna + Hugging Face Trainer.

Runs one hyperparameter study the way its users do today and prints one JSON line:
wall seconds, seconds inside training, trials by state, best validation metric, test accuracy of the
best trial, optimiser steps per second, and the process's peak memory. The search space is the one in
SPACE below; `study.py` beside this file runs the same study with hpsearch on the same rows, which
`--split-out DIR` writes as train.csv, validation.csv and test.csv (and then leaves, with --trials 0).

    python3 -m venv .venv && .venv/bin/pip install torch transformers accelerate optuna safetensors
    .venv/bin/python hf_optuna_study.py --model DIR --train banking77/train.csv --test banking77/test.csv \
        --trials 6 --epochs 3 --rows 2000 --threads 2

`--fixed '{"learning_rate": 5e-4, "per_device_train_batch_size": 32}' --trials 1` trains one configuration instead.

`--model` is a directory with config.json, model.safetensors and tokenizer.json.
`--pruner asha` uses Optuna's SuccessiveHalvingPruner, reporting once per epoch.
"""
import argparse, csv, json, os, random, resource, time

SPACE = {
    "learning_rate": ("float", 1e-5, 1e-3, True),
    "per_device_train_batch_size": ("choice", [16, 32, 64]),
    "weight_decay": ("float", 0.0, 0.3, False),
    "warmup_ratio": ("float", 0.0, 0.2, False),
}


def read(path, text, label):
    with open(path, newline="", encoding="utf-8") as f:
        return [(r[text], r[label]) for r in csv.DictReader(f)]


def split(a):
    train = read(a.train, a.text_column, a.label_column)
    test = read(a.test, a.text_column, a.label_column)
    labels = sorted({l for _, l in train + test})
    if a.validation:
        return train, read(a.validation, a.text_column, a.label_column), test, labels
    random.Random(a.seed).shuffle(train)
    if a.rows:
        train = train[: a.rows]
    n_valid = len(train) // 10
    # What is never trained cannot be predicted: rows of a label that only the held-out part has go to the training rows.
    valid, train = train[:n_valid], train[n_valid:]
    seen = {l for _, l in train}
    train += [r for r in valid if r[1] not in seen]
    valid = [r for r in valid if r[1] in seen]
    return train, valid, [r for r in test if r[1] in {l for _, l in train}], labels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--train", required=True)
    p.add_argument("--validation", help="else a tenth of the training rows")
    p.add_argument("--test", required=True)
    p.add_argument("--text-column", default="text")
    p.add_argument("--label-column", default="category")
    p.add_argument("--rows", type=int, default=0, help="training rows before the split, 0 = all")
    p.add_argument("--trials", type=int, default=6)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--max-length", type=int, default=64)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--sampler", choices=["tpe", "random"], default="tpe")
    p.add_argument("--fixed", type=json.loads, help="arguments as JSON instead of sampled ones, classifier_dropout among them")
    p.add_argument("--scheduler", default="linear", help="lr_scheduler_type")
    p.add_argument("--pruner", choices=["none", "asha"], default="none")
    p.add_argument("--group-by-length", action="store_true")
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--cuda", action="store_true")
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--out", default="peer_study")
    p.add_argument("--split-out", help="directory that the split is written to as CSV")
    a = p.parse_args()

    if a.split_out:
        train, valid, test, _ = split(a)
        os.makedirs(a.split_out, exist_ok=True)
        for name, rows in (("train", train), ("validation", valid), ("test", test)):
            with open(f"{a.split_out}/{name}.csv", "w", newline="", encoding="utf-8") as f:
                csv.writer(f).writerows([("text", "label"), *rows])
    if not a.trials:
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    start = time.time()
    import optuna, torch
    from transformers import (AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding,
                              Trainer, TrainerCallback, TrainingArguments, set_seed)
    torch.set_num_threads(a.threads)

    train, valid, test, labels = split(a)
    ids = {l: i for i, l in enumerate(labels)}
    tok = AutoTokenizer.from_pretrained(a.model)

    def encode(rows):
        enc = tok([t for t, _ in rows], truncation=True, max_length=a.max_length)
        return [dict(input_ids=x, attention_mask=m, labels=ids[l])
                for x, m, (_, l) in zip(enc["input_ids"], enc["attention_mask"], rows)]

    sets = {k: encode(v) for k, v in (("train", train), ("valid", valid), ("test", test))}
    collate = DataCollatorWithPadding(tok)
    stats = {"steps": 0, "train_s": 0.0}
    best = {"metric": -1.0, "test": None, "params": None}

    def accuracy(out):
        return {"accuracy": float((out.predictions.argmax(-1) == out.label_ids).mean())}

    def objective(trial):
        set_seed(a.seed + trial.number)
        if a.fixed:
            params = {"weight_decay": 0.0, "warmup_ratio": 0.0, "per_device_train_batch_size": 8, **a.fixed}
        else:
            params = {n: (trial.suggest_float(n, s[1], s[2], log=s[3]) if s[0] == "float"
                          else trial.suggest_categorical(n, s[1])) for n, s in SPACE.items()}
        steps = -(-len(train) // params["per_device_train_batch_size"]) * a.epochs
        model = AutoModelForSequenceClassification.from_pretrained(a.model, num_labels=len(labels), classifier_dropout=params.get("classifier_dropout"))

        class Report(TrainerCallback):
            def on_evaluate(self, args, state, control, metrics, **kw):
                trial.report(metrics["eval_accuracy"], int(round(state.epoch)))
                if trial.should_prune():
                    raise optuna.TrialPruned()

        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=f"{a.out}/run-{trial.number}", num_train_epochs=a.epochs, learning_rate=params["learning_rate"],
                per_device_train_batch_size=params["per_device_train_batch_size"], per_device_eval_batch_size=128,
                lr_scheduler_type=a.scheduler, weight_decay=params["weight_decay"], warmup_steps=int(params["warmup_ratio"] * steps),
                eval_strategy="epoch", save_strategy="epoch", save_total_limit=1, load_best_model_at_end=True,
                metric_for_best_model="accuracy", logging_steps=50, report_to=[], use_cpu=not a.cuda, bf16=a.bf16,
                train_sampling_strategy="group_by_length" if a.group_by_length else "random",
                disable_tqdm=True, seed=a.seed + trial.number),
            train_dataset=sets["train"], eval_dataset=sets["valid"], data_collator=collate, compute_metrics=accuracy,
            callbacks=[Report()])
        t = time.time()
        try:
            trainer.train()
        finally:
            stats["train_s"] += time.time() - t
            stats["steps"] += trainer.state.global_step
        value = trainer.evaluate()["eval_accuracy"]
        if value > best["metric"]:
            best.update(metric=value, params=params, test=trainer.predict(sets["test"]).metrics["test_accuracy"])
        return value

    sampler = optuna.samplers.TPESampler(seed=a.seed) if a.sampler == "tpe" else optuna.samplers.RandomSampler(seed=a.seed)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3) if a.pruner == "asha" else optuna.pruners.NopPruner()
    os.makedirs(a.out, exist_ok=True)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner, storage=f"sqlite:///{a.out}/study-{os.getpid()}.db")
    study.optimize(objective, n_trials=a.trials)
    states = {}
    for t in study.trials:
        states[t.state.name] = states.get(t.state.name, 0) + 1
    print(json.dumps({"peer": f"optuna {optuna.__version__} + transformers Trainer", "trials": states,
                      "wall_s": round(time.time() - start, 2), "train_s": round(stats["train_s"], 2),
                      "steps": stats["steps"], "steps_per_s": round(stats["steps"] / max(stats["train_s"], 1e-9), 3),
                      "processor_s": round(time.process_time(), 1),
                      "history": [[round(t.datetime_complete.timestamp() - start, 1), t.value] for t in study.trials if t.state.name == "COMPLETE"],
                      "points": [t.params for t in study.trials], "values": [t.value for t in study.trials],
                      "best_valid": best["metric"], "best_test": best["test"], "best_params": best["params"],
                      "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
