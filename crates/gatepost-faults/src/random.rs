//! Pseudorandom numbers from a seed.

/// The sequence of Steele, Lea and Flood (SplitMix64).
#[derive(Debug, Clone)]
pub struct FaultRandom(u64);

impl FaultRandom {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, below `end`.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }

    /// True once in `count` times.
    pub const fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}
