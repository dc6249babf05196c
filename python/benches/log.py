"""How long `log` of ten scalars and `import hpsearch` take.

    PYTHONPATH=python python3 python/benches/log.py

A machine that does other things interrupts every program: the control is the same loop with a copy
of the dictionary in the place of `log`, in turns with it. What is above the control is the client's.
"""

import collections
import os
import subprocess
import sys
import tempfile
import time
from typing import Deque, Dict, List, Tuple

CALLS = 20_000
SCALARS = 10

#: In so many turns each.
TURNS = 20

#: A training step between two calls, in seconds.
STEP = 0.0005


def percentile(sorted_times: List[int], share: float) -> float:
    """In microseconds."""
    return sorted_times[min(len(sorted_times) - 1, int(share * len(sorted_times)))] / 1000


def show(what: str, times: List[int]) -> None:
    times = sorted(times)
    figures = [f"{percentile(times, share):8.1f}" for share in (0.5, 0.99, 0.999)]
    print(f"{what:42}{''.join(figures)} {times[-1] / 1000:9.1f}")


def measure(pause: float) -> Dict[str, List[int]]:
    """The times of `log` and of the control, whose turns are a second long at most."""
    import hpsearch

    times: Dict[str, List[int]] = {"log": [], "control": []}
    run = hpsearch.init(name="bench")
    copies: Deque[Tuple[int, Dict[str, float]]] = collections.deque(maxlen=CALLS)
    step = 0
    for turn in range(2 * TURNS):
        does_log = turn % 2 == 0
        taken = times["log" if does_log else "control"]
        if not does_log:
            # The spool has nothing to do.
            time.sleep(0.5)
        for _ in range(CALLS // TURNS):
            step += 1
            values = {f"metric/{index}": step * 0.1 + index for index in range(SCALARS)}
            if does_log:
                begun = time.perf_counter_ns()
                run.log(values, step=step)
                taken.append(time.perf_counter_ns() - begun)
            else:
                begun = time.perf_counter_ns()
                copies.append((step, values.copy()))
                taken.append(time.perf_counter_ns() - begun)
            if pause:
                until = time.perf_counter() + pause
                while time.perf_counter() < until:
                    pass
    run.finish()
    return times


def imports() -> List[int]:
    program = (
        "import time; begun = time.perf_counter_ns(); import hpsearch;"
        "print(time.perf_counter_ns() - begun)"
    )
    return [int(subprocess.check_output([sys.executable, "-c", program])) for _ in range(30)]


def main() -> None:
    here = os.getcwd()
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        print(f"{'microseconds':42}{'median':>8}{'p99':>8}{'p99.9':>8} {'longest':>9}")
        for how, pause in ("in a row", 0.0), (f"every {STEP * 1000:g} ms", STEP):
            for what, times in measure(pause).items():
                show(f"{what} of {SCALARS} scalars, {how}", times)
        show("import hpsearch", imports())
        os.chdir(here)


if __name__ == "__main__":
    main()
