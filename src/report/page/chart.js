// Figures that answer to the pointer: the value under it, dragging zooms, a double click shows all.
//
// A figure is what `hpsearch plot --json` prints of one, with the ranges of its axes.

import { element, fill, visible } from "/elements.js";
import { number } from "/format.js";
import { uPlot } from "/uplot.js";

/// How far from the pointer, in pixels, a point may be whose value is shown.
const REACH = 60;
/// Lines with fewer points than this have a dot at each.
const DOTTED = 40;
const COLOURS = 6;
const DASHES = [[], [6, 3], [2, 3]];

const darkTheme = matchMedia("(prefers-color-scheme: dark)");

/// A chart, empty at first. `open(trial)` is called for a click on a trial's curve.
///
/// Its element is a picture with a text for those who do not see it; the legend is outside of it.
export function chart(page) {
  const title = element("p", { class: "chart-title" });
  const legend = element("ul", { class: "legend" });
  const picture = element("div", { class: "chart", role: "img" });
  const note = element("span", {});
  const reset = element("button", { type: "button", hidden: true, onclick: () => zoom(null) }, "Show all");
  const empty = element("p", { class: "empty", hidden: true });
  const box = element("div", { class: "chart-box" }, title, legend, picture, element("p", { class: "hint" }, note, " ", reset), empty);
  const off = new Set();
  let figure = null;
  let plot = null;
  let whole = null;
  let zoomed = null;
  let pointed = null;
  let drawn = "";

  function show(next) {
    const isSame = figure !== null && next.title === figure.title && next.x.log === figure.x.log && next.y.log === figure.y.log;
    figure = next;
    if (!isSame) { zoomed = null; off.clear(); }
    draw(isSame);
  }

  /// Draws it anew, or, if only points were added, in its place, so that a value that is pointed at
  /// stays.
  function draw(isSame = false) {
    const drawable = figure === null ? [] : figure.series.filter(({ points }) => points.length > 0).flatMap(edges(figure));
    const data = drawable.length > 0 ? aligned(figure, drawable) : [[]];
    const isEmpty = data[0].length === 0;
    const kinds = JSON.stringify(drawable.map(({ name, mark, role, trial, index }) => [name, mark, role, trial, index]));
    if (isSame && plot !== null && !isEmpty && kinds === drawn) {
      whole = wholeOf(figure, data);
      note.textContent = unseen(figure, whole);
      picture.setAttribute("aria-label", visible(described(figure)));
      plot.setData(data, false);
      zoom(zoomed);
      return;
    }
    drawn = kinds;
    plot?.destroy();
    plot = pointed = null;
    // Outside of a page it has no size and no colours: it is drawn when it comes to one.
    if (!box.isConnected) return;
    empty.hidden = !isEmpty;
    picture.hidden = title.hidden = isEmpty;
    if (figure !== null) { fill(title, figure.title); fill(empty, figure.empty); }
    fill(legend);
    if (isEmpty) { note.textContent = ""; reset.hidden = true; return; }
    whole = wholeOf(figure, data);
    note.textContent = unseen(figure, whole);
    picture.setAttribute("aria-label", visible(described(figure)));
    plot = new uPlot(options(drawable, data), data, picture);
    if (zoomed !== null) zoom(zoomed);
    for (const [name, places] of named(drawable)) {
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = plot.series[places[0] + 1].stroke(plot, 0);
      const press = () => {
        if (off.has(name)) off.delete(name); else off.add(name);
        button.setAttribute("aria-pressed", String(!off.has(name)));
        for (const place of places) plot.setSeries(place + 1, { show: !off.has(name) });
      };
      const button = element("button", { type: "button", "aria-pressed": String(!off.has(name)), onclick: press }, swatch, name);
      legend.append(element("li", {}, button));
    }
  }

  function size() {
    const width = Math.max(260, Math.min(picture.clientWidth || 720, 1400));
    return { width, height: Math.round(Math.max(220, Math.min(width * 0.48, 460))) };
  }

  function options(drawable, data) {
    const shade = shades(box);
    const [dim, grid, text] = [shade("dim"), shade("grid"), shade("text")];
    const isWhole = data[0].every(Number.isInteger);
    const axis = ({ label, log }, isAcross) => ({
      label: label ? visible(label) : undefined, labelSize: 20, labelFont: "12px system-ui, sans-serif", font: "12px system-ui, sans-serif", labelGap: 0,
      stroke: dim, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 },
      incrs: isAcross && isWhole ? WHOLE : undefined,
      values: (_, splits) => splits.map((value) => (value === null ? "" : number(Number(value.toPrecision(12))))),
      size: isAcross ? 34 : (one, texts, index, turn) => (turn > 1 ? one.axes[index]._size : 14 + 7 * Math.max(3, ...(texts ?? []).map((text) => text.length))),
      space: isAcross ? 70 : log ? 20 : 40,
    });
    const series = drawable.map((one) => {
      const colour = shade(one.role === "best" ? "best" : one.role === "background" ? "behind" : `series-${(one.index ?? 0) % COLOURS + 1}`);
      const isOfDots = one.mark === "dots" || one.mark === "star";
      const width = one.mark === "edge" ? 0 : one.role === "background" ? 1 : 2;
      return {
        label: one.name, stroke: (_, place) => (place === pointed ? text : colour), width, scale: "y", show: !off.has(one.name) || one.name === "",
        alpha: one.role === "background" ? 0.6 : 1,
        dash: one.role === "compared" ? DASHES[Math.floor((one.index ?? 0) / COLOURS) % 3] : [],
        paths: isOfDots ? () => null : one.mark === "steps" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear(),
        points: { show: one.mark !== "edge" && (isOfDots || one.points.length < (one.role === "background" || one.mark === "steps" ? 2 : DOTTED)), size: one.mark === "star" ? 12 : isOfDots ? 5 : 6, width: 0, fill: colour, stroke: colour },
      };
    });
    const scale = ({ log }, at) => ({ time: false, distr: log ? 3 : 1, range: () => (zoomed ?? whole)[at] });
    return {
      ...size(), padding: [12, 20, 0, 4], legend: { show: false },
      scales: { x: scale(figure.x, 0), y: scale(figure.y, 1) },
      axes: [axis(figure.x, true), axis(figure.y, false)],
      series: [{}, ...series],
      bands: drawable.flatMap(({ isLower }, place) => (isLower
        ? [{ series: [place + 2, place + 1], fill: translucent(series[place].stroke(null, place + 1)) }] : [])),
      cursor: { points: { show: false }, drag: { x: true, y: true, uni: 30, setScale: false }, bind: { dblclick: () => () => zoom(null) } },
      hooks: { setSelect: [select], setCursor: [hover(drawable)] },
    };
  }

  /// Brings out the line that is pointed at among those in the background.
  function point(place) {
    if (place === pointed) return;
    for (const [one, isOut] of [[pointed, false], [place, true]]) {
      if (one !== null) Object.assign(plot.series[one], { width: isOut ? 2 : 1, alpha: isOut ? 1 : 0.6 });
    }
    pointed = place;
    plot.redraw(false, false);
  }

  /// Shows these ranges, or all.
  function zoom(to) {
    zoomed = to;
    reset.hidden = to === null;
    if (plot === null) return;
    const [x, y] = to ?? whole;
    plot.batch(() => {
      plot.setScale("x", { min: x[0], max: x[1] });
      plot.setScale("y", { min: y[0], max: y[1] });
    });
  }

  function select(one) {
    const { left, top, width, height } = one.select;
    if (width < 4 && height < 4) return;
    const ends = (scale, from, to) => [one.posToVal(from, scale), one.posToVal(to, scale)].sort((a, b) => a - b);
    const isAcross = height >= one.over.clientHeight - 1;
    const x = width >= one.over.clientWidth - 1 ? [one.scales.x.min, one.scales.x.max] : ends("x", left, left + width);
    const y = isAcross ? within(one, x) : ends("y", top, top + height);
    one.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (x[0] < x[1] && y !== null && y[0] < y[1]) zoom([x, y]);
  }

  /// The range of what is shown there.
  function within(one, [from, to]) {
    let [low, high] = [Infinity, -Infinity];
    one.data[0].forEach((x, at) => {
      if (x < from || x > to) return;
      one.series.forEach(({ show: isShown }, index) => {
        const value = index > 0 && isShown ? one.data[index][at] : null;
        if (typeof value === "number") { low = Math.min(low, value); high = Math.max(high, value); }
      });
    });
    return low <= high ? widened(low, high, figure.y.log) : null;
  }

  /// Shows the value of the nearest point, and which curve it is of.
  function hover(drawable) {
    const tip = element("div", { class: "tip", hidden: true });
    const mark = element("div", { class: "mark", hidden: true });
    let at = null;
    let press = null;
    let opening = null;
    const trialOf = ({ series, index }) => series.trial ?? (figure.x.label === "trial" ? plot.data[0][index] : null);
    return (one) => {
      if (!tip.isConnected) {
        one.over.append(mark, tip);
        one.over.addEventListener("mousedown", (event) => { press = [event.clientX, event.clientY]; });
        one.over.addEventListener("click", (event) => {
          const isStill = press !== null && Math.hypot(event.clientX - press[0], event.clientY - press[1]) < 4;
          const trial = at !== null && isStill ? trialOf(at) : null;
          clearTimeout(opening);
          // A second click may follow, which shows all.
          if (trial !== null && event.detail === 1) opening = setTimeout(() => page.open?.(trial), 300);
        });
      }
      const found = nearest(one, drawable);
      tip.hidden = mark.hidden = found === null;
      at = found && { ...found, series: drawable[found.place] };
      point(at?.series.role === "background" && at.series.mark === "line" ? at.place + 1 : null);
      if (at === null) return;
      const trial = trialOf(at);
      const name = at.series.name || (trial === null ? "" : `trial ${trial}`);
      const line = (text) => element("div", {}, text);
      fill(tip, name && line(name), line(`${figure.x.label || "x"} ${number(at.x)}`), line(`${figure.y.label || "value"} ${number(at.y)}`));
      mark.style.transform = `translate(${at.left}px, ${at.top}px)`;
      const isRight = at.left > one.over.clientWidth / 2;
      tip.style.left = isRight ? "" : `${at.left + 12}px`;
      tip.style.right = isRight ? `${one.over.clientWidth - at.left + 12}px` : "";
      tip.style.top = `${Math.max(0, Math.min(at.top - 20, one.over.clientHeight - tip.offsetHeight))}px`;
    };
  }

  const again = () => draw();
  let width = 0;
  const observer = new ResizeObserver(() => {
    const isOther = Math.abs(box.clientWidth - width) >= 8;
    width = box.clientWidth;
    if (plot === null && figure !== null) draw();
    else if (isOther) plot?.setSize(size());
  });
  observer.observe(box);
  darkTheme.addEventListener("change", again);
  document.addEventListener("theme", again);
  return {
    element: box, show,
    close() {
      observer.disconnect();
      darkTheme.removeEventListener("change", again);
      document.removeEventListener("theme", again);
      plot?.destroy();
      plot = null;
    },
  };
}

/// Of a band its lower and upper end as series of their own, which go with the line that it is around.
function edges({ series }) {
  return (one) => {
    if (one.mark !== "band") return [one];
    const name = series.find(({ mark, index }) => mark === "line" && index === one.index)?.name ?? "";
    const side = (isLower) => ({ ...one, name, isLower, mark: "edge", points: one.points.filter((_, at) => at % 2 === (isLower ? 0 : 1)) });
    return [side(true), side(false)];
  };
}

function translucent(colour) {
  return colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.18)");
}

const WHOLE = [1, 2, 5].flatMap((first) => Array.from({ length: 12 }, (_, power) => first * 10 ** power)).sort((a, b) => a - b);

/// Whether a value has a place on an axis; NaN and infinities are texts.
function fits(value, { log }) {
  return typeof value === "number" && (!log || value > 0);
}

/// The points over the horizontal places of all: where a series has none it goes on, where its value
/// is not finite it has a gap.
function aligned(figure, drawable) {
  return uPlot.join(drawable.map(({ points }) => {
    const own = points.filter(([x]) => fits(x, figure.x));
    return [own.map(([x]) => x), own.map(([, y]) => (fits(y, figure.y) ? y : null))];
  }));
}

function widened(low, high, isLog) {
  if (isLog) { const by = high > low ? (high / low) ** 0.04 : 2; return [low / by, high * by]; }
  const by = high > low ? (high - low) * 0.04 : Math.abs(high) * 0.1 || 1;
  return [low - by, high + by];
}

/// The ranges of both axes: those that the program chose, or of all points.
function wholeOf(figure, data) {
  const ends = (values) => values.reduce(([low, high], value) => (typeof value === "number" ? [Math.min(low, value), Math.max(high, value)] : [low, high]), [Infinity, -Infinity]);
  const x = figure.x.range ?? ends(data[0]);
  const y = figure.y.range ?? ends(data.slice(1).flat());
  return [x[0] < x[1] ? x : widened(...x, figure.x.log), y[0] <= y[1] ? widened(...y, figure.y.log) : [0, 1]];
}

/// What is not to be seen, in the words of the drawn figures. Steps and stars beside other marks
/// repeat their points.
function unseen(figure, [[left, right], [bottom, top]]) {
  let [outside, infinite] = [0, 0];
  const repeats = ({ mark }) => mark === "steps" || mark === "star";
  const allRepeat = figure.series.every(repeats);
  for (const { points } of figure.series.filter((one) => allRepeat || !repeats(one))) {
    for (const [x, y] of points) {
      if (typeof x !== "number" || typeof y !== "number") infinite += 1;
      else if (x < left || x > right || y < bottom || y > top) outside += 1;
    }
  }
  return [outside > 0 && `${outside} point${outside === 1 ? "" : "s"} outside`, infinite > 0 && `${infinite} not finite`].filter(Boolean).join(" · ");
}

/// The figure for those who do not see it: its title, and where its named series end.
function described({ title, series, x }) {
  const ends = series.filter(({ name, points }) => name && points.length > 0).slice(0, 12).map(({ name, points }) => {
    const [at, value] = points.at(-1);
    return `${name}: ${number(value)} at ${x.label || "x"} ${number(at)}`;
  });
  return [title, ...ends].join("; ");
}

/// The series of each name, by their places.
function named(drawable) {
  const found = new Map();
  drawable.forEach(({ name }, place) => { if (name) found.set(name, [...(found.get(name) ?? []), place]); });
  return found;
}

function nearest(one, drawable) {
  const { left, top, idx } = one.cursor;
  if (left < 0 || idx === null || idx === undefined) return null;
  const xs = one.data[0];
  let [found, least] = [null, REACH * REACH];
  for (let place = 0; place + 1 < one.data.length; place += 1) {
    if (!one.series[place + 1].show || drawable[place].mark === "edge") continue;
    const ys = one.data[place + 1];
    for (const step of [-1, 1]) {
      for (let index = step < 0 ? idx : idx + 1; index >= 0 && index < xs.length; index += step) {
        const across = one.valToPos(xs[index], "x");
        if (Math.abs(across - left) > REACH) break;
        if (typeof ys[index] !== "number") continue;
        const down = one.valToPos(ys[index], "y");
        const distance = (across - left) ** 2 + (down - top) ** 2;
        if (distance < least) { least = distance; found = { place, index, x: xs[index], y: ys[index], left: across, top: down }; }
      }
    }
  }
  return found;
}

/// Reads colours of the style sheet as they are now.
function shades(box) {
  const probe = element("span", { hidden: true });
  box.append(probe);
  const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  return (name) => { if (!probe.isConnected) box.append(probe); const colour = read(name); probe.remove(); return colour; };
}
