// The images that a trial logged: a strip for each name, ordered by step.

import { element, fill } from "/elements.js";
import { bytes, count } from "/format.js";
import { query } from "/server.js";

/// Images of a name, and names, that are shown until more are asked for.
const SHOWN = 12;
/// How many more a click shows.
const MORE = 100;
/// Larger ones are not loaded by themselves.
const LARGE = 16 * 1024 * 1024;

export function imagesOf(study, number) {
  const strips = new Map();
  const list = element("div", {});
  const rest = element("button", { type: "button", hidden: true, onclick: () => { names += MORE; arrange(); } });
  const box = element("section", { hidden: true }, element("h2", {}, "Images"), list, rest);
  let names = SHOWN;
  const arrange = () => {
    const all = [...strips.values()];
    put(list, all.slice(0, names).map((strip) => strip.element));
    rest.hidden = all.length <= names;
    rest.textContent = `Show ${count(all.length - names, "more name")}`;
    all.slice(0, names).forEach((strip) => strip.draw());
  };
  return {
    element: box,
    /// The trial has changed.
    follow(trial) {
      const found = new Map();
      for (const one of trial.artifacts.filter(({ kind }) => kind === "image")) {
        const name = one.name.replace(/:v\d+$/, "");
        found.set(name, [...(found.get(name) ?? []), one]);
      }
      for (const [name, images] of found) {
        if (!strips.has(name)) strips.set(name, stripOf(study, number, name));
        // Those without a step come first; those of one step stay in the order of their versions.
        strips.get(name).images = images.sort((one, other) => (one.step ?? -1) - (other.step ?? -1));
      }
      box.hidden = strips.size === 0;
      arrange();
    },
  };
}

/// The images of one name; the last ones are shown, and those before them on demand.
function stripOf(study, number, name) {
  const items = new Map();
  const list = element("ul", { class: "strip", "aria-label": name });
  const earlier = element("button", { type: "button", hidden: true, onclick: () => { shown += MORE; strip.draw(); } });
  const warning = element("p", { class: "warning", role: "status" });
  const failed = new Set();
  let shown = SHOWN;
  const fail = (said) => (why) => {
    failed.add(said);
    fill(warning, failed.size === 1 ? why : `${failed.size} images are not shown. The last one: ${why}`);
  };
  const strip = {
    images: [],
    element: element("div", {}, element("div", { class: "tools" }, element("h3", {}, name), earlier), list, warning),
    draw() {
      const first = Math.max(0, strip.images.length - shown);
      earlier.hidden = first === 0;
      earlier.textContent = first > MORE ? `Show ${MORE} of ${first} earlier` : `Show ${first} earlier`;
      // The places of images are as wide before they are loaded as afterwards.
      const isAtEnd = list.scrollLeft + list.clientWidth >= list.scrollWidth - 8;
      const wanted = strip.images.slice(first);
      for (const image of wanted) {
        if (!items.has(image.name)) items.set(image.name, itemOf(study, number, image, fail(image.name)));
      }
      if (put(list, wanted.map((image) => items.get(image.name))) && isAtEnd) list.scrollLeft = list.scrollWidth;
    },
  };
  return strip;
}

/// Makes these the children of an element; whether they are not already: what is put in anew forgets
/// how far it was scrolled.
function put(parent, children) {
  if (children.length === parent.children.length && children.every((child, index) => child === parent.children[index])) return false;
  fill(parent, children);
  return true;
}

function itemOf(study, number, image, fail) {
  const place = `/api/image?${query({ study: study.name, trial: number, digest: image.digest })}`;
  const what = image.step === null ? image.name : `${image.name} at ${study.clock} ${image.step}`;
  const caption = element("span", { class: "dim" }, image.step === null ? image.name.match(/v\d+$/)?.[0] : `${study.clock} ${image.step}`);
  const open = (content) => element("a", { href: place, target: "_blank", rel: "noopener", "aria-label": `Open ${what}` }, content);
  if (image.bytes > LARGE) return element("li", {}, open(element("span", { class: "blank" }, bytes(image.bytes))), caption);
  const picture = element("img", {
    // First, since what has an address is loaded.
    loading: "lazy", decoding: "async", alt: what, src: place,
    // Pixels of small ones are to be seen.
    onload: () => picture.classList.toggle("tiny", picture.naturalHeight <= 64),
    onerror: async () => {
      link.replaceWith(element("span", { class: "blank" }, "not shown"));
      fail(await reason(place, image.name));
    },
  });
  const link = open(picture);
  return element("li", {}, link, caption);
}

/// Why an image is not there.
async function reason(place, name) {
  try {
    const answer = await fetch(place);
    if (answer.ok) {
      await answer.body.cancel();
      return `the browser cannot show ${name}`;
    }
    const { error, remedy } = await answer.json();
    return remedy ? `${error}: ${remedy}` : error;
  } catch (error) { return error.message; }
}
