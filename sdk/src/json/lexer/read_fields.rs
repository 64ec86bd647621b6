//! The loop over the fields of an object, shared by all readers of models.

/// Reads the fields of an object. A documented field has two expressions that read its value: the first is used if the field
/// is next in the table's order and its name is written without escapes or spaces, the common case; the second is used
/// if the field is found by its name. The last expression reads an undocumented field, by its name.
///
/// Hidden, because it is for the readers of dealkit and its bindings.
#[doc(hidden)]
#[macro_export]
macro_rules! __read_fields {
    ($lexer:expr, {
        $( $wire:literal => $in_order:expr, $by_name:expr; )+
        $name:ident => $undocumented:expr $(,)?
    }) => {
        let mut has_more = $lexer.begin_object()?;
        'fields: while has_more {
            $(
                if $lexer.skip_name(concat!("\"", $wire, "\":")) {
                    $in_order;
                    has_more = $lexer.next_field()?;
                    if !has_more {
                        break 'fields;
                    }
                }
            )+
            let $name = $lexer.read_name()?;
            match &*$name {
                $( $wire => $by_name, )+
                _ => $undocumented,
            }
            has_more = $lexer.next_field()?;
        }
    };
}
