// What changes a study: buttons and keys, and the questions before what cannot be taken back.

import { element, fill } from "/elements.js";
import { ask } from "/server.js";

/// Asks something of a study: its question first, then what came of it; whether it was done.
/// `refused` shows why not.
async function carryOut(page, study, request, options = {}, refused = page.notice) {
  try {
    const told = await ask(study, request, options);
    page.notice(told.text || "done");
    return true;
  } catch (error) {
    if (error.answer?.answer === "question") {
      const isYes = await question(error.answer.asks, error.answer.then);
      return isYes && carryOut(page, study, request, { ...options, confirmed: true }, refused);
    }
    if (error.status === 409 && request.type === "enqueue" && error.remedy?.includes("--again")) {
      const isYes = await question(`${error.message}. Run it once more?`, "it counts as another trial");
      return isYes && carryOut(page, study, request, { ...options, again: true }, refused);
    }
    refused(error.remedy ? `${error.message}: ${error.remedy}` : error.message);
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

/// A dialog that sends what is typed in its fields, and stays with them and the reason where it is
/// refused. `send` is given what shows a reason, and answers whether it was done.
function form(title, content, verb, send) {
  return dialog(title, (done) => {
    const why = element("p", { class: "refused", role: "alert" });
    const refused = (text) => { fill(why, text); };
    const submit = async (event) => {
      event.preventDefault();
      refused("");
      if (await send(refused)) done(true);
    };
    return element("form", { onsubmit: submit }, element("h2", {}, title), content, why,
      element("div", { class: "buttons" }, element("button", { type: "submit" }, verb),
        element("button", { type: "button", onclick: () => done(null) }, "Cancel")));
  });
}

function line(title, label, send) {
  const input = element("input", { type: "text", "aria-label": label, autofocus: true, autocomplete: "off" });
  const typed = (refused) => input.value.trim() !== "" && send(input.value.trim(), refused);
  return form(title, [element("p", {}, label), input], "Save", typed);
}

const NAMED = (trial) => (trial === null ? "the study" : `trial ${trial.number}`);

function note(page, study, trial) {
  return line(`Note on ${NAMED(trial)}`, "What is to be remembered", (text, refused) =>
    carryOut(page, study, { type: "note", trial: trial?.number ?? null, text }, {}, refused));
}

function tag(page, study, trial, present) {
  return line(`Tag ${NAMED(trial)}`, "A tag to add, or an existing tag to remove", (text, refused) =>
    carryOut(page, study, { type: "tag", trial: trial?.number ?? null, tag: text, present: !present.includes(text) }, {}, refused));
}

/// The value of a parameter in its field; an empty text is no empty field.
function typed(value) {
  if (value === undefined) return "";
  return Array.isArray(value) || value === "" ? JSON.stringify(value) : String(value);
}

/// A configuration of one's own, beginning with a trial's; empty parameters are sampled, and values
/// that are left as they are travel as they came.
function enqueue(page, study, trial) {
  const fields = study.params.map(({ name, range }) => {
    const value = trial?.params[name];
    return { name, range, value, input: element("input", { type: "text", value: typed(value), autocomplete: "off" }) };
  });
  const params = () => Object.fromEntries(fields.filter(({ input }) => input.value.trim()).map(({ name, value, input }) =>
    [name, value !== undefined && input.value === typed(value) ? value : input.value.trim()]));
  const labels = fields.map(({ name, range, input }) => element("label", { class: "field" }, element("span", {}, name, " ", element("small", {}, range)), input));
  return form("Enqueue a configuration", [element("p", {}, "Empty parameters are sampled."), labels], "Enqueue", (refused) =>
    carryOut(page, study.name, { type: "enqueue", params: params() }, {}, refused));
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
