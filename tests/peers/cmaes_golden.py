#!/usr/bin/env python3
"""Writes src/core/samplers/cmaes/reference.json: generations of the package `cmaes`, its points and what it made of them.

    python3 -m venv .venv && .venv/bin/pip install cmaes==0.13.1 numpy
    .venv/bin/python tests/peers/cmaes_golden.py > src/core/samplers/cmaes/reference.json

With `figures` behind it, the trials that the package takes to reach 1e-3 on two functions (20 seeds, as the test in
src/core/samplers/cmaes/tests.rs counts them): unit cube, deviation .2, start in the middle.
"""
import json, sys
import numpy as np
from cmaes import CMA


def sphere(x):
    return float(((x - 0.3) ** 2).sum() * 100)


def valley(x):
    z = 4 * x - 1.5
    return float((100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum())


def golden():
    cases = []
    for axes, population, seed in [(3, None, 1), (5, 12, 2)]:
        cma = CMA(mean=np.full(axes, 0.5), sigma=0.2, seed=seed, population_size=population)
        generations = []
        for _ in range(12):
            told = [(x, valley(x)) for x in (cma.ask() for _ in range(cma.population_size))]
            told.sort(key=lambda pair: pair[1])
            cma.tell(told)
            cma._eigen_decomposition()
            generations.append({"points": [list(x) for x, _ in told], "mean": list(cma._mean), "sigma": float(cma._sigma), "covariance": [list(row) for row in cma._C]})
        cases.append({"axes": axes, "population": cma.population_size, "generations": generations})
    json.dump({"cases": cases}, sys.stdout)


def figures():
    for name, function, axes in [("sphere", sphere, 5), ("valley", valley, 4)]:
        counts = []
        for seed in range(20):
            cma, count, found = CMA(mean=np.full(axes, 0.5), sigma=0.2, seed=seed, bounds=np.array([[0, 1]] * axes)), 0, False
            while not found and count < 20000:
                told = []
                for _ in range(cma.population_size):
                    x = cma.ask()
                    count += 1
                    told.append((x, function(x)))
                    if told[-1][1] < 1e-3:
                        found = True
                        break
                if not found:
                    cma.tell(told)
            counts.append(count)
        print(name, sorted(counts)[10], sorted(counts)[2], sorted(counts)[17])


figures() if sys.argv[1:] == ["figures"] else golden()
