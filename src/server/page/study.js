// A study: its head, and the tabs below it.

import { element, facts, fill, state, tags } from "/elements.js";
import { counts, duration, moment } from "/format.js";
import { showCompare } from "/compare.js";
import { controlsOf } from "/control.js";
import { showDevices } from "/devices.js";
import { showEvents } from "/events.js";
import { showFigures } from "/figures.js";
import { best, goal } from "/objectives.js";
import { calmly, listen, read } from "/server.js";
import { showTrial } from "/trial.js";
import { marks, showTrials } from "/trials.js";

const TABS = [
  ["trials", "Trials", "1", showTrials],
  ["compare", "Compare", "3", showCompare],
  ["figures", "Figures", "4", showFigures],
  ["devices", "Devices", "5", showDevices],
  ["events", "Events", "6", showEvents],
];

export function showStudy(page, at) {
  const head = element("div", { class: "head" });
  const body = element("div", {});
  const view = at.trial ? null : at.view ?? "trials";
  const tab = ([name, title, key]) => element("a", {
    href: page.link({ study: at.study, view: name, ...(name === "compare" ? { trials: marks(at.study).join() } : {}) }), "aria-current": name === view ? "page" : false, title: `key ${key}`,
  }, title);
  fill(head, element("h1", {}, at.study));
  fill(page.main, head, element("nav", { class: "tabs", "aria-label": "Views of the study" }, TABS.map(tab)), body);
  const [, , , open] = TABS.find(([name]) => name === view) ?? [null, null, null, at.trial ? showTrial : showTrials];
  const context = { page, at, body, study: null, changed: () => {} };
  let isOpen = false;
  let isLeft = false;
  let close = () => {};
  const load = async () => {
    try {
      context.study = await read("study", { study: at.study });
      if (isLeft) return;
      page.trouble(null);
      showHead(page, head, context);
      if (!isOpen) {
        isOpen = true;
        close = open(context) ?? (() => {});
      } else {
        await context.changed();
      }
    } catch (error) { page.error(error); }
  };
  const soon = calmly(load, 250);
  load();
  const deaf = listen({ changed: soon, trouble: page.trouble });
  const keys = (event) => onKey(event, page, at, context);
  addEventListener("keydown", keys);
  return () => { isLeft = true; deaf(); close(); removeEventListener("keydown", keys); };
}

function showHead(page, head, context) {
  const { study } = context;
  const total = Object.values(study.trials).reduce((sum, many) => sum + many, 0);
  const many = study.budget ? `${study.counted} of ${study.budget}` : total;
  // What is being typed or opened in the head is not taken away.
  if (head.contains(document.activeElement) && document.activeElement !== document.body) return;
  fill(head,
    element("h1", {}, study.name, " ", state(study.state), " ", tags(study.tags)),
    study.description && element("p", {}, study.description),
    facts([
      ["goal", goal(study)],
      ["best", best(page, study)],
      ["budget", study.unmeasured],
      ["trials", `${many}${total ? `: ${counts(study.trials, study.state)}` : ""}`],
      ["time", duration(study.seconds)],
      ["created", moment(study.created)],
      ["ended", study.reason],
    ]),
    study.notes.length > 0 && element("details", {}, element("summary", {}, `notes (${study.notes.length})`),
      study.notes.map((note) => element("p", { class: "note" }, element("time", {}, moment(note.at)), " ", note.text))),
    page.server.is_controlled && controlsOf(page, study, null));
}

/// Keys as on the screens, where nothing is being typed.
function onKey(event, page, at, context) {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector("dialog[open]");
  if (event.key === "Escape" && event.target.tagName === "INPUT") { event.target.blur(); return; }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const tab = TABS.find(([, , key]) => key === event.key);
  if (tab) page.go({ study: at.study, view: tab[0], ...(tab[0] === "compare" ? { trials: marks(at.study).join() } : {}) });
  else if (event.key === "Escape") page.go(at.trial || (at.view ?? "trials") !== "trials" ? { study: at.study } : {});
  else if (event.key === "?") showKeys();
  else if (!context.key?.(event)) return;
  event.preventDefault();
}

const KEYS = [
  ["1 3 4 5 6", "trials, compare, figures, devices, events"], ["/", "filter"], ["j k", "next, previous trial"],
  ["Space", "mark the trial for comparison"], ["Enter", "open the trial"], ["Esc", "back"], ["x p", "kill, pause or resume the trial (with --control)"],
  ["a t", "note, tag on the trial (with --control)"], ["?", "these keys"],
];

function showKeys() {
  const close = () => dialog.close();
  const dialog = element("dialog", { "aria-label": "Keys", onclose: () => dialog.remove() },
    element("h2", {}, "Keys"), facts(KEYS), element("button", { onclick: close }, "Close"));
  document.body.append(dialog);
  dialog.showModal();
}
