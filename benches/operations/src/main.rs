//! Milliseconds of each operation of a transformer's layer, forward and backward, beside what its products take at the processor's peak:
//! `cargo run --release --manifest-path benches/operations/Cargo.toml --target-dir target/operations -- [SHAPE [ROUNDS [DROPOUT]]]`.
//!
//! The operations are the files of `src/trainer/fused`, compiled without Burn, so that a change is built and measured in half a minute; the
//! least time of all rounds is told, by the processor's clock. To compare two states of the files, keep a copy of each program and run them in
//! turn. Threads are one with `RAYON_NUM_THREADS=1`. What `cargo bench --bench step` measures counts in the end.

/// The crate that computes products on processors without AVX2: here there are none.
extern crate self as gemm;

mod trainer;

use std::alloc::{GlobalAlloc, Layout, System};

/// As hpsearch's `AlignedHeap`.
struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

fn aligned(layout: Layout) -> Layout {
    if layout.size() < 1024 { layout } else { layout.align_to(64).unwrap_or(layout) }
}

// SAFETY: all is handed on to the system's heap, and what is asked of it for a layout is always the same.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, as below.
        unsafe { System.alloc(aligned(layout)) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, aligned(layout)) }
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
    panic!("this bench needs a processor with AVX2, and optimisation: cargo run --release");
}

fn main() {
    trainer::measure();
}
