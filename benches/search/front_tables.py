#!/usr/bin/env python3
"""Fronts of tables of real trainings: error against size or time, by this program and by Optuna, with and without pruning.

    python3 -m venv .venv && .venv/bin/pip install optuna==5.0.0 pymoo==0.6.2 torch
    .venv/bin/python benches/search/front_tables.py run --tables DIR --sampler auto --out ours.jsonl
    .venv/bin/python benches/search/front_tables.py run --tables DIR --sampler optuna-tpe,optuna-nsga2,optuna-gp --out peers.jsonl
    .venv/bin/python benches/search/front_tables.py report --tables DIR ours.jsonl peers.jsonl
    .venv/bin/python benches/search/front_tables.py tables --tables DIR --out tables     for the example `fronts`, without the program around it
    .venv/bin/python benches/search/front_tables.py curves --tables DIR --out curves.jsonl
    .venv/bin/python benches/search/front_tables.py steps --tables DIR curves.jsonl

DIR is that of replay.py, with lcbench_real beside the others. The second objective is the logarithm of the time of a training
(`lcbench`), or of the number of weights, which follows from the parameters (`hpobench_mlp`, `lcbench_real`). Proposals are
answered as in replay.py. The gap is the hypervolume that is missing to that of the whole table's front, as a share of it; the
reference is the median error and the largest second objective. `curves` trains every trial to the end, and then with `asha`; `steps`
says after which share of the steps of the former the latter had its hypervolume.
"""
import argparse, collections, csv, json, math, os, random, time, warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np

from fronts import volume
from replay import LCBENCH, Ours, Table, unit

# Inputs and classes of the data of `hpobench_mlp`.
DATA = {"australian": (14, 2), "credit_g": (20, 2), "phoneme": (5, 2), "segment": (19, 7)}
# Rules are chosen on the former, and the latter are held out.
CHOSEN_ON = ["hpobench_mlp/credit_g", "hpobench_mlp/phoneme", "lcbench/task_168330"]
HELD_OUT = ["hpobench_mlp/australian", "hpobench_mlp/segment", "lcbench/task_126026", "lcbench/task_167152"]
CURVES_CHOSEN_ON = ["lcbench_real/Australian", "lcbench_real/fabert", "lcbench_real/phoneme"]
CURVES_HELD_OUT = ["lcbench_real/segment", "lcbench_real/sylvine", "lcbench_real/jannis", "lcbench_real/car"]


def weights(layers):
    return sum(one * other + other for one, other in zip(layers, layers[1:]))


def funnel(layers, units):
    """A network whose layers narrow evenly, with 20 inputs and 2 classes."""
    widths = [round(units + (2 - units) * layer / layers) for layer in range(layers)]
    return weights([20, *widths, 2])


class Real(Table):
    """A table of `lcbench_real`."""

    def __init__(self, path):
        self.name, self.kind = os.path.basename(path)[:-4], "lcbench_real"
        data = np.load(path)
        order = np.random.RandomState(0).permutation(len(data["X"]))
        rows, self.curves = data["X"][order], np.clip(np.nan_to_num(data["Y"][order], nan=10.0, posinf=10.0), None, 10.0)
        self.space = [dict(name=n, type=t, low=lo, high=hi, log=log) for n, (t, lo, hi, log) in LCBENCH.items()]
        self.unit = np.array([[unit(value, lo, hi, log) for value, (_, lo, hi, log) in zip(row, LCBENCH.values())] for row in rows])
        names = list(LCBENCH)
        self.second = np.log10([funnel(int(row[names.index("num_layers")]), row[names.index("max_units")]) for row in rows])
        self.steps = self.curves.shape[1]


class Fronts:
    """A table with two objectives, both minimized."""

    def __init__(self, directory, name):
        kind = name.split("/")[0]
        self.name = name
        if kind == "lcbench_real":
            self.table = Real(os.path.join(directory, name + ".npz"))
        else:
            self.table = Table(os.path.join(directory, name + ".csv"))
        self.space, self.steps = self.table.space, self.table.steps
        if kind == "lcbench":
            # In the order of the shuffled rows of the table.
            rows = list(csv.reader(open(os.path.join(directory, name + ".csv"))))
            times = {tuple(row[1:8]): float(row[rows[0].index("total_time")]) for row in rows[1:]}
            shuffled = rows[1:]
            random.Random(0).shuffle(shuffled)
            self.second = np.log10([times[tuple(row[1:8])] for row in shuffled])
        elif kind == "lcbench_real":
            self.second = self.table.second
        if kind == "hpobench_mlp":
            inputs, classes = DATA[name.split("/")[1]]
            names = list(self.table.choices)

            def size(key):
                value = lambda parameter: self.table.choices[parameter][int(key[names.index(parameter)])]
                return math.log10(weights([inputs] + [value("width")] * value("depth") + [classes]))

            self.all = {key: (error, size(key)) for key, error in self.table.grid.items()}
            everything = np.array(list(self.all.values()), dtype=float)
        else:
            everything = np.column_stack([self.table.curves[:, -1], self.second])
        self.low, self.high = everything.min(0), np.array([np.median(everything[:, 0]), everything[:, 1].max()])
        self.best = self.volume(everything)

    def values(self, row, step=None):
        if self.table.curves is None:
            return [float(value) for value in self.all[row]]
        return [self.table.value(row, step or self.steps), float(self.second[row])]

    def volume(self, values):
        if not len(values):
            return 0.0
        return volume((np.array(values) - self.low) / (self.high - self.low), np.ones(2))

    def gap(self, values):
        return (self.best - self.volume(values)) / self.best


def optuna_run(sampler, front, seed, trials):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kinds = {"tpe": optuna.samplers.TPESampler, "nsga2": optuna.samplers.NSGAIISampler, "gp": optuna.samplers.GPSampler, "random": optuna.samplers.RandomSampler}
    study = optuna.create_study(directions=["minimize"] * 2, sampler=kinds[sampler](seed=seed))
    found, used = [], set()
    for _ in range(trials):
        trial, params = study.ask(), {}
        for p in front.space:
            params[p["name"]] = (trial.suggest_categorical(p["name"], p["choices"]) if p["type"] == "cat" else
                                 trial.suggest_int(p["name"], p["low"], p["high"], log=p["log"]) if p["type"] == "int" else
                                 trial.suggest_float(p["name"], p["low"], p["high"], log=p["log"]))
        row = front.table.row(params, used)
        if front.table.curves is not None:
            used.add(row)
        found.append(front.values(row))
        study.tell(trial, found[-1])
    return found


def own_run(program, sampler, front, seed, trials):
    name, _, options = sampler.partition(":")
    sampler = {"type": name, **json.loads(options or "{}")}
    front.budget = trials
    ours = Ours(program, {"directions": ["minimize"] * 2, "sampler": sampler}, front, seed, 1, trials)
    found, used = [], set()
    for _ in range(trials):
        number, params = ours.ask()
        if number is None:
            break
        row = front.table.row(params, used)
        if front.table.curves is not None:
            used.add(row)
        found.append(front.values(row))
        ours.say(cmd="tell", id=number, values=found[-1])
    ours.close()
    return found


def curve_run(program, sampler, pruner, front, seed, trials, budget):
    """The values of complete trials, each with the steps spent until then."""
    options = {"directions": ["minimize"] * 2, "sampler": {"type": sampler}}
    if pruner:
        options["pruner"] = {"max_resource": front.steps, **pruner}
    ours = Ours(program, options, front, seed, 1, trials)
    complete, used, paused, spent, started = [], set(), {}, 0, 0
    while spent < budget:
        number, params = ours.ask()
        if number is None:
            break
        if params is None:
            row, step = paused.pop(number)
        else:
            row, step, started = front.table.row(params, used), 0, started + 1
            used.add(row)
        while spent < budget:
            step, spent = step + 1, spent + 1
            verdict = ours.say(cmd="report", id=number, step=step, values=front.values(row, step))["verdict"]
            if step == front.steps:
                complete.append([spent, *front.values(row)])
                ours.say(cmd="tell", id=number, values=front.values(row))
                break
            if verdict == "pause":
                paused[number] = (row, step)
                break
            if verdict == "stop":
                ours.say(cmd="tell", id=number, state="pruned")
                break
    ours.close()
    return complete, started


def lines(paths):
    return [json.loads(line) for path in paths if os.path.exists(path) for line in open(path)]


def run(a):
    made = {(r["table"], r["sampler"], r["seed"]) for r in lines([a.out])}
    names = a.only.split(",") if a.only else CHOSEN_ON + HELD_OUT
    fronts = [Fronts(a.tables, name) for name in names]
    for seed in range(a.seeds):
        for front in fronts:
            for sampler in a.sampler.split(";" if ":" in a.sampler else ","):
                if (front.name, sampler, seed) in made:
                    continue
                begin = time.process_time()
                if sampler.startswith("optuna-"):
                    found = optuna_run(sampler[len("optuna-"):], front, seed, a.trials)
                else:
                    found = own_run(a.hpsearch, sampler, front, seed, a.trials)
                seconds = time.process_time() - begin
                line = dict(table=front.name, sampler=a.label or sampler, seed=seed, seconds=seconds, values=found)
                with open(a.out, "a") as out:
                    out.write(json.dumps(line) + "\n")


def report(a):
    gaps, seconds = collections.defaultdict(list), collections.defaultdict(list)
    fronts = {}
    for r in lines(a.files):
        front = fronts.setdefault(r["table"], None) or Fronts(a.tables, r["table"])
        fronts[r["table"]] = front
        gaps[r["table"], r["sampler"]].append(front.gap(r["values"][: a.trials]))
        seconds[r["table"], r["sampler"]].append(r["seconds"])
    for table in [name for name in CHOSEN_ON + HELD_OUT + sorted(fronts) if name in fronts]:
        if fronts[table] is None:
            continue
        of = {sampler: found for (name, sampler), found in gaps.items() if name == table}
        peers = [np.mean(found) for sampler, found in of.items() if sampler.startswith("optuna-")]
        for sampler, found in sorted(of.items()):
            error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
            ratio = np.mean(found) / min(peers) if peers else np.nan
            print(f"{table:26} {sampler:30} seeds {len(found):3}  gap {np.mean(found):.5f} +- {error:.5f}  of the best peer's {ratio:5.2f}  {np.mean(seconds[table, sampler]):7.1f} s")
        fronts[table] = None


def tables(a):
    """The tables as the example `fronts` reads them."""
    os.makedirs(a.out, exist_ok=True)
    for name in CHOSEN_ON + HELD_OUT:
        front = Fronts(a.tables, name)
        if front.table.curves is None:
            levels, keys = [len(values) for values in front.table.choices.values()], list(front.all)
            rows = [[int(digit) / max(1, count - 1) for digit, count in zip(key, levels)] for key in keys]
        else:
            levels, keys = [0] * len(front.space), range(len(front.table.unit))
            rows = front.table.unit.tolist()
        table = dict(levels=levels, rows=rows, values=[front.values(key) for key in keys], is_grid=front.table.curves is None)
        with open(os.path.join(a.out, name.replace("/", "--") + ".json"), "w") as out:
            json.dump(table, out)


def curves(a):
    made = {(r["table"], r["label"], r["seed"]) for r in lines([a.out])}
    names = a.only.split(",") if a.only else CURVES_CHOSEN_ON + CURVES_HELD_OUT
    fronts = [Fronts(a.tables, name) for name in names]
    for seed in range(a.seeds):
        for front in fronts:
            whole = a.trials * front.steps
            for label, pruner, trials in [("whole", None, a.trials), (a.label, json.loads(a.pruner), 20 * a.trials)]:
                if (front.name, label, seed) in made:
                    continue
                complete, started = curve_run(a.hpsearch, a.sampler, pruner, front, seed, trials, whole if label == "whole" else int(a.share * whole))
                line = dict(table=front.name, label=label, seed=seed, started=started, whole=whole, complete=complete)
                with open(a.out, "a") as out:
                    out.write(json.dumps(line) + "\n")


def steps(a):
    """By table and label: where the mean hypervolume of the pruned runs reaches that of the whole ones."""
    by = collections.defaultdict(dict)
    for r in lines(a.files):
        by[r["table"], r["label"]][r["seed"]] = r
    fronts = {name: Fronts(a.tables, name) for name in {table for table, _ in by}}
    for (table, label), runs in sorted(by.items()):
        if label == "whole":
            continue
        whole, front = by[table, "whole"], fronts[table]
        seeds = sorted(set(runs) & set(whole))
        final = np.mean([front.gap([c[1:] for c in whole[seed]["complete"]]) for seed in seeds])
        gap_at = lambda share: np.mean([front.gap([c[1:] for c in runs[seed]["complete"] if c[0] <= share * runs[seed]["whole"]]) for seed in seeds])
        shares = np.arange(0.02, a.share + 0.001, 0.02)
        reached = next((share for share in shares if gap_at(share) <= final), np.nan)
        ahead = np.mean([front.gap([c[1:] for c in runs[s]["complete"] if c[0] <= 0.4 * runs[s]["whole"]]) <= front.gap([c[1:] for c in whole[s]["complete"]]) for s in seeds])
        print(f"{table:26} {label:20} seeds {len(seeds):3}  gap of whole runs {final:.5f}, at 40 % of the steps {gap_at(0.4):.5f}, reached at {100 * reached:.0f} %; ahead at 40 % in {100 * ahead:.0f} % of the runs; trials {np.mean([runs[s]['started'] for s in seeds]):.0f}, complete {np.mean([len(runs[s]['complete']) for s in seeds]):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, do in [("run", run), ("report", report), ("tables", tables), ("curves", curves), ("steps", steps)]:
        command = commands.add_parser(name)
        command.set_defaults(do=do)
        command.add_argument("--tables", required=True)
        command.add_argument("--trials", type=int, default=100)
        command.add_argument("--share", type=float, default=0.6, help="of the steps of whole runs, spent by pruned ones")
        if name in ("run", "curves"):
            command.add_argument("--only", default="")
            command.add_argument("--hpsearch", default="target/release/hpsearch")
            command.add_argument("--sampler", default="auto")
            command.add_argument("--label", default="" if name == "run" else "asha")
            command.add_argument("--pruner", default='{"type":"asha","min_resource":2,"rung_factor":2}')
            command.add_argument("--seeds", type=int, default=10)
            command.add_argument("--out", required=True)
        elif name == "tables":
            command.add_argument("--out", required=True)
        else:
            command.add_argument("files", nargs="+")
    a = parser.parse_args()
    a.do(a)


if __name__ == "__main__":
    main()
