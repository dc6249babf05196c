//! Dropout masks computed by tensor operations, on any device.

use burn::tensor::{Bool, Device, Int, IntDType, Tensor};

use super::dropout::DropoutMask;

impl DropoutMask {
    /// The same mask computed on a device, `[rows, columns]`, true where an element is dropped.
    /// `rows [rows]` and `columns [columns]` are ranges from 0 in u32.
    pub(crate) fn dropped(self, rows: Tensor<1, Int>, columns: Tensor<1, Int>) -> Tensor<2, Bool> {
        let [[height], [width]] = [rows.dims(), columns.dims()];
        let keys = mix_tensor(mix_tensor(rows.bitwise_xor_scalar(self.low)).add_scalar(self.high))
            .reshape([height, 1]);
        mix_tensor(columns.reshape([1, width]).bitwise_xor(keys)).lower_elem(self.threshold)
    }
}

/// `0..count` in u32, `[count]`.
pub(crate) fn index_range(count: usize, device: &Device) -> Tensor<1, Int> {
    let count = i64::try_from(count).expect("a tensor's dimension fits into i64");
    // Cast afterwards, since burn 0.22 computes ranges by way of -1.
    Tensor::<1, Int>::arange(0..count, device).cast(IntDType::U32)
}

/// `mix` element by element.
fn mix_tensor<const D: usize>(x: Tensor<D, Int>) -> Tensor<D, Int> {
    let x = x.clone().bitwise_xor(x.bitwise_right_shift_scalar(16_u32)).mul_scalar(0x7FEB_352D_u32);
    let x = x.clone().bitwise_xor(x.bitwise_right_shift_scalar(15_u32)).mul_scalar(0x846C_A68B_u32);
    x.clone().bitwise_xor(x.bitwise_right_shift_scalar(16_u32))
}
