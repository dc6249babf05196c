//! Matrix products block by block: factors are packed as the innermost loops read them, and parts that fit a cache are used up there.
#![expect(unsafe_code, reason = "it is for the functions of `products`, which check places")]

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::cell::{Cell, UnsafeCell};

use super::kernels::{AVX2, AVX512, Kernels, Pair, Source, Tile, turn};
use super::{BLOCK, Landing, PANEL, Place, Product, finish_part};

/// Inner numbers that are multiplied in one go, at most.
const DEPTH: usize = 512;

/// Strips whose left numbers are copied at a time, where columns are: together whole cache lines of each.
const STRIPS: usize = 4;

/// Numbers that are read so far apart meet at the same places of the caches: 4 KiB.
const CLASH: usize = 1024;

/// Left factors that reach over so many numbers, or fewer, stay in the caches, so that nothing is asked for ahead.
const CACHED: usize = 64 * 1024;

/// 64 bytes that begin where a cache line does.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "written and read through pointers")] [f32; 16]);

/// Packed factors: a thread's products use the same room one after another.
struct Room {
    lines: UnsafeCell<[Vec<Line>; 2]>,
    taken: Cell<bool>,
}

thread_local! {
    static ROOM: Room = const { Room { lines: UnsafeCell::new([Vec::new(), Vec::new()]), taken: Cell::new(false) } };
}

/// Says that the room is free again.
struct Leave(*const Cell<bool>);

impl Drop for Leave {
    fn drop(&mut self) {
        // SAFETY: it lies in the thread's room, which outlives its products.
        unsafe { (*self.0).set(false) };
    }
}

/// # Safety
/// As `multiply`, with a processor that has AVX-512.
#[target_feature(enable = "avx512f,fma")]
pub(super) unsafe fn with_avx512(product: &Product<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<32, 12>(&AVX512, product) }
}

/// # Safety
/// As `multiply`, with a processor that has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn with_avx2(product: &Product<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<16, 6>(&AVX2, product) }
}

/// # Safety
/// Each matrix lies in memory that is the caller's, rows of the output one number after another; the output overlaps neither factor, and is
/// initialised if the product is added to it. There is room for sums of whole panels, and a number to start with for each column, if for any.
#[inline(always)]
unsafe fn multiply<const WIDE: usize, const TALL: usize>(kernels: &Kernels, product: &Product<'_>) {
    const { assert!(PANEL.is_multiple_of(WIDE), "sums have room for whole panels") };
    let Product { sizes: [rows, inner, columns], output: (output, out), left, right, scale, landing, finish, also, sums, start } = *product;
    let also = if also.is_null() { output.cast_const() } else { also };
    let depth = inner.div_ceil(inner.div_ceil(DEPTH));
    let breadth = (BLOCK / depth).next_multiple_of(WIDE).min(columns.next_multiple_of(WIDE));
    let far = left.1.end(rows, inner) - left.1.start > CACHED;
    // Not within `with`, for a closure would not be compiled for the caller's processor.
    let here = ROOM.with(std::ptr::from_ref);
    // SAFETY: the room is this thread's and outlives its products; nobody else has it, as is checked before its lines are touched.
    let (_leave, [strip_room, block_room]) = unsafe {
        assert!(!(*here).taken.replace(true), "what finishes a row of a product computes none itself");
        (Leave(&raw const (*here).taken), &mut *(*here).lines.get())
    };
    let (strip, block) = (room(strip_room, STRIPS * TALL * (DEPTH + 32)), room(block_room, depth * breadth));
    for column in (0..columns).step_by(breadth) {
        let width = breadth.min(columns - column);
        for first in (0..inner).step_by(depth) {
            let deep = depth.min(inner - first);
            // SAFETY: `block` has room for `deep` rows of all panels, `strip` for the strips of all kernels; all places lie in their matrices.
            unsafe {
                // Full panels that lie in rows are packed by the kernels of the first rows.
                let copied = if right.1.column == 1 { width / WIDE * WIDE } else { 0 };
                if copied < width {
                    pack_right::<WIDE>(right, [first, deep, column + copied, width - copied], block.add(copied * deep));
                }
                for row in (0..rows).step_by(TALL) {
                    let tall = TALL.min(rows - row);
                    let (pair, numbers, apart) = read_left::<TALL>(kernels, left, [row, rows, first, deep], strip);
                    for panel in (0..width).step_by(WIDE) {
                        if far {
                            fetch_left::<TALL>(left, [row, rows, first, deep], [panel, (panel + WIDE).min(width), width]);
                        }
                        let place = out.start + (row * out.row) + column + panel;
                        let adds = landing == Landing::Add || first > 0;
                        let columns = WIDE.min(width - panel);
                        let start = if start.is_null() || first > 0 { std::ptr::null() } else { start.add(column + panel) };
                        let to = Tile { output: output.add(place), also: also.wrapping_add(place), start, row: out.row, columns, scale, adds };
                        let tiles = if row == 0 && panel < copied { pair.copy } else { pair.read };
                        let source = Source(right.0.wrapping_add(right.1.start + first * right.1.row + column + panel), right.1.row);
                        tiles[tall - 1](deep, numbers, apart, block.add(panel * deep), source, &to);
                        if row == 0 && !sums.is_null() {
                            (kernels.add_up)(deep, block.add(panel * deep), sums.add(column + panel));
                        }
                    }
                    if let Some((finish, beside, shift)) = finish.filter(|_| first + deep == inner) {
                        for row in row..row + tall {
                            let place = output.add(out.start + row * out.row + column);
                            finish_part(finish, (place, beside), [row, columns, column, width], shift);
                        }
                    }
                }
            }
        }
    }
}

/// Room for `count` numbers, at the beginning of a cache line.
fn room(lines: &mut Vec<Line>, count: usize) -> *mut f32 {
    let count = count.div_ceil(16);
    if lines.len() < count {
        lines.resize(count, Line([0.0; 16]));
    }
    lines.as_mut_ptr().cast()
}

/// Rows of the right factor in panels of `WIDE` columns, one after another; where a row's numbers lie one after another, only of one panel that is not
/// full. Behind the last column lies what lay there: it is multiplied and thrown away.
#[inline(always)]
unsafe fn pack_right<const WIDE: usize>((right, place): (*const f32, Place), [first, deep, column, width]: [usize; 4], block: *mut f32) {
    // SAFETY: what is read lies in the factor; panels follow each other in the block.
    unsafe {
        let from = right.add(place.start + first * place.row + column * place.column);
        if place.column == 1 {
            let eights = width / 8 * 8;
            for row in 0..deep {
                let (from, to) = (from.add(row * place.row), block.add(row * WIDE));
                for column in (0..eights).step_by(8) {
                    to.add(column).cast::<[f32; 8]>().write(from.add(column).cast::<[f32; 8]>().read());
                }
                for column in eights..width {
                    to.add(column).write(from.add(column).read());
                }
            }
            return;
        }
        let even = if place.row == 1 { (width / 8 * 8, deep / 8 * 8) } else { (0, 0) };
        for column in (0..even.0).step_by(8) {
            let (from, to) = (from.add(column * place.column), block.add(column / WIDE * WIDE * deep + column % WIDE));
            for row in (0..even.1).step_by(8) {
                turn(from.add(row), place.column, to.add(row * WIDE), WIDE);
            }
        }
        for column in 0..width {
            let (from, to) = (from.add(column * place.column), block.add(column / WIDE * WIDE * deep + column % WIDE));
            for row in if column < even.0 { even.1 } else { 0 }..deep {
                to.add(row * WIDE).write(from.add(row * place.row).read());
            }
        }
    }
}

/// Asks for the share of a panel, from `begin` to `end` of `width` columns, in the left numbers that are read after the `TALL` rows from `row` on.
#[inline(always)]
fn fetch_left<const TALL: usize>((left, place): (*const f32, Place), [row, rows, first, deep]: [usize; 4], [begin, end, width]: [usize; 3]) {
    // SAFETY: addresses are asked for and not read, so that they may lie anywhere.
    unsafe {
        let from = left.wrapping_add(place.start + first * place.column);
        if place.column == 1 {
            for row in (row + TALL + TALL * begin / width)..(row + TALL + TALL * end / width).min(rows) {
                for column in (0..deep).step_by(16) {
                    _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(row * place.row + column).cast());
                }
            }
            return;
        }
        // The last of the rows: the lines of the others are there already, but for the first time.
        let last = row + if place.column.is_multiple_of(CLASH) { STRIPS * TALL } else { TALL } + TALL - 1;
        if last < rows {
            for column in deep * begin / width..deep * end / width {
                _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(last + column * place.column).cast());
            }
        }
    }
}

/// Up to `TALL` rows of the left factor, of `rows` from the one numbered `row` on: the kernels for how they lie, one for each number of rows,
/// and what these are told. They lie where they are, or in `strip`, if what is far apart would push each other out of the caches.
#[inline(always)]
unsafe fn read_left<const TALL: usize>(
    kernels: &Kernels,
    (left, place): (*const f32, Place),
    [row, rows, first, deep]: [usize; 4],
    strip: *mut f32,
) -> (&Pair, *const f32, usize) {
    // SAFETY: what is read lies in the factor; there is room for strips.
    unsafe {
        let from = left.add(place.start + row * place.row + first * place.column);
        if place.column == 1 {
            if !place.row.is_multiple_of(CLASH) {
                return (&kernels.flat, from, place.row);
            }
            let apart = deep.next_multiple_of(16) + 16;
            for row in 0..TALL.min(rows - row) {
                strip.add(row * apart).copy_from_nonoverlapping(from.add(row * place.row), deep);
            }
            return (&kernels.flat, strip, apart);
        }
        if !place.column.is_multiple_of(CLASH) {
            return (&kernels.tall, from, place.column);
        }
        let (group, within) = (STRIPS * TALL, row % (STRIPS * TALL));
        if within == 0 {
            for column in 0..deep {
                strip.add(column * group).copy_from_nonoverlapping(from.add(column * place.column), group.min(rows - row));
            }
        }
        (&kernels.tall, strip.add(within), group)
    }
}
