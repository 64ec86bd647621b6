//! Dates and timestamps as the contract defines them, parsed a second time.

/// Days since 1970-01-01 of a day `YYYY-MM-DD` in the years 0001 to 9999.
pub(crate) fn date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (
        digits(&bytes[..4])?,
        digits(&bytes[5..7])?,
        digits(&bytes[8..])?,
    );
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let lengths = [
        31,
        28 + i64::from(leap),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let month = usize::try_from(month).ok()?.checked_sub(1)?;
    if year == 0 || !(1..=*lengths.get(month)?).contains(&day) {
        return None;
    }
    let before = year - 1;
    let days = before * 365 + before / 4 - before / 100 + before / 400;
    Some(days + lengths[..month].iter().sum::<i64>() + day - 1 - 719_162)
}

/// An instant: seconds since 1970, and nanoseconds, with a second added to them in a leap second.
pub(crate) type Instant = (i64, u32);

/// An RFC 3339 timestamp. No offset means UTC; the year must be 0001 to 9999 in UTC too.
pub(crate) fn timestamp(text: &str) -> Option<Instant> {
    let days = date(text.get(..10)?)?;
    let rest = text.as_bytes().get(10..)?;
    if rest.len() < 9 || !b"Tt ".contains(&rest[0]) || rest[3] != b':' || rest[6] != b':' {
        return None;
    }
    let (hour, minute, second) = (
        digits(&rest[1..3])?,
        digits(&rest[4..6])?,
        digits(&rest[7..9])?,
    );
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &rest[9..];
    let mut nanos = 0;
    if let [b'.', fraction @ ..] = rest {
        let count = fraction
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count == 0 {
            return None;
        }
        let kept: String = fraction[..count.min(9)]
            .iter()
            .map(|byte| char::from(*byte))
            .collect();
        nanos = format!("{kept:0<9}").parse().ok()?;
        rest = &fraction[count..];
    }
    let offset = match rest {
        [] | [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let (second, nanos) = if second == 60 {
        (59, nanos + 1_000_000_000)
    } else {
        (second, nanos)
    };
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    let first = date("0001-01-01")? * 86_400;
    let end = (date("9999-12-31")? + 1) * 86_400;
    (first..end).contains(&seconds).then_some((seconds, nanos))
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit()
            .then(|| value * 10 + i64::from(byte - b'0'))
    })
}
