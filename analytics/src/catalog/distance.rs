//! `geo_distance(longitude1, latitude1, longitude2, latitude2)`: metres on the globe, as GEODIST measures.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use tarn_engine::value::geohash::Point;

/// The function.
pub(super) fn geo_distance() -> ScalarUDF {
    create_udf(
        "geo_distance",
        vec![DataType::Float64; 4],
        DataType::Float64,
        Volatility::Immutable,
        Arc::new(distances),
    )
}

/// The distance of two points in each row; NULL where a coordinate is.
fn distances(arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let is_one = arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let columns: Vec<&Float64Array> =
        arrays.iter().map(|array| array.as_primitive::<Float64Type>()).collect();
    let [longitude1, latitude1, longitude2, latitude2] = columns[..] else {
        return exec_err!("geo_distance takes the longitudes and latitudes of two points");
    };
    let at = |column: &Float64Array, row: usize| column.is_valid(row).then(|| column.value(row));
    let distance = |row: usize| -> Option<f64> {
        let from = Point { longitude: at(longitude1, row)?, latitude: at(latitude1, row)? };
        let to = Point { longitude: at(longitude2, row)?, latitude: at(latitude2, row)? };
        Some(from.distance(to))
    };
    let distances: Float64Array = (0..longitude1.len()).map(distance).collect();
    Ok(match is_one {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&distances, 0)?),
        false => ColumnarValue::Array(Arc::new(distances)),
    })
}
