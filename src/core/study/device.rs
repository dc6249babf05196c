//! Names of devices: `cpu`, `cuda:0`, and `sim:0` for tests.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The CPU, by the default backend.
    Cpu,
    /// The CPU, by burn-ndarray.
    Ndarray,
    /// An NVIDIA GPU by its index.
    Cuda(u32),
    /// A GPU by its index among those with a driver for Vulkan or Metal.
    Wgpu(u32),
    /// A simulated device: commands run on the CPU and see only the name.
    Sim(u32),
}

/// A name that is not a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a device: write `cpu`, `cuda:N`, `wgpu:N` or `ndarray`")]
pub struct UnknownDevice {
    /// The name as given.
    pub name: String,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Ndarray => f.write_str("ndarray"),
            Device::Cuda(index) => write!(f, "cuda:{index}"),
            Device::Wgpu(index) => write!(f, "wgpu:{index}"),
            Device::Sim(index) => write!(f, "sim:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        let indexed = |prefix: &str| name.strip_prefix(prefix).and_then(|index| index.parse().ok());
        match name {
            "cpu" => Ok(Device::Cpu),
            "ndarray" => Ok(Device::Ndarray),
            _ => {
                let known = indexed("cuda:")
                    .map(Device::Cuda)
                    .or_else(|| indexed("wgpu:").map(Device::Wgpu))
                    .or_else(|| indexed("sim:").map(Device::Sim));
                known.ok_or_else(|| UnknownDevice { name: name.to_owned() })
            }
        }
    }
}

impl TryFrom<String> for Device {
    type Error = UnknownDevice;

    fn try_from(name: String) -> Result<Self, UnknownDevice> {
        name.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

/// Capacity for one trial at a time: slot 1 of `cuda:0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Index among all slots of the run, from 0.
    pub index: usize,
    /// The device it is on.
    pub device: Device,
}
