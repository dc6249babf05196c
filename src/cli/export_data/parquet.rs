//! Parquet tables: typed columns, one row group in memory at a time.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::super::{Exit, Failure};
use super::columns::{Cell, Kind};

/// Rows per group.
const GROUP: usize = 1 << 16;

/// A file that is being written.
pub(super) struct ParquetTable<'a> {
    out: &'a mut dyn Write,
    written: Buffer,
    writer: SerializedFileWriter<Buffer>,
    kinds: Vec<Kind>,
    rows: Vec<Vec<Cell>>,
}

/// A buffer of the writer's output, since the output stream belongs to one thread.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> ParquetTable<'a> {
    /// A table with these columns, all nullable.
    pub fn new(out: &'a mut dyn Write, columns: &[(String, Kind)]) -> Result<Self, Failure> {
        let field = |(name, kind): &(String, Kind)| {
            let (physical, logical) = match kind {
                Kind::Integer => (Physical::INT64, None),
                Kind::Number => (Physical::DOUBLE, None),
                Kind::Flag => (Physical::BOOLEAN, None),
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical);
            Ok(Arc::new(field.build()?))
        };
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, ParquetError>>();
        let schema = fields
            .and_then(|fields| Type::group_type_builder("row").with_fields(fields).build())
            .map_err(failure)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let written = Buffer::default();
        let writer =
            SerializedFileWriter::new(written.clone(), Arc::new(schema), Arc::new(properties))
                .map_err(failure)?;
        let kinds = columns.iter().map(|(_, kind)| *kind).collect();
        Ok(ParquetTable { out, written, writer, kinds, rows: Vec::new() })
    }

    /// Adds a row: one cell per column.
    pub fn row(&mut self, cells: Vec<Cell>) -> Result<(), Failure> {
        self.rows.push(cells);
        if self.rows.len() == GROUP { self.write_group() } else { Ok(()) }
    }

    /// Writes the rest, and the footer.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.write_group()?;
        self.writer.finish().map_err(failure)?;
        self.drain()
    }

    fn write_group(&mut self) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(failure)?;
        for (at, kind) in self.kinds.iter().enumerate() {
            let cells = rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Nothing));
            match kind {
                Kind::Integer => column::<Int64Type>(&mut group, cells, Cell::integer),
                Kind::Number => column::<DoubleType>(&mut group, cells, Cell::number),
                Kind::Flag => column::<BoolType>(&mut group, cells, Cell::flag),
                Kind::Text => column::<ByteArrayType>(&mut group, cells, |cell| {
                    cell.text().map(|text| ByteArray::from(text.into_bytes()))
                }),
            }
            .map_err(failure)?;
        }
        group.close().map_err(failure)?;
        self.drain()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        let bytes =
            std::mem::take(&mut *self.written.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(self.out.write_all(&bytes)?)
    }
}

/// Writes the next column of a group.
fn column<'c, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Buffer>,
    cells: impl Iterator<Item = &'c Cell>,
    value: impl Fn(&Cell) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let (mut values, mut is_there) = (Vec::new(), Vec::new());
    for cell in cells {
        let value = value(cell);
        is_there.push(i16::from(value.is_some()));
        values.extend(value);
    }
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(&values, Some(&is_there), None)?;
    column.close()
}

fn failure(error: ParquetError) -> Failure {
    Failure::new(Exit::Internal, format!("the Parquet file cannot be written: {error}"))
        .help("`-o FILE.jsonl` takes any row; please report it")
}
