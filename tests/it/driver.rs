//! NVIDIA GPUs as a driver tells of them: a mock driver library (`driver/nvml.c`) that hpsearch
//! loads as it would NVIDIA's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value as Json;

use crate::harness::{Ended, Running, Site, assert_done, study, wait_until};

/// The directory of the library, built once.
fn library() -> &'static str {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap().keep();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/driver/nvml.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let done = Command::new(compiler)
            .args(["-shared", "-fPIC", "-o"])
            .arg(directory.join("libnvidia-ml.so.1"))
            .arg(source)
            .status();
        assert!(done.unwrap().success());
        directory
    });
    built.to_str().unwrap()
}

/// A place with GPUs.
struct DriverSite(Site);

impl DriverSite {
    fn new(study: &str, script: &str, facts: &str) -> Self {
        let site = Self(Site::new(study, script));
        site.0.write("driver", facts);
        site
    }

    fn start(&self, arguments: &[&str], visible: Option<&str>) -> Running {
        let mut command = self.0.command(arguments);
        command.env("LD_LIBRARY_PATH", library()).env("MOCK_DRIVER", self.0.path("driver"));
        command.envs(visible.map(|visible| ("CUDA_VISIBLE_DEVICES", visible)));
        Running::start(command)
    }

    fn run(&self, arguments: &[&str], visible: Option<&str>) -> Ended {
        self.start(arguments, visible).end()
    }

    /// What `devices` lists besides the processor.
    fn gpus(&self, visible: Option<&str>) -> Vec<Json> {
        let listed = self.run(&["devices", "--json"], visible);
        assert_done(&listed);
        let listed: Json = listed.json();
        let is_nvidia = |device: &&Json| {
            device["uuid"].is_string()
                || device["name"].as_str().is_none_or(|name| name.starts_with("cuda"))
        };
        listed["devices"].as_array().unwrap().iter().filter(is_nvidia).cloned().collect()
    }
}

/// A GPU without trouble; `rest` are compute mode, MIG and what it answers.
fn gpu(uuid: &str, gigabytes: u64, rest: &str) -> String {
    format!(
        "gpu {uuid};NVIDIA H200;9;0;{};{};37;41;120000;700000;{rest}\n",
        gigabytes * 1_000_000_000,
        500_000_000
    )
}

const DRIVER: &str = "driver 550.54.15\ncuda 12040\n";

#[test]
fn what_the_driver_tells_is_listed() {
    let facts =
        format!("{DRIVER}{}{}", gpu("GPU-aa11", 150, "0;0;0"), gpu("GPU-bb22", 24, "0;0;0"));
    let gpus = DriverSite::new("", "", &facts).gpus(None);
    let names: Vec<&str> = gpus.iter().map(|gpu| gpu["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cuda:0", "cuda:1"]);
    let first = &gpus[0];
    assert_eq!(
        (first["description"].as_str(), first["uuid"].as_str()),
        (Some("NVIDIA H200"), Some("GPU-aa11"))
    );
    assert_eq!(
        (first["driver"].as_str(), first["compute_capability"].as_str()),
        (Some("550.54.15"), Some("9.0"))
    );
    assert_eq!(
        (first["memory_total_bytes"].as_u64(), first["memory_used_bytes"].as_u64()),
        (Some(150_000_000_000), Some(500_000_000))
    );
    let [busy, watts, limit] =
        ["utilisation", "power_watts", "power_limit_watts"].map(|name| first[name].as_f64());
    assert_eq!(
        (busy, watts, limit, first["temperature_celsius"].as_u64()),
        (Some(0.37), Some(120.0), Some(700.0), Some(41))
    );
}

#[test]
fn cuda_visible_devices_is_respected_by_indices_uuids_and_parts() {
    let split = gpu("GPU-cc33", 80, "0;1;0") + "part 2 MIG-one\npart 2 MIG-two\n";
    let site = DriverSite::new(
        "",
        "",
        &format!(
            "{DRIVER}{}{}{split}",
            gpu("GPU-aa11", 150, "0;0;0"),
            gpu("GPU-bb22", 24, "0;0;0")
        ),
    );
    let seen = |visible: &str| {
        let gpus = site.gpus(Some(visible)).into_iter().filter(|gpu| gpu["name"].is_string());
        gpus.map(|gpu| {
            format!("{} {}", gpu["name"].as_str().unwrap(), gpu["uuid"].as_str().unwrap())
        })
        .collect::<BTreeSet<_>>()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(seen("1,0"), set(&["cuda:0 GPU-bb22", "cuda:1 GPU-aa11"]));
    assert_eq!(seen("GPU-bb"), set(&["cuda:0 GPU-bb22"]));
    assert_eq!(
        seen("MIG-two,MIG-one,0"),
        set(&["cuda:0 MIG-two", "cuda:1 MIG-one", "cuda:2 GPU-aa11"])
    );
    assert_eq!(seen(""), set(&[]));
}

#[test]
fn a_gpu_that_cannot_be_used_says_why() {
    let note = |facts: &str| {
        let gpus = DriverSite::new("", "", facts).gpus(None);
        assert_eq!(gpus.len(), 1, "{facts}");
        assert_eq!(gpus[0]["usable"], false);
        gpus[0]["note"].as_str().unwrap().to_owned()
    };
    let of = |rest: &str| note(&format!("{DRIVER}{}", gpu("GPU-aa11", 150, rest)));
    assert_eq!(of("0;0;15"), "the GPU has fallen off the bus; restart the machine");
    assert_eq!(of("0;0;16"), "the GPU must be reset before it can be used again");
    assert_eq!(of("0;0;4"), "this user lacks permission to query it");
    assert!(of("2;0;0").contains("`prohibited`"));
    assert!(of("0;1;0").contains("MIG is on and it has no parts"));
    assert!(
        note(&format!("driver 470.1\ncuda 11040\n{}", gpu("GPU-aa11", 150, "0;0;0")))
            .contains("serves CUDA 11.4 and older, and 12.0 is needed")
    );
    let without = |facts: &str| DriverSite::new("", "", facts).run(&["devices"], None);
    for (facts, words) in [
        ("init 9\n", "kernel module is not loaded"),
        ("init 18\n", "of different versions; restart the machine"),
        (DRIVER, "finds no GPU"),
    ] {
        let ended = without(facts);
        assert_done(&ended);
        assert!(
            format!("{}{}", ended.out, ended.err).contains(words),
            "{}{}",
            ended.out,
            ended.err
        );
    }
}

/// Takes seven gigabytes of its GPU until it ends, however that comes about.
const TAKES_MEMORY: &str = "echo 7000000000 > $MOCK_DRIVER.$CUDA_VISIBLE_DEVICES.$$\n\
     for step in 1 2 3 4 5 6 7 8; do sleep 0.25; echo \"@hpsearch \
     {\\\"step\\\":$step,\\\"loss\\\":$1}\"; done\n\
     echo \"$CUDA_VISIBLE_DEVICES\" >> seen\n";

#[test]
fn trials_share_a_gpu_by_the_memory_that_its_driver_tells_and_leave_it_free() {
    let facts = format!("{DRIVER}{}", gpu("GPU-aa11", 24, "0;0;0"));
    let devices =
        "[devices]\nuse = [\"cuda:0\"]\ntrials_per_device = \"auto\"\n[pruner]\ntype = \"none\"\n";
    let site = DriverSite::new(&study("trials = 12", devices), TAKES_MEMORY, &facts);
    let ended = site.run(&["run", "study.toml", "--plain"], None);
    assert_done(&ended);
    let events = site.run(&["events", "s", "--json"], None);
    let (mut running, mut most, mut packed) = (BTreeSet::new(), 0, Vec::new());
    for line in events.json_lines() {
        let event = &line["event"];
        match event["type"].as_str() {
            Some("attempt_started") => drop(running.insert(event["trial"].as_u64())),
            Some("attempt_ended") => drop(running.remove(&event["trial"].as_u64())),
            Some("packed") => packed.push(event["reason"].as_str().unwrap().to_owned()),
            _ => {}
        }
        most = most.max(running.len());
    }
    // Half a gigabyte is in use; of the rest three times seven fit, and no fourth.
    assert!((2..=3).contains(&most), "{most} at a time\n{}", ended.out);
    assert!(packed.iter().any(|reason| reason.contains("memory has room")), "{packed:?}");
    assert!(site.0.states().iter().all(|state| state == "complete"));
    assert_eq!(site.gpus(None)[0]["memory_used_bytes"].as_u64(), Some(500_000_000));
}

#[test]
fn a_gpu_that_is_lost_while_trials_run_stops_no_runner() {
    let healthy =
        format!("{DRIVER}{}{}", gpu("GPU-aa11", 24, "0;0;0"), gpu("GPU-bb22", 24, "0;0;0"));
    let devices = "[devices]\nuse = [\"cuda:*\"]\n[pruner]\ntype = \"none\"\n";
    let site = DriverSite::new(&study("trials = 6", devices), TAKES_MEMORY, &healthy);
    let running = site.start(&["run", "study.toml", "--plain"], None);
    wait_until("the first trials end", || !site.0.lines("seen").is_empty());
    // It is read all the time.
    site.0.write(
        "driver.next",
        format!("{DRIVER}{}{}", gpu("GPU-aa11", 24, "0;0;15"), gpu("GPU-bb22", 24, "0;0;0")),
    );
    std::fs::rename(site.0.path("driver.next"), site.0.path("driver")).unwrap();
    let ended = running.end();
    assert_done(&ended);
    assert!(site.0.states().iter().all(|state| state == "complete"));
    // Each trial saw one GPU, and both were used.
    let seen =
        site.0.lines("seen").into_iter().fold(BTreeMap::<String, usize>::new(), |mut seen, gpu| {
            *seen.entry(gpu).or_default() += 1;
            seen
        });
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(seen.values().sum::<usize>(), 6);
    assert!(site.gpus(None)[0]["note"].as_str().unwrap().contains("fallen off the bus"));
}

#[test]
fn who_shares_a_gpu_with_others_is_told() {
    let devices =
        "[devices]\nuse = [\"cuda:0\"]\ntrials_per_device = 2\n[pruner]\ntype = \"none\"\n";
    let facts = format!("{DRIVER}{}", gpu("GPU-aa11", 24, "3;0;0"));
    let site = DriverSite::new(&study("trials = 2", devices), TAKES_MEMORY, &facts);
    // Somebody else, who lives as long as this test.
    site.0.write(&format!("driver.0.{}", std::process::id()), "3000000000");
    let ended = site.run(&["run", "study.toml", "--plain"], None);
    assert_done(&ended);
    let said = format!("{}{}", ended.out, ended.err);
    assert!(
        said.contains(
            "cuda:0 takes one process at a time (its compute mode is `exclusive`), \
        and 2 trials will share it"
        ),
        "{said}"
    );
    assert!(said.contains("cuda:0 is already in use, by process"), "{said}");
    let absent = DriverSite::new(
        &study("trials = 2", &devices.replace("cuda:0", "cuda:4")),
        TAKES_MEMORY,
        &facts,
    );
    let ended = absent.run(&["run", "study.toml", "--plain"], None);
    assert!(
        ended.code != 0
            && ended.err.contains("`cuda:4` is not on this machine: the only GPU is cuda:0"),
        "{}",
        ended.err
    );
}
