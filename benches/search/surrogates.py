"""Continuous surrogates of learning curves: losses of any configuration at any step, for replay.py and curves.rs.

Six problems of six parameters in the unit cube and 60 steps. A curve falls towards a level, exponentially or by a power law. The level depends
on four parameters, the half-life on all six, the shape on the fifth. What each problem adds:

- `smooth`: nothing. `noisy`: noise about as large as the standard deviation of final losses. `crossing`: the better a configuration ends, the
  slower it falls.
- `diverging`: 11 to 38 % of the space diverge, close to the best configurations, at a step that depends on the configuration.
- `overfitting`: quick configurations rise again. `all`: all of it.

Each has a second instance with other weights (`smooth-2`), to check what was chosen on the first. The formulas were written before any rule
was chosen on them, and are not changed since. curves.rs has the same ones: `python benches/search/surrogates.py` and
`curves values - - 0 0 0-0 TABLES/surrogate-*` print the same values.
"""
import math

import numpy as np

AXES, STEPS = 6, 60
NAMES = {"smooth": {}, "noisy": dict(noise=.1), "crossing": dict(crossing=1.0), "diverging": dict(diverging=1.0),
         "overfitting": dict(overfitting=.5), "all": dict(noise=.05, crossing=.7, diverging=1.0, overfitting=.3)}
FIRST = list(NAMES)
NAMES.update({f"{name}-2": dict(NAMES[name]) for name in FIRST})


class Surrogate:
    def __init__(self, name):
        kind, second, _ = name.partition("-2")
        rng = np.random.RandomState(FIRST.index(kind) + (200 if second else 100))
        self.name, self.kind, self.steps = name, "surrogate", STEPS
        self.weights = dict(noise=0.0, crossing=0.0, diverging=0.0, overfitting=0.0, centre=rng.uniform(.25, .75, AXES).tolist(),
                            steep=[1.0, .8, .5, .3, 0.0, 0.0], tilt=rng.uniform(-1, 1, AXES).tolist(), wave=rng.uniform(2, 5, AXES).tolist())
        self.weights.update(NAMES[name])
        points = np.random.RandomState(7).uniform(size=(20000, AXES))
        ends = np.array([self.end(x) for x in points])
        self.median, best = float(np.median(ends)), points[int(ends.argmin())]
        # Down to the least end by shrinking steps.
        value, reach, steps = float(ends.min()), .2, np.random.RandomState(8)
        while reach > 1e-6:
            around = np.clip(best + reach * steps.normal(size=(60, AXES)), 0, 1)
            values = [self.end(x) for x in around]
            if min(values) < value:
                value, best = min(values), around[int(np.argmin(values))]
            else:
                reach *= .7
        self.best, self.budget = value, 20 * STEPS
        self.space = [dict(name=f"x{axis}", type="float", low=0.0, high=1.0, log=False) for axis in range(AXES)]

    def loss(self, x, t):
        """The loss without noise."""
        w = self.weights
        bowl = sum(s * (a - c) ** 2 + .05 * s * (1 - math.cos(2 * math.pi * v * (a - c))) for s, a, c, v in zip(w["steep"], x, w["centre"], w["wave"]))
        level = bowl / (.3 + bowl)
        tilt = sum(a * v for a, v in zip(x, w["tilt"])) / 3.0
        # Steps to half of the way, in shares of a full training.
        half = 10.0 ** (-1.3 + .4 * tilt + w["crossing"] * .9 * (.7 - level))
        share = t / STEPS
        way = .5 ** (share / half) if x[4] < .5 else 1.0 / (1.0 + share / half)
        loss = level + (2.0 - level) * way
        loss += w["overfitting"] * max(0.0, .15 - half) / .15 * share ** 2
        edge = x[0] - w["centre"][0] - .08
        if w["diverging"] and edge > 0 and x[1] > .4:
            loss += w["diverging"] * 20.0 * max(0.0, share - .6 * math.exp(-8 * edge)) ** 2
        return loss

    def value(self, x, t):
        """The loss that a training reports: with noise, which is a function of its place."""
        mixed = math.sin(sum((i + 1) * 12.9898 * a for i, a in enumerate(x)) + 78.233 * t) * 43758.5453
        first, second = mixed - math.floor(mixed), mixed * 7.77 - math.floor(mixed * 7.77)
        normal = math.sqrt(-2 * math.log(max(first, 1e-12))) * math.cos(2 * math.pi * second)
        return self.loss(x, t) + self.weights["noise"] * (normal if self.weights["noise"] else 0.0)

    def end(self, x):
        return self.loss(x, STEPS)

    def params(self, x):
        return {p["name"]: float(a) for p, a in zip(self.space, x)}

    def point(self, params):
        return [params[p["name"]] for p in self.space]

    def regret(self, value):
        return max(0.0, min(1.0, (value - self.best) / (self.median - self.best)))


if __name__ == "__main__":
    for name in NAMES:
        surrogate = Surrogate(name)
        points = [[.1 * (1 + (3 * axis + 2 * k) % 9) for axis in range(AXES)] for k in range(3)]
        print(name, f"best {surrogate.best:.4f} median {surrogate.median:.4f}", *[f"{surrogate.value(x, t):.6f}" for x in points for t in (1, 20, 60)])
