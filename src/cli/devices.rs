//! `hpsearch devices`: the devices of this machine, and which of them this binary can use.

use std::fs;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::OutputForm;
use super::console::Console;
use super::exit::{Exit, Failure};
use super::trial_json::VERSION;
use crate::reporters::table::{Align, Column};
use crate::reporters::wording::one_line;

/// What `hpsearch devices` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch devices")]
pub struct DevicesArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Listing {
    version: u32,
    devices: Vec<Found>,
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Found {
    /// Its name in the study file.
    name: String,
    /// What it is.
    description: String,
    /// Whether the built-in trainer of this binary can use it.
    usable: bool,
    /// One sentence about that.
    note: &'static str,
}

/// Lists the devices.
pub fn devices(arguments: &DevicesArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut devices = vec![processor()];
    devices.extend(ndarray());
    devices.extend(nvidia(Path::new("/proc/driver/nvidia/gpus"), Path::new("/dev")));
    match OutputForm::from(arguments.json) {
        OutputForm::Json => console.json(&Listing { version: VERSION, devices })?,
        OutputForm::Text => {
            let cells = |cell: &dyn Fn(&Found) -> String| devices.iter().map(cell).collect::<Vec<_>>();
            console.table(&[
                Column::new("device", Align::Left, cells(&|device| device.name.clone())),
                Column::new("what", Align::Left, cells(&|device| one_line(&device.description))),
                Column::new("built-in trainer", Align::Left, cells(&|device| device.note.to_owned())),
            ])?;
            if !devices.iter().any(|device| device.name.starts_with("cuda")) {
                console.say("no NVIDIA GPU is visible to this process");
            }
        }
    }
    Ok(Exit::Done)
}

fn processor() -> Found {
    let what = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()).with_memory(MemoryRefreshKind::nothing().with_ram());
    // What the system does not say is left out.
    let system = System::new_with_specifics(what).ok();
    let brand = system.as_ref().and_then(|system| Some(system.cpus().first()?.brand().trim().to_owned()));
    let model = brand.filter(|brand| !brand.is_empty());
    let memory = system.map_or(0, |system| system.total_memory());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let description = format!("{}, {cores} cores, {} of memory", model.unwrap_or_else(|| "processor".to_owned()), gibibytes(memory));
    if cfg!(feature = "train") {
        Found { name: "cpu".to_owned(), description, usable: true, note: "can use it" }
    } else {
        Found { name: "cpu".to_owned(), description, usable: false, note: "this binary was built without it; commands run" }
    }
}

fn ndarray() -> Option<Found> {
    cfg!(feature = "ndarray").then(|| Found {
        name: "ndarray".to_owned(),
        description: "the processor, through a second backend".to_owned(),
        usable: true,
        note: "can use it; `cpu` is faster",
    })
}

/// NVIDIA GPUs: by the driver's own list, else (in containers it may be hidden) by their device files.
fn nvidia(gpus: &Path, dev: &Path) -> Vec<Found> {
    let mut names: Vec<(u32, String)> = entries(gpus)
        .into_iter()
        .filter_map(|gpu| fs::read_to_string(gpus.join(gpu).join("information")).ok())
        .zip(0..)
        .map(|(text, index)| (minor(&text).unwrap_or(index), model(&text)))
        .collect();
    if names.is_empty() {
        let minors = entries(dev).into_iter().filter_map(|file| file.strip_prefix("nvidia")?.parse().ok());
        names = minors.map(|minor: u32| (minor, "NVIDIA GPU".to_owned())).collect();
    }
    names.sort();
    let note = if cfg!(feature = "cuda") { "can use it" } else { "this binary was built without `cuda`; commands run" };
    // CUDA numbers the visible devices from 0, whatever their device files are called.
    (0..)
        .zip(names)
        .map(|(index, (_, description))| Found { name: format!("cuda:{index}"), description, usable: cfg!(feature = "cuda"), note })
        .collect()
}

fn entries(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn model(information: &str) -> String {
    field(information, "Model").map_or_else(|| "NVIDIA GPU".to_owned(), str::to_owned)
}

fn minor(information: &str) -> Option<u32> {
    field(information, "Device Minor")?.parse().ok()
}

fn field<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information.lines().find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name)).map(|(_, value)| value.trim())
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_named_by_the_driver_in_the_order_of_their_minors() {
        let directory = tempfile::tempdir().unwrap();
        for (bus, model, minor) in [("0000:1a:00.0", "NVIDIA H200", 1), ("0000:0b:00.0", "NVIDIA L4", 0)] {
            fs::create_dir(directory.path().join(bus)).unwrap();
            fs::write(directory.path().join(bus).join("information"), format!("Model: \t\t {model}\nIRQ: 1\nDevice Minor: \t {minor}\n")).unwrap();
        }
        let found = nvidia(directory.path(), Path::new("/nowhere"));
        let named: Vec<(&str, &str)> = found.iter().map(|device| (device.name.as_str(), device.description.as_str())).collect();
        assert_eq!(named, [("cuda:0", "NVIDIA L4"), ("cuda:1", "NVIDIA H200")]);
    }

    #[test]
    fn without_the_drivers_list_device_files_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "null"] {
            fs::write(directory.path().join(file), "").unwrap();
        }
        assert_eq!(nvidia(Path::new("/nowhere"), directory.path()).len(), 2);
    }
}
