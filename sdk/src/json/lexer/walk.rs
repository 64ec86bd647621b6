//! The walk through the fields of an object that every reader of models does.

/// Reads the fields of an object: each documented one with its first expression where it comes in the order of the
/// table and is written in the one usual way, as it mostly is, and with its second one where it is found by name.
/// Undocumented fields go to the last expression, by name.
///
/// Hidden, because it is for the readers of dealkit and of its bindings.
#[doc(hidden)]
#[macro_export]
macro_rules! __read_fields {
    ($lexer:expr, {
        $( $wire:literal => $usual:expr, $found:expr; )+
        $name:ident => $undocumented:expr $(,)?
    }) => {
        let mut more = $lexer.object()?;
        'fields: while more {
            $(
                if $lexer.named(concat!("\"", $wire, "\":")) {
                    $usual;
                    more = $lexer.field()?;
                    if !more {
                        break 'fields;
                    }
                }
            )+
            let $name = $lexer.name()?;
            match &*$name {
                $( $wire => $found, )+
                _ => $undocumented,
            }
            more = $lexer.field()?;
        }
    };
}
