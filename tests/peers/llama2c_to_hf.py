"""Turns a checkpoint of llama2.c into a directory in Hugging Face's layout, for `hpsearch generate` and for transformers.

    .venv/bin/python tests/peers/llama2c_to_hf.py stories260K.bin tok512.bin DIR

The checkpoint: github.com/karpathy/llama2.c, `export.py`, version 0 (seven numbers, then single floats). Its heads are turned
by neighbouring pairs, transformers' by halves: rows of the query's and key's maps change places. The tokenizer is
SentencePiece's BPE: of two neighbours, those whose joint has the best score are joined first.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def weights(path):
    blob = Path(path).read_bytes()
    dim, hidden, layers, heads, groups, vocabulary, length = struct.unpack("<7i", blob[:28])
    numbers, at = np.frombuffer(blob, dtype="<f4", offset=28), 0
    size, shared = dim // heads, vocabulary > 0
    vocabulary = abs(vocabulary)

    def take(*shape):
        nonlocal at
        count = int(np.prod(shape))
        at += count
        return numbers[at - count:at].reshape(shape).copy()

    def halves(weight, count):
        return weight.reshape(count, size // 2, 2, dim).transpose(0, 2, 1, 3).reshape(count * size, dim).copy()

    tensors = {"model.embed_tokens.weight": take(vocabulary, dim)}
    parts = [("input_layernorm", (dim,)), ("self_attn.q_proj", (dim, dim)), ("self_attn.k_proj", (groups * size, dim)),
             ("self_attn.v_proj", (groups * size, dim)), ("self_attn.o_proj", (dim, dim)), ("post_attention_layernorm", (dim,)),
             ("mlp.gate_proj", (hidden, dim)), ("mlp.down_proj", (dim, hidden)), ("mlp.up_proj", (hidden, dim))]
    for name, shape in parts:
        for layer in range(layers):
            weight = take(*shape)
            if "q_proj" in name or "k_proj" in name:
                weight = halves(weight, heads if "q_proj" in name else groups)
            tensors[f"model.layers.{layer}.{name}.weight"] = weight
    tensors["model.norm.weight"] = take(dim)
    take(length, size)
    if not shared:
        tensors["lm_head.weight"] = take(vocabulary, dim)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": dim, "intermediate_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": groups, "vocab_size": vocabulary, "max_position_embeddings": length,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": shared, "bos_token_id": 1, "eos_token_id": 2,
    }
    return config, tensors


def tokenizer(path, vocabulary):
    blob, at, pieces = Path(path).read_bytes(), 4, []
    for number in range(vocabulary):
        score, length = struct.unpack("<fi", blob[at:at + 8])
        piece = blob[at + 8:at + 8 + length].decode()
        at += 8 + length
        if number < 3:
            piece = ["<unk>", "<s>", "</s>"][number]
        pieces.append((piece.replace(" ", "\u2581"), score))
    numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
    merges = []
    for number, (piece, score) in enumerate(pieces):
        if number >= 259:
            for cut in range(1, len(piece)):
                if piece[:cut] in numbers and piece[cut:] in numbers:
                    merges.append((-score, numbers[piece[:cut]], numbers[piece[cut:]], [piece[:cut], piece[cut:]]))
    special = [{"id": number, "content": pieces[number][0], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for number in range(3)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": numbers,
                  "merges": [merge for *_, merge in sorted(merges, key=lambda merge: merge[:3])]},
    }


def main():
    checkpoint, words, target = sys.argv[1:4]
    target = Path(target)
    target.mkdir(parents=True, exist_ok=True)
    config, tensors = weights(checkpoint)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (target / "tokenizer.json").write_text(json.dumps(tokenizer(words, config["vocab_size"]), ensure_ascii=False, indent=1) + "\n")
    (target / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
                                                              "unk_token": "<unk>", "model_max_length": config["max_position_embeddings"]}) + "\n")


if __name__ == "__main__":
    main()
