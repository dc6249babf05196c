#!/usr/bin/env python3
"""Ladders of successive halving on the tables of replay.py without a sampler: thousands of studies in a minute.

    .venv/bin/python benches/search/ladders.py --tables DIR [--studies 100] [--biased]

Rows come in random order, or with `--biased` half of them, from the 21st on, from the best 15 % of the table: a stand-in for a
sampler that learns. One trial runs at a time, and as many checkpoints are spent as 20 full trainings have. A ladder begins at checkpoint
`first`, each rung is `factor` times as far, and one in `keep` of those that came there goes on (the first `keep - 1` always). `best of N` is
what a pruner that never errs would have found among the first N rows. Regret, mean of tables; in parentheses trials and full trainings.
"""
import argparse, statistics
import numpy as np
from replay import tables


def order(table, seed, biased):
    rng = np.random.RandomState(seed)
    rows = list(rng.permutation(len(table.curves)))
    if not biased:
        return rows
    rank = table.curves[:, -1].argsort().argsort()
    good, mixed, any_row = iter([row for row in rows[20:] if rank[row] < 0.15 * len(rows)]), dict.fromkeys(rows[:20]), iter(rows[20:])
    while len(mixed) < 400:
        row = next(good, None) if rng.rand() < 0.5 else None
        mixed[next(any_row) if row is None else row] = None
    return list(mixed)


def study(table, rows, first, factor, keep):
    rungs = [first]
    while round(rungs[-1] * factor) < table.steps:
        rungs.append(round(rungs[-1] * factor))
    came, spent, best, full = [[] for _ in rungs], 0, table.median, 0
    for trials, row in enumerate(rows[:400]):
        before = 0
        for rung, values in zip(rungs, came):
            spent, before = spent + rung - before, rung
            values.append(table.curves[row, rung - 1])
            survivors = int(len(values) / keep)
            if survivors and sum(value < values[-1] for value in values) >= survivors:
                break
        else:
            spent += table.steps - before
            if spent <= table.budget:
                best, full = min(best, table.curves[row, -1]), full + 1
        if spent >= table.budget:
            break
    return table.regret(best), trials + 1, full


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", required=True)
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--biased", action="store_true")
    parser.add_argument("--ladders", default="2,3,3 2,2,3 2,2,2 2,4,4 1,3,3 4,2,3", help="first,factor,keep")
    arguments = parser.parse_args()
    kinds = {kind: tables(arguments.tables, [kind], []) for kind in ("taskset", "lcbench")}
    rows = {(table.name, seed): order(table, seed, arguments.biased) for group in kinds.values() for table in group for seed in range(arguments.studies)}
    ladders = [tuple(map(float, word.split(","))) for word in arguments.ladders.split()]
    kinds_of_rule = [(f"first {int(first)}, factor {factor:g}, keep 1/{keep:g}", lambda t, r, rule=(int(first), factor, keep): study(t, r, *rule))
                     for first, factor, keep in ladders]
    kinds_of_rule += [(f"best of {n}", lambda t, r, n=n: (t.regret(t.curves[r[:n], -1].min()), n, n)) for n in (50, 100, 200)]
    for name, rule in kinds_of_rule:
        line = f"{name:32}"
        for kind, group in kinds.items():
            results = [[rule(table, rows[table.name, seed]) for seed in range(arguments.studies)] for table in group]
            mean = lambda index, runs: statistics.fmean(run[index] for run in runs)
            every = [run for runs in results for run in runs]
            by_table = " ".join(f"{mean(0, runs):.3f}" for runs in results)
            line += f" {kind} {mean(0, every):.3f} ({mean(1, every):.0f}, {mean(2, every):.0f}) {by_table}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
