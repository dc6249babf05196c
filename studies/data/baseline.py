#!/usr/bin/env python3
"""Bag-of-words baselines for the help-desk set: what a model without word order reaches.

Trains on train.csv and prints the accuracy on validation.csv and test.csv of
  * multinomial naive Bayes with add-one smoothing
  * multinomial logistic regression on tf-idf, by gradient descent, L2-penalised
Standard library only, deterministic, some ten seconds.   python3 studies/data/baseline.py
"""
import csv
import math
import pathlib
import random
import re
from collections import Counter, defaultdict

HERE = pathlib.Path(__file__).resolve().parent


def load(split):
    with open(HERE / f"{split}.csv", newline="", encoding="utf-8") as f:
        return [(re.findall(r"[a-z0-9']+", r["text"].lower()), r["label"]) for r in csv.DictReader(f)]


def naive_bayes(train, classes):
    words, rows = defaultdict(Counter), Counter()
    for tokens, label in train:
        words[label].update(tokens)
        rows[label] += 1
    vocabulary = {w for counts in words.values() for w in counts}
    total = {c: sum(words[c].values()) + len(vocabulary) for c in classes}

    def predict(tokens):
        known = [t for t in tokens if t in vocabulary]
        return max(classes, key=lambda c: math.log(rows[c] / len(train))
                   + sum(math.log((words[c][t] + 1) / total[c]) for t in known))
    return predict


def logistic_regression(train, classes, epochs=60, rate=0.5, l2=1e-4):
    df = Counter(w for tokens, _ in train for w in set(tokens))
    idf = {w: math.log((1 + len(train)) / (1 + n)) + 1 for w, n in df.items()}

    def features(tokens):
        x = {w: n * idf[w] for w, n in Counter(tokens).items() if w in idf}
        norm = math.sqrt(sum(v * v for v in x.values())) or 1.0
        return [(w, v / norm) for w, v in x.items()]

    weights = {w: [0.0] * len(classes) for w in idf}
    bias = [0.0] * len(classes)

    def scores(x):
        s = bias[:]
        for w, v in x:
            for k, wk in enumerate(weights[w]):
                s[k] += wk * v
        return s

    data = [(features(tokens), classes.index(label)) for tokens, label in train]
    rng = random.Random(0)
    for epoch in range(epochs):
        rng.shuffle(data)
        step = rate / (1 + epoch / 20)
        for x, y in data:
            s = scores(x)
            e = [math.exp(v - max(s)) for v in s]
            z = sum(e)
            gradient = [v / z - (k == y) for k, v in enumerate(e)]
            for k, g in enumerate(gradient):
                bias[k] -= step * g
            for w, v in x:
                row = weights[w]
                for k, g in enumerate(gradient):
                    row[k] -= step * (g * v + l2 * row[k])

    def predict(tokens):
        s = scores(features(tokens))
        return classes[s.index(max(s))]
    return predict


if __name__ == "__main__":
    train = load("train")
    classes = sorted({label for _, label in train})
    for name, fit in (("naive Bayes", naive_bayes), ("logistic regression", logistic_regression)):
        predict = fit(train, classes)
        for split in ("validation", "test"):
            rows = load(split)
            right = sum(predict(tokens) == label for tokens, label in rows)
            print(f"{name:20} {split:11} {right / len(rows):.3f}  ({right} of {len(rows)})")
