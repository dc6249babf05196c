"""Random studies of Optuna, and whether they are the same in a store of hpsearch, which Optuna opens.

optuna_import.py make optuna.db COUNT       optuna_import.py check optuna.db hpsearch.db
"""
import math
import random
import sys

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

optuna.logging.disable_default_handler()


def distribution(chance):
    kind = chance.randrange(6)
    if kind == 0:
        return FloatDistribution(-1.0, chance.choice([0.5, 3.0]))
    if kind == 1:
        return FloatDistribution(1e-6, 1.0, log=True)
    if kind == 2:
        return FloatDistribution(0.0, 1.0, step=0.25)
    if kind == 3:
        return IntDistribution(1, 64, log=True)
    if kind == 4:
        return IntDistribution(-4, 12, step=4)
    return CategoricalDistribution(["a", "b c", 1, 2.5, True, None][: chance.randrange(2, 7)])


def draw(chance, one):
    if isinstance(one, CategoricalDistribution):
        return chance.choice(one.choices)
    if one.log:
        value = math.exp(chance.uniform(math.log(one.low), math.log(one.high)))
        return max(one.low, min(one.high, round(value) if isinstance(one, IntDistribution) else value))
    if one.step is not None:
        return one.low + one.step * chance.randrange(int((one.high - one.low) / one.step) + 1)
    return chance.uniform(one.low, one.high)


def make(storage, count):
    for number in range(count):
        chance = random.Random(number)
        study = optuna.create_study(storage=storage, study_name=f"s{number}",
                                    direction=chance.choice(["minimize", "maximize"]))
        space = {f"p{index}": distribution(chance) for index in range(chance.randrange(1, 6))}
        for _ in range(chance.randrange(1, 12)):
            own = {name: one for name, one in space.items() if chance.random() < 0.8}
            state = chance.choice([TrialState.COMPLETE] * 3 + [TrialState.PRUNED, TrialState.FAIL])
            values = [chance.gauss(0, 1), math.inf, -1e300, 0.1]
            reports = {step: chance.gauss(0, 1) for step in sorted(chance.sample(range(50), chance.randrange(5)))}
            study.add_trial(create_trial(
                state=state, params={name: draw(chance, one) for name, one in own.items()}, distributions=own,
                value=chance.choice(values) if state == TrialState.COMPLETE else None,
                intermediate_values=reports, user_attrs={"tag": f"é{number}"}))


def check(storage, store):
    trials = 0
    for name in optuna.study.get_all_study_names(storage):
        theirs = optuna.load_study(study_name=name, storage=storage)
        ours = optuna.load_study(study_name=name, storage=store)
        assert theirs.direction == ours.direction, name
        assert len(theirs.trials) == len(ours.trials), (name, len(ours.trials))
        for one, other in zip(theirs.trials, ours.trials):
            where = (name, one.number)
            assert one.number == other.number and one.state == other.state, where
            assert one.params == other.params, (where, one.params, other.params)
            assert one.distributions == other.distributions, (where, one.distributions, other.distributions)
            if one.state == TrialState.COMPLETE:
                assert one.value == other.value, (where, one.value, other.value)
            assert one.intermediate_values == other.intermediate_values, where
            for moment in ["datetime_start", "datetime_complete"]:
                left, right = getattr(one, moment), getattr(other, moment)
                assert abs((left - right).total_seconds()) < 1e-3, (where, moment, left, right)
            trials += 1
    print(f"{trials} trials are the same: states, parameters, distributions, values, reports, times")


if sys.argv[1] == "make":
    make(f"sqlite:///{sys.argv[2]}", int(sys.argv[3]))
else:
    check(f"sqlite:///{sys.argv[2]}", f"sqlite:///{sys.argv[3]}")
