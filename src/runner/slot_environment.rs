//! The environment of a trial's processes: their devices, their threads, and in a group the place
//! where they find each other.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use crate::engine::GroupNode;
use crate::storage::paths;
use crate::study::device::{Device, DeviceGroup, Slot};

/// Where the processes of a group meet.
const ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Variables of one process of a group, which no launcher may inherit.
pub const RANKS: [&str; 2] = ["RANK", "LOCAL_RANK"];

/// The ports that are given to groups: below those that Linux gives to connections (from 32768 on),
/// so that none of these takes the port before the group listens on it.
pub const PORTS: Range<u16> = 20_000..32_768;

/// A TCP port at which the processes of a group meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port(u16);

/// The ports of a run's groups, by slot.
#[derive(Debug)]
pub(super) struct Ports {
    next: u16,
    taken: BTreeMap<usize, Port>,
}

impl Ports {
    /// Of the run of this process; runs at the same time begin at different ports.
    pub(super) fn of_run(pid: u32) -> Self {
        let run = u16::try_from(pid % 797).unwrap_or(0);
        Ports { next: PORTS.start + run * 16, taken: BTreeMap::new() }
    }

    /// A free port for the next attempt on a slot, that no other slot has: its group may not listen
    /// yet.
    pub(super) fn take(&mut self, slot: usize) -> io::Result<Port> {
        self.taken.remove(&slot);
        for _ in PORTS {
            let port = Port(self.next);
            self.next = if self.next + 1 < PORTS.end { self.next + 1 } else { PORTS.start };
            let is_free = self.taken.values().all(|taken| *taken != port);
            if is_free && TcpListener::bind((ADDRESS, port.0)).is_ok() {
                self.taken.insert(slot, port);
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}

/// The device's name inside a process that sees only this device.
pub fn inside(device: &Device) -> Device {
    match device {
        Device::Cuda(_) => Device::Cuda(0),
        other => other.clone(),
    }
}

/// The environment of a process on this slot.
pub(super) fn slot_environment(slot: &Slot, threads: u32) -> BTreeMap<String, String> {
    let threads = threads.to_string();
    let names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"];
    let mut environment: BTreeMap<String, String> =
        names.into_iter().map(|name| (name.to_owned(), threads.clone())).collect();
    environment.insert("PYTHONUNBUFFERED".to_owned(), "1".to_owned());
    environment.extend(gpu_environment(&slot.devices));
    environment
}

/// The variables that restrict a process to its GPUs.
pub fn gpu_environment(devices: &DeviceGroup) -> BTreeMap<String, String> {
    let said: &[(&str, String)] = match devices.first() {
        Device::Cuda(_) => {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            let physical = devices.members().filter_map(|device| match device {
                Device::Cuda(index) => Some(physical_gpu(*index, visible.as_deref())),
                _ => None,
            });
            &[
                ("CUDA_VISIBLE_DEVICES", physical.collect::<Vec<_>>().join(",")),
                ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
            ]
        }
        Device::Cpu | Device::Ndarray => &[("CUDA_VISIBLE_DEVICES", String::new())],
        Device::Wgpu(_) | Device::Sim(_) | Device::Remote(_) => &[],
    };
    said.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// Variables of the built-in trainer's processes: where CUDA's driver keeps what it compiles of the
/// trainer's kernels for the GPU at hand, beside the kernels. Otherwise each process may compile
/// them again, for up to 20 s. What the user has set stays.
pub(super) fn driver_cache() -> BTreeMap<String, String> {
    let given = |name: &str| std::env::var(name).ok();
    let kernels = paths::kernel_cache(given("XDG_CACHE_HOME").as_deref(), given("HOME").as_deref());
    let (Some(kernels), None) = (kernels, given("CUDA_CACHE_PATH")) else {
        return BTreeMap::new();
    };
    // The default size is soon full.
    let size = given("CUDA_CACHE_MAXSIZE").unwrap_or_else(|| (4_u64 << 30).to_string());
    BTreeMap::from([
        ("CUDA_CACHE_PATH".to_owned(), kernels.join("driver").display().to_string()),
        ("CUDA_CACHE_MAXSIZE".to_owned(), size),
    ])
}

/// The part of a group on a single machine, as one node of it.
pub(super) fn single_node(devices: &DeviceGroup, port: Port) -> GroupNode {
    GroupNode {
        rank: 0,
        nodes: 1,
        world_size: devices.size(),
        first_rank: 0,
        address: ADDRESS.to_string(),
        port: port.0,
    }
}

/// Whether nothing listens at a port of this machine.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// The variables from which the processes of a group, or their launcher, know its size and where to
/// meet: those of `torch.distributed`, and the `PET_` ones that are torchrun's defaults.
pub(super) fn group_environment(
    devices: &DeviceGroup,
    node: &GroupNode,
) -> BTreeMap<String, String> {
    let (local, world) = (devices.size().to_string(), node.world_size.to_string());
    let (nodes, rank) = (node.nodes.to_string(), node.rank.to_string());
    let (address, port) = (node.address.clone(), node.port.to_string());
    let said = [
        ("WORLD_SIZE", &world),
        ("LOCAL_WORLD_SIZE", &local),
        ("NNODES", &nodes),
        ("NODE_RANK", &rank),
        ("GROUP_RANK", &rank),
        ("GROUP_WORLD_SIZE", &nodes),
        ("MASTER_ADDR", &address),
        ("MASTER_PORT", &port),
        ("PET_NNODES", &nodes),
        ("PET_NODE_RANK", &rank),
        ("PET_NPROC_PER_NODE", &local),
        ("PET_MASTER_ADDR", &address),
        ("PET_MASTER_PORT", &port),
    ];
    said.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// The variables of one process of a group.
pub fn rank_environment(rank: usize, local_rank: usize) -> [(&'static str, String); 2] {
    let [global, local] = RANKS;
    [(global, rank.to_string()), (local, local_rank.to_string())]
}

/// The system's name of our GPU `index`: CUDA_VISIBLE_DEVICES of this process may have renumbered
/// it.
fn physical_gpu(index: u32, visible: Option<&str>) -> String {
    let entry = |visible: &str| {
        usize::try_from(index)
            .ok()
            .and_then(|index| visible.split(',').nth(index))
            .map(|entry| entry.trim().to_owned())
    };
    let chosen = visible.and_then(entry).filter(|entry| !entry.is_empty());
    chosen.unwrap_or_else(|| index.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_process_sees_its_own_device_and_no_other() {
        let seen = |device: Device| {
            slot_environment(&Slot::on(0, device), 3).remove("CUDA_VISIBLE_DEVICES")
        };
        let none = Some(String::new());
        let devices = [Device::Cpu, Device::Ndarray, Device::Sim(1)];
        assert_eq!(devices.map(seen), [none.clone(), none, None]);
        let environment = slot_environment(&Slot::on(4, Device::Cuda(2)), 3);
        let of = |name: &str| environment[name].as_str();
        assert_eq!([of("CUDA_DEVICE_ORDER"), of("OMP_NUM_THREADS")], ["PCI_BUS_ID", "3"]);
        // Inside, its index is 0 whatever it is outside.
        let outside = [Device::Cuda(2), Device::Cpu];
        assert_eq!(outside.map(|device| inside(&device)), [Device::Cuda(0), Device::Cpu]);
        let cases = [
            (2, None, "2"),
            (0, Some("3,1"), "3"),
            (1, Some(" 3 , GPU-5f "), "GPU-5f"),
            (1, Some("MIG-11,MIG-22"), "MIG-22"),
            // No such device: the driver will report it.
            (5, Some("3,1"), "5"),
        ];
        for (index, visible, expected) in cases {
            assert_eq!(physical_gpu(index, visible), expected, "{index} of {visible:?}");
        }
    }

    #[test]
    fn a_group_sees_its_gpus_and_knows_its_size_and_where_to_meet() {
        let group: DeviceGroup = "cuda:2+cuda:5".parse().unwrap();
        let environment = slot_environment(&Slot::on(0, group.clone()), 1);
        assert_eq!(environment["CUDA_VISIBLE_DEVICES"], "2,5");
        let environment = group_environment(&group, &single_node(&group, Port(29_500)));
        let of = |name: &str| environment[name].as_str();
        assert_eq!([of("WORLD_SIZE"), of("PET_NPROC_PER_NODE")], ["2", "2"]);
        assert_eq!([of("NNODES"), of("NODE_RANK")], ["1", "0"]);
        assert_eq!([of("MASTER_ADDR"), of("MASTER_PORT")], ["127.0.0.1", "29500"]);
        assert!(!environment.contains_key("RANK"), "a launcher has no rank");
    }

    #[test]
    fn a_free_port_is_none_that_another_group_has_or_another_program() {
        let mut ports = Ports::of_run(u32::MAX);
        let mut given = BTreeSet::new();
        for slot in 0..64 {
            let port = ports.take(slot).unwrap();
            assert!(given.insert(port) && PORTS.contains(&port.0), "{port:?}");
        }
        let last = ports.take(0).unwrap();
        ports.next = last.0;
        assert_ne!(ports.take(1).unwrap(), last);
        let listener = TcpListener::bind((ADDRESS, 0)).unwrap();
        ports.next = listener.local_addr().unwrap().port();
        assert_ne!(ports.take(2).unwrap(), Port(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn ports_are_taken_from_the_start_again_after_the_last() {
        let mut ports = Ports { next: PORTS.end - 1, taken: BTreeMap::new() };
        ports.take(0).unwrap();
        assert!(ports.next < PORTS.end);
    }
}
