"""Fourteen problems that no sampler here was tuned on: written before the samplers were changed last, looked at once, at the end.

`register(add, F, I, C, W)` has the form of problems.py. A function returns the true loss, or NaN where the trial fails; `noise` is
the deviation of what is told.
"""
import math
import numpy as np


def rotation(dimensions, seed):
    q, _ = np.linalg.qr(np.random.RandomState(seed).randn(dimensions, dimensions))
    return q


def shift(dimensions, seed, reach):
    return np.random.RandomState(seed).uniform(-reach, reach, dimensions)


def vector(c, n):
    return np.array([c[f"x{i}"] for i in range(n)], dtype=float)


def alpine(c, s=shift(6, 101, 5)):
    z = vector(c, 6) - s
    return float(np.abs(z * np.sin(z) + 0.1 * z).sum())


def rotated_valley(c, Q=rotation(5, 102), s=shift(5, 103, 0.8)):
    z = Q @ (vector(c, 5) - s) + 1
    return float((20 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum())


def rotated_cigar(c, Q=rotation(8, 104), s=shift(8, 105, 2.5)):
    z = Q @ (vector(c, 8) - s)
    return float(z[0] ** 2 + 300 * (z[1:] ** 2).sum())


def noisy_saddle(c, s=shift(7, 106, 0.5)):
    z = vector(c, 7) - s
    return float(1 + (np.linspace(0.3, 2, 7) * z * z).sum() + 0.8 * z[0] * z[6] + 0.3 * (1 - np.cos(5 * z[2])))


def heavy_tail_product(c, s=shift(5, 107, 0.6)):
    """Losses over seven orders of magnitude, and a kink at the best point."""
    z = np.abs(vector(c, 5) - s)
    return float(np.expm1(3.2 * (z * np.array([2, 1.5, 1, 0.8, 0.6])).sum()) + 0.05 * z.max())


def staircase(c, s=shift(4, 108, 0.7)):
    z = np.append(vector(c, 4) - s, [(c["n"] - 13) / 20, (math.log2(c["m"]) - 5.3) / 6])
    return float(np.ceil(5 * np.abs(z) * np.array([1.5, 1, 1, 0.7, 1.2, 0.8])).sum() / 5)


def failing_shell(c, s=np.array([0.35, -0.25, 0.3, -0.1, 0.15, -0.3])):
    """What lies near the diagonal or far out fails: two thirds of the cube."""
    x = vector(c, 6)
    if (x * x).sum() > 1.7 or abs(x.sum() - 0.1) < 0.12 or x[4] > 0.7:
        return math.nan
    z = x - s
    return float((z * z * np.array([3, 2, 2, 1, 1, 0.5])).sum() + 0.5 * abs(z[1] * z[2]))


def diverging(c):
    """A training that diverges: a cliff along the learning rate that depends on two others."""
    rate, batch, decay, warm = math.log10(c["rate"]), math.log2(c["batch"]), math.log10(c["decay"]), c["warm"]
    limit = -2.6 + 0.12 * (batch - 5) + 0.9 * warm
    if rate > limit:
        return 4.0 + 3 * (rate - limit)
    best = limit - 0.25
    return 0.35 + 0.11 * (rate - best) ** 2 + 0.004 * (batch - 6) ** 2 + 0.015 * (decay + 2.2 + 0.3 * (rate + 3)) ** 2 + 0.15 * (warm - 0.3) ** 2


def pipeline(c):
    """A scaler and a model with parameters of their own; what scales decides what the model's best parameter is."""
    loss = {"none": 0.06, "standard": 0.02, "quantile": 0.03}[c["scaler"]]
    offset = {"none": 1.0, "standard": 0.0, "quantile": -0.6}[c["scaler"]]
    if c["scaler"] == "quantile":
        loss += 0.02 * abs(math.log10(c["quantiles"]) - 2)
    if c["model"] == "kernel":
        loss += 0.10 + 0.02 * (math.log10(c["gamma"]) + 1.5 + offset) ** 2 + 0.01 * (math.log10(c["penalty"]) - 1 - 0.4 * offset) ** 2
    elif c["model"] == "neighbours":
        loss += 0.15 + 0.02 * (math.log2(c["neighbours"]) - 3) ** 2 / 4 + (0 if c["weights"] == "distance" else 0.01)
    else:
        loss += 0.09 + 0.008 * (c["leaves_depth"] - 5) ** 2 + 0.02 * (math.log10(c["shrink"]) + 1.1) ** 2 + 0.05 * (c["share"] - 0.7) ** 2
    return loss + 0.02 * (c["keep"] - 0.8) ** 2


def deep_tree(c):
    """Conditions of three levels."""
    loss = 0.5 + 0.02 * (math.log10(c["rate"]) + 3) ** 2
    if c["body"] == "conv":
        loss -= 0.10 - 0.01 * (c["stages"] - 3) ** 2
        if c["stages"] >= 3:
            loss += 0.02 * (math.log2(c["channels"]) - 6) ** 2 / 2 - 0.03
            if c["attend"]:
                loss += 0.01 * (c["heads"] - 4) ** 2 / 2 + 0.08 * (c["attend_drop"] - 0.1) ** 2 - 0.05
    elif c["body"] == "dense":
        loss -= 0.12 - 0.03 * (math.log2(c["width"]) - 8) ** 2 / 3
    else:
        loss -= 0.05 - 0.04 * abs(c["cells"] - 2)
    return loss


def mixture(c):
    table = np.random.RandomState(109).rand(4, 5)
    i, j = "abcd".index(c["kind"]), int(c["mode"])
    rate, wide = math.log10(c["rate"]), math.log2(c["wide"])
    loss = 0.3 * table[i, j] + 0.05 * (rate + 2 + 0.5 * i) ** 2 + 0.02 * (wide - 4 - j) ** 2 + 0.03 * (c["deep"] - 6) ** 2 / 4
    loss += 0.2 * (c["drop"] - 0.1 * i) ** 2 + 0.1 * abs(c["mix"] - 0.3) + (0.05 if c["flag"] else 0) * (2 - i) / 2
    return float(loss + 0.1 * (c["momentum"] - 0.9 + 0.1 * (rate + 3)) ** 2)


def ordered_choices(c):
    """Choices that hide an order, in pairs, beside two numbers."""
    order = np.random.RandomState(110).permutation(10)
    place = [order[int(c[f"c{k}"][1:])] / 9 for k in range(4)]
    loss = 2 * (place[0] - 0.3) ** 2 + abs(place[1] - place[0]) + 1.5 * (place[2] + place[3] - 1.1) ** 2 + 0.3 * place[3]
    return float(loss + (c["x0"] - place[2]) ** 2 + 0.5 * abs(c["x1"] - 0.2))


def sparse(c):
    x = vector(c, 25)
    return float(4 * (x[2] - 0.5) ** 2 + 6 * (x[9] * x[2] + 0.2) ** 2 + 3 * abs(x[17] + 0.4) + 2 * (x[22] - x[9]) ** 2)


def wide_integers(c, s=np.random.RandomState(111).randint(5, 95, 6)):
    z = (vector(c, 6) - s) / 100
    return float(3 * (z * z).sum() + 6 * (z[0] + z[1] - z[2]) ** 2 + 0.2 * np.abs(np.sin(6 * z)).sum())


def register(add, F, I, C, W):
    def box(n, low, high):
        return [F(f"x{i}", low, high) for i in range(n)]

    add("alpine6", box(6, -8, 8), alpine, "holdout", 0.0)
    add("rotated_valley5", box(5, -2, 2), rotated_valley, "holdout", 0.0)
    add("rotated_cigar8", box(8, -4, 4), rotated_cigar, "holdout", 0.0)
    add("noisy_saddle7", box(7, -1, 1), noisy_saddle, "holdout", None, noise=0.12)
    add("heavy_tail_product5", box(5, -1, 1), heavy_tail_product, "holdout", 0.0)
    add("staircase6", box(4, -1, 1) + [I("n", 0, 40), I("m", 1, 512, True)], staircase, "holdout", None)
    add("failing_shell6", box(6, -1, 1), failing_shell, "holdout", None)
    add("diverging4", [F("rate", 1e-6, 1, True), I("batch", 8, 512, True), F("decay", 1e-5, 1, True), F("warm", 0, 1)], diverging, "holdout", None, noise=0.01)
    add("pipeline", [C("scaler", ["none", "standard", "quantile"]), I("quantiles", 10, 1000, True, W("scaler", "quantile")),
        C("model", ["kernel", "neighbours", "boost"]), F("gamma", 1e-5, 1e2, True, W("model", "kernel")), F("penalty", 1e-3, 1e4, True, W("model", "kernel")),
        I("neighbours", 1, 128, True, W("model", "neighbours")), C("weights", ["uniform", "distance"], W("model", "neighbours")),
        I("leaves_depth", 1, 16, False, W("model", "boost")), F("shrink", 1e-3, 1, True, W("model", "boost")), F("share", 0.1, 1, False, W("model", "boost")),
        F("keep", 0.1, 1)], pipeline, "holdout", None, noise=0.004)
    add("deep_tree", [F("rate", 1e-6, 1, True), C("body", ["conv", "dense", "recurrent"]), I("stages", 1, 5, False, W("body", "conv")),
        I("channels", 4, 512, True, W("stages", 3, 4, 5)), C("attend", [False, True], W("stages", 3, 4, 5)), I("heads", 1, 12, False, W("attend", True)),
        F("attend_drop", 0, 0.8, False, W("attend", True)), I("width", 8, 4096, True, W("body", "dense")), I("cells", 1, 6, False, W("body", "recurrent"))],
        deep_tree, "holdout", None)
    add("mixture9", [C("kind", list("abcd")), C("mode", ["0", "1", "2", "3", "4"]), F("rate", 1e-6, 1, True), I("wide", 4, 4096, True), I("deep", 1, 16),
        F("drop", 0, 0.7), F("mix", 0, 1), C("flag", [False, True]), F("momentum", 0.3, 0.999)], mixture, "holdout", None, noise=0.02)
    add("ordered_choices6", [C(f"c{k}", [f"v{n}" for n in range(10)]) for k in range(4)] + [F("x0", 0, 1), F("x1", 0, 1)], ordered_choices, "holdout", None)
    add("sparse25", box(25, -1, 1), sparse, "holdout", None)
    add("wide_integers6", [I(f"x{i}", 0, 100) for i in range(6)], wide_integers, "holdout", None)
