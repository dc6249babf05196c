"""Makes src/trainer/tests/golden/vocabularies/: tiny models' files of the time before tokenizer.json, and what transformers makes of them.

    python3 -m venv .venv && .venv/bin/pip install transformers==5.24.0 sentencepiece protobuf
    .venv/bin/python tests/peers/tokenizers_golden.py src/trainer/tests/golden/vocabularies

A directory each: config.json with the `model_type`, the files, and golden.json with texts, their ids, those of the first two as a pair, and
the texts of the ids. Marian's are of sentencepiece itself, with the numbers of vocab.json.
"""
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer
from transformers import AlbertTokenizer, BertTokenizer, DebertaV2Tokenizer, GPT2Tokenizer, MarianTokenizer, RobertaTokenizer, T5Tokenizer, XLMRobertaTokenizer

LINES = [
    "the search finds a better model, and nothing is lost", "a trial that stops early leaves its curve behind", "rates, widths and depths are tried in turn",
    "the best checkpoint is exported", "every process may die at any time", "trials are packed onto the devices", "no report is lost when a runner is killed",
    "models learn from texts, and texts teach models", "the curve of a trial is read while it trains", "a better rate is found after ten trials",
    "The leaderboard shows every trial", "Rates of 0.1, 0.01 and 0.001", "10,000 steps, or 2,500",
]
OTHER_LINES = [
    "die suche findet ein besseres modell, und nichts geht verloren", "ein versuch, der endet, hinterlässt seine kurve", "das beste modell wird gespeichert",
    "jeder prozess darf jederzeit enden", "die versuche laufen auf den geräten", "kein bericht geht verloren", "modelle lernen aus texten, und texte lehren modelle",
    "die kurve eines versuchs wird gelesen, während er lernt", "nach zehn versuchen ist eine bessere rate gefunden",
]
TEXTS = ["the best trial is exported", "a curve of   the model, 10,000 steps", "", " Ünïcode: naïve “quotes” ``and'' ｆｕｌｌ", "tabs\tand\nlines  ", "it's <unk> or </s> [MASK] <mask>",
         "日本 the search 0.01", "▁marks in_texts", "<extra_id_3> rates", "what does <user> say, <User> or  <mask> here?"]
# Short letters and wide ones, instead of the 240 kB of NMT_NFKC.
RULES = "FF46\t66\nFF55\t75\nFF4C\t6C\n2026\t2E 2E 2E\n9\t20\nA\t20\n201C\t22\n201D\t22\n"


def pieces(lines, size, prefix=(), normalised=True, **options):
    with tempfile.TemporaryDirectory() as scratch:
        rules = Path(scratch) / "rules.tsv"
        rules.write_text(RULES)
        model = io.BytesIO()
        normalization = {"normalization_rule_tsv": str(rules)} if normalised else {"normalization_rule_name": "identity"}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines * 5), model_writer=model, vocab_size=size, model_type="unigram",
                                                 character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, **normalization, **options)
        return model.getvalue()


def golden(directory, tokenizer, model_type):
    with_pair = tokenizer(TEXTS[0], TEXTS[1])
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    (directory / "config.json").write_text(json.dumps({"model_type": model_type}) + "\n")
    result = {"texts": TEXTS, "ids": ids, "pair": with_pair["input_ids"],
              "decoded": [tokenizer.decode(text, skip_special_tokens=True, clean_up_tokenization_spaces=False) for text in ids]}
    (directory / "golden.json").write_text(json.dumps(result, ensure_ascii=False) + "\n")


def main():
    target = Path(sys.argv[1])

    def directory(name):
        path = target / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    t5 = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    bert = dict(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>", unk_piece="<unk>")
    for name, file, model, Tokenizer, config in [
        ("t5", "spiece.model", pieces(LINES, 120, **t5), T5Tokenizer, {"extra_ids": 5}),
        ("mt5", "spiece.model", pieces(LINES, 90, normalised=False, **t5), T5Tokenizer, {"extra_ids": 0, "additional_special_tokens": None}),
        ("xlm-roberta", "sentencepiece.bpe.model", pieces(LINES, 120, unk_id=0, bos_id=1, eos_id=2, user_defined_symbols=["10,000"]), XLMRobertaTokenizer, {}),
        ("albert", "spiece.model", pieces([line.lower() for line in LINES], 100, control_symbols=["[CLS]", "[SEP]", "[MASK]"], **bert), AlbertTokenizer, {}),
        ("deberta-v2", "spm.model", pieces(LINES, 120, normalised=False, pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]",
                                           unk_piece="[UNK]"), DebertaV2Tokenizer, {"do_lower_case": False, "split_by_punct": True}),
    ]:
        path = directory(name)
        (path / file).write_bytes(model)
        (path / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
        golden(path, Tokenizer.from_pretrained(path), name)

    path = directory("bert")
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "text"
        text.write_text("\n".join(LINES))
        words = BertWordPieceTokenizer()
        words.train([str(text)], vocab_size=150, min_frequency=1)
        words.save_model(str(path))
        letters = ByteLevelBPETokenizer()
        letters.train([str(text)], vocab_size=330, min_frequency=2, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
        letters.save_model(str(directory("roberta")))
        letters = ByteLevelBPETokenizer()
        letters.train([str(text)], vocab_size=320, min_frequency=2, special_tokens=["<|endoftext|>"])
        letters.save_model(str(directory("gpt2")))
    golden(path, BertTokenizer.from_pretrained(path), "bert")
    golden(target / "roberta", RobertaTokenizer.from_pretrained(target / "roberta"), "roberta")
    golden(target / "gpt2", GPT2Tokenizer.from_pretrained(target / "gpt2"), "gpt2")

    # Tokens of users, tokens that take the space before them along, and settings that are not the usual ones.
    for name in ["bert", "roberta", "albert"]:
        for file in (target / name).iterdir():
            if file.name not in ("golden.json", "config.json"):
                shutil.copy(file, directory(f"{name}-changed"))
    path = target / "bert-changed"
    tokens = len((path / "vocab.txt").read_text().splitlines())
    (path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "tokenizer_class": "BertTokenizerFast"}) + "\n")
    mask = {"content": "[MASK]", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
    (path / "special_tokens_map.json").write_text(json.dumps({"mask_token": mask, "additional_special_tokens": ["<extra_id_3>"]}) + "\n")
    (path / "added_tokens.json").write_text(json.dumps({"<user>": tokens}) + "\n")
    golden(path, BertTokenizer.from_pretrained(path), "bert")
    path = target / "roberta-changed"
    tokens = len(json.loads((path / "vocab.json").read_text()))
    added = {4: dict(mask, content="<mask>", special=True), tokens: dict(mask, content="<user>", lstrip=False, rstrip=True, normalized=True, special=False)}
    (path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True, "added_tokens_decoder": added, "mask_token": "<mask>"}) + "\n")
    golden(path, RobertaTokenizer.from_pretrained(path), "roberta")
    path = target / "albert-changed"
    (path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "keep_accents": True, "add_prefix_space": False}) + "\n")
    golden(path, AlbertTokenizer.from_pretrained(path), "albert")

    path = directory("marian")
    sides = {"source.spm": pieces(LINES, 110), "target.spm": pieces(OTHER_LINES, 110)}
    ids = {"</s>": 0, "<unk>": 1}
    for name, model in sides.items():
        (path / name).write_bytes(model)
        side = sentencepiece.SentencePieceProcessor(model_proto=model)
        for number in range(3, side.get_piece_size()):
            ids.setdefault(side.id_to_piece(number), len(ids))
    ids |= {">>de<<": len(ids), "<pad>": len(ids) + 1}
    (path / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False) + "\n")
    (path / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}) + "\n")
    tokenizer = MarianTokenizer.from_pretrained(path)
    tokenizer.punc_normalizer = lambda text: text
    golden(path, tokenizer, "marian")
    result = json.loads((path / "golden.json").read_text())
    others = OTHER_LINES[:3] + ["ein neues modell, the search", ">>de<< die kurve"]
    of_targets = tokenizer(text_target=others)["input_ids"]
    result |= {"targets": others, "target_ids": of_targets,
               "decoded_targets": [tokenizer.decode(text, skip_special_tokens=True, clean_up_tokenization_spaces=False) for text in of_targets]}
    (path / "golden.json").write_text(json.dumps(result, ensure_ascii=False) + "\n")
    for file in sorted(target.rglob("*")):
        if file.is_file():
            print(f"{file.stat().st_size:8} {file}")


if __name__ == "__main__":
    main()
