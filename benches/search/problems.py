"""Fourteen problems that no sampler here was tuned on: shifted, rotated, noisy, conditional, heavy-tailed, flat, failing.

`register(add, F, I, C, W)` has the form that the comparison harness takes: F, I and C make float, int and choice parameters,
W a condition. A function returns the true loss, or NaN where the trial fails; `noise` is the deviation of what is told.
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


def rotated_ellipsoid(c, Q=rotation(6, 1), s=shift(6, 2, 3)):
    z = Q @ (vector(c, 6) - s)
    return float((10 ** (3 * np.arange(6) / 5) * z * z).sum())


def griewank(c, s=shift(5, 3, 6)):
    z = vector(c, 5) - s
    return float((z * z).sum() / 40 + 1 - np.cos(z / np.sqrt(np.arange(1, 6))).prod())


def noisy_bowl(c, s=shift(6, 4, 0.6)):
    z = np.append(vector(c, 5), (c["k"] - 10) / 10) - s
    return float(1 + 2 * (z * z).sum() + 0.5 * z[0] * z[1])


def heavy_tail(c, s=shift(7, 5, 0.5)):
    z = vector(c, 7) - s
    return float(np.expm1(4 * (z * z * np.linspace(0.5, 2, 7)).sum()) + 0.1 * np.abs(z).sum())


def plateau(c, s=shift(5, 6, 0.5)):
    return float(np.floor(8 * np.abs(vector(c, 5) - s)).sum() / 8)


def failing(c, s=np.array([0.3, -0.4, 0.2, 0.45])):
    z = vector(c, 4) - s
    # A third of the cube fails, and the best point lies a little inside its border.
    if vector(c, 4)[:2].sum() > 0.05 or z[2] > 0.5:
        return math.nan
    return float((z * z * np.array([4, 2, 1, 1])).sum() + 0.4 * abs(z[0] * z[3]))


def layers(c):
    """A network: how many layers, each with a width and a kind; the kinds have parameters of their own. Two levels."""
    n, loss = c["depth"], 0.30
    loss += 0.02 * (math.log10(c["rate"]) + 2.4 + 0.25 * n) ** 2
    for i in range(n):
        width = math.log2(c[f"width{i}"])
        loss += (0.012 * (width - 7.5 + i) ** 2 - 0.035) * 0.9 ** i
        if c[f"kind{i}"] == "conv":
            loss += 0.004 * (c[f"kernel{i}"] - 5 + i) ** 2 - 0.012
        elif c[f"kind{i}"] == "pool":
            loss += 0.03 * (c[f"ratio{i}"] - 0.4) ** 2 - (0.02 if i == 1 else -0.01)
    return loss + 0.012 * max(0, n - 2) ** 2


def layer_space(F, I, C, W):
    space = [F("rate", 1e-5, 1, True), I("depth", 1, 4)]
    for i in range(4):
        when = W("depth", *range(i + 1, 5)) if i else None
        space += [I(f"width{i}", 4, 1024, True, when), C(f"kind{i}", ["dense", "conv", "pool"], when)]
        space += [I(f"kernel{i}", 1, 9, False, W(f"kind{i}", "conv")), F(f"ratio{i}", 0, 1, False, W(f"kind{i}", "pool"))]
    return space


def schedules(c):
    """Optimisers with parameters of their own beside shared ones that interact with them, and noise."""
    rate, decay = math.log10(c["rate"]), math.log10(c["decay"])
    best = {"sgd": -0.8, "adam": -2.9, "lion": -3.7}[c["optimizer"]]
    loss = {"sgd": 0.21, "adam": 0.22, "lion": 0.19}[c["optimizer"]]
    if c["optimizer"] == "sgd":
        best += 0.8 * math.log10(max(1 - c["momentum"], 1e-3) * 10)
        loss += 0.05 * (c["momentum"] - 0.9) ** 2 * 10 - (0.015 if c["nesterov"] else 0)
    elif c["optimizer"] == "adam":
        loss += 0.006 * (math.log10(1 - c["beta"]) + 2.2) ** 2
    if c["warmup"] == "linear":
        best += 0.3
        loss += 0.01 * (math.log2(c["warmup_steps"]) - 7) ** 2 * 0.3 - 0.012
    return loss + 0.05 * min((rate - best) ** 2, 4) + 0.008 * (decay + rate + 6) ** 2 + 0.02 * (c["dropout"] - 0.15) ** 2 * 8


def branches(c):
    """Four families; the best one, when tuned, is the worst when it is not."""
    f = c["family"]
    if f == "net":
        return 0.05 + 0.06 * min((math.log10(c["net_rate"]) + 3.1) ** 2, 6) + 0.03 * (c["net_depth"] - 4) ** 2 * 0.5 + 0.08 * (c["net_drop"] - 0.2) ** 2
    if f == "forest":
        return 0.10 + 0.02 * abs(c["forest_share"] - 0.35) + 0.004 * abs(math.log2(c["forest_leaf"]) - 2)
    if f == "boost":
        return 0.08 + 0.03 * (math.log10(c["boost_rate"]) + math.log10(c["boost_rounds"]) - 1.2) ** 2 + 0.005 * (c["boost_depth"] - 6) ** 2
    return 0.16 + 0.01 * (math.log10(c["linear_l2"]) + 1) ** 2


def whole_numbers(c, Q=rotation(8, 7), s=np.random.RandomState(8).randint(4, 27, 8)):
    z = Q @ (vector(c, 8) - s) / 8
    return float((np.linspace(1, 9, 8) * z * z).sum())


def choices(c, tables=np.random.RandomState(9)):
    t = np.random.RandomState(9)
    single, pair = t.rand(6, 6), t.rand(6, 6)
    i = [int(c[f"c{j}"][1:]) for j in range(6)]
    loss = sum(single[j, i[j]] for j in range(6)) + pair[i[0], i[1]] + pair[i[2], i[3]]
    return float(loss + 1.5 * (c["x0"] - 0.1 * i[4]) ** 2 + 0.3 * (math.log10(c["z"]) + 0.5 * i[5]) ** 2 + (c["x1"] - 0.7) ** 2)


def ridge(c):
    a, b, d = math.log10(c["a"]), math.log10(c["b"]), math.log10(c["d"])
    return 8 * (b + 3 - 0.25 * (a + 3) ** 2) ** 2 + 0.3 * (a + 1.6) ** 2 + 2 * (d - 0.5 * a) ** 2


def michalewicz(c):
    x = vector(c, 5)
    return float(4.687658 - (np.sin(x) * np.sin(np.arange(1, 6) * x * x / np.pi) ** 20).sum())


def few_of_many(c):
    x = vector(c, 20)
    return float(5 * (x[3] - 0.4) ** 2 + 3 * (x[11] + 0.3) ** 2 + 4 * (x[17] - x[3] - 0.2) ** 2 + 0.02 * np.abs(x).sum())


def register(add, F, I, C, W):
    def box(n, low, high):
        return [F(f"x{i}", low, high) for i in range(n)]

    add("rotated_ellipsoid6", box(6, -5, 5), rotated_ellipsoid, "extra", 0.0)
    add("griewank5", box(5, -10, 10), griewank, "extra", 0.0)
    add("noisy_bowl6", box(5, -1, 1) + [I("k", 0, 20)], noisy_bowl, "extra", 1.0 - 0.125, noise=0.15)
    add("heavy_tail7", box(7, -1, 1), heavy_tail, "extra", 0.0)
    add("plateau5", box(5, -1, 1), plateau, "extra", 0.0)
    add("failing4", box(4, -1, 1), failing, "extra", None)
    add("layers", layer_space(F, I, C, W), layers, "extra", None, noise=0.004)
    add("schedules", [C("optimizer", ["sgd", "adam", "lion"]), F("rate", 1e-6, 1, True), F("decay", 1e-7, 1e-1, True), F("dropout", 0, 0.6),
        F("momentum", 0, 0.99, False, W("optimizer", "sgd")), C("nesterov", [False, True], W("optimizer", "sgd")),
        F("beta", 0.9, 0.9999, False, W("optimizer", "adam")), C("warmup", ["none", "linear"]),
        I("warmup_steps", 8, 2048, True, W("warmup", "linear"))], schedules, "extra", None, noise=0.006)
    add("branches", [C("family", ["net", "forest", "boost", "linear"]),
        F("net_rate", 1e-6, 1, True, W("family", "net")), I("net_depth", 1, 10, False, W("family", "net")), F("net_drop", 0, 0.9, False, W("family", "net")),
        F("forest_share", 0.05, 1, False, W("family", "forest")), I("forest_leaf", 1, 64, True, W("family", "forest")),
        F("boost_rate", 1e-3, 1, True, W("family", "boost")), I("boost_rounds", 10, 1000, True, W("family", "boost")), I("boost_depth", 1, 12, False, W("family", "boost")),
        F("linear_l2", 1e-5, 1e3, True, W("family", "linear"))], branches, "extra", None)
    add("whole_numbers8", [I(f"x{i}", 0, 31) for i in range(8)], whole_numbers, "extra", 0.0)
    add("choices6", [C(f"c{j}", [f"v{k}" for k in range(6)]) for j in range(6)] + [F("x0", 0, 1), F("x1", 0, 1), F("z", 1e-4, 1, True)], choices, "extra", None, noise=0.03)
    add("ridge3", [F("a", 1e-6, 1, True), F("b", 1e-6, 1, True), F("d", 1e-4, 1e2, True)], ridge, "extra", 0.0)
    add("michalewicz5", box(5, 0, math.pi), michalewicz, "extra", 0.0)
    add("few_of_many20", box(20, -1, 1), few_of_many, "extra", None)
