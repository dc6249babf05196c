#!/usr/bin/env python3
"""Whether two programs suggest the same, bit for bit: every line of many `ask-tell` sessions, asked of both in lockstep.

    benches/search/same.py BEFORE/hpsearch AFTER/hpsearch [--rounds 1]

For a change that shall make a sampler faster and nothing else. Spaces of every kind of axis, samplers and pruners with some of their options, one
to sixteen trials out at a time, and trials that fail, are pruned, paused and promoted, and values of NaN and infinity; then some long sessions.
Ends with the first difference, or with what was asked.
"""
import argparse, collections, json, math, random, subprocess


def real(name, low, high, **more):
    return dict(name=name, type="float", low=low, high=high, **more)


def whole(name, low, high, **more):
    return dict(name=name, type="int", low=low, high=high, **more)


def choice(name, *choices, **more):
    return dict(name=name, type="cat", choices=list(choices), **more)


def when(parent, *values):
    return {"param": parent, "in": list(values)}


SPACES = {
    "floats": [real("a", 0, 1), real("b", -5, 5), real("c", 1e-6, 1, log=True)],
    "logarithms": [real(f"l{i}", 1e-6, 1, log=True) for i in range(5)],
    "whole": [whole("i", 1, 12), whole("j", 1, 64, log=True), whole("k", 2, 64, step=2), whole("big", 0, 1000000), whole("w", 4, 2048, log=True)],
    "steps": [real("s", 0, 0.5, step=0.05), real("t", -1, 1, step=0.25), real("x", 0, 1), whole("one", 3, 3)],
    "choices": [choice("c", "a", "b", "c"), choice("d", 1, 2, 4, 8), choice("e", True, False), real("x", 0, 1),
                choice("many", *[f"w{i}" for i in range(30)])],
    "conditional": [choice("family", "tree", "net"), whole("depth", 1, 16, when=when("family", "tree")),
                    real("rate", 1e-6, 1, log=True, when=when("family", "net")), whole("width", 8, 1024, log=True, when=when("family", "net")),
                    choice("opt", "sgd", "adam", when=when("family", "net")), real("mom", 0, 0.99, when=when("opt", "sgd")), real("always", 0, 1)],
    "ten": [real(f"log{i}", 1e-6, 1, log=True) for i in range(4)] + [real(f"lin{i}", 0, 1) for i in range(3)]
           + [whole(f"w{i}", 1, 64, log=True) for i in range(2)] + [choice("o", "sgd", "adamw", "lion", "adagrad")],
    "small": [whole("i", 1, 6), choice("c", "a", "b", "c"), real("s", 0, 1, step=0.1)],
}
REQUIRED = {"whole": "i * j <= 300", "ten": "lin0 + lin1 <= 1"}
TPE = {"type": "tpe"}
# Samplers, and how many trials of each.
SAMPLERS = [(TPE, 220), ({**TPE, "rules": "optuna"}, 220), ({**TPE, "n_ei_candidates": 100, "n_startup_trials": 5}, 220), ({**TPE, "gamma": 0.25}, 220),
            ({"type": "auto"}, 60), ({"type": "cmaes"}, 120)]
PROMOTE = {"type": "asha", "mode": "promote"}
PRUNERS = [None, {"type": "asha"}, PROMOTE, {"type": "hyperband", "max_resource": 9}, {"type": "median"}]


class Pair:
    """Two programs that are told the same."""

    def __init__(self, programs, what):
        self.processes = [subprocess.Popen([program, "ask-tell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
                          for program in programs]
        self.what, self.lines = what, 0

    def say(self, **message):
        self.lines += 1
        for process in self.processes:
            process.stdin.write(json.dumps(message) + "\n")
        before, after = [process.stdout.readline() for process in self.processes]
        if before != after:
            raise SystemExit(f"{self.what}: line {self.lines}, {json.dumps(message)}, is answered with\n{before}and\n{after}")
        answer = json.loads(before)
        if "error" in answer:
            raise SystemExit(f"{self.what}: {answer['error']}")
        return answer

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def loss(params):
    def one(index, value):
        if isinstance(value, bool):
            return 0.3 * value
        return (len(value) + ord(value[-1])) % 5 * 0.1 if isinstance(value, str) else abs(math.log10(abs(value) + 1e-7) + 1 + 0.1 * index)

    return sum(one(index, value) for index, (_, value) in enumerate(sorted(params.items())))


def session(programs, space, sampler, pruner, seed, trials, out):
    pair = Pair(programs, f"{space}, {json.dumps(sampler)}, {json.dumps(pruner)}, seed {seed}, {out} out")
    more = {"pruner": pruner} if pruner else {}
    if seed % 5 == 0 and space in REQUIRED:
        more["constraints"] = [{"require": REQUIRED[space]}]
    if seed % 7 == 0 and space == "ten":
        more["enqueue"] = [{"log0": 1e-3}, {"lin0": 0.5, "o": "lion"}]
    pair.say(cmd="init", space=SPACES[space], seed=seed, n_trials=trials, workers=out, sampler=sampler,
             direction="maximize" if seed % 3 == 2 else "minimize", **more)
    dice, running, paused, seen = random.Random(seed), {}, {}, collections.Counter(sessions=1)
    while True:
        while len(running) < out:
            answer = pair.say(cmd="ask")
            if "done" in answer:
                break
            if "resume" in answer:
                running[answer["resume"]] = paused.pop(answer["resume"])
                seen["promoted"] += 1
            else:
                running[answer["id"]] = (loss(answer["params"]), 0)
                seen["asked"] += 1
        if not running:
            pair.end()
            return seen
        trial = dice.choice(sorted(running))
        (value, step), chance = running[trial], dice.random() if seed % 2 == 0 or out > 1 else 1.0
        if pruner and step < 9 and chance >= 0.15:
            verdict = pair.say(cmd="report", id=trial, step=step + 1, value=value + 1 / (step + 1))["verdict"]
            running[trial] = (value, step + 1)
            if verdict == "pause":
                paused[trial] = running.pop(trial)
            elif verdict == "stop":
                pair.say(cmd="tell", id=trial, state="pruned")
                running.pop(trial)
            seen[verdict] += 1
            continue
        how = "failed" if chance < 0.06 else "pruned" if chance < 0.12 and step else None
        value = math.nan if chance < 0.14 else math.inf if chance < 0.15 else value
        pair.say(cmd="tell", id=trial, **({"state": how} if how else {"value": value}))
        running.pop(trial)
        seen[how or "complete"] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs=2)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    seen, seed = collections.Counter(), 0
    for _ in range(arguments.rounds):
        for space in SPACES:
            for sampler, trials in SAMPLERS:
                for pruner in PRUNERS if sampler == TPE else [None, PRUNERS[seed % 4 + 1]]:
                    seed += 1
                    seen += session(arguments.programs, space, sampler, pruner, seed, trials, [1, 1, 4, 16][seed % 4])
    for sampler, pruner, out in [(TPE, None, 1), (TPE, PROMOTE, 8), ({**TPE, "rules": "optuna"}, None, 1)]:
        for space in ["ten", "conditional", "whole"]:
            seed += 2
            seen += session(arguments.programs, space, sampler, pruner, seed - seed % 2, 1300, out)
    print("the same:", ", ".join(f"{count} {what}" for what, count in seen.items()))


if __name__ == "__main__":
    main()
