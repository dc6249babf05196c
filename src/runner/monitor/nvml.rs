//! NVIDIA GPUs through the driver's library (NVML), without initialising CUDA.

use nvml_wrapper::enum_wrappers::device::{ComputeMode, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::Memory;
use super::gpu::{Gpu, GpuProcess, Mode, NoGpus, Said, Silent, number, trouble};

/// The loaded library.
pub struct Gpus {
    nvml: Nvml,
    visible_devices: Option<String>,
}

impl Gpus {
    /// Loads the library; `visible_devices` is the value of CUDA_VISIBLE_DEVICES.
    pub fn find(visible_devices: Option<&str>) -> Result<Gpus, NoGpus> {
        match Nvml::init() {
            Ok(nvml) => Ok(Gpus { nvml, visible_devices: visible_devices.map(str::to_owned) }),
            Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => {
                Err(NoGpus::NoDriver)
            }
            Err(NvmlError::DriverNotLoaded) => {
                Err(NoGpus::Trouble("its kernel module is not loaded".to_owned()))
            }
            Err(NvmlError::LibRmVersionMismatch) => Err(NoGpus::Trouble(
                "its library and its kernel module are of different versions; restart the machine"
                    .to_owned(),
            )),
            Err(error) => Err(NoGpus::Trouble(error.to_string())),
        }
    }

    /// Samples all GPUs.
    pub fn sample(&self) -> Vec<Gpu> {
        let driver = self.nvml.sys_driver_version().unwrap_or_default();
        let cuda = self
            .nvml
            .sys_cuda_driver_version()
            .ok()
            .and_then(|version| u32::try_from(version).ok());
        let count = self.nvml.device_count().unwrap_or(0);
        let mut gpus: Vec<Gpu> = (0..count)
            .map(|index| match self.nvml.device_by_index(index) {
                Ok(device) => Gpu { index, driver: driver.clone(), ..facts(&device, cuda) },
                Err(error) => {
                    let trouble =
                        trouble(&Said { silent: Some(silent(&error)), ..Said::default() });
                    Gpu { index, driver: driver.clone(), trouble, ..Gpu::default() }
                }
            })
            .collect();
        number(&mut gpus, self.visible_devices.as_deref());
        gpus
    }
}

fn facts(device: &Device<'_>, cuda: Option<u32>) -> Gpu {
    let said = said(device, cuda);
    let capability = device.cuda_compute_capability().ok();
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    Gpu {
        name: device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
        uuid: device.uuid().unwrap_or_default(),
        compute_capability: capability.and_then(|known| {
            Some((u32::try_from(known.major).ok()?, u32::try_from(known.minor).ok()?))
        }),
        memory: device
            .memory_info()
            .ok()
            .map(|memory| Memory { used: memory.used, total: memory.total }),
        utilisation: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
        temperature: device.temperature(TemperatureSensor::Gpu).ok(),
        power: device.power_usage().ok().map(watts),
        power_limit: device.enforced_power_limit().ok().map(watts),
        exclusive: said.mode == Mode::Exclusive,
        trouble: trouble(&said),
        parts: said.parts,
        processes: device
            .running_compute_processes()
            .unwrap_or_default()
            .into_iter()
            .map(process)
            .collect(),
        ..Gpu::default()
    }
}

fn process(process: nvml_wrapper::struct_wrappers::device::ProcessInfo) -> GpuProcess {
    let memory = match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    GpuProcess { pid: process.pid, memory }
}

fn parts(device: &Device<'_>) -> Vec<String> {
    let count = device.mig_device_count().unwrap_or(0);
    (0..count).filter_map(|index| device.mig_device_by_index(index).ok()?.uuid().ok()).collect()
}

/// The facts that determine whether trials can use it.
fn said(device: &Device<'_>, cuda: Option<u32>) -> Said {
    let (mode, silent) = match device.compute_mode() {
        Ok(ComputeMode::Prohibited) => (Mode::Prohibited, None),
        Ok(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread) => (Mode::Exclusive, None),
        Err(error @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => {
            (Mode::Shared, Some(silent(&error)))
        }
        _ => (Mode::Shared, None),
    };
    let mig = device.mig_mode().is_ok_and(|mode| mode.current == ENABLED);
    Said { mode, mig, parts: parts(device), cuda, silent }
}

/// NVML_DEVICE_MIG_ENABLE
const ENABLED: u32 = 1;

fn silent(error: &NvmlError) -> Silent {
    match error {
        NvmlError::GpuLost => Silent::Lost,
        NvmlError::ResetRequired => Silent::Reset,
        NvmlError::NoPermission => Silent::Permission,
        other => Silent::Other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_has_no_gpus_and_says_so() {
        match Gpus::find(None) {
            Ok(gpus) => {
                assert!(gpus.sample().iter().all(|gpu| gpu.cuda.is_some() || gpu.trouble.is_some()))
            }
            Err(why) => assert!(why.to_string().contains("NVIDIA driver"), "{why}"),
        }
    }
}
