//! Files of columns (Apache Parquet and Arrow) as lines of JSON.
//!
//! The names of a `ClassLabel` of Hugging Face's `datasets` replace its numbers: the features are
//! in the file's metadata, as JSON under the key `huggingface`.

#[cfg(any(feature = "parquet", feature = "arrow"))]
use std::collections::BTreeMap;
use std::path::Path;

#[cfg(any(feature = "parquet", feature = "arrow"))]
use serde_json::Value;

use super::DataProblem;

/// The rows of a Parquet file, one JSON object a line.
#[cfg(feature = "parquet")]
pub(super) fn parquet(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, DataProblem> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    let broken = |error: parquet::errors::ParquetError| damaged(path, "Parquet", &error);
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    let reader = SerializedFileReader::new(bytes).map_err(broken)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let features = metadata
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == HUGGING_FACE)?.value.as_deref());
    let names = ClassNames::of(features);
    let mut lines = Vec::new();
    for row in reader.get_row_iter(None).map_err(broken)? {
        names.write(row.map_err(broken)?.to_json_value(), &mut lines);
    }
    Ok(lines)
}

#[cfg(not(feature = "parquet"))]
pub(super) fn parquet(path: &Path, _: &[u8]) -> Result<Vec<u8>, DataProblem> {
    Err(not_built(path, "Parquet", "parquet", "from_parquet"))
}

/// The rows of an Arrow file or stream, one JSON object a line.
#[cfg(feature = "arrow")]
pub(super) fn arrow(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, DataProblem> {
    use std::io::Cursor;

    use arrow_ipc::reader::{FileReader, StreamReader};

    let broken = |error: arrow_schema::ArrowError| damaged(path, "Arrow", &error);
    // A file begins with this; `datasets` writes streams.
    let is_file = bytes.starts_with(b"ARROW1");
    type Batches<'a> =
        Box<dyn Iterator<Item = Result<arrow_array::RecordBatch, arrow_schema::ArrowError>> + 'a>;
    let (schema, batches): (_, Batches<'_>) = if is_file {
        let reader = FileReader::try_new(Cursor::new(bytes), None).map_err(broken)?;
        (reader.schema(), Box::new(reader))
    } else {
        let reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(broken)?;
        (reader.schema(), Box::new(reader))
    };
    let names = ClassNames::of(schema.metadata().get(HUGGING_FACE).map(String::as_str));
    let mut lines = Vec::new();
    for batch in batches {
        let batch = batch.map_err(broken)?;
        for row in 0..batch.num_rows() {
            let cells = schema.fields().iter().zip(batch.columns());
            let object = cells.map(|(field, column)| {
                let cell = cell(column.as_ref(), row).ok_or_else(|| {
                    let kind = column.data_type();
                    let message = format!("column `{}` has the type {kind}", field.name());
                    DataProblem::new(path, None, message)
                        .with_help("texts, numbers, flags and lists of them are read")
                })?;
                Ok((field.name().clone(), cell))
            });
            let object = object.collect::<Result<serde_json::Map<_, _>, DataProblem>>()?;
            names.write(Value::Object(object), &mut lines);
        }
    }
    Ok(lines)
}

#[cfg(not(feature = "arrow"))]
pub(super) fn arrow(path: &Path, _: &[u8]) -> Result<Vec<u8>, DataProblem> {
    Err(not_built(path, "Arrow", "arrow", "from_file"))
}

/// A cell of an Arrow column; `None` if it is of a type that is not read.
#[cfg(feature = "arrow")]
fn cell(column: &dyn arrow_array::Array, row: usize) -> Option<Value> {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types as of;
    use arrow_schema::DataType;

    if column.is_null(row) {
        return Some(Value::Null);
    }
    macro_rules! number {
        ($type:ty) => {
            Value::from(column.as_primitive::<$type>().value(row))
        };
    }
    let list = |values: arrow_array::ArrayRef| {
        let cells = (0..values.len()).map(|index| cell(values.as_ref(), index));
        cells.collect::<Option<Vec<_>>>().map(Value::Array)
    };
    Some(match column.data_type() {
        DataType::Null => Value::Null,
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).into(),
        DataType::Utf8View => column.as_string_view().value(row).into(),
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int8 => number!(of::Int8Type),
        DataType::Int16 => number!(of::Int16Type),
        DataType::Int32 => number!(of::Int32Type),
        DataType::Int64 => number!(of::Int64Type),
        DataType::UInt8 => number!(of::UInt8Type),
        DataType::UInt16 => number!(of::UInt16Type),
        DataType::UInt32 => number!(of::UInt32Type),
        DataType::UInt64 => number!(of::UInt64Type),
        DataType::Float16 => {
            Value::from(f64::from(column.as_primitive::<of::Float16Type>().value(row)))
        }
        DataType::Float32 => number!(of::Float32Type),
        DataType::Float64 => number!(of::Float64Type),
        DataType::List(_) => list(column.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(column.as_list::<i64>().value(row))?,
        DataType::FixedSizeList(..) => list(column.as_fixed_size_list().value(row))?,
        DataType::Dictionary(keys, _) => {
            macro_rules! key {
                ($type:ty) => {
                    column.as_dictionary::<$type>().key(row)
                };
            }
            let key = match **keys {
                DataType::Int8 => key!(of::Int8Type),
                DataType::Int16 => key!(of::Int16Type),
                DataType::Int32 => key!(of::Int32Type),
                DataType::Int64 => key!(of::Int64Type),
                DataType::UInt8 => key!(of::UInt8Type),
                DataType::UInt16 => key!(of::UInt16Type),
                DataType::UInt32 => key!(of::UInt32Type),
                _ => key!(of::UInt64Type),
            };
            cell(column.as_any_dictionary().values().as_ref(), key?)?
        }
        DataType::Struct(fields) => {
            let columns = column.as_struct().columns();
            let cells = fields.iter().zip(columns);
            let cells = cells
                .map(|(field, column)| Some((field.name().clone(), cell(column.as_ref(), row)?)));
            Value::Object(cells.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(any(feature = "parquet", feature = "arrow"))]
const HUGGING_FACE: &str = "huggingface";

/// The names of classes by column.
#[cfg(any(feature = "parquet", feature = "arrow"))]
struct ClassNames(BTreeMap<String, Vec<String>>);

#[cfg(any(feature = "parquet", feature = "arrow"))]
impl ClassNames {
    fn of(features: Option<&str>) -> Self {
        let parsed = features.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let features = parsed.as_ref().and_then(|parsed| parsed["info"]["features"].as_object());
        // Of a list of classes the names are those of its elements.
        let names = |feature: &Value| {
            let names = [&feature["names"], &feature["feature"]["names"]];
            let names = names.into_iter().find_map(Value::as_array)?;
            names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        let named = features.into_iter().flatten();
        ClassNames(
            named.filter_map(|(name, feature)| Some((name.clone(), names(feature)?))).collect(),
        )
    }

    /// Adds a row with the names of its classes.
    fn write(&self, mut row: Value, lines: &mut Vec<u8>) {
        for (column, names) in &self.0 {
            match row.get_mut(column) {
                Some(Value::Array(all)) => all.iter_mut().for_each(|one| named(one, names)),
                Some(one) => named(one, names),
                None => {}
            }
        }
        lines.extend(row.to_string().into_bytes());
        lines.push(b'\n');
    }
}

/// A class by its name; -1, for rows without one, stays.
#[cfg(any(feature = "parquet", feature = "arrow"))]
fn named(class: &mut Value, names: &[String]) {
    let index = class.as_u64().and_then(|index| usize::try_from(index).ok());
    if let Some(name) = index.and_then(|index| names.get(index)) {
        *class = Value::from(name.as_str());
    }
}

#[cfg(any(feature = "parquet", feature = "arrow"))]
fn damaged(path: &Path, what: &str, error: &dyn std::error::Error) -> DataProblem {
    DataProblem::new(path, None, format!("cannot be read as {what}: {error}"))
        .with_help("was it written completely?")
}

#[cfg(any(not(feature = "parquet"), not(feature = "arrow")))]
fn not_built(path: &Path, what: &str, feature: &str, read: &str) -> DataProblem {
    let file = path.display();
    DataProblem::new(path, None, format!("this program was built without {what} files")).with_help(
        format!(
            "build it with `--features {feature}`, or convert the file: `python -c \"import \
             datasets; datasets.Dataset.{read}('{file}').to_json('{}')\"`",
            path.with_extension("jsonl").display()
        ),
    )
}
