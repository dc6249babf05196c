//! The devices of this machine, and which of them this binary can use.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::runner::monitor::{Cpu, Gpu, Memory, NoGpus, glance};
use crate::runner::slots::wgpu_devices;

/// A device of this machine; unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DetectedDevice {
    /// Its name in the study file; a GPU that CUDA hides has none.
    pub name: Option<String>,
    /// A description: model and memory.
    pub description: String,
    /// Whether the built-in trainer of this binary can use it.
    pub usable: bool,
    /// One sentence on whether it can be used.
    pub note: String,
    /// Its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// Memory in use by all processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// Utilisation, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Temperature in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u32>,
    /// Power draw in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f64>,
    /// Power limit in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_watts: Option<f64>,
    /// The driver's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The version of its driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The compute capability according to CUDA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
}

/// All devices, and why no GPU is listed, if that is notable.
pub fn found() -> (Vec<DetectedDevice>, Option<String>) {
    let machine = glance(std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref());
    let mut devices = vec![cpu(&machine.cpu)];
    devices.extend(ndarray());
    devices.extend(further());
    let no_gpus = match &machine.gpus {
        Ok(gpus) => {
            devices.extend(gpus.iter().map(nvidia));
            gpus.is_empty().then(|| "the NVIDIA driver finds no GPU".to_owned())
        }
        Err(why) => {
            let seen = without_library(Path::new("/proc/driver/nvidia/gpus"), Path::new("/dev"));
            let said =
                (seen.is_empty() || !matches!(why, NoGpus::NotBuilt)).then(|| why.to_string());
            devices.extend(seen);
            said
        }
    };
    (devices, no_gpus)
}

fn cpu(cpu: &Cpu) -> DetectedDevice {
    let name = if cpu.name.is_empty() { "processor" } else { &cpu.name };
    let note = if cfg!(feature = "train") {
        "can use it"
    } else {
        "this binary was built without it; commands run"
    };
    DetectedDevice {
        name: Some("cpu".to_owned()),
        description: format!("{name}, {} cores", cpu.cores),
        usable: cfg!(feature = "train"),
        note: note.to_owned(),
        memory_total_bytes: Some(cpu.memory.total),
        memory_used_bytes: Some(cpu.memory.used),
        ..DetectedDevice::default()
    }
}

fn ndarray() -> Option<DetectedDevice> {
    cfg!(feature = "ndarray").then(|| DetectedDevice {
        name: Some("ndarray".to_owned()),
        description: "the CPU, through a second backend".to_owned(),
        usable: true,
        note: "can use it; `cpu` is faster".to_owned(),
        ..DetectedDevice::default()
    })
}

/// GPUs available through Vulkan or Metal.
fn further() -> Vec<DetectedDevice> {
    if !cfg!(feature = "wgpu") {
        return Vec::new();
    }
    let found = |(name, description)| DetectedDevice {
        name: Some(name),
        description,
        usable: true,
        note: "can use it".to_owned(),
        ..DetectedDevice::default()
    };
    match wgpu_devices() {
        Ok(devices) => devices.into_iter().map(found).collect(),
        // The drivers failed; the other devices are still listed.
        Err(error) => vec![DetectedDevice {
            description: "GPUs through Vulkan or Metal".to_owned(),
            note: error.to_string(),
            ..DetectedDevice::default()
        }],
    }
}

/// The note on a GPU that works.
const CUDA_NOTE: &str = if cfg!(feature = "cuda") {
    "can use it"
} else {
    "this binary was built without `cuda`; commands run"
};

fn nvidia(gpu: &Gpu) -> DetectedDevice {
    let description = if gpu.name.is_empty() {
        format!("NVIDIA GPU number {}", gpu.index)
    } else {
        gpu.name.clone()
    };
    DetectedDevice {
        name: gpu.cuda.map(|index| format!("cuda:{index}")),
        description,
        usable: gpu.trouble.is_none() && cfg!(feature = "cuda"),
        note: gpu.trouble.clone().unwrap_or_else(|| CUDA_NOTE.to_owned()),
        memory_total_bytes: gpu.memory.map(|Memory { total, .. }| total),
        memory_used_bytes: gpu.memory.map(|Memory { used, .. }| used),
        utilisation: gpu.utilisation,
        temperature_celsius: gpu.temperature,
        power_watts: gpu.power,
        power_limit_watts: gpu.power_limit,
        uuid: Some(gpu.uuid.clone()).filter(|uuid| !uuid.is_empty()),
        driver: Some(gpu.driver.clone()).filter(|driver| !driver.is_empty()),
        compute_capability: gpu.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
    }
}

/// NVIDIA GPUs without the driver's library: from `/proc`, or else (containers may hide that) from
/// their device files.
fn without_library(gpus: &Path, dev: &Path) -> Vec<DetectedDevice> {
    let mut names: Vec<(u32, String)> = entries(gpus)
        .into_iter()
        .filter_map(|gpu| fs::read_to_string(gpus.join(gpu).join("information")).ok())
        .zip(0..)
        .map(|(text, index)| (minor(&text).unwrap_or(index), model(&text)))
        .collect();
    if names.is_empty() {
        let minors =
            entries(dev).into_iter().filter_map(|file| file.strip_prefix("nvidia")?.parse().ok());
        names = minors.map(|minor: u32| (minor, "NVIDIA GPU".to_owned())).collect();
    }
    names.sort();
    // CUDA numbers visible devices from 0, regardless of their device files.
    (0..)
        .zip(names)
        .map(|(index, (_, description))| DetectedDevice {
            name: Some(format!("cuda:{index}")),
            description,
            usable: cfg!(feature = "cuda"),
            note: CUDA_NOTE.to_owned(),
            ..DetectedDevice::default()
        })
        .collect()
}

fn entries(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
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
    information
        .lines()
        .find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name))
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_named_by_the_driver_in_the_order_of_their_minors() {
        let directory = tempfile::tempdir().unwrap();
        for (bus, model, minor) in
            [("0000:1a:00.0", "NVIDIA H200", 1), ("0000:0b:00.0", "NVIDIA L4", 0)]
        {
            fs::create_dir(directory.path().join(bus)).unwrap();
            fs::write(
                directory.path().join(bus).join("information"),
                format!("Model: \t\t {model}\nIRQ: 1\nDevice Minor: \t {minor}\n"),
            )
            .unwrap();
        }
        let found = without_library(directory.path(), Path::new("/nowhere"));
        let named: Vec<(&str, &str)> = found
            .iter()
            .map(|device| (device.name.as_deref().unwrap(), device.description.as_str()))
            .collect();
        assert_eq!(named, [("cuda:0", "NVIDIA L4"), ("cuda:1", "NVIDIA H200")]);
    }

    #[test]
    fn without_the_drivers_list_device_files_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "null"] {
            fs::write(directory.path().join(file), "").unwrap();
        }
        assert_eq!(without_library(Path::new("/nowhere"), directory.path()).len(), 2);
    }

    #[test]
    fn a_gpu_that_cannot_be_used_says_why_and_one_that_cuda_hides_has_no_name() {
        let hidden = Gpu {
            index: 1,
            name: "NVIDIA L4".into(),
            trouble: Some("hidden by CUDA_VISIBLE_DEVICES".into()),
            ..Gpu::default()
        };
        let found = nvidia(&hidden);
        assert_eq!(
            (found.name, found.usable, found.note.as_str()),
            (None, false, "hidden by CUDA_VISIBLE_DEVICES")
        );
        let lost = nvidia(&Gpu { index: 3, trouble: Some("lost".into()), ..Gpu::default() });
        assert_eq!(lost.description, "NVIDIA GPU number 3");
    }
}
