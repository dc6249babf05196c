// The server's events, which say that the store has changed: what a view shows, it then reads anew.

/// Hears of the store until it is closed. `tell` gets `{ trouble, changed }`: why the store or the
/// server cannot be read, or `null`, and whether views should be read anew.
export function streamOf(tell) {
  const words = ({ error, remedy }) => (remedy ? `${error}: ${remedy}` : error);
  const source = new EventSource("/api/stream");
  const well = () => tell({ trouble: null, changed: true });
  // Before it, and while there was no connection, something may have changed.
  source.addEventListener("hello", well);
  source.addEventListener("changed", well);
  source.addEventListener("trouble", (event) => tell({ trouble: words(JSON.parse(event.data)), changed: false }));
  source.addEventListener("error", () => tell({ changed: false, trouble: source.readyState === EventSource.CLOSED
    ? "the server does not take this browser: open the address that `hpsearch serve` printed"
    : "no connection to `hpsearch serve`; trying again" }));
  return { close: () => source.close(), isOver: () => source.readyState === EventSource.CLOSED };
}
