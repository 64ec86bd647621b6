//! A `Debug` that hides all fields.

/// Implements `Debug` for a type so that it shows only the type's name, because the fields may be secret or personal data.
macro_rules! opaque_debug {
    ($name:ident $(<$($parameter:ident $(: $bound:path)?),+>)?) => {
        impl $(<$($parameter $(: $bound)?),+>)? std::fmt::Debug for $name $(<$($parameter),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use opaque_debug;
