#!/usr/bin/env python3
"""Writes src/core/study/pareto/pymoo.json: ranks, hypervolumes and exclusive contributions of pymoo.

    python3 -m venv .venv && .venv/bin/pip install pymoo==0.6.2 numpy
    .venv/bin/python tests/peers/pareto_golden.py > src/core/study/pareto/pymoo.json

The points are samples of the fronts of ZDT1 to 4, ZDT6 and DTLZ2, and random points of two to five objectives, rounded so
that the file is short.
"""
import json, sys
import numpy as np
from pymoo.indicators.hv import HV
from pymoo.problems import get_problem
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting
from pymoo.util.ref_dirs import get_reference_directions


def case(name, points):
    points = np.round(np.asarray(points, dtype=float), 6)
    reference = np.round(points.max(axis=0) * 1.1 + 0.05, 6)
    volume = HV(ref_point=reference)
    rank = NonDominatedSorting().do(points, return_rank=True)[1]
    front = np.flatnonzero(rank == 0)
    whole = float(volume(points[front]))
    alone = [whole - float(volume(points[np.delete(front, place)])) for place in range(len(front))]
    return {
        "name": name,
        "points": points.tolist(),
        "reference": reference.tolist(),
        "ranks": [int(rank) for rank in rank],
        "hypervolume": whole,
        "front": [int(index) for index in front],
        "contributions": alone,
    }


def main():
    cases = []
    for name in ["zdt1", "zdt2", "zdt3", "zdt4", "zdt6"]:
        front = get_problem(name).pareto_front()
        cases.append(case(name, front[np.linspace(0, len(front) - 1, 40).astype(int)]))
    for objectives, parts in [(2, 30), (3, 7), (4, 4), (5, 3)]:
        directions = get_reference_directions("das-dennis", objectives, n_partitions=parts)
        front = get_problem("dtlz2", n_var=objectives + 9, n_obj=objectives).pareto_front(directions)
        cases.append(case(f"dtlz2 of {objectives}", front))
    rng = np.random.default_rng(7)
    for objectives in [2, 3, 4, 5]:
        cases.append(case(f"random of {objectives}", rng.normal(size=(50, objectives))))
        # Few different values: ties in single objectives, and equal points.
        cases.append(case(f"coarse of {objectives}", rng.integers(0, 4, size=(50, objectives))))
    json.dump({"cases": cases}, sys.stdout)


main()
