// One trial: its parameters, curve, decisions, attempts and notes.

import { element, facts, fill, state, table, tags } from "/elements.js";
import { bytes, duration, moment, number, param, quoted } from "/format.js";
import { actOn, controlsOf } from "/control.js";
import { curvesOf } from "/figures.js";
import { imagesOf } from "/images.js";
import { logOf } from "/log.js";
import { frontMark, isOnFront, objectivesOf, valueOf } from "/objectives.js";
import { read } from "/server.js";

export function showTrial(context) {
  const { page, at, body, study } = context;
  let trial = null;
  const head = element("div", {});
  const curve = curvesOf(page, study.name, [at.trial], at.metric ?? study.metric);
  const images = imagesOf(study, at.trial);
  const log = logOf(page, study.name, at.trial);
  const rest = element("div", {});
  fill(body, head, element("section", {}, element("h2", {}, "Curve"), curve.element), images.element, log.element, rest);
  const load = async () => {
    try {
      trial = await read("trial", { study: study.name, trial: at.trial });
      show();
      images.follow(trial);
      log.follow(trial);
      await curve.draw();
    } catch (error) { page.error(error); }
  };
  const told = ({ value, isLast }) => (isLast ? `${number(value) || "no value"}${trial.last_step === null ? "" : ` at ${study.clock} ${trial.last_step}`}` : number(value));
  const show = () => {
    if (!(head.contains(document.activeElement) && document.activeElement !== document.body)) {
      fill(head,
        element("h2", {}, trial.name ?? `Trial ${trial.number}`, " ", state(trial.state), " ", tags(trial.tags), isOnFront(context.study, trial.number) && [" ", frontMark(), " ", element("small", { "aria-hidden": "true" }, trial.number === context.study.front.knee ? "on the front, the compromise" : "on the front")]),
        facts([
          ...objectivesOf(study).map(({ metric }, index) => [metric, told(valueOf(trial, index))]),
          ["reason", trial.reason], ["origin", trial.origin], ["device", trial.device], ["time", duration(trial.seconds)],
          ["created", moment(trial.created)], ["ended", moment(trial.finished)],
        ]),
        page.server.is_controlled && controlsOf(page, study, trial));
    }
    curve.offer([...new Set([...objectivesOf(study).map(({ metric }) => metric), ...trial.series.map((series) => series.metric)])]);
    const cells = (words) => words.map((word) => element("th", { scope: "col" }, word));
    const row = (values) => element("tr", {}, values.map((value) => element("td", {}, value)));
    fill(rest,
      element("section", {}, element("h2", {}, "Parameters"), facts(Object.entries(trial.params).map(([name, value]) => [name, param(value)]))),
      Object.keys(trial.summary).length > 0 && element("section", {}, element("h2", {}, "Summary"), facts(Object.entries(trial.summary).map(([name, value]) => [name, param(value)]))),
      (trial.schedule ?? []).length > 0 && element("section", {}, element("h2", {}, "Schedule"), element("pre", {}, trial.schedule.join("\n"))),
      (trial.family ?? []).length > 0 && element("section", {}, element("h2", {}, "Family"), element("pre", {}, trial.family.join("\n"))),
      trial.all_notes.length > 0 && element("section", {}, element("h2", {}, "Notes"),
        trial.all_notes.map((note) => element("p", { class: "note" }, element("time", {}, moment(note.at)), " ", note.text))),
      trial.decisions.length > 0 && element("section", {}, element("h2", {}, "Decisions"),
        table("Decisions", cells([study.clock, "decision", "reason"]), trial.decisions.map((one) => row([one.step, one.decision, one.text])))),
      trial.series.length > 0 && element("section", {}, element("h2", {}, "Series"),
        table("Series", cells(["metric", "clock", "points", "last", "at"]), trial.series.map((one) => row([one.metric, one.clock, one.points, number(one.last_value), one.last_step])))),
      trial.artifacts.length > 0 && element("section", {}, element("h2", {}, "Artifacts"),
        table("Artifacts", cells(["name", "kind", "size", "step"]), trial.artifacts.map((one) => row([one.name, one.kind, bytes(one.bytes), one.step ?? ""]))),
        element("p", {}, "To write one to a file: ", element("code", {}, `hpsearch artifacts ${quoted(study.name)} ${trial.number} --get ${quoted(trial.artifacts[0].name)}`))),
      element("section", {}, element("h2", {}, "Attempts"),
        table("Attempts", cells(["attempt", "device", "started", "ended", "end", "reason"]),
          trial.attempts_made.map((one) => row([one.attempt, one.device, moment(one.started), moment(one.ended), one.end, one.reason ?? ""])))));
  };
  context.key = ({ key }) => trial !== null && actOn(page, study.name, trial, key);
  context.changed = load;
  load();
  return () => { curve.close(); log.close(); };
}
