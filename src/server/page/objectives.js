// What a study optimises: one metric with a best trial, or several with a front.

import { element } from "/elements.js";
import { count, number } from "/format.js";

export function objectivesOf(study) {
  return study.objectives ?? [{ metric: study.metric, direction: study.direction }];
}

export function goal(study) {
  return objectivesOf(study).map(({ metric, direction }) => `${direction} ${metric}`).join(", ");
}

/// All names that a curve or figure of the study may have.
export function metricsOf(study) {
  return [...new Set([...objectivesOf(study).map(({ metric }) => metric), ...study.metrics, ...study.series])];
}

/// The value of a trial, and whether it is only what was reported last.
export function valueOf(trial, index) {
  if (trial.values) return { value: trial.values[index] ?? null, isLast: trial.values_are_last === true };
  return { value: trial.value ?? trial.last_value, isLast: trial.value === null };
}

export function isOnFront(study, trial) {
  return study.front?.trials.includes(trial) === true;
}

/// The front in words: "8 trials on the front, hypervolume 6.57".
export function frontInWords(front) {
  const volume = front.hypervolume === null ? "" : `, hypervolume ${number(front.hypervolume)}`;
  return `${count(front.trials.length, "trial")} on the front${volume}`;
}

/// Marks a trial of the front: by a sign, and by words for those who do not see it.
export function frontMark() {
  return element("span", { class: "front", title: "on the front" }, element("span", { "aria-hidden": "true" }, "★"), element("span", { class: "unseen" }, "on the front"));
}

/// The best of a study, with a link: its best trial, or its front and the compromise.
export function best(page, study) {
  const link = (trial, text) => element("a", { href: page.link({ study: study.name, trial }) }, text);
  if (study.best) return link(study.best.number, `${number(study.best.value)} (trial ${study.best.number})`);
  if (!study.front?.trials.length) return "none yet";
  const { knee } = study.front;
  return [frontInWords(study.front), knee !== null && [", compromise ", link(knee, `trial ${knee}`)]];
}
