//! Uses up time, memory and stack, in ways that no optimiser removes.

use std::hint::black_box;

/// About how many steps take a millisecond.
pub(crate) const STEPS_PER_MS: u64 = 600_000;

/// Computes: each step needs the one before.
pub(crate) fn steps(count: u64) {
    let mut value = black_box(1u64);
    for _ in 0..count {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(value);
}

/// Fills a block of memory endlessly.
pub(crate) fn fill(bytes: usize) {
    let mut block = vec![0u8; bytes];
    loop {
        block.fill(black_box(1));
        black_box(&mut block);
    }
}

/// Copies one half of a block of memory to the other endlessly.
pub(crate) fn copy(bytes: usize) {
    let mut block = vec![1u8; bytes];
    loop {
        block.copy_within(..bytes / 2, bytes - bytes / 2);
        black_box(&mut block);
    }
}

/// Takes memory and never gives it back. It is written to, so that it is really taken.
pub(crate) fn leak(bytes: usize) {
    black_box(vec![1u8; bytes].leak());
}

/// Recurses with locals that are too many for the machine's registers, and so live in linear memory.
#[inline(never)]
pub(crate) fn deep_with_locals(depth: u32) -> u32 {
    let mut locals = [depth; 1024];
    black_box(&mut locals);
    if depth == 0 {
        return 0;
    }
    let below = deep_with_locals(depth - 1);
    locals.iter().fold(below, |sum, local| sum.wrapping_add(*local))
}

/// Recurses without touching linear memory. What is done with the result keeps the recursion from becoming a loop.
#[inline(never)]
pub(crate) fn deep(depth: u32) -> u32 {
    if depth == 0 { 1 } else { deep(depth - 1).rotate_left(depth % 7) ^ depth }
}
