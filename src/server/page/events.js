// The journal: its end, and what is added while it is read.

import { element, fill } from "/elements.js";
import { moment } from "/format.js";
import { read } from "/server.js";

const PAGE = 300;
const MOST = 5000;

export function showEvents(context) {
  const { page, at, body, study } = context;
  let entries = [];
  let before = null;
  const text = element("input", { type: "search", placeholder: "text, or trial 7", "aria-label": "Entries that contain this text", oninput: () => show() });
  const reports = element("input", { type: "checkbox", onchange: () => show() });
  const list = element("ol", { class: "journal", "aria-label": "Journal, the newest first" });
  const more = element("button", { onclick: () => older() }, "Earlier entries");
  fill(body, element("div", { class: "tools" }, text, element("label", { class: "switch" }, reports, " reports")), list, more);
  const shows = (entry) => {
    if (!reports.checked && entry.kind === "report") return false;
    const wanted = text.value.trim().toLowerCase().replace(/\s+/g, " ");
    if (wanted === "") return true;
    const number = wanted.replace(/^trial /, "");
    if (/^\d+$/.test(number) && entry.trial === Number(number)) return true;
    return `trial ${entry.trial} ${entry.text}`.toLowerCase().includes(wanted) && !/^trial \d+$/.test(wanted);
  };
  const line = (entry) => element("li", { class: `entry ${entry.kind}` },
    element("time", {}, moment(entry.at)), " ",
    entry.trial !== null && element("a", { href: page.link({ study: study.name, trial: entry.trial }) }, `trial ${entry.trial}`), " ",
    element("span", {}, entry.text));
  const show = () => {
    const shown = entries.filter(shows);
    if (shown.length === 0) fill(list, element("li", { class: "empty" }, text.value ? "No entry contains this text." : "Nothing has happened yet."));
    else fill(list, shown.slice().reverse().map(line));
    more.hidden = before === null;
  };
  const take = (part) => { before = part.before; entries = [...part.entries, ...entries]; show(); };
  const older = () => read("events", { study: study.name, limit: PAGE, before }).then(take).catch(page.error);
  const load = async () => {
    const part = await read("events", { study: study.name, limit: PAGE });
    const known = entries.at(-1)?.seq ?? 0;
    const news = part.entries.filter((entry) => entry.seq > known);
    // With more news than one page, what is known does not touch it.
    if (news.length === part.entries.length && entries.length > 0) { entries = []; }
    if (entries.length === 0) { take(part); return; }
    if (news.length > 0) { entries = [...entries, ...news].slice(-MOST); show(); }
  };
  context.changed = () => load().catch(page.error);
  context.key = ({ key }) => { if (key !== "/") return false; text.focus(); return true; };
  if (at.text) text.value = at.text;
  load().catch(page.error);
}
