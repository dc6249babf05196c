// Figures: charts that answer to the pointer, and others as the server draws them for the theme and
// width of the page.

import { chart } from "/chart.js";
import { element, fill } from "/elements.js";
import { metricsOf, objectivesOf } from "/objectives.js";
import { query, read } from "/server.js";

const KINDS = [
  ["history", "History"], ["curves", "Curves"], ["slice", "Slices"], ["parallel", "Parallel coordinates"],
  ["importance", "Importance"], ["contour", "Contour"], ["rungs", "Rungs"], ["edf", "Distribution"],
  ["comparison", "Best over time"], ["timeline", "Timeline"], ["system", "System metrics"],
];

/// Those of a study of several objectives.
const FRONT_KINDS = [["pareto", "Front"], ["hypervolume", "Hypervolume"]];

/// Those that show no objective by itself.
const WITHOUT_OBJECTIVE = ["pareto", "hypervolume", "rungs", "timeline", "system"];

/// Those that are charts.
const CHARTS = ["history", "curves", "comparison"];

const MOST_SLICES = 24;

const dark = matchMedia("(prefers-color-scheme: dark)");

/// A figure that is drawn anew on demand, and when the theme or the width changes. A picture stays
/// until the next one is there.
function figure(page, values, alt) {
  const picture = element("img", { alt, hidden: true });
  const empty = element("p", { class: "empty", hidden: true });
  const box = element("figure", {}, picture, empty);
  let address = null;
  let newest = 0;
  const draw = async () => {
    newest += 1;
    const own = newest;
    const width = Math.max(320, Math.min(Math.round(box.clientWidth || 760), 1100));
    const query_ = query({ ...values(), theme: dark.matches ? "dark" : "light" });
    const size = query({ width, height: Math.round(Math.max(240, width * 0.5)) });
    const answer = await fetch(`/api/figure.svg?${query_}&${size}`);
    // One that was asked for later, of another width or theme, may have come before.
    if (own !== newest) return;
    if (!answer.ok) {
      const { error } = await answer.json().catch(() => ({ error: "it cannot be drawn" }));
      fill(empty, error);
      empty.hidden = false;
      picture.hidden = true;
      return;
    }
    const drawn = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(await answer.text())}`;
    if (drawn !== address) { address = drawn; picture.src = drawn; }
    picture.hidden = false;
    empty.hidden = true;
  };
  const again = () => { draw().catch(page.error); };
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (Math.abs(box.clientWidth - width) > 20) { width = box.clientWidth; again(); }
  });
  observer.observe(box);
  dark.addEventListener("change", again);
  return { element: box, draw, close: () => { observer.disconnect(); dark.removeEventListener("change", again); } };
}

/// Charts of what the server knows as figures, drawn anew on demand.
export function charts(page, study, values) {
  const empty = element("p", { class: "empty", hidden: true });
  const box = element("div", { class: "charts" }, empty);
  const open = (trial) => page.go({ study, trial });
  let drawn = [];
  const draw = async () => {
    let figures = [];
    try {
      figures = (await read("figures", { study, ...values() })).figures;
      empty.hidden = true;
    } catch (error) {
      if (error.status !== 400) throw error;
      fill(empty, error.message);
      empty.hidden = false;
    }
    while (drawn.length > figures.length) { const last = drawn.pop(); last.close(); last.element.parentElement.remove(); }
    while (drawn.length < figures.length) { const next = chart({ open }); drawn.push(next); box.append(element("figure", {}, next.element)); }
    figures.forEach((figure, at) => drawn[at].show(figure));
  };
  return { element: box, draw, close: () => drawn.forEach(({ close }) => close()) };
}

/// Curves of some trials, with the choice of their metric and axes.
export function curvesOf(page, study, trials, metric) {
  const values = { kind: "curves", trial: trials, metric, log_x: false, log_y: false };
  const shown = charts(page, study, () => values);
  const draw = () => { shown.draw().catch(page.error); };
  const metrics = element("select", { "aria-label": "Metric of the curves", onchange: () => { values.metric = metrics.value; draw(); } });
  const box = (name, title) => {
    const input = element("input", { type: "checkbox", onchange: () => { values[name] = input.checked; draw(); } });
    return element("label", { class: "switch" }, input, ` ${title}`);
  };
  const tools = element("div", { class: "tools" }, metrics, box("log_x", "log x"), box("log_y", "log y"));
  return {
    element: element("div", {}, tools, shown.element), draw: shown.draw, close: shown.close,
    /// The metrics that there are.
    offer(names) {
      if (names.join() === [...metrics.options].map((option) => option.value).join()) return;
      fill(metrics, names.map((name) => element("option", { value: name, selected: name === values.metric }, name)));
    },
  };
}

export function showFigures(context) {
  const { page, at, body, study } = context;
  const isSeveral = Boolean(study.objectives);
  const values = { kind: at.kind ?? (isSeveral ? "pareto" : "history"), metric: at.metric ?? "", group: at.group ?? "", over: at.over ?? "", log_x: at.log_x === "1", log_y: at.log_y === "1" };
  const change = (changed) => {
    Object.assign(values, changed);
    page.keep({ study: study.name, view: "figures", ...values });
    offer();
    open().catch(page.error);
  };
  const choice = (label, options, value, onchange) => {
    const select = element("select", { "aria-label": label, onchange: () => onchange(select.value) },
      options.map(([name, title]) => element("option", { value: name, selected: name === value }, title)));
    return select;
  };
  const kinds = choice("Kind of figure", isSeveral ? [...FRONT_KINDS, ...KINDS] : KINDS, values.kind, (kind) => change({ kind }));
  const metrics = choice("Metric", [], "", (metric) => change({ metric }));
  const params = study.params.map(({ name }) => name);
  const by = [...new Set([...(study.is_tracked ? ["group"] : []), ...params])];
  const chosen = values.group ? `by ${values.group}` : values.over ? `over ${values.over}` : "";
  const kindsOfGroups = [["", "each trial"], ...by.map((name) => [`by ${name}`, `mean by ${name}`]), ...params.map((name) => [`over ${name}`, `mean over ${name}`])];
  const after = (word, text) => (text.startsWith(`${word} `) ? text.slice(word.length + 1) : "");
  const groups = choice("Groups of curves", kindsOfGroups, chosen, (text) => change({ group: after("by", text), over: after("over", text) }));
  // Curves are of any metric, other figures of an objective, of several each in turn.
  const offer = () => {
    const own = objectivesOf(study).map(({ metric }) => metric);
    const isOfAnObjective = isSeveral && !WITHOUT_OBJECTIVE.includes(values.kind);
    const names = values.kind === "curves" ? metricsOf(study) : own;
    if (!names.includes(values.metric)) values.metric = "";
    const all = isSeveral ? [["", "all objectives"]] : [];
    const name = (one) => [!isSeveral && one === study.metric ? "" : one, one];
    fill(metrics, [...all, ...names.map(name)].map(([value, title]) => element("option", { value, selected: value === values.metric }, title)));
    groups.hidden = values.kind !== "curves" || names.length === 0;
    metrics.hidden = values.kind !== "curves" && !isOfAnObjective;
  };
  offer();
  const box = (name, title) => {
    const input = element("input", { type: "checkbox", checked: values[name], onchange: () => change({ [name]: input.checked }) });
    return element("label", { class: "switch" }, input, ` ${title}`);
  };
  const grid = element("div", {});
  let drawn = [];
  // Slices are one picture for each parameter, so that narrow windows have them below each other.
  const open = () => {
    drawn.forEach(({ close }) => close());
    // Those without a kind are the same in all tracked runs.
    const sliced = study.params.filter(({ kind }) => kind);
    const params = values.kind === "slice" && sliced.length > 0 ? sliced.slice(0, MOST_SLICES).map(({ name }) => name) : [null];
    // So are those of several objectives.
    const own = isSeveral && !WITHOUT_OBJECTIVE.includes(values.kind) && values.metric === "" ? objectivesOf(study).map(({ metric }) => metric) : [values.metric];
    const panels = params.flatMap((param) => own.map((metric) => [param, metric]));
    const alt = (param, metric) => (param ? `${metric || "Values"} by ${param}` : `The figure ${values.kind} of ${study.name}${metric && `, ${metric}`}`);
    drawn = CHARTS.includes(values.kind)
      ? [charts(page, study.name, () => ({ ...values, ...(values.kind === "curves" ? {} : { group: "", over: "" }) }))]
      : panels.map(([param, metric]) => figure(page, () => ({ study: study.name, ...values, param, metric }), alt(param, metric)));
    grid.className = params.length > 1 ? "grid" : "";
    fill(grid, drawn.map((one) => one.element));
    return draw();
  };
  const draw = () => Promise.all(drawn.map((one) => one.draw()));
  fill(body, element("div", { class: "tools" }, kinds, metrics, groups, box("log_x", "log x"), box("log_y", "log y")), grid);
  open().catch(page.error);
  context.changed = draw;
  return () => drawn.forEach(({ close }) => close());
}
