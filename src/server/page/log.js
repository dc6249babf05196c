// The end of a trial's log, followed while it grows.

import { element, fill } from "/elements.js";
import { bytes } from "/format.js";
import { read } from "/server.js";

/// How often a log that grows is looked at: its program writes no event of it.
const TURN = 1000;

export function logOf(page, study, number) {
  const attempts = element("select", { "aria-label": "Attempt of the log", hidden: true, onchange: () => { known = {}; load(); } });
  const note = element("span", { class: "dim", role: "status" });
  const text = element("pre", { tabindex: "0", class: "log", "aria-label": "End of the log" });
  const box = element("section", { hidden: true }, element("h2", {}, "Log"), element("div", { class: "tools" }, attempts, note), text);
  let known = {};
  let timer = null;
  let isLeft = false;
  let isGrowing = false;
  const load = async () => {
    try {
      const part = await read("log", { study, trial: number, attempt: attempts.value, ...known });
      if (isLeft || part.lines === null) return;
      box.hidden = part.lines.length === 0 && part.bytes === 0;
      known = part.attempt === null ? {} : { known: part.attempt, bytes: part.bytes };
      // Whoever has scrolled back goes on reading there.
      const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
      text.textContent = part.lines.join("\n");
      note.textContent = part.cut ? `the last ${bytes(64 * 1024)} of ${bytes(part.bytes)}; hpsearch logs has all` : "";
      if (isAtEnd) text.scrollTop = text.scrollHeight;
    } catch (error) {
      box.hidden = false;
      text.textContent = "";
      fill(note, error.message);
    }
  };
  const turn = async () => {
    timer = null;
    if (isLeft) return;
    if (document.visibilityState === "visible") await load();
    if (isGrowing && !isLeft) timer ??= setTimeout(turn, TURN);
  };
  return {
    element: box,
    /// The trial has changed.
    follow(trial) {
      isGrowing = trial.state === "running";
      const numbers = trial.attempts_made.map(({ attempt }) => attempt);
      if (numbers.length !== attempts.options.length - 1) {
        fill(attempts, element("option", { value: "" }, "last attempt"), numbers.map((one) => element("option", { value: one }, `attempt ${one}`)));
      }
      attempts.hidden = numbers.length < 2;
      if (timer === null) turn();
    },
    close() { isLeft = true; clearTimeout(timer); },
  };
}
