//! Optimiser states in 8 bits: blocks of 256 numbers as codes of a dynamic map, times the largest
//! of the block (Dettmers et al. 2022), as bitsandbytes keeps them.

use std::iter;
use std::sync::LazyLock;

use safetensors::tensor::Dtype;

use super::super::parameters::Parameter;
use super::super::tensor_file::{TensorEntry, f32_from_le_bytes};

/// Numbers of a block.
pub(super) const BLOCK: usize = 256;

/// The smallest parameters whose states are quantised: bitsandbytes' `min_8bit_size`.
pub(super) const MIN_QUANTISED: usize = 4096;

/// Exponents of the dynamic map.
const EXPONENTS: i32 = 7;

/// A state of a parameter in the order of files.
#[derive(Debug, Clone)]
pub(super) struct Blockwise {
    map: &'static DynamicMap,
    codes: Vec<u8>,
    /// The largest absolute value of each block.
    absmax: Vec<f32>,
}

/// The numbers from -1, or 0, to 1 that codes stand for, ascending.
#[derive(Debug)]
pub(super) struct DynamicMap {
    pub(super) numbers: Vec<f32>,
    zero: u8,
}

pub(super) static SIGNED: LazyLock<DynamicMap> = LazyLock::new(|| DynamicMap::new(true));
pub(super) static UNSIGNED: LazyLock<DynamicMap> = LazyLock::new(|| DynamicMap::new(false));

impl DynamicMap {
    /// Source: bitsandbytes' `create_dynamic_map`, in f32 as PyTorch computes it.
    fn new(is_signed: bool) -> Self {
        let mut numbers = vec![0.0, 1.0];
        for exponent in 0..EXPONENTS {
            let fractions = 1_u16 << (exponent + i32::from(!is_signed));
            let last = f32::from(fractions);
            let step = (1.0 - 0.1_f32) / last;
            // `torch.linspace`: from both ends, in fused operations.
            let boundary = |index: u16| {
                if index < fractions.div_ceil(2) {
                    step.mul_add(f32::from(index), 0.1)
                } else {
                    (-step).mul_add(f32::from(fractions - index), 1.0)
                }
            };
            #[expect(clippy::cast_possible_truncation, reason = "a power of ten, as PyTorch's")]
            let scale = 10_f64.powi(exponent + 1 - EXPONENTS) as f32;
            for index in 0..fractions {
                let number = scale * ((boundary(index) + boundary(index + 1)) / 2.0);
                numbers.push(number);
                if is_signed {
                    numbers.push(-number);
                }
            }
        }
        numbers.sort_by(f32::total_cmp);
        let zero = numbers.iter().position(|number| *number == 0.0).and_then(code);
        Self { zero: zero.expect("zero is one of 256"), numbers }
    }

    /// The code of the nearest number.
    fn nearest(&self, number: f32) -> u8 {
        let above = self.numbers.partition_point(|one| *one < number);
        let below = above.saturating_sub(1);
        let above = above.min(self.numbers.len() - 1);
        let is_above = self.numbers[above] - number < number - self.numbers[below];
        code(if is_above { above } else { below }).expect("there are 256 numbers")
    }
}

fn code(index: usize) -> Option<u8> {
    u8::try_from(index).ok()
}

impl Blockwise {
    /// `count` zeros.
    pub(super) fn zeros(map: &'static DynamicMap, count: usize) -> Self {
        Self { map, codes: vec![map.zero; count], absmax: vec![0.0; count.div_ceil(BLOCK)] }
    }

    /// The numbers of a block.
    pub(super) fn block(&self, block: usize) -> Vec<f32> {
        let codes = self.codes[block * BLOCK..].iter().take(BLOCK);
        codes.map(|code| self.map.numbers[usize::from(*code)] * self.absmax[block]).collect()
    }

    /// Sets the numbers of a block.
    pub(super) fn set_block(&mut self, block: usize, numbers: &[f32]) {
        let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        self.absmax[block] = largest;
        for (code, number) in self.codes[block * BLOCK..].iter_mut().zip(numbers) {
            *code = if largest > 0.0 { self.map.nearest(number / largest) } else { self.map.zero };
        }
    }

    /// The state as entries of a file under bitsandbytes' names, `state1` and `absmax1`.
    pub(super) fn to_entries(&self, number: usize, parameter: &Parameter) -> [TensorEntry<'_>; 2] {
        let [codes, absmax] = names(number, parameter);
        let largest = || self.absmax.iter().flat_map(|number| number.to_le_bytes()).collect();
        [
            TensorEntry {
                name: codes,
                dtype: Dtype::U8,
                shape: parameter.file_shape(),
                chunks: Box::new(iter::once_with(|| Ok(self.codes.clone()))),
            },
            TensorEntry {
                name: absmax,
                dtype: Dtype::F32,
                shape: vec![self.absmax.len()],
                chunks: Box::new(iter::once_with(move || Ok(largest()))),
            },
        ]
    }

    /// Restores the state from the bytes that `read` returns for a name, a dtype and a shape.
    pub(super) fn restore<E>(
        &mut self,
        number: usize,
        parameter: &Parameter,
        read: &mut impl FnMut(&str, Dtype, &[usize]) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let [codes, absmax] = names(number, parameter);
        self.codes = read(&codes, Dtype::U8, &parameter.file_shape())?;
        let bytes = read(&absmax, Dtype::F32, &[self.absmax.len()])?;
        self.absmax = f32_from_le_bytes(&bytes);
        Ok(())
    }
}

/// The names of codes and of the largest values of blocks.
fn names(number: usize, parameter: &Parameter) -> [String; 2] {
    ["state", "absmax"].map(|kind| format!("{kind}{number}.{}", parameter.name))
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::golden_optimizers;
    use super::*;

    #[test]
    fn the_dynamic_maps_are_those_of_bitsandbytes() {
        let golden = golden_optimizers();
        for (own, theirs) in [(&*SIGNED, "signed_map"), (&*UNSIGNED, "unsigned_map")] {
            let theirs: Vec<f32> = serde_json::from_value(golden[theirs].clone()).unwrap();
            assert_eq!(theirs.len(), 256);
            assert_eq!(own.numbers, theirs);
        }
    }

    #[test]
    fn numbers_of_a_map_are_kept_and_zeros_too() {
        let mut state = Blockwise::zeros(&SIGNED, 300);
        assert_eq!(state.block(1), [0.0; 44]);
        let numbers: Vec<f32> = SIGNED.numbers.iter().map(|number| number * 3.0).collect();
        state.set_block(0, &numbers);
        assert_eq!(state.block(0), numbers);
        state.set_block(1, &[0.0; 44]);
        assert_eq!(state.block(1), [0.0; 44]);
        assert_eq!(SIGNED.nearest(2.0), 255);
        assert_eq!(UNSIGNED.nearest(-1.0), 0);
    }
}
