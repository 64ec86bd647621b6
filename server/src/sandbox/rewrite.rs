//! A response, rewritten for another reading.

use std::borrow::Cow;

use bytes::Bytes;
use chrono::{DateTime, Datelike as _, TimeDelta, Timelike as _, Utc};
use dealkit::{
    Problem,
    internal::{
        lexer::Lexer,
        scalar,
        schema::{Field, FieldKind, Model, Presence},
        wire,
    },
};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::value::RawValue;

use crate::sandbox::reading::{InChunks, Reading};

/// The replacement for a string of an extensible enum.
const UNDOCUMENTED: &str = r#""SOMETHING_NEW""#;

/// The undocumented fields, one for each kind of value.
const EXTRA: &str = concat!(
    r#""x_text":"new","x_number":10.10,"x_integer":9007199254740993,"x_flag":true,"x_null":null,"#,
    r#""x_list":[1,"two",null],"x_object":{"nested":{"deeply":[]}}"#
);

/// Rewrites a response for this reading; `model` is that of its body if it is a success.
pub(crate) fn response(
    reading: Reading,
    mut response: Response<Bytes>,
    model: Option<&Model>,
) -> Response<Bytes> {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let model = model.filter(|_| status.is_success());
    let reason = status.canonical_reason().unwrap_or("Error");
    let (media_type, body) = match (reading, model) {
        (Reading::Chunked, _) => {
            response.extensions_mut().insert(InChunks);
            return response;
        }
        (Reading::Forbidden, _) if status == StatusCode::UNAUTHORIZED => {
            return refused_with(StatusCode::FORBIDDEN, response);
        }
        (Reading::BadRequest, _) if status == StatusCode::UNPROCESSABLE_ENTITY => {
            return refused_with(StatusCode::BAD_REQUEST, response);
        }
        (Reading::ErrorsText, _) if is_error => {
            ("text/plain; charset=utf-8", format!("{reason}\n"))
        }
        (Reading::ErrorsHtml, _) if is_error => (
            "text/html; charset=utf-8",
            format!(
                "<!DOCTYPE html>\n<html><head><title>{code} {reason}</title></head>\n\
                 <body><center><h1>{code} {reason}</h1></center><hr></body></html>\n",
                code = status.as_u16()
            ),
        ),
        (Reading::ErrorsEmpty, _) if is_error => {
            response.headers_mut().remove(header::CONTENT_TYPE);
            return response.map(|_| Bytes::new());
        }
        (Reading::ErrorsForeign, _) if is_error => {
            let code = reason.to_ascii_lowercase().replace([' ', '-'], "_");
            let body = serde_json::json!({"error": {"code": code, "message": reason}});
            (wire::JSON, body.to_string())
        }
        (Reading::Ok, Some(_)) => {
            *response.status_mut() = StatusCode::OK;
            return response;
        }
        (Reading::Extra, _) if is_error => {
            return response.map(|body| rewritten(body, PROBLEM, reading));
        }
        (
            Reading::Sparse
            | Reading::Nulls
            | Reading::Extra
            | Reading::Numbers
            | Reading::Times
            | Reading::IsoTimes,
            Some(model),
        ) => return response.map(|body| rewritten(body, model, reading)),
        _ => return response,
    };
    let media_type = HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response.map(|_| body.into())
}

fn refused_with(status: StatusCode, mut response: Response<Bytes>) -> Response<Bytes> {
    if let Some(mut problem) = Problem::from_json(response.body()) {
        problem.status = Some(status.as_u16());
        *response.body_mut() = serde_json::to_vec(&problem).unwrap_or_default().into();
    }
    *response.status_mut() = status;
    response.headers_mut().remove(header::WWW_AUTHENTICATE);
    response
}

/// The body of a response. One that cannot be read as JSON stays as it is, but the server sends no such body.
fn rewritten(body: Bytes, model: &Model, reading: Reading) -> Bytes {
    let mut writer = Rewriter {
        reading,
        changed: 0,
    };
    let text = std::str::from_utf8(&body).ok();
    match text.and_then(|text| writer.object(text, model)) {
        Some(written) => written.into(),
        None => body,
    }
}

fn fields(text: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut lexer = Lexer::new(text);
    let mut fields = Vec::new();
    let mut has_more = lexer.begin_object().ok()?;
    while has_more {
        fields.push((lexer.read_name().ok()?, lexer.read_raw().ok()?.get()));
        has_more = lexer.next_field().ok()?;
    }
    Some(fields)
}

/// What has objects in it, of an error's body.
const PROBLEM: &Model = &Model {
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
    reading: Reading,
    /// How many values have been changed so far: the forms are used in turn.
    changed: usize,
}

fn is_optional(field: &Field) -> bool {
    field.presence != Presence::Required
}

impl Rewriter {
    fn object(&mut self, text: &str, model: &Model) -> Option<String> {
        let fields = fields(text)?;
        let mut written = Vec::new();
        for (name, value) in &fields {
            let field = model.fields.iter().find(|field| field.wire == name);
            if self.reading == Reading::Sparse && field.is_some_and(is_optional) {
                continue;
            }
            let value = match field {
                Some(field) => Cow::Owned(self.value(value, field)?),
                None => Cow::Borrowed(*value),
            };
            written.push(format!("{}:{value}", serde_json::to_string(name).ok()?));
        }
        if self.reading == Reading::Nulls {
            let is_missing = |field: &&Field| fields.iter().all(|(name, _)| name != field.wire);
            let missing = model.fields.iter().filter(is_missing);
            written.extend(missing.map(|field| format!("\"{}\":null", field.wire)));
        }
        if self.reading == Reading::Extra {
            written.push(EXTRA.to_owned());
        }
        Some(format!("{{{}}}", written.join(",")))
    }

    fn value(&mut self, text: &str, field: &Field) -> Option<String> {
        let turn = self.changed;
        let changed = match (&field.kind, self.reading) {
            _ if text == "null" => None,
            (FieldKind::Model(model), _) => return self.object(text, model),
            (FieldKind::ModelList(model), _) => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                let items = items.iter().map(|item| self.object(item.get(), model));
                return Some(format!(
                    "[{}]",
                    items.collect::<Option<Vec<_>>>()?.join(",")
                ));
            }
            (_, Reading::Nulls) if is_optional(field) => Some("null".to_owned()),
            (FieldKind::ExtensibleEnum(_), Reading::Extra) => Some(UNDOCUMENTED.to_owned()),
            (FieldKind::Decimal, Reading::Numbers) => decimal(text, turn),
            (FieldKind::Integer, Reading::Numbers) => integer(text, turn),
            (FieldKind::Timestamp, Reading::Times) => rewrite_timestamp(text, turn, timestamp),
            (FieldKind::Timestamp, Reading::IsoTimes) => {
                rewrite_timestamp(text, turn, iso_timestamp)
            }
            _ => None,
        };
        self.changed += usize::from(changed.is_some());
        Some(changed.unwrap_or_else(|| text.to_owned()))
    }
}

/// Rewrites a timestamp, a JSON string.
fn rewrite_timestamp(
    text: &str,
    turn: usize,
    write: impl Fn(DateTime<Utc>, usize) -> String,
) -> Option<String> {
    let moment = serde_json::from_str::<Cow<'_, str>>(text).ok()?;
    let moment = scalar::parse_timestamp(&moment)?;
    Some(format!("\"{}\"", write(moment, turn)))
}

/// The number in another form, in turn: with an exponent, with 28 digits, and in scientific notation.
fn decimal(text: &str, turn: usize) -> Option<String> {
    const DIGITS: usize = 28;
    let mut number = scalar::parse_decimal(text)?.into_inner();
    let (mantissa, scale) = (number.mantissa(), number.scale());
    Some(match turn % 3 {
        0 => format!("{mantissa}e{}", -i64::from(scale)),
        1 => {
            // No more digits than a decimal of 96 bits holds, and no more of them after the point.
            let digits = mantissa.unsigned_abs().to_string().len();
            let zeros = DIGITS.saturating_sub(digits.max(scale as usize));
            number.rescale(scale + u32::try_from(zeros).ok()?);
            number.to_string()
        }
        _ => format!("{number:E}"),
    })
}

/// The integer with a zero fraction, with an exponent, and past 2^53, in turn. The last is a different integer.
fn integer(text: &str, turn: usize) -> Option<String> {
    let integer = scalar::parse_integer(text)?;
    Some(match turn % 3 {
        0 => format!("{integer}.0"),
        1 => {
            let zeros = (0..18).find(|zeros| integer % 10_i64.pow(zeros + 1) != 0);
            let zeros = zeros.unwrap_or_default();
            format!("{}e{zeros}", integer / 10_i64.pow(zeros))
        }
        // 2^53 + 1, which no binary float of 64 bits holds.
        _ => "9007199254740993".to_owned(),
    })
}

/// The moment with `turn % 10` digits in the fraction of its second (but never fewer than it needs), and with an
/// offset, with `Z`, or with neither, which means UTC.
fn timestamp(moment: DateTime<Utc>, turn: usize) -> String {
    let digits = turn % 10;
    let nanoseconds = format!("{:09}", moment.timestamp_subsec_nanos());
    let needed = nanoseconds.trim_end_matches('0').len();
    let fraction = nanoseconds.get(..digits.max(needed)).unwrap_or_default();
    let point = if fraction.is_empty() { "" } else { "." };
    let (minutes, offset) = match turn % 4 {
        0 => (330, "+05:30"),
        1 => (-480, "-08:00"),
        2 => (0, ""),
        _ => (0, "Z"),
    };
    let utc = moment.naive_utc();
    let local = utc.checked_add_signed(TimeDelta::minutes(minutes));
    // Not into a year that a timestamp cannot express.
    let local = local.filter(|local| (0..=9_999).contains(&local.year()));
    let (local, offset) = local.map_or((utc, "Z"), |local| (local, offset));
    let seconds = local.format("%Y-%m-%dT%H:%M:%S");
    format!("{seconds}{point}{fraction}{offset}")
}

/// Formats the moment in a form of ISO 8601 that RFC 3339 leaves out, in turn: with an offset of four digits or of two, in the
/// basic format with a comma, without seconds if they are zero, and as 24:00 if it is midnight.
fn iso_timestamp(moment: DateTime<Utc>, turn: usize) -> String {
    let nanoseconds = format!("{:09}", moment.timestamp_subsec_nanos());
    let fraction = match nanoseconds.trim_end_matches('0') {
        "" => String::new(),
        digits => format!(",{digits}"),
    };
    let is_whole_minute = moment.second() == 0 && fraction.is_empty();
    let day_before = moment.date_naive().pred_opt().filter(|day| day.year() > 0);
    match turn % 5 {
        0 => format!("{}{fraction}+0000", moment.format("%Y-%m-%dT%H:%M:%S")),
        1 => format!("{}{fraction}Z", moment.format("%Y%m%dT%H%M%S")),
        2 if is_whole_minute => moment.format("%Y-%m-%dT%H:%MZ").to_string(),
        3 if is_whole_minute && moment.hour() == 0 && moment.minute() == 0 => day_before
            .map_or_else(
                || iso_timestamp(moment, 0),
                |day| day.format("%Y-%m-%dT24:00:00Z").to_string(),
            ),
        _ => format!("{}{fraction}+00", moment.format("%Y-%m-%d %H:%M:%S")),
    }
}
