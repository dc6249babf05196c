#!/usr/bin/env python3
"""Run by hand: fronts and hypervolumes of stored studies are pymoo's, for the same points.

    python3 -m venv .venv && .venv/bin/pip install pymoo==0.6.2
    HPSEARCH=target/debug/hpsearch .venv/bin/python tests/peers/hypervolume.py

ZDT1 to 4, ZDT6 and DTLZ2 of two to four objectives, as pymoo computes them, are searched by NSGA-II for 200 trials.
"""
import json, os, subprocess, tempfile
import numpy as np
from pymoo.indicators.hv import HV
from pymoo.problems import get_problem
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

HPSEARCH = os.path.abspath(os.environ.get("HPSEARCH", "target/release/hpsearch"))
TRIALS = 200


def search(name, problem, store):
    names = [f"x{axis:02}" for axis in range(problem.n_var)]
    space = [{"name": name, "type": "float", "low": float(low), "high": float(high)} for name, low, high in zip(names, problem.xl, problem.xu)]
    words = [HPSEARCH, "ask-tell", "--study", name, "--store", store]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as session:

        def say(**line):
            session.stdin.write(json.dumps(line) + "\n")
            session.stdin.flush()
            answer = json.loads(session.stdout.readline())
            assert "error" not in answer, answer
            return answer

        directions = ["minimize"] * problem.n_obj
        say(cmd="init", space=space, n_trials=TRIALS, directions=directions, seed=7, sampler={"type": "nsga2"}, pruner={"type": "none"})
        for _ in range(TRIALS):
            trial = say(cmd="ask")
            x = np.array([trial["params"][name] for name in names])
            say(cmd="tell", id=trial["id"], values=problem.evaluate(x).tolist())
        say(cmd="quit")


def answer(*words):
    return json.loads(subprocess.run([HPSEARCH, *words, "--json"], capture_output=True, text=True, check=True).stdout)


def main():
    problems = {name: get_problem(name) for name in ["zdt1", "zdt2", "zdt3", "zdt4", "zdt6"]}
    problems |= {f"dtlz2-{count}": get_problem("dtlz2", n_var=count + 9, n_obj=count) for count in (2, 3, 4)}
    with tempfile.TemporaryDirectory() as directory:
        store = os.path.join(directory, "store.db")
        for name, problem in problems.items():
            search(name, problem, store)
            trials = answer("trials", name, "--store", store, "--sort", "number")["trials"]
            points = np.array([trial["values"] for trial in trials])
            best = answer("best", name, "--store", store)
            front = {trial["number"] for trial in best["front"]}
            ranks = NonDominatedSorting().do(points, return_rank=True)[1]
            assert front == {trials[index]["number"] for index in np.flatnonzero(ranks == 0)}, (name, front)
            expected = float(HV(ref_point=np.array(best["reference"]))(points))
            off = abs(best["hypervolume"] - expected) / expected
            assert len(points) == TRIALS and expected > 0 and off < 1e-9, (name, best["hypervolume"], expected)
            print(f"{name}: {len(front)} of {TRIALS} trials on the front, hypervolume {best['hypervolume']:.12g}, pymoo {expected:.12g}, off by {off:.1e}")


main()
