//! `Decimal`: arithmetic, and use together with integers.

use std::panic::catch_unwind;

use dealkit::Decimal;

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
    // The classic case that binary floats get wrong.
    assert_eq!(decimal("0.1") + decimal("0.2"), decimal("0.3"));
}

#[test]
fn sums_are_of_values_and_of_references() {
    let splits = [decimal("33.33"), decimal("33.33"), decimal("33.34")];
    assert_eq!(splits.iter().sum::<Decimal>(), 100);
    assert_eq!(splits.into_iter().sum::<Decimal>().to_string(), "100.00");
    assert_eq!([].iter().sum::<Decimal>(), 0);
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
fn integers_become_decimals() {
    assert_eq!(Decimal::from(u64::MAX).to_string(), u64::MAX.to_string());
    assert_eq!(Decimal::from(i64::MIN).to_string(), i64::MIN.to_string());
    assert_eq!(Decimal::from(7_usize), Decimal::from(7_i8));
}

#[test]
fn a_mantissa_and_a_scale_make_a_decimal() {
    assert_eq!(Decimal::new(1010, 2).to_string(), "10.10");
    assert_eq!(Decimal::new(-5, 3).to_string(), "-0.005");
    assert_eq!(
        Decimal::checked_new(1, 28).unwrap().to_string(),
        "0.0000000000000000000000000001"
    );
    assert_eq!(Decimal::checked_new(1, 29), None);
    assert_eq!(Decimal::checked_new(i128::MAX, 0), None);
    catch_unwind(|| Decimal::new(1, 29)).unwrap_err();
}
