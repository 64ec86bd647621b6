//! The names of the specification's fields. Logs and error messages show only these names: any other name may be personal
//! data, such as an e-mail address.

use crate::value::JsonKind;

/// The similarity to a documented name, from 0 to 1, from which on that name is suggested as a correction.
const MIN_SIMILARITY: f64 = 0.85;

/// The fields of the request "Create agent".
pub const CREATE_AGENT_FIELD_NAMES: &[&str] = &[
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

/// Passes the documented fields of a request's profile to a macro, in the specification's order. Each entry has the name of the
/// field's setter, the name of the setter that takes an `Option`, the type and the JSON name.
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

macro_rules! profile_constants {
    (@kind String) => { JsonKind::String };
    (@kind bool) => { JsonKind::Boolean };
    (@kind Json) => { JsonKind::Object };
    ($($setter:ident, $maybe:ident: $type:ident = $wire:literal,)+) => {
        /// The documented fields of a request's profile, with their kinds of value.
        pub(crate) const PROFILE_FIELDS: &[(&str, JsonKind)] = &[$(($wire, profile_constants!(@kind $type))),+];
        pub(crate) const PROFILE_FIELD_NAMES: &[&str] = &[$($wire),+];
    };
}
profile_fields!(profile_constants);

/// Extracts the JSON names from the table of response fields.
macro_rules! response_names {
    ($(
        $(#[$doc:meta])*
        $model:ident {
            $( $(#[$field_doc:meta])* $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        const RESPONSE_FIELD_NAMES: &[&str] = &[$($($wire),+),+];
    };
}
crate::__response_models!(response_names);

/// Returns whether the specification has a field with this name, in a request or in a response.
pub(crate) fn is_documented(name: &str) -> bool {
    RESPONSE_FIELD_NAMES.contains(&name)
        || CREATE_AGENT_FIELD_NAMES.contains(&name)
        || PROFILE_FIELD_NAMES.contains(&name)
}

/// Returns the documented field whose name is most similar to an undocumented name, if it is similar enough.
pub(crate) fn find_similar<'n>(name: &str, documented: &[&'n str]) -> Option<&'n str> {
    let normalized_name = normalize_name(name);
    let similarity = |known: &str| strsim::jaro_winkler(&normalized_name, &normalize_name(known));
    let known = documented.iter().map(|known| (similarity(known), *known));
    let (similarity, known) = known.max_by(|(left, _), (right, _)| left.total_cmp(right))?;
    (similarity >= MIN_SIMILARITY).then_some(known)
}

/// Normalizes a name for comparison: `externalId` and `external_id` are equal. Only the first 64 characters count, because
/// comparing long names takes much time.
fn normalize_name(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.take(64).flat_map(char::to_lowercase).collect()
}

/// Returns whether a pointer into a request ends with the misspelt name of a documented field. Such a name is no personal data.
pub(crate) fn is_misspelling(pointer: &str) -> bool {
    let (name, documented) = match pointer.strip_prefix("/profile/") {
        Some(name) => (name, PROFILE_FIELD_NAMES),
        None => (
            pointer.strip_prefix('/').unwrap_or_default(),
            CREATE_AGENT_FIELD_NAMES,
        ),
    };
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    name.chars().all(is_word) && find_similar(name, documented).is_some()
}

/// Escapes a name as a token of a JSON pointer (RFC 6901).
pub(crate) fn escape_pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Replaces each undocumented name in a JSON pointer by `*`, because it may be personal data.
pub(crate) fn mask_pointer(pointer: &str) -> String {
    let tokens = pointer.split('/').map(|token| {
        if token.is_empty() || is_documented(token) || is_index(token) {
            token
        } else {
            "*"
        }
    });
    tokens.collect::<Vec<_>>().join("/")
}

/// Returns whether the token is an array index of at most six digits. More digits may be a telephone number.
fn is_index(token: &str) -> bool {
    token.len() <= 6 && token.bytes().all(|byte| byte.is_ascii_digit())
}
