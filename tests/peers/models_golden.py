"""Makes src/trainer/tests/golden/: tiny random checkpoints of each architecture and what transformers computes with them.

    python3 -m venv .venv && .venv/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors
    .venv/bin/python tests/peers/models_golden.py src/trainer/tests/golden

A directory each: config.json, model.safetensors, and golden.json with a batch, its logits, its loss, the gradients of the
loss (their norms, sums and first numbers, by the names of the tensors) and the losses of 20 steps of fine-tuning as
transformers' Trainer makes them: AdamW, its rule of which parameters decay, a linear schedule, gradients clipped to a norm of
1; and the same steps in mixed precision, by autocast, fp16 with a scaled loss. Dropout is off. The weights are larger than fresh ones, so that every part of a model counts.
"""
import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
from transformers import (AlbertConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, BartConfig, MarianConfig, MT5Config, T5Config, AutoModelForTokenClassification, BertConfig, BertModel, DebertaV2Config, DistilBertConfig, ElectraConfig, GemmaConfig, GPT2Config, LlamaConfig,
                          MistralConfig, ModernBertConfig, Phi3Config, PhiConfig, Qwen2Config, Qwen3Config, RobertaConfig, XLMRobertaConfig, get_linear_schedule_with_warmup)

try:
    from transformers.trainer_pt_utils import get_parameter_names
except ImportError:
    from transformers.trainer import get_parameter_names

torch.set_num_threads(1)
STEPS, RATE, DECAY = 20, 5e-3, 0.1
SHORT = {"bf16": torch.bfloat16, "fp16": torch.float16}
SMALL = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
OFF = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
# [CLS] is 2, [SEP] is 3; texts of several lengths, so that there is padding.
TEXTS = [[2, 5, 7, 9, 3], [2, 8, 3], [2, 11, 39, 12, 20, 21, 4, 3], [2, 30, 31, 3]]
WINDOWS = [[1, 5, 7, 9, 3, 12, 30, 8], [4, 39, 2, 2, 17, 0, 25, 6], [33, 1, 9, 9, 10, 11, 14, 15]]

CLASSIFIERS = {
    "bert": (BertConfig(**SMALL, **OFF, max_position_embeddings=12), "single_label_classification", 3),
    "bert-multi-label": (BertConfig(**SMALL, **OFF, max_position_embeddings=12, hidden_act="gelu_new"), "multi_label_classification", 3),
    "bert-pairs": (BertConfig(**SMALL, **OFF, max_position_embeddings=12), "single_label_classification", 3),
    "bert-regression": (BertConfig(**SMALL, **OFF, max_position_embeddings=12, hidden_act="relu", layer_norm_eps=1e-5), "regression", 1),
    "roberta": (RobertaConfig(**SMALL, **OFF, max_position_embeddings=14, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5),
                "single_label_classification", 3),
    "distilbert": (DistilBertConfig(vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=12, dropout=0.0,
                                    attention_dropout=0.0, seq_classif_dropout=0.0), "single_label_classification", 3),
    "xlm-roberta": (XLMRobertaConfig(**SMALL, **OFF, max_position_embeddings=14, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5),
                    "single_label_classification", 3),
    "electra": (ElectraConfig(**SMALL, **OFF, embedding_size=8, max_position_embeddings=12), "single_label_classification", 3),
    # Three layers in two groups, which share their weights.
    "albert": (AlbertConfig(**{**SMALL, "num_hidden_layers": 3}, **OFF, embedding_size=8, num_hidden_groups=2, classifier_dropout_prob=0.0,
                            max_position_embeddings=12), "single_label_classification", 3),
    "deberta-v2": (DebertaV2Config(**{**SMALL, "num_hidden_layers": 3}, **OFF, max_position_embeddings=12, relative_attention=True,
                                   position_buckets=4, pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm",
                                   position_biased_input=False, type_vocab_size=0), "single_label_classification", 3),
    # Distances one by one, normalised by nothing, and seen by queries only.
    "deberta-v2-plain": (DebertaV2Config(**SMALL, **OFF, max_position_embeddings=12, relative_attention=True, max_relative_positions=4,
                                         pos_att_type="c2p", share_att_key=True, position_biased_input=False, type_vocab_size=0),
                         "single_label_classification", 3),
    # Layers that see two tokens to either side: in texts of eight that matters.
    "modernbert": (ModernBertConfig(**{**SMALL, "num_hidden_layers": 3}, max_position_embeddings=12, local_attention=4, pad_token_id=0,
                                    bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3, classifier_pooling="mean"),
                   "single_label_classification", 3),
    "modernbert-biased": (ModernBertConfig(**SMALL, max_position_embeddings=12, global_attn_every_n_layers=1, pad_token_id=0, bos_token_id=2,
                                           cls_token_id=2, eos_token_id=3, sep_token_id=3, norm_bias=True, attention_bias=True, mlp_bias=True,
                                           classifier_bias=True), "single_label_classification", 3),
}
# The same texts as pairs: where the second one begins.
SECOND_FROM = [3, 1, 4, 2]
# Labels of tokens: words' first pieces have one of three, and -100 is none.
TOKEN_LABELS = [[-100, 0, 2, 1, -100], [-100, 1, -100], [-100, 2, 0, -100, 1, -100, 2, -100], [-100, 1, 1, -100]]
# Hidden tokens: 4 stands for [MASK], and the others are kept or replaced as pretraining does.
HIDDEN = [[2, 4, 7, 9, 3], [2, 8, 3], [2, 11, 4, 12, 4, 17, 4, 3], [2, 30, 31, 3]]
HIDDEN_LABELS = [[-100, 5, -100, -100, -100], [-100, 8, -100], [-100, -100, 39, -100, 20, 21, 4, -100], [-100, 30, 31, -100]]
TOKEN_MODELS = {name: CLASSIFIERS[name][0] for name in ["bert", "roberta", "distilbert", "modernbert", "electra", "albert", "deberta-v2"]}

# The second texts of pairs whose texts are read one by one.
SECOND_TEXTS = [[2, 6, 7, 3], [2, 8, 19, 22, 3], [2, 12, 3], [2, 30, 5, 31, 9, 3]]


class Similarity(torch.nn.Module):
    """Vectors of the texts of pairs, as sentence-transformers makes and compares them (MultipleNegativesRankingLoss, a scale of 20)."""

    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)

    def vectors(self, ids, mask):
        x = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        mask = mask[..., None].float()
        return torch.nn.functional.normalize((x * mask).sum(1) / mask.sum(1))

    def forward(self, input_ids, attention_mask, labels):
        first, second = [self.vectors(input_ids[:, part], attention_mask[:, part]) for part in (0, 1)]
        logits = 20 * first @ second.T
        loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)))
        return SimpleNamespace(logits=logits, loss=loss)


# The first and the last token of an answer; 0 and 0: there is none.
ANSWERS = [[1, 2], [0, 0], [3, 6], [2, 2]]


def answering(model):
    """The model with the logits of all tokens, and the mean loss of texts that are not padded: padding takes part in the loss of its class."""

    class Answering(type(model)):
        def forward(self, input_ids, attention_mask, labels):
            logits, losses = [], []
            for ids, mask, answer in zip(input_ids, attention_mask, labels):
                output = super().forward(input_ids=ids[None, mask.bool()], start_positions=answer[:1], end_positions=answer[1:])
                logits.append(torch.stack([output.start_logits[0], output.end_logits[0]], -1))
                losses.append(output.loss)
            return SimpleNamespace(logits=torch.cat(logits), loss=torch.stack(losses).mean())

    model.__class__ = Answering
    return model


ROPE = dict(SMALL, num_key_value_heads=1, max_position_embeddings=32)
DECODERS = {
    "gpt2": GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                       bos_token_id=0, eos_token_id=0),
    "llama": LlamaConfig(**ROPE, bos_token_id=1, eos_token_id=2, rms_norm_eps=1e-5, tie_word_embeddings=False),
    "qwen2": Qwen2Config(**ROPE, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True),
    "mistral": MistralConfig(**ROPE, bos_token_id=1, eos_token_id=2, sliding_window=None, head_dim=6, tie_word_embeddings=False),
    # A token for padding would get no gradient.
    "gemma": GemmaConfig(**ROPE, bos_token_id=1, eos_token_id=2, pad_token_id=None, head_dim=12),
    # Heads of 8 numbers, of which 4 are rotated.
    "phi": PhiConfig(**ROPE, bos_token_id=1, eos_token_id=2),
    "phi3": Phi3Config(**ROPE, bos_token_id=1, eos_token_id=2, pad_token_id=None),
    "qwen3": Qwen3Config(**ROPE, bos_token_id=1, eos_token_id=2, head_dim=12, tie_word_embeddings=True),
}


# Encoders with decoders: sources, and texts to write, which end with 1.
SOURCES = [[5, 7, 9, 1], [8, 1], [11, 39, 12, 20, 21, 4, 1], [30, 31, 33, 1]]
TARGETS = [[6, 8, 1], [9, 12, 13, 3, 1], [22, 1], [30, 5, 31, 17, 38, 1]]
T5 = dict(vocab_size=40, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=2, relative_attention_num_buckets=8,
          relative_attention_max_distance=6, dropout_rate=0.0, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
BART = dict(vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=4, encoder_ffn_dim=24,
            decoder_ffn_dim=20, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, max_position_embeddings=32, pad_token_id=0,
            eos_token_id=1, bos_token_id=2)
SEQ2SEQ = {
    "t5": T5Config(**T5),
    "t5-gated": T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "mt5": MT5Config(**T5, feed_forward_proj="gated-gelu"),
    "bart": BartConfig(**BART, decoder_start_token_id=1, forced_bos_token_id=2, forced_eos_token_id=1),
    "marian": MarianConfig(**BART, decoder_start_token_id=0, activation_function="swish", scale_embedding=True, forced_eos_token_id=None),
}
WRITING = {
    "greedy": dict(num_beams=1),
    "greedy_without_repeats": dict(num_beams=1, no_repeat_ngram_size=2),
    "beams": dict(num_beams=4),
    "beams_for_long_texts": dict(num_beams=4, length_penalty=2.0, early_stopping=True),
    "beams_without_repeats": dict(num_beams=3, length_penalty=0.6, no_repeat_ngram_size=2),
}


def written_by(model, batch, config):
    """What `generate` writes, without the start and what fills up."""
    written = {}
    for name, options in WRITING.items():
        with torch.no_grad():
            rows = model.eval().generate(**batch, max_length=10, do_sample=False, **options)
        texts = []
        for row in rows[:, 1:].tolist():
            end = row.index(config.eos_token_id) + 1 if config.eos_token_id in row else len(row)
            texts.append(row[:end])
        written[name] = {"options": options, "max_length": 10, "texts": texts}
    return written


def enlarge(model, seed=7):
    """Weights of a size at which activations, attention and gradients are far from 0."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.dim() == 2:
                parameter.normal_(0.0, 0.25)
            elif "bias" in name:
                parameter.normal_(0.0, 0.1)
            else:
                parameter.uniform_(0.5, 1.5)


def trainer_optimizer(model):
    """`Trainer.create_optimizer` and `get_decay_parameter_names`, AdamW with Trainer's defaults."""
    decayed = transformers.Trainer.get_decay_parameter_names(None, model)
    parameters = dict(model.named_parameters())
    groups = [
        {"params": [parameter for name, parameter in parameters.items() if name in decayed], "weight_decay": DECAY},
        {"params": [parameter for name, parameter in parameters.items() if name not in decayed], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)


def golden(model, batch, labels, shown):
    model.eval()
    output = model(**batch, labels=labels)
    output.loss.backward()
    tied = set()
    gradients = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None or parameter.data_ptr() in tied:
            continue
        tied.add(parameter.data_ptr())
        numbers = parameter.grad.flatten()
        gradients[name] = {"norm": numbers.norm().item(), "sum": numbers.sum().item(), "first": numbers[:4].tolist()}
    # Where tokens have labels, the logits of those that have one.
    logits = output.logits[labels != -100] if (labels == -100).any() else output.logits
    result = {"logits": logits.flatten().tolist(), "loss": output.loss.item(), "gradients": gradients}
    batches = [shown(step) for step in range(STEPS)]
    result["training"] = {"learning_rate": RATE, "weight_decay": DECAY, "batches": batches}
    for name, kind in SHORT.items():
        losses, skipped = train(copy.deepcopy(model), batch, labels, batches, kind)
        result["training"] |= {f"losses_in_{name}": losses, f"skipped_in_{name}": skipped}
    result["training"]["losses"], _ = train(model, batch, labels, batches)
    return result


def train(model, batch, labels, batches, kind=None):
    """The losses of the steps that Trainer makes, and the steps that a scaled loss kept from being made; with a kind of short numbers
    under autocast, as accelerate has it."""
    model.train()
    optimizer = trainer_optimizer(model)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, STEPS)
    scaler = torch.amp.GradScaler("cpu", enabled=kind == torch.float16)
    losses, skipped = [], []
    for step, chosen in enumerate(batches):
        optimizer.zero_grad()
        inputs = {key: value[chosen] for key, value in batch.items()}
        with torch.autocast("cpu", dtype=kind, enabled=kind is not None):
            loss = model(**inputs, labels=labels[chosen]).loss
        losses.append(loss.item())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < scale:
            skipped.append(step)
        else:
            schedule.step()
    return losses, skipped


def write(directory, model, contents):
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory)
    for extra in ["generation_config.json"]:
        (directory / extra).unlink(missing_ok=True)
    return directory / "golden.json", contents


def padded(rows, padding):
    length = max(map(len, rows))
    return torch.tensor([row + [padding] * (length - len(row)) for row in rows])


def batch_of(texts, config):
    return {"input_ids": padded(texts, config.pad_token_id), "attention_mask": padded([[1] * len(text) for text in texts], 0)}


def some_of_four(step):
    return [[0, 1, 2, 3], [1, 3], [2, 0, 1]][step % 3]


def main():
    target = Path(sys.argv[1])
    wanted = sys.argv[2:]
    for name, (config, problem, labels) in CLASSIFIERS.items():
        if wanted and name not in wanted:
            continue
        config.num_labels, config.problem_type = labels, problem
        torch.manual_seed(1)
        model = AutoModelForSequenceClassification.from_config(config)
        enlarge(model)
        truth = {"single_label_classification": torch.tensor([0, 2, 1, 1]), "regression": torch.tensor([0.5, -1.0, 2.0, 0.25]),
                 "multi_label_classification": torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])}[problem]
        file, _ = write(target / name, model, None)
        extra, types = {}, [[int(index >= first) for index in range(len(text))] for first, text in zip(SECOND_FROM, TEXTS)]
        batch = batch_of(TEXTS, config)
        if name.endswith("pairs"):
            extra, batch["token_type_ids"] = {"token_types": types}, padded(types, 0)
        result = golden(model, batch, truth, some_of_four)
        file.write_text(json.dumps({"texts": TEXTS, "labels": truth.tolist(), **extra, **result}) + "\n")
    for kind, AutoModel, texts, labels in [("tokens", AutoModelForTokenClassification, TEXTS, TOKEN_LABELS),
                                           ("masked", AutoModelForMaskedLM, HIDDEN, HIDDEN_LABELS)]:
        for name, config in TOKEN_MODELS.items():
            name = f"{name}-{kind}"
            if wanted and name not in wanted:
                continue
            config = copy.deepcopy(config)
            config.num_labels, config.problem_type = 3, None
            torch.manual_seed(1)
            model = AutoModel.from_config(config)
            enlarge(model)
            file, _ = write(target / name, model, None)
            result = golden(model, batch_of(texts, config), padded(labels, -100), some_of_four)
            file.write_text(json.dumps({"texts": texts, "labels": labels, **result}) + "\n")
    for name, config in TOKEN_MODELS.items():
        name = f"{name}-answers"
        if wanted and name not in wanted:
            continue
        config = copy.deepcopy(config)
        config.num_labels, config.problem_type, config.qa_dropout = 2, None, 0.0
        torch.manual_seed(1)
        model = AutoModelForQuestionAnswering.from_config(config)
        enlarge(model)
        file, _ = write(target / name, model, None)
        result = golden(answering(model), batch_of(TEXTS, config), torch.tensor(ANSWERS), some_of_four)
        file.write_text(json.dumps({"texts": TEXTS, "answers": ANSWERS, **result}) + "\n")
    if not wanted or "bert-similarity" in wanted:
        torch.manual_seed(1)
        model = Similarity(BertConfig(**SMALL, **OFF, max_position_embeddings=12))
        enlarge(model)
        file, _ = write(target / "bert-similarity", model.bert, None)
        ids = padded(TEXTS + SECOND_TEXTS, 0)
        mask = padded([[1] * len(text) for text in TEXTS + SECOND_TEXTS], 0)
        batch = {name: torch.stack([value[:4], value[4:]], 1) for name, value in [("input_ids", ids), ("attention_mask", mask)]}
        result = golden(model, batch, torch.zeros(4), some_of_four)
        file.write_text(json.dumps({"texts": TEXTS, "second_texts": SECOND_TEXTS, **result}) + "\n")
    for name, config in DECODERS.items():
        if wanted and name not in wanted:
            continue
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config)
        enlarge(model)
        file, _ = write(target / name, model, None)
        ids = torch.tensor(WINDOWS)
        with torch.no_grad():
            written = model.eval().generate(ids[:1, :4], max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
        result = golden(model, {"input_ids": ids}, ids, lambda step: [[0, 1, 2], [1], [2, 0]][step % 3])
        file.write_text(json.dumps({"windows": WINDOWS, "written": written[0].tolist(), **result}) + "\n")
    for name, config in SEQ2SEQ.items():
        if wanted and name not in wanted:
            continue
        torch.manual_seed(1)
        model = AutoModelForSeq2SeqLM.from_config(config)
        if name in ("t5-gated", "mt5"):
            # Version 5 ties them, except in checkpoints that have both.
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        enlarge(model, 21 if name == "t5" else 7)
        if name == "marian":
            with torch.no_grad():
                model.final_logits_bias.normal_(0.0, 0.5)
        file, _ = write(target / name, model, None)
        batch = batch_of(SOURCES, config)
        written = written_by(model, batch, config)
        result = golden(model, batch, padded(TARGETS, -100), some_of_four)
        file.write_text(json.dumps({"texts": SOURCES, "targets": TARGETS, "written": written, **result}) + "\n")
    for file in sorted(target.rglob("*")):
        if file.is_file():
            print(f"{file.stat().st_size:8} {file}")


if __name__ == "__main__":
    main()
