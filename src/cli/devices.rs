//! `hpsearch devices`: the devices of this machine, and which of them this binary can use.

use std::collections::BTreeMap;

use clap::Args;

use super::{Console, Exit, Failure};
use crate::app::devices::{DetectedDevice, found};
use crate::report::table::{Column, Columns};
use crate::report::wording::one_line;
use crate::runner::monitor::gibibytes;

/// Arguments of `hpsearch devices`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch devices")]
pub struct DevicesArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Lists the devices.
pub fn devices(arguments: &DevicesArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (devices, no_gpus) = found();
    if arguments.json {
        return console.json(None, &BTreeMap::from([("devices", devices)]));
    }
    console.table(&columns(&devices))?;
    if let Some(why) = no_gpus {
        console.say(&format!("no NVIDIA GPU is listed: {why}"));
    }
    Ok(Exit::Done)
}

fn columns(devices: &[DetectedDevice]) -> Vec<Column> {
    let memory = |device: &DetectedDevice| {
        let used = gibibytes(device.memory_used_bytes?);
        Some(format!("{used:.1} of {:.1} GiB", gibibytes(device.memory_total_bytes?)))
    };
    let cell = |value: Option<String>| value.unwrap_or_default();
    Columns::of(devices)
        .left("device", |device| device.name.clone().unwrap_or_else(|| "-".to_owned()))
        .left("what", |device| one_line(&device.description))
        .left("built-in trainer", |device| device.note.clone())
        .right("memory", |device| cell(memory(device)))
        .right("busy", |device| cell(device.utilisation.map(|of| format!("{:.0} %", of * 100.0))))
        .optional()
        .right("heat", |device| cell(device.temperature_celsius.map(|heat| format!("{heat} °C"))))
        .optional()
        .right("power", |device| cell(device.power_watts.map(|watts| format!("{watts:.0} W"))))
        .optional()
        .end()
        .into_iter()
        .filter(|column| column.cells_width() > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_does_not_tell_leaves_no_column() {
        let cpu = DetectedDevice {
            name: Some("cpu".to_owned()),
            description: "a CPU".to_owned(),
            note: "usable".to_owned(),
            memory_total_bytes: Some(2 << 30),
            memory_used_bytes: Some(1 << 30),
            ..DetectedDevice::default()
        };
        let gpu = DetectedDevice {
            temperature_celsius: Some(40),
            power_watts: Some(30.5),
            ..DetectedDevice::default()
        };
        assert_eq!(columns(std::slice::from_ref(&cpu)).len(), 4);
        assert_eq!(columns(&[cpu, gpu]).len(), 6);
    }
}
