"""Makes src/trainer/tests/golden/answers.json: questions and contexts as transformers' tokenizers cut them into windows, answers that
transformers' script finds in logits, and what SQuAD 2.0's metric counts.

    python3 -m venv .venv && .venv/bin/pip install transformers==5.24.0 numpy tqdm
    .venv/bin/python tests/peers/answers_golden.py SCRIPTS src/trainer/tests/golden/answers.json

SCRIPTS is a directory with `utils_qa.py` (examples/pytorch/question-answering of huggingface/transformers) and `compute_score.py`
(metrics/squad_v2 of huggingface/evaluate).
"""
import json
import random
import sys

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

scripts, target = sys.argv[1:]
sys.path.insert(0, scripts)
from compute_score import get_raw_scores, make_eval_dict, normalize_answer  # noqa: E402
from utils_qa import postprocess_qa_predictions  # noqa: E402

random.seed(1)
np.random.seed(1)

TEXTS = ["The  Ada, Lovelace!", "a", "An apple a day", "theatre of the absurd", "state-of-the-art", "“the” end", "Zoë’s the—best", "", "1,000.5 km",
         "AN A THE", "the_the", "a.b.c", "İstanbul the", "  spaced\tout\n ", "l'ami d'a", "7th the 7th"]
QUESTIONS = [("Ada Lovelace", ["Ada Lovelace", "Lovelace"]), ("the Lovelace", ["Ada Lovelace", "Lovelace"]), ("", []), ("Ada", []), ("", ["Ada"]),
             ("in 1815 in London", ["1815", "London in 1815", "in London in 1815 in"]), ("a", ["the"]), ("a a b", ["a b b"]), ("x y z", ["u v"]),
             ("New York", ["the New York City", "york"])]

WORDS = "zero one two three four five six seven eight nine ten eleven twelve Zoë Bär Ada".split()
CONTEXT = " ".join(random.choice(WORDS) for _ in range(17))


def tokenizer():
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "?", "who"] + WORDS)}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    plain.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def positions(offsets, sequences, answer, context):
    """prepare_train_features of run_qa.py, whose loop over starts is kept from leaving the context."""
    if not answer:
        return [0, 0]
    begin, end = answer
    first = sequences.index(1)
    last = len(sequences) - 1 - sequences[::-1].index(1)
    if not (offsets[first][0] <= begin and offsets[last][1] >= end):
        return [0, 0]
    start, stop = first, last
    while start <= last and offsets[start][0] <= begin:
        start += 1
    while offsets[stop][1] >= end:
        stop -= 1
    return [start - 1, stop + 1]


def cut():
    """Windows of questions, as prepare_train_features and prepare_validation_features make them."""
    of_words, cases = tokenizer(), []
    words = [(match, CONTEXT.index(match)) for match in CONTEXT.split()]
    for question, length, stride in [(" who is Zoë ?", 14, 3), ("Ada", 12, 5), ("who ?", 64, 8), ("who who ?", 11, 0)]:
        place = random.choice(words)[1]
        for answer in [None, [place, place + len(CONTEXT[place:].split()[0])], [place, min(len(CONTEXT), place + 9)]]:
            encoded = of_words([question.lstrip()], [CONTEXT], truncation="only_second", max_length=length, stride=stride,
                               return_overflowing_tokens=True, return_offsets_mapping=True, return_token_type_ids=True)
            windows = []
            for number, ids in enumerate(encoded["input_ids"]):
                offsets, sequences = encoded["offset_mapping"][number], encoded.sequence_ids(number)
                windows.append({"ids": ids, "types": encoded["token_type_ids"][number], "answer": positions(offsets, sequences, answer, CONTEXT),
                                "places": [list(offset) if sequence == 1 else None for offset, sequence in zip(offsets, sequences)]})
            cases.append({"question": question, "context": CONTEXT, "max_length": length, "doc_stride": stride, "characters": answer, "windows": windows})
    return {"tokenizer": json.loads(of_words.backend_tokenizer.to_str()), "cases": cases}


def found():
    cases = []
    for case in range(12):
        windows = []
        for begin in range(0, random.choice([9, 22]), 6):
            words, offset, places = CONTEXT.split(), 0, [None, None, None]
            for number, word in enumerate(words):
                if begin <= number < begin + 9:
                    places.append([offset, offset + len(word)])
                offset += len(word) + 1
            places.append(None)
            scale = [1, 1, 1, 3][case % 4]
            logits = [np.round(np.random.randn(len(places)) * scale, 4).astype(np.float32) for _ in range(2)]
            if case % 3 == 0:
                logits = [each + np.float32(3) * (np.arange(len(places)) == 0) for each in logits]
            windows.append({"offset_mapping": places, "start_logits": logits[0], "end_logits": logits[1]})
        answers = []
        for version_2 in [False, True]:
            examples = Rows({"id": ["x"], "context": [CONTEXT]})
            features = [{"example_id": "x", **window} for window in windows]
            predictions = ([window["start_logits"] for window in windows], [window["end_logits"] for window in windows])
            answers.append(postprocess_qa_predictions(examples, features, predictions, version_2_with_negative=version_2, max_answer_length=4)["x"])
        windows = [{key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in window.items()} for window in windows]
        cases.append({"context": CONTEXT, "windows": windows, "answer": answers[0], "answer_or_none": answers[1]})
    return cases


class Rows(dict):
    """Columns that are rows when one goes through them, as data sets are."""

    def __iter__(self):
        return iter([dict(zip(self.keys(), row)) for row in zip(*self.values())])

    def __len__(self):
        return len(self["id"])


def scored():
    dataset = [{"paragraphs": [{"qas": [{"id": str(number), "answers": {"text": answers}} for number, (_, answers) in enumerate(QUESTIONS)]}]}]
    exact, f1 = get_raw_scores(dataset, {str(number): answer for number, (answer, _) in enumerate(QUESTIONS)})
    whole = make_eval_dict(exact, f1)
    questions = [{"found": answer, "answers": answers, "exact_match": exact[str(number)], "f1": f1[str(number)]}
                 for number, (answer, answers) in enumerate(QUESTIONS)]
    return {"questions": questions, "exact_match": whole["exact"], "f1": whole["f1"]}


result = {"normalized": [[text, normalize_answer(text)] for text in TEXTS], "found": found(), "cut": cut(), **scored()}
with open(target, "w") as out:
    out.write(json.dumps(result, ensure_ascii=False) + "\n")
