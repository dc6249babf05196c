// The filter of a report's page against the table of cases that the program is held to.
//
//     node tests/peers/report_filter.js

const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const root = path.join(__dirname, "../..");
const read = (name) => fs.readFileSync(path.join(root, name), "utf8");
const context = vm.createContext({});
const filter = read("src/report/document/page/filter.js").replace(/^export /gm, "");
vm.runInContext(`${filter}\nthis.filter = { parseFilter, trialOf, FilterError };`, context);
const { parseFilter, trialOf, FilterError } = context.filter;
const table = JSON.parse(read("tests/it/report/table.json"));
const { cases } = JSON.parse(read("tests/it/report/filter.json"));
const trials = table.trials.map((row) => trialOf(row, table)).sort((one, other) => one.number - other.number);

let wrong = 0;
for (const { filter, trials: expected, refused } of cases) {
  let found;
  try {
    found = JSON.stringify(trials.filter(parseFilter(filter, table)).map((trial) => trial.number));
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    found = "refused";
  }
  const wanted = refused ? "refused" : JSON.stringify(expected);
  if (found !== wanted) {
    wrong += 1;
    console.error(`${filter}: ${found} instead of ${wanted}`);
  }
}
console.log(`${cases.length - wrong} of ${cases.length} filters are read as the program reads them`);
process.exit(wrong === 0 ? 0 : 1);
