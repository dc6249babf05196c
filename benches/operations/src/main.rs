//! Milliseconds of each operation of a transformer's layer, forward and backward, beside what its
//! products take at the CPU's peak: `cargo run --release --manifest-path
//! benches/operations/Cargo.toml --target-dir target/operations -- [SHAPE [ROUNDS [DROPOUT]]]`.
//!
//! The operations are the files of `src/trainer/fused`, compiled without Burn, so that a change is
//! built and measured in half a minute; the least time of all rounds is printed, in CPU time. To
//! compare two states of the files, keep a copy of each program and run them in turn. Threads are
//! one with `RAYON_NUM_THREADS=1`. What `cargo bench --bench step` measures counts in the end.

/// Stands in for the crate that computes products on CPUs without AVX2.
extern crate self as gemm;

mod trainer;

use std::alloc::{GlobalAlloc, Layout, System};

/// As hpsearch's `AlignedAllocator`.
struct Aligned;

#[global_allocator]
static ALLOCATOR: Aligned = Aligned;

fn aligned(layout: Layout) -> Layout {
    if layout.size() < 1024 { layout } else { layout.align_to(64).unwrap_or(layout) }
}

// SAFETY: every call is forwarded to the system allocator, with the same layout for the same
// request.
unsafe impl GlobalAlloc for Aligned {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, as below.
        unsafe { System.alloc(aligned(layout)) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, aligned(layout)) }
    }
}

/// As the crate's.
pub enum Parallelism {
    None,
    Rayon(usize),
}

/// As the crate's.
///
/// # Safety
/// It is never called.
#[expect(clippy::too_many_arguments, reason = "they are those of the crate")]
pub unsafe fn gemm<T>(
    _: usize,
    _: usize,
    _: usize,
    _: *mut T,
    _: isize,
    _: isize,
    _: bool,
    _: *const T,
    _: isize,
    _: isize,
    _: *const T,
    _: isize,
    _: isize,
    _: T,
    _: T,
    _: bool,
    _: bool,
    _: bool,
    _: Parallelism,
) {
    panic!("this bench needs a CPU with AVX2, and optimisation: cargo run --release");
}

fn main() {
    trainer::measure();
}
