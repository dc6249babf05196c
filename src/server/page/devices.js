// The devices of the server's machine, and the load of each.

import { element, facts, fill } from "/elements.js";
import { bytes, number } from "/format.js";
import { read } from "/server.js";

export function showDevices(context) {
  const { page, body } = context;
  const show = ({ devices, note }) => fill(body,
    element("p", { class: "dim" }, "The devices of the machine that runs hpsearch serve."),
    element("div", { class: "cards" }, devices.map((device) => element("section", { class: "card" },
      element("h2", {}, device.name ?? "unnamed"),
      facts([
        ["what", device.description], ["use", device.note],
        ["memory", device.memory_total_bytes && `${bytes(device.memory_used_bytes ?? 0)} of ${bytes(device.memory_total_bytes)}`],
        ["load", device.utilisation !== undefined && `${number(Math.round(device.utilisation * 100))} %`],
        ["temperature", device.temperature_celsius && `${device.temperature_celsius} °C`],
        ["power", device.power_watts && `${number(device.power_watts)} W`],
      ])))),
    note && element("p", { class: "dim" }, note));
  const load = () => read("devices").then(show).catch(page.error);
  load();
  const timer = setInterval(load, 5000);
  return () => clearInterval(timer);
}
