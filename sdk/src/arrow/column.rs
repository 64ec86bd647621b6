//! Columns while they are filled: they can be truncated, since a document may turn out to be wrong in the middle of
//! its row.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, ListArray, MapArray, PrimitiveArray, StringArray,
    StructArray,
    types::{Date32Type, Decimal128Type, Int64Type, TimestampMicrosecondType},
};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, TimeUnit};

use super::decimals::Decimals;

/// A column that is being filled.
pub(super) trait Column {
    /// An empty column.
    fn new(decimals: Decimals) -> Self;

    /// The type of the finished column.
    fn data_type(decimals: Decimals) -> DataType;

    /// The number of values.
    fn len(&self) -> usize;

    /// Adds a null, or an empty list where the column has no nulls.
    fn push_nothing(&mut self);

    /// Removes all but the first `len` values.
    fn truncate(&mut self, len: usize);

    /// Takes the values out as an array.
    fn finish(&mut self, decimals: Decimals) -> Result<ArrayRef, ArrowError>;
}

/// The ends of values of different lengths; each is the beginning of the next value.
struct Offsets(Vec<i32>);

impl Offsets {
    fn new() -> Self {
        Self(vec![0])
    }

    fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Ends a value. An end that does not fit into 32 bits is detected when the column is finished.
    #[inline]
    fn push(&mut self, end: usize) {
        self.0.push(end as i32);
    }

    /// Keeps this many values, and returns where the last of them ends.
    fn truncate(&mut self, len: usize) -> usize {
        self.0.truncate(len + 1);
        self.0.last().map_or(0, |end| *end as usize)
    }

    /// Takes the offsets of the values that end here.
    fn finish(&mut self, end: usize) -> Result<OffsetBuffer<i32>, ArrowError> {
        let offsets = std::mem::replace(self, Self::new());
        // If the last end fits, so do those before it.
        i32::try_from(end).map_err(|_| ArrowError::OffsetOverflowError(end))?;
        Ok(OffsetBuffer::new(ScalarBuffer::from(offsets.0)))
    }
}

/// Strings.
pub(super) struct Text {
    offsets: Offsets,
    text: String,
    nulls: NullBufferBuilder,
}

impl Text {
    #[inline]
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.end();
    }

    /// The buffer to write the next value to, before it is ended.
    pub(super) fn begun(&mut self) -> &mut String {
        &mut self.text
    }

    /// Ends the value that was begun.
    #[inline]
    pub(super) fn end(&mut self) {
        self.offsets.push(self.text.len());
        self.nulls.append_non_null();
    }

    fn finish_text(&mut self) -> Result<StringArray, ArrowError> {
        let text = std::mem::take(&mut self.text);
        let offsets = self.offsets.finish(text.len())?;
        StringArray::try_new(
            offsets,
            Buffer::from_vec(text.into_bytes()),
            self.nulls.finish(),
        )
    }
}

impl Column for Text {
    fn new(_: Decimals) -> Self {
        Self {
            offsets: Offsets::new(),
            text: String::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }

    fn data_type(_: Decimals) -> DataType {
        DataType::Utf8
    }

    #[inline]
    fn len(&self) -> usize {
        self.offsets.len()
    }

    #[inline]
    fn push_nothing(&mut self) {
        self.offsets.push(self.text.len());
        self.nulls.append_null();
    }

    fn truncate(&mut self, len: usize) {
        // A value may have been begun: truncate the text even if no whole value is removed.
        let end = self.offsets.truncate(len);
        self.text.truncate(end);
        self.nulls.truncate(len);
    }

    fn finish(&mut self, _: Decimals) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.finish_text()?))
    }
}

/// Values of a fixed width.
pub(super) struct Plain<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Plain<T> {
    fn empty() -> Self {
        Self {
            values: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, value: T::Native) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    #[inline]
    fn push_null(&mut self) {
        self.values.push(T::Native::default());
        self.nulls.append_null();
    }

    fn cut(&mut self, len: usize) {
        self.values.truncate(len);
        self.nulls.truncate(len);
    }

    fn finish_values(&mut self) -> Result<PrimitiveArray<T>, ArrowError> {
        let values = std::mem::take(&mut self.values);
        PrimitiveArray::try_new(ScalarBuffer::from(values), self.nulls.finish())
    }
}

/// Columns of a fixed width: the type, the data type, and how the array is finished.
macro_rules! plain {
    ($($of:ty: $data_type:expr, $finish:expr;)+) => {$(
        impl Column for Plain<$of> {
            fn new(_: Decimals) -> Self {
                Self::empty()
            }

            fn data_type(_: Decimals) -> DataType {
                $data_type
            }

            #[inline]
            fn len(&self) -> usize {
                self.values.len()
            }

            #[inline]
            fn push_nothing(&mut self) {
                self.push_null();
            }

            fn truncate(&mut self, len: usize) {
                self.cut(len);
            }

            fn finish(&mut self, _: Decimals) -> Result<ArrayRef, ArrowError> {
                let finish: fn(PrimitiveArray<$of>) -> PrimitiveArray<$of> = $finish;
                Ok(Arc::new(finish(self.finish_values()?)))
            }
        }
    )+};
}

/// The time zone of every timestamp.
const UTC: &str = "UTC";

plain! {
    Int64Type: DataType::Int64, |array| array;
    Date32Type: DataType::Date32, |array| array;
    TimestampMicrosecondType: DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())), |array| array.with_timezone(UTC);
}

/// Decimal numbers, in the representation that the caller wants.
pub(super) enum Numbers {
    Exact {
        values: Plain<Decimal128Type>,
        scale: u8,
    },
    Text(Text),
}

impl Column for Numbers {
    fn new(decimals: Decimals) -> Self {
        match decimals.scale() {
            Some(scale) => Numbers::Exact {
                values: Plain::empty(),
                scale,
            },
            None => Numbers::Text(Text::new(decimals)),
        }
    }

    fn data_type(decimals: Decimals) -> DataType {
        decimals.data_type()
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Numbers::Exact { values, .. } => values.values.len(),
            Numbers::Text(text) => text.len(),
        }
    }

    #[inline]
    fn push_nothing(&mut self) {
        match self {
            Numbers::Exact { values, .. } => values.push_null(),
            Numbers::Text(text) => text.push_nothing(),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Numbers::Exact { values, .. } => values.cut(len),
            Numbers::Text(text) => text.truncate(len),
        }
    }

    fn finish(&mut self, decimals: Decimals) -> Result<ArrayRef, ArrowError> {
        match self {
            Numbers::Exact { values, scale } => {
                let array = values.finish_values()?;
                let scale = i8::try_from(*scale).unwrap_or(i8::MAX);
                Ok(Arc::new(
                    array.with_precision_and_scale(Decimals::PRECISION, scale)?,
                ))
            }
            Numbers::Text(text) => text.finish(decimals),
        }
    }
}

/// Lists. None is null: an absent list is empty.
pub(super) struct List<C> {
    offsets: Offsets,
    pub(super) items: C,
}

impl<C: Column> List<C> {
    /// Ends the list that holds the items since the last one.
    #[inline]
    pub(super) fn end(&mut self) {
        self.offsets.push(self.items.len());
    }

    /// The field of an item: never null, and with the usual name.
    fn item(decimals: Decimals) -> FieldRef {
        Arc::new(Field::new_list_field(C::data_type(decimals), false))
    }
}

impl<C: Column> Column for List<C> {
    fn new(decimals: Decimals) -> Self {
        Self {
            offsets: Offsets::new(),
            items: C::new(decimals),
        }
    }

    fn data_type(decimals: Decimals) -> DataType {
        DataType::List(Self::item(decimals))
    }

    #[inline]
    fn len(&self) -> usize {
        self.offsets.len()
    }

    #[inline]
    fn push_nothing(&mut self) {
        self.end();
    }

    fn truncate(&mut self, len: usize) {
        let end = self.offsets.truncate(len);
        self.items.truncate(end);
    }

    fn finish(&mut self, decimals: Decimals) -> Result<ArrayRef, ArrowError> {
        let offsets = self.offsets.finish(self.items.len())?;
        let items = self.items.finish(decimals)?;
        let list = ListArray::try_new(Self::item(decimals), offsets, items, None)?;
        Ok(Arc::new(list))
    }
}

/// Strings by name. No map is null: an absent map is empty.
pub(super) struct Strings {
    offsets: Offsets,
    names: Text,
    values: Text,
}

impl Strings {
    pub(super) fn push_entry(&mut self, name: &str, value: &str) {
        self.names.push(name);
        self.values.push(value);
    }

    /// Ends the map that holds the entries since the last one.
    pub(super) fn end(&mut self) {
        self.offsets.push(self.names.len());
    }

    /// The fields of an entry, with the names in the Arrow specification.
    fn entry() -> Fields {
        Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Utf8, false),
        ])
    }

    fn entries() -> FieldRef {
        Arc::new(Field::new(
            "entries",
            DataType::Struct(Self::entry()),
            false,
        ))
    }
}

impl Column for Strings {
    fn new(decimals: Decimals) -> Self {
        Self {
            offsets: Offsets::new(),
            names: Text::new(decimals),
            values: Text::new(decimals),
        }
    }

    fn data_type(_: Decimals) -> DataType {
        DataType::Map(Self::entries(), false)
    }

    #[inline]
    fn len(&self) -> usize {
        self.offsets.len()
    }

    #[inline]
    fn push_nothing(&mut self) {
        self.end();
    }

    fn truncate(&mut self, len: usize) {
        let end = self.offsets.truncate(len);
        self.names.truncate(end);
        self.values.truncate(end);
    }

    fn finish(&mut self, _: Decimals) -> Result<ArrayRef, ArrowError> {
        let offsets = self.offsets.finish(self.names.len())?;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.names.finish_text()?),
            Arc::new(self.values.finish_text()?),
        ];
        let entries = StructArray::try_new(Self::entry(), columns, None)?;
        let map = MapArray::try_new(Self::entries(), offsets, entries, None, false)?;
        Ok(Arc::new(map))
    }
}

/// A struct of these columns.
pub(super) fn structs(
    fields: Fields,
    columns: Vec<ArrayRef>,
    nulls: &mut NullBufferBuilder,
) -> Result<ArrayRef, ArrowError> {
    let array = StructArray::try_new(fields, columns, nulls.finish())?;
    debug_assert!(array.null_count() <= array.len());
    Ok(Arc::new(array))
}
