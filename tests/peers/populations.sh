#!/usr/bin/env bash
# Populations of the built-in trainer: the winner of each of several studies, trained again from its exported schedule, has the same
# weights, bit for bit. Every third study is killed (SIGKILL) while it runs, and run again. Run by hand:
#   tests/peers/populations.sh [STUDIES]
# STUDIES is 20 unless given; HPSEARCH=path/to/hpsearch (default: target/release/hpsearch).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
data=$(realpath "$here/../../studies/data")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HPSEARCH_STORE=$work/store.db
same=0 several=0
for ((seed = 1; seed <= ${1:-20}; seed++)); do
    cat > study.toml <<TOML
[study]
name = "s$seed"
metric = "eval_loss"
direction = "minimize"
seed = $seed
[budget]
trials = 4
[data]
train = "$data/train.csv"
validation = "$data/validation.csv"
[trainer]
task = "text-classification"
num_train_epochs = 5
per_device_train_batch_size = 32
"model.hidden_size" = 32
"model.num_layers" = 1
"model.num_heads" = 2
[space]
learning_rate = { float = [1e-4, 3e-2], log = true }
"model.dropout" = { float = [0.0, 0.5] }
weight_decay = { float = [1e-3, 1.0], log = true }
[pruner]
type = "pbt"
population = 4
interval = 1
[devices]
use = ["cpu"]
trials_per_device = 1
TOML
    if ((seed % 3 == 0)); then
        "$hpsearch" run study.toml --plain > /dev/null 2>&1 & runner=$!
        sleep 1.5
        kill -KILL $runner 2> /dev/null || true
        wait $runner 2> /dev/null || true
    fi
    "$hpsearch" run study.toml --plain -q > run.log 2>&1 || { cat run.log; exit 1; }
    "$hpsearch" verify "s$seed" > verify.log || { cat verify.log; exit 1; }
    "$hpsearch" export "s$seed" -o "model-$seed" -q
    "$hpsearch" train "model-$seed/best.toml" -o "again-$seed" > train.log 2>&1 || { cat train.log; exit 1; }
    stages=$(grep -c '^\[\[schedule\]\]' "model-$seed/best.toml" || true)
    ((stages < 2)) || several=$((several + 1))
    if cmp -s "model-$seed/model.safetensors" "again-$seed/model.safetensors"; then
        same=$((same + 1))
    else
        echo "study $seed: other weights ($stages stages)"
    fi
done
echo "$same of ${1:-20} winners repeated bit for bit, $several of them from schedules of several stages"
((same == ${1:-20}))
