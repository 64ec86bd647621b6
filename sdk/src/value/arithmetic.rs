//! Arithmetic of [`Decimal`], its conversion from integers, and its comparison with them.

use std::{
    cmp::Ordering,
    iter::Sum,
    ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, RemAssign, Sub, SubAssign},
};

use super::Decimal;

/// Implements binary operators and their assigning forms, such as `+` and `+=`.
macro_rules! operators {
    ($($operator:ident::$method:ident, $assign:ident::$assign_method:ident;)+) => {$(
        impl $operator for Decimal {
            type Output = Decimal;

            fn $method(self, other: Decimal) -> Decimal {
                self.into_inner().$method(other.into_inner()).into()
            }
        }

        impl $assign for Decimal {
            fn $assign_method(&mut self, other: Decimal) {
                *self = self.$method(other);
            }
        }
    )+};
}

operators! {
    Add::add, AddAssign::add_assign;
    Sub::sub, SubAssign::sub_assign;
    Mul::mul, MulAssign::mul_assign;
    Div::div, DivAssign::div_assign;
    Rem::rem, RemAssign::rem_assign;
}

impl Neg for Decimal {
    type Output = Decimal;

    fn neg(self) -> Decimal {
        (-self.into_inner()).into()
    }
}

impl Sum for Decimal {
    fn sum<I: Iterator<Item = Decimal>>(items: I) -> Decimal {
        items.fold(Decimal::default(), Add::add)
    }
}

impl<'a> Sum<&'a Decimal> for Decimal {
    fn sum<I: Iterator<Item = &'a Decimal>>(items: I) -> Decimal {
        items.copied().sum()
    }
}

/// Implements conversion from integer types, and comparison with them in both directions.
macro_rules! integers {
    ($($integer:ty),+) => {$(
        impl From<$integer> for Decimal {
            fn from(value: $integer) -> Self {
                rust_decimal::Decimal::from(value).into()
            }
        }

        impl PartialEq<$integer> for Decimal {
            fn eq(&self, other: &$integer) -> bool {
                *self == Decimal::from(*other)
            }
        }

        impl PartialEq<Decimal> for $integer {
            fn eq(&self, other: &Decimal) -> bool {
                other == self
            }
        }

        impl PartialOrd<$integer> for Decimal {
            fn partial_cmp(&self, other: &$integer) -> Option<Ordering> {
                Some(self.cmp(&Decimal::from(*other)))
            }
        }

        impl PartialOrd<Decimal> for $integer {
            fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
                Some(Decimal::from(*self).cmp(other))
            }
        }
    )+};
}
integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
