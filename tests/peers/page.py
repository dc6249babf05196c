"""Walks the live page of `hpsearch serve` in headless Chromium and writes pictures of every view.

    python3 tests/peers/page.py target/debug/hpsearch STORE STUDY PICTURES

Each view is opened at 390, 1440 and 3840 pixels, light and dark. It fails on a message in the console,
on something wider than the window, on controls without a name, on what a click should have done and
did not, and if one of eight windows does not follow the study. Needs `chromium` on PATH and nothing besides Python.

AXE names axe.min.js of axe-core (`npm pack axe-core`, then its package/axe.min.js): with it every
view is also held to the rules of axe.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time


class Browser:
    """Chromium, spoken to through its debugging pipe."""

    def __init__(self):
        to_read, self.to = os.pipe()
        self.out, to_write = os.pipe()
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

        def pipes():
            # Above 4 first, so that neither end is overwritten.
            read, write = os.dup2(to_read, 30), os.dup2(to_write, 31)
            os.dup2(read, 3, inheritable=True)
            os.dup2(write, 4, inheritable=True)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(to_write)
        self.buffer, self.number, self.messages, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.hear(answer)

    def read(self):
        while b"\0" not in self.buffer:
            self.buffer += os.read(self.out, 1 << 20)
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def hear(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(params["exceptionDetails"])[:600])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.messages.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.messages.append(json.dumps(params["args"])[:600])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:600])
        return result["result"].get("value")

    def open_window(self, url):
        """Opens a window, which is spoken to from then on."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank", newWindow=True)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Page.navigate", url=url)
        return target, self.session

    def close_window(self, target):
        self.session = None
        self.call("Target.closeTarget", targetId=target)

    def wait_for(self, expression, patience=10):
        until = time.time() + patience
        while not self.evaluate(f"Boolean({expression})"):
            if time.time() > until:
                raise RuntimeError(f"still not: {expression}\n{self.evaluate('document.body.innerText')[:800]}")
            time.sleep(0.05)

    def settle(self):
        """Waits a moment for what is asked for after the first elements."""
        self.evaluate("new Promise((done) => setTimeout(done, 250))")

    def show(self, width, theme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def accessibility(self):
        """What axe finds wrong, if AXE names it."""
        if "AXE" not in os.environ:
            return []
        if not self.evaluate("Boolean(window.axe)"):
            with open(os.environ["AXE"]) as file:
                self.evaluate(file.read() + "; true")
        found = self.evaluate("axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map((node) => `axe ${id}: ${node.html.slice(0, 140)} ${node.failureSummary.split('\\n').slice(1, 3).join(';').trim().slice(0, 160)}`)))")
        return found

    def drag(self, start, end):
        """Drags from one place of the window to another."""
        for kind, (x, y), buttons in [("mouseMoved", start, 0), ("mousePressed", start, 1), ("mouseMoved", end, 1), ("mouseReleased", end, 0)]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", buttons=buttons, clickCount=1)

    def picture(self, path):
        height = min(self.evaluate("document.documentElement.scrollHeight"), 2400)
        clip = {"x": 0, "y": 0, "width": self.evaluate("innerWidth"), "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        self.process.wait()


# What a view shows once it is there.
VIEWS = {
    "studies": ("", "document.querySelector('tbody tr')"),
    "trials": ("study={study}", "document.querySelector('tbody tr a')"),
    "filtered": ("study={study}&where=state%3Acomplete&sort={param}", "document.querySelector('tbody tr a')"),
    "wrong": ("study={study}&where=nothing%3E%3E", "document.querySelector('#problem')?.textContent"),
    "trial": ("study={study}&trial={trial}", "document.querySelector('.chart canvas') && document.querySelector('tbody tr')"),
    "compare": ("study={study}&view=compare&trials={trial},0,3", "document.querySelector('.chart canvas') && document.querySelector('tbody tr')"),
    "devices": ("study={study}&view=devices", "document.querySelector('.card')"),
    "events": ("study={study}&view=events", "document.querySelector('.journal .entry')"),
    "gone": ("study=no-such-study", "document.querySelector('#trouble')?.textContent"),
}
# Drawn, or a chart, or why there is none.
FIGURE = "document.querySelector('figure img')?.naturalWidth || document.querySelector('.chart canvas') || document.querySelector('figure .empty')?.textContent"
for kind in ["history", "curves", "slice", "parallel", "importance", "contour", "rungs", "edf", "comparison", "timeline"]:
    VIEWS[f"figure-{kind}"] = (f"study={{study}}&view=figures&kind={kind}", FIGURE)

# Controls without a name, headings that are skipped, pictures without a text, text of low contrast.
CHECKS = """(() => {
  const wrong = [];
  const isShown = (one) => one.offsetParent !== null;
  for (const one of document.querySelectorAll('button, input, select, a')) {
    const label = one.getAttribute('aria-label') || one.textContent.trim() || one.closest('label')?.textContent.trim();
    if (isShown(one) && !label) wrong.push(`no name: ${one.outerHTML}`);
  }
  for (const one of document.querySelectorAll('img')) if (!one.alt) wrong.push(`no text: ${one.outerHTML.slice(0, 80)}`);
  const levels = [...document.querySelectorAll('h1, h2, h3')].filter(isShown).map((one) => Number(one.tagName[1]));
  if (levels[0] > 1) wrong.push(`headings begin at ${levels[0]}`);
  const overflow = document.documentElement.scrollWidth - innerWidth;
  if (overflow > 0) wrong.push(`the page is ${overflow} pixels wider than the window`);
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => { const [r, g, b] = channels(text).map((c) => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (one) => { for (; one; one = one.parentElement) { const back = getComputedStyle(one).backgroundColor; const parts = channels(back); if (parts.length < 4 || parts[3] > .5) return back; } return 'rgb(255,255,255)'; };
  const seen = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !isShown(one) || one.closest('[disabled], .unseen, .skip, noscript')) continue;
    const pair = [light(getComputedStyle(one).color), light(behind(one))].sort();
    const ratio = (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
    const key = one.className + one.tagName;
    if (ratio < 4.5 && !seen.has(key)) { seen.add(key); wrong.push(`contrast ${ratio.toFixed(2)}: ${one.outerHTML.slice(0, 90)}`); }
  }
  return wrong;
})()"""


def main(program, store, study, pictures):
    os.makedirs(pictures, exist_ok=True)
    server = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--control", "--store", store],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    url = server.stdout.readline().strip()
    browser, wrong = Browser(), []
    try:
        browser.show(1440, "light")
        browser.call("Page.navigate", url=url)
        browser.wait_for("document.querySelector('tbody tr')")
        if "token" in browser.evaluate("location.href"):
            wrong.append("the token stays in the address bar")
        if browser.evaluate("document.cookie"):
            wrong.append("scripts can read the cookie")
        base = browser.evaluate("location.origin")
        param = browser.evaluate(f"fetch('/api/study?study={study}').then((answer) => answer.json()).then((study) => study.params[0].name)")
        best = browser.evaluate(f"fetch('/api/study?study={study}').then((answer) => answer.json()).then((study) => study.best?.number ?? study.front?.knee ?? 0)")
        if browser.evaluate(f"fetch('/api/study?study={study}').then((answer) => answer.json()).then((study) => Boolean(study.objectives))"):
            own = {f"figure-{kind}": (f"study={{study}}&view=figures&kind={kind}", FIGURE) for kind in ["pareto", "hypervolume"]}
            VIEWS.update(own)
        for name, (place, shown) in VIEWS.items():
            browser.messages.clear()
            for width in [3840, 1440, 390]:
                for theme in ["light", "dark"]:
                    browser.show(width, theme)
                    browser.call("Page.navigate", url="about:blank")
                    browser.call("Page.navigate", url=f"{base}/#{place.format(study=study, trial=best, param=param)}")
                    try:
                        browser.wait_for(shown)
                    except RuntimeError as error:
                        wrong.append(f"{name} {width} {theme}: {error}")
                    time.sleep(0.3)
                    wrong += [f"{name} {width} {theme}: {text}" for text in browser.evaluate(CHECKS) + browser.accessibility()]
                    browser.picture(f"{pictures}/{name}-{width}-{theme}.png")
            # A refused filter and an unknown study are 400 and 404, which Chromium logs.
            is_expected = lambda text: "status of 40" in text
            wrong += [f"{name}: {text}" for text in browser.messages if not is_expected(text)]
        wrong += steered(browser, base, study, best)
        wrong += crowded(browser, base, study)
    finally:
        browser.close()
        server.terminate()
        server.wait()
    print("\n".join(sorted(set(wrong))) or f"{len(VIEWS)} views are in order")
    sys.exit(bool(wrong))


def steered(browser, base, study, trial):
    """Types, clicks and presses keys as a person would."""
    wrong = []
    browser.show(1440, "light")
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=f"{base}/#study={study}")
    browser.wait_for("document.querySelector('tbody tr a')")

    def key(text, code=None):
        code = code or text
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=code, text=text if len(text) == 1 else "")
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=code)

    key("/")
    browser.call("Input.insertText", text="state:complete")
    browser.wait_for("location.hash.includes('where=state')")
    browser.wait_for("![...document.querySelectorAll('tbody .state')].some((one) => one.textContent !== 'complete')")
    key("", "Escape")
    browser.evaluate("document.querySelectorAll('.sort')[0].click()")
    browser.wait_for("document.querySelector('th[aria-sort=ascending]').textContent.startsWith('trial')")
    for press, selected in [("j", 1), ("j", 2), ("k", 1)]:
        key(press)
        browser.wait_for(f"Number(document.querySelector('tr.selected').dataset.index) === {selected}")
    browser.evaluate("document.activeElement.blur()")
    key(" ", " ")
    key("3")
    browser.wait_for("location.hash.includes('view=compare') && document.querySelector('tbody tr')")
    key("1")
    browser.wait_for("document.querySelector('tbody input:checked')")
    key("\r", "Enter")
    browser.wait_for("document.querySelector('.chart canvas')")
    wrong += charted(browser)
    key("", "Escape")
    browser.wait_for("document.querySelector('tbody tr a') && !location.hash.includes('trial=')")
    browser.evaluate(f"location.hash = 'study={study}&trial={trial}'")
    browser.wait_for("document.querySelector('.buttons[aria-label=\"Control of the trial\"]')")
    key("a")
    browser.wait_for("document.querySelector('dialog[open] input')")
    browser.call("Input.insertText", text="<img src=x onerror=alert(1)> noted by the walk")
    browser.evaluate("document.querySelector('dialog form').requestSubmit()")
    browser.wait_for("document.body.innerText.includes('onerror=alert(1)> noted by the walk')")
    if browser.evaluate("document.querySelector('main img[src=x]') !== null"):
        wrong.append("a note became markup")
    return wrong


def crowded(browser, base, study):
    """Eight windows, more than a browser has connections, follow the study; those that are left do so
    when others are closed."""
    wrong, windows = [], []
    first = browser.session
    for _ in range(8):
        windows.append(browser.open_window(f"{base}/#study={study}"))
        browser.wait_for("document.querySelector('tbody tr a')", patience=30)
    for text in ["noted for all windows", "noted for those that are left"]:
        request = json.dumps({"study": study, "request": {"type": "note", "trial": None, "text": text}})
        headers = json.dumps({"Content-Type": "application/json", "X-Hpsearch": "1"})
        browser.evaluate(f"fetch('/api/control', {{ method: 'POST', headers: {headers}, body: {json.dumps(request)} }}).then(({{ ok }}) => ok)")
        for index, (_, browser.session) in enumerate(windows):
            try:
                browser.wait_for(f"document.body.textContent.includes('{text}')")
            except RuntimeError:
                wrong.append(f"window {index} of {len(windows)} does not follow: {text}")
        browser.close_window(windows.pop(0)[0])
        browser.session = windows[-1][1]
    for target, _ in windows:
        browser.close_window(target)
    browser.session = first
    return wrong


def charted(browser):
    """Points at a chart, zooms it and shows all again."""
    wrong = []
    browser.evaluate("document.querySelector('.chart').scrollIntoView({ block: 'center' })")
    over = "document.querySelector('.u-over').getBoundingClientRect()"
    left, top, width, height = browser.evaluate(f"(({{ left, top, width, height }}) => [left, top, width, height])({over})")
    at = lambda across, down: (left + width * across, top + height * down)
    for down in [0.9, 0.7, 0.5, 0.3, 0.1]:
        x, y = at(0.1, down)
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if browser.evaluate("document.querySelector('.tip')?.hidden === false"):
            break
    else:
        wrong.append("pointing at a chart shows no value")
    labels = "[document.querySelector('.chart').closest('.chart-box').querySelector('.hint button').hidden].join()"
    browser.drag(at(0.3, 0.5), at(0.6, 0.5))
    browser.wait_for(f"{labels} === 'false'")
    x, y = at(0.5, 0.5)
    for count in [1, 2]:
        for kind in ["mousePressed", "mouseReleased"]:
            browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
    try:
        browser.wait_for(f"{labels} === 'true'")
    except RuntimeError:
        wrong.append("a double click does not show all of a chart again")
    return wrong


if __name__ == "__main__":
    main(*sys.argv[1:5])
