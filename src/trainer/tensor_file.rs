//! Safetensors files: written chunk by chunk, and memory-mapped for reading, so that none is held
//! in memory as a whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use safetensors::{SafeTensorError, SafeTensors};

use super::atomic_directory::AtomicDirectory;
use super::{TrainerError, mapped_file};

/// Size of the header's length field.
const LENGTH: usize = 8;

/// A tensor to write.
pub(super) struct TensorEntry<'a> {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// Its little-endian bytes in row-major order, produced lazily.
    pub(super) chunks: ByteChunks<'a>,
}

/// Consecutive chunks of bytes.
pub(super) type ByteChunks<'a> = Box<dyn Iterator<Item = Result<Vec<u8>, TrainerError>> + 'a>;

/// Writes a file of these tensors; returns its digest.
pub(super) fn write(
    staged: &AtomicDirectory,
    name: &str,
    mut entries: Vec<TensorEntry<'_>>,
) -> Result<blake3::Hash, TrainerError> {
    // The order of safetensors' own `serialize`: by descending size of the dtype, so that all are
    // aligned, then by name.
    entries.sort_by(|a, b| b.dtype.cmp(&a.dtype).then_with(|| a.name.cmp(&b.name)));
    let mut end = 0;
    let mut layout = |entry: &TensorEntry<'_>| {
        let begin = end;
        end += entry.shape.iter().product::<usize>() * entry.dtype.bitsize() / 8;
        (
            entry.name.clone(),
            TensorInfo {
                dtype: entry.dtype,
                shape: entry.shape.clone(),
                data_offsets: (begin, end),
            },
        )
    };
    let infos = entries.iter().map(&mut layout).collect();
    // transformers requires this entry.
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    let header = Metadata::new(Some(metadata), infos)
        .expect("tensors are contiguous, and each fits in memory");
    let mut header = serde_json::to_vec(&header).expect("plain data with string keys");
    header.resize(header.len().next_multiple_of(LENGTH), b' ');
    let head = [&(header.len() as u64).to_le_bytes()[..], &header].concat();
    staged.write_chunks(
        name,
        std::iter::once(Ok(head)).chain(entries.into_iter().flat_map(|entry| entry.chunks)),
    )
}

/// A memory-mapped file of tensors, which are read on demand.
pub(super) struct TensorFile {
    map: Mmap,
    tensors: BTreeMap<String, StoredTensor>,
}

/// A tensor of the file.
pub(super) struct StoredTensor {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    bytes: Range<usize>,
}

impl TensorFile {
    /// Maps a file and validates its header; the error is the end of a sentence that begins with
    /// the file's name.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let map = mapped_file::map(path).map_err(|error| format!("cannot be read: {error}"))?;
        // It checks that the file has the described length, that tensors do not overlap, and that
        // shapes match lengths.
        let parsed = SafeTensors::deserialize(&map).map_err(|error| damage(&map, &error))?;
        let start = map.as_ptr() as usize;
        let stored = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
            let first = view.data().as_ptr() as usize - start;
            (
                name.to_owned(),
                StoredTensor {
                    dtype: view.dtype(),
                    shape: view.shape().to_vec(),
                    bytes: first..first + view.data().len(),
                },
            )
        };
        let tensors = parsed.iter().map(stored).collect();
        drop(parsed);
        Ok(Self { map, tensors })
    }

    /// A tensor, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<&StoredTensor> {
        self.tensors.get(name)
    }

    /// The names of all tensors, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor's bytes.
    pub(super) fn bytes(&self, stored: &StoredTensor) -> &[u8] {
        &self.map[stored.bytes.clone()]
    }
}

/// f32 values from little-endian bytes.
pub(super) fn f32_from_le_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect()
}

/// What is wrong with a file, and the remedy, as the end of a sentence that begins with its name.
fn damage(file: &[u8], error: &SafeTensorError) -> String {
    let bytes = file.len();
    if file.starts_with(b"version https://git-lfs") {
        return "is a Git LFS pointer instead of the weights: `git lfs pull` in its directory \
            fetches them"
            .to_owned();
    }
    let header = file.first_chunk::<LENGTH>().map_or(0, |length| u64::from_le_bytes(*length));
    let what = match error {
        SafeTensorError::HeaderTooSmall => {
            format!("it has {bytes} bytes, fewer than any safetensors file")
        }
        SafeTensorError::HeaderTooLarge | SafeTensorError::InvalidHeaderLength => {
            format!("its header should take {header} bytes, and the whole file has {bytes}")
        }
        SafeTensorError::MetadataIncompleteBuffer => match tensors_end(file) {
            Some(end) => format!("its header describes {end} bytes, and it has {bytes}"),
            None => format!("its header does not describe its {bytes} bytes"),
        },
        SafeTensorError::InvalidOffset(name) => {
            format!("the tensor `{name}` does not begin where the one before it ends")
        }
        SafeTensorError::TensorInvalidInfo => {
            "a tensor takes other bytes than its shape says".to_owned()
        }
        SafeTensorError::ValidationOverflow => {
            "a tensor's shape has more numbers than there can be".to_owned()
        }
        SafeTensorError::InvalidHeader(_) | SafeTensorError::InvalidHeaderDeserialization(_) => {
            format!("its header cannot be parsed ({error})")
        }
        other => other.to_string(),
    };
    format!("is truncated or damaged: {what}; copy or download it again")
}

/// The length that a file should have by its header.
fn tensors_end(file: &[u8]) -> Option<usize> {
    let length = usize::try_from(u64::from_le_bytes(*file.first_chunk::<LENGTH>()?)).ok()?;
    let start = LENGTH.checked_add(length)?;
    let header: Metadata = serde_json::from_slice(file.get(LENGTH..start)?).ok()?;
    Some(start + header.data_len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use safetensors::tensor::TensorView;
    use tempfile::TempDir;

    use super::super::atomic_directory::IfExists;
    use super::super::tests::assert_contains;
    use super::*;

    #[test]
    fn a_file_written_in_chunks_is_the_one_that_safetensors_writes() {
        let directory = TempDir::new().unwrap();
        let numbers: Vec<Vec<u8>> =
            [24, 8, 3].into_iter().map(|length| (0..length).collect()).collect();
        let tensors = [
            ("b.weight", Dtype::F32, vec![2, 3]),
            ("a", Dtype::F32, vec![2]),
            ("b.whole", Dtype::I8, vec![3, 1]),
        ];
        let views = tensors.iter().zip(&numbers).map(|((name, dtype, shape), bytes)| {
            (*name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        let expected =
            safetensors::serialize(views, Some([("format".to_owned(), "pt".to_owned())].into()))
                .unwrap();
        let entries =
            tensors.iter().zip(&numbers).map(|((name, dtype, shape), bytes)| TensorEntry {
                name: (*name).to_owned(),
                dtype: *dtype,
                shape: shape.clone(),
                chunks: Box::new(bytes.chunks(5).map(|piece| Ok(piece.to_vec()))),
            });
        let staged = AtomicDirectory::new(&directory.path().join("target")).unwrap();
        let digest = write(&staged, "model.safetensors", entries.collect()).unwrap();
        staged.publish(IfExists::Keep).unwrap();
        let path = directory.path().join("target/model.safetensors");
        let written = fs::read(&path).unwrap();
        assert!(written == expected, "{}", String::from_utf8_lossy(&written));
        assert_eq!(digest, blake3::hash(&written));
        let file = TensorFile::open(&path).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b.weight", "b.whole"]);
        for ((name, dtype, shape), bytes) in tensors.iter().zip(&numbers) {
            let stored = file.get(name).unwrap();
            assert_eq!((stored.dtype, &stored.shape), (*dtype, shape));
            assert_eq!(file.bytes(stored), bytes);
        }
    }

    /// The problem of a file with these bytes, or nothing.
    fn problem(bytes: &[u8]) -> String {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, bytes).unwrap();
        TensorFile::open(&path).err().unwrap_or_default()
    }

    #[test]
    fn a_damaged_file_is_described_with_its_sizes() {
        let one = |shape: &str, from: usize, to: usize| {
            format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}}}"#)
        };
        let with_header = |header: &str, bytes: usize| {
            let length = (header.len() as u64).to_le_bytes();
            problem(&[&length[..], header.as_bytes(), &vec![0; bytes]].concat())
        };
        assert_eq!(with_header(&one("[2]", 0, 8), 8), "");
        let gap = "the tensor `a` does not begin where the one before it ends";
        let overlap = concat!(
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"#,
            r#""b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#
        );
        let not_json = "its header cannot be parsed";
        for (header, bytes, expected) in [
            (
                one("[2]", 0, 8),
                5,
                "its header describes 70 bytes, and it has 67; copy or download it again",
            ),
            (one("[2]", 4, 12), 12, gap),
            (one("[3]", 0, 8), 8, "a tensor takes other bytes than its shape says"),
            (one("[4611686018427387904,4]", 0, 8), 8, "more numbers than there can be"),
            (one("[-2]", 0, 8), 8, not_json),
            ("no JSON".to_owned(), 8, not_json),
            (overlap.to_owned(), 8, "does not begin where the one before it ends"),
        ] {
            assert_contains(&with_header(&header, bytes), expected);
        }
        assert_contains(&problem(b""), "it has 0 bytes, fewer than any safetensors file");
        let expected = "its header should take 1152921504606846976 bytes, and the whole file has 8";
        assert_contains(&problem(&(1_u64 << 60).to_le_bytes()), expected);
        let pointer =
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n";
        assert_contains(&problem(pointer), "`git lfs pull`");
    }
}
