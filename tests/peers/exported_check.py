"""Whether a directory that hpsearch exported means the same to transformers: loads it there and compares what both say.

    .venv/bin/python tests/peers/exported_check.py path/to/hpsearch DIR "some text" "another text"

Classifiers: the probabilities of every label (`hpsearch predict --json --top-k 1000`). Language models: the tokens written
without chance (`hpsearch generate --temperature 0`).
"""
import json
import subprocess
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

torch.set_num_threads(1)


def classifier(program, directory, texts):
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=True).eval(), AutoTokenizer.from_pretrained(directory)
    said = subprocess.run([program, "predict", directory, "--json", "--top-k", "1000", *texts], capture_output=True, text=True, check=True)
    worst = 0.0
    for text, own in zip(texts, json.loads(said.stdout)["predictions"]):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
        kind = model.config.problem_type
        scores = logits if kind == "regression" else logits.sigmoid() if kind == "multi_label_classification" else logits.softmax(0)
        theirs = {model.config.id2label[number]: score.item() for number, score in enumerate(scores)}
        worst = max([worst] + [abs(theirs[label["label"]] - label["score"]) for label in own["labels"]])
        print(f"{text!r}: hpsearch {own['labels'][0]}, transformers {max(theirs, key=theirs.get)} {max(theirs.values()):.6f}")
    print(f"greatest difference of a score: {worst:.2e}")
    return worst < 1e-4


def writer(program, directory, texts):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(directory).eval(), AutoTokenizer.from_pretrained(directory)
    same = True
    for text in texts:
        said = subprocess.run([program, "generate", directory, text, "--temperature", "0", "--max-new-tokens", "60"], capture_output=True, text=True,
                              check=True).stdout.rstrip("\n")
        with torch.no_grad():
            written = model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=60, do_sample=False, pad_token_id=0)
        theirs = tokenizer.decode(written[0], skip_special_tokens=True).rstrip("\n")
        print(f"hpsearch:     {said!r}\ntransformers: {theirs!r}")
        same &= said.strip() == theirs.strip()
    return same


def main():
    program, directory, *texts = sys.argv[1:]
    kind = writer if "CausalLM" in str(AutoConfig.from_pretrained(directory, trust_remote_code=True).architectures) or "LMHead" in str(
        AutoConfig.from_pretrained(directory, trust_remote_code=True).architectures) else classifier
    same = kind(program, directory, texts)
    print("the same" if same else "NOT the same")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
