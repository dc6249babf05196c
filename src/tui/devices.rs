//! The devices that a study runs on: how busy they are, which trials are on their slots, and how fast they get on.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::look::Look;
use crate::report::sparkline::sparkline;
use crate::report::wording::{bytes, count, number, one_line, rough_duration, shorten, width};
use crate::runner::monitor::{Gpu, Machine, Memory, Monitor, TreeLoad, gibibytes};
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};
use crate::study::device::Device;
use crate::study::event::{Event, Seq};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// A trial on a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Seat {
    /// The slot's position among all of the run.
    pub slot: usize,
    /// Which trial.
    pub trial: TrialNumber,
    /// Its last report's clock value.
    pub step: Option<u64>,
    /// Since when its attempt runs.
    pub running: Duration,
    /// What its processes take.
    pub tree: Option<TreeLoad>,
}

/// What a study has done on a device lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Finished trials an hour.
    pub trials_per_hour: f64,
    /// Clock values a second.
    pub steps_per_second: f64,
}

/// One device and what the study does on it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLoad {
    /// Which.
    pub device: Device,
    /// Its running trials, by slot.
    pub seats: Vec<Seat>,
    /// How fast trials get on there; `None` before the first report.
    pub pace: Option<Pace>,
    /// How busy it was, from 0 to 1, oldest first.
    pub busy: Vec<f64>,
    /// Whether its user paused it: nothing is started there.
    pub paused: bool,
    /// How many trials share it, and why, where that was measured.
    pub shared: Option<String>,
}

/// All devices at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicesData {
    /// What the machine says.
    pub machine: Machine,
    /// The processor, the GPUs, and whatever else the study runs on.
    pub devices: Vec<DeviceLoad>,
    /// The unit of steps.
    pub clock: &'static str,
    /// Up to where the journal was read for what it says of devices.
    pub heard: Seq,
}

/// So many of the trials that began last tell the pace.
const LATEST: u64 = 200;
/// No older trial tells it.
const WINDOW: Duration = Duration::from_secs(3_600);
/// So many samples of how busy a device was are kept.
const SAMPLES: usize = 120;

impl DevicesData {
    /// Looks at the machine and at the study's latest trials; `before` is the last look, whose samples are carried on.
    pub fn load(
        reader: &dyn StorageReader,
        study: StudyId,
        monitor: &mut Monitor,
        now: Timestamp,
        before: Option<&DevicesData>,
    ) -> Result<DevicesData, StorageError> {
        let StudySummary { spec, paused_devices, .. } = reader.summary(study)?;
        let running = Filter::parse("state:running", &spec).unwrap_or_default();
        let running = reader.trials(study, &TrialQuery::all(SortKey::Number).filtered(running))?;
        let latest = reader
            .trials(study, &TrialQuery::all(SortKey::Started).reversed(true).page(0, LATEST))?;
        let mut seats = Vec::new();
        let mut roots = Vec::new();
        for trial in &running {
            let attempts = reader.attempts(study, Some(trial.number))?;
            let Some(attempt) = attempts.last() else { continue };
            let pid = attempt.process.map(|(pid, _)| pid);
            roots.extend(pid);
            seats.push((attempt.slot.clone(), trial, pid));
        }
        let machine = monitor.sample(&roots);
        let mut devices: BTreeMap<Device, Vec<Seat>> =
            known(&machine).into_iter().map(|device| (device, Vec::new())).collect();
        for (slot, trial, pid) in seats {
            let tree = pid.and_then(|pid| machine.trees.get(&pid)).copied();
            let running = trial.started.map_or(Duration::ZERO, |started| now.since(started));
            let seat = Seat {
                slot: slot.index,
                trial: trial.number,
                step: trial.last().map(|(step, _)| step),
                running,
                tree,
            };
            devices.entry(slot.device).or_default().push(seat);
        }
        for device in latest
            .iter()
            .filter_map(|trial| trial.device.clone())
            .chain(paused_devices.iter().cloned())
        {
            devices.entry(device).or_default();
        }
        let (shared, heard) = if spec.devices.packed {
            shared(reader, study, before)?
        } else {
            (BTreeMap::new(), Seq(0))
        };
        let devices = devices.into_iter().map(|(device, mut seats)| {
            seats.sort_by_key(|seat| seat.slot);
            let mut busy = before
                .and_then(|before| before.devices.iter().find(|load| load.device == device))
                .map_or_else(Vec::new, |load| load.busy.clone());
            // The same sample twice, looked at twice within a second, is one sample.
            let same = before.is_some_and(|before| before.machine == machine);
            busy.extend(utilisation(&device, &machine).filter(|_| !same));
            busy.drain(..busy.len().saturating_sub(SAMPLES));
            DeviceLoad {
                pace: pace(&latest, &device, now),
                paused: paused_devices.contains(&device),
                shared: shared.get(&device).cloned(),
                device,
                seats,
                busy,
            }
        });
        Ok(DevicesData { devices: devices.collect(), machine, clock: spec.step.as_str(), heard })
    }

    /// Those that the study runs on or was paused on, the busy ones first.
    pub fn of_the_study(&self) -> Vec<Device> {
        let mut used: Vec<&DeviceLoad> = self
            .devices
            .iter()
            .filter(|load| !load.seats.is_empty() || load.paused || load.pace.is_some())
            .collect();
        used.sort_by_key(|load| load.seats.is_empty());
        used.into_iter().map(|load| load.device.clone()).collect()
    }
}

/// What the journal says last about how many trials share devices; and up to where it was read.
fn shared(
    reader: &dyn StorageReader,
    study: StudyId,
    before: Option<&DevicesData>,
) -> Result<(BTreeMap<Device, String>, Seq), StorageError> {
    let known = before.iter().flat_map(|before| &before.devices);
    let mut shared: BTreeMap<Device, String> =
        known.filter_map(|load| Some((load.device.clone(), load.shared.clone()?))).collect();
    let mut heard = before.map_or(Seq(0), |before| before.heard);
    loop {
        let page = reader.events_after(study, heard, 10_000)?;
        let Some((last, ..)) = page.last() else { return Ok((shared, heard)) };
        heard = *last;
        for (_, _, event) in page {
            if let Event::Packed { device, slots, reason, .. } = event {
                shared.insert(device, format!("{slots} at a time: {reason}"));
            }
        }
    }
}

/// The devices that the machine has for a study.
fn known(machine: &Machine) -> Vec<Device> {
    let gpus = machine.gpus.iter().flatten().filter_map(|gpu| gpu.cuda);
    std::iter::once(Device::Cpu).chain(gpus.map(Device::Cuda)).collect()
}

fn gpu<'a>(device: &Device, machine: &'a Machine) -> Option<&'a Gpu> {
    let Device::Cuda(index) = device else { return None };
    machine.gpus.iter().flatten().find(|gpu| gpu.cuda == Some(*index))
}

fn utilisation(device: &Device, machine: &Machine) -> Option<f64> {
    match device {
        Device::Cpu | Device::Ndarray => machine.processor.utilisation,
        Device::Cuda(_) => gpu(device, machine)?.utilisation,
        Device::Wgpu(_) | Device::Sim(_) => None,
    }
}

/// What the trials that began last have reported and finished on a device, over the time since the first of them began.
#[expect(clippy::cast_precision_loss, reason = "clock values and counts")]
fn pace(latest: &[Trial], device: &Device, now: Timestamp) -> Option<Pace> {
    let here: Vec<&Trial> =
        latest.iter().filter(|trial| trial.device.as_ref() == Some(device)).collect();
    let recent = |at: Timestamp| now.since(at) <= WINDOW;
    // A resumed trial's steps were not all taken now.
    let taken: Vec<&Trial> = here
        .iter()
        .copied()
        .filter(|trial| trial.attempts == 1 && trial.started.is_some_and(recent))
        .collect();
    let begin = taken.iter().filter_map(|trial| trial.started).min()?;
    // The pace of a study that has ended is what it was, not what it sinks to.
    let end = if taken.iter().any(|trial| trial.state == TrialState::Running) {
        now
    } else {
        taken.iter().filter_map(|trial| trial.finished).max()?
    };
    let seconds = end.since(begin).as_secs_f64();
    let steps: u64 = taken.iter().filter_map(|trial| trial.last()).map(|(step, _)| step).sum();
    let finished = taken.iter().filter(|trial| trial.finished.is_some()).count();
    (seconds > 0.0 && steps > 0).then(|| Pace {
        trials_per_hour: finished as f64 * 3_600.0 / seconds,
        steps_per_second: steps as f64 / seconds,
    })
}

/// Draws the devices, scrolled down by `scroll` lines.
pub fn draw(buffer: &mut Buffer, area: Rect, data: &DevicesData, scroll: u16, look: Look) {
    let area = area.intersection(buffer.area);
    let lines = lines(data, usize::from(area.width), look);
    let first = usize::from(scroll).min(lines.len().saturating_sub(usize::from(area.height)));
    for (y, line) in (area.top()..area.bottom()).zip(lines.into_iter().skip(first)) {
        let mut x = area.x;
        for (text, style) in line {
            let room = usize::from(area.right().saturating_sub(x));
            let text = shorten(&text, room, look.charset.cut());
            buffer.set_stringn(x, y, &text, room, style);
            x = x.saturating_add(u16::try_from(width(&text)).unwrap_or(u16::MAX));
        }
    }
}

type Line = Vec<(String, Style)>;

/// Columns of a bar.
const BAR: usize = 20;

fn lines(data: &DevicesData, room: usize, look: Look) -> Vec<Line> {
    let mut lines = Vec::new();
    for load in &data.devices {
        lines.push(title(load, data, room, look));
        lines.extend(gauges(load, &data.machine, room, look));
        lines.extend(load.shared.iter().flat_map(|shared| wrapped(&one_line(shared), room, look)));
        lines.extend(load.seats.iter().map(|seat| seat_line(seat, data.clock, look)));
        lines.extend(pace_line(load, data.clock, look));
        lines.push(Vec::new());
    }
    match &data.machine.gpus {
        Err(why) => {
            lines.extend(explained(" no NVIDIA GPU is listed:", &why.to_string(), room, look))
        }
        Ok(gpus) => lines.extend(
            gpus.iter().filter(|gpu| gpu.cuda.is_none()).flat_map(|gpu| hidden(gpu, room, look)),
        ),
    }
    lines
}

/// A sentence below a device, on as many lines as it takes.
fn wrapped(text: &str, room: usize, look: Look) -> Vec<Line> {
    let mut lines: Vec<String> = vec!["  ".to_owned()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(last) if width(last) + 1 + width(word) <= room => last.extend([" ", word]),
            _ => lines.push(format!("     {word}")),
        }
    }
    lines.into_iter().map(|line| vec![(line, look.dim())]).collect()
}

/// What is the case, and why: on two lines where one is too short.
fn explained(what: &str, why: &str, room: usize, look: Look) -> Vec<Line> {
    if width(what) + 1 + width(why) <= room {
        return vec![vec![(format!("{what} {why}"), look.dim())]];
    }
    vec![vec![(what.to_owned(), look.dim())], vec![(format!("   {why}"), look.dim())]]
}

fn hidden(gpu: &Gpu, room: usize, look: Look) -> Vec<Line> {
    let name = if gpu.name.is_empty() { "NVIDIA GPU" } else { &gpu.name };
    explained(
        &format!(" GPU {} {}:", gpu.index, one_line(name)),
        gpu.trouble.as_deref().unwrap_or("hidden"),
        room,
        look,
    )
}

fn title(load: &DeviceLoad, data: &DevicesData, room: usize, look: Look) -> Line {
    let what = match (&load.device, gpu(&load.device, &data.machine)) {
        (Device::Cpu, _) => format!(
            "{}, {}",
            data.machine.processor.name,
            count(data.machine.processor.cores as u64, "core")
        ),
        (_, Some(gpu)) => one_line(&gpu.name),
        (Device::Cuda(_), None) => "not seen by the driver now".to_owned(),
        (Device::Wgpu(_), _) => "a GPU, through Vulkan or Metal".to_owned(),
        (Device::Ndarray, _) => "the processor, through a second backend".to_owned(),
        (Device::Sim(_), _) => "pretended".to_owned(),
    };
    let right = match (load.seats.len(), load.paused) {
        (0, false) => "idle ".to_owned(),
        (0, true) => "paused ".to_owned(),
        (seats, false) => format!("{} ", count(seats as u64, "trial")),
        (seats, true) => format!("pausing, {} to leave ", count(seats as u64, "trial")),
    };
    let name = format!(" {}  ", load.device);
    let what = shorten(
        what.trim_start_matches(", "),
        room.saturating_sub(width(&name) + width(&right) + 1),
        look.charset.cut(),
    );
    let gap = room.saturating_sub(width(&name) + width(&what) + width(&right));
    let right_style = if load.paused {
        look.trial_state(TrialState::Paused).patch(look.strong())
    } else if load.seats.is_empty() {
        look.dim()
    } else {
        look.trial_state(TrialState::Running)
    };
    vec![
        (name, look.strong()),
        (what, Style::new()),
        (" ".repeat(gap), Style::new()),
        (right, right_style),
    ]
}

fn gauges(load: &DeviceLoad, machine: &Machine, room: usize, look: Look) -> Vec<Line> {
    let gpu = gpu(&load.device, machine);
    let memory = match load.device {
        Device::Cpu => Some(machine.processor.memory).filter(|memory| memory.total > 0),
        _ => gpu.and_then(|gpu| gpu.memory),
    };
    let mut parts: Vec<Line> = Vec::new();
    if let Some(busy) = utilisation(&load.device, machine) {
        let mut line = bar("busy  ", busy, look);
        line.push((format!(" {:3.0} %", busy * 100.0), Style::new()));
        let curve: Vec<(u64, f64)> = (0..).zip(load.busy.iter().copied()).collect();
        if curve.len() > 1 {
            line.push((format!("  {}", sparkline(&curve, 24, look.charset)), look.dim()));
        }
        parts.push(line);
    }
    if let Some(Memory { used, total }) = memory {
        let mut line =
            bar("memory", gibibytes(used) / gibibytes(total).max(f64::MIN_POSITIVE), look);
        line.push((
            format!(" {:.1} of {:.1} GiB", gibibytes(used), gibibytes(total)),
            Style::new(),
        ));
        parts.push(line);
    }
    if let Some(gpu) = gpu {
        let heat = gpu.temperature.map(|degrees| format!("{degrees} °C"));
        let power = gpu.power.map(|watts| {
            gpu.power_limit.map_or_else(
                || format!("{watts:.0} W"),
                |limit| format!("{watts:.0} of {limit:.0} W"),
            )
        });
        let said: Vec<String> = heat.into_iter().chain(power).chain(gpu.trouble.clone()).collect();
        if !said.is_empty() {
            let style = if gpu.trouble.is_some() { look.warning() } else { Style::new() };
            parts.push(vec![(format!("   {}", said.join(look.either(" · ", ", "))), style)]);
        }
    }
    // Beside each other where there is room.
    let mut lines: Vec<Line> = Vec::new();
    for part in parts {
        let wide = |line: &Line| line.iter().map(|(text, _)| width(text)).sum::<usize>();
        match lines.last_mut() {
            Some(last) if wide(last) + wide(&part) <= room => last.extend(part),
            _ => lines.push(part),
        }
    }
    lines
}

fn bar(name: &str, share: f64, look: Look) -> Line {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a few columns"
    )]
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let style = if share > 0.9 { look.warning() } else { look.good() };
    vec![
        (format!("   {name} "), look.dim()),
        (look.either("━", "#").repeat(full), style),
        (look.either("─", "-").repeat(BAR - full), look.dim()),
    ]
}

fn seat_line(seat: &Seat, clock: &str, look: Look) -> Line {
    let step =
        seat.step.map_or_else(|| "no report yet".to_owned(), |step| format!("{clock} {step}"));
    let tree = seat.tree.map_or_else(String::new, |tree| {
        let cores = tree.cores.map_or_else(String::new, |cores| format!("{cores:.1} cores, "));
        format!("  {cores}{}", bytes(tree.memory))
    });
    vec![
        (format!("   slot {:<3}", seat.slot), look.dim()),
        (format!("trial {:<6}", seat.trial), look.trial_state(TrialState::Running)),
        (format!("{step:<14}  {:>12}{tree}", rough_duration(seat.running)), Style::new()),
    ]
}

fn pace_line(load: &DeviceLoad, clock: &str, look: Look) -> Option<Line> {
    let pace = load.pace?;
    let steps = if pace.steps_per_second < 0.1 {
        format!("{} {clock}s/min", rounded(pace.steps_per_second * 60.0))
    } else {
        format!("{} {clock}s/s", rounded(pace.steps_per_second))
    };
    let steps = steps.replace("sampless", "samples");
    Some(vec![(
        format!("   {} trials/h{}{steps}", rounded(pace.trials_per_hour), look.either(" · ", ", ")),
        look.dim(),
    )])
}

/// Three significant digits are enough for a pace.
fn rounded(value: f64) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let scale = 10_f64.powi(digits);
    number((value * scale).round() / scale)
}
