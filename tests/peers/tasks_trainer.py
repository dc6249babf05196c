"""Fine-tunes a model for the trainer's tasks with transformers' Trainer, and evaluates what hpsearch exported, on what tasks_data.py made.

    tests/peers/tasks.sh runs this; by itself: python tests/peers/tasks_trainer.py train|evaluate TASK DATA MODEL
    python tests/peers/tasks_trainer.py begin written|summaries DATA MODEL writes a small T5 with random weights and its tokenizer to MODEL.

Prints a line of JSON with the metrics of the validation rows, named as hpsearch names them. Metrics are those of seqeval, scikit-learn, sacrebleu and rouge-score.
"""
import json
import os
import re
import string
import sys
from pathlib import Path

import numpy as np
import sacrebleu
import torch
from rouge_score.rouge_scorer import RougeScorer
from seqeval.metrics import accuracy_score, f1_score
from sklearn.metrics import matthews_corrcoef
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (AutoModel, AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer,
                          DataCollatorForLanguageModeling, DataCollatorForTokenClassification, DataCollatorForSeq2Seq, DataCollatorWithPadding,
                          PreTrainedTokenizerFast, Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration, Trainer,
                          TrainingArguments, set_seed)

LENGTH = 64
SEED = int(os.environ.get("SEED", "0"))
WRITES = {"written": ("description", "command", 64), "summaries": ("document", "summary", 128)}
WRITTEN = dict(num_train_epochs=6, learning_rate=2e-3, per_device_train_batch_size=32, warmup_steps=200)
ANSWERS = {"max_length": 128, "doc_stride": 32, "max_answer_length": 40}
ANSWERED = dict(num_train_epochs=3, learning_rate=3e-4)
ARGUMENTS = dict(num_train_epochs=2, learning_rate=1e-4, per_device_train_batch_size=32, per_device_eval_batch_size=64, weight_decay=0.01,
                 report_to=[], logging_steps=50, save_strategy="no", seed=SEED, use_cpu=True)


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


def answers(data, verb, model, tokenizer):
    """As run_qa.py and utils_qa.py do it, with a threshold of 0 for no answer; scores of SQuAD 2.0 by words and without articles."""
    parts = {part: rows(data, "answers", part) for part in ("train", "valid")}

    def windows(part):
        texts = parts[part]
        return tokenizer([row["question"].lstrip() for row in texts], [row["context"] for row in texts], truncation="only_second",
                         max_length=ANSWERS["max_length"], stride=ANSWERS["doc_stride"], return_overflowing_tokens=True,
                         return_offsets_mapping=True)

    def examples(part):
        encoded, found = windows(part), []
        for number, ids in enumerate(encoded["input_ids"]):
            row, offsets, sequences = parts[part][encoded["overflow_to_sample_mapping"][number]], encoded["offset_mapping"][number], encoded.sequence_ids(number)
            places = [index for index, sequence in enumerate(sequences) if sequence == 1]
            start = end = 0
            if row["answers"]["text"]:
                begin = row["answers"]["answer_start"][0]
                stop = begin + len(row["answers"]["text"][0])
                if offsets[places[0]][0] <= begin and offsets[places[-1]][1] >= stop:
                    start = max(index for index in places if offsets[index][0] <= begin)
                    end = min(index for index in places if offsets[index][1] >= stop)
            found.append({"input_ids": ids, "token_type_ids": encoded["token_type_ids"][number], "attention_mask": encoded["attention_mask"][number],
                          "start_positions": start, "end_positions": end})
        return encoded, Rows(found)

    encoded, valid = examples("valid")
    network = AutoModelForQuestionAnswering.from_pretrained(model)
    trainer = Trainer(network, TrainingArguments("/tmp/tasks_trainer", **{**ARGUMENTS, **ANSWERED}, label_names=["start_positions", "end_positions"]),
                      data_collator=DataCollatorWithPadding(tokenizer), train_dataset=examples("train")[1], eval_dataset=valid)
    if verb == "train":
        trainer.train()
    output = trainer.predict(valid)
    best, null = {}, {}
    for number, (starts, ends) in enumerate(zip(*output.predictions)):
        question, offsets, sequences = encoded["overflow_to_sample_mapping"][number], encoded["offset_mapping"][number], encoded.sequence_ids(number)
        null[question] = min(null.get(question, np.inf), starts[0] + ends[0])
        inside = [index for index, sequence in enumerate(sequences) if sequence == 1]
        for start in sorted(inside, key=lambda index: -starts[index])[:20]:
            for end in sorted(inside, key=lambda index: -ends[index])[:20]:
                if start <= end < start + ANSWERS["max_answer_length"] and starts[start] + ends[end] > best.get(question, (-np.inf,))[0]:
                    best[question] = (starts[start] + ends[end], offsets[start][0], offsets[end][1])

    def normal(text):
        text = re.sub(r"\b(a|an|the)\b", " ", "".join(c for c in text.lower() if c not in string.punctuation))
        return " ".join(text.split())

    exact = 0
    for question, row in enumerate(parts["valid"]):
        score, begin, end = best[question]
        given = "" if null[question] > score else row["context"][begin:end]
        right = [normal(text) for text in row["answers"]["text"]] or [""]
        exact += normal(given) in right
    return {"eval_loss": output.metrics["test_loss"], "eval_exact_match": exact / len(parts["valid"])}


def begin(data, task, model):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    texts = [text for row in rows(data, task, "train") for text in row.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=2_000, special_tokens=["<pad>", "</s>"], initial_alphabet=alphabet))
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>").save_pretrained(model)
    config = T5Config(vocab_size=2_000, d_model=128, d_kv=32, d_ff=512, num_layers=2, num_heads=4, dropout_rate=0.1, pad_token_id=0,
                      eos_token_id=1, decoder_start_token_id=0)
    T5ForConditionalGeneration(config).save_pretrained(model)


def written(data, verb, task, model, tokenizer):
    source, target, length = WRITES[task]
    network = AutoModelForSeq2SeqLM.from_pretrained(model)

    def examples(part):
        encode = lambda row: {**tokenizer(row[source], truncation=True, max_length=length),
                              "labels": tokenizer(row[target], truncation=True, max_length=LENGTH)["input_ids"]}
        return Rows([encode(row) for row in rows(data, task, part)])

    def score(prediction):
        texts = tokenizer.batch_decode(np.where(prediction.predictions == -100, 0, prediction.predictions), skip_special_tokens=True)
        right = [row[target] for row in rows(data, task, "valid")]
        rouge = [RougeScorer(["rouge1", "rougeL"]).score(one, text) for text, one in zip(texts, right)]
        return {"bleu": sacrebleu.corpus_bleu(texts, [right]).score, "chrf": sacrebleu.corpus_chrf(texts, [right]).score,
                **{name: float(np.mean([score[name].fmeasure for score in rouge])) for name in rouge[0]},
                "exact_match": float(np.mean([text == one for text, one in zip(texts, right)]))}

    arguments = Seq2SeqTrainingArguments("/tmp/tasks_trainer", **{**ARGUMENTS, **WRITTEN}, predict_with_generate=True, generation_max_length=LENGTH)
    trainer = Seq2SeqTrainer(network, arguments, data_collator=DataCollatorForSeq2Seq(tokenizer, network), train_dataset=examples("train"),
                             eval_dataset=examples("valid"), compute_metrics=score)
    if verb == "train":
        trainer.train()
    return trainer.evaluate()


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
    if verb == "begin":
        begin(data, task, model)
        return
    set_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(model)
    if task in WRITES:
        print(json.dumps({name: round(value, 6) for name, value in written(data, verb, task, model, tokenizer).items()}))
        return
    if task == "answers":
        print(json.dumps({name: round(value, 6) for name, value in answers(data, verb, model, tokenizer).items()}))
        return
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
