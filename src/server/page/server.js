// Requests to the server, and the events that it sends.

/// An error that the server explained.
export class Refused extends Error {
  constructor(status, answer) {
    super(answer.error ?? `the server answered ${status}`);
    this.status = status;
    this.remedy = answer.remedy ?? null;
    this.answer = answer;
  }
}

/// The query of an address: arrays are several values of a name.
export function query(values) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "" && one !== false) parts.append(name, one === true ? "1" : one);
    }
  }
  return parts.toString();
}

/// Reads a part of the page.
export async function read(part, values = {}, signal = undefined) {
  const answer = await fetch(`/api/${part}?${query(values)}`, { signal });
  return answered(answer);
}

async function answered(answer) {
  const json = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, json);
  return json;
}

/// Asks something of a study.
export async function ask(study, request, { confirmed = false, again = false } = {}) {
  const answer = await fetch("/api/control", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Hpsearch": "1" },
    body: JSON.stringify({ study, request, confirmed, again }),
  });
  return answered(answer);
}

/// Hears of a study, or of the store alone. `heard` has `changed`, `journal(entries)`,
/// `trouble(text)`, `well()` and `gone(text)`; returns what ends it. A connection that breaks off is
/// made again from the last entry that came. Only a page that is seen listens: browsers have six
/// connections to a server, for all pages together.
export function listen(study, heard) {
  let stream = null;
  let last = null;
  let isOver = false;
  const data = (event) => { last = event.lastEventId || last; return JSON.parse(event.data); };
  const words = ({ error, remedy }) => (remedy ? `${error}: ${remedy}` : error);
  const close = () => { stream?.close(); stream = null; };
  const open = () => {
    stream = new EventSource(`/api/stream?${query({ study, after: last })}`);
    stream.addEventListener("hello", (event) => { data(event); heard.well?.(); });
    stream.addEventListener("changed", () => { heard.well?.(); heard.changed?.(); });
    stream.addEventListener("reset", (event) => { data(event); heard.changed?.(); });
    stream.addEventListener("journal", (event) => {
      heard.journal?.(data(event).entries);
      heard.changed?.();
    });
    stream.addEventListener("trouble", (event) => heard.trouble?.(words(data(event))));
    stream.addEventListener("gone", (event) => { isOver = true; close(); heard.gone?.(words(JSON.parse(event.data))); });
    stream.addEventListener("error", () => heard.trouble?.(stream?.readyState === EventSource.CLOSED
      ? "the server does not take this browser: open the address that `hpsearch serve` printed"
      : "no connection to `hpsearch serve`; trying again"));
  };
  const turn = () => {
    if (document.visibilityState === "hidden") close();
    else if (stream === null && !isOver) { open(); heard.changed?.(); }
  };
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", close);
  addEventListener("pageshow", turn);
  open();
  return () => {
    isOver = true;
    close();
    document.removeEventListener("visibilitychange", turn);
    removeEventListener("pagehide", close);
    removeEventListener("pageshow", turn);
  };
}

/// Calls `work` soon, one at a time, however often it is asked to; after slow work it waits longer.
export function calmly(work, pause) {
  let timer = null;
  let isWanted = false;
  let isBusy = false;
  let rest = pause;
  const turn = async () => {
    timer = null;
    if (isBusy) { isWanted = true; return; }
    isBusy = true;
    const began = performance.now();
    try { await work(); } finally {
      isBusy = false;
      rest = Math.max(pause, 3 * (performance.now() - began));
      if (isWanted) { isWanted = false; timer = setTimeout(turn, rest); }
    }
  };
  return () => { timer ??= setTimeout(turn, rest); };
}
