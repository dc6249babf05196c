// The one stream for all windows of a browser: it has six connections to a server, and a stream holds
// one for as long as it is open. Windows say whether they are seen; without any, the stream is closed.

import { streamOf } from "/stream.js";

const seen = new Set();
let stream = null;
let trouble = null;

function tell(news) {
  trouble = news.trouble;
  for (const port of seen) port.postMessage(news);
}

addEventListener("connect", ({ ports: [port] }) => {
  port.onmessage = ({ data: isSeen }) => {
    if (isSeen) seen.add(port); else seen.delete(port);
    if (seen.size === 0) { stream?.close(); stream = null; trouble = null; }
    else if (isSeen && (stream === null || stream.isOver())) { stream?.close(); stream = streamOf(tell); }
    // What changed since the window was read is not known here.
    else if (isSeen) port.postMessage({ trouble, changed: true });
  };
});
