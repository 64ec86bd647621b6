//! Objects that are kept, to be reused for equal values.

use pyo3::prelude::*;

/// How many objects are kept: a power of two.
const COUNT: usize = 1 << BITS;
const BITS: u32 = 9;

/// The most recent objects, each in the slot that its key selects, where it replaces the previous one.
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
    /// The object for a key, which `make` makes if it is not kept. Keys with the same number share a slot.
    #[inline]
    pub(crate) fn get<E>(
        &mut self,
        py: Python<'_>,
        key: K,
        number: u64,
        make: impl FnOnce() -> Result<Py<T>, E>,
    ) -> Result<Py<T>, E> {
        // Fibonacci hashing. Crafted keys can make two objects replace each other, which at worst means making them
        // anew.
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
