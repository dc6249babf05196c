"""Fine-tunes a small random model of every architecture with hpsearch, exports it, and holds the export against transformers.

    python3 -m venv .venv && .venv/bin/pip install torch==2.15.0 transformers==5.23.0 tokenizers safetensors
    .venv/bin/python tests/peers/exports.py target/release/hpsearch WORKDIR [ARCHITECTURE ...]

`ARCHITECTURE:tokens`, `:masks` and `:vectors` are the other tasks of encoders: their entities, likeliest tokens and vectors are compared.
`scratch` and `language` are what studies train without a `model`. Of classifiers every label's score of some texts is compared, of
language models the tokens written without chance; of both the loss on the test split that `export` measured, which transformers
computes again from the files. `int8` is a BERT with weights of eight bits, which transformers must refuse and hpsearch label nearly as before.
"""
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification,
                          AutoModelForTokenClassification, AutoTokenizer, PreTrainedTokenizerFast)

from exported_check import classifier, entities, masks, vectors, writer

torch.set_num_threads(1)
DATA = Path(__file__).parent.parent.parent / "studies" / "data"
WIDE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
MODERN = dict(WIDE, max_position_embeddings=64, pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3)
ENCODERS = {
    "bert": lambda size: transformers.BertConfig(**WIDE, vocab_size=size, max_position_embeddings=64),
    "roberta": lambda size: transformers.RobertaConfig(**WIDE, vocab_size=size, max_position_embeddings=66, pad_token_id=0, type_vocab_size=1),
    "distilbert": lambda size: transformers.DistilBertConfig(vocab_size=size, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                                                             max_position_embeddings=64),
    "modernbert": lambda size: transformers.ModernBertConfig(**MODERN, vocab_size=size, local_attention=8, classifier_pooling="mean"),
    "xlm-roberta": lambda size: transformers.XLMRobertaConfig(**WIDE, vocab_size=size, max_position_embeddings=66, pad_token_id=0,
                                                              type_vocab_size=1),
    "electra": lambda size: transformers.ElectraConfig(**WIDE, embedding_size=16, vocab_size=size, max_position_embeddings=64),
    "albert": lambda size: transformers.AlbertConfig(**WIDE, embedding_size=16, vocab_size=size, max_position_embeddings=64),
    "modernbert-first": lambda size: transformers.ModernBertConfig(**MODERN, vocab_size=size),
}
LLAMA = dict(WIDE, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=0)
DECODERS = {
    "gpt2": lambda size: transformers.GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0),
    "llama": lambda size: transformers.LlamaConfig(**LLAMA, vocab_size=size),
    "qwen2": lambda size: transformers.Qwen2Config(**LLAMA, vocab_size=size, tie_word_embeddings=True),
    "mistral": lambda size: transformers.MistralConfig(**LLAMA, vocab_size=size, sliding_window=None),
    "gemma": lambda size: transformers.GemmaConfig(**LLAMA, vocab_size=size, head_dim=16, pad_token_id=None),
    "qwen3": lambda size: transformers.Qwen3Config(**LLAMA, vocab_size=size, head_dim=16),
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], SPECIAL))
# Of each other task of encoders: its name, the class that makes the pretrained model, the columns, and what compares.
TASKS = {
    "tokens": ("token-classification", AutoModelForTokenClassification, 'text = "tokens"\nlabel = "tags"', entities),
    "masks": ("masked-language-modeling", AutoModelForMaskedLM, "", masks),
    "vectors": ("sentence-similarity", AutoModel, 'text_pair = "other"', vectors),
}
TASK_ENCODERS = ["bert", "roberta", "distilbert", "modernbert", "xlm-roberta", "electra", "albert"]


def rows(name):
    with open(DATA / name, newline="") as file:
        return list(csv.DictReader(file))


def word_pieces(target, texts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=800, special_tokens=SPECIAL, show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **NAMES).save_pretrained(target)
    return tokenizer.get_vocab_size()


def unigram(target, texts):
    """As SentencePiece's models become in a `tokenizer.json`."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizers.NFKC(), pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=800, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", [("[CLS]", 2), ("[SEP]", 3)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **NAMES).save_pretrained(target)
    return tokenizer.get_vocab_size()


def byte_pairs(target, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", bos_token="<|endoftext|>").save_pretrained(target)
    return tokenizer.get_vocab_size()


def study(work, language, model, window):
    train, test = ("train.txt", "test.txt") if language else (DATA / "train.csv", DATA / "test.csv")
    beginning = 'model = "model"' if model else ('model.tokenizer = "chars"\nmodel.hidden_size = 32' if language else "model.hidden_size = 32")
    (work / "study.toml").write_text(f"""
[study]
name = "exports"
metric = "eval_loss"
direction = "minimize"
step = "step"
[budget]
trials = 1
[data]
train = "{train}"
test = "{test}"
validation_split = 0.1
max_length = {window if language else 48}
[trainer]
task = "{'language-modeling' if language else 'text-classification'}"
{beginning}
max_steps = 60
eval_strategy = "steps"
eval_steps = 60
[space]
learning_rate = [3e-3]
""")


def loss_of_texts(directory, work, _):
    """The mean cross-entropy of the test rows, in batches with padding."""
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=True).eval(), AutoTokenizer.from_pretrained(directory)
    test, losses = rows("test.csv"), []
    for start in range(0, len(test), 16):
        part = test[start:start + 16]
        batch = tokenizer([row["text"] for row in part], return_tensors="pt", padding=True, truncation=True, max_length=48)
        batch.pop("token_type_ids", None)
        truth = torch.tensor([model.config.label2id[row["label"]] for row in part])
        with torch.no_grad():
            losses += torch.nn.functional.cross_entropy(model(**batch).logits, truth, reduction="none").tolist()
    return sum(losses) / len(losses)


def loss_of_stream(directory, work, length):
    """The mean cross-entropy of every token but the first, in windows of so many that lie end to end."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(directory).eval(), AutoTokenizer.from_pretrained(directory)
    ids, losses = tokenizer((work / "test.txt").read_text(), return_tensors="pt").input_ids[0], []
    for start in range(0, len(ids) - 1, length):
        window = ids[start:start + length + 1]
        with torch.no_grad():
            logits = model(window[None, :-1]).logits[0]
        losses += torch.nn.functional.cross_entropy(logits, window[1:], reduction="none").tolist()
    return sum(losses) / len(losses)


def check(program, root, name):
    work = root / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    language = name in DECODERS or name == "language"
    texts = [row["text"] for row in rows("train.csv")]
    (work / "train.txt").write_text("\n".join(texts) + "\n")
    (work / "test.txt").write_text("\n".join(row["text"] for row in rows("test.csv")[:60]) + "\n")
    if name not in ("scratch", "language"):
        size = (byte_pairs if language else unigram if name == "xlm-roberta" else word_pieces)(work / "model", texts)
        torch.manual_seed(1)
        config = {**ENCODERS, **DECODERS}[name](size)
        (AutoModelForCausalLM if language else AutoModelForSequenceClassification).from_config(config).save_pretrained(work / "model")
    # Room for what is written without chance.
    window = 96 if name == "language" else 32
    study(work, language, (work / "model").exists(), window)
    for command in (["run", "study.toml", "--plain", "-q"], ["export", "exports", "-o", "out"]):
        subprocess.run([program, *command], cwd=work, check=True, capture_output=True)
    out = str(work / "out")
    sample = ["the street lamp is out again", "Is there a fee for garden waste?", "a"]
    same = writer(program, out, ["The street", "my bin"]) if language else classifier(program, out, sample)
    own = json.loads((work / "out" / "metrics.json").read_text())["metrics"]["test_loss"]
    theirs = (loss_of_stream if language else loss_of_texts)(out, work, window)
    print(f"test loss: hpsearch {own:.6f}, transformers {theirs:.6f}")
    return same and abs(own - theirs) < 1e-4


def check_task(program, root, name):
    """A task of encoders beside classification."""
    architecture, kind = name.split(":")
    task, auto, columns, compare = TASKS[kind]
    work = root / name.replace(":", "-")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    texts = [row["text"] for row in rows("train.csv")]
    size = (unigram if architecture == "xlm-roberta" else word_pieces)(work / "model", texts)
    torch.manual_seed(1)
    auto.from_config(ENCODERS[architecture](size)).save_pretrained(work / "model")
    with open(work / "train.jsonl", "w") as file:
        for text in texts:
            words = text.split()
            # A word with a capital, and the one behind it.
            tags = ["B-CAP" if word[0].isupper() else "I-CAP" if before[0].isupper() else "O" for before, word in zip(["a"] + words, words)]
            row = {"tokens": words, "tags": tags} if kind == "tokens" else {"text": text, "other": text.split(",")[0].lower()}
            file.write(json.dumps(row) + "\n")
    (work / "study.toml").write_text(f"""
[study]
name = "exports"
metric = "eval_loss"
direction = "minimize"
step = "step"
[budget]
trials = 1
[data]
train = "train.jsonl"
max_length = 48
{columns}
[trainer]
task = "{task}"
model = "model"
max_steps = 60
eval_strategy = "steps"
eval_steps = 60
[space]
learning_rate = [3e-3]
""")
    for command in (["run", "study.toml", "--plain", "-q"], ["export", "exports", "-o", "out"]):
        subprocess.run([program, *command], cwd=work, check=True, capture_output=True)
    sample = ["the Street lamp is Out again", "Is there a fee for garden waste", "a"]
    return compare(program, str(work / "out"), [f"{text} [MASK]" for text in sample] if kind == "masks" else sample)


def refused(program, root):
    """Weights of eight bits, which transformers would take for numbers from -127 to 127."""
    work = root / "int8"
    if not check(program, root, "bert"):
        return False
    shutil.rmtree(work, ignore_errors=True)
    (root / "bert").rename(work)
    said = subprocess.run([program, "export", "exports", "-o", "small", "--quantize", "int8"], cwd=work, check=True, capture_output=True, text=True)
    print(said.stderr.strip())
    scores = []
    for directory in ("out", "small"):
        answer = subprocess.run([program, "predict", str(work / directory), "--json", "--top-k", "1000", "the street lamp is out again"], check=True,
                                capture_output=True, text=True).stdout
        scores.append({label["label"]: label["score"] for label in json.loads(answer)["predictions"][0]["labels"]})
    print(f"greatest difference of a score: {max(abs(scores[0][label] - scores[1][label]) for label in scores[0]):.2e}")
    try:
        AutoModelForSequenceClassification.from_pretrained(work / "small")
    except ValueError as error:
        print("transformers:", str(error).splitlines()[0])
        return "hpsearch-int8" in str(error)
    return False


def main():
    program, root, *wanted = sys.argv[1:]
    program, root = str(Path(program).resolve()), Path(root).resolve()
    failed = []
    for name in wanted or ["scratch", "language", *ENCODERS, *DECODERS, *(f"{name}:{task}" for name in TASK_ENCODERS for task in TASKS), "int8"]:
        print(f"== {name}")
        checked = refused(program, root) if name == "int8" else (check_task if ":" in name else check)(program, root, name)
        if not checked:
            failed.append(name)
    print("NOT the same: " + ", ".join(failed) if failed else "all the same")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
