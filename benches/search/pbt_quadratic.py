"""Figure 2 of Jaderberg et al. (2017) with 40 seeds: two workers on a quadratic, each blind to one coordinate.

    python benches/search/pbt_quadratic.py

Shares of runs that reach 1.15 of 1.2, and the worst value, if a member copies only from strictly better ones, and if it copies
from equal ones, too. Without copies a worker ends at 0.39.
"""

import random


def run(interval, seed, copies_equals, steps=400, resample=0.25):
    draw = random.Random(seed)
    theta, weights = [[0.9, 0.9], [0.9, 0.9]], [[1.0, 0.0], [0.0, 1.0]]
    value = lambda own: 1.2 - own[0] ** 2 - own[1] ** 2
    for step in range(1, steps + 1):
        for own, weight in zip(theta, weights):
            for axis in range(2):
                own[axis] *= 1 - 2 * 0.01 * weight[axis]
        if step % interval == 0 and step < steps:
            first, second = map(value, theta)
            best, worst = (0, 1) if first >= second else (1, 0)
            if first != second or copies_equals:
                theta[worst] = theta[best][:]
                weights[worst] = [
                    draw.random() if draw.random() < resample else min(1, weight * draw.choice([0.8, 1.2]))
                    for weight in weights[best]
                ]
    return max(map(value, theta))


for copies_equals in (False, True):
    for interval in (4, 10, 20):
        values = [run(interval, seed, copies_equals) for seed in range(40)]
        solved = sum(value > 1.15 for value in values) / len(values)
        rule = "equal or better" if copies_equals else "strictly better"
        print(f"donors {rule}, interval {interval}: solved {solved:.2f}, worst {min(values):.3f}")
