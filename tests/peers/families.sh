#!/usr/bin/env bash
# A tiny model of every family that the trainer knows, trained and exported by hpsearch, loaded by transformers: both must say the same
# (exported_check.py). Needs python3 and the package index; run by hand:
#   tests/peers/families.sh
# HPSEARCH=path/to/hpsearch (default: target/release/hpsearch), PEER_VENV=DIR keeps the virtual environment there, FAMILIES="phi t5" says which.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
python=$venv/bin/python
"$python" -c 'import torch, transformers' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check torch transformers
export HPSEARCH_STORE=$work/store.db
cd "$work"
"$python" - <<'PY'
import json
names, verbs, places = ["Ada", "Grace", "Alan", "Kurt"], ["went", "flew", "wrote"], ["Oslo", "Rome", "Paris", "Bern", "Lima"]
with open("rows.jsonl", "w") as rows, open("texts.txt", "w") as texts:
    for n in range(240):
        name, verb, place = names[n % 4], verbs[n // 4 % 3], places[n // 12 % 5]
        text = f"today {name} {verb} to {place}"
        rows.write(json.dumps({"text": text, "label": verb, "target": f"{verb}({name}, {place})"}) + "\n")
        texts.write(text + "\n")
PY

study() { # task, family, metric, direction, file, columns
    cat > study.toml <<TOML
[study]
name = "$1-$2"
metric = "$3"
direction = "$4"
[budget]
trials = 1
[data]
train = "$5"
$6
max_length = 24
validation_split = 0.2
[trainer]
task = "$1"
"model.model_type" = "$2"
"model.hidden_size" = 32
num_train_epochs = 4
[space]
learning_rate = { float = [1e-3, 1e-2], log = true }
[[enqueue]]
learning_rate = 5e-3
TOML
}

failed=
check() { # task, family, texts
    rm -rf model
    "$hpsearch" train study.toml -o model > log 2>&1 || { cat log; failed="$failed $2"; return; }
    if "$python" "$here/exported_check.py" "$hpsearch" model "${@:3}" > said 2> errors; then
        printf '%-22s %-18s the same\n' "$2" "$1"
    else
        printf '%-22s %-18s NOT the same\n' "$2" "$1"
        cat said; tail -5 errors
        failed="$failed $2"
    fi
}

all="hpsearch-encoder modernbert bert roberta xlm-roberta distilbert electra albert deberta-v2
gpt2 llama qwen2 mistral qwen3 gemma phi phi3 t5 mt5 bart marian"
for family in ${FAMILIES:-$all}; do
    case $family in
        gpt2 | llama | qwen2 | mistral | qwen3 | gemma | phi | phi3)
            study language-modeling "$family" eval_loss minimize texts.txt ''
            # What is written must fit.
            sed -i 's/^max_length = 24/max_length = 96/' study.toml
            check language-modeling "$family" "today Ada" "today Kurt flew" ;;
        t5 | mt5 | bart | marian)
            study translation "$family" eval_loss minimize rows.jsonl 'target = "target"'
            check translation "$family" "today Ada went to Oslo" "today Kurt wrote to Bern" ;;
        *)
            study text-classification "$family" eval_accuracy maximize rows.jsonl 'label = "label"'
            check text-classification "$family" "today Ada went to Oslo" "Kurt wrote"
            study masked-language-modeling "$family" eval_loss minimize rows.jsonl 'text = "text"'
            check masked-language-modeling "$family" "today Ada [MASK] to Oslo" "[MASK] Kurt wrote" ;;
    esac
done
[[ -z $failed ]] || { echo "not the same:$failed" >&2; exit 1; }
