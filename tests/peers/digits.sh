#!/usr/bin/env bash
# An argparse program on scikit-learn's digits that knows nothing of hpsearch, and prints its metrics in its own words, is searched
# without one line changed. Needs python3 and the package index; run by hand: tests/peers/digits.sh
# HPSEARCH=path/to/hpsearch (default: target/release/hpsearch), PEER_VENV=DIR keeps the virtual environment there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import sklearn' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn
cd "$work"
cat > train.py <<'PYTHON'
import argparse

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=1e-4)
parser.add_argument("--eta0", type=float, default=0.01)
parser.add_argument("--penalty", choices=["l1", "l2", "elasticnet"], default="l2")
parser.add_argument("--average", action="store_true")
parser.add_argument("--epochs", type=int, default=8)
args = parser.parse_args()
x, y = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(x / 16, y, test_size=0.3, random_state=0)
model = SGDClassifier(alpha=args.alpha, eta0=args.eta0, learning_rate="invscaling", penalty=args.penalty, average=args.average, random_state=0)
for epoch in range(1, args.epochs + 1):
    model.partial_fit(train_x, train_y, classes=range(10))
    train, test = model.score(train_x, train_y), model.score(test_x, test_y)
    print(f"Epoch {epoch}/{args.epochs}: train accuracy {train:.4f}, test accuracy: {test:.4f}", flush=True)
PYTHON
before=$(sha256sum train.py)
cat > study.toml <<TOML
[study]
name = "digits"
metric = "accuracy"
direction = "maximize"
[budget]
trials = 12
[command]
run = ["$venv/bin/python", "train.py", "{args}"]
[command.metrics]
pattern = 'Epoch (?P<epoch>\\d+)/\\d+: train accuracy (?P<train_accuracy>[\\d.]+), test accuracy: (?P<accuracy>[\\d.]+)'
[space]
alpha = { float = [1e-5, 1e-3], log = true }
eta0 = { float = [1e-3, 1e-1], log = true }
penalty = ["l1", "l2", "elasticnet"]
average = [true, false]
[pruner]
type = "median"
TOML
"$hpsearch" check study.toml --try "Epoch 3/8: train accuracy 0.9571, test accuracy: 0.9333"
"$hpsearch" run study.toml --plain -q
[[ $(sha256sum train.py) == "$before" ]]
"$hpsearch" best digits
# The command line of the best trial, run by hand, prints its value.
value=$("$hpsearch" best digits --json | "$venv/bin/python" -c 'import json, sys; print("%.4f" % json.load(sys.stdin)["trial"]["value"])')
$("$hpsearch" best digits --command) | grep -q "test accuracy: $value" && echo "its command line prints $value again"
