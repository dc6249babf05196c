//! Names of devices (`cpu`, `cuda:0`, `node7/cuda:0` on another machine, and `sim:0` for tests),
//! and of groups of them.

use std::collections::BTreeSet;
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

/// The devices of a slot: one, or a group with `per_trial`, written `cuda:0+cuda:1`. The CPU
/// appears once per process that it is to run: `cpu+cpu`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceGroup {
    first: Device,
    others: Vec<Device>,
}

impl DeviceGroup {
    /// A group from its members; `None` without any.
    pub fn of(members: impl IntoIterator<Item = Device>) -> Option<Self> {
        let mut members = members.into_iter();
        Some(DeviceGroup { first: members.next()?, others: members.collect() })
    }

    /// Its first device, the only one unless it is a group.
    pub fn first(&self) -> &Device {
        &self.first
    }

    /// Its members in order; the CPU may appear several times.
    pub fn members(&self) -> impl Iterator<Item = &Device> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Number of members: the world size of a trial with one process per device.
    pub fn size(&self) -> usize {
        1 + self.others.len()
    }

    /// Whether it has a single member.
    pub fn is_single(&self) -> bool {
        self.others.is_empty()
    }

    /// Whether a device is a member.
    pub fn contains(&self, device: &Device) -> bool {
        self.members().any(|member| member == device)
    }

    /// The name of its first agent, if it is on other machines.
    pub fn agent(&self) -> Option<&str> {
        self.first.agent()
    }

    /// Whether a member is a device of this agent.
    pub fn is_on(&self, agent: &str) -> bool {
        self.members().any(|member| member.agent() == Some(agent))
    }

    /// Its agents in order: several with `nodes_per_trial`. The first is node 0.
    pub fn agents(&self) -> Vec<&str> {
        let mut agents: Vec<&str> = Vec::new();
        for agent in self.members().filter_map(Device::agent) {
            if !agents.contains(&agent) {
                agents.push(agent);
            }
        }
        agents
    }

    /// The members on one agent; `None` if there are none.
    #[must_use]
    pub fn part_of(&self, agent: &str) -> Option<DeviceGroup> {
        let own = self.members().filter(|member| member.agent() == Some(agent));
        DeviceGroup::of(own.cloned())
    }

    /// The same devices, of an agent.
    #[must_use]
    pub fn on(&self, agent: &str) -> DeviceGroup {
        self.map(|device| device.on(agent))
    }

    /// The devices as their own machine names them.
    #[must_use]
    pub fn local(&self) -> DeviceGroup {
        self.map(|device| device.local().clone())
    }

    fn map(&self, change: impl Fn(&Device) -> Device) -> DeviceGroup {
        DeviceGroup { first: change(&self.first), others: self.others.iter().map(change).collect() }
    }

    /// Its members without repetition.
    pub fn distinct(&self) -> BTreeSet<&Device> {
        self.members().collect()
    }
}

impl From<Device> for DeviceGroup {
    fn from(device: Device) -> Self {
        DeviceGroup { first: device, others: Vec::new() }
    }
}

impl fmt::Display for DeviceGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.others.iter().try_for_each(|device| write!(f, "+{device}"))
    }
}

impl FromStr for DeviceGroup {
    type Err = UnknownDevice;

    fn from_str(names: &str) -> Result<Self, UnknownDevice> {
        let mut members = names.split('+').map(Device::from_str);
        let unknown = || Err(UnknownDevice { name: names.to_owned() });
        let first = members.next().unwrap_or_else(unknown)?;
        Ok(DeviceGroup { first, others: members.collect::<Result<_, _>>()? })
    }
}

impl TryFrom<String> for DeviceGroup {
    type Error = UnknownDevice;

    fn try_from(names: String) -> Result<Self, UnknownDevice> {
        names.parse()
    }
}

impl From<DeviceGroup> for String {
    fn from(group: DeviceGroup) -> Self {
        group.to_string()
    }
}

/// Capacity for one trial at a time: slot 1 of `cuda:0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Index among all slots of the run, from 0.
    pub index: usize,
    /// The devices it is on.
    #[serde(rename = "device")]
    pub devices: DeviceGroup,
}

impl Slot {
    /// A slot on a device, or on a group.
    pub fn on(index: usize, devices: impl Into<DeviceGroup>) -> Self {
        Slot { index, devices: devices.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_written_with_plus_signs_and_read_back() {
        for text in ["cpu", "cuda:0+cuda:1", "cpu+cpu+cpu", "sim:3"] {
            let group: DeviceGroup = text.parse().unwrap();
            assert_eq!(group.to_string(), text);
            let json = serde_json::to_string(&Slot::on(2, group.clone())).unwrap();
            assert_eq!(json, format!(r#"{{"index":2,"device":"{text}"}}"#));
            assert_eq!(serde_json::from_str::<Slot>(&json).unwrap(), Slot::on(2, group));
        }
        let there: DeviceGroup = "n/cuda:0+n/cuda:1".parse().unwrap();
        assert_eq!((there.agent(), there.local().to_string()), (Some("n"), "cuda:0+cuda:1".into()));
        assert_eq!(there.local().on("n"), there);
        let two: DeviceGroup = "a/cuda:0+a/cuda:1+b/cuda:0+b/cuda:1".parse().unwrap();
        assert_eq!((two.agents(), two.is_on("b"), two.is_on("c")), (vec!["a", "b"], true, false));
        assert_eq!(two.part_of("b").unwrap().local().to_string(), "cuda:0+cuda:1");
        assert_eq!(two.part_of("c"), None);
        for text in ["", "+", "cpu+", "cuda:0,cuda:1"] {
            assert!(text.parse::<DeviceGroup>().is_err(), "{text}");
        }
        let group: DeviceGroup = "cpu+cpu".parse().unwrap();
        assert_eq!((group.size(), group.distinct().len(), group.is_single()), (2, 1, false));
        assert!(group.contains(&Device::Cpu) && !group.contains(&Device::Sim(0)));
        assert_eq!(DeviceGroup::of([]), None);
    }

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
