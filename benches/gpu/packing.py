#!/usr/bin/env python3
"""One study of small trials, one at a time and packed: trials an hour, how busy the device was over time, and a picture.

    python3 benches/gpu/packing.py --hpsearch target/release/hpsearch --device cuda:0 --model small -o packing
    python3 benches/gpu/packing.py --hpsearch target/release/hpsearch --device cpu --model tiny -o packing-cpu

Standard library only. The same study (same seed, random sampler, no pruner, so that both train the same 32 configurations) runs with
`trials_per_device = 1` and with `"auto"`. Twice a second the device is looked at: a GPU by nvidia-smi, the processor by /proc/stat (all of the
machine, and the share that the study's own processes have). OUT.md has the table, OUT.svg the picture, OUT.json all samples.
"""
import argparse, json, os, random, shutil, subprocess, sys, tempfile, threading, time

# hidden, layers, heads, feed-forward, tokens, rows at once: about 0.06, 1 and 5 million parameters beside embeddings.
MODELS = {
    "tiny": (32, 2, 2, 128, 24, 16, 2),
    "small": (128, 4, 4, 512, 48, 32, 4),
    "medium": (256, 6, 8, 1024, 64, 32, 4),
}

STUDY = """[study]
name = "{name}"
metric = "eval_loss"
direction = "minimize"
seed = 5

[budget]
trials = {trials}

[data]
train = "train.csv"
validation = "validation.csv"
max_length = {length}

[trainer]
task = "text-classification"
num_train_epochs = {epochs}
per_device_train_batch_size = {rows}
"model.hidden_size" = {hidden}
"model.num_layers" = {layers}
"model.num_heads" = {heads}
"model.intermediate_size" = {inner}

[space]
learning_rate = {{ float = [1e-4, 1e-2], log = true }}
"model.dropout" = {{ float = [0.0, 0.3] }}

[sampler]
type = "random"

[pruner]
type = "none"

[devices]
use = ["{device}"]
trials_per_device = {share}
cpu_threads = 1

[checkpoints]
keep = "best-1"
"""


def write_data(room, length, rows):
    """Texts whose label is which of two words comes more often, among words that say nothing."""
    dice = random.Random(7)
    words = ["w%d" % n for n in range(400)]
    for name, count in (("train", rows), ("validation", rows // 4)):
        with open(os.path.join(room, name + ".csv"), "w") as file:
            file.write("text,label\n")
            for _ in range(count):
                label = dice.randrange(2)
                text = [dice.choice(words) for _ in range(length - 6)] + ["yes" if label else "no"] * 3 + ["no" if label else "yes"]
                dice.shuffle(text)
                file.write("%s,%s\n" % (" ".join(text), "up" if label else "down"))


class Watch(threading.Thread):
    """Samples of a device: seconds since the start, share in use, bytes in use, trials at a time."""

    def __init__(self, device, root):
        super().__init__(daemon=True)
        self.device, self.root, self.samples, self.over, self.begun = device, root, [], False, time.time()
        self.before = None

    def run(self):
        while not self.over:
            at = time.time() - self.begun
            busy, own, memory = self.gpu() if self.device.startswith("cuda") else self.processor()
            if busy is not None:
                self.samples.append({"at": round(at, 2), "busy": round(busy, 4), "own": round(own, 4), "bytes": memory})
            time.sleep(0.5)

    def gpu(self):
        index = self.device.partition(":")[2] or "0"
        query = ["nvidia-smi", "-i", index, "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
        busy, memory = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split(",")
        return float(busy) / 100, float(busy) / 100, int(memory) << 20

    def processor(self):
        with open("/proc/stat") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
        ticks, resident = tree(self.root)
        now = (sum(fields), fields[3] + fields[4], ticks)
        before, self.before = self.before, now
        if before is None or now[0] == before[0]:
            return None, None, None
        all_ticks = now[0] - before[0]
        own = max(0, now[2] - before[2]) / all_ticks
        return 1 - (now[1] - before[1]) / all_ticks, min(own, 1.0), resident


def tree(root):
    """Processor ticks and resident bytes of a process and all below it."""
    parents, ticks, pages = {}, {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as file:
                fields = file.read().rpartition(") ")[2].split()
        except OSError:
            continue
        pid = int(entry)
        parents[pid], ticks[pid], pages[pid] = int(fields[1]), int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14]), int(fields[21])
    below, found = {root}, True
    while found:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below, found = below | more, bool(more)
    here = [pid for pid in below if pid in ticks]
    return sum(ticks[pid] for pid in here), sum(pages[pid] for pid in here) * os.sysconf("SC_PAGE_SIZE")


def run(a, room, name, share):
    hidden, layers, heads, inner, length, rows, epochs = MODELS[a.model]
    text = STUDY.format(name=name, trials=a.trials, length=length, epochs=a.epochs or epochs, rows=rows, hidden=hidden, layers=layers, heads=heads,
                        inner=inner, device=a.device, share=share)
    with open(os.path.join(room, name + ".toml"), "w") as file:
        file.write(text)
    environment = {key: value for key, value in os.environ.items() if key != "HPSEARCH_STORE"}
    begun = time.time()
    child = subprocess.Popen([a.hpsearch, "run", name + ".toml", "--plain"], cwd=room, env=environment, stdout=subprocess.PIPE, text=True)
    watch = Watch(a.device, child.pid)
    watch.start()
    said = child.stdout.read()
    code = child.wait()
    seconds = time.time() - begun
    watch.over = True
    watch.join()
    if code != 0:
        sys.exit("%s ended with %d\n%s" % (name, code, said))
    events = subprocess.run([a.hpsearch, "events", name, "--json"], cwd=room, env=environment, capture_output=True, text=True, check=True).stdout
    return {"name": name, "seconds": seconds, "samples": watch.samples, **journal(events)}


def journal(text):
    """How many trials ran at a time, from when on, and what was decided."""
    running, steps, decided, first, last, done = set(), [], [], None, None, 0
    for line in text.splitlines():
        entry = json.loads(line)
        event, at = entry["event"], moment(entry["at"])
        if event["type"] == "attempt_started":
            first = at if first is None else first
            running.add(event["trial"])
        elif event["type"] == "attempt_ended":
            running.discard(event["trial"])
            last = at
        elif event["type"] == "trial_finished":
            done += event["state"] == "complete"
            continue
        elif event["type"] == "packed":
            decided.append([round(at - first, 1) if first else 0, event["slots"], event["change"], event["reason"]])
            continue
        else:
            continue
        # Who takes a place that was left in the same moment keeps it.
        if steps and at - first - steps[-1][0] < 0.05:
            steps.pop()
        steps.append([round(at - first, 2), len(running)])
    return {"trials": done, "training_seconds": last - first, "at_a_time": steps, "decided": decided}


def moment(at):
    """Seconds of a journal's time: microseconds, or a text in UTC."""
    if isinstance(at, (int, float)):
        return at / 1e6
    import datetime
    return datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def table(runs):
    lines = ["| | trials | seconds | trials an hour | device busy | by the study | most memory | most at a time |", "|---|---|---|---|---|---|---|---|"]
    for run in runs:
        samples = run["samples"]
        lines.append("| %s | %d | %.1f | %.0f | %.0f %% | %.0f %% | %.2f GiB | %d |" % (
            run["name"], run["trials"], run["seconds"], 3600 * run["trials"] / run["seconds"], 100 * mean(s["busy"] for s in samples),
            100 * mean(s["own"] for s in samples), max(s["bytes"] for s in samples) / 2**30, max(n for _, n in run["at_a_time"])))
    lines += ["", "packed does %.2f times as many trials an hour" % (runs[0]["seconds"] / runs[1]["seconds"]), "", "By the study, over time (tenths of each run):", ""]
    lines += ["| | " + " | ".join("%d" % (10 * n) for n in range(1, 11)) + " |", "|---|" + "---|" * 10]
    for run in runs:
        tenths = [[s["own"] for s in run["samples"] if n <= 10 * s["at"] / run["seconds"] < n + 1] for n in range(10)]
        lines.append("| %s, %% | " % run["name"] + " | ".join("%.0f" % (100 * mean(part)) if part else "" for part in tenths) + " |")
    lines += ["", "What was decided:", ""]
    lines += ["    %6.1f s  %d at a time (%s): %s" % tuple(line) for line in runs[1]["decided"]] or ["    nothing"]
    return "\n".join(lines) + "\n"


def picture(runs, a):
    """Two curves one above the other: how busy the study kept the device, and how many trials ran at a time."""
    width, left, top, high, gap = 860, 66, 54, 150, 64
    longest = max(run["seconds"] for run in runs)
    most = max(max(n for _, n in run["at_a_time"]) for run in runs)
    x = lambda at: left + (width - left - 20) * at / longest
    colours = {"one": "#b4581f", "packed": "#2767b0"}
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">' % (width, top + 2 * high + gap + 52),
           '<rect width="100%" height="100%" fill="#ffffff"/>',
           '<text x="%d" y="22" font-size="15" font-weight="bold">%d trials of the %s model on %s: %.0f an hour one at a time, %.0f packed</text>' % (
               left, runs[0]["trials"], a.model, a.device, *[3600 * run["trials"] / run["seconds"] for run in runs])]

    def frame(y, title, ticks, of):
        out.append('<text x="%d" y="%d" fill="#333">%s</text>' % (left, y - 10, title))
        for tick in ticks:
            at = y + high - high * tick / of
            out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>' % (left, width - 20, at, at))
            label = "%d %%" % (100 * tick) if of == 1 else "%d" % tick
            out.append('<text x="%d" y="%.1f" text-anchor="end" fill="#555">%s</text>' % (left - 8, at + 4, label))

    frame(top, "share of the device that the study used", [0, 0.25, 0.5, 0.75, 1], 1)
    second = top + high + gap
    step = max(1, -(-most // 4))
    ceiling = -(-most // step) * step
    frame(second, "trials at a time", range(0, ceiling + 1, step), ceiling)
    for run in runs:
        colour = colours[run["name"]]
        # Means of 1/120 of the time, for samples of a moment say little.
        bins = {}
        for sample in run["samples"]:
            bins.setdefault(int(120 * sample["at"] / longest), []).append(sample["own"])
        points = ["%.1f,%.1f" % (x((n + 0.5) * longest / 120), top + high - high * min(1, mean(part))) for n, part in sorted(bins.items())]
        out.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (colour, " ".join(points)))
        path, before = [], 0
        for at, number in run["at_a_time"]:
            path += ["%.1f,%.1f" % (x(at), second + high - high * before / ceiling), "%.1f,%.1f" % (x(at), second + high - high * number / ceiling)]
            before = number
        out.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (colour, " ".join(path)))
    base = second + high
    for n in range(5):
        at = longest * n / 4
        out.append('<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%.0f s</text>' % (x(at), base + 20, at))
    for n, (name, words) in enumerate((("one", "one at a time"), ("packed", 'trials_per_device = "auto"'))):
        out.append('<rect x="%d" y="%d" width="14" height="4" fill="%s"/>' % (left + 170 * n, base + 36, colours[name]))
        out.append('<text x="%d" y="%d" fill="#333">%s</text>' % (left + 20 + 170 * n, base + 42, words))
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hpsearch", default="target/release/hpsearch")
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    parser.add_argument("--model", default="small", choices=MODELS)
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--epochs", type=int, help="of each trial")
    parser.add_argument("--rows", type=int, default=1024, help="training rows")
    parser.add_argument("-o", "--out", default="packing", help="beginning of the files' names")
    a = parser.parse_args()
    a.hpsearch = os.path.abspath(a.hpsearch)
    room = tempfile.mkdtemp(prefix="packing-")
    try:
        write_data(room, MODELS[a.model][4], a.rows)
        runs = [run(a, room, "one", "1"), run(a, room, "packed", '"auto"')]
    finally:
        shutil.rmtree(room, ignore_errors=True)
    for ending, text in (("md", table(runs)), ("svg", picture(runs, a)), ("json", json.dumps(runs))):
        with open("%s.%s" % (a.out, ending), "w") as file:
            file.write(text)
    print(table(runs))


if __name__ == "__main__":
    main()
