#!/usr/bin/env python3
"""The coefficients of `gelu` in src/trainer/fused/activation.rs: polynomials in t = x^2, `P` and `R` over `Q`, lowest power first.

    python3 -m venv .venv && .venv/bin/pip install numpy scipy
    .venv/bin/python benches/operations/gelu.py

x P / Q is the normal distribution function less a half, x R / Q the slope of x times it less a half, both up to x = 5.6. Given the
denominator of the round before, a least squares problem (Sanathanan and Koerner 1963); points with large errors weigh more from round
to round (Lawson 1961), so that the greatest error becomes small.
"""
import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.chebyshev import chebvander
from scipy.special import erf

FAR, DEGREES, ROUNDS = 5.6, (6, 7, 6), 400

x = FAR * (0.5 + 0.5 * np.cos(np.linspace(0, np.pi, 4001)))
x = x[x > 1e-9]
t = x * x
share = 0.5 * erf(x / np.sqrt(2))
slope = share + x * np.exp(-t / 2) / np.sqrt(2 * np.pi)
p, r, q = DEGREES
P, R, Q = (chebvander(2 * t / FAR**2 - 1, degree) for degree in DEGREES)
# What counts is the error of x times the share.
counts = np.maximum(x, 0.5)
weights, below, best = np.ones(2 * len(x)), np.ones(len(x)), (np.inf,)
for number in range(ROUNDS):
    one = np.hstack([x[:, None] * P, np.zeros((len(x), r + 1)), -share[:, None] * Q[:, 1:]]) * (counts / below)[:, None]
    two = np.hstack([np.zeros((len(x), p + 1)), x[:, None] * R, -slope[:, None] * Q[:, 1:]]) / below[:, None]
    aims = np.concatenate([share * counts / below, slope / below])
    root = np.sqrt(weights)
    found = np.linalg.lstsq(np.vstack([one, two]) * root[:, None], aims * root, rcond=1e-15)[0]
    above, slopes, under = found[: p + 1], found[p + 1 : p + r + 2], np.concatenate([[1], found[p + r + 2 :]])
    below = Q @ under
    errors = np.abs(np.concatenate([(x * (P @ above) / below - share) * counts, x * (R @ slopes) / below - slope]))
    if errors.max() < best[0]:
        best = (errors.max(), above, slopes, under)
    if number > 15:
        weights *= np.sqrt(errors / errors.max() + 1e-3)
        weights /= weights.mean()

powers = [Chebyshev(factors, domain=[0, FAR**2]).convert(kind=Polynomial).coef for factors in best[1:]]
print(f"greatest error {best[0]:.1e}")
for name, factors in zip("PRQ", powers):
    print(name, [float(np.float32(factor / powers[2][0])) for factor in factors])
