//! Rewrites responses for variants.

use std::borrow::Cow;

use bytes::Bytes;
use chrono::{DateTime, Datelike as _, TimeDelta, Timelike as _, Utc};
use dealkit::{
    Problem,
    internal::{
        scalar,
        schema::{Field, FieldKind, Model, Presence},
        wire,
    },
};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::value::RawValue;

use crate::sandbox::{
    fields::{JsonField, split_object},
    variant::{OddChunks, Variant},
};

/// The undocumented value for extensible enums.
const UNDOCUMENTED_VALUE: &str = "\"SOMETHING_NEW\"";

/// Undocumented fields, one for each type of JSON value.
const EXTRA_FIELDS: &str = concat!(
    r#""x_text":"new","x_number":10.10,"x_integer":9007199254740993,"x_flag":true,"x_null":null,"#,
    r#""x_list":[1,"two",null],"x_object":{"nested":{"deeply":[]}}"#
);

/// Rewrites a response for this variant. `model` describes the body of a successful response.
pub(crate) fn rewrite(
    variant: Variant,
    mut response: Response<Bytes>,
    model: Option<&Model>,
) -> Response<Bytes> {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let model = model.filter(|_| status.is_success());
    let reason = status.canonical_reason().unwrap_or("Error");
    let (media_type, body) = match (variant, model) {
        (Variant::Chunked, _) => {
            response.extensions_mut().insert(OddChunks);
            return response;
        }
        (Variant::Forbidden, _) if status == StatusCode::UNAUTHORIZED => {
            return with_error_status(StatusCode::FORBIDDEN, response);
        }
        (Variant::BadRequest, _) if status == StatusCode::UNPROCESSABLE_ENTITY => {
            return with_error_status(StatusCode::BAD_REQUEST, response);
        }
        (Variant::ErrorsText, _) if is_error => {
            ("text/plain; charset=utf-8", format!("{reason}\n"))
        }
        (Variant::ErrorsHtml, _) if is_error => (
            "text/html; charset=utf-8",
            format!(
                "<!DOCTYPE html>\n<html><head><title>{code} {reason}</title></head>\n\
                 <body><center><h1>{code} {reason}</h1></center><hr></body></html>\n",
                code = status.as_u16()
            ),
        ),
        (Variant::ErrorsEmpty, _) if is_error => {
            response.headers_mut().remove(header::CONTENT_TYPE);
            return response.map(|_| Bytes::new());
        }
        (Variant::ErrorsForeign, _) if is_error => {
            let code = reason.to_ascii_lowercase().replace([' ', '-'], "_");
            let body = serde_json::json!({"error": {"code": code, "message": reason}});
            (wire::JSON, body.to_string())
        }
        (Variant::Ok, Some(_)) => {
            *response.status_mut() = StatusCode::OK;
            return response;
        }
        (Variant::Extra, _) if is_error => {
            return response.map(|body| rewrite_body(body, PROBLEM_MODEL, variant));
        }
        (
            Variant::Sparse
            | Variant::Nulls
            | Variant::Extra
            | Variant::Numbers
            | Variant::Times
            | Variant::IsoTimes,
            Some(model),
        ) => return response.map(|body| rewrite_body(body, model, variant)),
        _ => return response,
    };
    let media_type = HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response.map(|_| body.into())
}

fn with_error_status(status: StatusCode, mut response: Response<Bytes>) -> Response<Bytes> {
    if let Some(mut problem) = Problem::from_json(response.body()) {
        problem.status = Some(status.as_u16());
        *response.body_mut() = serde_json::to_vec(&problem).unwrap_or_default().into();
    }
    *response.status_mut() = status;
    response.headers_mut().remove(header::WWW_AUTHENTICATE);
    response
}

/// Rewrites a JSON body. Other bodies, which the server does not send, stay unchanged.
fn rewrite_body(body: Bytes, model: &Model, variant: Variant) -> Bytes {
    let mut rewriter = Rewriter {
        variant,
        changed_count: 0,
    };
    let text = std::str::from_utf8(&body).ok();
    match text.and_then(|text| rewriter.rewrite_object(text, model)) {
        Some(rewritten) => rewritten.into(),
        None => body,
    }
}

/// The model of an error body. It has only the field that contains objects.
const PROBLEM_MODEL: &Model = &Model {
    name: "Problem",
    index: 0,
    fields: &[Field {
        name: "errors",
        wire: "errors",
        kind: FieldKind::ModelList(&Model {
            name: "Violation",
            index: 0,
            fields: &[],
        }),
        presence: Presence::Optional,
        is_shown: true,
        doc: "",
    }],
};

struct Rewriter {
    variant: Variant,
    /// The number of values changed so far. It selects among alternating formats.
    changed_count: usize,
}

fn is_optional(field: &Field) -> bool {
    field.presence != Presence::Required
}

impl Rewriter {
    fn rewrite_object(&mut self, text: &str, model: &Model) -> Option<String> {
        let fields = split_object(text)?;
        let mut written_fields = Vec::new();
        for JsonField { name, json } in &fields {
            let field = model.fields.iter().find(|field| field.wire == name);
            if self.variant == Variant::Sparse && field.is_some_and(is_optional) {
                continue;
            }
            let value = match field {
                Some(field) => Cow::Owned(self.rewrite_value(json, field)?),
                None => Cow::Borrowed(*json),
            };
            written_fields.push(format!("{}:{value}", serde_json::to_string(name).ok()?));
        }
        if self.variant == Variant::Nulls {
            let is_missing = |field: &&Field| fields.iter().all(|sent| sent.name != field.wire);
            let missing_fields = model.fields.iter().filter(is_missing);
            written_fields.extend(missing_fields.map(|field| format!("\"{}\":null", field.wire)));
        }
        if self.variant == Variant::Extra {
            written_fields.push(EXTRA_FIELDS.to_owned());
        }
        Some(format!("{{{}}}", written_fields.join(",")))
    }

    fn rewrite_value(&mut self, text: &str, field: &Field) -> Option<String> {
        let index = self.changed_count;
        let new_text = match (&field.kind, self.variant) {
            _ if text == "null" => None,
            (FieldKind::Model(model), _) => return self.rewrite_object(text, model),
            (FieldKind::ModelList(model), _) => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                let items = items
                    .iter()
                    .map(|item| self.rewrite_object(item.get(), model));
                return Some(format!(
                    "[{}]",
                    items.collect::<Option<Vec<_>>>()?.join(",")
                ));
            }
            (_, Variant::Nulls) if is_optional(field) => Some("null".to_owned()),
            (FieldKind::ExtensibleEnum(_), Variant::Extra) => Some(UNDOCUMENTED_VALUE.to_owned()),
            (FieldKind::Decimal, Variant::Numbers) => rewrite_decimal(text, index),
            (FieldKind::Integer, Variant::Numbers) => rewrite_integer(text, index),
            (FieldKind::Timestamp, Variant::Times) => {
                rewrite_timestamp(text, index, format_rfc_3339)
            }
            (FieldKind::Timestamp, Variant::IsoTimes) => {
                rewrite_timestamp(text, index, format_iso_8601)
            }
            _ => None,
        };
        self.changed_count += usize::from(new_text.is_some());
        Some(new_text.unwrap_or_else(|| text.to_owned()))
    }
}

/// Rewrites a timestamp in a JSON string with the given format.
fn rewrite_timestamp(
    text: &str,
    index: usize,
    format: impl Fn(DateTime<Utc>, usize) -> String,
) -> Option<String> {
    let moment = serde_json::from_str::<Cow<'_, str>>(text).ok()?;
    let moment = scalar::parse_timestamp(&moment)?;
    Some(format!("\"{}\"", format(moment, index)))
}

/// Alternates between an exponent, 28 digits, and scientific notation.
fn rewrite_decimal(text: &str, index: usize) -> Option<String> {
    const DIGITS: usize = 28;
    let mut number = scalar::parse_decimal(text)?.into_inner();
    let (mantissa, scale) = (number.mantissa(), number.scale());
    Some(match index % 3 {
        0 => format!("{mantissa}e{}", -i64::from(scale)),
        1 => {
            // A 96-bit decimal has at most 28 digits, including those after the point.
            let digits = mantissa.unsigned_abs().to_string().len();
            let zeros = DIGITS.saturating_sub(digits.max(scale as usize));
            number.rescale(scale + u32::try_from(zeros).ok()?);
            number.to_string()
        }
        _ => format!("{number:E}"),
    })
}

/// Alternates between a zero fraction, an exponent, and an integer above 2^53, which is a different number.
fn rewrite_integer(text: &str, index: usize) -> Option<String> {
    let integer = scalar::parse_integer(text)?;
    Some(match index % 3 {
        0 => format!("{integer}.0"),
        1 => {
            let zeros = (0..18).find(|zeros| integer % 10_i64.pow(zeros + 1) != 0);
            let zeros = zeros.unwrap_or_default();
            format!("{}e{zeros}", integer / 10_i64.pow(zeros))
        }
        // 2^53 + 1, which an f64 cannot represent.
        _ => "9007199254740993".to_owned(),
    })
}

/// Formats a time with `index % 10` fractional digits, or more if the time needs more. Alternates between offsets, `Z` and no
/// offset, which means UTC.
fn format_rfc_3339(moment: DateTime<Utc>, index: usize) -> String {
    let digits = index % 10;
    let nanoseconds = format!("{:09}", moment.timestamp_subsec_nanos());
    let needed_digits = nanoseconds.trim_end_matches('0').len();
    let fraction = nanoseconds
        .get(..digits.max(needed_digits))
        .unwrap_or_default();
    let point = if fraction.is_empty() { "" } else { "." };
    let (minutes, offset) = match index % 4 {
        0 => (330, "+05:30"),
        1 => (-480, "-08:00"),
        2 => (0, ""),
        _ => (0, "Z"),
    };
    let utc = moment.naive_utc();
    let local = utc.checked_add_signed(TimeDelta::minutes(minutes));
    // Skip the offset if it would shift the time into a year that RFC 3339 cannot represent.
    let local = local.filter(|local| (0..=9_999).contains(&local.year()));
    let (local, offset) = local.map_or((utc, "Z"), |local| (local, offset));
    let seconds = local.format("%Y-%m-%dT%H:%M:%S");
    format!("{seconds}{point}{fraction}{offset}")
}

/// Formats a time in a format of ISO 8601 that RFC 3339 excludes. Alternates between offsets of four and two digits, the basic
/// format with a comma, no seconds (if they are zero), and 24:00 (at midnight).
fn format_iso_8601(moment: DateTime<Utc>, index: usize) -> String {
    let nanoseconds = format!("{:09}", moment.timestamp_subsec_nanos());
    let fraction = match nanoseconds.trim_end_matches('0') {
        "" => String::new(),
        digits => format!(",{digits}"),
    };
    let is_whole_minute = moment.second() == 0 && fraction.is_empty();
    let day_before = moment.date_naive().pred_opt().filter(|day| day.year() > 0);
    match index % 5 {
        0 => format!("{}{fraction}+0000", moment.format("%Y-%m-%dT%H:%M:%S")),
        1 => format!("{}{fraction}Z", moment.format("%Y%m%dT%H%M%S")),
        2 if is_whole_minute => moment.format("%Y-%m-%dT%H:%MZ").to_string(),
        3 if is_whole_minute && moment.hour() == 0 && moment.minute() == 0 => day_before
            .map_or_else(
                || format_iso_8601(moment, 0),
                |day| day.format("%Y-%m-%dT24:00:00Z").to_string(),
            ),
        _ => format!("{}{fraction}+00", moment.format("%Y-%m-%d %H:%M:%S")),
    }
}
