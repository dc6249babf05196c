#!/usr/bin/env bash
# A study over a real Slurm of 4 nodes on this machine: jobs are submitted, preempted and requeued, told of their walltime; the
# controller and the runner are killed and started again.
#
#     apt-get install -y slurm-wlm munge
#     STUDIES=studies tests/peers/slurm.sh target/release/hpsearch
#
# Without STUDIES (and a program without the trainer), the quickstart is left out.
set -euo pipefail
program=$(realpath "$1")
[ -z "${STUDIES:-}" ] || STUDIES=$(realpath "$STUDIES")
T=$(mktemp -d /tmp/hpsearch-slurm.XXXXXX)
export SLURM_CONF=$T/slurm.conf
HOST=$(hostname)
runner=
clean() {
    scancel --me > /dev/null 2>&1 || true
    sleep 1
    # The daemons of this script by their own files, and the runner, if it is left.
    for pid in $(cat "$T"/run/*.pid "$T/munge/munged.pid" 2> /dev/null) $runner; do
        kill "$pid" > /dev/null 2>&1 || true
    done
    [ -n "${KEEP:-}" ] || rm -rf "$T" 2> /dev/null || { sleep 2; rm -rf "$T"; }
}
trap clean EXIT

mkdir -p "$T"/{munge,state,run,log,spool/n1,spool/n2,spool/n3,spool/n4,study}
chmod 700 "$T/munge"
chown -R munge "$T/munge" 2> /dev/null || true
dd if=/dev/urandom bs=1 count=1024 of="$T/munge/munge.key" 2> /dev/null
chmod 600 "$T/munge/munge.key"
chown -R "$(id -u)" "$T/munge"
chmod 755 "$T"
munged --key-file="$T/munge/munge.key" --socket="$T/munge/munge.socket" --pid-file="$T/munge/munged.pid" \
    --log-file="$T/munge/munged.log" --seed-file="$T/munge/munged.seed" --force
cat > "$SLURM_CONF" << END
ClusterName=test
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$T/munge/munge.socket
CredType=cred/munge
StateSaveLocation=$T/state
SlurmdSpoolDir=$T/spool/%n
SlurmctldPidFile=$T/run/slurmctld.pid
SlurmdPidFile=$T/run/slurmd-%n.pid
SlurmctldLogFile=$T/log/slurmctld.log
SlurmdLogFile=$T/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
InactiveLimit=0
KillWait=5
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-4] NodeHostname=$HOST NodeAddr=127.0.0.1 Port=[17001-17004] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=low Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=8 PreemptMode=REQUEUE
PartitionName=high Nodes=n[1-4] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
END
slurmctld -f "$SLURM_CONF"
for node in n1 n2 n3 n4; do slurmd -N $node -f "$SLURM_CONF"; done
for _ in $(seq 60); do [ "$(sinfo -h -o %D -t idle | paste -sd+ | bc 2> /dev/null || echo 0)" = 8 ] && break; sleep 1; done
sinfo

cd "$T/study"
# Checkpoints are exact: a trial that is moved goes on with the value that it had.
cat > trial.sh << 'END'
step=0; sum=0
if [ -n "$HPSEARCH_RESUME" ]; then . "$HPSEARCH_RESUME"; fi
save() { printf 'step=%s\nsum=%s\n' $step $sum > "$HPSEARCH_CHECKPOINT_DIR/state.new"; mv "$HPSEARCH_CHECKPOINT_DIR/state.new" "$HPSEARCH_CHECKPOINT_DIR/state-$step"; echo "@hpsearch {\"checkpoint\": \"$HPSEARCH_CHECKPOINT_DIR/state-$step\", \"step\": $step}"; }
trap 'save; exit 0' TERM
while [ $step -lt ${1:-60} ]; do
    step=$((step + 1)); sum=$((sum * 31 % 10007 + step))
    echo "@hpsearch {\"step\": $step, \"loss\": $sum}"
    [ $((step % 10)) != 0 ] || save
    sleep 0.2
done
END
cat > study.toml << END
[study]
name = "s"
metric = "loss"
direction = "minimize"
step = "step"
value = "last"
[space]
x = [1, 2, 3, 4, 5, 6, 7, 8]
[sampler]
type = "grid"
[command]
run = ["sh", "trial.sh"]
[devices]
use = ["cpu"]
trials_per_device = 1
[track]
system = "off"
[cluster]
type = "slurm"
partition = "low"
time = "10:00"
cpus = 4
max_jobs = 4
lost_after = "1m"
END
"$program" run study.toml --dry-run
"$program" run study.toml --plain > run.log 2>&1 &
runner=$!
sleep 12
echo "--- preemption: a job of another partition takes two nodes"
sbatch --partition=high --nodes=2 --ntasks-per-node=4 --time=5 --output=/dev/null --wrap="srun sleep 12" > /dev/null
sleep 6
echo "--- the controller is killed and started again"
kill -9 "$(cat "$T/run/slurmctld.pid")"
sleep 3
slurmctld -f "$SLURM_CONF"
sleep 3
echo "--- the runner is killed and run again"
kill -9 $runner
sleep 2
"$program" run study.toml --plain >> run.log 2>&1 &
runner=$!
wait $runner
runner=
cat run.log
squeue
# What every trial must end with.
expected=$(step=0 sum=0; while [ $step -lt 60 ]; do step=$((step + 1)); sum=$((sum * 31 % 10007 + step)); done; echo $sum)
"$program" trials s --json > trials.json
"$program" events s --json > events.json
python3 - "$expected" << 'END'
import collections, json, sys
trials = json.load(open("trials.json"))["trials"]
values = {trial["value"] for trial in trials}
assert len(trials) == 8 and values == {float(sys.argv[1])}, (len(trials), values)
events = [json.loads(line)["event"] for line in open("events.json")]
open_attempts, moved = {}, 0
for event in events:
    if event["type"] == "attempt_started":
        assert event["trial"] not in open_attempts, "a trial runs twice"
        open_attempts[event["trial"]] = event["attempt"]
        moved += event["attempt"] > 0
    elif event["type"] == "attempt_ended":
        open_attempts.pop(event["trial"], None)
seen = collections.Counter((e["trial"], e["step"], e["attempt"]) for e in events if e["type"] == "reported")
assert all(count == 1 for count in seen.values()), "a report is doubled"
steps = collections.defaultdict(set)
for trial, step, _ in seen:
    steps[trial].add(step)
assert all(found == set(range(1, 61)) for found in steps.values()), "a report is lost"
print(f"8 trials, each with the value {sys.argv[1]} and 60 steps, none lost or doubled; {moved} attempts went on elsewhere")
END

echo "--- walltime: jobs of three minutes hand their trials over before they end"
cat > drain.toml << END
[study]
name = "drain"
metric = "loss"
direction = "minimize"
step = "step"
value = "last"
[space]
x = [1, 2]
[sampler]
type = "grid"
[command]
run = ["sh", "trial.sh", "600"]
[devices]
use = ["cpu"]
trials_per_device = 1
[track]
system = "off"
[cluster]
type = "slurm"
partition = "low"
time = "3:00"
cpus = 4
max_jobs = 2
lost_after = "1m"
END
"$program" run drain.toml --plain > drain.log 2>&1 || { cat drain.log; exit 1; }
cat drain.log
grep -q "disconnected: its machine asks it to leave" drain.log
"$program" events drain --json > events.json
python3 - << 'END'
import collections, json
events = [json.loads(line)["event"] for line in open("events.json")]
seen = collections.Counter((e["trial"], e["step"]) for e in events if e["type"] == "reported")
ends = [event["end"] for event in events if event["type"] == "attempt_ended"]
assert set(seen) == {(trial, step) for trial in (0, 1) for step in range(1, 601)}
assert all(count == 1 for count in seen.values()), "a step was trained twice"
assert not any(str(end).startswith("lost") for end in ends), ends
print(f"2 trials of 600 steps in {len(ends)} attempts, no step trained twice: {ends}")
END

if [ -n "${STUDIES:-}" ]; then
    echo "--- the quickstart over 8 agents"
    cp -r "$STUDIES" studies
    cat >> studies/quickstart.toml << END
[devices]
use = ["cpu"]
trials_per_device = 1
[cluster]
type = "slurm"
partition = "low"
time = "10:00"
cpus = 2
max_jobs = 8
END
    "$program" run studies/quickstart.toml --plain > quickstart.log 2>&1 || { cat quickstart.log; exit 1; }
    cat quickstart.log
    echo "$(grep -c 'connected, with' quickstart.log) agents"
    "$program" export quickstart -o model
    "$program" predict model "The street light in front of my house is broken"

    echo "--- a trial of the built-in trainer is preempted, and ends with the values of one that was not"
    cat > studies/preempted.toml << END
[study]
name = "preempted"
metric = "eval_loss"
direction = "minimize"
[budget]
trials = 1
[data]
train = "data/train.csv"
validation = "data/validation.csv"
[trainer]
task = "text-classification"
num_train_epochs = 60
eval_strategy = "epoch"
lr_scheduler_type = "linear"
learning_rate = 1e-3
per_device_train_batch_size = 16
"model.hidden_size" = 64
"model.num_layers" = 2
"model.dropout" = 0.2
[space]
weight_decay = { float = [0.001, 0.01] }
[track]
system = "off"
[devices]
use = ["cpu"]
trials_per_device = 1
END
    sed 's/^name = .*/name = "undisturbed"/' studies/preempted.toml > studies/undisturbed.toml
    cat >> studies/preempted.toml << END
[cluster]
type = "slurm"
partition = "low"
time = "10:00"
cpus = 4
max_jobs = 1
END
    "$program" run studies/preempted.toml --plain > preempted.log 2>&1 &
    runner=$!
    reports() { "$program" events preempted --json 2> /dev/null | grep -c '"type":"reported"' || true; }
    for _ in $(seq 600); do [ "$(reports)" -ge 5 ] && break; sleep 0.5; done
    echo "after $(reports) epochs all nodes are taken"
    sbatch --partition=high --nodes=4 --ntasks-per-node=4 --time=5 --output=/dev/null --wrap="srun sleep 10" > /dev/null
    wait $runner || { cat preempted.log; exit 1; }
    runner=
    cat preempted.log
    "$program" run studies/undisturbed.toml --plain > undisturbed.log 2>&1 || { cat undisturbed.log; exit 1; }
    for study in preempted undisturbed; do "$program" events $study --json > $study.json; done
    python3 - << 'END'
import json
def read(study):
    events = [json.loads(line)["event"] for line in open(f"{study}.json")]
    reports = {}
    for event in events:
        if event["type"] == "reported":
            reports[event["step"]] = event["metrics"]
    attempts = [event["attempt"] for event in events if event["type"] == "attempt_started"]
    return reports, len(attempts)
one, attempts = read("preempted")
other, undisturbed = read("undisturbed")
# JSON has the shortest text that reads back as the same number: equal texts are equal bits.
# Time and memory are measured, not computed.
measured = ("predict_ms", "peak_memory", "steps_per_second", "samples_per_second", "tokens_per_second", "runtime")
exact = lambda reports: {step: {name: value for name, value in metrics.items() if name not in measured} for step, metrics in reports.items()}
one, other = exact(one), exact(other)
assert undisturbed == 1 and attempts > 1, (attempts, undisturbed)
assert list(sorted(one)) == list(range(1, 61)), sorted(one)
different = [step for step in one if json.dumps(one[step], sort_keys=True) != json.dumps(other[step], sort_keys=True)]
assert not different, [(step, one[step], other[step]) for step in different[:3]]
print(f"60 epochs in {attempts} attempts, all metrics of each as in one attempt, bit for bit; the last: {one[60]}")
END
fi
