// The filter of trials: terms joined by spaces, as `hpsearch trials --where` reads them.
//
// The program's language has more: arithmetic, `and`, `or`, `not`, parentheses, series. What is not
// known here is refused with a message, and never read differently. tests/it/report/filter.json
// holds both to the same answers.

export const STATES = ["queued", "running", "paused", "complete", "pruned", "failed"];
const FINISHED = ["complete", "pruned", "failed"];
const OPERATORS = ["!=", "<=", ">=", "==", "<", ">", "=", ":"];
const FIELDS = { state: "state", device: "device", reason: "reason", note: "note", tag: "tag", number: "number", trial: "number",
  value: "value", last_value: "last_value", step: "step", last_step: "step", seconds: "seconds", attempts: "attempts", failures: "failures" };
const TEXTS = ["device", "reason", "note", "study", "name", "group"];

export class FilterError extends Error {}

// A word as a list of characters, each with whether it was quoted: quoted ones are literal.
function wordsOf(text) {
  const words = [];
  const all = Array.from(text);
  let at = 0;
  while (at < all.length) {
    if (/\s/u.test(all[at])) { at += 1; continue; }
    const word = [];
    while (at < all.length && !/\s/u.test(all[at])) {
      const char = all[at];
      const before = word[word.length - 1];
      const isAfterOperator = before !== undefined && !before.quoted && "=:<>,".includes(before.char);
      if (char === "'" && isAfterOperator && all.indexOf("'", at + 1) > 0) {
        for (at += 1; all[at] !== "'"; at += 1) word.push({ char: all[at], quoted: true });
        at += 1;
      } else if (char === "\"") {
        for (at += 1; all[at] !== "\""; at += 1) {
          if (all[at] === "\\") at += 1;
          if (at >= all.length) throw new FilterError("a quote is not closed");
          word.push({ char: all[at], quoted: true });
        }
        at += 1;
      } else {
        word.push({ char, quoted: false });
        at += 1;
      }
    }
    words.push(word);
  }
  return words;
}

const textOf = (word) => word.map(({ char }) => char).join("");
const signAt = (word, index) => (word[index] !== undefined && !word[index].quoted ? word[index].char : null);
const isNegated = (word) => ["-", "!"].includes(signAt(word, 0)) && word.length > 1 && signAt(word, 1) !== "=";
const isName = (word) => word.every(({ char, quoted }) => quoted || char === "-" || /[\p{L}\p{N}_.]/u.test(char));

function splitAtOperator(word) {
  for (let index = 0; index < word.length; index += 1) {
    const operator = OPERATORS.find((known) => Array.from(known).every((char, offset) => signAt(word, index + offset) === char));
    if (operator) return [word.slice(0, index), operator, word.slice(index + operator.length)];
  }
  return null;
}

// The texts between commas, none of them empty.
function listOf(word) {
  const parts = [[]];
  for (const one of word) {
    if (one.char === "," && !one.quoted) parts.push([]);
    else parts[parts.length - 1].push(one);
  }
  return parts.map(textOf).filter((text) => text !== "");
}

function numberOf(text) {
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
  const word = /^([+-]?)(inf|infinity|nan)$/i.exec(text);
  if (!word) return null;
  if (word[2].toLowerCase() === "nan") return NaN;
  return word[1] === "-" ? -Infinity : Infinity;
}

// A parameter by its full name, or by a last part that only one has.
function paramOf(name, names) {
  if (names.params.some((param) => param.name === name)) return name;
  const ending = names.params.filter((param) => param.name.split(".").pop() === name);
  return ending.length === 1 ? ending[0].name : null;
}

function metricOf(name, names) {
  return name === names.metric ? { kind: "objective" } : { kind: "metric", name };
}

function propertyOf(name, names) {
  if (Object.hasOwn(FIELDS, name)) return { kind: FIELDS[name] };
  if (name.startsWith("summary.") && name !== "summary.") throw new FilterError(`\`${name}\`: summaries are not in this file; \`hpsearch trials --where\` knows them`);
  const isReported = (metric) => metric === names.metric || names.metrics.includes(metric);
  const isSeries = (metric) => !isReported(metric) && names.series.includes(metric);
  const series = (metric) => { throw new FilterError(`\`${metric}\`: values of series are not in this file; \`hpsearch trials --where\` knows them`); };
  if (name.startsWith("params.")) {
    const param = paramOf(name.slice("params.".length), names);
    if (param !== null) return { kind: "param", name: param };
  }
  if (name.startsWith("metrics.")) {
    const metric = name.slice("metrics.".length);
    return isSeries(metric) ? series(metric) : metricOf(metric, names);
  }
  // Parameters and metrics may have these names, but `name` is not `model.name`.
  const isWhole = names.params.some((param) => param.name === name) || isReported(name) || isSeries(name);
  if (!isWhole && ["study", "name", "group"].includes(name)) return { kind: name };
  if (!isWhole && name === "created") return null;
  const param = paramOf(name, names);
  if (param !== null) return { kind: "param", name: param };
  if (isReported(name)) return metricOf(name, names);
  if (isSeries(name)) return series(name);
  if (name === names.step) return { kind: "step" };
  return null;
}

// A value of a parameter as users write it.
export function valueText(value) {
  if (typeof value === "number" && value !== 0 && !Number.isInteger(value) && Math.abs(value) < 1e-3) return value.toExponential().replace("e+", "e");
  if (typeof value === "number" && Math.abs(value) >= 1e7 && !Number.isInteger(value)) return value.toExponential().replace("e+", "e");
  return value === null || Array.isArray(value) ? JSON.stringify(value) : String(value);
}

function textsOf(trial, property, names) {
  switch (property.kind) {
    case "device": case "reason": case "name": case "group": return trial[property.kind] === null ? [] : [trial[property.kind].toLowerCase()];
    case "note": return trial.notes.map((note) => note.toLowerCase());
    case "tag": return trial.tags.map((tag) => tag.toLowerCase());
    case "study": return [names.study.toLowerCase()];
    case "param": return trial.params.has(property.name) ? [valueText(trial.params.get(property.name)).toLowerCase()] : [];
    default: return [];
  }
}

// Numbers, texts in lower case, flags, or a list of texts; `undefined`: the trial has none.
function termOf(trial, property, names) {
  const given = (value) => (value === null ? undefined : value);
  switch (property.kind) {
    case "state": return trial.state;
    case "number": case "value": case "last_value": case "step": case "seconds": case "attempts": case "failures": return given(trial[property.kind]);
    case "objective": return given(trial.state === "complete" ? trial.value : trial.last_value);
    case "metric": return trial.metrics.has(property.name) ? trial.metrics.get(property.name) : undefined;
    case "param": {
      if (!trial.params.has(property.name)) return undefined;
      const value = trial.params.get(property.name);
      return typeof value === "number" || typeof value === "boolean" ? value : valueText(value).toLowerCase();
    }
    default: {
      const texts = textsOf(trial, property, names);
      return texts.length > 0 ? texts : undefined;
    }
  }
}

function compares(left, operator, right) {
  if (left === undefined) return false;
  const isSame = Array.isArray(left) ? left.includes(right) : Object.is(left, right) || left === right;
  switch (operator) {
    case "=": case "==": case ":": return isSame;
    case "!=": return !Number.isNaN(left) && !isSame;
    default: if (typeof left !== "number" || typeof right !== "number") return false;
  }
  return operator === "<" ? left < right : operator === "<=" ? left <= right : operator === ">" ? left > right : left >= right;
}

function mentions(trial, text, names) {
  if (trial.state.includes(text)) return true;
  for (const [name, value] of trial.params) if (name.toLowerCase().includes(text) || valueText(value).toLowerCase().includes(text)) return true;
  return ["reason", "device", "tag", "note", "name"].some((kind) => textsOf(trial, { kind }, names).some((found) => found.includes(text)));
}

const MORE = "this page joins terms by spaces; `hpsearch trials --where` knows arithmetic, `and`, `or`, `not` and parentheses";

function termTest(word, names) {
  const body = isNegated(word) ? word.slice(1) : word;
  const text = textOf(body);
  const isQuoted = body.some(({ quoted }) => quoted);
  if (!isQuoted && /^(and|or|not|AND|OR|NOT|&&|\|\|)$/.test(text)) throw new FilterError(MORE);
  if (signAt(body, 0) === "(" || (!isQuoted && /^[-+*/%<>=!(),]+$/.test(text))) throw new FilterError(MORE);
  const split = splitAtOperator(body);
  if (split === null) {
    const wanted = text.toLowerCase();
    return (trial) => mentions(trial, wanted, names);
  }
  const [nameWord, operator, valueWord] = split;
  const name = textOf(nameWord);
  if (name === "") throw new FilterError(MORE);
  const property = propertyOf(name, names);
  if (property === null) throw new FilterError(isName(nameWord) ? `\`${name}\` is no parameter or metric` : MORE);
  const list = listOf(valueWord);
  if (list.length === 0) throw new FilterError(`\`${text}\` lacks its value: write \`${text}VALUE\``);
  const isText = TEXTS.includes(property.kind);
  const isEquality = ["=", "==", "!=", ":"].includes(operator);
  if (operator === ":" && (isText || property.kind === "param")) {
    const wanted = list.map((one) => one.toLowerCase());
    return (trial) => textsOf(trial, property, names).some((found) => wanted.some((one) => found.includes(one)));
  }
  const noOrder = () => new FilterError(`\`${name}\` has no order: write \`${name}=${list.join(",")}\` or \`${name}!=${list.join(",")}\``);
  const notANumber = (one) => new FilterError(`\`${name}\` is compared with a number, not with \`${one}\``);
  let values;
  if (property.kind === "state" && isEquality) {
    values = list.flatMap((one) => {
      const state = one.toLowerCase();
      if (state === "finished") return FINISHED;
      if (!STATES.includes(state)) throw new FilterError(`\`${one}\` is no state; there are ${STATES.join(", ")} and finished`);
      return [state];
    });
  } else if ((property.kind === "tag" || isText) && isEquality) {
    values = list.map((one) => one.toLowerCase());
  } else if (property.kind === "param" && isEquality) {
    values = list.flatMap((one) => {
      const number = numberOf(one);
      const flag = { true: true, false: false }[one.toLowerCase()];
      return [one.toLowerCase(), ...(number === null ? [] : [number]), ...(flag === undefined ? [] : [flag])];
    });
  } else if (["state", "tag"].includes(property.kind) || isText) {
    throw noOrder();
  } else if (property.kind === "param" && !names.params.find((param) => param.name === property.name).ordered) {
    throw noOrder();
  } else {
    if (list.length > 1 && !isEquality) throw notANumber(list.join(","));
    values = list.map((one) => {
      const number = numberOf(one);
      if (number === null) throw notANumber(one);
      return number;
    });
  }
  const every = operator === "!=";
  return (trial) => {
    const term = termOf(trial, property, names);
    return every ? values.every((value) => compares(term, operator, value)) : values.some((value) => compares(term, operator, value));
  };
}

/// A function that tells whether a trial passes; throws a FilterError.
export function parseFilter(text, names) {
  const tests = wordsOf(text).map((word) => {
    const test = termTest(word, names);
    return isNegated(word) ? (trial) => !test(trial) : test;
  });
  return (trial) => tests.every((test) => test(trial));
}

/// A trial of the table from its array, as the program writes it.
export function trialOf(row, names) {
  const [number, state, value, step, last, seconds, attempts, failures, device, reason, hidden, infeasible, name, group, tags, notes, params, metrics] = row;
  const real = (written) => ({ NaN, Infinity, "-Infinity": -Infinity }[written] ?? written);
  const isActive = (given) => given === null || Array.isArray(given) || typeof given !== "object";
  return {
    number, state, value: real(value), step, last_value: real(last), seconds, attempts, failures, device, reason,
    hidden: hidden === 1, infeasible: infeasible === 1, name, group, tags, notes,
    params: new Map(names.params.map((param, index) => [param.name, params[index]]).filter(([, given]) => isActive(given))),
    metrics: new Map(names.metrics.map((metric, index) => [metric, real(metrics[index])]).filter(([, given]) => given !== null)),
  };
}
