"""Names, values, notes, tags, metrics and logs that are markup and scripts, on both pages.

    python3 tests/peers/page_hostile.py target/debug/hpsearch

In every view of the live page and of a report nothing of them may run, become an element, or be
asked for over the network. Needs `chromium` and Python without packages.
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from page import Browser

HOSTILE = "<img src=x onerror=window.pwned=1>\"'</script><script>window.pwned=1</script></style>&amp;{{title}}${window.pwned=1}"

PROGRAM = """
import json, sys
hostile = sys.argv[1]
print(hostile)
print("\\x1b[2J\\x1b]0;" + hostile + "\\x07" + hostile, flush=True)
for step in range(1, 4):
    print("@hpsearch", json.dumps({"step": step, "loss": 1 / step, "m" + hostile: step}), flush=True)
    print("@hpsearch", json.dumps({"epoch": step / 2, "s" + hostile: step}), flush=True)
print("@hpsearch", json.dumps({"failed": hostile}), flush=True)
sys.exit(3)
"""

# What must not be: hostile texts contain `src=x`, and no page of ours has such an element.
FOUND = """[
  window.pwned && 'a script ran',
  document.querySelector('[src="x"], [onerror]') && 'a text became an element',
  [...document.querySelectorAll('script')].some((one) => one.textContent.trim().startsWith('window.pwned')) && 'a text became a script',
  performance.getEntriesByType('resource').some(({ name }) => /\\/x$/.test(name)) && 'something was asked for',
].filter(Boolean)"""


class Wary(Browser):
    """A browser that notices dialogs, which would otherwise wait for an answer."""

    def hear(self, event):
        super().hear(event)
        if event.get("method") == "Page.javascriptDialogOpening":
            self.messages.append("a dialog opened")


def store(program, directory):
    """A store with hostile texts in every place that takes any."""
    place = directory / "hostile.db"

    def run(*words, is_refused=False):
        ended = subprocess.run([program, *words, "--store", place], cwd=directory, capture_output=True, text=True)
        if (ended.returncode != 0) != is_refused:
            raise RuntimeError(f"{words[0]}: {ended.stderr}")

    with open(directory / "table.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["name", HOSTILE, "b" + HOSTILE, "loss"])
        for number in range(8):
            table.writerow([f"{number}{HOSTILE}", HOSTILE, number, number / 10 + 0.1])
    run("import", "table.csv", "--metric", "loss", "--study", "table")
    for number in range(3):
        track = ["track", "--study", "runs", "--name", f"{number}{HOSTILE}", "--note", HOSTILE, "--"]
        ended = subprocess.run([program, *track, sys.executable, "-c", PROGRAM, HOSTILE, f"--p{HOSTILE}={HOSTILE}"], cwd=directory, capture_output=True, text=True, env={"HPSEARCH_STORE": str(place), "PATH": "/usr/bin:/bin"})
        if ended.returncode != 3:
            raise RuntimeError(f"track: {ended.stderr}")
    for study in ["table", "runs"]:
        run("note", study, "-m", HOSTILE)
        run("note", study, "0", "-m", HOSTILE)
    # Tags are words.
    run("tag", "runs", "+<b>", is_refused=True)
    run("tag", "runs", "0", "+" + quote(HOSTILE)[:40], is_refused=True)
    return place


def main(program):
    program = str(Path(program).resolve())
    wrong = []
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        place = store(program, directory)
        server = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--control", "--store", place], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        browser = Wary()
        try:
            browser.show(1440, "light")
            browser.call("Page.navigate", url=server.stdout.readline().strip())
            browser.wait_for("document.querySelector('tbody tr')")
            base = browser.evaluate("location.origin")
            bad = quote(HOSTILE)
            places = ["", f"study={bad}", f"study=table&where={bad}", f"study=table&sort={bad}", f"study=runs&trial={bad}", f"study=runs&view={bad}", "study=__proto__&view=constructor"]
            for study in ["table", "runs"]:
                places += [f"study={study}", f"study={study}&trial=0", f"study={study}&view=compare&trials=0,1,2", f"study={study}&view=compare&trials={bad}", f"study={study}&view=events", f"study={study}&view=events&text={bad}", f"study={study}&view=devices"]
                places += [f"study={study}&view=figures&kind={kind}" for kind in ["history", "curves", "slice", "parallel", "importance", "contour", "edf", "comparison", "timeline", bad]]
                places += [f"study={study}&view=figures&kind=curves&metric={quote(name + HOSTILE)}" for name in ["", "m", "s"]]
            for place_ in places:
                browser.messages.clear()
                browser.call("Page.navigate", url="about:blank")
                browser.call("Page.navigate", url=f"{base}/#{place_}")
                browser.wait_for("document.querySelector('#main *') || document.querySelector('#trouble')?.textContent")
                browser.settle()
                messages = [text for text in browser.messages if "status of 4" not in text]
                wrong += [f"{place_}: {text}" for text in browser.evaluate(FOUND) + messages]
            # What a pointer brings out: names of curves.
            browser.call("Page.navigate", url=f"{base}/#study=runs&trial=0")
            browser.wait_for("document.querySelector('.chart canvas') && document.querySelector('.log').textContent.includes('onerror')")
            left, top, width, height = browser.evaluate("(({ left, top, width, height }) => [left, top, width, height])(document.querySelector('.u-over').getBoundingClientRect())")
            for share in range(1, 10):
                browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + width * share / 10, y=top + height * share / 10)
            log = browser.evaluate("document.querySelector('.log').textContent")
            if any(ord(char) < 32 and char != "\n" for char in log):
                wrong.append("a log has control characters")
            wrong += browser.evaluate(FOUND)
            for study in ["table", "runs"]:
                browser.messages.clear()
                report = directory / f"{study}.html"
                subprocess.run([program, "report", study, "--include", "logs,host", "--store", place, "-o", report, "-q"], check=True)
                browser.call("Page.navigate", url=report.as_uri() + "#study-0-trial-0")
                browser.wait_for("document.querySelector('section.trial')")
                browser.settle()
                browser.evaluate("(() => { const input = document.querySelector('input[type=search]'); input.value = '\"<img src=x onerror=window.pwned=1>\"'; input.dispatchEvent(new Event('input')); })()")
                wrong += [f"report of {study}: {text}" for text in browser.evaluate(FOUND) + browser.messages]
                loaded = browser.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
                wrong += [f"report of {study} loads {name}" for name in loaded]
        finally:
            browser.close()
            server.terminate()
            server.wait()
    print("\n".join(sorted(set(wrong))) or "nothing of a hostile text runs")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1])
