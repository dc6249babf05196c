//! Which GPUs a process sees, and under which numbers: the rules of CUDA_VISIBLE_DEVICES.

/// A GPU as far as the variable can name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameable {
    /// `GPU-...`
    pub uuid: String,
    /// `MIG-...` of each part, where it is split.
    pub parts: Vec<String>,
}

/// The index, among `gpus`, of what CUDA calls device 0, 1, ... under the value of the variable.
///
/// As the CUDA programming guide has it: indices or (beginnings of) UUIDs, separated by commas; whatever follows the first
/// entry that names no GPU is invisible; an empty value hides all. A GPU named twice hides all, too.
pub fn visible(gpus: &[Nameable], variable: Option<&str>) -> Vec<usize> {
    let Some(variable) = variable else {
        return (0..gpus.len()).collect();
    };
    let named: Vec<(usize, &str)> = variable.split(',').map(str::trim).map_while(|entry| Some((named(gpus, entry)?, entry))).collect();
    let twice = named.iter().enumerate().any(|(at, (gpu, entry))| {
        // Two parts of one GPU are two devices.
        named[..at].iter().any(|(earlier, other)| earlier == gpu && (other == entry || !entry.starts_with("MIG-")))
    });
    if twice { Vec::new() } else { named.into_iter().map(|(gpu, _)| gpu).collect() }
}

fn named(gpus: &[Nameable], entry: &str) -> Option<usize> {
    if let Ok(index) = entry.parse::<usize>() {
        return (index < gpus.len()).then_some(index);
    }
    let begins = |uuid: &String| entry.len() > 4 && uuid.get(..entry.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(entry));
    let mut fitting = gpus.iter().enumerate().filter(|(_, gpu)| begins(&gpu.uuid) || gpu.parts.iter().any(begins));
    let (index, _) = fitting.next()?;
    // A beginning that fits two names neither.
    fitting.next().is_none().then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<Nameable> {
        let gpu = |uuid: &str, parts: &[&str]| Nameable { uuid: uuid.into(), parts: parts.iter().map(|part| (*part).to_owned()).collect() };
        vec![gpu("GPU-aa11", &[]), gpu("GPU-ab22", &[]), gpu("GPU-cc33", &["MIG-1111", "MIG-2222"])]
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
        for (variable, expected) in cases {
            assert_eq!(visible(&three(), *variable), *expected, "{variable:?}");
        }
    }

    #[test]
    fn what_names_no_gpu_hides_the_rest_and_an_empty_value_hides_all() {
        let cases: &[(&str, &[usize])] =
            &[("", &[]), ("-1", &[]), ("NoDevFiles", &[]), ("1,7,0", &[1]), ("0,-1,1", &[0]), ("GPU-a", &[]), ("GPU-", &[]), ("0,0", &[])];
        for (variable, expected) in cases {
            assert_eq!(visible(&three(), Some(variable)), *expected, "{variable:?}");
        }
    }
}
