//! Trials on groups of devices: what their processes find in their environment, how they end
//! together, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use hpsearch::runner::processes;
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::harness::{
    REPORT_X, Site, assert_code, assert_done, assert_names, assert_refused, study, wait_until,
};

/// The tables of a study on these devices.
fn on(devices: &str) -> String {
    format!("[devices]\n{devices}\n[pruner]\ntype = \"none\"\n")
}

/// Four devices, and a trial for each pair of them.
const PAIRS: &str = "use = [\"sim:0..3\"]\nper_trial = 2\n";

/// A process on each of three devices, all of one trial.
const THREE_RANKS: &str = "use = [\"sim:0..2\"]\nper_trial = \"auto\"\nper_device = true\n";

/// The variables that a script wrote with `env`.
fn environment(site: &Site, name: &str) -> BTreeMap<String, String> {
    let lines = site.lines(name).into_iter();
    lines.filter_map(|line| line.split_once('=').map(|(k, v)| (k.into(), v.into()))).collect()
}

/// Each rank writes its process id into a file, once the directory of files has all of them.
const TELL_PID: &str = "echo $$ > pid.part.$RANK; mv pid.part.$RANK pid.$RANK\n\
    while [ ! -e pid.0 ] || [ ! -e pid.1 ] || [ ! -e pid.2 ]; do sleep 0.02; done\n";

fn pid(site: &Site, rank: usize) -> u32 {
    site.wait_for(&format!("pid.{rank}"));
    site.read(&format!("pid.{rank}")).trim().parse().unwrap()
}

#[test]
fn two_groups_at_a_time_have_their_own_devices_and_ports() {
    let script = format!(
        "env > env.part.$HPSEARCH_TRIAL; mv env.part.$HPSEARCH_TRIAL env.$HPSEARCH_TRIAL\n\
         while [ ! -e env.0 ] || [ ! -e env.1 ]; do sleep 0.02; done\n{REPORT_X}"
    );
    let text = study("trials = 2", &on(PAIRS))
        .replace("\"{x}\"", "\"{x}\", \"{world_size}:{master_port}\"");
    let site = Site::new(&text, &format!("echo $2 > words.$HPSEARCH_TRIAL\n{script}"));
    // A launcher has no rank, whatever this test runs under.
    let inherited = [("RANK", "5"), ("LOCAL_RANK", "5"), ("WORLD_SIZE", "7")];
    assert_done(&site.start_study_with(&inherited).end());
    let groups = ["env.0", "env.1"].map(|name| environment(&site, name));
    for (group, devices) in groups.iter().zip(["sim:0+sim:1", "sim:2+sim:3"]) {
        assert_eq!(group["HPSEARCH_DEVICE"], devices);
        for size in ["WORLD_SIZE", "LOCAL_WORLD_SIZE", "PET_NPROC_PER_NODE"] {
            assert_eq!(group[size], "2", "{size}");
        }
        assert_eq!(group["MASTER_ADDR"], "127.0.0.1");
        assert!(group["MASTER_PORT"].parse::<u16>().is_ok_and(|port| port >= 1024));
        assert_eq!(group["PET_MASTER_PORT"], group["MASTER_PORT"]);
        assert!(!group.contains_key("RANK") && !group.contains_key("LOCAL_RANK"));
    }
    assert_ne!(groups[0]["MASTER_PORT"], groups[1]["MASTER_PORT"]);
    for (trial, group) in groups.iter().enumerate() {
        let words = format!("2:{}", group["MASTER_PORT"]);
        assert_eq!(site.read(&format!("words.{trial}")).trim(), words);
    }
    let devices: Vec<Json> = site.trials().iter().map(|trial| trial["device"].clone()).collect();
    assert_eq!(devices, [json!("sim:0+sim:1"), json!("sim:2+sim:3")]);
    assert_names(&site.run(&["show", "s"]).out, &["2 for each trial"]);
    let found = site.json(&["trials", "s", "--where", "device == 'sim:3'", "--json"]);
    assert_eq!(found["trials"].as_array().unwrap().len(), 1, "a group is found by its members");
}

#[test]
fn without_per_trial_nothing_of_a_group_is_set() {
    let site = Site::new(
        &study("trials = 1", &on("use = [\"sim:0\"]")),
        &format!("env > seen\n{REPORT_X}"),
    );
    assert_done(&site.run_study());
    let seen = environment(&site, "seen");
    assert!(!seen.contains_key("MASTER_PORT") && !seen.contains_key("PET_NPROC_PER_NODE"));
}

#[test]
fn per_device_starts_a_process_on_each_and_only_rank_0_reports() {
    let script = "env > env.$RANK\necho \"from $RANK\"\necho \"to stderr from $RANK\" >&2\n\
        echo \"loss: 0.$RANK\"\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$RANK}\"\n\
        [ $RANK != 0 ] || { read -r answer; echo \"$answer\" > answer; }\n";
    let text = study("trials = 1", &on(THREE_RANKS)).replace(
        "[budget]",
        "[command.metrics]\npattern = [\"other: (?P<loss>[0-9.]+)\"]\n[budget]",
    );
    let site = Site::new(&text, script);
    assert_done(&site.run_study());
    let trial = site.trials()[0].clone();
    assert_eq!((&trial["value"], &trial["device"]), (&json!(0.0), &json!("sim:0+sim:1+sim:2")));
    for rank in 0..3 {
        let seen = environment(&site, &format!("env.{rank}"));
        let of = |name: &str| seen[name].clone();
        assert_eq!([of("RANK"), of("LOCAL_RANK")], [rank.to_string(), rank.to_string()]);
        assert_eq!([of("WORLD_SIZE"), of("HPSEARCH_DEVICE")], ["3".into(), format!("sim:{rank}")]);
    }
    assert_names(&site.read("answer"), &["\"verdict\":"]);
    let log = site.log(0, 0);
    for line in ["from 0", "[rank 1] from 1", "[rank 2] to stderr from 2", "to stderr from 0"] {
        assert!(log.lines().any(|found| found == line), "{line}: {log}");
    }
    assert!(log.contains("[rank 1] @hpsearch "), "{log}");
}

#[test]
fn patterns_read_the_lines_of_rank_0_only() {
    let script = "echo \"step 1 loss=0.$RANK\"\necho \"step 2 loss=0.$RANK\" >&2\n";
    let text = study("trials = 1", &on(THREE_RANKS)).replace(
        "[budget]",
        "[command.metrics]\npattern = [\"step (?P<step>[0-9]+) loss=(?P<loss>[0-9.]+)\"]\n[budget]",
    );
    let site = Site::new(&text, script);
    assert_done(&site.run_study());
    let trial = site.trials()[0].clone();
    assert_eq!((&trial["value"], &trial["last_step"]), (&json!(0.0), &json!(2)), "{trial}");
}

#[test]
fn the_first_that_fails_ends_all_and_its_cause_is_the_attempts() {
    let script = format!(
        "{TELL_PID}[ $RANK != 1 ] || {{ echo 'ValueError: wrong shape' >&2; exit 3; }}\n\
         sleep 600\n"
    );
    let site = Site::new(&study("trials = 1\nfailures = 1", &on(THREE_RANKS)), &script);
    let began = Instant::now();
    assert_code(&site.run_study(), 4);
    assert!(began.elapsed() < Duration::from_secs(60), "the others are not waited for");
    let trial = site.trials()[0].clone();
    assert_eq!(trial["state"], "failed");
    let reason = trial["reason"].as_str().unwrap();
    assert!(reason.contains("rank 1: exit status 3: ValueError: wrong shape"), "{reason}");
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn the_cause_is_of_the_rank_that_failed_whatever_others_print() {
    let script = format!(
        "{TELL_PID}case $RANK in\n\
         0) echo 'CUDA out of memory' >&2; sleep 600;;\n\
         1) while [ ! -e pid.0 ]; do sleep 0.02; done; sleep 0.3; exit 3;;\n\
         *) sleep 600;;\nesac\n"
    );
    let site = Site::new(&study("trials = 1\nfailures = 1", &on(THREE_RANKS)), &script);
    assert_code(&site.run_study(), 4);
    let ends: Vec<Json> = site.run(&["events", "s", "--json"]).json_lines();
    let end = ends.iter().find(|line| line["event"]["type"] == "attempt_ended").unwrap();
    let text = end.to_string();
    assert!(text.contains("rank 1: exit status 3") && !text.contains("oom"), "{text}");
}

#[test]
fn a_program_that_is_not_there_is_reported_as_for_one_process() {
    let text = study("trials = 1\nfailures = 1", &on(THREE_RANKS)).replace("\"sh\"", "\"no-such\"");
    let site = Site::new(&text, "");
    assert_code(&site.run_study(), 4);
    let reason = site.trials()[0]["reason"].to_string();
    assert!(reason.contains("cannot start `no-such`: there is no such program"), "{reason}");
}

#[test]
fn a_killed_rank_is_retried_whatever_its_launcher_exits_with() {
    let torchrun = "E1126 23 torch/distributed/elastic/multiprocessing/api.py:1002] failed \
        (exitcode: -9) local_rank: 2 (pid: 7) of binary: python3";
    for end in [format!("echo '{torchrun}' >&2; exit 1"), "exit 247".to_owned()] {
        let script = format!("[ $HPSEARCH_ATTEMPT != 0 ] || {{ {end}; }}\n{REPORT_X}");
        let site = Site::new(&study("trials = 1", &on(PAIRS)), &script);
        assert_done(&site.run_study());
        let trial = site.trials()[0].clone();
        assert_eq!((&trial["state"], &trial["attempts"]), (&json!("complete"), &json!(2)), "{end}");
    }
}

#[test]
fn a_stop_reaches_all_ranks() {
    let worsening = format!(
        "[devices]\n{THREE_RANKS}[pruner]\ntype = \"asha\"\nmin_resource = 1\nmax_resource = \
         9\n[[enqueue]]\nx = 0.125\n[[enqueue]]\nx = 0.25\n[[enqueue]]\nx = 0.5\n"
    );
    let script = "if [ $RANK != 0 ]; then trap 'echo term >> ended.$HPSEARCH_TRIAL; exit 0' TERM\n\
        touch armed.$HPSEARCH_TRIAL.$RANK\n\
        while [ ! -e done.$HPSEARCH_TRIAL ]; do sleep 0.02; done; exit 0; fi\n\
        while [ ! -e armed.$HPSEARCH_TRIAL.1 ] || [ ! -e armed.$HPSEARCH_TRIAL.2 ]; do sleep 0.02; \
        done\n\
        trap '' TERM\n\
        for step in 1 2; do echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"; read -r \
        answer || exit 1\n\
        case \"$answer\" in *'\"stop\"'*) exit 0;; esac; done; touch done.$HPSEARCH_TRIAL\n";
    let site = Site::new(&study("trials = 3", &worsening), script);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete", "pruned"]);
    assert_eq!(site.lines("ended.2"), ["term", "term"]);
    assert_eq!(site.processes(), [0; 0]);
}

/// Three ranks count together up to 6: rank 0 saves and reports each step, the others wait for it.
const COUNTS: &str = r#"
step=0; [ -z "$HPSEARCH_RESUME" ] || step=$(cat "$HPSEARCH_RESUME")
[ $RANK != 0 ] || echo "$HPSEARCH_ATTEMPT begins after $step" >> attempts
trap 'exit 0' TERM
while [ $step -lt 6 ]; do
  step=$((step + 1)); sleep 0.1
  if [ $RANK != 0 ]; then
    while [ ! -e "$HPSEARCH_CHECKPOINT_DIR/$step" ]; do sleep 0.02; done
    continue
  fi
  echo "$HPSEARCH_TRIAL $step" >> steps
  echo $step > "$HPSEARCH_CHECKPOINT_DIR/part"; mv "$HPSEARCH_CHECKPOINT_DIR/part" "$HPSEARCH_CHECKPOINT_DIR/$step"
  echo "@hpsearch {\"checkpoint\":\"$HPSEARCH_CHECKPOINT_DIR/$step\",\"step\":$step}"
  echo "@hpsearch {\"step\":$step,\"loss\":$1}"
  read -r answer || exit 8
done
"#;

fn counting() -> Site {
    let rest = format!("{}[checkpoints]\nkeep = \"all\"\n", on(THREE_RANKS));
    Site::new(&study("trials = 1", &rest), &format!("{TELL_PID}{COUNTS}"))
}

/// The study ends with every step, and leaves nothing.
fn assert_counted(site: &Site) {
    assert_eq!(site.states(), ["complete"]);
    let trial = site.trials()[0].clone();
    assert_eq!(trial["last_step"], 6, "{trial}");
    let attempts = site.lines("attempts");
    assert!(attempts.len() == 2 && !attempts[1].ends_with("after 0"), "{attempts:?}");
    wait_until("nothing is left", || site.processes().is_empty());
    site.assert_sound();
    site.assert_folds();
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_rank_that_is_killed_takes_the_others_along_and_the_trial_goes_on() {
    for rank in [0, 2] {
        let site = counting();
        let running = site.start_study();
        site.wait_for_lines("steps", 2);
        let pids = [0, 1, 2].map(|rank| pid(&site, rank));
        fs::remove_file(site.path("pid.0")).unwrap();
        processes::kill(pids[rank]);
        wait_until("all ranks are gone", || !pids.iter().any(|pid| processes::exists(*pid)));
        assert_done(&running.end());
        assert_counted(&site);
        let story = site.run(&["explain", "s", "0"]).out;
        assert!(story.contains(&format!("rank {rank}: killed by signal 9")), "{story}");
    }
}

#[test]
fn no_rank_survives_its_runner_or_its_supervisor() {
    for (kills_runner, kills_supervisor) in [(true, false), (false, true), (true, true)] {
        let site = counting();
        let mut running = site.start_study();
        site.wait_for_lines("steps", 2);
        let pids = [0, 1, 2].map(|rank| pid(&site, rank));
        let supervisor = processes::descendants(running.id())
            .into_iter()
            .find(|parent| processes::children(*parent).contains(&pids[0]))
            .unwrap();
        fs::remove_file(site.path("pid.0")).unwrap();
        if kills_runner {
            running.kill();
        }
        if kills_supervisor {
            processes::kill(supervisor);
        }
        wait_until("all ranks are gone", || !pids.iter().any(|pid| processes::exists(*pid)));
        if kills_runner {
            running = site.start_study();
        }
        assert_done(&running.end());
        assert_counted(&site);
    }
}

#[test]
fn a_signal_lets_all_ranks_save_and_the_next_run_goes_on() {
    let site = counting();
    let running = site.start_study();
    site.wait_for_lines("steps", 2);
    fs::remove_file(site.path("pid.0")).unwrap();
    running.signal(Signal::TERM);
    assert_code(&running.end(), 143);
    assert_eq!(site.processes(), [0; 0]);
    assert_done(&site.run_study());
    assert_counted(&site);
    assert_eq!(site.trials()[0]["attempts"], 2);
}

#[test]
fn memory_is_that_of_all_ranks() {
    // 20 MB each, held for a second or so.
    let script = format!(
        "held=$(head -c 20000000 /dev/zero | tr '\\0' x)\ntouch held.$RANK\n\
         while [ ! -e held.0 ] || [ ! -e held.1 ] || [ ! -e held.2 ]; do sleep 0.02; done\n\
         [ $RANK != 0 ] || {{ {REPORT_X} }}\nsleep 1.5\n"
    );
    let site = Site::new(&study("trials = 1", &on(THREE_RANKS)), &script);
    assert_done(&site.run_study());
    let peak = site.json(&["curves", "s", "0", "--metric", "system/peak_memory", "--json"]);
    let text = peak.to_string();
    let most = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    assert!(most.max() > Some(60_000_000_u64), "{text}");
}

#[test]
fn check_says_which_groups_there_are_and_which_devices_stay_idle() {
    let site = Site::new(
        &study("trials = 1", &on("use = [\"sim:0..4\"]\nper_trial = 2\ntrials_per_device = 2")),
        REPORT_X,
    );
    let checked = site.run(&["check", "study.toml"]);
    assert_done(&checked);
    let slots = "4 slots (sim:0+sim:1, sim:2+sim:3, sim:0+sim:1, sim:2+sim:3)";
    assert_names(&checked.out, &[slots, "sim:4 stays idle: 5 devices make groups of 2"]);
    let site = Site::new(&study("trials = 1", &on("use = [\"cpu\"]\nper_trial = 3")), REPORT_X);
    assert_names(&site.run(&["check", "study.toml"]).out, &["cpu+cpu+cpu"]);
}

#[test]
fn groups_that_cannot_be_are_refused_with_what_to_do() {
    for (devices, words) in [
        ("use = [\"sim:0..2\"]\nper_trial = 4", ["needs 4 devices", "3: sim:0, sim:1, sim:2"]),
        ("use = [\"cpu\", \"sim:0\"]\nper_trial = 2", ["devices of one kind", "cpu, sim:0"]),
        (
            "use = [\"sim:0..2\"]\nper_trial = 2\ntrials_per_device = \"auto\"",
            ["gives each trial a group", "leave one of the two out"],
        ),
        ("use = [\"sim:0\"]\nper_trial = 0", ["per_trial", "from 1 to 1024"]),
        ("use = [\"sim:0\"]\nper_trial = \"all\"", ["per_trial", "\"auto\""]),
    ] {
        let site = Site::new(&study("trials = 1", &on(devices)), REPORT_X);
        assert_refused(&site.run(&["check", "study.toml"]), &words);
    }
    let text = study("trials = 1", &on("use = [\"sim:0\"]")).replace("{x}", "{master_port}");
    assert_refused(
        &Site::new(&text, REPORT_X).run(&["check", "study.toml"]),
        &["`{master_port}` is a value of a group of devices", "per_trial = 2"],
    );
    let text = "[study]\nname = \"s\"\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n\
        [space]\nlearning_rate = { float = [0.0001, 0.1], log = true }\n\
        [trainer]\ntask = \"sequence_classification\"\n[data]\ntrain = \"train.csv\"\n\
        [budget]\ntrials = 1\n[devices]\nuse = [\"cpu\"]\nper_trial = 2\nper_device = true\n";
    let site = Site::new(text, "");
    site.write("train.csv", "text,label\na,0\nb,1\n");
    assert_refused(
        &site.run(&["check", "study.toml"]),
        &["a trial of the built-in trainer trains on one device", "for programs, in [command]"],
    );
}
