#!/usr/bin/env python3
"""Checks train.csv, validation.csv and test.csv; prints what is wrong and exits 1, or prints the counts.

Every pair of rows, over all splits, must differ in its words (lower-cased runs of letters, digits
and apostrophes; no stop-word list): Jaccard similarity below 0.5, and overlap coefficient
|A & B| / min(|A|, |B|) below 0.7 where both rows have 6 or more distinct words.
Standard library only, a few seconds.   python3 studies/data/check.py
"""
import csv
import pathlib
import re
import sys
from collections import Counter
from itertools import combinations

HERE = pathlib.Path(__file__).resolve().parent
AT_LEAST = {"train": 1000, "validation": 160, "test": 160}
bad, rows, classes = [], [], None
for split, least in AT_LEAST.items():
    raw = (HERE / f"{split}.csv").read_bytes()
    if b"\r" in raw or not raw.endswith(b"\n") or raw.startswith(b"\xef\xbb\xbf"):
        bad.append(f"{split}: wants LF line ends, a final newline and no byte-order mark")
    table = list(csv.reader(raw.decode("utf-8").splitlines(keepends=True), strict=True))
    if table[0] != ["text", "label"] or any(len(r) != 2 or not r[0] or r[0] != r[0].strip() for r in table):
        bad.append(f"{split}: wants the columns text,label, each row with a trimmed, non-empty text")
        continue
    counts = Counter(label for _, label in table[1:])
    classes = classes or set(counts)
    mean = (len(table) - 1) / max(len(counts), 1)
    if len(table) - 1 < least:
        bad.append(f"{split}: {len(table) - 1} rows, wants at least {least}")
    if set(counts) != classes or len(counts) != 8:
        bad.append(f"{split}: wants the same 8 classes in every split, has {sorted(counts)}")
    if any(abs(n - mean) > 0.2 * mean for n in counts.values()):
        bad.append(f"{split}: a class is more than 20 % off the mean: {dict(counts)}")
    print(f"{split}: {len(table) - 1} rows,", ", ".join(f"{c} {n}" for c, n in sorted(counts.items())))
    for line, (text, _) in enumerate(table[1:], 2):
        rows.append((f"{split}.csv:{line}", text, set(re.findall(r"[a-z0-9']+", text.lower()))))
for (at, text, a), (at2, text2, b) in combinations(rows, 2):
    common, small = len(a & b), min(len(a), len(b))
    jaccard, overlap = common / (len(a | b) or 1), common / (small or 1)
    if text == text2 or jaccard >= 0.5 or (small >= 6 and overlap >= 0.7):
        bad.append(f"too alike, Jaccard {jaccard:.2f}, overlap {overlap:.2f}:\n  {at}: {text}\n  {at2}: {text2}")
print("\n".join(bad) if bad else f"all good: {len(rows)} rows, no pair of rows too alike")
sys.exit(1 if bad else 0)
