//! The GPUs visible to a process and their indices: the rules of CUDA_VISIBLE_DEVICES.

/// The names of a GPU in the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameable {
    /// `GPU-...`
    pub uuid: String,
    /// `MIG-...` of each instance, with MIG.
    pub parts: Vec<String>,
}

/// A device of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaDevice {
    /// The GPU's index.
    pub gpu: usize,
    /// The index of its MIG instance, if the variable names one.
    pub part: Option<usize>,
}

/// CUDA's devices 0, 1, ... among `gpus`, given the value of the variable.
///
/// By the CUDA programming guide: indices or (prefixes of) UUIDs, separated by commas; everything
/// from the first invalid entry on is invisible; an empty value hides all. A GPU named twice hides
/// all, too.
///
/// A process sees at most one MIG instance; as each trial is given one entry of the variable,
/// several instances are several devices here.
pub fn visible(gpus: &[Nameable], variable: Option<&str>) -> Vec<CudaDevice> {
    let Some(variable) = variable else {
        return (0..gpus.len()).map(|gpu| CudaDevice { gpu, part: None }).collect();
    };
    let named: Vec<CudaDevice> =
        variable.split(',').map(str::trim).map_while(|entry| named(gpus, entry)).collect();
    // Two instances of a GPU are two devices; a GPU and one of its instances are not.
    let is_same = |one: &CudaDevice, other: &CudaDevice| {
        one.gpu == other.gpu
            && (one.part == other.part || one.part.is_none() || other.part.is_none())
    };
    let twice = named
        .iter()
        .enumerate()
        .any(|(at, device)| named[..at].iter().any(|earlier| is_same(earlier, device)));
    if twice { Vec::new() } else { named }
}

fn named(gpus: &[Nameable], entry: &str) -> Option<CudaDevice> {
    if let Ok(gpu) = entry.parse::<usize>() {
        return (gpu < gpus.len() && !entry.starts_with('+'))
            .then_some(CudaDevice { gpu, part: None });
    }
    let begins = |uuid: &String| {
        entry.len() > 4
            && uuid.get(..entry.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(entry))
    };
    let whole = gpus
        .iter()
        .enumerate()
        .filter(|(_, gpu)| begins(&gpu.uuid))
        .map(|(gpu, _)| CudaDevice { gpu, part: None });
    let parts = gpus.iter().enumerate().flat_map(|(gpu, nameable)| {
        nameable
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| begins(part))
            .map(move |(part, _)| CudaDevice { gpu, part: Some(part) })
    });
    let mut fitting = whole.chain(parts);
    let found = fitting.next()?;
    // An ambiguous prefix is invalid.
    fitting.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<Nameable> {
        let gpu = |uuid: &str, parts: &[&str]| Nameable {
            uuid: uuid.into(),
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
        };
        vec![gpu("GPU-aa11", &[]), gpu("GPU-ab22", &[]), gpu("GPU-cc33", &["MIG-1111", "MIG-2222"])]
    }

    #[track_caller]
    fn assert_visible(variable: Option<&str>, expected: &[usize]) {
        let devices = visible(&three(), variable);
        let gpus: Vec<usize> = devices.iter().map(|device| device.gpu).collect();
        assert_eq!(gpus, expected, "{variable:?}");
    }

    #[test]
    fn cuda_numbers_what_the_variable_lists_in_its_order() {
        let cases: &[(Option<&str>, &[usize])] = &[
            (None, &[0, 1, 2]),
            (Some("2,0"), &[2, 0]),
            (Some(" 1 , 2 "), &[1, 2]),
            (Some("GPU-ab22"), &[1]),
            (Some("gpu-c"), &[2]),
            (Some("MIG-2222"), &[2]),
            (Some("MIG-1111,MIG-2222"), &[2, 2]),
        ];
        cases.iter().for_each(|(variable, expected)| assert_visible(*variable, expected));
        let parts: Vec<Option<usize>> = visible(&three(), Some("MIG-2222,1,MIG-1111"))
            .iter()
            .map(|device| device.part)
            .collect();
        assert_eq!(parts, [Some(1), None, Some(0)]);
    }

    #[test]
    fn what_names_no_gpu_hides_the_rest_and_an_empty_value_hides_all() {
        let cases: &[(&str, &[usize])] =
            &[("1,7,0", &[1]), ("0,-1,1", &[0]), ("1,,0", &[1]), ("0,GPU-zz,1", &[0])];
        cases.iter().for_each(|(variable, expected)| assert_visible(Some(variable), expected));
        let numbers = ["", " ", ",0", "-1", "3", "99999999999999999999", "+1", "0x1", "1;2"];
        // Prefixes that are ambiguous, unknown, or too short.
        let names = ["NoDevFiles", "none", "GPU-a", "GPU-", "MIG-", "MIG-3333"];
        // Named twice, in any form.
        let twice = ["0,0", "0,GPU-aa11", "MIG-1111,MIG-1111", "2,MIG-1111"];
        for variable in numbers.into_iter().chain(names).chain(twice) {
            assert_visible(Some(variable), &[]);
        }
    }
}
