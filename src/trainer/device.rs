//! Device names and what they stand for: one line per backend.

use burn::tensor::{Device, Tensor};

use super::TrainerError;
use super::fused;
use super::optimiser::Place;
use super::parameters::host;
use super::precision;
use crate::arguments::TrainerArguments;

/// A backend: the word devices begin with, whether this binary has it, and its devices.
struct Backend {
    name: &'static str,
    built: bool,
    count: fn() -> usize,
    open: fn(usize) -> Option<Device>,
}

const BACKENDS: &[Backend] = &[
    Backend { name: "cpu", built: true, count: || 1, open: |_| Some(Device::flex()) },
    Backend { name: "ndarray", built: cfg!(feature = "ndarray"), count: || usize::from(cfg!(feature = "ndarray")), open: ndarray },
    Backend { name: "cuda", built: cfg!(feature = "cuda"), count: cuda_count, open: cuda },
    Backend { name: "wgpu", built: cfg!(feature = "wgpu"), count: wgpu_count, open: wgpu },
];

/// The devices this binary can use on this machine: `cpu`, `cuda:0`, ...
#[must_use]
pub fn available_devices() -> Vec<String> {
    let names = |backend: &Backend| match backend.name {
        name @ ("cuda" | "wgpu") => (0..(backend.count)()).map(|index| format!("{name}:{index}")).collect(),
        name => vec![name.to_owned(); (backend.count)()],
    };
    BACKENDS.iter().flat_map(names).collect()
}

/// GPUs as their drivers for Vulkan or Metal know them: the names of devices, and what they are.
#[must_use]
pub fn further_devices() -> Vec<(String, String)> {
    #[cfg(feature = "wgpu")]
    {
        let what = |device: &Device| device.identity().map_or_else(|| "a GPU".to_owned(), |identity| identity.name);
        (0..wgpu_count()).filter_map(|index| Some((format!("wgpu:{index}"), what(&wgpu(index)?)))).collect()
    }
    #[cfg(not(feature = "wgpu"))]
    Vec::new()
}

/// Whether `name` is a device that can be used here.
///
/// # Errors
/// [`TrainerError::Device`]: an unknown word, a backend this binary was built without, or an index that does not exist.
pub fn check_device(name: &str) -> Result<(), TrainerError> {
    open(name).map(|_| ())
}

/// Computes a little on the device called `name`, so that what it lacks is said before a trial needs it.
///
/// # Errors
/// As [`check_device`]; a device that fails, computes what is wrong, or does not have the numbers that `arguments` want. Some fail by a
/// panic, in threads of their own.
pub fn try_device(name: &str, arguments: &TrainerArguments) -> Result<(), TrainerError> {
    let device = open(name)?;
    precision::of(arguments, name, &device)?;
    let ones = || Tensor::<2>::ones([8, 8], &device);
    let found = host(ones().matmul(ones()) * 0.5)?;
    if found.iter().all(|number| *number == 4.0) {
        return Ok(());
    }
    Err(TrainerError::DeviceLost { message: format!("`{name}` computes what is wrong: {:?} where 4 is expected", &found[..1]) })
}

/// The device called `name`, without autodiff. Never `Device::default()`: that is the GPU whenever its backend is compiled in.
pub(super) fn open(name: &str) -> Result<Device, TrainerError> {
    let (word, index) = name.split_once(':').map_or((name, None), |(word, index)| (word, Some(index)));
    let wrong = |message: String| TrainerError::Device { message };
    let Some(backend) = BACKENDS.iter().find(|backend| backend.name == word) else {
        return Err(wrong(format!("unknown device `{name}`: devices here are {}", available_devices().join(", "))));
    };
    if !backend.built {
        return Err(wrong(format!("device `{name}`: this binary was built without it; build with `--features {word}`")));
    }
    let index = match (word, index) {
        (_, None) => Some(0),
        ("cuda" | "wgpu", Some(index)) => index.parse().ok(),
        (_, Some(_)) => None,
    };
    let count = (backend.count)();
    if (word, count) == ("cuda", 0) {
        let message = "CUDA finds no GPU here: NVIDIA's driver must be installed whole (libcuda; in containers the capability `compute`)";
        return Err(wrong(message.to_owned()));
    }
    let found = index.filter(|index| *index < count).and_then(backend.open);
    found.ok_or_else(|| wrong(format!("there is no device `{name}` on this machine: devices here are {}", available_devices().join(", "))))
}

/// Where optimiser steps are best made for the device called `name`.
pub(super) fn optimiser_place(name: &str) -> Place {
    match name {
        "cpu" if fused::are_left_out() => Place::Device,
        "cpu" => Place::Own,
        "ndarray" => Place::Host,
        _ => Place::Device,
    }
}

#[cfg(feature = "ndarray")]
#[expect(deprecated, reason = "burn-ndarray is deprecated upstream; it stays an opt-in of one line")]
fn ndarray(_: usize) -> Option<Device> {
    Some(Device::ndarray())
}

#[cfg(not(feature = "ndarray"))]
fn ndarray(_: usize) -> Option<Device> {
    None
}

#[cfg(feature = "cuda")]
fn cuda_count() -> usize {
    Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec().len()
}

#[cfg(not(feature = "cuda"))]
fn cuda_count() -> usize {
    0
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Option<Device> {
    Some(Device::cuda(index))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: usize) -> Option<Device> {
    None
}

#[cfg(feature = "wgpu")]
fn wgpu_count() -> usize {
    Device::enumerate(burn::tensor::DeviceType::Wgpu).into_vec().len()
}

#[cfg(not(feature = "wgpu"))]
fn wgpu_count() -> usize {
    0
}

#[cfg(feature = "wgpu")]
fn wgpu(index: usize) -> Option<Device> {
    Device::enumerate(burn::tensor::DeviceType::Wgpu).into_vec().into_iter().nth(index)
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(_: usize) -> Option<Device> {
    None
}

/// Keeps compiled kernels, and which of them are fastest, in a directory: for all processes that are told the same, and from one run to the
/// next. To be called before anything is computed; what a `cubecl.toml` above the working directory says about anything else stays.
///
/// The directory holds one database that several processes may use at once (its log is written ahead). Where it cannot be written,
/// each process keeps what it compiles for itself. Without the feature `gpu` there is nothing to keep.
pub fn keep_kernels(directory: &std::path::Path) {
    #[cfg(feature = "gpu")]
    {
        use burn::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig as _, cache::CacheConfig};
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        config.environment.path = CacheConfig::Directory(directory.to_owned());
        config.compilation.cache = true;
        // Told twice, the first word counts.
        let _already_told = CubeClRuntimeConfig::try_set(config);
    }
    #[cfg(not(feature = "gpu"))]
    let _ = directory;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "gpu")]
    fn kernels_are_kept_where_that_was_said() {
        let directory = tempfile::tempdir().unwrap();
        keep_kernels(directory.path());
        assert_eq!(burn::cubecl::environment::root(), directory.path());
    }

    #[test]
    fn unknown_and_missing_devices_are_named_with_what_there_is() {
        check_device("cpu").unwrap();
        try_device("cpu", &TrainerArguments::resolve(&std::collections::BTreeMap::new()).unwrap()).unwrap();
        assert!(check_device("tpu").unwrap_err().to_string().contains("devices here are cpu"));
        assert!(check_device("cpu:1").is_err());
        assert!(check_device("cuda:99").is_err());
        assert!(available_devices().contains(&"cpu".to_owned()));
    }
}
