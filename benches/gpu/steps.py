#!/usr/bin/env python3
"""Training steps of hpsearch's trainer on a GPU and of PyTorch, eager and compiled, side by side: steps and tokens a second.

    cargo build --release --features cuda --bench step
    python3 -m venv .venv && .venv/bin/pip install torch
    .venv/bin/python benches/gpu/steps.py --ours target/release/deps/step-*  [--cases minilm,gpt2,charlm] [--kinds f32,bf16]

All sides train on the same rows with dropout, AdamW and clipping of the global norm, in rounds that alternate, each a process of its
own; of the rounds the quickest counts. The first steps, in which kernels are compiled and tuned, are not counted; how long they took
is in the column `first`, in the first round (nothing is kept from before) and in the last (hpsearch keeps its kernels). Beside each figure stands the floor: the time that the products' arithmetic alone would take at the card's
peak, and that the optimiser's and the weights' traffic would take at its memory's. f32 means single floats whose products may be made
with TF32 on both sides; bf16 is autocast there and `bf16 = true` here. `--device cpu` tries the script out.
"""
import argparse, json, math, os, random, subprocess, sys, tempfile, time

# width, layers, heads, inner width, tokens of a row, rows of a batch, vocabulary, whether rows are seen from left to right
CASES = {
    "minilm": (384, 6, 12, 1536, 128, 64, 30522, False),
    "gpt2": (768, 12, 12, 3072, 1024, 8, 50257, True),
    "charlm": (128, 4, 4, 512, 256, 64, 65, True),
    "try": (32, 2, 2, 64, 32, 4, 65, True),
}
CLASSES, DROP = 77, 0.1
# Dense peaks as their makers give them: TFLOP/s of TF32 and of bf16 with tensor cores, GB/s of memory.
CARDS = {"H100": (494.0, 989.0, 3350.0), "H200": (494.0, 989.0, 4800.0), "A100": (156.0, 312.0, 2039.0), "L4": (60.0, 121.0, 300.0)}


def floor_ms(case, kind, card):
    """What one step takes at least: its products (forward once, backward twice), and the traffic of weights, gradients and moments."""
    d, layers, heads, ff, seq, batch, words, causal = CASES[case]
    tokens = batch * seq
    weights = layers * (4 * d * d + 2 * d * ff)
    products = 6 * tokens * (weights + (d * words if causal else 0)) + 12 * layers * tokens * seq * d * (0.5 if causal else 1)
    parameters = weights + d * (words + seq)
    traffic = parameters * 4 * 7
    flops, bandwidth = card[0 if kind == "f32" else 1] * 1e12, card[2] * 1e9
    return products / flops * 1e3 + traffic / bandwidth * 1e3, products, traffic


def torch_side(case, kind, device, compiled, warmup, steps, data):
    import torch, torch.nn as nn, torch.nn.functional as F
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    d, layers, heads, ff, seq, batch, words, causal = CASES[case]
    device = torch.device("cuda" if device.startswith("cuda") else "cpu")

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, ff), nn.Linear(ff, d)

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = self.qkv(self.ln1(x)).view(b, s, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROP, is_causal=causal)
            x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, s, d)), DROP)
            return x + F.dropout(self.down(F.gelu(self.up(self.ln2(x)))), DROP)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok, self.pos = nn.Embedding(words + 5, d), nn.Embedding(seq, d)
            self.blocks, self.norm, self.head = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(d), nn.Linear(d, CLASSES)
            nn.init.normal_(self.tok.weight, std=0.02)

        def forward(self, ids, told):
            x = F.dropout(self.tok(ids) + self.pos.weight[: ids.shape[1]], DROP)
            for block in self.blocks:
                x = block(x)
            x = self.norm(x)
            logits = (x @ self.tok.weight.T).flatten(0, 1) if causal else self.head(F.dropout(x.mean(1), DROP))
            return F.cross_entropy(logits.float(), told.flatten())

    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(model) if compiled else model
    rng = torch.Generator().manual_seed(1)
    parts = [(torch.randint(words, (batch, seq), generator=rng), torch.randint(words, (batch, seq), generator=rng) if causal else torch.randint(CLASSES, (batch,), generator=rng))
             for _ in range(16)]
    if device.type == "cuda":
        parts = [tuple(part.pin_memory() for part in pair) for pair in parts]
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    began = time.perf_counter()
    for n in range(warmup + steps):
        if n == warmup:
            wait()
            first, start = time.perf_counter() - began, time.perf_counter()
        ids, told = (part.to(device, non_blocking=True) for part in parts[n % len(parts)])
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=kind == "bf16"):
            loss = forward(ids, told)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    wait()
    print(json.dumps({"wall_ms": (time.perf_counter() - start) * 1e3 / steps, "first_s": first, "loss": loss.item()}))


def arguments(case, kind):
    d, layers, heads, ff, seq, batch, words, causal = CASES[case]
    task = {"task": "language-modeling", "model.tokenizer": "chars" if words < 256 else "bpe"} if causal else {"model.tokenizer": "word"}
    size = {} if words < 256 else {"model.vocab_size": words}
    return {"learning_rate": 1e-4, "lr_scheduler_type": "constant", "weight_decay": 0.01, "per_device_train_batch_size": batch, "model.hidden_size": d,
            "model.num_layers": layers, "model.num_heads": heads, "model.intermediate_size": ff, "model.dropout": DROP, "model.attention_dropout": DROP,
            "model.max_length": seq, "max_eval_samples": 1, "bf16": kind == "bf16", **task, **size}


def write_data(case, room):
    d, layers, heads, ff, seq, batch, words, causal = CASES[case]
    rng = random.Random(1)
    if words < 256:
        path = os.path.join(room, "text.txt")
        open(path, "w").write("".join(chr(48 + int(words * rng.random() ** 2)) for _ in range(max(200_000, 40 * batch * seq))))
    elif causal:
        path = os.path.join(room, "text.txt")
        open(path, "w").write(" ".join(f"w{int(2 * words * rng.random() ** 2)}" for _ in range(40 * batch * seq)))
    else:
        path = os.path.join(room, "rows.csv")
        with open(path, "w") as f:
            f.write("text,label\n")
            for n in range(max(20 * batch, 2 * words // seq)):
                f.write(" ".join(f"w{(n * (seq - 2) + k if k < seq // 2 else int(words * rng.random() ** 3)) % words}" for k in range(seq - 2)) + f",{n % CLASSES}\n")
    return path


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ours", nargs="+", help="the bench `step`; of several files the newest program")
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--cases", default="minilm,gpt2,charlm")
    p.add_argument("--kinds", default="f32,bf16")
    p.add_argument("--sides", default="hpsearch,eager,compile")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--card", help="TFLOP/s of f32, of bf16, GB/s; known for " + ", ".join(CARDS))
    p.add_argument("--torch-only", nargs=4, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch_only:
        case, kind, compiled, data = a.torch_only
        return torch_side(case, kind, a.device, compiled == "compile", a.warmup, a.steps, data)
    programs = [file for file in a.ours or [] if not os.path.splitext(file)[1]]
    if "hpsearch" in a.sides.split(","):
        if not programs:
            p.error("--ours: no program among the files; cargo build --release --features cuda --bench step")
        a.ours = max(programs, key=os.path.getmtime)
    if a.steps % a.warmup:
        p.error("--steps must be a multiple of --warmup: hpsearch is asked what came of its steps at both")
    name = "the processor"
    if a.device.startswith("cuda"):
        name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip().splitlines()[0]
    card = tuple(map(float, a.card.split(","))) if a.card else next((peak for word, peak in CARDS.items() if word in name), None)
    print(f"{name}; quickest of {a.rounds} rounds of {a.steps} steps")
    print(f"{'case':<8} {'kind':<5} {'side':<9} {'ms':>8} {'steps/s':>8} {'tokens/s':>10} {'first s':>13} {'floor ms':>9}  times eager, compiled")
    for case in a.cases.split(","):
        d, layers, heads, ff, seq, batch, words, causal = CASES[case]
        with tempfile.TemporaryDirectory() as room:
            data = write_data(case, room)
            for kind in a.kinds.split(","):
                told = os.path.join(room, f"{kind}.json")
                json.dump(arguments(case, kind), open(told, "w"))
                best, firsts = {}, {}
                kernels = os.path.join(room, f"kernels-{kind}")
                for _ in range(a.rounds):
                    for side in a.sides.split(","):
                        counts = [str(a.warmup), str(a.steps)]
                        command = [a.ours, told, data, *counts, a.device] if side == "hpsearch" else [
                            sys.executable, __file__, "--device", a.device, "--warmup", counts[0], "--steps", counts[1], "--torch-only", case, kind, side, data]
                        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "KERNELS": kernels})
                        if done.returncode:
                            print(f"{case:<8} {kind:<5} {side:<9} failed: {(done.stderr or done.stdout).strip().splitlines()[-1][:200]}", flush=True)
                            continue
                        seen = json.loads(done.stdout.strip().splitlines()[-1])
                        firsts.setdefault(side, []).append(seen["first_s"])
                        best[side] = min(best.get(side, seen), seen, key=lambda one: one["wall_ms"])
                least = f"{floor_ms(case, kind, card)[0]:9.2f}" if card else " " * 9
                for side, seen in best.items():
                    ms = seen["wall_ms"]
                    times = "  ".join(f"{best[other]['wall_ms'] / ms:.2f}" for other in ("eager", "compile") if side == "hpsearch" and other in best)
                    print(f"{case:<8} {kind:<5} {side:<9} {ms:8.2f} {1e3 / ms:8.1f} {1e3 / ms * batch * seq:10.0f} {firsts[side][0]:6.1f} {firsts[side][-1]:6.1f} {least}  {times}", flush=True)


if __name__ == "__main__":
    main()
