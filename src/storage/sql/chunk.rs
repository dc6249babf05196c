//! The encoding of a chunk's points: steps, times and values, column by column.
//!
//! ```text
//! version  1 byte, 1
//! steps    1 byte: 0 integers, 1 any numbers
//! count    varint
//! steps    integers: differences as zigzag varints, the first from 0; else 8 bytes each
//! moments  differences in microseconds as zigzag varints, the first from 0
//! values   8 bytes each, so that every bit of a NaN is kept
//! ```
//!
//! Numbers of 8 bytes are little-endian IEEE 754 doubles.

use crate::study::series::Point;
use crate::study::time::Timestamp;

/// Maximum number of points in a chunk.
pub(in crate::storage) const CAPACITY: usize = 512;

const VERSION: u8 = 1;
const INTEGERS: u8 = 0;
const ANY: u8 = 1;

/// The largest integer up to which `f64` is exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Encodes points.
pub(in crate::storage) fn encode(points: &[Point]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + points.len() * 14);
    let integers: Option<Vec<i64>> = points.iter().map(|point| integer(point.step)).collect();
    bytes.extend([VERSION, if integers.is_some() { INTEGERS } else { ANY }]);
    write_varint(&mut bytes, points.len() as u64);
    match integers {
        Some(steps) => write_differences(&mut bytes, steps.into_iter()),
        None => points.iter().for_each(|point| bytes.extend(point.step.to_le_bytes())),
    }
    write_differences(&mut bytes, points.iter().map(|point| point.at.0));
    points.iter().for_each(|point| bytes.extend(point.value.to_le_bytes()));
    bytes
}

/// Decodes points, or says why it cannot.
pub(in crate::storage) fn decode(bytes: &[u8]) -> Result<Vec<Point>, &'static str> {
    let mut reader = Reader(bytes);
    let [version, kind] = reader.array::<2>().ok_or(SHORT)?;
    if version != VERSION || !matches!(kind, INTEGERS | ANY) {
        return Err("its points are of a form that this hpsearch does not know");
    }
    let count = usize::try_from(reader.varint().ok_or(SHORT)?).unwrap_or(usize::MAX);
    // A value takes 8 bytes: a corrupt count must not allocate more.
    if count > bytes.len() / 8 {
        return Err(SHORT);
    }
    let empty = Point { step: 0.0, value: 0.0, at: Timestamp(0) };
    let mut points = vec![empty; count];
    match kind {
        INTEGERS => {
            let mut step = 0_i64;
            for point in &mut points {
                step = step.wrapping_add(reader.difference().ok_or(SHORT)?);
                #[expect(clippy::cast_precision_loss, reason = "written for integers below 2^53")]
                let step = step as f64;
                point.step = step;
            }
        }
        _ => reader.numbers(&mut points, |point, step| point.step = step).ok_or(SHORT)?,
    }
    let mut moment = 0_i64;
    for point in &mut points {
        moment = moment.wrapping_add(reader.difference().ok_or(SHORT)?);
        point.at = Timestamp(moment);
    }
    reader.numbers(&mut points, |point, value| point.value = value).ok_or(SHORT)?;
    if reader.0.is_empty() { Ok(points) } else { Err("bytes follow its points") }
}

const SHORT: &str = "its points end too early";

/// A step as an integer, if it is exact.
fn integer(step: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
    let whole = |step: f64| step as i64;
    let is_exact = step.fract() == 0.0 && step.abs() <= EXACT;
    (is_exact && (step != 0.0 || step.is_sign_positive())).then(|| whole(step))
}

fn write_differences(bytes: &mut Vec<u8>, numbers: impl Iterator<Item = i64>) {
    let mut before = 0_i64;
    for number in numbers {
        let difference = number.wrapping_sub(before);
        write_varint(bytes, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
        before = number;
    }
}

fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or_default());
}

/// The rest of some bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    /// Reads one number for each point.
    fn numbers(&mut self, points: &mut [Point], put: impl Fn(&mut Point, f64)) -> Option<()> {
        let (numbers, rest) = self.0.split_at_checked(points.len() * 8)?;
        self.0 = rest;
        let (numbers, _) = numbers.as_chunks::<8>();
        for (point, number) in points.iter_mut().zip(numbers) {
            put(point, f64::from_le_bytes(*number));
        }
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        // Most are small.
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            let number = u64::from(*byte);
            self.0 = rest;
            return Some(number);
        }
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array::<1>()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn difference(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: f64, value: f64, at: i64) -> Point {
        Point { step, value, at: Timestamp(at) }
    }

    #[test]
    fn points_come_back_bit_by_bit() {
        let odd_nan = f64::from_bits(0x7ff8_dead_beef_0001);
        let whole = vec![
            point(0.0, 0.5, i64::MAX),
            point(1.0, f64::NAN, i64::MIN),
            point(2.0, odd_nan, -1),
            point(1e15, f64::INFINITY, 0),
            point(EXACT, -0.0, 3),
        ];
        let any =
            vec![point(-0.0, 1.0, 1), point(0.25, f64::NEG_INFINITY, 2), point(1e300, 5e-324, 2)];
        for points in [whole, any, Vec::new()] {
            assert_eq!(decode(&encode(&points)), Ok(points));
        }
    }

    #[test]
    fn a_point_of_a_usual_series_takes_thirteen_bytes() {
        let points: Vec<_> = (0..512)
            .map(|step| {
                point(f64::from(step), 0.3, 1_700_000_000_000_000 + i64::from(step) * 9_000)
            })
            .collect();
        assert!(encode(&points).len() < 512 * 13, "{}", encode(&points).len());
    }

    #[test]
    fn damaged_bytes_are_an_error_whatever_they_are() {
        let bytes = encode(&[point(1.0, 2.0, 3), point(2.0, 2.0, 4)]);
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(decode(&[bytes.as_slice(), b"x"].concat()).is_err());
        assert!(decode(&[1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]).is_err());
        assert!(decode(&[2, 0, 0]).is_err(), "of a later version");
    }
}
