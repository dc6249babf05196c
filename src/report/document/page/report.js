// Tables of trials, their pages, and the switch of the theme. Every text becomes a text node, so
// that no name, note or log is markup.

import { FilterError, parseFilter, STATES, trialOf, valueText } from "./filter.js";
import { chart } from "/chart.js";
import { element, facts, fill, state, table } from "/elements.js";
import { bytes, count, duration, number, param, quoted } from "/format.js";

const ROWS = 100;
// Many more at once keep a browser busy for seconds, each time that they are sorted.
const FURTHER = 1000;
// How tables of more columns are printed: on a page across, on one of A1, or with words broken.
const PAGES = [[60, "endless"], [18, "vast"], [9, "broad"]];

// Microseconds since 1970: a report is read in other time zones.
function utc(micros) {
  return micros ? `${new Date(micros / 1000).toISOString().slice(0, 19).replace("T", " ")} UTC` : "";
}

// A name that lines may break at its joints, and nowhere else.
function parted(name) {
  return name.split(/(?<=[._/])/).flatMap((part, at) => (at === 0 ? [part] : [element("wbr"), part]));
}

function stateWord(trial, study) {
  return study.tracked && trial.state === "paused" ? "interrupted" : trial.state;
}

// The value of an objective; the first one has the place of the only one.
function known(trial, study, at) {
  if (at > 0) return trial.metrics.get(study.objectives[at].metric) ?? null;
  return trial.value ?? trial.last_value;
}

function shownValues(trial, study) {
  if (study.objectives === undefined) return [[study.metric, shownValue(trial)]];
  const shown = (value) => (value === null ? "" : trial.state === "complete" ? number(value) : `(${number(value)})`);
  return study.objectives.map(({ metric }, at) => [metric, shown(known(trial, study, at))]);
}

function shownValue(trial) {
  if (trial.value !== null) return number(trial.value);
  return trial.last_value === null ? "" : `(${number(trial.last_value)})`;
}

// The best first, NaN worse than all, trials without a value last; as the program has it.
function byValue(study) {
  const sign = study.direction === "maximize" ? -1 : 1;
  const group = (trial) => (trial.state === "complete" && trial.value !== null ? 0 : trial.last_value === null ? 2 : 1);
  const loss = (trial) => { const value = group(trial) === 0 ? trial.value : trial.last_value; return Number.isNaN(value) ? Infinity : sign * (value ?? Infinity); };
  return (one, other, turn) => group(one) - group(other) || turn * compare(loss(one), loss(other));
}

function compare(one, other) {
  if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
  return typeof one === "number" ? -1 : 1;
}

// Absent values are last in both directions.
function by(get) {
  const isAbsent = (value) => value === null || value === undefined || Number.isNaN(value) || value === "";
  return (one, other, turn) => {
    const [left, right] = [get(one), get(other)];
    if (isAbsent(left) || isAbsent(right)) return isAbsent(left) - isAbsent(right);
    return turn * compare(left, right);
  };
}

function columnsOf(study) {
  const columns = [{ title: study.tracked ? "run" : "trial", isNumber: true, order: by((trial) => trial.number) }];
  if (study.tracked) columns.push({ title: "name", cell: (trial) => trial.name ?? "", order: by((trial) => trial.name) });
  columns.push({ title: "state", order: by((trial) => STATES.indexOf(trial.state)) });
  if (study.objectives === undefined) columns.push({ title: study.metric, isNumber: true, isFirst: true, isFalling: study.direction === "maximize", cell: shownValue, order: byValue(study) });
  else {
    columns.push({ title: "front", isFirst: true, cell: (trial) => (study.front.includes(trial.number) ? "on the front" : ""), order: by((trial) => trial.rank) });
    study.objectives.forEach(({ metric }, at) => columns.push({ title: metric, isNumber: true, cell: (trial) => shownValues(trial, study)[at][1], order: by((trial) => known(trial, study, at)) }));
  }
  columns.push({ title: study.step, isNumber: true, cell: (trial) => number(trial.step), order: by((trial) => trial.step) });
  columns.push({ title: "time", isNumber: true, cell: (trial) => duration(trial.seconds), order: by((trial) => trial.seconds) });
  for (const { name } of study.params) {
    columns.push({ title: name, isParam: true, cell: (trial) => param(trial.params.get(name)), order: by((trial) => { const given = trial.params.get(name); return typeof given === "number" ? given : given === undefined ? null : valueText(given); }) });
  }
  const isObjective = (name) => study.objectives?.some(({ metric }) => metric === name);
  for (const name of study.metrics.filter((name) => !isObjective(name))) columns.push({ title: name, isNumber: true, cell: (trial) => number(trial.metrics.get(name)), order: by((trial) => trial.metrics.get(name)) });
  columns.push({ title: "reason", cell: (trial) => trial.reason ?? "", order: by((trial) => trial.reason) });
  columns.push({ title: "tags", cell: (trial) => trial.tags.join(", "), order: by((trial) => trial.tags.join(", ")) });
  const isNeeded = (column) => !["tags", "reason"].includes(column.title) || study.rows.some((trial) => column.cell(trial) !== "");
  return columns.filter(isNeeded);
}

function showTrials(box, study, index, images) {
  const columns = columnsOf(study);
  const pages = new Map(study.pages.map((page) => [page.number, page]));
  const view = { order: columns.findIndex((column) => column.isFirst), turn: 1, most: ROWS, passes: () => true, hidden: false };
  const address = (trial) => `study-${index}-trial-${trial.number}`;

  const warning = element("p", { class: "warning", id: `warning-${index}`, role: "alert" });
  const status = element("span", { role: "status" });
  const input = element("input", { type: "search", autocomplete: "off", spellcheck: "false", "aria-describedby": `hint-${index} warning-${index}`, oninput: () => filter() });
  const hidden = element("input", { type: "checkbox", onchange: (event) => { view.hidden = event.target.checked; show(); } });
  const hasHidden = study.rows.some((trial) => trial.hidden);
  const first = study.params[0]?.name ?? "state";
  const hint = element("p", { class: "hint", id: `hint-${index}` }, "Terms joined by spaces: ", element("code", {}, "state:complete"), ", ",
    element("code", {}, /^[\p{L}\p{N}_.]+$/u.test(first) ? `${first}>0.1` : "value>0.1"), ", ", element("code", {}, "reason:rank"), ", ", element("code", {}, "-word"), ". The key / leads here.");
  const isOfNumbers = (column) => column.isNumber || (column.isParam && study.rows.some((trial) => typeof trial.params.get(column.title) === "number"));
  const heads = columns.map((column, at) => element("th", { scope: "col", class: isOfNumbers(column) && "number" },
    element("button", { class: "sort", type: "button", onclick: () => sort(at) }, parted(column.title))));
  const list = table(`Trials of ${study.study}`, heads, []);
  list.classList.add(PAGES.find(([most]) => columns.length > most)?.[1] ?? "upright");
  const body = list.querySelector("tbody");
  const more = element("button", { type: "button", class: "more", onclick: () => { view.most += FURTHER; show(); } });
  const place = element("div", { "aria-live": "polite" });
  fill(box, [
    element("div", { class: "tools", role: "search" },
      element("label", { class: "filter" }, "Filter", input), hasHidden && element("label", {}, hidden, " hidden ones, too"), status),
    hint, warning,
    list, more, place]);

  function sort(at) {
    view.turn = view.order === at ? -view.turn : 1;
    view.order = at;
    show();
  }

  function filter() {
    try {
      view.passes = parseFilter(input.value, study);
      warning.textContent = "";
      input.removeAttribute("aria-invalid");
      show();
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      fill(warning, error.message);
      input.setAttribute("aria-invalid", "true");
    }
  }

  function cellOf(column, trial) {
    if (column === columns[0]) {
      const text = String(trial.number);
      return element("th", { scope: "row", class: "number" }, pages.has(trial.number) ? element("a", { href: `#${address(trial)}` }, text) : text);
    }
    if (column.title === "state" && !column.cell) {
      return element("td", {}, state(stateWord(trial, study)), trial.infeasible && " violates a limit");
    }
    const isNumber = column.isNumber || (column.isParam && typeof trial.params.get(column.title) === "number");
    const text = column.cell(trial);
    return element("td", { class: isNumber && "number", title: text.length > 50 && text }, text);
  }

  function show() {
    const column = columns[view.order];
    const found = study.rows.filter((trial) => (view.hidden || !trial.hidden) && view.passes(trial));
    found.sort((one, other) => column.order(one, other, view.turn) || one.number - other.number);
    const shown = found.slice(0, view.most);
    const row = (trial) => element("tr", { class: trial.number === study.best || study.front?.includes(trial.number) ? "best" : trial.hidden ? "hidden" : false }, columns.map((one) => cellOf(one, trial)));
    body.replaceChildren(...shown.map(row));
    if (found.length === 0) body.append(element("tr", {}, element("td", { colspan: columns.length }, study.rows.length === 0 ? "There are no trials." : "No trial passes the filter.")));
    heads.forEach((head, at) => head.setAttribute("aria-sort", at !== view.order ? "none" : (view.turn === 1) !== Boolean(column.isFalling) ? "ascending" : "descending"));
    status.textContent = found.length === study.rows.length ? count(found.length, "trial") : `${found.length} of ${count(study.rows.length, "trial")}`;
    more.hidden = shown.length === found.length;
    const rest = found.length - shown.length;
    more.textContent = rest <= FURTHER ? `Show all ${found.length.toLocaleString("en")}` : `Show ${FURTHER.toLocaleString("en")} more of ${rest.toLocaleString("en")}`;
  }

  function open(wanted) {
    const trial = study.rows.find((one) => address(one) === wanted);
    place.replaceChildren();
    if (trial === undefined) return;
    const page = pages.get(trial.number);
    const close = () => { history.replaceState(null, "", `#trials-${index}`); place.replaceChildren(); document.getElementById(`trials-${index}`).scrollIntoView(); };
    place.append(page ? pageOf(study, trial, page, images, close) : element("p", {}, `Trial ${trial.number} has no page in this report: write it with --trial ${trial.number}.`));
    // The newest images are seen first.
    place.querySelectorAll(".strip").forEach((one) => { one.scrollLeft = one.scrollWidth; });
    place.firstElementChild.id = wanted;
    place.firstElementChild.scrollIntoView();
    place.firstElementChild.focus({ preventScroll: true });
  }

  show();
  const go = (number) => { location.hash = address({ number }); };
  return { open, go, input, place };
}

function listed(trial, caption, heads, rows) {
  return rows.length > 0 && [element("h4", {}, caption),
    table(`${caption} of trial ${trial.number}`, heads.map((head) => element("th", { scope: "col" }, head)), rows.map((row) => element("tr", {}, row.map((cell) => element("td", {}, cell)))))];
}

function pageOf(study, trial, page, images, close) {
  const about = [...shownValues(trial, study), [study.step, number(trial.step)], ["reason", trial.reason], ["origin", page.origin], ["device", trial.device],
    ["attempts", String(trial.attempts)], ["time", duration(trial.seconds)], ["created", utc(page.created)], ["finished", utc(page.finished)], ["group", trial.group],
    ["tags", trial.tags.join(", ")], ["hidden", trial.hidden && "yes"]];
  const params = Array.from(trial.params, ([name, value]) => [name, param(value)]);
  return element("section", { class: "trial", tabindex: "-1", "aria-label": `Trial ${trial.number}`, onkeydown: (event) => { if (event.key === "Escape") close(); } },
    element("header", {}, element("h4", {}, `${study.tracked ? "Run" : "Trial"} ${trial.number}${trial.name === null ? "" : ` ${trial.name}`} `, state(stateWord(trial, study))),
      element("button", { type: "button", onclick: close }, "Close")),
    facts(about),
    page.curve.length > 1 && curve(study, page),
    page.images !== undefined && [element("h4", {}, "Images"), page.images.map((one) => strip(study, one, images))],
    listed(trial, "Parameters", ["parameter", "value"], params),
    listed(trial, "Summary", ["name", "value"], Object.entries(page.summary).map(([name, value]) => [name, param(value)])),
    listed(trial, "Decisions", [study.step, "decision and reason"], page.decisions.map(([step, , text]) => [step, text])),
    listed(trial, "Attempts", ["attempt", "device", "started", "ended", "how", "reason"], page.attempts.map(([at, device, started, ended, end, reason]) => [at, device, utc(started), utc(ended), end, reason ?? ""])),
    listed(trial, "Series", ["metric", "by", "points", "last", "value"], page.series.map(([metric, clock, points, last, value]) => [metric, clock, points, last, number(value)])),
    listed(trial, "Artifacts", ["name", "kind", "size", "step"], page.artifacts.map(([name, kind, size, step]) => [name, kind, bytes(size), step ?? ""])),
    page.artifacts.length > 0 && element("p", {}, "To write one to a file, where the store is: ", element("code", {}, `hpsearch artifacts ${quoted(study.study)} ${trial.number} --get ${quoted(page.artifacts[0][0])}`)),
    page.notes.length > 0 && [element("h4", {}, "Notes"), element("ul", { class: "notes" }, page.notes.map(([at, text]) => element("li", {}, element("time", {}, utc(at)), " ", text)))],
    page.log !== undefined && [element("h4", {}, "End of the log"), element("pre", { tabindex: "0" }, page.log)]);
}

// A strip for each name, ordered by step. A click shows an image in its own size, another one as before.
function strip(study, [name, shown, leftOut], images) {
  const itemOf = ([label, step, digest]) => {
    const what = step === null ? label : `${label} at ${study.step} ${step}`;
    const picture = element("img", { alt: what, onload: () => picture.classList.toggle("tiny", picture.naturalHeight <= 64), src: images[digest] });
    const button = element("button", { type: "button", "aria-label": what, title: "In its own size", "aria-pressed": "false",
      onclick: () => button.setAttribute("aria-pressed", item.classList.toggle("large")) }, picture);
    const item = element("li", {}, button, element("span", { class: "dim" }, step === null ? label.match(/v\d+$/)?.[0] : `${study.step} ${step}`));
    return item;
  };
  return [element("h5", {}, name),
    shown.length > 0 && element("ul", { class: "strip", tabindex: "0", "aria-label": name }, shown.map(itemOf)),
    leftOut.length > 0 && element("p", { class: "dim" }, `Not in this report: ${leftOut.join("; ")}.`)];
}

function curve(study, page) {
  const shown = chart({});
  const title = `${study.metric} by ${page.clock}`;
  shown.show({
    title, empty: "no reports", x: { label: page.clock }, y: { label: study.metric },
    series: [{ name: "", mark: "line", role: "compared", index: 0, points: page.curve }],
  });
  return element("figure", {}, shown.element);
}

// Charts in the place of drawn figures, which stay for print.
function showCharts(figures, tables) {
  document.querySelectorAll(".with-points").forEach((box, at) => {
    const study = box.closest(".study");
    const shown = chart({ open: study && ((trial) => tables[Number(study.id.slice("study-".length))]?.go(trial)) });
    box.append(shown.element);
    box.removeAttribute("tabindex");
    box.classList.add("live");
    shown.show(figures[at]);
  });
}

function themeSwitch() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); document.dispatchEvent(new Event("theme")); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  button.hidden = false;
  label();
}

function start() {
  themeSwitch();
  const { studies, images, charts } = JSON.parse(document.getElementById("data").textContent);
  const tables = Array.from(document.querySelectorAll(".trials"), (box, index) => {
    const study = studies[index];
    study.rows = study.trials.map((row, rank) => ({ ...trialOf(row, study), rank }));
    return showTrials(box, study, index, images);
  });
  showCharts(charts, tables);
  const follow = () => {
    const wanted = decodeURIComponent(location.hash.slice(1));
    const found = /^study-(\d+)-trial-\d+$/.exec(wanted);
    if (found) tables[Number(found[1])]?.open(wanted);
  };
  addEventListener("hashchange", follow);
  // A link to the trial that the address names already changes nothing: it is opened again.
  document.addEventListener("click", (event) => { const link = event.target.closest("a"); if (link && link.hash !== "" && link.hash === location.hash) follow(); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input")) return;
    const below = tables.find(({ input }) => input.getBoundingClientRect().bottom > 0) ?? tables[0];
    if (below === undefined) return;
    event.preventDefault();
    below.input.focus();
    below.input.scrollIntoView({ block: "center" });
  });
  follow();
}

start();
