#!/usr/bin/env python3
"""Makes commands_train.csv and commands_validation.csv: what somebody wants done with files (`request`), and the shell command
that does it (`command`). No request is in both.

    python3 studies/data/commands.py studies/data
"""
import csv
import os
import random
import sys

KINDS = {"text": "*.txt", "python": "*.py", "rust": "*.rs", "log": "*.log", "csv": "*.csv", "json": "*.json", "markdown": "*.md", "image": "*.png",
         "toml": "*.toml", "shell": "*.sh"}
PLACES = {"here": ".", "in my home directory": "~", "under /tmp": "/tmp", "in the directory src": "src", "under /var/log": "/var/log", "in docs": "docs",
          "in the parent directory": "..", "in tests": "tests", "under /etc": "/etc", "in data": "data"}
DAYS = {"today": "-1", "in the last two days": "-2", "in the last three days": "-3", "this week": "-7", "this month": "-30", "in the last ten days": "-10"}
SIZES = {"one megabyte": "1M", "ten megabytes": "10M", "a hundred megabytes": "100M", "one gigabyte": "1G", "five kilobytes": "5k"}
WORDS = ["error", "warning", "todo", "main", "import", "timeout", "password", "version", "panic", "config", "retry", "user"]
COUNTS = {"three": 3, "five": 5, "ten": 10, "twenty": 20, "fifty": 50}

# A request in several wordings, and its command.
TEMPLATES = [
    (["find all {kind} files {place}", "list every {kind} file {place}", "which {kind} files are {place}", "show me the {kind} files {place}"],
     "find {path} -name '{glob}'"),
    (["find {kind} files {place} changed {days}", "list the {kind} files {place} that changed {days}", "which {kind} files {place} were modified {days}"],
     "find {path} -name '{glob}' -mtime {mtime}"),
    (["find {kind} files {place} larger than {size}", "which {kind} files {place} are over {size}", "list {kind} files {place} bigger than {size}"],
     "find {path} -name '{glob}' -size +{bytes}"),
    (["delete all {kind} files {place}", "remove every {kind} file {place}", "get rid of the {kind} files {place}"],
     "find {path} -name '{glob}' -delete"),
    (["count the {kind} files {place}", "how many {kind} files are {place}", "tell me the number of {kind} files {place}"],
     "find {path} -name '{glob}' | wc -l"),
    (["find the word {word} in {kind} files {place}", "which {kind} files {place} mention {word}", "list {kind} files {place} that contain {word}"],
     "grep -rl {word} --include='{glob}' {path}"),
    (["show the lines with {word} in {kind} files {place}", "print every line with {word} in the {kind} files {place}"],
     "grep -rn {word} --include='{glob}' {path}"),
    (["show the {count} largest files {place}", "what are the {count} biggest files {place}", "list the {count} largest files {place}"],
     "du -a {path} | sort -rn | head -n {number}"),
    (["count the lines of all {kind} files {place}", "how many lines do the {kind} files {place} have"],
     "find {path} -name '{glob}' -exec cat {{}} + | wc -l"),
    (["list empty {kind} files {place}", "find the {kind} files {place} that are empty", "which {kind} files {place} are empty"],
     "find {path} -name '{glob}' -empty"),
    (["pack the {kind} files {place} into an archive", "make an archive of all {kind} files {place}"],
     "find {path} -name '{glob}' | tar -czf archive.tar.gz -T -"),
]


def sentence(rng, template):
    wordings, command = template
    choose = lambda table: rng.choice(sorted(table.items()))
    (kind, glob), (place, path), (days, mtime) = choose(KINDS), choose(PLACES), choose(DAYS)
    (size, number_of_bytes), (count, number) = choose(SIZES), choose(COUNTS)
    values = dict(kind=kind, glob=glob, place=place, path=path, days=days, mtime=mtime, size=size, bytes=number_of_bytes, count=count, number=number,
                  word=rng.choice(WORDS))
    return rng.choice(wordings).format(**values), command.format(**values)


def main():
    rng = random.Random(11)
    pairs = {}
    while len(pairs) < 1700:
        request, command = sentence(rng, rng.choice(TEMPLATES))
        pairs.setdefault(request, command)
    rows = list(pairs.items())
    rng.shuffle(rows)
    for name, part in (("commands_train.csv", rows[:1500]), ("commands_validation.csv", rows[1500:])):
        with open(os.path.join(sys.argv[1], name), "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["request", "command"])
            writer.writerows(part)


if __name__ == "__main__":
    main()
