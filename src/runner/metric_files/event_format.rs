//! The format of TensorBoard's event files: records with checksums (`TFRecord`), and the scalars in
//! them (protobuf's `Event`).
//!
//! A record is its length (u64), the masked CRC-32C of these eight bytes, the data, and the masked
//! CRC-32C of the data; all little endian. `Event`: `wall_time` 1, `step` 2, `summary` 5;
//! `Summary`: `value` 1; `Value`: `tag` 1, `simple_value` 2, `tensor` 8; `TensorProto`: `dtype` 1,
//! `shape` 2, `content` 4, `float_val` 5, `double_val` 6 (tensorflow/core/example,
//! framework/summary.proto).

/// Larger records are images and graphs, not scalars.
const LARGEST_RECORD: u64 = 4 << 20;

/// Size of a length with its checksum.
const HEADER: usize = 12;

/// Size of a checksum.
const CHECKSUM: usize = 4;

/// The scalars of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The step.
    pub step: i64,
    /// Tags and values.
    pub scalars: Vec<(String, f64)>,
    /// Messages of the HParams plugin in it.
    pub hparams: Vec<Vec<u8>>,
}

/// Why a file is no longer read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A checksum does not match.
    Checksum,
    /// A record is not an event.
    Event,
}

/// Parses a file that is read piece by piece.
#[derive(Debug, Default)]
pub struct EventReader {
    /// Unparsed bytes.
    bytes: Vec<u8>,
    /// Remaining bytes of a large record to skip.
    left_out: u64,
}

impl EventReader {
    /// Adds a piece of the file; returns the events completed by it.
    ///
    /// # Errors
    /// The file is corrupt; nothing after this point can be read.
    pub fn read(&mut self, piece: &[u8], events: &mut Vec<Event>) -> Result<(), Broken> {
        self.bytes.extend(piece);
        let mut at = 0;
        let read = loop {
            match self.next(at, events) {
                Ok(Some(next)) => at = next,
                Ok(None) => break Ok(()),
                Err(broken) => break Err(broken),
            }
        };
        self.bytes.drain(..at.min(self.bytes.len()));
        read
    }

    /// Whether the last piece ended within a record.
    pub fn has_rest(&self) -> bool {
        !self.bytes.is_empty() || self.left_out > 0
    }

    /// Parses the record at `at`; returns the position of the next one, or `None` if it is
    /// incomplete.
    fn next(&mut self, at: usize, events: &mut Vec<Event>) -> Result<Option<usize>, Broken> {
        let rest = &self.bytes[at..];
        if self.left_out > 0 {
            let here = self.left_out.min(rest.len() as u64);
            self.left_out -= here;
            let here = usize::try_from(here).unwrap_or(rest.len());
            return Ok((here > 0).then_some(at + here));
        }
        let Some((header, rest)) = rest.split_at_checked(HEADER) else { return Ok(None) };
        let (length, checksum) = header.split_at(8);
        if masked_crc(length) != little_endian(checksum) {
            return Err(Broken::Checksum);
        }
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        if length > LARGEST_RECORD {
            self.left_out = length.saturating_add(CHECKSUM as u64);
            return Ok(Some(at + HEADER));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((data, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        let Some(checksum) = rest.get(..CHECKSUM) else { return Ok(None) };
        if masked_crc(data) != little_endian(checksum) {
            return Err(Broken::Checksum);
        }
        let event = event(data).ok_or(Broken::Event)?;
        if !event.scalars.is_empty() || !event.hparams.is_empty() {
            events.push(event);
        }
        Ok(Some(at + HEADER + length + CHECKSUM))
    }
}

fn little_endian(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// The checksum of a record: CRC-32C, rotated and offset, since files contain checksums of
/// checksums.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    crc(&CASTAGNOLI, bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A cyclic redundancy check of 32 bits, by the table of its polynomial.
pub fn crc(table: &[u32; 256], bytes: &[u8]) -> u32 {
    let index = |crc: u32, byte: u8| usize::from((crc ^ u32::from(byte)).to_le_bytes()[0]);
    !bytes.iter().fold(!0u32, |crc, byte| table[index(crc, *byte)] ^ (crc >> 8))
}

/// CRC-32C of each byte.
const CASTAGNOLI: [u32; 256] = crc_table(0x82f6_3b78);

/// The table of a polynomial, bits reversed.
pub const fn crc_table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0u32;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

/// A field of a message: its number and content.
pub enum Content<'a> {
    /// An integer, an enumeration or a boolean.
    Varint(u64),
    /// 64 bits.
    Eight([u8; 8]),
    /// A text or a message.
    Bytes(&'a [u8]),
    /// 32 bits.
    Four([u8; 4]),
}

/// The fields of a message; ends with `None` after a malformed one.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Content<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Content<'a>)> {
        let key = self.varint()?;
        let content = match key & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Eight(self.take(8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Content::Bytes(self.take(length)?)
            }
            5 => Content::Four(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        Some((key >> 3, content))
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

fn event(data: &[u8]) -> Option<Event> {
    let mut event = Event::default();
    for field in Fields(data) {
        match field? {
            (1, Content::Eight(bytes)) => event.wall_time = f64::from_le_bytes(bytes),
            (2, Content::Varint(step)) => event.step = step.cast_signed(),
            (5, Content::Bytes(summary)) => {
                for field in Fields(summary) {
                    if let (1, Content::Bytes(value)) = field? {
                        match scalar(value)? {
                            None => event.hparams.extend(hparams(value)?),
                            scalar => event.scalars.extend(scalar),
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Some(event)
}

/// The tag and number of a value; an inner `None` if it is not a number, an outer one if it is
/// malformed.
fn scalar(data: &[u8]) -> Option<Option<(String, f64)>> {
    let (mut tag, mut number) = (String::new(), None);
    for field in Fields(data) {
        match field? {
            (1, Content::Bytes(text)) => tag = String::from_utf8_lossy(text).into_owned(),
            (2, Content::Four(bytes)) => number = Some(shortest(f32::from_le_bytes(bytes))),
            (8, Content::Bytes(bytes)) => number = tensor(bytes)?.or(number),
            _ => {}
        }
    }
    Some(number.filter(|_| !tag.is_empty()).map(|number| (tag, number)))
}

/// The HParams plugin's content of a value; an inner `None` if it belongs to another plugin, an
/// outer one if it is malformed. `metadata` 9, in it `plugin_data` 1: `plugin_name` 1, `content` 2.
fn hparams(data: &[u8]) -> Option<Option<Vec<u8>>> {
    for field in Fields(data) {
        let (9, Content::Bytes(metadata)) = field? else { continue };
        for field in Fields(metadata) {
            let (1, Content::Bytes(plugin)) = field? else { continue };
            let (mut is_own, mut content) = (false, None);
            for field in Fields(plugin) {
                match field? {
                    (1, Content::Bytes(name)) => is_own = name == b"hparams",
                    (2, Content::Bytes(bytes)) => content = Some(bytes.to_vec()),
                    _ => {}
                }
            }
            return Some(content.filter(|_| is_own));
        }
    }
    Some(None)
}

/// The number of a tensor without dimensions.
fn tensor(data: &[u8]) -> Option<Option<f64>> {
    const FLOAT: u64 = 1;
    const DOUBLE: u64 = 2;
    let (mut kind, mut has_dimensions, mut bytes) = (0, false, None);
    for field in Fields(data) {
        match field? {
            (1, Content::Varint(dtype)) => kind = dtype,
            (2, Content::Bytes(shape)) => has_dimensions = !shape.is_empty(),
            (4..=6, Content::Bytes(content)) if !content.is_empty() => bytes = Some(content),
            (5, Content::Four(content)) => {
                return Some(Some(shortest(f32::from_le_bytes(content))).filter(|_| kind == FLOAT));
            }
            (6, Content::Eight(content)) => {
                return Some(Some(f64::from_le_bytes(content)).filter(|_| kind == DOUBLE));
            }
            _ => {}
        }
    }
    let number = bytes.filter(|_| !has_dimensions).and_then(|bytes| match kind {
        FLOAT => Some(shortest(f32::from_le_bytes(bytes.try_into().ok()?))),
        DOUBLE => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    });
    Some(number)
}

/// The shortest decimal for the float: 0.1, where the nearest `f32` is 0.10000000149.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record of a file.
    pub fn record(data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u64).to_le_bytes();
        let crc = |bytes: &[u8]| masked_crc(bytes).to_le_bytes();
        [&length[..], &crc(&length), data, &crc(data)].concat()
    }

    pub fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        assert!(length < 128);
        [&[number << 3 | 2, length][..], content].concat()
    }

    fn event_of(wall_time: f64, step: u8, value: &[u8]) -> Vec<u8> {
        let summary = field(5, &field(1, value));
        [&[9][..], &wall_time.to_le_bytes(), &[16, step], &summary].concat()
    }

    /// An event with one scalar, as torch writes it.
    pub fn simple(wall_time: f64, step: u8, tag: &str, number: f32) -> Vec<u8> {
        let value = [field(1, tag.as_bytes()), vec![21], number.to_le_bytes().to_vec()].concat();
        record(&event_of(wall_time, step, &value))
    }

    /// The same as Keras and TensorFlow 2 write it.
    fn tensor_of(step: u8, tag: &str, tensor: &[u8]) -> Vec<u8> {
        let value = [field(1, tag.as_bytes()), field(8, tensor)].concat();
        record(&event_of(1.0, step, &value))
    }

    fn read(bytes: &[u8], piece: usize) -> (Vec<(i64, String, f64)>, Option<Broken>) {
        let (mut reader, mut events, mut broken) = (EventReader::default(), Vec::new(), None);
        for piece in bytes.chunks(piece) {
            broken = broken.or(reader.read(piece, &mut events).err());
        }
        let scalars = events.into_iter().flat_map(|event| {
            event.scalars.into_iter().map(move |(tag, number)| (event.step, tag, number))
        });
        (scalars.collect(), broken)
    }

    #[test]
    fn scalars_are_read_however_the_file_is_cut() {
        let version = record(&[&[9][..], &[0; 8], &field(3, b"brain.Event:2")].concat());
        let packed = [&[8, 1, 18, 0][..], &field(5, &0.25f32.to_le_bytes())].concat();
        let content = [&[8, 2][..], &field(4, &0.1f64.to_le_bytes())].concat();
        let text = [&[8, 7][..], &field(8, b"words")].concat();
        let shaped = [&[8, 1][..], &field(2, &field(2, &[8, 1])), &field(5, &[0; 4])].concat();
        let file = [
            version,
            simple(1.0, 3, "loss", 0.1),
            tensor_of(4, "acc", &packed),
            tensor_of(5, "acc", &content),
            tensor_of(5, "note", &text),
            tensor_of(5, "weights", &shaped),
            simple(1.0, 6, "loss", f32::NAN),
        ]
        .concat();
        for piece in [1, 7, 4096] {
            let (scalars, broken) = read(&file, piece);
            let words: Vec<String> = scalars
                .iter()
                .map(|(step, tag, number)| format!("{step} {tag} {number}"))
                .collect();
            assert_eq!(words, ["3 loss 0.1", "4 acc 0.25", "5 acc 0.1", "6 loss NaN"]);
            assert_eq!(broken, None);
        }
    }

    #[test]
    fn a_large_record_is_left_out_and_a_wrong_checksum_ends_the_file() {
        let large = record(&vec![0; usize::try_from(LARGEST_RECORD).unwrap() + 1]);
        let after = simple(1.0, 1, "a", 1.0);
        let (scalars, broken) = read(&[&large[..], &after].concat(), 100_000);
        assert_eq!((scalars.len(), broken), (1, None));
        for at in [3, 9, 20, after.len() - 1] {
            let mut wrong = [&after[..], &after].concat();
            wrong[at] ^= 1;
            assert_eq!(read(&wrong, 4096), (Vec::new(), Some(Broken::Checksum)), "{at}");
        }
        // An incomplete record waits.
        assert_eq!(read(&after[..after.len() - 1], 4096), (Vec::new(), None));
        assert_eq!(read(&record(&[15]), 4096).1, Some(Broken::Event));
    }

    proptest! {
        #[test]
        fn nothing_that_a_file_holds_makes_the_reader_panic(
            data in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..200,
            piece in 1usize..50,
        ) {
            read(&data, piece);
            read(&record(&data), piece);
            let mut changed = event_of(
                1.0,
                3,
                &[field(1, b"loss"), field(8, &data[..data.len().min(90)])].concat(),
            );
            read(&record(&changed), piece);
            let at = cut % changed.len();
            changed[at] = changed[at].wrapping_add(data.len() as u8);
            read(&record(&changed), piece);
            changed.truncate(at);
            read(&record(&changed), piece);
        }
    }
}
