"""Measures how soon the same trials are on the page: hpsearch, optuna-dashboard, TensorBoard.

    python -m venv venv
    venv/bin/pip install optuna optuna-dashboard tensorboard 'setuptools<81'
    venv/bin/python tests/peers/page_speed.py target/release/hpsearch 1000 10000

The same runs of five parameters and one value are loaded into each tool (optuna: an SQLite study;
TensorBoard: a directory a run, with HParams), and all servers run while the pages are opened one
after the other in one headless Chromium without a cache, three times each. The medians are of

- the time from the start of the navigation until the view shows trials (figures: until points are
  drawn), seen by a script in the page every 25 ms ("inf": not within PATIENCE seconds, which the
  environment sets),
- the bytes and requests over the network until then,
- the time from the start of the write of a new run until the page that is open shows it, without a
  click. TensorBoard's page looks for nothing new by default: it is told to, every 15 s, the least
  that its settings offer.

DIR keeps the stores for a second call.
"""

import csv
import math
import os
import random
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from page import Browser

NAMES = ["learning_rate", "layers", "optimizer", "dropout", "width"]


def row(rng):
    """A run: five parameters and its loss, of which the last is told apart by its digits."""
    return {
        "learning_rate": float(f"{math.exp(rng.uniform(math.log(1e-5), math.log(1e-1))):.6g}"),
        "layers": rng.randint(1, 8),
        "optimizer": rng.choice(["adamw", "sgd"]),
        "dropout": round(rng.random() / 2, 3),
        "width": 32 * rng.randint(1, 16),
        "loss": round(0.1 + rng.random(), 6),
    }


def rows(count):
    rng = random.Random(7)
    return [row(rng) for _ in range(count)]


def optuna_trial(one):
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space = {
        "learning_rate": FloatDistribution(1e-5, 1e-1, log=True),
        "layers": IntDistribution(1, 8),
        "optimizer": CategoricalDistribution(["adamw", "sgd"]),
        "dropout": FloatDistribution(0.0, 0.5),
        "width": IntDistribution(32, 512),
    }
    params = {name: one[name] for name in NAMES}
    return optuna.trial.create_trial(params=params, distributions=space, value=one["loss"])


def load_optuna(file, count):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    partial = file.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    study = optuna.create_study(storage=f"sqlite:///{partial}", study_name="runs")
    for one in rows(count):
        study.add_trial(optuna_trial(one))
    partial.rename(file)


def load_tensorboard(directory, count):
    partial = directory.with_suffix(".partial")
    for number, one in enumerate(rows(count)):
        write_tensorboard(partial / f"run-{number}", one)
    partial.rename(directory)


def write_tensorboard(directory, one):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    # As tensorboard.plugins.hparams.summary writes them, which needs TensorFlow.
    start, end = SessionStartInfo(start_time_secs=1.7e9), SessionEndInfo(status=1, end_time_secs=1.7e9 + 60)
    for name in NAMES:
        kind = "string_value" if isinstance(one[name], str) else "number_value"
        setattr(start.hparams[name], kind, one[name])
    told = [
        (metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start)),
        (metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end)),
    ]
    values = [
        Summary.Value(tag=tag, metadata=metadata.create_summary_metadata(content), tensor=metadata.NULL_TENSOR)
        for tag, content in told
    ]
    values.insert(1, Summary.Value(tag="loss", simple_value=one["loss"]))
    writer = EventFileWriter(str(directory))
    for value in values:
        writer.add_event(Event(summary=Summary(value=[value]), step=1, wall_time=1.7e9))
    writer.close()


def load_hpsearch(program, store, count):
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        table = csv.DictWriter(file, ["name", *NAMES, "loss"])
        table.writeheader()
        for number, one in enumerate(rows(count)):
            table.writerow({"name": f"run-{number}", **one})
        file.flush()
        partial = store.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        subprocess.run([program, "import", file.name, "--metric", "loss", "--study", "runs", "--store", partial], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        partial.rename(store)


def load(program, directory, count):
    """The stores of one size, made where they are missing."""
    places = {
        "hpsearch": directory / f"hpsearch-{count}.db",
        "optuna": directory / f"optuna-{count}.db",
        "tensorboard": directory / f"tensorboard-{count}",
    }
    if not places["hpsearch"].exists():
        load_hpsearch(program, places["hpsearch"], count)
    if not places["optuna"].exists():
        load_optuna(places["optuna"], count)
    if not places["tensorboard"].exists():
        load_tensorboard(places["tensorboard"], count)
    return places


# Seconds after which a tool is said not to show it ("inf").
PATIENCE = float(os.environ.get("PATIENCE", "300"))


class Watched(Browser):
    """A browser that counts what comes over the network."""

    def __init__(self):
        self.bytes = self.requests = 0
        super().__init__()
        self.call("Network.setCacheDisabled", cacheDisabled=True)
        self.show(1440, "light")

    def read(self):
        # A page that computes for minutes answers nothing.
        while b"\0" not in self.buffer:
            if not select.select([self.out], [], [], PATIENCE)[0]:
                raise RuntimeError("the page does not answer")
            self.buffer += os.read(self.out, 1 << 20)
        return super().read()

    def hear(self, event):
        super().hear(event)
        if event.get("method") == "Network.loadingFinished":
            self.bytes += event["params"]["encodedDataLength"]
            self.requests += 1

    def opened(self, url, shown, patience):
        """Milliseconds until a page shows something, bytes and requests until then."""
        look = f"(() => {{ const look = () => {{ let isThere = false; try {{ isThere = Boolean({shown}); }} catch {{}} if (isThere) window.seen = performance.now(); else setTimeout(look, 25); }}; look(); }})()"
        script = self.call("Page.addScriptToEvaluateOnNewDocument", source=look)["identifier"]
        self.call("Page.navigate", url="about:blank")
        self.wait_for("location.protocol === 'about:'")
        self.bytes = self.requests = 0
        self.call("Page.navigate", url=url)
        self.wait_for("window.seen", patience)
        self.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
        return self.evaluate("window.seen"), self.bytes, self.requests


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Hpsearch:
    name = "hpsearch"

    def __init__(self, program, place, count):
        self.program, self.place = program, place
        self.process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--store", place], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()
        base = self.url.split("?")[0]
        self.views = {
            "trials": (f"{base}#study=runs", "document.querySelectorAll('tbody tr').length > 9"),
            "history": (f"{base}#study=runs&view=figures", "document.querySelector('.chart canvas, figure img')"),
        }

    def shows(self, number, loss):
        return f"document.querySelector('tbody tr').textContent.includes('{loss}')"

    def add(self, number, one):
        # A run is known by its file and row.
        file = self.place.with_name(f"new-{number}.csv")
        with open(file, "w", newline="") as out:
            table = csv.DictWriter(out, ["name", *NAMES, "loss"])
            table.writeheader()
            table.writerow({"name": f"new-{number}", **one})
        began = time.monotonic()
        subprocess.run([self.program, "import", file, "--metric", "loss", "--study", "runs", "--store", self.place], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return began


class OptunaDashboard:
    name = "optuna-dashboard"

    def __init__(self, place, count):
        import optuna

        self.place, self.count, port = place, count, free_port()
        self.process = subprocess.Popen([Path(sys.executable).with_name("optuna-dashboard"), f"sqlite:///{place}", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}/dashboard"
        self.study = optuna.load_study(study_name="runs", storage=f"sqlite:///{place}")
        self.views = {
            "trials": (f"{self.url}/studies/1/trials", "document.body.textContent.includes('Trial 5') && document.body.textContent.includes('Value')"),
            "history": (f"{self.url}/studies/1", "document.querySelector('.js-plotly-plot .scatterlayer .point, .js-plotly-plot .gl-canvas')"),
        }

    def shows(self, number, loss):
        return f"document.body.textContent.includes('{self.count + number + 1} Trials')"

    def add(self, number, one):
        trial = optuna_trial(one)
        began = time.monotonic()
        self.study.add_trial(trial)
        return began


class TensorBoard:
    name = "TensorBoard"

    def __init__(self, place, count):
        self.place, port = place, free_port()
        self.process = subprocess.Popen([Path(sys.executable).with_name("tensorboard"), "--logdir", place, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}/"
        # Its grid has its cells below roots of shadows.
        self.cells = "(() => { const found = []; const walk = (root) => { for (const one of root.querySelectorAll('*')) { if (one.tagName === 'VAADIN-GRID-CELL-CONTENT') found.push(one.textContent.trim()); if (one.shadowRoot) walk(one.shadowRoot); } }; walk(document); return found; })()"
        self.views = {"trials": (f"{self.url}#hparams", f"{self.cells}.filter((text) => /^run-\\d+$/.test(text)).length > 9")}

    def shows(self, number, loss):
        return f"{self.cells}.includes('a-new-{number}')"

    def add(self, number, one):
        began = time.monotonic()
        write_tensorboard(self.place / f"a-new-{number}", one)
        return began


def measured(browser, tool, repeats=3):
    """The table's row of a tool: medians."""
    until = time.time() + 120
    while browser.call("Page.navigate", url=tool.url).get("errorText"):
        if time.time() > until:
            raise RuntimeError(f"{tool.name} does not answer")
        time.sleep(0.2)
    browser.wait_for("document.readyState === 'complete' && location.protocol === 'http:'", 60)
    if isinstance(tool, TensorBoard):
        browser.evaluate("localStorage.setItem('_tb_global_settings', JSON.stringify({ autoReload: true, autoReloadPeriodInMs: 15000 }))")
    found = {}
    for view, (url, shown) in tool.views.items():
        try:
            # The first one waits for what the tool reads once.
            browser.opened(url, shown, PATIENCE)
            took = [browser.opened(url, shown, PATIENCE) for _ in range(repeats)]
        except RuntimeError as error:
            print(f"       {tool.name}: {view}: not within {PATIENCE} s ({str(error)[:60]!r})", flush=True)
            took = [(math.inf, math.inf, math.inf)]
        found[view] = [statistics.median(part) for part in zip(*took)]
    url, shown = tool.views["trials"]
    waits = []
    if math.isinf(found["trials"][0]):
        repeats = 0
        waits = [math.inf]
    else:
        browser.opened(url, shown, PATIENCE)
    for number in range(repeats):
        one = {**row(random.Random(number)), "loss": round(0.05 - number / 1000, 3)}
        time.sleep(1 + number * 0.7)
        began = tool.add(number, one)
        try:
            browser.wait_for(tool.shows(number, one["loss"]), PATIENCE)
        except RuntimeError:
            waits.append(math.inf)
            break
        waits.append(time.monotonic() - began)
    found["new"] = statistics.median(waits)
    return found


def main(program, counts):
    kept = os.environ.get("DIR")
    directory = Path(kept or tempfile.mkdtemp())
    for count in counts:
        places = load(program, directory, count)
        with tempfile.TemporaryDirectory() as work:
            work = Path(work)
            for place in ["hpsearch", "optuna"]:
                shutil.copy(places[place], work / f"{place}.db")
            tools = [Hpsearch(program, work / "hpsearch.db", count), OptunaDashboard(work / "optuna.db", count), TensorBoard(places["tensorboard"], count)]
            try:
                own = None
                for tool in tools:
                    browser = Watched()
                    try:
                        found = measured(browser, tool)
                    finally:
                        browser.close()
                    own = own or found
                    for view, values in found.items():
                        if view == "new":
                            print(f"{count:>6} {tool.name:17} a new run is shown after {values:7.2f} s ({values / own[view]:6.1f} times)", flush=True)
                        else:
                            ms, size, requests = values
                            print(f"{count:>6} {tool.name:17} {view:8} {ms:7.0f} ms ({ms / own[view][0]:5.1f} times) {size / 1000:8.0f} kB ({size / own[view][1]:6.1f} times) {requests:4.0f} requests", flush=True)
            finally:
                for tool in tools:
                    tool.process.terminate()
                    tool.process.wait()
                for added in places["tensorboard"].glob("a-new-*"):
                    shutil.rmtree(added)
    if kept is None:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main(sys.argv[1], [int(count) for count in sys.argv[2:]])
