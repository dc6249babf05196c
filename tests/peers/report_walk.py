"""Walks a report in headless Chromium and writes pictures of it.

    python3 tests/peers/report_walk.py report.html PICTURES

It fails on messages in the console, on requests to anywhere, on something wider than the window, on
controls without a name, on text of low contrast, on words of tables that print breaks, and on what a
click should have done and did not.
"""

import os
import sys

from page import CHECKS, Browser, charted


def main(report, pictures):
    os.makedirs(pictures, exist_ok=True)
    address = "file://" + os.path.abspath(report)
    browser, wrong = Browser(), []

    def opened(width, theme, place=""):
        browser.show(width, theme)
        browser.call("Page.navigate", url="about:blank")
        browser.call("Page.navigate", url=address + place)
        browser.wait_for("document.querySelector('.trials tbody tr')")

    try:
        for width in [3840, 1440, 390]:
            for theme in ["light", "dark"]:
                opened(width, theme)
                wrong += [f"{width} {theme}: {text}" for text in browser.evaluate(CHECKS) + browser.accessibility()]
                browser.picture(f"{pictures}/report-{width}-{theme}.png")
                browser.evaluate("document.querySelector('.answer a').click()")
                browser.wait_for("document.querySelector('section.trial')")
                wrong += [f"trial {width} {theme}: {text}" for text in browser.evaluate(CHECKS) + browser.accessibility()]
                browser.evaluate("document.querySelectorAll('.figures, table').forEach((one) => { if (!one.closest('.trial')) one.remove(); })")
                browser.picture(f"{pictures}/report-trial-{width}-{theme}.png")
        wrong += steered(browser, opened) + printed(browser, opened)
        loaded = browser.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
        wrong += [f"loads {name}" for name in loaded]
        wrong += browser.messages
    finally:
        browser.close()
    print("\n".join(sorted(set(wrong))) or "the report is in order")
    sys.exit(bool(wrong))


# Words of tables that are on two lines. Lines may break at spaces, and behind the joints of names.
BROKEN = """(() => {
  const broken = [];
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!text.parentElement.closest('td, th')) continue;
    for (const { 0: word, index } of text.data.matchAll(/[^\\s_.\\/-]{1,25}/g)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) broken.push(word);
    }
  }
  return broken;
})()"""


def printed(browser, opened):
    """Words that are broken on paper."""
    opened(690, "light")
    browser.call("Emulation.setEmulatedMedia", media="print")
    broken = browser.evaluate(BROKEN)
    browser.call("Emulation.setEmulatedMedia", media="")
    return [f"print breaks {len(broken)} words of tables: {broken[:5]}"] if broken else []


def steered(browser, opened):
    """Types, clicks and presses keys as a person would."""
    wrong = []
    opened(1440, "light")
    rows = "document.querySelectorAll('.trials[data-study=\"0\"] tbody tr').length"
    all_rows = browser.evaluate(rows)
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="/", text="/")
    browser.call("Input.insertText", text="state:complete")
    browser.wait_for("![...document.querySelectorAll('.trials[data-study=\"0\"] tbody .state')].some((one) => one.textContent !== 'complete')")
    if browser.evaluate("document.activeElement.value") != "state:complete":
        wrong.append("`/` does not lead to the filter")
    browser.evaluate("(() => { const input = document.activeElement; input.value = 'nothing>1'; input.dispatchEvent(new Event('input')); })()")
    browser.wait_for("document.querySelector('.warning').textContent.includes('nothing')")
    browser.evaluate("(() => { const input = document.activeElement; input.value = ''; input.dispatchEvent(new Event('input')); })()")
    if browser.evaluate(rows) != all_rows:
        wrong.append("an empty filter does not show all")
    first = "document.querySelector('.trials tbody th').textContent"
    browser.evaluate("document.querySelector('.sort').click()")
    browser.wait_for(f"{first} === '0'")
    browser.evaluate("document.querySelector('.sort').click()")
    browser.wait_for(f"{first} !== '0'")
    browser.evaluate("document.querySelector('.answer a').click()")
    browser.wait_for("document.activeElement.matches('section.trial')")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    browser.wait_for("!document.querySelector('section.trial')")
    wrong += charted(browser)
    before = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    browser.evaluate("document.getElementById('theme').click()")
    if browser.evaluate("getComputedStyle(document.body).backgroundColor") == before:
        wrong.append("the switch of the theme does nothing")
    return wrong


if __name__ == "__main__":
    main(*sys.argv[1:3])
