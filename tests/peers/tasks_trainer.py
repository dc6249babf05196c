"""Fine-tunes a model for the trainer's tasks with transformers' Trainer, and evaluates what hpsearch exported, on what tasks_data.py made.

    tests/peers/tasks.sh runs this; by itself: python tests/peers/tasks_trainer.py train|evaluate TASK DATA MODEL

Prints a line of JSON with the metrics of the validation rows, named as hpsearch names them. Metrics are seqeval's and scikit-learn's.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from seqeval.metrics import accuracy_score, f1_score
from sklearn.metrics import matthews_corrcoef
from transformers import (AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer,
                          DataCollatorForLanguageModeling, DataCollatorForTokenClassification, DataCollatorWithPadding, Trainer,
                          TrainingArguments, set_seed)

LENGTH = 64
ARGUMENTS = dict(num_train_epochs=2, learning_rate=1e-4, per_device_train_batch_size=32, per_device_eval_batch_size=64, weight_decay=0.01,
                 report_to=[], logging_steps=50, save_strategy="no", seed=0, use_cpu=True)


def rows(data, name, part):
    return [json.loads(line) for line in (Path(data) / f"{name}-{part}.jsonl").read_text().splitlines()]


class Rows(torch.utils.data.Dataset):
    def __init__(self, encoded):
        self.encoded = encoded

    def __len__(self):
        return len(self.encoded)

    def __getitem__(self, index):
        return self.encoded[index]


def tags(data, model, tokenizer):
    names = sorted({tag for row in rows(data, "tags", "train") for tag in row["ner_tags"]})

    def encode(row):
        encoded = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=LENGTH)
        words, labels = encoded.word_ids(), []
        for index, word in enumerate(words):
            first = word is not None and (index == 0 or words[index - 1] != word)
            labels.append(names.index(row["ner_tags"][word]) if first else -100)
        return {**encoded, "labels": labels}

    def score(prediction):
        best = prediction.predictions.argmax(-1)
        pairs = [([names[t] for t in truth if t != -100], [names[g] for g, t in zip(given, truth) if t != -100])
                 for given, truth in zip(best, prediction.label_ids)]
        truth, given = zip(*pairs)
        return {"f1": f1_score(truth, given), "accuracy": accuracy_score(truth, given)}

    network = AutoModelForTokenClassification.from_pretrained(model, num_labels=len(names), id2label=dict(enumerate(names)),
                                                              label2id={name: index for index, name in enumerate(names)})
    return network, encode, DataCollatorForTokenClassification(tokenizer), score


def pairs(data, model, tokenizer):
    names = ["match", "other"]

    def encode(row):
        encoded = tokenizer(row["description"], row["command"], truncation=True, max_length=LENGTH)
        return {**encoded, "labels": names.index(row["label"])}

    def score(prediction):
        best = prediction.predictions.argmax(-1)
        return {"accuracy": float((best == prediction.label_ids).mean()),
                "matthews_correlation": matthews_corrcoef(prediction.label_ids, best)}

    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=2, id2label=dict(enumerate(names)),
                                                                 label2id={name: index for index, name in enumerate(names)})
    return network, encode, DataCollatorWithPadding(tokenizer), score


def texts(data, model, tokenizer):
    def encode(row):
        return dict(tokenizer(row["text"], truncation=True, max_length=LENGTH))

    return AutoModelForMaskedLM.from_pretrained(model), encode, DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15), None


def similar(data, model, tokenizer):
    """How often the nearest command among 128 is a description's own, by a model's mean vectors."""
    network = AutoModel.from_pretrained(model).eval()

    def vectors(all_texts):
        found = []
        for start in range(0, len(all_texts), 64):
            batch = tokenizer(all_texts[start:start + 64], padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
            with torch.no_grad():
                x = network(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None].float()
            found.append(torch.nn.functional.normalize((x * mask).sum(1) / mask.sum(1)))
        return torch.cat(found)

    valid = rows(data, "similar", "valid")
    first, second = vectors([row["description"] for row in valid]), vectors([row["command"] for row in valid])
    right = 0
    for start in range(0, len(valid), 128):
        cosines = first[start:start + 128] @ second[start:start + 128].T
        right += (cosines.diagonal() >= cosines.max(1).values).sum().item()
    return {"eval_accuracy": right / len(valid)}


def main():
    verb, task, data, model = sys.argv[1:5]
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model)
    if task == "similar":
        print(json.dumps(similar(data, model, tokenizer)))
        return
    network, encode, collator, score = {"tags": tags, "pairs": pairs, "texts": texts}[task](data, model, tokenizer)
    train, valid = (Rows([encode(row) for row in rows(data, task, part)]) for part in ("train", "valid"))
    trainer = Trainer(network, TrainingArguments("/tmp/tasks_trainer", **ARGUMENTS), data_collator=collator, train_dataset=train,
                      eval_dataset=valid, compute_metrics=score)
    if verb == "train":
        trainer.train()
    metrics = trainer.evaluate()
    print(json.dumps({name: float(np.round(value, 6)) for name, value in metrics.items()}))


if __name__ == "__main__":
    main()
