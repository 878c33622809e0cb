//! Set membership of many bytes at a time.
//!
//! A search tests every byte of a text, and almost no byte is in the set. AVX2 tests 32 bytes with
//! seven instructions: the lower half of each byte selects a row of the set, its upper half a bit
//! of that row. The rows for bytes below 128 and the rows for the others are looked up separately,
//! since a shuffle yields zero for a byte whose highest bit is set.
//!
//! Without AVX2 bytes are tested one by one.

// Two operations here are unsafe, and sound as they are used: a function compiled for AVX2 runs
// only after the processor reported AVX2; and the loads read 16 or 32 bytes from arrays of that
// length, at any alignment.
#![allow(unsafe_code)]

use super::{ByteSet, bit_of};

/// Bytes tested by one call.
const WIDTH: usize = ByteSet::BLOCK_BYTES;

/// A bit for each of the first 64 bytes of `text` that is in a set of this layout: see [`ByteSet`].
#[inline]
pub(super) fn members(set: &[u8; 32], text: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        let Some(bytes) = text.first_chunk() else {
            let mut bytes = [0; WIDTH];
            bytes[..text.len()].copy_from_slice(text);
            // SAFETY: the processor has AVX2.
            let members = unsafe { avx2::members(set, &bytes) };
            return members & !(u64::MAX << text.len());
        };
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::members(set, bytes) };
    }
    one_by_one(set, text)
}

fn one_by_one(set: &[u8; 32], text: &[u8]) -> u64 {
    let bytes = (0..).zip(text.iter().take(WIDTH));
    bytes.fold(0, |members, (at, &byte)| {
        let (row, bit) = bit_of(byte);
        members | u64::from(set[row] & bit != 0) << at
    })
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
        _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_xor_si256,
    };

    use super::WIDTH;

    #[target_feature(enable = "avx2")]
    pub(super) fn members(set: &[u8; 32], bytes: &[u8; WIDTH]) -> u64 {
        let (low, high) = set.split_at(16);
        // SAFETY: 16 bytes each.
        let rows = unsafe {
            let load = |half: &[u8]| _mm_loadu_si128(half.as_ptr().cast());
            [load(low), load(high)].map(|half| _mm256_broadcastsi128_si256(half))
        };
        let (first, second) = bytes.split_at(WIDTH / 2);
        // SAFETY: 32 bytes each.
        let [first, second] =
            unsafe { [first, second].map(|half| _mm256_loadu_si256(half.as_ptr().cast())) };
        let (first, second) = (half(rows, first), half(rows, second));
        u64::from(first) | u64::from(second) << 32
    }

    #[target_feature(enable = "avx2")]
    fn half([low, high]: [__m256i; 2], bytes: __m256i) -> u32 {
        let top = _mm256_set1_epi8(i8::MIN);
        let below = _mm256_shuffle_epi8(low, bytes);
        let beyond = _mm256_shuffle_epi8(high, _mm256_xor_si256(bytes, top));
        let row = _mm256_or_si256(below, beyond);
        #[rustfmt::skip]
        let bits = _mm256_setr_epi8(
            1, 2, 4, 8, 16, 32, 64, i8::MIN, 1, 2, 4, 8, 16, 32, 64, i8::MIN,
            1, 2, 4, 8, 16, 32, 64, i8::MIN, 1, 2, 4, 8, 16, 32, 64, i8::MIN,
        );
        let upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
        let bit = _mm256_shuffle_epi8(bits, upper);
        let is_member = _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), bit);
        _mm256_movemask_epi8(is_member) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree() {
        let text: Vec<u8> = (0..=u8::MAX).chain(0..=u8::MAX).collect();
        for seed in 0..=u8::MAX {
            let set = std::array::from_fn(|at| (at as u8).wrapping_mul(37).wrapping_add(seed));
            for length in [0, 1, 31, 32, 63, 64, 200] {
                let text = &text[usize::from(seed)..][..length];
                assert_eq!(members(&set, text), one_by_one(&set, text));
            }
        }
    }
}
