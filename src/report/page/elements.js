// Elements from data: every text becomes a text node, so that no name, note or log is markup.

/// Text with visible escapes for control characters and those that reorder text; line ends and tabs
/// stay. The same characters as in `config/shown.rs`.
export function visible(text) {
  const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
  return String(text).replace(hidden, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/// Attributes that are read by people.
const READ = ["title", "aria-label", "alt"];

/// Makes an element. `on..` attributes are listeners; `false`, `null` and `undefined` leave one out.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : READ.includes(key) ? visible(value) : String(value));
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : visible(child));
  }
}

/// Replaces what is in an element.
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/// Names and values below each other; those without a value are left out.
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => ![null, undefined, false, ""].includes(value));
  return element("dl", { class: "facts" }, rows.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

/// A state in its colour, with its word.
export function state(word) {
  return element("span", { class: `state ${word}` }, word);
}

export function tags(words) {
  return words.map((word) => element("span", { class: "tag" }, word));
}

/// A table in a box that scrolls sideways.
export function table(caption, heads, rows) {
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {},
      element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, heads)),
      element("tbody", {}, rows)));
}
