//! Generates a Python class for each response model from the field table of the crate `dealkit`. The same table
//! drives reading, equality, repr, pickling, dicts and JSON.

use dealkit::internal::schema;
#[cfg(debug_assertions)]
use dealkit::{DecodeError, Json};
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    json::{
        extra::Extra,
        reader::{ReadResult, Reader},
    },
    models::{
        model::Model,
        read_field,
        schema::{Class, Parts, describe_fields, field_at, often_repeats},
    },
    python::untrack::untrack,
};

/// Defines a class for each response model; see [`dealkit::__response_models`] for the declarations of the fields.
macro_rules! models {
    ($(
        $(#[doc = $about:literal])+
        $model:ident {
            $(
                $(#[doc = $doc:literal])+
                $presence:ident $show:ident $field:ident: $type:ty = $wire:literal,
            )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[pyclass(frozen, extends = Model, module = "dealkit")]
        pub(crate) struct $model {
            $( $(#[doc = $doc])+ #[pyo3(get)] $field: Py<PyAny>, )+
            extra: Option<Box<Extra>>,
        }

        impl $model {
            const MODEL: &'static schema::Model = dealkit::$model::SCHEMA;

            fn read(reader: &mut Reader<'_, '_>) -> ReadResult {
                #[allow(non_camel_case_types)]
                enum Position { $( $field ),+ }

                $( let mut $field = None; )+
                let mut extra = None;
                dealkit::__read_fields!(reader.lexer, {
                    $(
                        $wire => $field = models!(@read reader $field, extra),
                        $field = models!(@read reader $field, extra);
                    )+
                    name => read_field::read_undocumented(reader, name.into_owned(), &mut extra)?,
                });
                let model = Self {
                    $( $field: match $field {
                        Some(value) => value,
                        None => models!(@missing reader $field),
                    }, )+
                    extra,
                };
                let model = Bound::new(reader.py, (model, Model));
                Ok(untrack(reader.check_object(model)?).into_any().unbind())
            }

            fn parts<'a>(this: &'a Bound<'_, PyAny>) -> PyResult<Parts<'a>> {
                let model = this.cast::<Self>()?.get();
                Ok((vec![$( &model.$field ),+], model.extra.as_deref()))
            }

            #[cfg(debug_assertions)]
            fn core_json(document: &[u8]) -> Result<Json, DecodeError> {
                let model = dealkit::$model::from_json(document)?;
                Ok(Json::from_serialize(&model).expect("a model serializes"))
            }
        }

        #[pymethods]
        impl $model {
            #[classattr]
            fn __dealkit_fields__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                describe_fields(py, Self::MODEL.fields)
            }
        }
    )+

        /// The classes, in the order of the field table.
        pub(crate) const CLASSES: &[Class] =
            &[$( Class {
                model: $model::MODEL,
                get_type: |py| py.get_type::<$model>(),
                read: $model::read,
                parts: $model::parts,
                #[cfg(debug_assertions)]
                core_json: $model::core_json,
            } ),+];
    };

    (@field $field:ident) => {
        const {
            field_at(Self::MODEL, Position::$field as usize)
        }
    };

    (@read $reader:ident $field:ident, $extra:ident) => {
        read_field::read_value(
            $reader,
            models!(@field $field),
            const { often_repeats(field_at(Self::MODEL, Position::$field as usize)) },
            Position::$field as usize,
            &mut $extra,
        )?
    };

    (@missing $reader:ident $field:ident) => {
        read_field::default_value($reader, models!(@field $field))?
    };
}

dealkit::__response_models!(models);
