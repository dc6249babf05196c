#!/usr/bin/env python3
"""Training steps of hpsearch's trainer and of PyTorch side by side: processor milliseconds a step, one thread each.

    cargo build --release --bench step
    python3 -m venv .venv && .venv/bin/pip install torch
    .venv/bin/python benches/peers/step.py --ours target/release/deps/step-*  [--cases small,mini-padded] [--rounds 3]

Both sides train on the same rows in rounds that alternate, each round a process of its own, with the same allocator settings (those
that hpsearch sets for itself). PyTorch's side is written to be fast: pre-norm blocks with one product for query, key and value,
scaled_dot_product_attention, fused AdamW, clipping of the global norm; what a Trainer adds around it does not count. Of the rounds the
quickest counts, since a loaded machine only adds time. Padded cases have texts of banking77's lengths; PyTorch pads to the batch's
longest, as DataCollatorWithPadding does, hpsearch does not pad. `grouped` sorts the rows by length first, which is the best
that group_by_length can do.
"""
import argparse, csv, json, math, os, random, statistics, subprocess, sys, tempfile, time

# d, layers, heads, ff, tokens of a row, rows of a batch, words, lengths
SHAPES = {
    "tiny": (64, 2, 2, 256, 32, 32, 2000),
    "small": (256, 4, 4, 1024, 128, 16, 8000),
    "mini": (384, 6, 12, 1536, 64, 32, 30522),
    "charlm": (128, 4, 4, 512, 64, 12, 65),
    "gpt": (256, 4, 4, 1024, 128, 16, 8000),
}
CASES = {f"{shape}-{drop}{kind}": (shape, float(drop), kind) for shape in SHAPES for drop in ("0", "0.1") for kind in ("", "-padded", "-grouped")
         if not (kind and shape in ("charlm", "gpt"))}
DEFAULT = "tiny-0,tiny-0.1,small-0,small-0.1,mini-0,mini-0.1,charlm-0,charlm-0.1,small-0.1-padded,mini-0.1-padded,mini-0.1-grouped"


def lengths(kind, seq, rows, rng):
    """Tokens of each row, those around it counted. banking77 in WordPiece tokens: half have 13 or less, one in fifty more than 50."""
    if not kind:
        return [seq] * rows
    out = [min(seq, max(5, round(math.exp(rng.gauss(math.log(13.5), 0.55))))) for _ in range(rows)]
    return sorted(out) if kind == "-grouped" else out


def make_rows(shape, kind, batches):
    """Rows of words as numbers; every word occurs."""
    d, layers, heads, ff, seq, batch, words = SHAPES[shape]
    rng = random.Random(1)
    counts = lengths(kind, seq, batch * batches, rng)
    stream = list(range(words))
    rng.shuffle(stream)
    while len(stream) < sum(counts):
        stream.append(int(words * rng.random() ** 3))
    rows = []
    for count in counts:
        rows.append(stream[: count - 2])
        del stream[: count - 2]
    return rows


def torch_side(case, warmup, steps, data):
    import torch, torch.nn as nn, torch.nn.functional as F
    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape, drop, kind = CASES[case]
    d, layers, heads, ff, seq, batch, words = SHAPES[shape]
    causal = shape in ("charlm", "gpt")

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, ff), nn.Linear(ff, d)

        def forward(self, x, mask):
            b, s, _ = x.shape
            q, k, v = self.qkv(self.ln1(x)).view(b, s, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop if self.training else 0.0, is_causal=causal)
            x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, s, d)), drop, self.training)
            return x + F.dropout(self.down(F.gelu(self.up(self.ln2(x)))), drop, self.training)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok, self.pos = nn.Embedding(words + 5, d), nn.Embedding(seq, d)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(d)
            self.head = nn.Linear(d, 77)
            nn.init.normal_(self.tok.weight, std=0.02)

        def forward(self, ids, mask):
            x = F.dropout(self.tok(ids) + self.pos.weight[: ids.shape[1]], drop, self.training)
            full = None if mask is None or causal else mask[:, None, None, :]
            for block in self.blocks:
                x = block(x, full)
            x = self.norm(x)
            if causal:
                return x @ self.tok.weight.T
            weights = mask.unsqueeze(-1).to(x.dtype)
            return self.head(F.dropout((x * weights).sum(1) / weights.sum(1), drop, self.training))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if causal:
        text = [int(w[1:]) if shape == "gpt" else ord(w) % words for w in (open(data).read().split() if shape == "gpt" else open(data).read())]
        stream = torch.tensor(text)
        at = [(n * batch * seq) % (len(stream) - batch * seq - 1) for n in range(warmup + steps)]
        batches = [(stream[a:a + batch * seq].view(batch, seq), stream[a + 1:a + 1 + batch * seq].view(batch, seq)) for a in at]
    else:
        rows = [([2] + [5 + int(w[1:]) for w in r["text"].split()] + [3], int(r["label"])) for r in csv.DictReader(open(data))]
        groups = [rows[i:i + batch] for i in range(0, len(rows) - batch + 1, batch)]
        random.Random(2).shuffle(groups)
        if kind != "-grouped":
            random.Random(2).shuffle(rows)
            groups = [rows[i:i + batch] for i in range(0, len(rows) - batch + 1, batch)]
        batches = []
        for n in range(warmup + steps):
            group = groups[n % len(groups)]
            most = max(len(ids) for ids, _ in group)
            ids = torch.zeros(batch, most, dtype=torch.long)
            mask = torch.zeros(batch, most, dtype=torch.bool)
            for i, (row, _) in enumerate(group):
                ids[i, : len(row)], mask[i, : len(row)] = torch.tensor(row), True
            batches.append((ids, mask, torch.tensor([label for _, label in group])))
    loss = None
    for n, parts in enumerate(batches):
        if n == warmup:
            cpu, wall = time.process_time(), time.perf_counter()
        if causal:
            ids, told = parts
            loss = F.cross_entropy(model(ids, None).flatten(0, 1), told.flatten())
        else:
            ids, mask, labels = parts
            loss = F.cross_entropy(model(ids, mask), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
    done = time.process_time() - cpu, time.perf_counter() - wall
    peak = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM:")) / 1024
    print(json.dumps({"cpu_ms": done[0] * 1e3 / steps, "wall_ms": done[1] * 1e3 / steps, "peak_mb": peak, "log": f"loss {value:.4f}", "torch": torch.__version__}))


def arguments(case):
    shape, drop, kind = CASES[case]
    d, layers, heads, ff, seq, batch, words = SHAPES[shape]
    out = {"learning_rate": 1e-4, "lr_scheduler_type": "constant", "weight_decay": 0.01, "per_device_train_batch_size": batch,
           "model.hidden_size": d, "model.num_layers": layers, "model.num_heads": heads, "model.intermediate_size": ff,
           "model.dropout": drop, "model.attention_dropout": drop, "model.max_length": seq, "max_eval_samples": 1}
    if shape == "charlm":
        out |= {"task": "language-modeling", "model.tokenizer": "chars"}
    elif shape == "gpt":
        out |= {"task": "language-modeling", "model.tokenizer": "bpe", "model.vocab_size": words}
    else:
        out |= {"model.tokenizer": "word", "model.vocab_size": words + 5}
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ours", help="the bench `step`")
    p.add_argument("--cases", default=DEFAULT)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--steps", type=int, default=0, help="of a round; 0: about three seconds' worth")
    p.add_argument("--torch-only", nargs=2, metavar=("CASE", "DATA"), help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch_only:
        return torch_side(a.torch_only[0], a.warmup, a.steps, a.torch_only[1])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1",
           "MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_TOP_PAD_": str(64 << 20)}
    model = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")][0]
    print(f"{model}; load {os.getloadavg()[0]:.1f}; quickest (middle) of {a.rounds} rounds, processor ms a step")
    print(f"{'case':<20} {'hpsearch':>16} {'PyTorch':>16} {'times':>6} {'middle':>6}  {'peak MB':>12}")
    for case in a.cases.split(","):
        shape, drop, kind = CASES[case]
        steps = a.steps or {"tiny": 150, "charlm": 60, "small": 8, "gpt": 8, "mini": 4}[shape] * (3 if kind else 1)
        with tempfile.TemporaryDirectory() as room:
            args = os.path.join(room, "arguments.json")
            json.dump(arguments(case), open(args, "w"))
            if shape == "charlm":
                data = os.path.join(room, "text.txt")
                rng = random.Random(1)
                open(data, "w").write("".join(chr(48 + int(65 * rng.random() ** 2)) for _ in range(400_000)))
            else:
                data = os.path.join(room, "rows.csv")
                seq, batch, words = SHAPES[shape][4:]
                batches = max(20, 2 * words // (seq * batch) + 2) if not kind else max(60, 2 * words // (14 * batch))
                with open(data, "w") as f:
                    f.write("text,label\n")
                    for n, row in enumerate(make_rows(shape, kind, batches)):
                        f.write(" ".join(f"w{word}" for word in row) + f",{n % 77}\n")
            ours, theirs = [], []
            for _ in range(a.rounds):
                for side, command in ((ours, [a.ours, args, data, str(a.warmup), str(steps)]),
                                      (theirs, [sys.executable, __file__, "--warmup", str(a.warmup), "--steps", str(steps), "--torch-only", case, data])):
                    done = subprocess.run(command, env=env, capture_output=True, text=True)
                    if done.returncode:
                        sys.exit(f"{case}: {command[0]}: {done.stderr}{done.stdout}")
                    side.append(json.loads(done.stdout.strip().splitlines()[-1]))
            best = [min(r["cpu_ms"] for r in side) for side in (ours, theirs)]
            middle = [statistics.median(r["cpu_ms"] for r in side) for side in (ours, theirs)]
            peak = [max(r["peak_mb"] for r in side) for side in (ours, theirs)]
            print(f"{case:<20} {best[0]:8.1f} ({middle[0]:5.0f}) {best[1]:8.1f} ({middle[1]:5.0f}) {best[1] / best[0]:6.2f} {middle[1] / middle[0]:6.2f}"
                  f"  {peak[0]:5.0f} {peak[1]:6.0f}   {ours[-1]['log'].split('loss ')[-1].split()[0]} {theirs[-1]['log'].split()[-1]}", flush=True)


if __name__ == "__main__":
    main()
