"""Makes src/trainer/tests/golden/seqeval.json: entities and scores of random tags, as seqeval finds and counts them.

    python3 -m venv .venv && .venv/bin/pip install seqeval==1.2.2
    .venv/bin/python tests/peers/seqeval_golden.py src/trainer/tests/golden
"""
import json
import random
import sys
import warnings
from pathlib import Path

from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

TAGS = ["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "X", "B-A-C", "I", ".", "N", "-"]


def main():
    warnings.filterwarnings("ignore")
    random.seed(3)
    rows = [[random.choice(TAGS) for _ in range(random.randint(1, 8))] for _ in range(60)]
    truth = rows[:20]
    predicted = [[random.choice(TAGS) if random.random() < 0.3 else tag for tag in row] for row in truth]
    scores = {name: float(score(truth, predicted)) for name, score in
              [("precision", precision_score), ("recall", recall_score), ("f1", f1_score), ("accuracy", accuracy_score)]}
    golden = {"labels": TAGS, "rows": [{"tags": row, "entities": get_entities(row)} for row in rows], "truth": truth, "predicted": predicted,
              **scores}
    (Path(sys.argv[1]) / "seqeval.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
