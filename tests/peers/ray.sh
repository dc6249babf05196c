#!/usr/bin/env bash
# A study over a real local Ray cluster: each agent is a Ray task, one of which is killed.
#
#     pip install ray
#     tests/peers/ray.sh target/debug/hpsearch [PYTHON]
set -euo pipefail
program=$(realpath "$1")
python=${2:-python3}
T=$(mktemp -d /tmp/hpsearch-ray.XXXXXX)
trap 'pkill -f "$T" > /dev/null 2>&1 || true; rm -rf "$T"' EXIT
cd "$T"
cat > study.toml << END
[study]
name = "s"
metric = "loss"
direction = "minimize"
step = "step"
[space]
x = { float = [0.0, 1.0] }
[command]
run = ["sh", "-c", "for step in 1 2 3 4 5 6 7 8; do echo \"@hpsearch {\\\\\"step\\\\\": \$step, \\\\\"loss\\\\\": {x}}\"; sleep 0.3; done"]
[budget]
trials = 16
[track]
system = "off"
[devices]
use = ["cpu"]
trials_per_device = 1
[cluster]
listen = "127.0.0.1:0"
lost_after = "5s"
END
cat > agents.py << END
import subprocess, sys, time
import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)

# An agent is a task: Ray places it, and starts it again if its worker dies.
@ray.remote(num_cpus=1, max_retries=-1)
def agent(program, file):
    return subprocess.run([program, "agent", file, "--devices", "cpu"]).returncode

tasks = [agent.remote(sys.argv[1], sys.argv[2]) for _ in range(4)]
print("returned", ray.get(tasks))
END
"$program" run study.toml --plain > run.log 2>&1 &
runner=$!
until [ -e runs/files/s/agents.json ]; do sleep 0.1; done
"$python" agents.py "$program" "$PWD/runs/files/s/agents.json" &
ray=$!
until [ "$(grep -c 'connected, with' run.log)" -ge 4 ]; do sleep 0.2; done
echo "--- a worker of Ray is killed with its agent"
victim=$(pgrep -f "agent $PWD/runs/files/s/agents.json" | head -1)
kill -9 "$(ps -o ppid= "$victim")" "$victim"
wait $runner
wait $ray
cat run.log
"$program" trials s --json > trials.json
"$python" - << 'END'
import json
trials = json.load(open("trials.json"))["trials"]
assert len(trials) == 16 and all(trial["state"] == "complete" for trial in trials), trials
again = sum(trial["attempts"] > 1 for trial in trials)
print(f"16 trials complete over 4 Ray tasks; {again} of them in a second attempt")
END
