//! The fields of one name, counted as earlier removals left them.

/// The places of the fields of one name in the head, from the top.
///
/// A Fenwick tree counts those that are left, so that any sequence of removals takes a time that
/// grows with their number only by its logarithm: a mail can have a million fields of a name.
#[derive(Debug)]
pub(super) struct FieldOccurrences {
    places: Vec<usize>,
    /// The entry `n` counts the fields that are left among the `n & n.wrapping_neg()` that end
    /// with the `n`th. The first entry is unused.
    left: Vec<usize>,
}

impl FieldOccurrences {
    pub(super) fn new(places: Vec<usize>) -> Self {
        let left = (0..=places.len()).map(|end| end & end.wrapping_neg());
        Self {
            left: left.collect(),
            places,
        }
    }

    /// The place of the field with `before` fields above it.
    pub(super) fn get(&self, before: usize) -> Option<usize> {
        self.places.get(self.index(before)).copied()
    }

    /// Removes the field with `before` fields above it; returns its place.
    pub(super) fn remove(&mut self, before: usize) -> Option<usize> {
        let index = self.index(before);
        let place = self.places.get(index).copied()?;
        let mut end = index + 1;
        while let Some(count) = self.left.get_mut(end) {
            *count -= 1;
            end += end & end.wrapping_neg();
        }
        Some(place)
    }

    /// The index in `places`; their number if there are not so many left.
    fn index(&self, before: usize) -> usize {
        let mut before = before;
        let mut index = 0;
        let mut step = self.left.len().next_power_of_two();
        while step > 0 {
            if let Some(&count) = self.left.get(index + step)
                && count <= before
            {
                before -= count;
                index += step;
            }
            step /= 2;
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn removals_have_the_same_effect_as_in_a_list(
            count in 0_usize..40,
            removals in proptest::collection::vec(0_usize..45, 0..50),
        ) {
            let mut list: Vec<usize> = (0..count).map(|place| place * 3).collect();
            let mut occurrences = FieldOccurrences::new(list.clone());
            for before in removals {
                prop_assert_eq!(occurrences.get(before), list.get(before).copied());
                let removed = (before < list.len()).then(|| list.remove(before));
                prop_assert_eq!(occurrences.remove(before), removed);
            }
        }
    }
}
