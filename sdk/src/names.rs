//! Which names of members may be shown: those of the specification. Every other name is data, and may be
//! an e-mail address as well as a word.

use crate::{agents, model, validate};

/// Whether the specification has a member of this name, in a request or in a response.
pub(crate) fn is_known(name: &str) -> bool {
    model::is_field(name)
        || agents::member::ALL.contains(&name)
        || validate::PROFILE_MEMBERS
            .iter()
            .any(|(known, _)| *known == name)
}

/// The pointer with `*` in the place of each name that is data.
pub(crate) fn masked_pointer(pointer: &str) -> String {
    let tokens = pointer.split('/').map(|token| {
        if token.is_empty() || is_known(token) || is_index(token) {
            token
        } else {
            "*"
        }
    });
    tokens.collect::<Vec<_>>().join("/")
}

/// Whether the token is the index of an item. Seven digits and more are no index that anybody would look
/// up, but may be a telephone number.
fn is_index(token: &str) -> bool {
    token.len() <= 6 && token.bytes().all(|byte| byte.is_ascii_digit())
}
