#!/usr/bin/env python3
"""Samplers at equal budgets on the problems of problems.py and holdout.py: this program's by `hpsearch ask-tell`, Optuna's in process.

    python3 -m venv .venv && .venv/bin/pip install optuna==5.0.0 numpy
    .venv/bin/python benches/search/compare.py run --sampler optuna-tpe,optuna-random --out peers.jsonl
    .venv/bin/python benches/search/compare.py run --sampler auto,tpe --hpsearch target/release/hpsearch --out ours.jsonl
    .venv/bin/python benches/search/compare.py report peers.jsonl ours.jsonl

A run that is in the file is not made again. The best trial is chosen by what was told and scored by its true loss. Regret 1
is random search after 10 trials; `ratio` is the geometric mean over problems of the median regret over Optuna TPE's, regrets
below .001 counted as .001; `wins` is paired by seed, ties half; `worst` the largest ratio of one problem, below .01 as .01.
"""
import argparse, hashlib, json, math, os, statistics, subprocess, sys, warnings

warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np
import holdout, problems

PROBLEMS = {}
GROUPS = {}


def add(name, space, function, group, best=None, noise=0.0):
    PROBLEMS[name] = (space, function, best, noise)
    GROUPS.setdefault(group, []).append(name)


def F(name, low, high, log=False, when=None): return dict(name=name, type="float", low=low, high=high, log=log, when=when)
def I(name, low, high, log=False, when=None): return dict(name=name, type="int", low=low, high=high, log=log, when=when)
def C(name, choices, when=None): return dict(name=name, type="cat", choices=list(choices), when=when)
def W(parent, *values): return {"param": parent, "in": list(values)}


problems.register(add, F, I, C, W)
holdout.register(add, F, I, C, W)


def told(name, params, seed):
    """The noisy loss: the same for the same configuration and seed, whoever proposes it."""
    _, function, _, noise = PROBLEMS[name]
    key = json.dumps([name, seed, {k: round(v, 12) if isinstance(v, float) else v for k, v in sorted(params.items())}])
    number = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little") % 2**32
    true = float(function(params))
    return true, true + (noise * np.random.RandomState(number).randn() if noise else 0.0)


class Optuna:
    def __init__(self, name, space, seed, trials):
        import optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna, self.space = optuna, space
        samplers = {"optuna-tpe": optuna.samplers.TPESampler, "optuna-random": optuna.samplers.RandomSampler, "optuna-gp": optuna.samplers.GPSampler}
        self.study = optuna.create_study(sampler=samplers[name](seed=seed))

    def ask(self):
        self.trial, params = self.study.ask(), {}
        for p in self.space:
            if p["when"] and params.get(p["when"]["param"]) not in p["when"]["in"]:
                continue
            suggest = {"cat": lambda: self.trial.suggest_categorical(p["name"], p["choices"]),
                       "int": lambda: self.trial.suggest_int(p["name"], p["low"], p["high"], log=p["log"]),
                       "float": lambda: self.trial.suggest_float(p["name"], p["low"], p["high"], log=p["log"])}
            params[p["name"]] = suggest[p["type"]]()
        return params

    def tell(self, value):
        failed = math.isnan(value)
        self.study.tell(self.trial, None if failed else value, state=self.optuna.trial.TrialState.FAIL if failed else None)

    def close(self): pass


class Ours:
    def __init__(self, program, name, space, seed, trials):
        self.program = subprocess.Popen([program, "ask-tell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.say(cmd="init", space=space, seed=seed, n_trials=trials, workers=1, direction="minimize", sampler={"type": name})

    def say(self, **message):
        self.program.stdin.write(json.dumps(message) + "\n")
        self.program.stdin.flush()
        answer = json.loads(self.program.stdout.readline())
        if "error" in answer:
            raise SystemExit(answer["error"])
        return answer

    def ask(self):
        answer = self.say(cmd="ask")
        self.id = answer.get("id")
        return answer.get("params")

    def tell(self, value):
        self.say(cmd="tell", id=self.id, **({"state": "failed"} if math.isnan(value) else {"value": value}))

    def close(self):
        self.program.stdin.write('{"cmd":"quit"}\n')
        self.program.stdin.close()
        self.program.wait(timeout=10)


def run(arguments):
    done = set()
    if os.path.exists(arguments.out):
        done = {(r["sampler"], r["problem"], r["seed"]) for r in map(json.loads, open(arguments.out))}
    first, _, last = arguments.seeds.partition("-")
    names = [name for word in arguments.problems.split(",") for name in GROUPS.get(word, [word])]
    for seed in range(int(first), int(last or first) + 1):
        for name in names:
            for sampler in arguments.sampler.split(","):
                if (sampler, name, seed) in done:
                    continue
                space = PROBLEMS[name][0]
                peer = sampler.startswith("optuna-")
                subject = Optuna(sampler, space, seed, arguments.trials) if peer else Ours(arguments.hpsearch, sampler, space, seed, arguments.trials)
                best, score, scores = math.inf, 1e9, []
                for _ in range(arguments.trials):
                    params = subject.ask()
                    if params is None:
                        break
                    true, observed = told(name, params, seed)
                    subject.tell(observed)
                    if observed < best:
                        best, score = observed, true
                    scores.append(float(f"{score:.8g}"))
                subject.close()
                with open(arguments.out, "a") as file:
                    file.write(json.dumps(dict(sampler=sampler, problem=name, seed=seed, inc=scores)) + "\n")


def report(arguments):
    runs = {}
    for path in arguments.files:
        for r in map(json.loads, open(path)):
            runs.setdefault(r["sampler"], {}).setdefault(r["problem"], {})[r["seed"]] = r["inc"]
    everything = [(name, scores) for by in runs.values() for name, seeds in by.items() for scores in seeds.values()]
    best = {name: given[2] if given[2] is not None else min((min(s) for n, s in everything if n == name), default=0.0) for name, given in PROBLEMS.items()}
    print("| sampler | runs | trials | ratio | wins | worst |\n|---|---|---|---|---|---|")
    for sampler, by in sorted(runs.items()):
        for budget in (50, 100, 200):
            ratios, wins, worst = [], [], (0.0, "")
            for name, seeds in by.items():
                if name not in PROBLEMS: continue
                unit = statistics.median(s[9] for s in runs["optuna-random"][name].values()) - best[name]
                regret = lambda scores: max(0.0, scores[min(budget, len(scores)) - 1] - best[name]) / max(unit, 1e-9)
                base = {seed: regret(s) for seed, s in runs["optuna-tpe"][name].items()}
                mine = {seed: regret(s) for seed, s in seeds.items()}
                own, other = statistics.median(mine.values()), statistics.median(base.values())
                ratios.append(math.log(max(own, 1e-3) / max(other, 1e-3)))
                worst = max(worst, (max(own, 1e-2) / max(other, 1e-2), name))
                wins += [1.0 if r < base[seed] - 1e-12 else 0.5 if r <= base[seed] + 1e-12 else 0.0 for seed, r in mine.items() if seed in base]
            print(f"| {sampler} | {len(wins)} | {budget} | {math.exp(statistics.fmean(ratios)):.2f} | {statistics.fmean(wins):.0%} | {worst[0]:.1f} {worst[1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--sampler", default="auto")
    one.add_argument("--hpsearch", default="target/release/hpsearch")
    one.add_argument("--problems", default="extra", help="names, or the groups `extra` (problems.py) and `holdout` (holdout.py)")
    one.add_argument("--trials", type=int, default=200)
    one.add_argument("--seeds", default="0-19")
    one.add_argument("--out", required=True)
    one.set_defaults(do=run)
    two = commands.add_parser("report")
    two.add_argument("files", nargs="+")
    two.set_defaults(do=report)
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
