//! Objects that are kept, to be used again for what is the same.

use pyo3::prelude::*;

/// How many objects are kept: a power of two.
const COUNT: usize = 1 << BITS;
const BITS: u32 = 9;

/// The objects that were made last, each at the place that its key gives it, where it ousts the one before it.
pub(crate) struct Kept<K, T>(Box<[Option<Entry<K, T>>]>);

struct Entry<K, T> {
    key: K,
    object: Py<T>,
}

impl<K, T> Default for Kept<K, T> {
    fn default() -> Self {
        Self(std::iter::repeat_with(|| None).take(COUNT).collect())
    }
}

impl<K: PartialEq, T> Kept<K, T> {
    /// The object of a key, which `make` makes if it is not kept. Keys with the same number share a place.
    #[inline]
    pub(crate) fn get<E>(
        &mut self,
        py: Python<'_>,
        key: K,
        number: u64,
        make: impl FnOnce() -> Result<Py<T>, E>,
    ) -> Result<Py<T>, E> {
        // Fibonacci hashing. Who knows it can have two objects oust each other: no more than they would be made anew.
        let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
        let Some(slot) = self.0.get_mut(place as usize) else {
            return make();
        };
        match slot {
            Some(entry) if entry.key == key => Ok(entry.object.clone_ref(py)),
            _ => {
                let object = make()?;
                *slot = Some(Entry {
                    key,
                    object: object.clone_ref(py),
                });
                Ok(object)
            }
        }
    }
}
