//! What is known of NVIDIA GPUs, as plain data, and which of them CUDA shows to this process.

use super::Memory;
use super::visible::{Nameable, visible};

/// Why GPUs cannot be listed, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGpus {
    /// There is no driver here: the common case, and no trouble.
    #[error("no NVIDIA driver is installed (libnvidia-ml.so.1 is not there)")]
    NoDriver,
    /// This binary cannot ask.
    #[error("this binary was built without `nvml`")]
    NotBuilt,
    /// There is one, and it does not answer.
    #[error("the NVIDIA driver does not answer: {0}")]
    Trouble(String),
}

/// A process that a GPU holds memory for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its id, as the driver counts: another one than here if this is a container.
    pub pid: u32,
    /// Bytes; `None` where the driver does not tell.
    pub memory: Option<u64>,
}

/// One GPU at one moment. What a GPU does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    /// Its number for the driver.
    pub index: u32,
    /// Its number for CUDA in this process, `cuda:N`; `None` if CUDA_VISIBLE_DEVICES hides it.
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
    /// Share of the last moments in which something ran on it, from 0 to 1.
    pub utilisation: Option<f64>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Watts.
    pub power: Option<f64>,
    /// Watts that it may take.
    pub power_limit: Option<f64>,
    /// UUIDs of its parts, where MIG splits it.
    pub parts: Vec<String>,
    /// Who computes on it.
    pub processes: Vec<GpuProcess>,
    /// Why trials cannot use it.
    pub trouble: Option<String>,
}

/// Gives the GPUs their numbers for CUDA; `visible_devices` is the value of CUDA_VISIBLE_DEVICES.
pub fn number(gpus: &mut [Gpu], visible_devices: Option<&str>) {
    let nameable: Vec<Nameable> = gpus.iter().map(|gpu| Nameable { uuid: gpu.uuid.clone(), parts: gpu.parts.clone() }).collect();
    for (cuda, index) in (0..).zip(visible(&nameable, visible_devices)) {
        if let Some(gpu) = gpus.get_mut(index) {
            gpu.cuda = gpu.cuda.or(Some(cuda));
        }
    }
    for gpu in gpus {
        if gpu.cuda.is_none() && gpu.trouble.is_none() {
            gpu.trouble = Some("hidden by CUDA_VISIBLE_DEVICES".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u32, uuid: &str) -> Gpu {
        Gpu { index, uuid: uuid.to_owned(), ..Gpu::default() }
    }

    #[test]
    fn hidden_gpus_say_what_hides_them() {
        let mut gpus = [gpu(0, "GPU-a1"), gpu(1, "GPU-b2"), gpu(2, "GPU-c3")];
        gpus[2].trouble = Some("lost".to_owned());
        number(&mut gpus, Some("1"));
        assert_eq!(gpus.clone().map(|gpu| gpu.cuda), [None, Some(0), None]);
        assert_eq!(gpus.map(|gpu| gpu.trouble), [Some("hidden by CUDA_VISIBLE_DEVICES".to_owned()), None, Some("lost".to_owned())]);
    }
}
