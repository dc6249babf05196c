"""Which pauses are worth their price: promotion ASHA where starting a trial takes time.

    python benches/search/pauses.py [SEEDS]

A trial that reaches a rung and would be resumed at once continues instead ("at once"), and every
trial does where a start takes at least so many times as long as the training to the next rung
("from N"). Time to regrets of .05 and .01 against "at once", over two families of curves, ladders
of ratio 3 and 2 (one in three is promoted), one and four workers and starts of 1 to 30 steps, the
first rung being 1 of 81: the geometric mean and the worst case of the ratios. Needs no packages.
"""

import bisect
import heapq
import math
import random
import sys

STEPS, ETA, HORIZON = 81, 3, 4000
STARTS = (1, 2, 3, 5, 8, 12, 20, 30)


def time_to(regrets, seed, start, family, ratio, workers, at_once, anyway):
    rng = random.Random(seed)
    rungs = []
    while not rungs or rungs[-1] * ratio < STEPS:
        rungs.append(rungs[-1] * ratio if rungs else 1)
    steps = rungs + [STEPS]
    trials, ranked, waiting = [], [[] for _ in rungs], [[] for _ in rungs]
    events, found = [], {}

    def sample():
        level = rng.random()
        if family == "power":
            rate, height = 10 ** rng.uniform(-1.0, 0.3), rng.uniform(0.5, 1.5)
        else:  # The better ones are slower.
            rate, height = 10 ** (rng.uniform(-1.3, -0.3) + 0.7 * level), 1.0
        noise = [rng.gauss(0, 0.01) for _ in steps]
        values = [level + height * (1 + s) ** -min(rate, 2) + e for s, e in zip(steps, noise)]
        trials.append((level, values))
        return len(trials) - 1, -1

    def promoted():
        for index in reversed(range(len(rungs))):
            if waiting[index]:
                key = waiting[index][0]
                if bisect.bisect_left(ranked[index], key) < len(ranked[index]) // ETA:
                    del waiting[index][0]
                    return key[1], index
        return None

    def train(now, worker, trial, index):
        before = steps[index] if index >= 0 else 0
        heapq.heappush(events, (now + steps[index + 1] - before, worker, trial, index + 1))

    for worker in range(workers):
        train(start, worker, *sample())
    while events and len(found) < len(regrets):
        now, worker, trial, index = heapq.heappop(events)
        if now > HORIZON:
            break
        level, values = trials[trial]
        if index == len(rungs):
            for regret in regrets:
                if level <= regret:
                    found.setdefault(regret, now)
        else:
            key, gap = (values[index], trial), steps[index + 1] - steps[index]
            bisect.insort(ranked[index], key)
            is_best = bisect.bisect_left(ranked[index], key) < len(ranked[index]) // ETA
            if start >= anyway * gap or is_best and start >= at_once * gap:
                train(now, worker, trial, index)
                continue
            bisect.insort(waiting[index], key)
        train(now + start, worker, *(promoted() or sample()))
    return [found.get(regret, HORIZON) for regret in regrets]


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rules = {"all pause": (math.inf, math.inf), "at once": (0.1, math.inf)}
    rules |= {f"from {anyway}": (0.1, anyway) for anyway in (1, 2, 3, 5, 8)}
    ratios = {rule: [] for rule in rules}
    for family in ("power", "crossing"):
        for ratio in (3, 2):
            for workers in (1, 4):
                for start in STARTS:
                    times = {}
                    for rule, bounds in rules.items():
                        runs = (
                            time_to((0.05, 0.01), seed, start, family, ratio, workers, *bounds)
                            for seed in range(seeds)
                        )
                        times[rule] = [sum(column) for column in zip(*runs)]
                    for rule, found in times.items():
                        ratios[rule] += [a / b for a, b in zip(found, times["at once"])]
    for rule, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{rule}: {mean:.2f} of `at once`, at worst {max(found):.2f}")


main()
