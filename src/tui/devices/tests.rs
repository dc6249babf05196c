//! The devices screen as it looks, with a machine made of plain data.

use super::*;
use crate::runner::monitor::{Cpu, Memory, NoGpus};
use crate::tui::tests::{self, COLOURS, PLAIN, Script, at_every_size};
use crate::tui::theme::Theme;

const GIB: u64 = 1 << 30;

fn drawn(data: &DevicesData, size: (u16, u16), theme: Theme) -> String {
    tests::drawn(size, |buffer, area| draw(buffer, area, data, 0, theme))
}

/// `p` pauses or uses a device by what the summary says, so the picture must not know better.
#[test]
fn a_device_is_paused_in_the_picture_as_in_the_summary_that_was_read_before() {
    let mut script = Script::new(&tests::spec());
    let before = script.summary();
    script.append(&[Event::Device(DeviceEvent::Paused { device: Device::Cpu })]);
    let mut monitor = Monitor::new(None);
    let mut is_paused = |summary: &StudySummary| {
        let data =
            DevicesData::load(&script.store, summary, &mut monitor, Timestamp(0), None).unwrap();
        data.devices.iter().any(|load| load.device == Device::Cpu && load.paused)
    };
    assert!(!is_paused(&before));
    assert!(is_paused(&script.summary()));
}

/// A device on which nothing runs.
fn idle(device: Device, busy: Vec<f64>) -> DeviceLoad {
    DeviceLoad { device, occupied: Vec::new(), throughput: None, busy, paused: false, shared: None }
}

/// A machine without a GPU, with this on its CPU.
fn laptop(load: DeviceLoad) -> DevicesData {
    let machine = MachineSample { cpu: cpu(), gpus: Err(NoGpus::NoDriver), trees: BTreeMap::new() };
    DevicesData {
        machine,
        devices: vec![load],
        step_unit: StepUnit::Epoch,
        journal: JournalOfDevices::default(),
        now: Timestamp(0),
    }
}

fn cpu() -> Cpu {
    Cpu {
        name: "AMD EPYC 9654".into(),
        cores: 16,
        utilisation: Some(0.42),
        memory: Memory { used: 31 * GIB, total: 128 * GIB },
    }
}

fn h100(index: u32) -> Gpu {
    Gpu {
        index,
        cuda: Some(index),
        name: "NVIDIA H100 80GB HBM3".into(),
        memory: Some(Memory { used: 31 * GIB, total: 80 * GIB }),
        utilisation: Some(0.97),
        temperature: Some(54),
        power: Some(512.3),
        power_limit: Some(700.0),
        ..Gpu::default()
    }
}

fn busy() -> DevicesData {
    let tree = TreeLoad { cores: Some(1.02), memory: 3 * GIB, processes: 2 };
    let slot = |slot, trial| OccupiedSlot {
        slot,
        trial: TrialNumber(trial),
        step: Some(4),
        running: Duration::from_secs(75),
        tree: Some(tree),
        devices: Device::Cuda(0).into(),
    };
    let hidden =
        Gpu { cuda: None, trouble: Some("hidden by CUDA_VISIBLE_DEVICES".into()), ..h100(1) };
    let samples = (0..30).map(|index| f64::from(index % 7) / 7.0).collect();
    DevicesData {
        machine: MachineSample {
            cpu: cpu(),
            gpus: Ok(vec![h100(0), hidden]),
            trees: BTreeMap::new(),
        },
        devices: vec![
            idle(Device::Cpu, vec![0.4]),
            DeviceLoad {
                occupied: vec![
                    slot(0, 12),
                    OccupiedSlot { step: None, tree: None, ..slot(1, 1_234) },
                ],
                throughput: Some(Throughput { trials_per_hour: 41.27, steps_per_second: 0.0123 }),
                shared: Some(
                    "2 at a time: memory has room: 6.0 GiB of 80.0 GiB with another as \
                    large as the largest so far (3.0 GiB)"
                        .into(),
                ),
                ..idle(Device::Cuda(0), samples)
            },
        ],
        step_unit: StepUnit::Epoch,
        journal: JournalOfDevices::default(),
        now: Timestamp(0),
    }
}

/// A study on two machines, a third of which has left.
fn cluster() -> DevicesData {
    let seen = |name: &str, change, minutes: i64| {
        (name.to_owned(), AgentSeen { change, at: Timestamp(minutes * 60_000_000) })
    };
    let left = |reason: &str| AgentChange::Left { reason: reason.to_owned() };
    let agents = [
        seen("node1", AgentChange::Joined { slots: 2, provenance: None }, 10),
        seen("node2", AgentChange::Joined { slots: 1, provenance: None }, 57),
        seen("node3", left("its machine asks it to leave"), 40),
        seen("slurm", AgentChange::Absent { reason: "3 jobs wait: Resources".to_owned() }, 59),
    ];
    let slot = |device: &str, trial| {
        let device: Device = device.parse().unwrap();
        let slot = OccupiedSlot {
            slot: 0,
            trial: TrialNumber(trial),
            step: Some(3),
            running: Duration::from_secs(75),
            tree: None,
            devices: device.clone().into(),
        };
        DeviceLoad { occupied: vec![slot], ..idle(device, Vec::new()) }
    };
    let mut data = laptop(idle(Device::Cpu, vec![0.42]));
    data.devices.extend([slot("node1/cuda:0", 3), slot("node1/cuda:1", 7)]);
    data.devices.push(idle("node3/cuda:0".parse().unwrap(), Vec::new()));
    data.journal.agents = agents.into();
    data.now = Timestamp(60 * 60_000_000);
    data
}

/// A laptop with a study's only trial on it.
fn one_trial() -> DevicesData {
    let tree = TreeLoad { cores: Some(0.98), memory: GIB / 3, processes: 1 };
    let slot = OccupiedSlot {
        slot: 0,
        trial: TrialNumber(0),
        step: Some(1),
        running: Duration::from_secs(9),
        tree: Some(tree),
        devices: Device::Cuda(0).into(),
    };
    laptop(DeviceLoad { occupied: vec![slot], ..idle(Device::Cpu, vec![1.0]) })
}

#[test]
fn devices_on_terminals_of_several_kinds() {
    let empty = || laptop(idle(Device::Cpu, vec![0.42]));
    let no_gpu = DevicesData { step_unit: StepUnit::Step, ..laptop(idle(Device::Cpu, Vec::new())) };
    for (name, data, size, theme) in [
        ("devices_with_their_trials", busy(), (120, 20), COLOURS),
        ("devices_80x24", busy(), (80, 24), COLOURS),
        ("devices_120x40", busy(), (120, 40), COLOURS),
        ("devices_200x60", busy(), (200, 60), COLOURS),
        ("devices_on_a_small_terminal_in_ascii", busy(), (60, 20), PLAIN),
        ("one_trial_80x24", one_trial(), (80, 24), COLOURS),
        ("one_trial_200x60", one_trial(), (200, 60), COLOURS),
        ("empty_80x24", empty(), (80, 24), COLOURS),
        ("empty_120x40", empty(), (120, 40), COLOURS),
        ("machines_with_their_devices", cluster(), (80, 24), COLOURS),
        ("machines_on_a_small_terminal", cluster(), (50, 24), PLAIN),
        ("a_machine_without_a_gpu_says_so", no_gpu, (80, 10), COLOURS),
    ] {
        insta::assert_snapshot!(name, drawn(&data, size, theme));
    }
}

#[test]
fn a_paused_device_says_so_and_who_has_to_leave_it() {
    let mut data = busy();
    data.devices.iter_mut().for_each(|load| load.paused = true);
    insta::assert_snapshot!(drawn(&data, (80, 14), COLOURS));
}

#[test]
fn no_size_makes_drawing_panic() {
    let data = busy();
    at_every_size(0..50, 0..12, |buffer, area| draw(buffer, area, &data, 0, COLOURS));
}

#[test]
fn a_trial_on_a_group_is_shown_on_each_of_its_devices_with_all_of_them() {
    let mut data = busy();
    let group: DeviceGroup = "cuda:0+cuda:1".parse().unwrap();
    data.devices.iter_mut().flat_map(|load| &mut load.occupied).for_each(|slot| {
        slot.devices = group.clone();
    });
    let drawn = drawn(&data, (120, 20), PLAIN);
    let slots = drawn.lines().filter(|line| line.contains("slot "));
    assert!(slots.clone().count() > 0, "{drawn}");
    for slot in slots {
        assert!(slot.contains("on cuda:0+cuda:1"), "{drawn}");
    }
}
