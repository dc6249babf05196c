//! The state of NVIDIA GPUs as plain data, and their visibility to CUDA in this process.

use super::Memory;
use super::visible::{Nameable, visible};

/// Why GPUs cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGpus {
    /// There is no driver: the common case, not a problem.
    #[error("no NVIDIA driver is installed (libnvidia-ml.so.1 is missing)")]
    NoDriver,
    /// This build does not support it.
    #[error("this binary was built without `nvml`")]
    NotBuilt,
    /// The driver does not answer.
    #[error("the NVIDIA driver does not answer: {0}")]
    Trouble(String),
}

/// A process with memory on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its id in the driver's namespace: it differs in a container.
    pub pid: u32,
    /// Bytes; `None` if unknown.
    pub memory: Option<u64>,
}

/// A sample of a GPU. Unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    /// Its index for the driver.
    pub index: u32,
    /// Its index for CUDA in this process, `cuda:N`; `None` if CUDA_VISIBLE_DEVICES hides it.
    pub cuda: Option<u32>,
    /// `NVIDIA H100 80GB HBM3`
    pub name: String,
    /// `GPU-...`
    pub uuid: String,
    /// The driver's version.
    pub driver: String,
    /// `(9, 0)` for Hopper.
    pub compute_capability: Option<(u32, u32)>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// Recent utilisation, from 0 to 1.
    pub utilisation: Option<f64>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Power draw in watts.
    pub power: Option<f64>,
    /// Power limit in watts.
    pub power_limit: Option<f64>,
    /// UUIDs of its MIG instances.
    pub parts: Vec<String>,
    /// Whether it accepts one process at a time (compute mode `exclusive`).
    pub exclusive: bool,
    /// Processes on it.
    pub processes: Vec<GpuProcess>,
    /// Why trials cannot use it.
    pub trouble: Option<String>,
}

/// The driver's facts that determine whether trials can use a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its compute mode.
    pub mode: Mode,
    /// Whether MIG is enabled.
    pub mig: bool,
    /// UUIDs of its MIG instances.
    pub parts: Vec<String>,
    /// The newest CUDA version that the driver supports, encoded: 12040 is 12.4.
    pub cuda: Option<u32>,
    /// Why it does not answer.
    pub silent: Option<Silent>,
}

/// The compute mode of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Any number of processes.
    #[default]
    Shared,
    /// One process at a time.
    Exclusive,
    /// No processes.
    Prohibited,
}

/// Why a GPU does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silent {
    /// It has fallen off the bus.
    Lost,
    /// It must be reset.
    Reset,
    /// The user lacks permission.
    Permission,
    /// Another error, in the driver's words.
    Other(String),
}

/// The oldest CUDA version that a driver must support, encoded. Kernels are compiled for it at run
/// time.
const OLDEST_CUDA: u32 = 12_000;

/// Why trials cannot use a GPU; `None` if they can.
pub fn trouble(said: &Said) -> Option<String> {
    let cuda = |version: u32| format!("{}.{}", version / 1000, version % 1000 / 10);
    let words = match (&said.silent, said.mode) {
        (Some(Silent::Lost), _) => "the GPU has fallen off the bus; restart the machine",
        (Some(Silent::Reset), _) => "the GPU must be reset before it can be used again",
        (Some(Silent::Permission), _) => "this user lacks permission to query it",
        (Some(Silent::Other(words)), _) => words,
        (None, Mode::Prohibited) => {
            "its compute mode is `prohibited`; `nvidia-smi -c 0` allows programs"
        }
        (None, Mode::Exclusive | Mode::Shared) => "",
    };
    if !words.is_empty() {
        return Some(words.to_owned());
    }
    if let Some(version) = said.cuda.filter(|version| *version < OLDEST_CUDA) {
        return Some(format!(
            "its driver serves CUDA {} and older, and {} is needed; install a newer driver",
            cuda(version),
            cuda(OLDEST_CUDA)
        ));
    }
    (said.mig && said.parts.is_empty()).then(|| {
        "MIG is on and it has no parts; `nvidia-smi mig -cgi .. -C` makes some, \
            `nvidia-smi -mig 0` turns MIG off"
            .to_owned()
    })
}

/// Assigns the CUDA indices; `visible_devices` is the value of CUDA_VISIBLE_DEVICES. Each further
/// MIG instance that the variable names is listed as a separate GPU.
pub fn number(gpus: &mut Vec<Gpu>, visible_devices: Option<&str>) {
    let nameable: Vec<Nameable> = gpus
        .iter()
        .map(|gpu| Nameable { uuid: gpu.uuid.clone(), parts: gpu.parts.clone() })
        .collect();
    let mut further: Vec<Gpu> = Vec::new();
    for (cuda, place) in (0..).zip(visible(&nameable, visible_devices)) {
        let Some(gpu) = gpus.get_mut(place.gpu) else { continue };
        let part = place.part.and_then(|part| gpu.parts.get(part)).cloned();
        if gpu.cuda.is_some() {
            further.push(Gpu {
                cuda: Some(cuda),
                uuid: part.unwrap_or_default(),
                parts: Vec::new(),
                ..gpu.clone()
            });
            continue;
        }
        gpu.cuda = Some(cuda);
        // Devices hidden in a GPU with MIG are instances, too.
        gpu.uuid = part.unwrap_or_else(|| gpu.uuid.clone());
    }
    for gpu in gpus.iter_mut() {
        // An unusable GPU has no number for studies, but CUDA counts it.
        if gpu.cuda.is_none() && gpu.trouble.is_none() {
            gpu.trouble = Some("hidden by CUDA_VISIBLE_DEVICES".to_owned());
        }
    }
    gpus.append(&mut further);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u32, uuid: &str) -> Gpu {
        Gpu { index, uuid: uuid.to_owned(), ..Gpu::default() }
    }

    #[test]
    fn hidden_gpus_say_what_hides_them() {
        let mut gpus = vec![gpu(0, "GPU-a1"), gpu(1, "GPU-b2"), gpu(2, "GPU-c3")];
        gpus[2].trouble = Some("lost".to_owned());
        number(&mut gpus, Some("1"));
        assert_eq!(gpus.iter().map(|gpu| gpu.cuda).collect::<Vec<_>>(), [None, Some(0), None]);
        let trouble: Vec<Option<&str>> = gpus.iter().map(|gpu| gpu.trouble.as_deref()).collect();
        assert_eq!(trouble, [Some("hidden by CUDA_VISIBLE_DEVICES"), None, Some("lost")]);
    }

    #[test]
    fn parts_of_a_split_gpu_are_devices_of_their_own() {
        let split = || {
            vec![
                gpu(0, "GPU-a1"),
                Gpu { parts: vec!["MIG-11".to_owned(), "MIG-22".to_owned()], ..gpu(1, "GPU-b2") },
            ]
        };
        let named = |variable: Option<&str>| {
            let mut gpus = split();
            number(&mut gpus, variable);
            gpus.into_iter().map(|gpu| (gpu.cuda, gpu.uuid)).collect::<Vec<_>>()
        };
        let of = |cuda: u32, uuid: &str| (Some(cuda), uuid.to_owned());
        let both = named(Some("MIG-22,GPU-a1,MIG-11"));
        assert_eq!(both, [of(1, "GPU-a1"), of(0, "MIG-22"), of(2, "MIG-11")]);
        assert_eq!(named(Some("MIG-11"))[1], of(0, "MIG-11"));
        assert_eq!(named(None), [of(0, "GPU-a1"), of(1, "GPU-b2")]);
    }

    #[test]
    fn a_gpu_that_cannot_be_used_says_what_to_do() {
        let fine = Said { cuda: Some(12_040), ..Said::default() };
        let cases = [
            (fine.clone(), None),
            (Said { mode: Mode::Exclusive, ..fine.clone() }, None),
            (Said { cuda: None, ..fine.clone() }, None),
            (Said { mig: true, parts: vec!["MIG-11".to_owned()], ..fine.clone() }, None),
            (
                Said { mode: Mode::Prohibited, ..fine.clone() },
                Some("`nvidia-smi -c 0` allows programs"),
            ),
            (
                Said { cuda: Some(11_080), ..fine.clone() },
                Some("serves CUDA 11.8 and older, and 12.0 is needed; install a newer driver"),
            ),
            (
                Said { mig: true, ..fine.clone() },
                Some("MIG is on and it has no parts; `nvidia-smi mig -cgi"),
            ),
            (Said { silent: Some(Silent::Lost), ..fine.clone() }, Some("fallen off the bus")),
            (Said { silent: Some(Silent::Reset), ..fine.clone() }, Some("must be reset")),
            (
                Said { silent: Some(Silent::Permission), ..fine.clone() },
                Some("lacks permission to query it"),
            ),
            (Said { silent: Some(Silent::Other("odd".to_owned())), ..fine }, Some("odd")),
        ];
        for (said, expected) in cases {
            let found = trouble(&said);
            let is_so = match (&found, expected) {
                (Some(found), Some(words)) => found.contains(words),
                (found, words) => found.is_none() && words.is_none(),
            };
            assert!(is_so, "{said:?}: {found:?}");
        }
    }
}
