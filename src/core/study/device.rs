//! Names of devices: `cpu`, `cuda:0`, `node7/cuda:0` on another machine, and `sim:0` for tests.

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
    /// A device of another machine.
    Remote(Box<RemoteDevice>),
}

/// A device of an agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteDevice {
    /// The agent's name, unique in its study.
    pub agent: String,
    /// The device there.
    pub device: Device,
}

impl Device {
    /// The same device, of an agent.
    #[must_use]
    pub fn on(&self, agent: &str) -> Device {
        let device = self.local().clone();
        Device::Remote(Box::new(RemoteDevice { agent: agent.to_owned(), device }))
    }

    /// The agent's name, if it is on another machine.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Device::Remote(remote) => Some(&remote.agent),
            _ => None,
        }
    }

    /// The device as its own machine names it.
    pub fn local(&self) -> &Device {
        match self {
            Device::Remote(remote) => &remote.device,
            local => local,
        }
    }
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
            Device::Remote(remote) => write!(f, "{}/{}", remote.agent, remote.device),
        }
    }
}

impl FromStr for Device {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        if let Some((agent, device)) = name.split_once('/').filter(|(agent, _)| !agent.is_empty()) {
            let device: Device = device.parse()?;
            let is_nested = device.agent().is_some();
            return if is_nested {
                Err(UnknownDevice { name: name.to_owned() })
            } else {
                Ok(device.on(agent))
            };
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_agents_are_named_after_them() {
        let device = Device::Cuda(1).on("node7.2");
        assert_eq!(device.to_string(), "node7.2/cuda:1");
        assert_eq!("node7.2/cuda:1".parse(), Ok(device.clone()));
        assert_eq!((device.agent(), device.local()), (Some("node7.2"), &Device::Cuda(1)));
        assert_eq!(device.on("other").to_string(), "other/cuda:1");
        for wrong in ["/cpu", "a/b/cpu", "a/", "a/gpu"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }
}
