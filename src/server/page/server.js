// Requests to the server, and the events that it sends.

import { streamOf } from "/stream.js";

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

/// What the view that is shown hears.
let listener = null;
let connection = null;

/// Hears that the store has changed: `changed()`, and `trouble(text)`, which is `null` when it is
/// over; returns what ends it. Only a page that is seen listens.
export function listen(heard) {
  listener = heard;
  connection ??= connected(({ trouble, changed }) => {
    listener?.trouble(trouble);
    if (changed) listener?.changed();
  });
  return () => { listener = null; };
}

/// The connection of this page, through the one of all windows where the browser can.
function connected(tell) {
  const isSeen = () => document.visibilityState !== "hidden";
  let see = null;
  const directly = () => {
    let stream = null;
    see = (isNowSeen) => {
      if (!isNowSeen || stream?.isOver()) { stream?.close(); stream = null; }
      if (isNowSeen) stream ??= streamOf(tell);
    };
  };
  const together = () => {
    const worker = new SharedWorker("/worker.js", { type: "module" });
    worker.onerror = () => { directly(); see(isSeen()); };
    worker.port.onmessage = ({ data }) => tell(data);
    see = (isNowSeen) => worker.port.postMessage(isNowSeen);
  };
  if (typeof SharedWorker === "undefined") directly(); else together();
  const turn = () => { see(isSeen()); if (isSeen()) tell({ trouble: null, changed: true }); };
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", () => see(false));
  addEventListener("pageshow", (event) => { if (event.persisted) turn(); });
  see(isSeen());
  return see;
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
