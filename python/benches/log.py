"""How long `log` of ten scalars and `import hpsearch` take.

    PYTHONPATH=python python3 python/benches/log.py
"""

import os
import subprocess
import sys
import tempfile
import time
from typing import List

CALLS = 20_000
SCALARS = 10

#: A training step between two calls, in seconds.
STEP = 0.0005


def percentile(sorted_times: List[int], share: float) -> float:
    """In microseconds."""
    return sorted_times[min(len(sorted_times) - 1, int(share * len(sorted_times)))] / 1000


def show(what: str, times: List[int]) -> None:
    times = sorted(times)
    figures = [f"{percentile(times, share):8.1f}" for share in (0.5, 0.99, 0.999)]
    print(f"{what:42}{''.join(figures)} {times[-1] / 1000:9.1f}")


def measure(pause: float) -> List[int]:
    import hpsearch

    times = []
    run = hpsearch.init(name="bench")
    for step in range(CALLS):
        values = {f"metric/{index}": step * 0.1 + index for index in range(SCALARS)}
        begun = time.perf_counter_ns()
        run.log(values, step=step)
        times.append(time.perf_counter_ns() - begun)
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
        show(f"log of {SCALARS} scalars, {CALLS} in a row", measure(0))
        show(f"log of {SCALARS} scalars, every {STEP * 1000:g} ms", measure(STEP))
        show("import hpsearch", imports())
        os.chdir(here)


if __name__ == "__main__":
    main()
