//! Pages of lists.

/// How much a page may still hold. Both bounds matter: an entry may have a few bytes or a million.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

impl Room {
    /// Room for everything.
    pub(crate) const UNLIMITED: Self = Self {
        entries: usize::MAX,
        bytes: usize::MAX,
    };

    /// The next entries that fit, of which the first one always does, and whether there are more.
    pub(crate) fn fill<T>(
        mut self,
        entries: impl IntoIterator<Item = T>,
        size: impl Fn(&T) -> usize,
    ) -> (Vec<T>, bool) {
        let mut page = Vec::new();
        for entry in entries {
            let size = size(&entry);
            if page.len() >= self.entries || (!page.is_empty() && size > self.bytes) {
                return (page, true);
            }
            self.bytes = self.bytes.saturating_sub(size);
            page.push(entry);
        }
        (page, false)
    }
}
