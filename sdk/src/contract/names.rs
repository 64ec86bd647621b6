//! The names of the specification's fields, which are the only names that may be shown. Every other name
//! is data, and may just as well be an e-mail address as a word.

use crate::value::JsonKind;

pub(crate) const CREATE_AGENT: &[&str] = &[
    "email",
    "first_name",
    "last_name",
    "profile",
    "role",
    "phone",
    "image_url",
    "date_of_birth",
    "brokerage_id",
    "office_id",
    "collective_id",
];

/// Passes the fields of the request's profile that the specification shows, in its order, to a macro: the name
/// of the setter, that of the setter that takes an `Option`, the type and the wire name.
macro_rules! profile_fields {
    ($callback:ident) => {
        $callback! {
            tier, maybe_tier: String = "tier",
            id, maybe_id: String = "id",
            user_id, maybe_user_id: String = "userId",
            partner_uuid, maybe_partner_uuid: String = "partnerUUID",
            partner_office_id, maybe_partner_office_id: String = "partnerOfficeId",
            partner_mls_agent_id, maybe_partner_mls_agent_id: String = "partnerMlsAgentId",
            partner_mls_id, maybe_partner_mls_id: String = "partnerMlsId",
            partner_status, maybe_partner_status: String = "partnerStatus",
            mls_id, maybe_mls_id: String = "mlsId",
            onboarding_complete, maybe_onboarding_complete: bool = "onboardingComplete",
            processor_connected_account_id, maybe_processor_connected_account_id: String = "processorConnectedAccountId",
            processor_onboarding_complete, maybe_processor_onboarding_complete: bool = "processorOnboardingComplete",
            client_metadata, maybe_client_metadata: Json = "clientMetadata",
            external_id, maybe_external_id: String = "externalId",
        }
    };
}
pub(crate) use profile_fields;

macro_rules! profile {
    (@kind String) => { JsonKind::String };
    (@kind bool) => { JsonKind::Boolean };
    (@kind Json) => { JsonKind::Object };
    ($($setter:ident, $maybe:ident: $type:ident = $wire:literal,)+) => {
        pub(crate) const PROFILE: &[(&str, JsonKind)] = &[$(($wire, profile!(@kind $type))),+];
        pub(crate) const PROFILE_NAMES: &[&str] = &[$($wire),+];
    };
}
profile_fields!(profile);

/// Extracts the wire names from the table of the response types.
macro_rules! wire_names {
    ($(
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[$field_doc:meta])* $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        const RESPONSES: &[&str] = &[$($($wire),+),+];
    };
}
crate::__response_models!(wire_names);

/// Whether the specification has a field with this name, in a request or in a response.
pub(crate) fn is_known(name: &str) -> bool {
    RESPONSES.contains(&name) || CREATE_AGENT.contains(&name) || PROFILE_NAMES.contains(&name)
}

/// One token of a JSON pointer, escaped (RFC 6901).
pub(crate) fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The pointer with `*` in place of each name that is data.
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

/// Whether the token is the index of an item. Nobody would look up an index of seven or more
/// digits, but they may be a telephone number.
fn is_index(token: &str) -> bool {
    token.len() <= 6 && token.bytes().all(|byte| byte.is_ascii_digit())
}
