"""Whether a directory that hpsearch exported means the same to transformers: loads it there and compares what both say.

    .venv/bin/python tests/peers/exported_check.py path/to/hpsearch DIR "some text" "another text"

Classifiers: the probabilities of every label (`hpsearch predict --json --top-k 1000`). Language models: the tokens written
without chance (`hpsearch generate --temperature 0`). Token classifiers: entities and their scores; masked language models: the
likeliest tokens of a mask, which each text needs; models of similar texts: vectors; models with an encoder and a decoder: what
they write greedily and with four beams. Models that answer questions: answers and their
scores; the last text is the context of the others.
"""
import json
import subprocess
import sys

import torch
from transformers import (AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForQuestionAnswering,
                          AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer)

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


def predicted(program, directory, texts, *options):
    said = subprocess.run([program, "predict", directory, "--json", *options, *texts], capture_output=True, text=True, check=True)
    return json.loads(said.stdout)["predictions"]


def entities(program, directory, texts):
    """Of texts without punctuation, whose words stand between spaces."""
    model, tokenizer = AutoModelForTokenClassification.from_pretrained(directory, trust_remote_code=True).eval(), AutoTokenizer.from_pretrained(directory)
    worst, same = 0.0, True
    for text, own in zip(texts, predicted(program, directory, texts)):
        words = text.split()
        encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        numbers = encoded.word_ids()
        with torch.no_grad():
            scores = model(**encoded).logits[0].softmax(-1)
        theirs, last = [], None
        for number, word in enumerate(words):
            score, label = scores[numbers.index(number)].max(-1)
            kind = model.config.id2label[label.item()]
            if kind != "O":
                if kind.startswith("I-") and last == kind[2:]:
                    theirs[-1][1].append(word), theirs[-1][2].append(score.item())
                else:
                    theirs.append((kind[2:], [word], [score.item()]))
            last = None if kind == "O" else kind[2:]
        mine = [(entity["entity_group"], entity["word"]) for entity in own["entities"]]
        same &= mine == [(kind, " ".join(parts)) for kind, parts, _ in theirs]
        worst = max([worst] + [abs(entity["score"] - sum(found) / len(found)) for entity, (_, _, found) in zip(own["entities"], theirs)])
        print(f"{text!r}: {mine}")
    print(f"greatest difference of a score: {worst:.2e}")
    return same and worst < 1e-4


def answers(program, directory, texts):
    """Of contexts that fit one window."""
    model, tokenizer = AutoModelForQuestionAnswering.from_pretrained(directory, trust_remote_code=True).eval(), AutoTokenizer.from_pretrained(directory)
    *questions, context = texts
    worst, same = 0.0, True
    for question, own in zip(questions, predicted(program, directory, questions, "--text-pair", context)):
        encoded = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
        offsets, inside = encoded.pop("offset_mapping")[0].tolist(), [number == 1 for number in encoded.sequence_ids(0)]
        with torch.no_grad():
            output = model(**encoded)
        kept = torch.tensor([True] + inside[1:])
        starts, ends = (logits[0].masked_fill(~kept, -1e9).softmax(0) for logits in (output.start_logits, output.end_logits))
        best = max(((starts[a] * ends[b]).item(), a, b) for a in range(len(inside)) for b in range(a, min(len(inside), a + 30)) if inside[a] and inside[b])
        own_parameters = (getattr(model.config, "task_specific_params", None) or {}).get("question-answering", {})
        if own_parameters.get("handle_impossible_answer") and (starts[0] * ends[0]).item() > best[0]:
            theirs = ("", (starts[0] * ends[0]).item())
        else:
            theirs = (context[offsets[best[1]][0]:offsets[best[2]][1]], best[0])
        same &= own["answer"] == theirs[0]
        worst = max(worst, abs(own["score"] - theirs[1]))
        print(f"{question!r}: hpsearch {own['answer']!r} {own['score']:.6f}, transformers {theirs}")
    print(f"greatest difference of a score: {worst:.2e}")
    return same and worst < 1e-4


def masks(program, directory, texts):
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(directory, trust_remote_code=True).eval(), AutoTokenizer.from_pretrained(directory)
    worst, same = 0.0, True
    for text, own in zip(texts, predicted(program, directory, texts, "--top-k", "5")):
        encoded = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            scores = model(**encoded).logits[0, (encoded.input_ids[0] == tokenizer.mask_token_id).nonzero()[0, 0]].softmax(-1)
        best = scores.topk(5)
        mine = [token["token"] for token in own["masks"][0]]
        same &= mine == [tokenizer.decode([token]).strip() for token in best.indices.tolist()]
        worst = max([worst] + [abs(token["score"] - score) for token, score in zip(own["masks"][0], best.values.tolist())])
        print(f"{text!r}: {mine}")
    print(f"greatest difference of a score: {worst:.2e}")
    return same and worst < 1e-4


def vectors(program, directory, texts):
    model, tokenizer = AutoModel.from_pretrained(directory, trust_remote_code=True).eval(), AutoTokenizer.from_pretrained(directory)
    worst = 0.0
    for text, own in zip(texts, predicted(program, directory, texts)):
        with torch.no_grad():
            theirs = torch.nn.functional.normalize(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0), dim=0)
        worst = max(worst, (torch.tensor(own["vector"]) - theirs).abs().max().item())
    print(f"greatest difference of a number: {worst:.2e}")
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


def translator(program, directory, texts):
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(directory).eval(), AutoTokenizer.from_pretrained(directory)
    same = True
    for beams in (1, 4):
        for text, own in zip(texts, predicted(program, directory, texts, "--num-beams", str(beams), "--max-new-tokens", "30")):
            with torch.no_grad():
                written = model.generate(**tokenizer(text, return_tensors="pt", return_token_type_ids=False), max_new_tokens=30, num_beams=beams, do_sample=False)
            theirs = tokenizer.decode(written[0], skip_special_tokens=True)
            print(f"{beams} beams, hpsearch {own['generated_text']!r}, transformers {theirs!r}")
            same &= own["generated_text"].strip() == theirs.strip()
    return same


def main():
    program, directory, *texts = sys.argv[1:]
    name = AutoConfig.from_pretrained(directory, trust_remote_code=True).architectures[0]
    kinds = {"ForConditionalGeneration": translator, "MTModel": translator, "CausalLM": writer, "LMHeadModel": writer, "ForTokenClassification": entities, "ForMaskedLM": masks, "ForQuestionAnswering": answers,
             "ForSequenceClassification": classifier, "Model": vectors}
    kind = next(kind for ending, kind in kinds.items() if name.endswith(ending))
    same = kind(program, directory, texts)
    print("the same" if same else "NOT the same")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
