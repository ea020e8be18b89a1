//! Functions that clients of PostgreSQL call when they connect, each with a constant answer.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;

use crate::catalog::distance::geo_distance;
use crate::catalog::settings::{POSTGRESQL_VERSION, default_of};
use crate::json;

/// Functions that return the description of an object: always NULL.
const UNKNOWN: [&str; 17] = [
    "col_description",
    "inet_client_addr",
    "inet_server_addr",
    "obj_description",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_indexdef",
    "pg_get_ruledef",
    "pg_get_serial_sequence",
    "pg_get_triggerdef",
    "pg_get_viewdef",
    "pg_tablespace_location",
    "shobj_description",
    "to_regproc",
    "to_regrole",
    "to_regtype",
];

/// Functions that report visibility: every object that exists is visible.
const VISIBLE: [&str; 4] =
    ["pg_function_is_visible", "pg_type_is_visible", "pg_operator_is_visible", "pg_collation_is_visible"];

/// Makes the functions known.
pub(crate) fn register(context: &SessionContext) {
    let version = format!("PostgreSQL {POSTGRESQL_VERSION} (Tarn {})", env!("CARGO_PKG_VERSION"));
    let mut functions = vec![
        Fixed::new("version", ScalarValue::from(version.as_str())),
        Fixed::new("pg_encoding_to_char", ScalarValue::from("UTF8")),
        Fixed::new("pg_is_in_recovery", ScalarValue::from(false)),
        Fixed::new("pg_is_other_temp_schema", ScalarValue::from(false)),
        Fixed::new("pg_my_temp_schema", ScalarValue::from(0_i32)),
    ];
    functions.extend(UNKNOWN.iter().map(|name| Fixed::new(name, ScalarValue::Utf8(None))));
    functions.extend(VISIBLE.iter().map(|name| Fixed::new(name, ScalarValue::from(true))));
    functions.into_iter().for_each(|function| context.register_udf(ScalarUDF::new_from_impl(function)));
    context.register_udf(geo_distance());
    context.register_udf(ScalarUDF::new_from_impl(CurrentSetting::default()));
    context.register_udf(ScalarUDF::new_from_impl(TypeOf(Signature::any(1, Volatility::Immutable))));
}

/// A function that answers the same whatever it is asked.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fixed {
    name: String,
    signature: Signature,
    answer: ScalarValue,
}

impl Fixed {
    fn new(name: &str, answer: ScalarValue) -> Fixed {
        let signature = Signature::one_of(
            vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
            Volatility::Immutable,
        );
        Fixed { name: name.to_owned(), signature, answer }
    }
}

impl ScalarUDFImpl for Fixed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.answer.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.answer.clone()))
    }
}

/// `pg_typeof(x)`: the name of its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf(Signature);

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let field = &args.arg_fields[0];
        if let Some(document) = json::type_of(field) {
            return Ok(ColumnarValue::Scalar(ScalarValue::from(document)));
        }
        let name = match field.data_type() {
            DataType::Null => "unknown",
            DataType::Boolean => "boolean",
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
            DataType::Int32 | DataType::UInt16 => "integer",
            DataType::Int64 | DataType::UInt32 => "bigint",
            DataType::UInt64 | DataType::Decimal128(..) => "numeric",
            DataType::Float32 => "real",
            DataType::Float64 => "double precision",
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text",
            DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "bytea",
            DataType::Date32 => "date",
            DataType::Timestamp(_, None) => "timestamp without time zone",
            DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
            DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
            DataType::Interval(_) | DataType::Duration(_) => "interval",
            other => return exec_err!("pg_typeof knows no name of {other}"),
        };
        Ok(ColumnarValue::Scalar(ScalarValue::from(name)))
    }
}

/// `current_setting(name [, missing_ok])`: what settings are before a session changes them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentSetting(Signature);

impl Default for CurrentSetting {
    fn default() -> CurrentSetting {
        let any = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
        CurrentSetting(Signature::one_of(any, Volatility::Stable))
    }
}

impl ScalarUDFImpl for CurrentSetting {
    fn name(&self) -> &str {
        "current_setting"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(ColumnarValue::Scalar(name)) = args.args.first() else {
            return exec_err!("current_setting takes a name that is the same for all rows");
        };
        let name = name.try_as_str().flatten().unwrap_or_default();
        match default_of(&name.to_lowercase()) {
            Some(value) => Ok(ColumnarValue::Scalar(ScalarValue::from(value.as_str()))),
            None if args.args.len() == 2 => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))),
            None => exec_err!("unrecognized configuration parameter \"{name}\""),
        }
    }
}
