#!/usr/bin/env python3
"""Replays tables of real trainings: sampler and pruner against the checkpoints that they spend, beside Optuna 5.

    python3 -m venv .venv && .venv/bin/pip install optuna==5.0.0 numpy
    .venv/bin/python benches/search/replay.py run --tables DIR --peer optuna-tpe+asha,optuna-random+asha --out peers.jsonl
    .venv/bin/python benches/search/replay.py run --tables DIR --sampler auto --pruner '{"type":"asha"}' --label asha --out ours.jsonl
    .venv/bin/python benches/search/replay.py report --against optuna-tpe+asha peers.jsonl ours.jsonl

DIR has the folders taskset, lcbench, lcbench_real, fcnet and hpobench_mlp (README.md says what they hold). With curves, a study has as many
checkpoints to spend as 20 full trainings have; a complete grid has 80 trials. A proposal is the nearest row that its study has not used yet.
Regret: the final value of the best fully trained row, from 0 for the table's best to 1 for its median. With `--workers N` trials run side by side,
each a checkpoint in turn. A run that is in the file is not made again. The kind `surrogate` (surrogates.py) is continuous and needs no files; what
counts is the loss without noise of the training that reported the best one. In the pruner's options `max_resource` is the table's length unless it is
said.

With `--pool N` a proposal is not blurred by nearest rows: the program is shown N random unused rows (`candidates` of an ask) and chooses
one. The peer `pool-random+asha` takes random rows under promotion ASHA. `regret10` is the regret after half of the budget.
"""
import argparse, collections, csv, glob, json, math, os, random, statistics, subprocess, sys, time, warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np

from surrogates import NAMES, Surrogate

TASKSET = {"learning_rate": (1e-8, 10), "beta1": (1e-4, 1), "beta2": (1e-6, 1), "epsilon": (1e-10, 1e3), "l1": (1e-8, 10),
           "l2": (1e-8, 10), "linear_decay": (1e-7, 1e-4), "exponential_decay": (1e-6, 1e-3)}
LCBENCH = {"batch_size": ("int", 16, 512, True), "learning_rate": ("float", 1e-4, 1e-1, True), "momentum": ("float", .1, .99, False),
           "weight_decay": ("float", 1e-5, 1e-1, False), "num_layers": ("int", 1, 5, False), "max_units": ("int", 64, 1024, True), "max_dropout": ("float", 0., 1., False)}
KINDS = ["taskset", "lcbench", "lcbench_real", "surrogate", "fcnet", "hpobench_mlp"]


def number(text):
    value = float(text) if text not in ("nan", "inf", "-inf", "") else math.inf
    return value if math.isfinite(value) and abs(value) < 1e3 else 1e3


def unit(value, low, high, log):
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) if log else (value - low) / (high - low)


class Table:
    def __init__(self, path):
        self.name, self.kind = os.path.basename(path)[:-4], os.path.basename(os.path.dirname(path))
        if path.endswith(".npz"):
            head, rows = [], []
        else:
            rows = list(csv.reader(open(path)))
            head, rows = rows[0], rows[1:]
        random.Random(0).shuffle(rows)
        col = {name: index for index, name in enumerate(head)}
        self.curves = None
        if self.kind == "taskset":
            # The two betas are searched by their distance from 1.
            self.space = [dict(name=n, type="float", low=lo, high=hi, log=True) for n, (lo, hi) in TASKSET.items()]
            held = lambda n, row: max(1 - float(row[col[n]]), 1e-12) if n.startswith("beta") else float(row[col[n]])
            self.unit = np.array([[unit(held(n, row), lo, hi, True) for n, (lo, hi) in TASKSET.items()] for row in rows])
            self.curves = np.array([[number(row[col[f"valid_{k}"]]) for k in range(1, 52)] for row in rows])
        elif self.kind == "lcbench_real":
            arrays = np.load(path)
            order = np.random.RandomState(0).permutation(len(arrays["X"]))
            self.space = [dict(name=n, type=t, low=lo, high=hi, log=log) for n, (t, lo, hi, log) in LCBENCH.items()]
            held = lambda n, x: min(max(float(x), LCBENCH[n][1]), LCBENCH[n][2])
            self.unit = np.array([[unit(held(n, x), *LCBENCH[n][1:]) for n, x in zip(LCBENCH, row)] for row in arrays["X"][order]])
            self.curves = np.vectorize(number)(arrays["Y"][order])
        elif self.kind == "lcbench":
            self.space = [dict(name=n, type=t, low=lo, high=hi, log=log) for n, (t, lo, hi, log) in LCBENCH.items()]
            self.unit = np.array([[unit(float(row[col[n]]), lo, hi, log) for n, (t, lo, hi, log) in LCBENCH.items()] for row in rows])
            self.curves = np.array([[-float(row[col[f"val_acc_{k}"]]) for k in range(1, 53)] for row in rows])
        else:
            spec = json.load(open(os.path.join(os.path.dirname(path), "space.json")))
            sign = -1.0 if spec.get("direction") == "maximize" else 1.0
            self.choices = spec["params"]
            number_axis = lambda choices: all(isinstance(choice, (int, float)) for choice in choices)
            self.space = [dict(name=n, type="int", low=0, high=len(v) - 1, log=False) if number_axis(v) else dict(name=n, type="cat", choices=v)
                          for n, v in self.choices.items()]
            self.grid = {row[0]: sign * statistics.fmean(number(x) for x in row[1:] if x != "") for row in rows}
        final = np.array(list(self.grid.values())) if self.curves is None else self.curves[:, -1]
        self.best, self.median = float(final.min()), float(np.median(final))
        self.steps = 1 if self.curves is None else self.curves.shape[1]
        self.budget = 80 if self.curves is None else 20 * self.steps

    def row(self, params, used):
        if self.curves is None:
            return "".join(str(int(params[p["name"]]) if p["type"] == "int" else p["choices"].index(params[p["name"]])) for p in self.space)
        point = np.array([unit(params[p["name"]], p["low"], p["high"], p["log"]) for p in self.space])
        distance = ((self.unit - point) ** 2).sum(1)
        distance[list(used)] = np.inf
        return int(distance.argmin())

    def params(self, row):
        """The configuration of a row, in the space's own numbers."""
        params = {}
        for p, u in zip(self.space, self.unit[row]):
            low, high = p["low"], p["high"]
            value = math.exp(math.log(low) + u * (math.log(high) - math.log(low))) if p["log"] else low + u * (high - low)
            params[p["name"]] = int(round(value)) if p["type"] == "int" else min(max(value, low), high)
        return params

    def value(self, row, step):
        return self.grid[row] if self.curves is None else float(self.curves[row, step - 1])

    def regret(self, value):
        return max(0.0, min(1.0, (value - self.best) / (self.median - self.best)))


class Optuna:
    def __init__(self, name, table, seed):
        import optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna, self.table, self.trials = optuna, table, {}
        sampler, _, pruner = name.partition("+")
        samplers = {"optuna-tpe": optuna.samplers.TPESampler, "optuna-random": optuna.samplers.RandomSampler, "optuna-gp": optuna.samplers.GPSampler}
        pruners = {"": optuna.pruners.NopPruner, "median": optuna.pruners.MedianPruner,
                   "asha": lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3),
                   "hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=2, max_resource=table.steps, reduction_factor=3)}
        self.study = optuna.create_study(sampler=samplers[sampler](seed=seed), pruner=pruners[pruner]())

    def ask(self):
        trial, params = self.study.ask(), {}
        for p in self.table.space:
            params[p["name"]] = (trial.suggest_categorical(p["name"], p["choices"]) if p["type"] == "cat" else
                                 trial.suggest_int(p["name"], p["low"], p["high"], log=p["log"]) if p["type"] == "int" else
                                 trial.suggest_float(p["name"], p["low"], p["high"], log=p["log"]))
        self.trials[trial.number] = trial
        return trial.number, params

    def report(self, number, step, value):
        self.trials[number].report(value, step)
        return "stop" if self.trials[number].should_prune() else "continue"

    def tell(self, number, value, pruned):
        trial = self.trials.pop(number)
        self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED) if pruned else self.study.tell(trial, value)

    def close(self):
        pass


class PoolRandom:
    """Promotion ASHA (eta 3, first rung 2) over random rows."""

    def __init__(self, table):
        self.rungs, self.count = [2], 0
        while self.rungs[-1] * 3 < table.steps:
            self.rungs.append(self.rungs[-1] * 3)
        self.reached, self.promoted = [{} for _ in self.rungs], [set() for _ in self.rungs]

    def ask(self, candidates):
        for values, promoted in reversed(list(zip(self.reached, self.promoted))):
            best = sorted(values, key=values.get)[: len(values) // 3]
            waiting = [number for number in best if number not in promoted]
            if waiting:
                promoted.add(waiting[0])
                return waiting[0], None
        self.count += 1
        return self.count - 1, 0

    def report(self, number, step, value):
        if step not in self.rungs:
            return "continue"
        self.reached[self.rungs.index(step)][number] = value
        return "pause"

    def tell(self, number, value, pruned):
        pass

    def close(self):
        pass


class Ours:
    def __init__(self, program, options, table, seed, workers, trials=400):
        self.program = subprocess.Popen([program, "ask-tell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.say(cmd="init", space=table.space, seed=seed, n_trials=trials if table.steps > 1 else table.budget, workers=workers, **options)

    def say(self, **message):
        self.program.stdin.write(json.dumps(message) + "\n")
        answer = json.loads(self.program.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def ask(self, candidates=None):
        answer = self.say(cmd="ask", **({"candidates": candidates} if candidates else {}))
        if answer.get("done"):
            return None, None
        if "resume" in answer:
            return answer["resume"], None
        return answer["id"], answer["candidate"] if candidates else answer["params"]

    def report(self, number, step, value):
        return self.say(cmd="report", id=number, step=step, value=value)["verdict"]

    def tell(self, number, value, pruned):
        self.say(cmd="tell", id=number, **({"state": "pruned"} if pruned else {"value": value}))

    def close(self):
        self.program.stdin.write('{"cmd":"quit"}\n')
        self.program.stdin.close()
        self.program.wait(timeout=10)


def replay(table, peer, workers, pool=0, seed=0):
    rng, half = random.Random(seed), None
    used, spent, best, full, started, live, paused = set(), 0, None, 0, 0, [], {}
    while spent < table.budget:
        while len(live) < workers and started < 400:
            if pool and table.kind == "surrogate":
                rows = [[rng.random() for _ in table.space] for _ in range(pool)]
            else:
                rows = rng.sample([row for row in range(len(table.unit)) if row not in used], pool) if pool else []
            number, params = peer.ask([table.params(row) for row in rows]) if pool else peer.ask()
            if number is None:
                break
            if params is None:
                live.append(paused.pop(number))
                continue
            if table.kind == "surrogate":
                row = rows[params] if pool else table.point(params)
            else:
                row = rows[params] if pool else table.row(params, used)
                used.add(row)
            live.append([number, row, 0])
            started += 1
        if not live:
            break
        for job in list(live):
            if spent >= table.budget:
                break
            number, row, step = job[0], job[1], job[2] + 1
            job[2], spent = step, spent + 1
            half = best if 2 * spent <= table.budget else half
            value = table.value(row, step)
            verdict = peer.report(number, step, value) if table.steps > 1 else "continue"
            if step == table.steps:
                peer.tell(number, value, False)
                full = full + 1
                if best is None or value < best[0]:
                    best = value, table.end(row) if table.kind == "surrogate" else value
                live.remove(job)
            elif verdict == "pause":
                paused[number] = job
                live.remove(job)
            elif verdict == "stop":
                peer.tell(number, value, True)
                live.remove(job)
    of = lambda value: value[1] if value is not None else table.median
    return of(best), started, full, of(half)


def tables(directory, kinds, names):
    paths = [path for kind in kinds for path in sorted(glob.glob(os.path.join(directory, kind, "*.csv")) + glob.glob(os.path.join(directory, kind, "*.npz")))]
    found = [Table(path) for path in paths if not names or any(name in path for name in names)]
    surrogates = NAMES if "surrogate" in kinds else []
    return found + [Surrogate(name) for name in surrogates if not names or any(only in name for only in names)]


def read(paths):
    return [json.loads(line) for path in paths if os.path.exists(path) for line in open(path)]


def run(a):
    made = {(r["table"], r["label"], r["seed"], r["workers"]) for r in read([a.out])}
    low, _, high = a.seeds.partition("-")
    names = [name for name in a.peer.split(",") if name] or [a.label]
    options = {"direction": "minimize", "sampler": {"type": a.sampler}}
    for seed in range(int(low), int(high or low) + 1):
        for table in tables(a.tables, a.kinds.split(","), a.only):
            for workers in [int(count) for count in a.workers.split(",")]:
                for name in names:
                    if (table.name, name, seed, workers) in made:
                        continue
                    begun = time.process_time()
                    if name == "pool-random+asha":
                        peer = PoolRandom(table)
                    elif a.peer:
                        peer = Optuna(name, table, seed)
                    else:
                        own = dict(options)
                        if a.pruner and table.steps > 1:
                            own["pruner"] = json.loads(a.pruner)
                            if own["pruner"]["type"] in ("asha", "hyperband", "curve", "freeze-thaw"):
                                own["pruner"].setdefault("max_resource", table.steps)
                        peer = Ours(a.hpsearch, own, table, seed, workers, a.trials)
                    best, started, full, half = replay(table, peer, workers, a.pool, seed)
                    peer.close()
                    row = dict(table=table.name, kind=table.kind, label=name, seed=seed, workers=workers, regret=table.regret(best), regret10=table.regret(half), best=best, seconds=round(time.process_time() - begun, 2), trials=started, full=full)
                    with open(a.out, "a") as out:
                        out.write(json.dumps(row) + "\n")


def mean_of_tables(runs, key="regret"):
    by_table = collections.defaultdict(list)
    for r in runs:
        by_table[r["table"]].append(r[key])
    return statistics.fmean(statistics.fmean(v) for v in by_table.values())


def ratio_with_bounds(ours, peers, key="regret", draws=2000):
    """Ratio of the means over tables, with the 5 and 95 % points of a bootstrap over the seeds of each table."""
    tables = sorted({r["table"] for r in ours})
    regrets = lambda runs: [np.array([r[key] for r in sorted(runs, key=lambda r: r["seed"]) if r["table"] == t]) for t in tables]
    mine, theirs, rng = regrets(ours), regrets(peers), np.random.RandomState(0)
    resampled = lambda groups: np.mean([g[rng.randint(len(g), size=(draws, len(g)))].mean(1) for g in groups], axis=0)
    low, high = np.quantile(resampled(mine) / resampled(theirs), [.05, .95])
    return np.mean([g.mean() for g in mine]) / np.mean([g.mean() for g in theirs]), low, high


def report(a):
    key = "regret10" if a.half else "regret"
    rows = [r for r in read(a.files) if not a.only or any(name in r["table"] for name in a.only)]
    groups = collections.defaultdict(list)
    for r in rows:
        groups[(r["kind"], r["workers"], r["label"])].append(r)
    print(f"{'tables':13} {'w':>2} {'label':40} {'runs':>4} {'regret':>7} {'ratio':>6} {'5 %':>5} {'95 %':>5} {'trials':>6} {'full':>5}  by table")
    for (kind, workers, label), runs in sorted(groups.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1], mean_of_tables(item[1], key))):
        peers = groups.get((kind, workers, a.against))
        if peers and kind in ("taskset", "lcbench", "lcbench_real", "surrogate"):
            seeds = {(r["table"], r["seed"]) for r in runs} & {(r["table"], r["seed"]) for r in peers}
            paired = lambda rs: [r for r in rs if (r["table"], r["seed"]) in seeds]
            bounds = ratio_with_bounds(paired(runs), paired(peers), key) if seeds else (math.nan,) * 3
        else:
            bounds = (math.nan,) * 3
        by_table = {t: statistics.fmean(r[key] for r in runs if r["table"] == t) for t in sorted({r["table"] for r in runs})}
        print(f"{kind:13} {workers:2} {label:40} {len(runs):4} {mean_of_tables(runs, key):7.4f} " + " ".join(f"{b:5.2f}" for b in bounds) +
              f" {statistics.fmean(r['trials'] for r in runs):6.0f} {statistics.fmean(r['full'] for r in runs):5.1f}  " + " ".join(f"{v:.3f}" for v in by_table.values()))


def write_tables(a):
    os.makedirs(a.out, exist_ok=True)
    for table in tables(a.tables, a.kinds.split(","), []):
        own = dict(weights=table.weights) if table.kind == "surrogate" else dict(rows=table.unit.tolist(), curves=table.curves.tolist())
        shared = dict(name=table.name, kind=table.kind, space=table.space, steps=table.steps, budget=table.budget, best=table.best, median=table.median)
        json.dump({**shared, **own}, open(os.path.join(a.out, f"{table.kind}-{table.name}.json"), "w"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(required=True)
    r = sub.add_parser("run")
    r.add_argument("--tables", required=True)
    r.add_argument("--kinds", default="taskset,lcbench")
    r.add_argument("--only", nargs="*", default=[])
    r.add_argument("--peer", default="")
    r.add_argument("--hpsearch", default="target/release/hpsearch")
    r.add_argument("--sampler", default="auto")
    r.add_argument("--pruner", default="")
    r.add_argument("--label", default="hpsearch")
    r.add_argument("--seeds", default="0-29")
    r.add_argument("--workers", default="1,4")
    r.add_argument("--pool", type=int, default=0, help="rows that are shown with each ask; 0: nearest rows of proposals")
    r.add_argument("--trials", type=int, default=400, help="trials that a study with curves may have; nobody begins more than 400")
    r.add_argument("--out", required=True)
    r.set_defaults(do=run)
    r = sub.add_parser("tables", help="writes what curves.rs reads")
    r.add_argument("--tables", required=True)
    r.add_argument("--kinds", default="taskset,lcbench,lcbench_real,surrogate")
    r.add_argument("--out", required=True)
    r.set_defaults(do=write_tables)
    r = sub.add_parser("report")
    r.add_argument("files", nargs="+")
    r.add_argument("--against", default="optuna-tpe+asha")
    r.add_argument("--only", nargs="*", default=[])
    r.add_argument("--half", action="store_true", help="regrets after half of the budget")
    r.set_defaults(do=report)
    a = p.parse_args()
    a.do(a)


if __name__ == "__main__":
    main()
