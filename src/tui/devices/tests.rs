//! The devices screen as it looks, with a machine made of plain data.

use super::*;
use crate::report::sparkline::Charset;
use crate::runner::monitor::{NoGpus, Processor};
use crate::tui::look::Palette;

const COLOURS: Look = Look { charset: Charset::Unicode, palette: Palette::Colours };
const PLAIN: Look = Look { charset: Charset::Ascii, palette: Palette::Monochrome };
const GIB: u64 = 1 << 30;

fn drawn(data: &DevicesData, (width, height): (u16, u16), look: Look) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(&mut buffer, area, data, 0, look);
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height)
        .map(|y| row(y).trim_end().to_owned() + "\n")
        .collect::<String>()
        .trim_end()
        .to_owned()
        + "\n"
}

fn processor() -> Processor {
    Processor {
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
    let seat = |slot, trial| Seat {
        slot,
        trial: TrialNumber(trial),
        step: Some(4),
        running: Duration::from_secs(75),
        tree: Some(tree),
    };
    let hidden =
        Gpu { cuda: None, trouble: Some("hidden by CUDA_VISIBLE_DEVICES".into()), ..h100(1) };
    let samples = (0..30).map(|index| f64::from(index % 7) / 7.0).collect();
    DevicesData {
        machine: Machine { processor: processor(), gpus: Ok(vec![h100(0), hidden]), trees: BTreeMap::new() },
        devices: vec![
            DeviceLoad { device: Device::Cpu, seats: Vec::new(), pace: None, busy: vec![0.4], paused: false, shared: None },
            DeviceLoad {
                device: Device::Cuda(0),
                seats: vec![seat(0, 12), Seat { step: None, tree: None, ..seat(1, 1_234) }],
                pace: Some(Pace { trials_per_hour: 41.27, steps_per_second: 0.0123 }),
                busy: samples,
                paused: false,
                shared: Some("2 at a time: memory has room: 6.0 GiB of 80.0 GiB with another as large as the largest so far (3.0 GiB)".into()),
            },
        ],
        clock: "epoch",
        heard: Seq(0),
    }
}

#[test]
fn devices_with_their_trials() {
    insta::assert_snapshot!(drawn(&busy(), (120, 20), COLOURS));
}

#[test]
fn devices_at_the_sizes_of_terminals() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        insta::assert_snapshot!(
            format!("devices_{width}x{height}"),
            drawn(&busy(), (width, height), COLOURS)
        );
    }
}

#[test]
fn devices_on_a_small_terminal_in_ascii() {
    insta::assert_snapshot!(drawn(&busy(), (60, 20), PLAIN));
}

/// A laptop with a study's only trial on it.
fn one_trial() -> DevicesData {
    let tree = TreeLoad { cores: Some(0.98), memory: GIB / 3, processes: 1 };
    let seat = Seat {
        slot: 0,
        trial: TrialNumber(0),
        step: Some(1),
        running: Duration::from_secs(9),
        tree: Some(tree),
    };
    let device = DeviceLoad {
        device: Device::Cpu,
        seats: vec![seat],
        pace: None,
        busy: vec![1.0],
        paused: false,
        shared: None,
    };
    let machine =
        Machine { processor: processor(), gpus: Err(NoGpus::NoDriver), trees: BTreeMap::new() };
    DevicesData { machine, devices: vec![device], clock: "epoch", heard: Seq(0) }
}

#[test]
fn devices_with_a_single_trial() {
    insta::assert_snapshot!("one_trial_80x24", drawn(&one_trial(), (80, 24), COLOURS));
    insta::assert_snapshot!("one_trial_200x60", drawn(&one_trial(), (200, 60), COLOURS));
}

#[test]
fn devices_of_a_study_that_was_never_run() {
    let idle = DeviceLoad {
        device: Device::Cpu,
        seats: Vec::new(),
        pace: None,
        busy: vec![0.42],
        paused: false,
        shared: None,
    };
    let empty = DevicesData { devices: vec![idle], ..one_trial() };
    insta::assert_snapshot!("empty_80x24", drawn(&empty, (80, 24), COLOURS));
    insta::assert_snapshot!("empty_120x40", drawn(&empty, (120, 40), COLOURS));
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    let machine =
        Machine { processor: processor(), gpus: Err(NoGpus::NoDriver), trees: BTreeMap::new() };
    let devices = vec![DeviceLoad {
        device: Device::Cpu,
        seats: Vec::new(),
        pace: None,
        busy: Vec::new(),
        paused: false,
        shared: None,
    }];
    insta::assert_snapshot!(drawn(
        &DevicesData { machine, devices, clock: "step", heard: Seq(0) },
        (80, 10),
        COLOURS
    ));
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
    for width in 0..50 {
        for height in 0..12 {
            drawn(&data, (width, height), COLOURS);
        }
    }
}
