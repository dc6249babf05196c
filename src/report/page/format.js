// Numbers, times and values in words, as the verbs print them.

/// Five significant digits; NaN and infinities have their names.
export function number(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(4).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(size >= 1e5 ? 6 : 5)));
}

/// The value of a parameter.
export function param(value) {
  if (value === undefined) return "";
  if (value === null) return "null";
  if (typeof value === "number" && !Number.isInteger(value)) return number(value);
  return Array.isArray(value) ? `[${value.map(param).join(", ")}]` : String(value);
}

/// In its two largest units, as the program writes it.
export function duration(seconds) {
  if (!seconds) return "";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = (unit) => Math.floor(seconds / unit);
  const rest = (unit, of) => String(Math.floor((seconds % of) / unit));
  if (seconds < 60) return `${whole(1)} s`;
  if (seconds < 3600) return `${whole(60)} min ${rest(1, 60).padStart(2, "0")} s`;
  if (seconds < 86400) return `${whole(3600)} h ${rest(60, 3600).padStart(2, "0")} min`;
  return `${whole(86400)} d ${rest(3600, 86400)} h`;
}

/// Microseconds since 1970 as the local time.
export function moment(micros) {
  if (!micros) return "";
  const at = new Date(micros / 1000);
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function count(many, thing) {
  return `${many.toLocaleString("en")} ${thing}${many === 1 ? "" : "s"}`;
}

export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit += 1; }
  return `${number(Math.round(size * 10) / 10)} ${units[unit]}`;
}

/// A word for a shell.
export function quoted(word) {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/// Trials by state, the states that there are.
export function counts(trials, state) {
  const words = ["running", "queued", "paused", "complete", "pruned", "failed"];
  const called = (word) => (word === "running" && state === "interrupted" ? state : word);
  return words.filter((word) => trials[word]).map((word) => `${trials[word]} ${called(word)}`).join(", ");
}
