//! Enums whose values have names, which programs in other languages, logs and tables use.

/// Defines such an enum. `Display` shows the name.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $( $(#[$value_doc:meta])* $value:ident = $name:literal, )+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $( $(#[$value_doc])* $value, )+
        }

        impl $type {
            #[doc = concat!("The name, one of", $(" `", $name, "`",)+ ".")]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$value => $name, )+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use named;
