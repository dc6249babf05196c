// The page: which view is shown, and what is around it. A view is a place in the address after `#`.

import { element, fill, visible } from "/elements.js";
import { read, query } from "/server.js";
import { showStudies } from "/studies.js";
import { showStudy } from "/study.js";

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const notice = document.getElementById("notice");
let leave = () => {};
let timer = null;

/// What views need of the page.
const page = {
  server: null,
  main,
  /// The address of a view.
  link(values) { return `#${query(values)}`; },
  go(values) { location.hash = query(values); },
  /// Changes the address of this view without opening it anew.
  keep(values) { history.replaceState(null, "", `#${query(values)}`); },
  trouble(text) { fill(trouble, text); trouble.hidden = !text; },
  notice(text) {
    fill(notice, text);
    notice.hidden = !text;
    clearTimeout(timer);
    timer = setTimeout(() => { notice.hidden = true; }, 8000);
  },
  error(error) {
    if (error.name === "AbortError") return;
    page.trouble(error.remedy ? `${error.message}: ${error.remedy}` : error.message);
  },
};

function place() {
  const values = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(values);
}

function showPath(at) {
  const links = [element("a", { href: "#" }, "hpsearch")];
  if (at.study) links.push(element("a", { href: page.link({ study: at.study }) }, at.study));
  if (at.trial) links.push(element("span", { "aria-current": "page" }, `trial ${at.trial}`));
  fill(document.getElementById("path"), element("ol", {}, links.map((link) => element("li", {}, link))));
  document.title = visible([at.trial && `trial ${at.trial}`, at.study, "hpsearch"].filter(Boolean).join(" · "));
}

async function show() {
  leave();
  leave = () => {};
  page.trouble(null);
  const at = place();
  showPath(at);
  try {
    page.server ??= await read("server");
    const access = page.server.is_controlled ? "control" : "read-only";
    fill(document.getElementById("server"), `${page.server.store} · ${access}`);
    const ended = at.study ? showStudy(page, at) : showStudies(page, at);
    leave = ended;
  } catch (error) {
    page.error(error);
  }
  main.focus({ preventScroll: true });
}

addEventListener("hashchange", show);
show();
