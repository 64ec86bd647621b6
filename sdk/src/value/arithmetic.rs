//! Arithmetic of decimals, and their conversion from and comparison with integers.

use std::{
    cmp::Ordering,
    iter::Sum,
    ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, RemAssign, Sub, SubAssign},
};

use super::{Decimal, ParseDecimalError};

/// An operator, its assigning form and its checked form.
macro_rules! operators {
    ($($operator:ident::$method:ident, $assign:ident::$assign_method:ident, $(#[$doc:meta])* $checked:ident;)+) => {$(
        impl $operator for Decimal {
            type Output = Decimal;

            fn $method(self, other: Decimal) -> Decimal {
                self.into_inner().$method(other.into_inner()).into()
            }
        }

        impl $operator<&Decimal> for Decimal {
            type Output = Decimal;

            fn $method(self, other: &Decimal) -> Decimal {
                self.$method(*other)
            }
        }

        impl $operator<Decimal> for &Decimal {
            type Output = Decimal;

            fn $method(self, other: Decimal) -> Decimal {
                (*self).$method(other)
            }
        }

        impl $operator for &Decimal {
            type Output = Decimal;

            fn $method(self, other: &Decimal) -> Decimal {
                (*self).$method(*other)
            }
        }

        impl $assign for Decimal {
            fn $assign_method(&mut self, other: Decimal) {
                *self = self.$method(other);
            }
        }

        impl $assign<&Decimal> for Decimal {
            fn $assign_method(&mut self, other: &Decimal) {
                *self = self.$method(*other);
            }
        }

        impl Decimal {
            $(#[$doc])*
            pub fn $checked(self, other: Decimal) -> Option<Decimal> {
                self.into_inner().$checked(other.into_inner()).map(Decimal::from)
            }
        }
    )+};
}

operators! {
    Add::add, AddAssign::add_assign,
    /// The sum; `None` when it is too large.
    checked_add;
    Sub::sub, SubAssign::sub_assign,
    /// The difference; `None` when it is too large.
    checked_sub;
    Mul::mul, MulAssign::mul_assign,
    /// The product; `None` when it is too large.
    checked_mul;
    Div::div, DivAssign::div_assign,
    /// The quotient; `None` when it is too large or `other` is zero.
    checked_div;
    Rem::rem, RemAssign::rem_assign,
    /// The remainder, with the sign of `self`; `None` when `other` is zero.
    checked_rem;
}

impl Neg for Decimal {
    type Output = Decimal;

    fn neg(self) -> Decimal {
        (-self.into_inner()).into()
    }
}

impl Neg for &Decimal {
    type Output = Decimal;

    fn neg(self) -> Decimal {
        -*self
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

impl TryFrom<i128> for Decimal {
    type Error = ParseDecimalError;

    fn try_from(value: i128) -> Result<Self, ParseDecimalError> {
        Decimal::checked_new(value, 0).ok_or(ParseDecimalError)
    }
}

impl TryFrom<u128> for Decimal {
    type Error = ParseDecimalError;

    fn try_from(value: u128) -> Result<Self, ParseDecimalError> {
        i128::try_from(value)
            .map_err(|_| ParseDecimalError)?
            .try_into()
    }
}
