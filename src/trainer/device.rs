//! Devices by name: one line per backend.

use burn::tensor::{Device, FloatDType, Tensor};

use super::TrainerError;
use super::device_kernels;
use super::fused;
use super::optimiser::Placement;
use super::parameters::host;
use super::precision;
use hpsearch_core::arguments::TrainerArguments;

/// A backend: the prefix of its devices' names, and its devices.
struct Backend {
    name: &'static str,
    count: fn() -> usize,
    open: fn(usize) -> Option<Device>,
}

/// The names of all backends, built or not.
const NAMES: [&str; 4] = ["cpu", "ndarray", "cuda", "wgpu"];

/// The backends that this binary was built with.
const BACKENDS: &[Backend] = &[
    Backend { name: "cpu", count: || 1, open: |_| Some(Device::flex()) },
    #[cfg(feature = "ndarray")]
    Backend { name: "ndarray", count: || 1, open: ndarray },
    #[cfg(feature = "cuda")]
    Backend {
        name: "cuda",
        count: || enumerate(burn::tensor::DeviceType::Cuda).len(),
        open: |index| Some(Device::cuda(index)),
    },
    #[cfg(feature = "wgpu")]
    Backend { name: "wgpu", count: || enumerate(burn::tensor::DeviceType::Wgpu).len(), open: wgpu },
];

/// The devices this binary can use on this machine: `cpu`, `cuda:0`, ...
#[must_use]
pub fn available_devices() -> Vec<String> {
    let names = |backend: &Backend| match backend.name {
        name @ ("cuda" | "wgpu") => {
            (0..(backend.count)()).map(|index| format!("{name}:{index}")).collect()
        }
        name => vec![name.to_owned(); (backend.count)()],
    };
    BACKENDS.iter().flat_map(names).collect()
}

/// The GPUs that Vulkan or Metal report: device names and models.
#[must_use]
pub fn gpu_devices() -> Vec<(String, String)> {
    #[cfg(feature = "wgpu")]
    {
        let what = |device: &Device| {
            device.identity().map_or_else(|| "a GPU".to_owned(), |identity| identity.name)
        };
        enumerate(burn::tensor::DeviceType::Wgpu)
            .iter()
            .enumerate()
            .map(|(index, device)| (format!("wgpu:{index}"), what(device)))
            .collect()
    }
    #[cfg(not(feature = "wgpu"))]
    Vec::new()
}

/// Whether `name` is a device that can be used here.
///
/// # Errors
/// [`TrainerError::Device`]: an unknown word, a backend this binary was built without, or an index
/// that does not exist.
pub fn check_device(name: &str) -> Result<(), TrainerError> {
    open(name).map(|_| ())
}

/// Runs a small computation on the device called `name`, so that its problems are found before a
/// trial needs it.
///
/// # Errors
/// As [`check_device`]; a device that fails, gives wrong results, or lacks the dtypes that
/// `arguments` need. Some devices fail by a panic in threads of their own.
pub fn try_device(name: &str, arguments: &TrainerArguments) -> Result<(), TrainerError> {
    let device = open(name)?;
    precision::compute_dtype(arguments, name, &device)?;
    let ones = || Tensor::<2>::ones([8, 8], &device);
    let product = device_kernels::product(&ones(), &ones(), FloatDType::F32);
    let found = host(product.unwrap_or_else(|| ones().matmul(ones())) * 0.5)?;
    if found.iter().all(|number| *number == 4.0) {
        return Ok(());
    }
    Err(TrainerError::DeviceLost {
        message: format!("`{name}` gives wrong results: {:?} where 4 is expected", &found[..1]),
    })
}

/// The device called `name`, without autodiff. Never `Device::default()`: that is the GPU whenever
/// its backend is compiled in.
pub(super) fn open(name: &str) -> Result<Device, TrainerError> {
    let (word, index) =
        name.split_once(':').map_or((name, None), |(word, index)| (word, Some(index)));
    let wrong = |message: String| TrainerError::Device { message };
    let Some(backend) = BACKENDS.iter().find(|backend| backend.name == word) else {
        return Err(wrong(if NAMES.contains(&word) {
            format!(
                "device `{name}`: this binary was built without it; build with `--features {word}`"
            )
        } else {
            format!("unknown device `{name}`: devices here are {}", available_devices().join(", "))
        }));
    };
    let index = match (word, index) {
        (_, None) => Some(0),
        ("cuda" | "wgpu", Some(index)) => index.parse().ok(),
        (_, Some(_)) => None,
    };
    let count = (backend.count)();
    if (word, count) == ("cuda", 0) {
        let message = "CUDA finds no GPU here: NVIDIA's driver must be installed whole (libcuda; \
            in containers the capability `compute`)";
        return Err(wrong(message.to_owned()));
    }
    let found = index.filter(|index| *index < count).and_then(backend.open);
    found.ok_or_else(|| {
        wrong(format!(
            "there is no device `{name}` on this machine: devices here are {}",
            available_devices().join(", ")
        ))
    })
}

/// The fastest placement of optimiser steps on the device called `name`.
pub(super) fn optimiser_placement(name: &str) -> Placement {
    match name {
        "cpu" if fused::is_fusion_disabled() => Placement::Device,
        "cpu" => Placement::InPlace,
        "ndarray" => Placement::Host,
        _ => Placement::Device,
    }
}

#[cfg(feature = "ndarray")]
#[expect(
    deprecated,
    reason = "burn-ndarray is deprecated upstream; it stays an opt-in of one line"
)]
fn ndarray(_: usize) -> Option<Device> {
    Some(Device::ndarray())
}

#[cfg(feature = "wgpu")]
fn wgpu(index: usize) -> Option<Device> {
    enumerate(burn::tensor::DeviceType::Wgpu).into_iter().nth(index)
}

#[cfg(feature = "gpu")]
fn enumerate(kind: burn::tensor::DeviceType) -> Vec<Device> {
    Device::enumerate(kind).into_vec()
}

/// Sets the cache of compiled and autotuned GPU kernels, which processes and runs share. Call it
/// before anything is computed; the other settings of a `cubecl.toml` above the working directory
/// are kept.
///
/// The directory holds one database in WAL mode, which several processes may use at once. If it is
/// not writable, each process has its own cache. Without the feature `gpu` this does nothing.
/// nothing.
pub fn set_kernel_cache(directory: &std::path::Path) {
    #[cfg(feature = "gpu")]
    {
        use burn::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig as _, cache::CacheConfig};
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        config.environment.path = CacheConfig::Directory(directory.to_owned());
        config.compilation.cache = true;
        // Only the first call counts.
        let _already_set = CubeClRuntimeConfig::try_set(config);
    }
    #[cfg(not(feature = "gpu"))]
    let _ = directory;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "gpu")]
    fn kernels_are_cached_where_that_was_set() {
        let directory = tempfile::tempdir().unwrap();
        set_kernel_cache(directory.path());
        assert_eq!(burn::cubecl::environment::root(), directory.path());
    }

    #[test]
    fn unknown_and_missing_devices_are_named_with_what_there_is() {
        check_device("cpu").unwrap();
        try_device("cpu", &TrainerArguments::resolve(&std::collections::BTreeMap::new()).unwrap())
            .unwrap();
        assert!(check_device("tpu").unwrap_err().to_string().contains("devices here are cpu"));
        assert!(check_device("cpu:1").is_err());
        assert!(check_device("cuda:99").is_err());
        assert!(available_devices().contains(&"cpu".to_owned()));
    }
}
