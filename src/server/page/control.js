// What changes a study: buttons and keys, and the questions before what cannot be taken back.

import { element, fill } from "/elements.js";
import { ask } from "/server.js";

/// Asks something of a study: its question first, then what came of it.
async function carryOut(page, study, request, options = {}) {
  try {
    const told = await ask(study, request, options);
    page.notice(told.text || "done");
    return true;
  } catch (error) {
    if (error.answer?.answer === "question") {
      const isYes = await question(error.answer.asks, error.answer.then);
      return isYes && carryOut(page, study, request, { ...options, confirmed: true });
    }
    if (error.status === 409 && request.type === "enqueue" && error.remedy?.includes("--again")) {
      const isYes = await question(`${error.message}. Run it once more?`, "it counts as another trial");
      return isYes && carryOut(page, study, request, { ...options, again: true });
    }
    page.notice(error.remedy ? `${error.message}: ${error.remedy}` : error.message);
    return false;
  }
}

/// A dialog; what `done` gives to its argument is the answer, `null` if it is left.
function dialog(title, content) {
  return new Promise((answer) => {
    let value = null;
    const done = (given) => { value = given; box.close(); };
    const box = element("dialog", { "aria-label": title, onclose: () => { box.remove(); answer(value); } });
    fill(box, content(done));
    document.body.append(box);
    box.showModal();
  });
}

function question(asks, then) {
  return dialog(asks, (done) => [
    element("h2", {}, asks), element("p", {}, then),
    element("div", { class: "buttons" },
      element("button", { class: "danger", onclick: () => done(true) }, "Yes"),
      element("button", { autofocus: true, onclick: () => done(false) }, "No")),
  ]);
}

function line(title, label) {
  return dialog(title, (done) => {
    const input = element("input", { type: "text", "aria-label": label, autofocus: true, autocomplete: "off" });
    const send = (event) => { event.preventDefault(); if (input.value.trim()) done(input.value.trim()); };
    return element("form", { onsubmit: send }, element("h2", {}, title), element("p", {}, label), input,
      element("div", { class: "buttons" }, element("button", { type: "submit" }, "Save"),
        element("button", { type: "button", onclick: () => done(null) }, "Cancel")));
  });
}

const NAMED = (trial) => (trial === null ? "the study" : `trial ${trial.number}`);

async function note(page, study, trial) {
  const text = await line(`Note on ${NAMED(trial)}`, "What is to be remembered");
  if (text) await carryOut(page, study, { type: "note", trial: trial?.number ?? null, text });
}

async function tag(page, study, trial, present) {
  const text = await line(`Tag ${NAMED(trial)}`, "A tag to add, or an existing tag to remove");
  if (!text) return;
  await carryOut(page, study, { type: "tag", trial: trial?.number ?? null, tag: text, present: !present.includes(text) });
}

/// A value of a parameter as it is enqueued again.
const exact = (value) => (value === undefined ? "" : Array.isArray(value) ? JSON.stringify(value) : String(value));

/// A configuration of one's own, beginning with a trial's; empty parameters are sampled.
async function enqueue(page, study, trial) {
  const params = await dialog("Enqueue a configuration", (done) => {
    const fields = study.params.map(({ name, range }) => [name, range, element("input", { type: "text", value: trial ? exact(trial.params[name]) : "", autocomplete: "off" })]);
    const send = (event) => {
      event.preventDefault();
      done(Object.fromEntries(fields.filter(([, , input]) => input.value.trim()).map(([name, , input]) => [name, input.value.trim()])));
    };
    return element("form", { onsubmit: send }, element("h2", {}, "Enqueue a configuration"),
      element("p", {}, "Empty parameters are sampled."),
      fields.map(([name, range, input]) => element("label", { class: "field" }, element("span", {}, name, " ", element("small", {}, range)), input)),
      element("div", { class: "buttons" }, element("button", { type: "submit" }, "Enqueue"),
        element("button", { type: "button", onclick: () => done(null) }, "Cancel")));
  });
  if (params) await carryOut(page, study.name, { type: "enqueue", params });
}

/// The buttons of a study, or of one of its trials: what the server says is offered.
export function controlsOf(page, study, trial) {
  const button = (title, work, isDanger = false) => element("button", { class: isDanger ? "danger" : false, onclick: (event) => { event.currentTarget.blur(); work(); } }, title);
  const request = (values) => () => carryOut(page, study.name, values);
  const name = study.name;
  const isOffered = (control) => (trial ?? study).controls.includes(control);
  if (trial === null) {
    return element("div", { class: "buttons", role: "group", "aria-label": "Control of the study" },
      isOffered("resume") && button("Resume", request({ type: "resume_study" })),
      isOffered("pause") && button("Pause", request({ type: "pause_study" })),
      isOffered("stop") && button("Stop", request({ type: "stop" }), true),
      isOffered("enqueue") && button("Enqueue", () => enqueue(page, study, null)),
      isOffered("retry_failed") && button("Retry failed", request({ type: "retry", trials: "all_failed" })),
      button("Note", () => note(page, name, null)), button("Tag", () => tag(page, name, null, study.tags)));
  }
  const number = trial.number;
  return element("div", { class: "buttons", role: "group", "aria-label": "Control of the trial" },
    isOffered("pause") && button("Pause", request({ type: "pause_trial", trial: number })),
    isOffered("resume") && button("Resume", request({ type: "resume_trial", trial: number })),
    isOffered("kill") && button("Kill", request({ type: "kill", trial: number }), true),
    isOffered("retry") && button("Retry", request({ type: "retry", trials: { one: number } })),
    study.controls.includes("enqueue") && button("Enqueue a copy", () => enqueue(page, study, trial)),
    button("Note", () => note(page, name, trial)), button("Tag", () => tag(page, name, trial, trial.tags)));
}

/// Carries out a key on a trial, as on the screens; whether it is one.
export function actOn(page, study, trial, key) {
  if (!page.server.is_controlled) return false;
  const number = trial.number;
  if (key === "x") carryOut(page, study, { type: "kill", trial: number });
  else if (key === "p") carryOut(page, study, { type: trial.controls.includes("resume") ? "resume_trial" : "pause_trial", trial: number });
  else if (key === "a") note(page, study, trial);
  else if (key === "t") tag(page, study, trial, trial.tags);
  else return false;
  return true;
}
