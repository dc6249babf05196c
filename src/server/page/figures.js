// Figures, drawn by the server for the theme and width of the page.

import { element, fill } from "/elements.js";
import { query } from "/server.js";

const KINDS = [
  ["history", "History"], ["curves", "Curves"], ["slice", "Slices"], ["parallel", "Parallel coordinates"],
  ["importance", "Importance"], ["contour", "Contour"], ["rungs", "Rungs"], ["edf", "Distribution"],
  ["comparison", "Best over time"], ["timeline", "Timeline"], ["system", "System metrics"],
];

const MOST_SLICES = 24;

const dark = matchMedia("(prefers-color-scheme: dark)");

/// A figure that is drawn anew on demand, and when the theme or the width changes. A picture stays
/// until the next one is there.
export function figure(page, title, values, alt) {
  const picture = element("img", { alt, hidden: true });
  const empty = element("p", { class: "empty", hidden: true });
  const box = element("figure", {}, title && element("figcaption", {}, title), picture, empty);
  let address = null;
  const draw = async () => {
    const width = Math.max(320, Math.min(Math.round(box.clientWidth || 760), 1100));
    const query_ = query({ ...values(), theme: dark.matches ? "dark" : "light" });
    const size = query({ width, height: Math.round(Math.max(240, width * 0.5)) });
    const answer = await fetch(`/api/figure.svg?${query_}&${size}`);
    if (!answer.ok) {
      const { error } = await answer.json().catch(() => ({ error: "it cannot be drawn" }));
      empty.textContent = error;
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

export function showFigures(context) {
  const { page, at, body, study } = context;
  const values = { kind: at.kind ?? "history", metric: at.metric ?? "", log_x: at.log_x === "1", log_y: at.log_y === "1" };
  const change = (changed) => {
    Object.assign(values, changed);
    page.keep({ study: study.name, view: "figures", ...values });
    metrics.hidden = values.kind !== "curves";
    open().catch(page.error);
  };
  const choice = (label, options, value, onchange) => {
    const select = element("select", { "aria-label": label, onchange: () => onchange(select.value) },
      options.map(([name, title]) => element("option", { value: name, selected: name === value }, title)));
    return select;
  };
  const names = [...new Set([study.metric, ...study.metrics, ...study.series])];
  const kinds = choice("Kind of figure", KINDS, values.kind, (kind) => change({ kind }));
  const metrics = choice("Metric", names.map((name) => [name, name]), values.metric || study.metric, (metric) => change({ metric: metric === study.metric ? "" : metric }));
  metrics.hidden = values.kind !== "curves";
  const box = (name, title) => {
    const input = element("input", { type: "checkbox", checked: values[name], onchange: () => change({ [name]: input.checked }) });
    return element("label", { class: "switch" }, input, ` ${title}`);
  };
  const grid = element("div", {});
  let drawn = [];
  // Slices are one picture for each parameter, so that narrow windows have them below each other.
  const open = () => {
    drawn.forEach(({ close }) => close());
    const params = values.kind === "slice" ? study.params.slice(0, MOST_SLICES).map(({ name }) => name) : [null];
    const alt = (param) => (param ? `Values by ${param}` : `The figure ${values.kind} of ${study.name}`);
    drawn = params.map((param) => figure(page, "", () => ({ study: study.name, ...values, param }), alt(param)));
    grid.className = params.length > 1 ? "grid" : "";
    fill(grid, drawn.map((one) => one.element));
    return draw();
  };
  const draw = () => Promise.all(drawn.map((one) => one.draw()));
  fill(body, element("div", { class: "tools" }, kinds, metrics, box("log_x", "log x"), box("log_y", "log y")), grid);
  open().catch(page.error);
  context.changed = draw;
  return () => drawn.forEach(({ close }) => close());
}
