#!/usr/bin/env bash
# The trainer's tasks beside transformers' Trainer, with the same arguments on the same rows, from one pretrained encoder; and what
# hpsearch exported, evaluated by transformers. Needs python3 and the package index; run by hand:
#   MODEL=path/to/all-MiniLM-L6-v2 NL2BASH=path/to/nl2bash tests/peers/tasks.sh
# MODEL is an encoder's directory, NL2BASH one with all.nl and all.cm. HPSEARCH=path/to/hpsearch (default: target/release/hpsearch),
# SEED=N is the seed of both, PEER_VENV=DIR keeps the virtual environment there, TASKS="tags pairs similar texts answers written summaries" says which.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${MODEL:?}" "${NL2BASH:?}"
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
python=$venv/bin/python
"$python" -c 'import accelerate, rouge_score, sacrebleu, seqeval, sklearn, torch, transformers' 2>/dev/null ||
    "$venv/bin/pip" install --quiet --disable-pip-version-check torch transformers accelerate rouge-score sacrebleu seqeval scikit-learn
export HPSEARCH_STORE=$work/store.db SEED=${SEED:-0}
"$python" "$here/tasks_data.py" "$NL2BASH/all.nl" "$NL2BASH/all.cm" "$work"

study() { # name, metric, direction, columns, task
    cat > "$work/$1.toml" <<TOML
[study]
name = "$1"
metric = "$2"
direction = "$3"
[budget]
trials = 1
[data]
train = "$1-train.jsonl"
validation = "$1-valid.jsonl"
max_length = 64
$4
[trainer]
task = "$5"
model = "$MODEL"
num_train_epochs = 2
per_device_train_batch_size = 32
per_device_eval_batch_size = 64
weight_decay = 0.01
[space]
learning_rate = { float = [1e-5, 1e-3], log = true }
[[enqueue]]
learning_rate = 1e-4
TOML
}
study tags eval_f1 maximize $'text = "tokens"\nlabel = "ner_tags"' token-classification
study pairs eval_accuracy maximize $'text = "description"\ntext_pair = "command"' text-classification
study similar eval_accuracy maximize $'text = "description"\ntext_pair = "command"' sentence-similarity
study answers eval_exact_match maximize $'doc_stride = 32\nmax_answer_length = 40' question-answering
sed -i 's/^max_length = 64/max_length = 128/; s/^num_train_epochs.*/num_train_epochs = 3/; s/= 1e-4$/= 3e-4/' "$work/answers.toml"
study written eval_bleu maximize $'text = "description"\ntarget = "command"' translation
study summaries eval_rougeL maximize $'text = "document"\ntarget = "summary"\nmax_target_length = 64' summarization
sed -i 's/^max_length = 64/max_length = 128/' "$work/summaries.toml"
# What a peer says on standard error (progress, warnings) is shown where it fails only.
peer() {
    "$python" "$here/tasks_trainer.py" "$@" 2> "$work/peer.log" | tail -1 || { cat "$work/peer.log" >&2; return 1; }
}
for task in written summaries; do
    peer begin "$task" "$work" "$work/$task-begun"
    sed -i "s|^model = .*|model = \"$work/$task-begun\"|; s/^num_train_epochs.*/num_train_epochs = 6\nwarmup_steps = 200/" "$work/$task.toml"
    sed -i 's/= 1e-4$/= 2e-3/; s/1e-3\], log/1e-2], log/' "$work/$task.toml"
done
study texts eval_loss minimize '' masked-language-modeling

for task in ${TASKS:-tags pairs similar texts answers written summaries}; do
    begin=$SECONDS
    "$hpsearch" train "$work/$task.toml" --set "study.seed=$SEED" -o "$work/$task-model" > "$work/$task.log" 2>&1 || { cat "$work/$task.log"; exit 1; }
    ours=$((SECONDS - begin))
    metrics=$("$python" -c 'import json, sys; print(json.dumps({k: v for k, v in json.load(open(sys.argv[1]))["metrics"].items() if k.startswith("eval_")}))' \
        "$work/$task-model/metrics.json")
    echo "$task, hpsearch, $ours s: $metrics"
    exported=$(peer evaluate "$task" "$work" "$work/$task-model")
    echo "$task, its export in transformers: $exported"
    begin=$SECONDS
    model=$MODEL
    if [[ -d $work/$task-begun ]]; then model=$work/$task-begun; fi
    if [ "$task" = similar ]; then
        before=$(peer evaluate "$task" "$work" "$MODEL")
        echo "$task, before training: $before"
    else
        theirs=$(peer train "$task" "$work" "$model")
        echo "$task, transformers' Trainer, $((SECONDS - begin)) s: $theirs"
    fi
done
