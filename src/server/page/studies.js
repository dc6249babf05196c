// The list of studies.

import { element, fill, state, table, tags } from "/elements.js";
import { counts, moment, number } from "/format.js";
import { frontInWords, goal } from "/objectives.js";
import { calmly, listen, read } from "/server.js";

export function showStudies(page) {
  const list = element("div", {});
  const all = element("input", { type: "checkbox", onchange: () => show() });
  fill(page.main, element("h1", {}, "Studies"),
    element("label", { class: "switch" }, all, " archived studies, too"), list);
  let part = { studies: [], skipped: [] };
  const show = () => {
    const studies = part.studies.filter((study) => all.checked || !study.is_archived);
    if (studies.length === 0) {
      fill(list, element("p", { class: "empty" }, "There is no study yet: hpsearch run study.toml starts one."));
      return;
    }
    const heads = ["study", "state", "trials", "best", "metric", "created"].map((head) => element("th", { scope: "col" }, head));
    const rows = studies.map((study) => element("tr", {},
      element("th", { scope: "row" }, element("a", { href: page.link({ study: study.name }) }, study.name), " ", tags(study.tags)),
      element("td", {}, state(study.state)),
      element("td", { title: counts(study.trials, study.state) }, counts(study.trials, study.state) || "none"),
      element("td", { class: "number" }, study.best ? [number(study.best.value), element("small", {}, ` trial ${study.best.number}`)] : study.front?.trials.length > 0 && frontInWords(study.front)),
      element("td", {}, goal(study)),
      element("td", {}, moment(study.created))));
    fill(list, table("Studies of the store", heads, rows),
      part.skipped.map(({ name, error }) => element("p", { class: "warning" }, `${name} is left out: ${error}`)));
  };
  const load = async () => {
    try { part = await read("studies"); page.trouble(null); show(); } catch (error) { page.error(error); }
  };
  const soon = calmly(load, 250);
  load();
  return listen({ changed: soon, trouble: page.trouble });
}
