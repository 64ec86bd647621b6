//! A cache of recently used Python objects, so that equal values share one object.

use pyo3::prelude::*;

/// Number of slots: a power of two.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 9;

/// A direct-mapped cache: the hash of a key selects a slot, and a new object replaces the previous object of the slot.
pub(crate) struct ObjectCache<K, T>(Box<[Option<Entry<K, T>>]>);

struct Entry<K, T> {
    key: K,
    object: Py<T>,
}

impl<K, T> Default for ObjectCache<K, T> {
    fn default() -> Self {
        Self(std::iter::repeat_with(|| None).take(SLOTS).collect())
    }
}

impl<K: PartialEq, T> ObjectCache<K, T> {
    /// Returns the cached object for a key, or calls `make` and caches its result.
    #[inline]
    pub(crate) fn get_or_make<E>(
        &mut self,
        py: Python<'_>,
        key: K,
        hash: u64,
        make: impl FnOnce() -> Result<Py<T>, E>,
    ) -> Result<Py<T>, E> {
        // Fibonacci hashing. Crafted keys can collide, which only costs time, because their objects are made more than once.
        let index = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS);
        let Some(slot) = self.0.get_mut(index as usize) else {
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
