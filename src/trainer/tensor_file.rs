//! Safetensors files that never lie in memory as a whole: written piece by piece, and read as they lie on the disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use safetensors::{SafeTensorError, SafeTensors};

use super::TrainerError;
use super::durable::Draft;

/// Bytes that tell how long a file's header is.
const LENGTH: usize = 8;

/// A tensor to be written.
pub(super) struct Entry<'a> {
    pub(super) name: String,
    pub(super) kind: Dtype,
    pub(super) shape: Vec<usize>,
    /// Its little-endian bytes in row-major order, made when their turn comes.
    pub(super) pieces: Pieces<'a>,
}

/// Bytes, some after the others.
pub(super) type Pieces<'a> = Box<dyn Iterator<Item = Result<Vec<u8>, TrainerError>> + 'a>;

/// Writes a file of these tensors; its digest.
pub(super) fn write(draft: &Draft, name: &str, mut entries: Vec<Entry<'_>>) -> Result<blake3::Hash, TrainerError> {
    // As safetensors' own `serialize` orders them: wide numbers first, so that all are aligned, then by name.
    entries.sort_by(|a, b| b.kind.cmp(&a.kind).then_with(|| a.name.cmp(&b.name)));
    let mut end = 0;
    let mut place = |entry: &Entry<'_>| {
        let begin = end;
        end += entry.shape.iter().product::<usize>() * entry.kind.bitsize() / 8;
        (entry.name.clone(), TensorInfo { dtype: entry.kind, shape: entry.shape.clone(), data_offsets: (begin, end) })
    };
    let places = entries.iter().map(&mut place).collect();
    // transformers asks for this entry.
    let about = [("format".to_owned(), "pt".to_owned())].into();
    let header = Metadata::new(Some(about), places).expect("one tensor follows the other, and each was in memory");
    let mut header = serde_json::to_vec(&header).expect("plain data with string keys");
    header.resize(header.len().next_multiple_of(LENGTH), b' ');
    let head = [&(header.len() as u64).to_le_bytes()[..], &header].concat();
    draft.write_pieces(name, std::iter::once(Ok(head)).chain(entries.into_iter().flat_map(|entry| entry.pieces)))
}

/// A file's tensors by name; the file is mapped, and its numbers are not looked at before they are asked for.
pub(super) struct TensorFile {
    map: Mmap,
    tensors: BTreeMap<String, Stored>,
}

/// Where a tensor lies.
pub(super) struct Stored {
    pub(super) kind: Dtype,
    pub(super) shape: Vec<usize>,
    bytes: Range<usize>,
}

impl TensorFile {
    /// Maps a file and holds every size in its header against it; or the end of a sentence that begins with the file's name.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
        #[expect(unsafe_code, reason = "weights of gigabytes are converted tensor by tensor, and every map of a file is unsafe in Rust")]
        // SAFETY: the map is only read, and dropped once the values are made. Should someone truncate the file meanwhile, reading it raises
        // SIGBUS in this worker process, which the runner survives.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| format!("cannot be mapped into memory: {error}"))?;
        // It checks that header and tensors end where the file does, that no tensor lies on another, and that shapes give the lengths.
        let parsed = SafeTensors::deserialize(&map).map_err(|error| damage(&map, &error))?;
        let start = map.as_ptr() as usize;
        let stored = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
            let first = view.data().as_ptr() as usize - start;
            (name.to_owned(), Stored { kind: view.dtype(), shape: view.shape().to_vec(), bytes: first..first + view.data().len() })
        };
        let tensors = parsed.iter().map(stored).collect();
        drop(parsed);
        Ok(Self { map, tensors })
    }

    /// A tensor, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<&Stored> {
        self.tensors.get(name)
    }

    /// The names of all tensors, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor's bytes.
    pub(super) fn bytes(&self, stored: &Stored) -> &[u8] {
        &self.map[stored.bytes.clone()]
    }
}

/// Single floats of their bytes.
pub(super) fn singles(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// What is wrong with a file, and what to do, as the end of a sentence that begins with its name.
fn damage(file: &[u8], error: &SafeTensorError) -> String {
    let bytes = file.len();
    if file.starts_with(b"version https://git-lfs") {
        return "is a pointer of Git LFS instead of the weights: `git lfs pull` in its directory fetches them".to_owned();
    }
    let header = file.first_chunk::<LENGTH>().map_or(0, |length| u64::from_le_bytes(*length));
    let what = match error {
        SafeTensorError::HeaderTooSmall => format!("it has {bytes} bytes, fewer than any safetensors file"),
        SafeTensorError::HeaderTooLarge | SafeTensorError::InvalidHeaderLength => {
            format!("its header should take {header} bytes, and the whole file has {bytes}")
        }
        SafeTensorError::MetadataIncompleteBuffer => match tensors_end(file) {
            Some(end) => format!("its header describes {end} bytes, and it has {bytes}"),
            None => format!("its header does not describe its {bytes} bytes"),
        },
        SafeTensorError::InvalidOffset(name) => format!("the tensor `{name}` does not begin where the one before it ends"),
        SafeTensorError::TensorInvalidInfo => "a tensor takes other bytes than its shape says".to_owned(),
        SafeTensorError::ValidationOverflow => "a tensor's shape has more numbers than there can be".to_owned(),
        SafeTensorError::InvalidHeader(_) | SafeTensorError::InvalidHeaderDeserialization(_) => format!("its header cannot be understood ({error})"),
        other => other.to_string(),
    };
    format!("is truncated or damaged: {what}; copy or download it again")
}

/// Where a file should end by its header.
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

    use super::super::durable::Existing;
    use super::*;

    #[test]
    fn a_file_written_in_pieces_is_the_one_that_safetensors_writes() {
        let directory = TempDir::new().unwrap();
        let numbers: Vec<Vec<u8>> = [24, 8, 3].into_iter().map(|length| (0..length).collect()).collect();
        let tensors = [("b.weight", Dtype::F32, vec![2, 3]), ("a", Dtype::F32, vec![2]), ("b.whole", Dtype::I8, vec![3, 1])];
        let views = tensors.iter().zip(&numbers).map(|((name, kind, shape), bytes)| (*name, TensorView::new(*kind, shape.clone(), bytes).unwrap()));
        let expected = safetensors::serialize(views, Some([("format".to_owned(), "pt".to_owned())].into())).unwrap();
        let entries = tensors.iter().zip(&numbers).map(|((name, kind, shape), bytes)| Entry {
            name: (*name).to_owned(),
            kind: *kind,
            shape: shape.clone(),
            pieces: Box::new(bytes.chunks(5).map(|piece| Ok(piece.to_vec()))),
        });
        let draft = Draft::new(&directory.path().join("target")).unwrap();
        let digest = write(&draft, "model.safetensors", entries.collect()).unwrap();
        draft.publish(Existing::Keep).unwrap();
        let path = directory.path().join("target/model.safetensors");
        let written = fs::read(&path).unwrap();
        assert!(written == expected, "{}", String::from_utf8_lossy(&written));
        assert_eq!(digest, blake3::hash(&written));
        let file = TensorFile::open(&path).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b.weight", "b.whole"]);
        for ((name, kind, shape), bytes) in tensors.iter().zip(&numbers) {
            let stored = file.get(name).unwrap();
            assert_eq!((stored.kind, &stored.shape, file.bytes(stored)), (*kind, shape, &bytes[..]));
        }
    }

    /// What is said of a file with this header and so many bytes after it.
    fn said(header: &str, bytes: usize) -> String {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("x");
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; bytes]].concat();
        fs::write(&path, file).unwrap();
        TensorFile::open(&path).err().unwrap_or_default()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_sizes() {
        let one = |shape: &str, from: usize, to: usize| format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}}}"#);
        assert_eq!(said(&one("[2]", 0, 8), 8), "");
        let short = said(&one("[2]", 0, 8), 5);
        assert!(short.contains("its header describes 70 bytes, and it has 67; copy or download it again"), "{short}");
        assert!(said(&one("[2]", 4, 12), 12).contains("the tensor `a` does not begin where the one before it ends"));
        assert!(said(&one("[3]", 0, 8), 8).contains("a tensor takes other bytes than its shape says"));
        assert!(said(&one("[4611686018427387904,4]", 0, 8), 8).contains("more numbers than there can be"));
        assert!(said(&one("[-2]", 0, 8), 8).contains("its header cannot be understood"));
        assert!(said("no JSON", 8).contains("its header cannot be understood"));
        // Of the same bytes, and one upon the other.
        let two = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert!(said(two, 8).contains("does not begin where the one before it ends"));

        let directory = TempDir::new().unwrap();
        let path = directory.path().join("x");
        let of = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            TensorFile::open(&path).err().unwrap()
        };
        assert!(of(b"").contains("it has 0 bytes, fewer than any safetensors file"));
        assert!(of(&(1_u64 << 60).to_le_bytes()).contains("its header should take 1152921504606846976 bytes, and the whole file has 8"));
        assert!(of(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n").contains("`git lfs pull`"));
    }
}
