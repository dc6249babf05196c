#!/usr/bin/env python3
"""Whether training on a GPU is training on the processor: the same runs on both, report by report.

    cargo build --release --features cuda
    python3 benches/gpu/parity.py --hpsearch target/release/hpsearch [--device cuda:0] [--kinds f32,bf16,fp16]
        [--minilm DIRECTORY --banking train.csv]

Standard library only. Each case trains a fixed configuration on the processor in f32 and on the device in every kind; a line tells
the largest relative difference of a loss in the log, and of the evaluation losses. The f32 run on the device is made twice, and the
weights of both are compared bit for bit. `--minilm` is a checkpoint as studies/banking77-minilm.toml describes it; without it that case is left out.
"""
import argparse, concurrent.futures, hashlib, json, os, subprocess, sys, tempfile, time

# The largest relative difference from the processor's losses that counts as the same training.
BARS = {"f32": 0.01, "bf16": 0.03, "fp16": 0.03}

QUICKSTART = ["trainer.num_train_epochs=3", "trainer.logging_steps=5"]
CHARLM = ["trainer.max_steps=300", "trainer.eval_steps=100", "trainer.logging_steps=20"]
MINILM = ["trainer.max_steps=40", "trainer.eval_strategy=steps", "trainer.eval_steps=20", "trainer.logging_steps=5", "trainer.max_eval_samples=200",
          "pruner.type=none"]


def cases(a):
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "studies")
    yield "quickstart", os.path.join(here, "quickstart.toml"), QUICKSTART
    yield "charlm", os.path.join(here, "charlm.toml"), CHARLM
    if a.minilm:
        yield "minilm", os.path.join(here, "banking77-minilm.toml"), MINILM + [
            f"trainer.model={a.minilm}", f"data.train={a.banking}", f"data.test={a.banking}"]


def command(a, study, settings, device, kind, out):
    precise = [] if kind == "f32" else [f"trainer.{kind}=true"]
    threads = ["devices.cpu_threads=%d" % max(1, min(8, (os.cpu_count() or 1) // 2))] if device == "cpu" else []
    fixed = ["study.name=parity", "study.seed=7", "budget.trials=1", "sampler.type=random", f'devices.use=["{device}"]']
    sets = [word for setting in [*settings, *precise, *threads, *fixed] for word in ("--set", setting)]
    return [a.hpsearch, "--store", out + ".db", "run", study, "--plain", *sets]


def train(a, study, settings, device, kind, out):
    began = time.time()
    done = subprocess.run(command(a, study, settings, device, kind, out), capture_output=True, text=True)
    if done.returncode:
        return None, f"ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}", 0.0
    seconds = time.time() - began
    told = subprocess.run([a.hpsearch, "--store", out + ".db", "export-data", "parity", "--series", "--format", "jsonl"], capture_output=True, text=True, check=True)
    points = [json.loads(line) for line in told.stdout.splitlines()]
    return {(point["metric"], point["step"]): point["value"] for point in points if point["metric"] in ("loss", "eval_loss")}, "", seconds


def weights(a, out):
    """A digest of the weights of the trial's best checkpoint."""
    subprocess.run([a.hpsearch, "--store", out + ".db", "export", "parity", "-o", out + "-export"], capture_output=True, text=True, check=True)
    return hashlib.sha256(open(out + "-export/model.safetensors", "rb").read()).hexdigest()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hpsearch", required=True)
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--kinds", default="f32,bf16,fp16")
    p.add_argument("--minilm")
    p.add_argument("--banking")
    p.add_argument("--only", help="cases, by commas")
    a = p.parse_args()
    a.hpsearch = os.path.abspath(a.hpsearch)
    different = 0
    print(f"{'case':<11} {'kind':<5} {'loss differs':>12} {'eval_loss differs':>18} {'at most':>8} {'seconds':>8}  verdict")
    with tempfile.TemporaryDirectory() as room, concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = []
        for name, study, settings in cases(a):
            if a.only and name not in a.only.split(","):
                continue
            out = lambda kind: os.path.join(room, f"{name}-{kind}")
            runs = {"cpu": pool.submit(train, a, study, settings, "cpu", "f32", out("cpu"))}
            runs |= {kind: pool.submit(train, a, study, settings, a.device, kind, out(kind)) for kind in a.kinds.split(",")}
            runs["again"] = pool.submit(train, a, study, settings, a.device, "f32", out("again"))
            jobs.append((name, runs, out))
        for name, runs, out in jobs:
            reference, said, seconds = runs["cpu"].result()
            if reference is None:
                print(f"{name:<11} cpu   {said}")
                different += 1
                continue
            for kind in a.kinds.split(","):
                own, said, seconds = runs[kind].result()
                if own is None:
                    print(f"{name:<11} {kind:<5} {said}", flush=True)
                    different += 1
                    continue
                off = {"loss": 0.0, "eval_loss": 0.0}
                for (what, step), expected in reference.items():
                    off[what] = max(off[what], abs(own.get((what, step), float("inf")) - expected) / abs(expected))
                fine = max(off.values()) <= BARS[kind]
                different += not fine
                print(f"{name:<11} {kind:<5} {off['loss']:12.2e} {off['eval_loss']:18.2e} {BARS[kind]:8.2f} {seconds:8.1f}  {'the same' if fine else 'DIFFERENT'}", flush=True)
                if not fine:
                    print("   ", [(key, round(value, 4), round(own.get(key, float("nan")), 4)) for key, value in sorted(reference.items())][:24])
            again, said, _ = runs["again"].result()
            if again is not None and runs["f32"].result()[0] is not None:
                same = weights(a, out("f32")) == weights(a, out("again"))
                print(f"{name:<11} f32 twice on the device: weights {'equal, bit for bit' if same else 'differ'}", flush=True)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
