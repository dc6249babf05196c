// Trials side by side: their parameters, and their curves over each other.

import { element, fill, state, table } from "/elements.js";
import { duration, number, param } from "/format.js";
import { curvesOf } from "/figures.js";
import { frontMark, isOnFront, metricsOf, objectivesOf, valueOf } from "/objectives.js";
import { read } from "/server.js";

export function showCompare(context) {
  const { page, at, body, study } = context;
  const numbers = (at.trials ?? "").split(",").filter(Boolean).slice(0, 18);
  if (numbers.length === 0) {
    fill(body, element("p", { class: "empty" }, "Mark trials in the table (Space, or their boxes) to compare them here."));
    return;
  }
  const curves = curvesOf(page, study.name, numbers, at.metric ?? study.metric);
  curves.offer(metricsOf(study));
  const values = element("div", {});
  fill(body, element("h2", {}, "Parameters"), values, element("h2", {}, "Curves"), curves.element);
  const load = async () => {
    const found = await Promise.allSettled(numbers.map((trial) => read("trial", { study: study.name, trial })));
    const trials = found.filter((one) => one.status === "fulfilled").map((one) => one.value);
    const failed = found.find((one) => one.status === "rejected");
    if (failed) page.error(failed.reason);
    const names = [...new Set([...study.params.map(({ name }) => name), ...trials.flatMap((trial) => Object.keys(trial.params))])];
    const heads = [element("td", {}), trials.map((trial) => element("th", { scope: "col" },
      element("a", { href: page.link({ study: study.name, trial: trial.number }) }, trial.name ?? `trial ${trial.number}`)))];
    const row = (name, cells) => {
      const isSame = new Set(cells.map((cell) => (cell instanceof Node ? cell.textContent : String(cell)))).size < 2;
      return element("tr", { class: isSame ? "dim" : false }, element("th", { scope: "row" }, name), cells.map((cell) => element("td", {}, cell)));
    };
    fill(values, table("Trials side by side", heads, [
      row("state", trials.map((trial) => state(trial.state))),
      study.front && row("front", trials.map((trial) => (isOnFront(context.study, trial.number) ? frontMark() : ""))),
      objectivesOf(study).map(({ metric }, index) => row(metric, trials.map((trial) => number(valueOf(trial, index).value)))),
      row(study.clock, trials.map((trial) => trial.last_step ?? "")),
      row("time", trials.map((trial) => duration(trial.seconds))),
      names.map((name) => row(name, trials.map((trial) => param(trial.params[name])))),
    ]));
    await curves.draw();
  };
  context.changed = () => load().catch(page.error);
  context.changed();
  return curves.close;
}
