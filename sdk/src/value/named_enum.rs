//! Enums whose variants have stable names, for logs, tables and other languages.

/// Defines an enum with a name for each variant, which `as_str` returns and `Display` shows.
macro_rules! named_enum {
    ($(#[$doc:meta])* $type:ident { $( $(#[$value_doc:meta])* $value:ident = $name:literal, )+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $( $(#[$value_doc])* $value, )+
        }

        impl $type {
            #[doc = concat!("Returns the name: one of", $(" `", $name, "`",)+ ".")]
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

pub(crate) use named_enum;
