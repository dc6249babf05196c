//! The screen of devices, drawn.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{DeviceLoad, DevicesData, OccupiedSlot, gpu, utilisation};
use crate::report::sparkline::sparkline;
use crate::report::wording::{bytes, number, one_line, rough_duration, width};
use crate::runner::monitor::{Cpu, Gpu, MachineSample, Memory, gibibytes};
use crate::study::counted::count;
use crate::study::device::Device;
use crate::study::event::AgentChange;
use crate::study::step::StepUnit;
use crate::study::trial::TrialState;
use crate::tui::theme::{Theme, wrapped};

/// Draws the devices, scrolled down by `scroll` lines, or by as many as there are to scroll by; how
/// many those are.
pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    data: &DevicesData,
    scroll: usize,
    theme: Theme,
) -> usize {
    let area = area.intersection(buffer.area);
    let lines = lines(data, usize::from(area.width), theme);
    let first = scroll.min(lines.len().saturating_sub(usize::from(area.height)));
    for (y, line) in (area.top()..area.bottom()).zip(lines.into_iter().skip(first)) {
        let mut x = area.x;
        for Span { content, style } in line {
            let room = usize::from(area.right().saturating_sub(x));
            let text = theme.shorten(&content, room);
            (x, _) = buffer.set_stringn(x, y, &text, room, style);
        }
    }
    first
}

/// Columns of a bar.
const BAR: usize = 20;

fn lines(data: &DevicesData, room: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut machine = None;
    for load in &data.devices {
        let agent = load.device.agent();
        if agent != machine {
            machine = agent;
            lines.extend(
                agent.into_iter().flat_map(|agent| machine_lines(agent, data, room, theme)),
            );
        }
        lines.push(title(load, data, room, theme));
        lines.extend(gauges(load, &data.machine, room, theme));
        let shared = load.shared.iter();
        let shared = shared.map(|why| Line::styled(format!("   {}", one_line(why)), theme.dim()));
        lines.extend(wrapped(shared.collect(), room));
        lines.extend(load.occupied.iter().map(|slot| slot_line(slot, data.step_unit, theme)));
        lines.extend(throughput_line(load, data.step_unit, theme));
        lines.push(Line::default());
    }
    let is_listed =
        |agent: &str| data.devices.iter().any(|load| load.device.agent() == Some(agent));
    for agent in data.journal.agents.keys().filter(|agent| !is_listed(agent)) {
        lines.extend(machine_lines(agent, data, room, theme));
        lines.push(Line::default());
    }
    match &data.machine.gpus {
        Err(why) => {
            lines.extend(explained(" no NVIDIA GPU is listed:", &why.to_string(), room, theme))
        }
        Ok(gpus) => lines.extend(
            gpus.iter().filter(|gpu| gpu.cuda.is_none()).flat_map(|gpu| hidden(gpu, room, theme)),
        ),
    }
    lines
}

/// Another machine: since when it is here, or why it is not.
fn machine_lines(agent: &str, data: &DevicesData, room: usize, theme: Theme) -> Vec<Line<'static>> {
    let seen = data.journal.agents.get(agent);
    let ago = seen.map_or_else(String::new, |seen| rough_duration(data.now.since(seen.at)));
    let mut own = data.devices.iter().filter(|load| load.device.agent() == Some(agent));
    let is_shared = own.any(|load| load.shared.is_some());
    let (what, why) = match seen.map(|seen| &seen.change) {
        // The number changes where it is automatic; each device says it.
        Some(AgentChange::Joined { .. }) if is_shared => (format!("here for {ago}"), String::new()),
        Some(AgentChange::Joined { slots, .. }) => {
            (format!("here for {ago}, {}", count(*slots, "slot")), String::new())
        }
        Some(AgentChange::Left { reason }) => (format!("left {ago} ago:"), one_line(reason)),
        Some(AgentChange::Silent) => (format!("does not answer for {ago}"), String::new()),
        Some(AgentChange::Back) => (format!("here, back for {ago}"), String::new()),
        Some(AgentChange::Absent { reason }) => ("no agent:".to_owned(), one_line(reason)),
        None => ("not here".to_owned(), String::new()),
    };
    let mut line = Line::from(Span::styled(format!(" {}  ", one_line(agent)), theme.strong()));
    line.push_span(Span::styled(what, theme.dim()));
    if line.width() + 1 + width(&why) <= room {
        line.push_span(Span::styled(format!(" {why}"), theme.dim()));
        return vec![line];
    }
    let why = wrapped(vec![Line::styled(format!("   {why}"), theme.dim())], room);
    std::iter::once(line).chain(why).collect()
}

/// What is the case, and why: on two lines where one is too short.
fn explained(what: &str, why: &str, room: usize, theme: Theme) -> Vec<Line<'static>> {
    if width(what) + 1 + width(why) <= room {
        return vec![Span::styled(format!("{what} {why}"), theme.dim()).into()];
    }
    [what.to_owned(), format!("   {why}")].map(|line| Span::styled(line, theme.dim()).into()).into()
}

fn hidden(gpu: &Gpu, room: usize, theme: Theme) -> Vec<Line<'static>> {
    let name = if gpu.name.is_empty() { "NVIDIA GPU" } else { &gpu.name };
    explained(
        &format!(" GPU {} {}:", gpu.index, one_line(name)),
        gpu.trouble.as_deref().unwrap_or("hidden"),
        room,
        theme,
    )
}

fn title(load: &DeviceLoad, data: &DevicesData, room: usize, theme: Theme) -> Line<'static> {
    let what = match (&load.device, gpu(&load.device, &data.machine)) {
        (Device::Cpu, _) => {
            let Cpu { name, cores, .. } = &data.machine.cpu;
            format!("{name}, {}", count(*cores as u64, "core"))
        }
        (_, Some(gpu)) => one_line(&gpu.name),
        (Device::Cuda(_), None) => "not seen by the driver now".to_owned(),
        (Device::Wgpu(_), _) => "a GPU, through Vulkan or Metal".to_owned(),
        (Device::Ndarray, _) => "the CPU, through a second backend".to_owned(),
        (Device::Sim(_), _) => "simulated".to_owned(),
        (Device::Remote(_), _) => "on another machine".to_owned(),
    };
    let trials = count(load.occupied.len() as u64, "trial");
    let right = match (load.occupied.is_empty(), load.paused) {
        (true, false) => "idle ".to_owned(),
        (true, true) => "paused ".to_owned(),
        (false, false) => format!("{trials} "),
        (false, true) => format!("pausing, {trials} to leave "),
    };
    let name = format!(" {}  ", load.device);
    let what = theme.shorten(
        what.trim_start_matches(", "),
        room.saturating_sub(width(&name) + width(&right) + 1),
    );
    let gap = room.saturating_sub(width(&name) + width(&what) + width(&right));
    let right_style = if load.paused {
        theme.trial_state(TrialState::Paused).patch(theme.strong())
    } else if load.occupied.is_empty() {
        theme.dim()
    } else {
        theme.trial_state(TrialState::Running)
    };
    Line::from(vec![
        Span::styled(name, theme.strong()),
        Span::raw(what + &" ".repeat(gap)),
        Span::styled(right, right_style),
    ])
}

fn gauges(
    load: &DeviceLoad,
    machine: &MachineSample,
    room: usize,
    theme: Theme,
) -> Vec<Line<'static>> {
    let gpu = gpu(&load.device, machine);
    let memory = match load.device {
        Device::Cpu => Some(machine.cpu.memory).filter(|memory| memory.total > 0),
        _ => gpu.and_then(|gpu| gpu.memory),
    };
    let mut parts: Vec<Line<'static>> = Vec::new();
    if let Some(busy) = utilisation(&load.device, machine) {
        let mut line = bar("busy  ", busy, theme);
        line.push_span(format!(" {:3.0} %", busy * 100.0));
        let curve: Vec<(u64, f64)> = (0..).zip(load.busy.iter().copied()).collect();
        if curve.len() > 1 {
            let curve = sparkline(&curve, 24, theme.charset);
            line.push_span(Span::styled(format!("  {curve}"), theme.dim()));
        }
        parts.push(line);
    }
    if let Some(Memory { used, total }) = memory {
        let (used, total) = (gibibytes(used), gibibytes(total));
        let mut line = bar("memory", used / total.max(f64::MIN_POSITIVE), theme);
        line.push_span(format!(" {used:.1} of {total:.1} GiB"));
        parts.push(line);
    }
    if let Some(gpu) = gpu {
        let heat = gpu.temperature.map(|degrees| format!("{degrees} °C"));
        let limit = gpu.power_limit.map_or_else(String::new, |limit| format!(" of {limit:.0}"));
        let power = gpu.power.map(|watts| format!("{watts:.0}{limit} W"));
        let said: Vec<String> = heat.into_iter().chain(power).chain(gpu.trouble.clone()).collect();
        if !said.is_empty() {
            let style = if gpu.trouble.is_some() { theme.warning() } else { Style::new() };
            let said = said.join(theme.either(" · ", ", "));
            parts.push(Span::styled(format!("   {said}"), style).into());
        }
    }
    // Beside each other where there is room.
    let mut lines: Vec<Line<'static>> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(last) if last.width() + part.width() <= room => last.extend(part),
            _ => lines.push(part),
        }
    }
    lines
}

fn bar(name: &str, share: f64, theme: Theme) -> Line<'static> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a few columns"
    )]
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let style = if share > 0.9 { theme.warning() } else { theme.good() };
    Line::from(vec![
        Span::styled(format!("   {name} "), theme.dim()),
        Span::styled(theme.either("━", "#").repeat(full), style),
        Span::styled(theme.either("─", "-").repeat(BAR - full), theme.dim()),
    ])
}

fn slot_line(slot: &OccupiedSlot, step_unit: StepUnit, theme: Theme) -> Line<'static> {
    let step =
        slot.step.map_or_else(|| "no report yet".to_owned(), |step| step_unit.at(step).to_string());
    let tree = slot.tree.map_or_else(String::new, |tree| {
        let cores = tree.cores.map_or_else(String::new, |cores| format!("{cores:.1} cores, "));
        format!("  {cores}{}", bytes(tree.memory))
    });
    let group = match slot.devices.is_single() {
        true => String::new(),
        false => format!("  on {}", slot.devices),
    };
    Line::from(vec![
        Span::styled(format!("   slot {:<3}", slot.slot), theme.dim()),
        Span::styled(format!("trial {:<6}", slot.trial), theme.trial_state(TrialState::Running)),
        Span::raw(format!("{step:<14}  {:>12}{tree}{group}", rough_duration(slot.running))),
    ])
}

fn throughput_line(load: &DeviceLoad, step_unit: StepUnit, theme: Theme) -> Option<Line<'static>> {
    let throughput = load.throughput?;
    let steps = if throughput.steps_per_second < 0.1 {
        format!("{} {}/min", rounded(throughput.steps_per_second * 60.0), step_unit.plural())
    } else {
        format!("{} {}/s", rounded(throughput.steps_per_second), step_unit.plural())
    };
    let (trials, comma) = (rounded(throughput.trials_per_hour), theme.either(" · ", ", "));
    Some(Span::styled(format!("   {trials} trials/h{comma}{steps}"), theme.dim()).into())
}

/// Three significant digits are enough for a throughput.
fn rounded(value: f64) -> String {
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let scale = 10_f64.powi(digits);
    number((value * scale).round() / scale)
}
