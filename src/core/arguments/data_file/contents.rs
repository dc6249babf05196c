//! The contents of data files as text.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use super::DataProblem;
use crate::arguments::data_format::{Compression, DataFormat, format_of};

/// Bytes that a compressed file may have as text: no more is read.
const MOST_BYTES: u64 = 16 << 30;

/// The contents of a file as text: what is compressed is unpacked, and the rows of columns and of
/// sentences become lines of JSON.
///
/// # Errors
/// Contents that are damaged, and formats that this program was built without.
pub fn contents<'a>(path: &Path, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, DataProblem> {
    match format_of(path) {
        Some((DataFormat::Conll, compression)) => {
            let plain = compression.map(|compression| unpacked(path, bytes, compression));
            let plain = plain.transpose()?.map_or(Cow::Borrowed(bytes), Cow::Owned);
            super::conll::lines(path, &plain).map(Cow::Owned)
        }
        Some((_, Some(compression))) => unpacked(path, bytes, compression).map(Cow::Owned),
        Some((DataFormat::Parquet, None)) => super::columns::parquet(path, bytes).map(Cow::Owned),
        Some((DataFormat::Arrow, None)) => super::columns::arrow(path, bytes).map(Cow::Owned),
        _ => Ok(Cow::Borrowed(bytes)),
    }
}

fn unpacked(path: &Path, bytes: &[u8], compression: Compression) -> Result<Vec<u8>, DataProblem> {
    let mut all = Vec::new();
    let read = match compression {
        Compression::Gzip => {
            flate2::read::MultiGzDecoder::new(bytes).take(MOST_BYTES).read_to_end(&mut all)
        }
        Compression::Zstd => unpack_frames(bytes, &mut all),
    };
    match read {
        Ok(_) if all.len() as u64 >= MOST_BYTES => {
            let message = format!("unpacked it has more than {} GiB", MOST_BYTES >> 30);
            Err(DataProblem::new(path, None, message).with_help("give it as a folder of parts"))
        }
        Ok(_) => Ok(all),
        Err(error) => Err(DataProblem::new(path, None, format!("cannot be unpacked: {error}"))
            .with_help("was it written completely, and is its extension right?")),
    }
}

/// Frames one after another, as `zstd` and its parallel writers make them.
fn unpack_frames(mut bytes: &[u8], all: &mut Vec<u8>) -> std::io::Result<usize> {
    while !bytes.is_empty() {
        let room = MOST_BYTES.saturating_sub(all.len() as u64);
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut bytes);
        let read = match decoder {
            Ok(decoder) => decoder.take(room).read_to_end(all)?,
            Err(ruzstd::decoding::errors::FrameDecoderError::ReadFrameHeaderError(
                ruzstd::decoding::errors::ReadFrameHeaderError::SkipFrame { length, .. },
            )) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                bytes = bytes.get(length..).unwrap_or_default();
                continue;
            }
            Err(error) => return Err(std::io::Error::other(error)),
        };
        if read as u64 >= room {
            break;
        }
    }
    Ok(all.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_files_are_unpacked_with_all_of_their_members() {
        use std::io::Write as _;
        let gzip = |text: &str| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let zstd = |text: &str| {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(text.as_bytes(), level)
        };
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        for (name, bytes) in [
            ("a.csv.gz", [gzip("text,label\n"), gzip("x,1\n")].concat()),
            ("a.csv.zst", [zstd("text,label\n"), skippable, zstd("x,1\n")].concat()),
        ] {
            let read = |bytes: &[u8]| contents(Path::new(name), bytes).map(Cow::into_owned);
            assert_eq!(read(&bytes).unwrap(), b"text,label\nx,1\n", "{name}");
            let torn = read(&bytes[..bytes.len() - 3]).unwrap_err().to_string();
            assert!(torn.starts_with(&format!("{name}: cannot be unpacked: ")), "{torn}");
            assert!(read(b"text,label\nx,1\n").is_err(), "{name} is not compressed");
        }
    }
}
