//! `Debug` of what must not be shown.

/// Shows nothing of a type but its name: what it holds may be secret, personal, or of no use to anybody.
macro_rules! opaque {
    ($name:ident $(<$($of:ident $(: $bound:path)?),+>)?) => {
        impl $(<$($of $(: $bound)?),+>)? std::fmt::Debug for $name $(<$($of),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use opaque;
