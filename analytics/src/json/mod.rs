//! Functions that make documents: `json_build_object`, `json_build_array`, and those of `jsonb`.
//!
//! A document is a text whose field says that it is one, so that it stands in another as it is, and not in
//! quotes. What would lose that, or would take a document for a text, is refused (`exact/documents.rs`).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::prelude::SessionContext;

/// Where a field says that its texts are documents, and of which kind.
const DOCUMENT: &str = "tarn.document";

/// A kind of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// As it was made.
    Json,
    /// Each key once, shorter ones first.
    Jsonb,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Json => "json",
            Kind::Jsonb => "jsonb",
        }
    }
}

/// The name of the type of documents that a field has, if it has such.
pub(crate) fn type_of(field: &Field) -> Option<&'static str> {
    kind_of(field).map(Kind::name)
}

/// The kind of documents that a field has, if it has such.
pub(crate) fn kind_of(field: &Field) -> Option<Kind> {
    let name = field.metadata().get(DOCUMENT)?;
    [Kind::Json, Kind::Jsonb].into_iter().find(|kind| kind.name() == name)
}

/// A field of texts that are documents, or are none.
pub(crate) fn field(name: &str, kind: Option<Kind>) -> FieldRef {
    let said = kind.map(|kind| (DOCUMENT.to_owned(), kind.name().to_owned()));
    let said: HashMap<_, _> = said.into_iter().collect();
    Arc::new(Field::new(name, DataType::Utf8, true).with_metadata(said))
}

/// Makes the functions known.
pub(crate) fn register(context: &SessionContext) {
    for (name, is_object, kind) in [
        ("json_build_object", true, Kind::Json),
        ("jsonb_build_object", true, Kind::Jsonb),
        ("json_build_array", false, Kind::Json),
        ("jsonb_build_array", false, Kind::Jsonb),
    ] {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        let signature = Signature::one_of(any, Volatility::Immutable);
        let build = Build { name, is_object, kind, documents: Vec::new(), signature };
        context.register_udf(ScalarUDF::new_from_impl(build));
    }
}

/// Makes an object of keys and values, or an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Build {
    /// The name of the function.
    pub(crate) name: &'static str,
    /// Whether it makes an object; else an array.
    pub(crate) is_object: bool,
    /// The kind of document that it makes.
    pub(crate) kind: Kind,
    /// Which arguments are documents, once that is known.
    pub(crate) documents: Vec<bool>,
    pub(crate) signature: Signature,
}

impl ScalarUDFImpl for Build {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if self.is_object && args.arg_fields.len() % 2 == 1 {
            return plan_err!("{} takes keys and values in turn", self.name);
        }
        Ok(field(self.name, Some(self.kind)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let columns = args.args.iter().enumerate().map(|(at, arg)| {
            let column = written(&arg.to_array(rows)?)?;
            let is_document = self.documents.get(at).copied().unwrap_or(false);
            Ok(Written { is_quoted: column.is_quoted && !is_document, ..column })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let text = |row: usize| match self.is_object {
            true => self.object(&columns, row),
            false => {
                let values: Vec<_> = columns.iter().map(|column| value(column, row)).collect();
                Ok(format!("[{}]", values.join(", ")))
            }
        };
        let made = (0..rows).map(|row| text(row).map(Some)).collect::<Result<StringArray>>()?;
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(Arc::new(made)),
        })
    }
}

impl Build {
    fn object(&self, columns: &[Written], row: usize) -> Result<String> {
        let mut members = Vec::with_capacity(columns.len() / 2);
        for pair in columns.chunks_exact(2) {
            if pair[0].texts.is_null(row) {
                return exec_err!("null value not allowed for object key");
            }
            members.push((pair[0].texts.value(row), value(&pair[1], row)));
        }
        let mut separator = " : ";
        if self.kind == Kind::Jsonb {
            separator = ": ";
            // Of members with the same key the last remains.
            let sorted: BTreeMap<_, _> =
                members.into_iter().map(|(key, value)| ((key.len(), key), value)).collect();
            members = sorted.into_iter().map(|((_, key), value)| (key, value)).collect();
        }
        let written = members.iter().map(|(key, value)| {
            let mut text = String::new();
            quote(key, &mut text);
            text + separator + value
        });
        Ok(format!("{{{}}}", written.collect::<Vec<_>>().join(", ")))
    }
}

/// A value as it stands in a document.
fn value(column: &Written, row: usize) -> String {
    match column.texts.is_null(row) {
        true => "null".to_owned(),
        false if column.is_quoted => {
            let mut text = String::new();
            quote(column.texts.value(row), &mut text);
            text
        }
        false => column.texts.value(row).to_owned(),
    }
}

/// A column as texts, which are quoted unless they are numbers or truth values.
struct Written {
    texts: StringArray,
    is_quoted: bool,
}

fn written(column: &ArrayRef) -> Result<Written> {
    let is_quoted = match column.data_type() {
        DataType::Boolean | DataType::Null | DataType::Decimal128(..) => false,
        whole if whole.is_integer() => false,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Date32 => true,
        other => return exec_err!("json of {other} is not there yet; cast it to TEXT or NUMERIC"),
    };
    Ok(Written { texts: cast(column, &DataType::Utf8)?.as_string::<i32>().clone(), is_quoted })
}

/// A text in quotes, with what cannot stand in them escaped.
fn quote(text: &str, into: &mut String) {
    into.push('"');
    for letter in text.chars() {
        match letter {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            control if control < ' ' => {
                let _ = write!(into, "\\u{:04x}", control as u32);
            }
            other => into.push(other),
        }
    }
    into.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let mut text = String::new();
        quote("a\"b\\c\n\u{1}\u{e9}", &mut text);
        assert_eq!(text, "\"a\\\"b\\\\c\\n\\u0001\u{e9}\"");
    }
}
