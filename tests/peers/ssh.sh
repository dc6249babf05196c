#!/usr/bin/env bash
# A study over two hosts by a real sshd, each in a network namespace of its own: nothing is installed there, the link to one is cut
# and comes back, and the runner is killed and run again.
#
#     apt-get install -y openssh-server openssh-client iproute2
#     tests/peers/ssh.sh target/debug/hpsearch        (as root: it makes network namespaces)
set -euo pipefail
program=$(realpath "$1")
T=$(mktemp -d /tmp/hpsearch-ssh.XXXXXX)
runner=
clean() {
    for pid in $(cat "$T"/h?.pid 2> /dev/null) $runner; do kill "$pid" > /dev/null 2>&1 || true; done
    for host in h1 h2; do ip netns delete "hps-$host" 2> /dev/null || true; done
    [ -n "${KEEP:-}" ] || rm -rf "$T"
}
trap clean EXIT
mkdir -p "$T/study" /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$T/key"
ssh-keygen -q -t ed25519 -N '' -f "$T/host_key"
cp "$T/key.pub" "$T/authorized"
chmod 600 "$T/authorized"
number=0
for host in h1 h2; do
    number=$((number + 1))
    ip netns add "hps-$host"
    ip link add "v$host" type veth peer name "w$host"
    ip link set "w$host" netns "hps-$host"
    ip addr add "10.77.$number.1/24" dev "v$host"
    ip link set "v$host" up
    ip netns exec "hps-$host" ip addr add "10.77.$number.2/24" dev "w$host"
    ip netns exec "hps-$host" ip link set "w$host" up
    ip netns exec "hps-$host" ip link set lo up
    mkdir "$T/cache-$host"
    ip netns exec "hps-$host" /usr/sbin/sshd -f /dev/null -p 22 -h "$T/host_key" -o "AuthorizedKeysFile=$T/authorized" \
        -o StrictModes=no -o UsePAM=no -o "PidFile=$T/$host.pid" -o "SetEnv=XDG_CACHE_HOME=$T/cache-$host"
done
cat > "$T/config" << END
Host h1
    HostName 10.77.1.2
Host h2
    HostName 10.77.2.2
Host *
    IdentityFile $T/key
    UserKnownHostsFile $T/known
    StrictHostKeyChecking accept-new
END
mkdir "$T/bin"
printf '#!/bin/sh\nexec /usr/bin/ssh -F %s "$@"\n' "$T/config" > "$T/bin/ssh"
chmod +x "$T/bin/ssh"
export PATH="$T/bin:$PATH"
cd "$T/study"
cat > trial.sh << 'END'
step=0
while [ $step -lt 40 ]; do
    step=$((step + 1))
    echo "@hpsearch {\"step\": $step, \"loss\": $1}"
    sleep 0.2
done
END
cat > study.toml << END
[study]
name = "s"
metric = "loss"
direction = "minimize"
step = "step"
[space]
x = { float = [0.0, 1.0] }
[budget]
trials = 12
[command]
run = ["sh", "trial.sh", "{x}"]
[track]
system = "off"
[devices]
trials_per_device = 2
[cluster]
type = "ssh"
lost_after = "30s"
[[cluster.host]]
name = "h1"
[[cluster.host]]
name = "h2"
devices = ["cpu"]
END
"$program" run study.toml --dry-run
export HPSEARCH_GRACE=3
"$program" run study.toml --plain > run.log 2>&1 &
runner=$!
sleep 15
echo "--- the cable of h1 is pulled for 4 seconds, and the connections of h2 are ended"
ip link set vh1 down; kill $(pgrep -P $runner -f -- "ssh.*-- h2 ") || true; sleep 4; ip link set vh1 up
sleep 3
echo "--- the runner is killed and run again"
kill -9 $runner
sleep 1
"$program" run study.toml --plain >> run.log 2>&1
cat run.log
ls "$T"/cache-*/hpsearch/agents
"$program" trials s --json > trials.json
"$program" events s --json > events.json
python3 - << 'END'
import collections, json
trials = json.load(open("trials.json"))["trials"]
assert len(trials) >= 12 and all(trial["state"] == "complete" for trial in trials)
events = [json.loads(line)["event"] for line in open("events.json")]
steps, open_attempts, devices = collections.defaultdict(set), set(), set()
for event in events:
    if event["type"] == "attempt_started":
        assert event["trial"] not in open_attempts, "a trial runs twice"
        open_attempts.add(event["trial"])
        devices.add(event["slot"]["device"])
        assert event["attempt"] == 0, "a trial was begun again"
    elif event["type"] == "attempt_ended":
        open_attempts.discard(event["trial"])
    elif event["type"] == "reported":
        steps[event["trial"]].add(event["step"])
assert all(found == set(range(1, 41)) for found in steps.values()), "a report is lost"
print(f"{len(trials)} trials with 40 steps each, none lost, all in their first attempts, on {', '.join(sorted(devices))}")
END
