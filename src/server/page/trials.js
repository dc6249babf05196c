// The table of trials: filtered and sorted by the server, a page at a time.

import { element, fill, state, table, tags } from "/elements.js";
import { duration, number, param } from "/format.js";
import { actOn } from "/control.js";
import { frontMark, isOnFront, objectivesOf, valueOf } from "/objectives.js";
import { read } from "/server.js";

const PAGE = 100;

const marked = new Map();

/// The trials of a study that are marked for comparison, in the order in which they were.
export function marks(study) {
  if (!marked.has(study)) marked.set(study, []);
  return marked.get(study);
}

export function showTrials(context) {
  const { page, at, body, study } = context;
  const wanted = { where: at.where ?? "", sort: at.sort ?? "value", reverse: at.reverse === "1", offset: Number(at.offset ?? 0), hidden: at.hidden === "1" };
  let rows = [];
  let selected = 0;
  let aborted = new AbortController();
  let timer = null;
  const filter = element("input", {
    type: "search", value: wanted.where, placeholder: "filter: state:complete learning_rate<1e-3 -tag:odd",
    "aria-label": "Filter", "aria-describedby": "problem", autocomplete: "off", spellcheck: "false",
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => change({ where: filter.value, offset: 0 }), 150); },
  });
  const hidden = element("input", { type: "checkbox", checked: wanted.hidden, onchange: () => change({ hidden: hidden.checked, offset: 0 }) });
  const problem = element("p", { id: "problem", class: "warning", role: "status" });
  const list = element("div", {});
  const pager = element("nav", { class: "pager", "aria-label": "Pages of the table" });
  fill(body,
    element("div", { class: "tools" }, filter, study.hidden > 0 && element("label", { class: "switch" }, hidden, ` ${study.hidden} hidden`)),
    problem, list, pager);

  const change = (values) => {
    Object.assign(wanted, values);
    selected = 0;
    page.keep({ study: study.name, where: wanted.where, sort: wanted.sort === "value" ? "" : wanted.sort, reverse: wanted.reverse, offset: wanted.offset || "", hidden: wanted.hidden });
    return load();
  };
  const load = async () => {
    aborted.abort();
    aborted = new AbortController();
    try {
      const part = await read("trials", { study: study.name, ...wanted, limit: PAGE }, aborted.signal);
      problem.textContent = "";
      rows = part.trials;
      show(part);
    } catch (error) {
      if (error.status === 400) fill(problem, error.remedy ? `${error.message}; ${error.remedy}` : error.message);
      else page.error(error);
    }
  };
  const head = (key, title, isNumber) => {
    const isSorted = wanted.sort === key;
    // The best is first.
    const isFalling = key === "value" && !context.study.front && context.study.direction === "maximize";
    const order = isSorted ? (wanted.reverse !== isFalling ? "descending" : "ascending") : "none";
    return element("th", { scope: "col", "aria-sort": order, class: isNumber ? "number" : false },
      element("button", { class: "sort", onclick: () => change({ sort: key, reverse: isSorted && !wanted.reverse, offset: 0 }) }, title));
  };
  const mark = (number) => {
    const own = marks(study.name);
    const place = own.indexOf(number);
    if (place >= 0) own.splice(place, 1);
    else own.push(number);
    const box = list.querySelector(`input[data-trial="${number}"]`);
    if (box) box.checked = place < 0;
    document.querySelector('.tabs a[title="key 3"]')?.setAttribute("href", page.link({ study: study.name, view: "compare", trials: own.join() }));
  };
  const valueCell = ({ value, isLast }) => element("td", { class: isLast ? "number dim" : "number", title: isLast && value !== null ? "last report" : false }, number(value));
  const show = (part) => {
    const { study } = context;
    const params = study.params.map(({ name }) => name);
    const heads = [
      element("th", { scope: "col" }, element("span", { class: "unseen" }, "compare")),
      head("number", "trial", true), study.is_tracked && element("th", { scope: "col" }, "name"), head("state", "state"),
      study.front && head("value", "front"),
      study.front ? objectivesOf(study).map(({ metric }) => head(metric, metric, true)) : head("value", study.metric, true), head("step", study.clock, true), head("seconds", "time", true),
      params.map((name) => head(name, name, true)), element("th", { scope: "col" }, "tags"), element("th", { scope: "col" }, "reason"),
    ];
    const row = (trial, index) => element("tr", { class: index === selected ? "selected" : false, "data-index": index },
      element("td", {}, element("input", { type: "checkbox", "aria-label": `compare trial ${trial.number}`, "data-trial": trial.number, checked: marks(study.name).includes(trial.number), onchange: () => mark(trial.number) })),
      element("th", { scope: "row", class: "number" }, element("a", { href: page.link({ study: study.name, trial: trial.number }) }, trial.number)),
      study.is_tracked && element("td", {}, trial.name ?? ""),
      element("td", {}, state(trial.state)),
      study.front && element("td", {}, isOnFront(study, trial.number) && frontMark()),
      objectivesOf(study).map((_, index) => valueCell(valueOf(trial, index))),
      element("td", { class: "number" }, trial.last_step ?? ""),
      element("td", { class: "number" }, duration(trial.seconds)),
      params.map((name) => element("td", { class: "number" }, param(trial.params[name]))),
      element("td", {}, tags(trial.tags), trial.notes > 0 && element("span", { class: "dim", title: "notes" }, ` ✎${trial.notes}`)),
      element("td", { class: "reason" }, trial.reason ?? ""));
    const isFocused = list.contains(document.activeElement) && document.activeElement.className === "sort";
    const place = isFocused ? [...list.querySelectorAll(".sort")].indexOf(document.activeElement) : -1;
    const box = list.querySelector(".wide");
    const left = box?.scrollLeft ?? 0;
    if (rows.length === 0) fill(list, element("p", { class: "empty" }, wanted.where ? "No trial passes the filter." : "There are no trials yet."));
    else fill(list, table(`Trials of ${study.name}`, heads, rows.map(row)));
    if (list.firstChild.className === "wide") list.firstChild.scrollLeft = left;
    if (place >= 0) list.querySelectorAll(".sort")[place]?.focus();
    const last = part.offset + rows.length;
    const turn = (title, offset, isThere) => element("button", { disabled: !isThere, onclick: () => change({ offset }) }, title);
    fill(pager,
      turn("Previous", Math.max(0, part.offset - PAGE), part.offset > 0),
      element("span", {}, part.matching === 0 ? "0 trials" : `${(part.offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${part.matching.toLocaleString("en")}`),
      turn("Next", part.offset + PAGE, last < part.matching));
  };
  const select = (index) => {
    if (rows.length === 0) return;
    selected = Math.min(Math.max(index, 0), rows.length - 1);
    for (const row of list.querySelectorAll("tbody tr")) row.classList.toggle("selected", Number(row.dataset.index) === selected);
    list.querySelector("tr.selected")?.scrollIntoView({ block: "nearest" });
  };
  context.key = ({ key }) => {
    const trial = rows[selected];
    if (key === "/") filter.focus();
    else if (key === "j" || key === "ArrowDown") select(selected + 1);
    else if (key === "k" || key === "ArrowUp") select(selected - 1);
    else if (key === " " && trial && document.activeElement.tagName !== "BUTTON") { mark(trial.number); select(selected + 1); }
    else if (key === "Enter" && trial && document.activeElement.tagName !== "A" && document.activeElement.tagName !== "BUTTON") page.go({ study: study.name, trial: trial.number });
    else return Boolean(trial) && actOn(page, study.name, trial, key);
    return true;
  };
  context.changed = load;
  load();
  return () => { clearTimeout(timer); aborted.abort(); };
}
