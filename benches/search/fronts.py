#!/usr/bin/env python3
"""Fronts found at equal budgets, by this program's samplers and by Optuna's, on functions with known Pareto fronts.

    python3 -m venv .venv && .venv/bin/pip install optuna==5.0.0 pymoo==0.6.2 torch
    cargo run --release -p hpsearch-core --example fronts -- gp,tpe,nsga2 zdt1-30,dtlz2x2-12 100 10 > ours.jsonl
    .venv/bin/python benches/search/fronts.py run --sampler tpe,nsga2,gp --problems zdt1-30,dtlz2x2-12 --seeds 10 --out peers.jsonl
    .venv/bin/python benches/search/fronts.py report ours.jsonl peers.jsonl

The figure is the gap: the hypervolume that is missing to the best known front's, as a share of it, with the reference point
at 11 for each objective of the ZDT functions and at 1.1 for DTLZ2 (`--near`: at 1.1 for all). Means over seeds.
"""
import argparse, collections, json, time
import numpy as np


def values(problem, x):
    rest = x[1:]
    mean = rest.mean() if len(rest) else 0.0
    if problem in ("zdt1", "zdt2", "zdt3"):
        first, g = x[0], 1 + 9 * mean
        ratio = first / g
        shape = {"zdt1": 1 - np.sqrt(ratio), "zdt2": 1 - ratio**2, "zdt3": 1 - np.sqrt(ratio) - ratio * np.sin(10 * np.pi * first)}
        return [first, g * shape[problem]]
    if problem == "zdt4":
        z = 10 * rest - 5
        g = 1 + 10 * len(rest) + (z**2 - 10 * np.cos(4 * np.pi * z)).sum()
        return [x[0], g * (1 - np.sqrt(x[0] / g))]
    if problem == "zdt6":
        first = 1 - np.exp(-4 * x[0]) * np.sin(6 * np.pi * x[0]) ** 6
        g = 1 + 9 * mean**0.25
        return [first, g * (1 - (first / g) ** 2)]
    count = 3 if problem.endswith("3") else 2
    angles, rest = x[: count - 1], x[count - 1 :]
    radius = 1 + ((rest - 0.5) ** 2).sum()
    found = []
    for k in range(count):
        value = radius * np.prod(np.cos(0.5 * np.pi * angles[: count - 1 - k]))
        found.append(value * (np.sin(0.5 * np.pi * angles[count - 1 - k]) if k else 1.0))
    return found


def front(problem):
    """Points of the best known front, close enough that their hypervolume is its."""
    first = np.linspace(0, 1, 20001)
    curves = {
        "zdt1": 1 - np.sqrt(first),
        "zdt2": 1 - first**2,
        "zdt3": 1 - np.sqrt(first) - first * np.sin(10 * np.pi * first),
        "zdt4": 1 - np.sqrt(first),
    }
    if problem in curves:
        return np.column_stack([first, curves[problem]])
    if problem == "zdt6":
        first = np.linspace(0.2807753191, 1, 20001)
        return np.column_stack([first, 1 - first**2])
    angle = np.linspace(0, np.pi / 2, 20001)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def volume(points, reference):
    points = points[(points < reference).all(axis=1)]
    if not len(points):
        return 0.0
    if points.shape[1] > 2:
        from pymoo.indicators.hv import HV

        return float(HV(ref_point=reference)(points))
    points = points[np.lexsort((points[:, 1], points[:, 0]))]
    total, top = 0.0, reference[1]
    for first, second in points:
        if second < top:
            total += (reference[0] - first) * (top - second)
            top = second
    return total


def best(problem, reference):
    name = problem.split("-")[0]
    if name == "dtlz2x3":
        # The box less an eighth of the ball.
        return float(np.prod(reference)) - np.pi / 6
    if name == "dtlz2x2":
        return float(np.prod(reference)) - np.pi / 4
    return volume(front(name), reference)


def gap(run, near, trials):
    points = np.array(run["values"])[:trials]
    far = run["problem"].startswith("zdt") and not near
    reference = np.full(points.shape[1], 11.0 if far else 1.1)
    most = best(run["problem"], reference)
    return (most - volume(points, reference)) / most


def optuna_run(sampler, problem, seed, trials):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    name, axes = problem.split("-")
    axes = int(axes)
    kinds = {"tpe": optuna.samplers.TPESampler, "nsga2": optuna.samplers.NSGAIISampler, "nsga3": optuna.samplers.NSGAIIISampler, "gp": optuna.samplers.GPSampler, "random": optuna.samplers.RandomSampler}
    count = len(values(name, np.full(axes, 0.5)))
    study = optuna.create_study(directions=["minimize"] * count, sampler=kinds[sampler](seed=seed))
    found = []

    def objective(trial):
        x = np.array([trial.suggest_float(f"x{axis:02}", 0, 1) for axis in range(axes)])
        found.append([float(value) for value in values(name, x)])
        return tuple(found[-1])

    begin = time.process_time()
    study.optimize(objective, n_trials=trials)
    return {"sampler": f"optuna-{sampler}", "problem": problem, "seed": seed, "seconds": time.process_time() - begin, "values": found}


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--sampler", required=True)
    run.add_argument("--problems", required=True)
    run.add_argument("--seeds", type=int, default=10)
    run.add_argument("--trials", type=int, default=100)
    run.add_argument("--out", required=True)
    report = commands.add_parser("report")
    report.add_argument("files", nargs="+")
    report.add_argument("--near", action="store_true")
    report.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.command == "run":
        import warnings

        warnings.filterwarnings("ignore")
        with open(arguments.out, "a") as out:
            for problem in arguments.problems.split(","):
                for sampler in arguments.sampler.split(","):
                    for seed in range(arguments.seeds):
                        out.write(json.dumps(optuna_run(sampler, problem, seed, arguments.trials)) + "\n")
                        out.flush()
        return
    gaps, seconds = collections.defaultdict(list), collections.defaultdict(list)
    for name in arguments.files:
        for line in open(name):
            run = json.loads(line)
            key = run["problem"], run["sampler"]
            gaps[key].append(gap(run, arguments.near, arguments.trials))
            seconds[key].append(run["seconds"])
    for problem in sorted({problem for problem, _ in gaps}):
        peers = [np.mean(found) for (name, sampler), found in gaps.items() if name == problem and sampler.startswith("optuna-")]
        for (name, sampler), found in sorted(gaps.items()):
            if name == problem:
                ratio = np.mean(found) / min(peers) if peers else float("nan")
                error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else float("nan")
                print(f"{problem:12} {sampler:40} seeds {len(found):3}  gap {np.mean(found):.5f} +- {error:.5f}  of the best peer's {ratio:6.2f}  {np.mean(seconds[name, sampler]):7.2f} s")


if __name__ == "__main__":
    main()
