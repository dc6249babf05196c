//! Creates the slots: the `[devices]` table against this machine's devices.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::failure_cause::advice;
use super::slot_environment::{inside, slot_environment};
use super::worker_job::{self, JobError};
use crate::runner::monitor::gpu::GpuProcess;
use crate::runner::monitor::{Gpu, NoGpus, gibibytes, gpus};
use crate::runner::protocol::WorkerJob;
use crate::study::device::{Device, DeviceGroup, Slot, UnknownDevice};
use crate::study::program::Program;
use crate::study::spec::{DevicesSpec, PerTrial};

/// The devices of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineDevices {
    /// CPU cores available to this process.
    pub cores: u32,
    /// NVIDIA GPUs visible to this process.
    pub gpus: u32,
    /// GPUs with a driver for Vulkan or Metal; `None` if not queried.
    pub wgpu: Option<u32>,
}

/// Why no slots could be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotsError {
    /// A name that is not a device.
    #[error(transparent)]
    Unknown(#[from] UnknownDevice),
    /// A missing GPU.
    #[error("`{name}` is not on this machine: {found}; `hpsearch devices` lists what is")]
    Absent {
        /// As written.
        name: String,
        /// The devices found.
        found: String,
    },
    /// GPUs that the trainer cannot use.
    #[error("{why}")]
    Unusable {
        /// Each GPU and what failed on it, a line each.
        why: String,
    },
    /// A backend missing from this build.
    #[error(
        "`{name}` needs an hpsearch built with `--features {feature}`; `hpsearch devices` lists \
         what this one can use"
    )]
    NotBuilt {
        /// As written.
        name: String,
        /// The cargo feature.
        feature: &'static str,
    },
    /// Fewer devices than `per_trial`.
    #[error(
        "`per_trial = {wanted}` needs {wanted} devices, and `use` in [devices] selects {found}: \
         select more, or write per_trial = \"auto\" for all of them"
    )]
    TooFew {
        /// Devices per trial.
        wanted: u32,
        /// The number selected, and their names.
        found: String,
    },
    /// Devices of different kinds for groups.
    #[error(
        "`per_trial` makes groups of devices of one kind, and `use` in [devices] selects {found}: \
         select one kind"
    )]
    Mixed {
        /// Their names.
        found: String,
    },
}

impl MachineDevices {
    /// Detects the devices of the selected kinds.
    pub fn detect(select: &[String]) -> Self {
        let cores = std::thread::available_parallelism()
            .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
        let asked = cfg!(feature = "wgpu") && select.iter().any(|name| name.starts_with("wgpu:"));
        let found = asked.then(wgpu_devices).and_then(Result::ok);
        let wgpu = found.and_then(|found| u32::try_from(found.len()).ok());
        MachineDevices { cores, gpus: visible_gpus(), wgpu }
    }
}

/// Tests each GPU assigned to trials of the trainer, in a separate process, before any trial
/// starts. Unusable GPUs are left out, and with `use = "auto"` the CPU replaces the last of them;
/// the substitutions are returned.
///
/// # Errors
/// [`SlotsError::Unusable`]: no device requested by name works.
pub fn tried(
    places: Vec<Slot>,
    spec: &DevicesSpec,
    program: &Program,
) -> Result<(Vec<Slot>, Vec<String>), SlotsError> {
    let devices = places.iter().map(|slot| slot.devices.first());
    let gpus: BTreeSet<&Device> =
        devices.filter(|device| matches!(device, Device::Cuda(_) | Device::Wgpu(_))).collect();
    let Program::Trainer { arguments, .. } = program else { return Ok((places, Vec::new())) };
    if gpus.is_empty() {
        return Ok((places, Vec::new()));
    }
    let short: BTreeMap<String, serde_json::Value> = arguments
        .iter()
        .filter(|(name, _)| ["bf16", "fp16"].contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let attempt = |device: &Device| {
        let slot = Slot::on(0, device.clone());
        let job = WorkerJob::TryDevice { device: inside(device), arguments: short.clone() };
        let environment = slot_environment(&slot, spec.cpu_threads);
        match worker_job::run(job, &environment, &mut |_| ControlFlow::Continue(())) {
            Err(error @ JobError::Failed(_)) => Some((device.clone(), error.to_string())),
            // A full device, or a killed test, may work when trials start.
            Ok(_) | Err(_) => None,
        }
    };
    let silent = |device: &Device| Some((device.clone(), "querying it panicked".to_owned()));
    let troubles: Vec<(Device, String)> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            gpus.iter().map(|device| (*device, scope.spawn(|| attempt(device)))).collect();
        asked
            .into_iter()
            .filter_map(|(device, answer)| answer.join().unwrap_or_else(|_| silent(device)))
            .collect()
    });
    without(places, spec, &troubles)
}

/// The slots on working devices. The caller reports the others.
fn without(
    places: Vec<Slot>,
    spec: &DevicesSpec,
    troubles: &[(Device, String)],
) -> Result<(Vec<Slot>, Vec<String>), SlotsError> {
    let why = |(device, words): &(Device, String)| match advice(words) {
        Some(advice) => format!("{device} cannot be used: {words}; {advice}"),
        None => format!("{device} cannot be used: {words}"),
    };
    let devices = places
        .into_iter()
        .map(|slot| slot.devices)
        .filter(|devices| troubles.iter().all(|(other, _)| !devices.contains(other)));
    let mut left: Vec<Slot> =
        devices.enumerate().map(|(index, device)| Slot::on(index, device)).collect();
    let mut said: Vec<String> = troubles.iter().map(why).collect();
    if left.is_empty() {
        if spec.select != ["auto"] {
            return Err(SlotsError::Unusable { why: said.join("\n") });
        }
        let on_cpu = DevicesSpec { select: vec!["cpu".to_owned()], ..spec.clone() };
        left = slots(&on_cpu, &Program::Inline, &MachineDevices::detect(&[]))?;
        said.push("no GPU works: trials run on the CPU".to_owned());
    }
    Ok((left, said))
}

/// The names and kinds of GPUs with a driver for Vulkan or Metal. A separate process queries the
/// drivers, which may crash it.
pub fn wgpu_devices() -> Result<Vec<(String, String)>, JobError> {
    let answer =
        worker_job::run(WorkerJob::Devices, &BTreeMap::new(), &mut |_| ControlFlow::Continue(()))?;
    Ok(answer.and_then(|body| serde_json::from_value(body).ok()).unwrap_or_default())
}

/// Remarks about GPUs before trials start: those in use by others, and those in exclusive mode.
pub fn remarks(places: &[Slot]) -> Vec<String> {
    if !places.iter().any(|slot| matches!(slot.devices.first(), Device::Cuda(_))) {
        return Vec::new();
    }
    let found = gpus(std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref());
    found.iter().flatten().flat_map(|gpu| remarks_on(gpu, places)).collect()
}

fn remarks_on(gpu: &Gpu, places: &[Slot]) -> Vec<String> {
    let Some(index) = gpu.cuda else { return Vec::new() };
    let here = places.iter().filter(|slot| slot.devices.contains(&Device::Cuda(index))).count();
    let mut said = Vec::new();
    if here == 0 {
        return said;
    }
    if let Some(trouble) = &gpu.trouble {
        said.push(format!("cuda:{index}: {trouble}"));
    }
    if gpu.exclusive && here > 1 {
        said.push(format!(
            "cuda:{index} takes one process at a time (its compute mode is `exclusive`), and \
             {here} trials will share it; `nvidia-smi -c 0` allows several, trials_per_device = 1 \
             needs only one"
        ));
    }
    if !gpu.processes.is_empty() {
        let who = |process: &GpuProcess| {
            let memory = process.memory.map(|bytes| format!(" with {:.1} GiB", gibibytes(bytes)));
            format!("process {}{}", process.pid, memory.unwrap_or_default())
        };
        let who: Vec<String> = gpu.processes.iter().map(who).collect();
        said.push(format!(
            "cuda:{index} is already in use, by {}: trials get the remaining memory",
            who.join(", ")
        ));
    }
    said
}

/// NVIDIA GPUs visible to CUDA in this process, from the driver. Without an answer, their device
/// files are counted, restricted by CUDA_VISIBLE_DEVICES if it is set.
fn visible_gpus() -> u32 {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let count = match gpus(visible.as_deref()) {
        Ok(gpus) => gpus.iter().filter(|gpu| gpu.cuda.is_some()).count(),
        Err(NoGpus::NoDriver) => 0,
        Err(NoGpus::NotBuilt | NoGpus::Trouble(_)) => match visible {
            Some(visible) => visible
                .split(',')
                .map(str::trim)
                .take_while(|entry| !entry.is_empty() && *entry != "-1")
                .count(),
            None => (0..1024)
                .take_while(|index| std::path::Path::new(&format!("/dev/nvidia{index}")).exists())
                .count(),
        },
    };
    u32::try_from(count).unwrap_or(0)
}

/// The slots of a study on a machine: the first of each device or group, then the second of each,
/// and so on.
pub fn slots(
    spec: &DevicesSpec,
    program: &Program,
    machine: &MachineDevices,
) -> Result<Vec<Slot>, SlotsError> {
    let mut devices: Vec<Device> = Vec::new();
    for name in &spec.select {
        for device in expand(name, program, machine)? {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
    }
    let groups = match spec.per_trial {
        Some(per_trial) => groups(devices, per_trial, spec, machine)?,
        None => devices.into_iter().map(DeviceGroup::from).collect(),
    };
    let per_group = |group: &DeviceGroup| match (spec.trials_per_device, group.first()) {
        // It starts with one; concurrency is decided at run time.
        _ if spec.automatic_concurrency => 1,
        (Some(count), _) => count.max(1),
        (None, Device::Cpu | Device::Ndarray) => {
            let processes = u32::try_from(group.size()).unwrap_or(u32::MAX);
            (processes_on_cpu(spec, machine) / processes).max(1)
        }
        (None, Device::Cuda(_) | Device::Wgpu(_) | Device::Sim(_) | Device::Remote(_)) => 1,
    };
    let rounds = groups.iter().map(per_group).max().unwrap_or(0);
    let places =
        (0..rounds).flat_map(|round| groups.iter().filter(move |group| round < per_group(group)));
    Ok(places.enumerate().map(|(index, group)| Slot::on(index, group.clone())).collect())
}

/// How many processes of `cpu_threads` the CPU has cores for.
fn processes_on_cpu(spec: &DevicesSpec, machine: &MachineDevices) -> u32 {
    (machine.cores / spec.cpu_threads.max(1)).max(1)
}

/// The selected devices in groups of neighbours; what is left over stays idle. The CPU forms one
/// group, of as many processes as were asked for, or as cores allow.
fn groups(
    devices: Vec<Device>,
    per_trial: PerTrial,
    spec: &DevicesSpec,
    machine: &MachineDevices,
) -> Result<Vec<DeviceGroup>, SlotsError> {
    let names = || devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let kind = std::mem::discriminant::<Device>;
    if devices.iter().any(|device| kind(device) != kind(&devices[0])) {
        return Err(SlotsError::Mixed { found: names() });
    }
    if let [device @ (Device::Cpu | Device::Ndarray)] = devices.as_slice() {
        let processes = match per_trial {
            PerTrial::Count(count) => count,
            PerTrial::Auto => processes_on_cpu(spec, machine),
        };
        let members = (0..processes).map(|_| device.clone());
        return Ok(DeviceGroup::of(members).into_iter().collect());
    }
    let size = match per_trial {
        PerTrial::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
        PerTrial::Auto => devices.len(),
    };
    if let (PerTrial::Count(wanted), true) = (per_trial, devices.len() < size) {
        let found = match devices.len() {
            1 => format!("1: {}", names()),
            count => format!("{count}: {}", names()),
        };
        return Err(SlotsError::TooFew { wanted, found });
    }
    let groups = devices.chunks_exact(size.max(1));
    Ok(groups.filter_map(|members| DeviceGroup::of(members.iter().cloned())).collect())
}

/// A sentence about selected devices that no group includes.
pub fn left_over(
    spec: &DevicesSpec,
    program: &Program,
    machine: &MachineDevices,
) -> Option<String> {
    let Some(PerTrial::Count(size)) = spec.per_trial else { return None };
    let ungrouped = DevicesSpec {
        per_trial: None,
        trials_per_device: Some(1),
        automatic_concurrency: false,
        ..spec.clone()
    };
    let selected = slots(&ungrouped, program, machine).ok()?;
    let grouped = slots(spec, program, machine).ok()?;
    let is_idle =
        |slot: &&Slot| grouped.iter().all(|of| !of.devices.contains(slot.devices.first()));
    let idle: Vec<String> =
        selected.iter().filter(is_idle).map(|slot| slot.devices.to_string()).collect();
    let verb = if idle.len() == 1 { "stays" } else { "stay" };
    (!idle.is_empty()).then(|| {
        format!("{} {verb} idle: {} devices make groups of {size}", idle.join(", "), selected.len())
    })
}

fn expand(
    name: &str,
    program: &Program,
    machine: &MachineDevices,
) -> Result<Vec<Device>, SlotsError> {
    let needs = |feature: &'static str, is_built: bool| match program {
        Program::Trainer { .. } if !is_built => {
            Err(SlotsError::NotBuilt { name: name.to_owned(), feature })
        }
        _ => Ok(()),
    };
    let needs_cuda = || needs("cuda", cfg!(feature = "cuda"));
    let no_cuda = || absent(name, machine.gpus, "no NVIDIA GPU is visible", "");
    let all_gpus = || (0..machine.gpus).map(Device::Cuda).collect::<Vec<_>>();
    match name {
        "auto" if machine.gpus > 0 && needs_cuda().is_ok() => return Ok(all_gpus()),
        "auto" => return Ok(vec![Device::Cpu]),
        "cuda:*" => {
            needs_cuda()?;
            return if machine.gpus > 0 { Ok(all_gpus()) } else { Err(no_cuda()) };
        }
        _ => {}
    }
    if let Some((first, last)) = name.strip_prefix("sim:").and_then(|range| range.split_once(".."))
    {
        let bounds = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
        let (first, last) = bounds.ok_or_else(|| UnknownDevice { name: name.to_owned() })?;
        return Ok((first..=last).map(Device::Sim).collect());
    }
    let device: Device = name.parse()?;
    match &device {
        Device::Cuda(_) => needs_cuda()?,
        Device::Ndarray => needs("ndarray", cfg!(feature = "ndarray"))?,
        Device::Wgpu(_) => needs("wgpu", cfg!(feature = "wgpu"))?,
        Device::Cpu | Device::Sim(_) => {}
        // Files and options name devices of their own machine.
        Device::Remote(_) => return Err(UnknownDevice { name: name.to_owned() }.into()),
    }
    match (&device, machine.wgpu) {
        (Device::Cuda(index), _) if *index >= machine.gpus => Err(no_cuda()),
        (Device::Wgpu(index), Some(count)) if *index >= count => {
            let which = " with a driver for Vulkan or Metal";
            Err(absent(name, count, "no GPU here has a driver for Vulkan or Metal", which))
        }
        _ => Ok(vec![device]),
    }
}

/// `count`: how many of which kind exist; `none`: the message without any.
fn absent(name: &str, count: u32, none: &str, which: &str) -> SlotsError {
    let backend = name.split(':').next().unwrap_or(name);
    let found = match count {
        0 => none.to_owned(),
        1 => format!("the only GPU{which} is {backend}:0"),
        count => format!("the GPUs{which} are {backend}:0 to {backend}:{}", count - 1),
    };
    SlotsError::Absent { name: name.to_owned(), found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: u32, gpus: u32) -> MachineDevices {
        MachineDevices { cores, gpus, wgpu: None }
    }

    /// The devices of the slots, without the trainer and with one thread per trial.
    fn names(
        select: &str,
        per_device: Option<u32>,
        machine: &MachineDevices,
    ) -> Result<String, SlotsError> {
        let spec = DevicesSpec {
            select: select.split(' ').map(str::to_owned).collect(),
            trials_per_device: per_device,
            cpu_threads: 1,
            ..DevicesSpec::default()
        };
        slots(&spec, &Program::Inline, machine).map(|slots| devices(&slots))
    }

    fn devices(slots: &[Slot]) -> String {
        assert!(slots.iter().enumerate().all(|(index, slot)| slot.index == index));
        slots.iter().map(|slot| slot.devices.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn gpus_that_do_not_work_are_left_out_and_said() {
        let of = |select: &str, troubles: &[(Device, &str)]| {
            let select = select.split(' ').map(str::to_owned).collect();
            let spec = DevicesSpec { select, ..DevicesSpec::default() };
            let troubles: Vec<_> =
                troubles.iter().map(|(device, words)| (device.clone(), (*words).into())).collect();
            let places = slots(&spec, &Program::Inline, &machine(2, 2)).unwrap();
            without(places, &spec, &troubles).map(|(places, said)| (devices(&places), said))
        };
        let (places, said) =
            of("cuda:* cpu", &[(Device::Cuda(0), "CUDA_ERROR_NO_DEVICE")]).unwrap();
        assert_eq!(places, "cuda:1 cpu cpu");
        assert_eq!(
            said,
            ["cuda:0 cannot be used: CUDA_ERROR_NO_DEVICE; no GPU is visible to it: `hpsearch \
                 devices` says why"]
        );
        let both = [(Device::Cuda(0), "words"), (Device::Cuda(1), "others")];
        assert_eq!(
            of("cuda:*", &both).unwrap_err().to_string(),
            "cuda:0 cannot be used: words\ncuda:1 cannot be used: others"
        );
        let (places, said) = of("auto", &both).unwrap();
        assert!(places.split(' ').all(|place| place == "cpu"), "{places}");
        assert_eq!(said[2], "no GPU works: trials run on the CPU");
    }

    #[test]
    fn devices_take_turns_and_have_as_many_slots_as_was_said_or_as_cores_allow() {
        for (select, per_device, (cores, gpus), expected) in [
            ("sim:0..2", Some(2), (2, 0), "sim:0 sim:1 sim:2 sim:0 sim:1 sim:2"),
            ("auto", None, (3, 0), "cpu cpu cpu"),
            ("auto", None, (3, 2), "cuda:0 cuda:1"),
            ("cpu cuda:*", Some(2), (8, 2), "cpu cuda:0 cuda:1 cpu cuda:0 cuda:1"),
            ("cuda:0 cpu", None, (3, 1), "cuda:0 cpu cpu cpu"),
        ] {
            let found = names(select, per_device, &machine(cores, gpus)).unwrap();
            assert_eq!(found, expected, "{select} on {cores} cores and {gpus} GPUs");
        }
        let shared = DevicesSpec { automatic_concurrency: true, ..DevicesSpec::default() };
        let found = slots(&shared, &Program::Inline, &machine(8, 0)).unwrap();
        assert_eq!(devices(&found), "cpu", "one that shares itself out begins with one trial");
    }

    #[test]
    fn who_else_is_on_a_gpu_is_said_before_trials_begin_there() {
        let place = |(index, device)| Slot::on(index, device);
        let devices = [Device::Cuda(1), Device::Cuda(1), Device::Cpu];
        let places: Vec<Slot> = devices.into_iter().enumerate().map(place).collect();
        let free = Gpu { cuda: Some(1), ..Gpu::default() };
        assert!(remarks_on(&free, &places).is_empty());
        let others = [(77, Some(3 << 30)), (78, None)];
        let processes = others.map(|(pid, memory)| GpuProcess { pid, memory }).to_vec();
        let shared = Gpu { processes, ..free.clone() };
        assert_eq!(
            remarks_on(&shared, &places),
            ["cuda:1 is already in use, by process 77 with 3.0 GiB, process 78: trials get \
             the remaining memory"]
        );
        let exclusive = Gpu { exclusive: true, ..free };
        let said = remarks_on(&exclusive, &places);
        assert!(said[0].contains("2 trials will share it; `nvidia-smi -c 0`"), "{said:?}");
        assert!(remarks_on(&exclusive, &places[1..]).is_empty(), "one trial is enough for it");
        // Devices that the study does not use do not matter.
        for cuda in [Some(0), None] {
            assert!(remarks_on(&Gpu { cuda, ..shared.clone() }, &places).is_empty());
        }
    }

    #[test]
    fn an_absent_gpu_says_what_there_is() {
        assert_eq!(
            names("cuda:4", None, &machine(2, 2)).unwrap_err().to_string(),
            "`cuda:4` is not on this machine: the GPUs are cuda:0 to cuda:1; `hpsearch devices` \
             lists what is"
        );
    }
}
