#!/usr/bin/env python3
"""Processor time of one ask and tell with ten parameters, by sampler and by the trials before it: of `hpsearch ask-tell` as it is shipped.

    benches/search/latency.py --hpsearch target/release/hpsearch --sampler tpe:100,1000,10000 gp:100,200

The space is that of `cargo bench --bench suggest`: four logarithmic and three linear numbers, two whole ones, and four choices. What the
process has used is read before and after a window of trials around each length (a tenth of it, 40 to 100 trials), so that other programs
on the machine hardly count; protocol and journal are part of it, Python is not.
"""
import argparse, json, math, os, subprocess

SPACE = ([dict(name=f"log{i}", type="float", low=1e-6, high=1.0, log=True) for i in range(4)]
         + [dict(name=f"linear{i}", type="float", low=0.0, high=1.0, log=False) for i in range(3)]
         + [dict(name=f"whole{i}", type="int", low=1, high=64, log=True) for i in range(2)]
         + [dict(name="optimizer", type="cat", choices=["sgd", "adamw", "lion", "adagrad"])])


def loss(params):
    total = sum((math.log10(params[f"log{i}"]) + 2 + i) ** 2 for i in range(4)) / 10
    total += sum((params[f"linear{i}"] - 0.3 * i) ** 2 for i in range(3))
    return total + abs(math.log2(params["whole0"] / params["whole1"])) / 10 + 0.1 * (params["optimizer"] != "adamw")


def used(process):
    """Seconds that its threads were on a processor, to the nanosecond (the clock of /proc/PID/stat ticks every 10 ms)."""
    threads = os.listdir(f"/proc/{process.pid}/task")
    return sum(int(open(f"/proc/{process.pid}/task/{thread}/schedstat").read().split()[0]) for thread in threads) / 1e9


def measure(program, sampler, lengths):
    process = subprocess.Popen([program, "ask-tell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def say(**message):
        process.stdin.write(json.dumps(message) + "\n")
        answer = json.loads(process.stdout.readline())
        if "error" in answer:
            raise SystemExit(answer["error"])
        return answer

    say(cmd="init", space=SPACE, seed=0, n_trials=max(lengths) + 200, workers=1, direction="minimize", sampler={"type": sampler})
    windows = {length: min(100, max(40, length // 10)) for length in lengths}
    begins = {length - window // 2: (length, window) for length, window in windows.items()}
    ends, trial = {}, 0
    while begins or ends:
        if trial in begins:
            length, window = begins.pop(trial)
            ends[trial + window] = (length, window, used(process))
        answer = say(cmd="ask")
        say(cmd="tell", id=answer["id"], value=loss(answer["params"]))
        trial += 1
        if trial in ends:
            length, window, before = ends.pop(trial)
            print(f"{sampler} after {length} trials: {(used(process) - before) / window * 1e3:.3f} ms", flush=True)
    process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hpsearch", default="target/release/hpsearch")
    parser.add_argument("--sampler", nargs="+", default=["tpe:100,1000,10000", "gp:100,200"])
    arguments = parser.parse_args()
    for word in arguments.sampler:
        sampler, _, lengths = word.partition(":")
        measure(arguments.hpsearch, sampler, [int(length) for length in lengths.split(",")])


if __name__ == "__main__":
    main()
