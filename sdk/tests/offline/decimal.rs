//! `Decimal`: arithmetic, and comparison with integers.

use std::panic::catch_unwind;

use dealkit::Decimal;
use proptest::prelude::*;

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

#[test]
fn operators_are_exact() {
    let (left, right) = (decimal("10.10"), decimal("0.3"));
    for (result, expected) in [
        (left + right, "10.40"),
        (left - right, "9.80"),
        (left * right, "3.030"),
        (left / decimal("0.2"), "50.5"),
        (left % right, "0.20"),
        (-left, "-10.10"),
    ] {
        assert_eq!(result.to_string(), expected);
    }
    let mut total = left;
    total += right;
    total -= decimal("0.4");
    total *= Decimal::from(2);
    total /= Decimal::from(4);
    total %= Decimal::from(3);
    assert_eq!(total, 2);
    let splits = [decimal("33.33"), decimal("33.33"), decimal("33.34")];
    assert_eq!(splits.into_iter().sum::<Decimal>().to_string(), "100.00");
    // Binary floats fail this comparison.
    assert_eq!(decimal("0.1") + decimal("0.2"), decimal("0.3"));
}

#[test]
fn integers_compare_from_both_sides() {
    let price = decimal("450000.00");
    assert_eq!(price, 450_000);
    assert_eq!(450_000, price);
    assert_eq!(price, 450_000_u64);
    assert_eq!(450_000_usize, price);
    assert!(price > 449_999 && 450_001 > price);
    assert!(decimal("0.5") > 0_u8 && decimal("-0.5") < 0_u8 && decimal("0.5") != 0);
    assert!(-1_i8 < decimal("-0.5"));
}

#[test]
fn a_mantissa_and_a_scale_make_a_decimal() {
    assert_eq!(Decimal::new(1010, 2).to_string(), "10.10");
    assert_eq!(Decimal::new(-5, 3).to_string(), "-0.005");
    assert_eq!(
        Decimal::new(1, 28).to_string(),
        "0.0000000000000000000000000001"
    );
    catch_unwind(|| Decimal::new(1, 29)).unwrap_err();
}

proptest! {
    /// Any JSON number is read exactly or rejected, and never rounded.
    #[test]
    fn any_number_is_exact_or_rejected(text in "-?(0|[1-9][0-9]{0,40})([.][0-9]{1,40})?([eE][+-]?[0-9]{1,3})?") {
        let Ok(decimal) = text.parse::<Decimal>() else {
            // A number of at most 28 digits without an exponent must be read.
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            prop_assert!(digits > 28 || text.contains(['e', 'E']), "{} was rejected", text);
            prop_assert!(serde_json::from_str::<Decimal>(&text).is_err());
            return Ok(());
        };
        prop_assert_eq!(normalized(&decimal.to_string()), normalized(&text), "{} became {}", text, decimal);
        prop_assert_eq!(serde_json::from_str::<Decimal>(&text).unwrap(), decimal);
    }
}

/// Returns the sign, the digits and the power of ten of a number, equal for equal numbers.
fn normalized(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches(['-', '0']);
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return (false, "0".to_owned(), 0);
    }
    let dropped = i64::try_from(digits.len() - significant.len()).unwrap();
    let decimals = i64::try_from(fraction.len()).unwrap();
    let exponent: i64 = exponent.parse().unwrap();
    (
        text.starts_with('-'),
        significant.to_owned(),
        exponent - decimals + dropped,
    )
}
