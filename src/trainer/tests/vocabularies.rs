//! Tokenizers of directories without `tokenizer.json` against those that transformers makes of the
//! same files (`tests/peers/tokenizers_golden.py`).

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tokenizers::Tokenizer;

use super::super::model_directory::{target_tokenizer, tokenizer};
use super::super::prepared::Extra;
use super::super::vocabulary_files::has_tokenizer;
use super::golden::{golden_directory, integers};
use super::*;

fn directory(name: &str) -> PathBuf {
    golden_directory("vocabularies").join(name)
}

fn golden(name: &str) -> Value {
    json_of(&directory(name).join("golden.json"))
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Compares the ids of `texts`, and the texts of these ids.
fn assert_encodes(name: &str, tokenizer: &Tokenizer, texts: &Value, ids: &Value, decoded: &Value) {
    let ids: Vec<_> = ids.as_array().unwrap().iter().map(integers).collect();
    for ((text, ids), decoded) in strings(texts).into_iter().zip(&ids).zip(strings(decoded)) {
        let encoding = tokenizer.encode(text, true).unwrap();
        assert_eq!(encoding.get_ids(), ids, "{name}: {text:?} is {:?}", encoding.get_tokens());
        assert_eq!(tokenizer.decode(ids, true).unwrap(), decoded, "{name}: {text:?}");
    }
}

#[test]
fn files_from_before_tokenizer_json_make_the_tokenizers_of_transformers() {
    let names = [
        "t5",
        "mt5",
        "albert",
        "xlm-roberta",
        "deberta-v2",
        "bert",
        "roberta",
        "gpt2",
        "marian",
        "bert-changed",
        "roberta-changed",
        "albert-changed",
    ];
    for name in names {
        let (golden, tokenizer) = (golden(name), tokenizer(&directory(name), None).unwrap());
        assert_encodes(name, &tokenizer, &golden["texts"], &golden["ids"], &golden["decoded"]);
        let texts = strings(&golden["texts"]);
        let pair = tokenizer.encode((texts[0], texts[1]), true).unwrap();
        assert_eq!(pair.get_ids(), integers(&golden["pair"]), "{name}");
    }
}

#[test]
fn the_texts_that_marian_writes_have_pieces_of_their_own() {
    let (golden, directory) = (golden("marian"), directory("marian"));
    let tokenizer = target_tokenizer(&directory).unwrap().unwrap();
    let [texts, ids, decoded] =
        ["targets", "target_ids", "decoded_targets"].map(|key| &golden[key]);
    assert_encodes("marian", &tokenizer, texts, ids, decoded);
    // A piece of the source's alone, which a model may copy, reads as it does there.
    let of_source = &golden["ids"][0];
    let decoded = tokenizer.decode(&integers(of_source), true).unwrap();
    assert_eq!(decoded, strings(&golden["texts"])[0]);
    for name in ["t5", "roberta"] {
        assert!(target_tokenizer(&golden_directory("vocabularies").join(name)).unwrap().is_none());
    }
}

/// A tiny Marian with the vocabularies of the golden directory, and rows to translate.
fn marian_study(directory: &Path) -> PathBuf {
    let (model, vocabularies) = (directory.join("marian"), self::directory("marian"));
    fs::create_dir(&model).unwrap();
    for name in ["source.spm", "target.spm", "vocab.json", "tokenizer_config.json"] {
        fs::copy(vocabularies.join(name), model.join(name)).unwrap();
    }
    let tokens = json_of(&vocabularies.join("vocab.json")).as_object().unwrap().len();
    let source = golden_directory("marian");
    let config = json!({
        "vocab_size": tokens, "decoder_vocab_size": tokens, "eos_token_id": 0,
        "pad_token_id": tokens - 1,
        "decoder_start_token_id": tokens - 1, "bos_token_id": 0, "forced_eos_token_id": 0,
    });
    let config = merged(json_of(&source.join("config.json")), config);
    fs::write(model.join("config.json"), config.to_string()).unwrap();
    let bytes = fs::read(source.join("model.safetensors")).unwrap();
    let of_tokens = |name: &str, shape: &[usize]| -> Vec<u8> {
        let numbers = shape.iter().product::<usize>();
        let number = |index: usize| match name {
            "final_logits_bias" => 0.0,
            _ => ((index * 7_919 + 13) % 1_009) as f32 / 1_009.0 - 0.5,
        };
        (0..numbers).flat_map(|index| number(index).to_le_bytes()).collect()
    };
    let tensors: Vec<_> = SafeTensors::deserialize(&bytes)
        .unwrap()
        .iter()
        .map(|(name, view)| {
            let shape: Vec<usize> =
                view.shape().iter().map(|size| if *size == 40 { tokens } else { *size }).collect();
            let values =
                if shape == view.shape() { view.data().to_vec() } else { of_tokens(name, &shape) };
            (name.to_owned(), shape, values)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, values)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), values).unwrap())
    });
    fs::write(model.join("model.safetensors"), safetensors::serialize(views, None).unwrap())
        .unwrap();
    let (golden, sources) = (golden("marian"), ["the best trial", "a curve", "rates and depths"]);
    let rows: String = (0..24)
        .map(|row| {
            let target = strings(&golden["targets"])[row % 3];
            json!({"source": sources[row % 3], "told": target}).to_string() + "\n"
        })
        .collect();
    fs::write(directory.join("train.jsonl"), rows).unwrap();
    model
}

#[test]
fn a_marian_with_two_vocabularies_learns_and_serves_again_as_a_model() {
    let directory = TempDir::new().unwrap();
    let model = marian_study(directory.path());
    let prepare = |model: &Path| {
        let values = json!({
            "train": "train.jsonl", "text": "source", "target": "told", "max_length": 30,
            "validation_split": 0.25, "clean.deduplicate": false,
        });
        let source = TokenizerSource::Pretrained(model.to_owned());
        prepare_logged(directory.path(), TaskKind::Translation, values, &source).0.unwrap()
    };
    let data = prepare(&model);
    let golden = golden("marian");
    let targets = data.extras(Extra::SecondTexts, Split::Train).unwrap();
    let known: Vec<_> = golden["target_ids"].as_array().unwrap().iter().map(integers).collect();
    for row in 0..data.rows(Split::Train) {
        assert!(known[..3].contains(&targets.ids(row).collect()), "{row}");
    }
    let arguments = resolve(json!({
        "task": "translation", "model": model, "learning_rate": 0.01, "num_train_epochs": 40,
        "lr_scheduler_type": "constant",
    }));
    let runner = trained(&job(&arguments, &data, &directory.path().join("trial")));
    let last = runner.last_report();
    assert!(last["eval_exact_match"] > 0.9, "{last:?}");
    let checkpoint = runner.last_checkpoint();
    let texts_of = |directory: &Path| -> Vec<String> {
        let predictions = predicted(directory, &["a curve", "the best trial"]).unwrap();
        let text = |prediction| match prediction {
            Prediction::Text(text) => text,
            other => panic!("{other:?}"),
        };
        predictions.into_iter().map(text).collect()
    };
    let targets = strings(&golden["targets"]);
    assert_eq!(texts_of(checkpoint), [targets[1], targets[0]]);
    // It is a model again, with and without the `tokenizer.json` that was made for it.
    let again = prepare(checkpoint);
    assert_eq!(again.rows(Split::Train), data.rows(Split::Train));
    for name in ["digests.json", "tokenizer.json"] {
        fs::remove_file(checkpoint.join(name)).unwrap();
    }
    assert_eq!(texts_of(checkpoint), [targets[1], targets[0]]);
}

#[test]
fn damaged_vocabularies_are_refused_with_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(scratch.path().join(name), bytes).unwrap();
    let refused = || tokenizer(scratch.path(), None).unwrap_err().to_string();

    write("config.json", b"{\"model_type\": \"t5\"}");
    assert!(!has_tokenizer(scratch.path()));
    let problem = refused();
    assert!(problem.contains("nor all of what it could be made of (`spiece.model`)"), "{problem}");
    let model = fs::read(directory("t5").join("spiece.model")).unwrap();
    // A file that is cut off is no tokenizer of fewer pieces.
    for end in 0..model.len() - 1 {
        write("spiece.model", &model[..end]);
        assert_contains(&refused(), "`spiece.model` cannot be used");
    }
    for position in 0..model.len() {
        let mut damaged = model.clone();
        damaged[position] ^= 0xff;
        write("spiece.model", &damaged);
        let _either = tokenizer(scratch.path(), None);
    }
    write("config.json", b"{\"model_type\": \"marian\"}");
    for name in ["source.spm", "target.spm"] {
        write(name, &fs::read(directory("marian").join(name)).unwrap());
    }
    let of_vocabulary = |vocabulary: &str, said: &str| {
        write("vocab.json", vocabulary.as_bytes());
        assert_contains(&refused(), &format!("`vocab.json` cannot be used: {said}"));
    };
    of_vocabulary(r#"{"<unk>": 4000000000, "</s>": 0}"#, "`<unk>` has the number 4000000000");
    of_vocabulary(r#"{"</s>": 0}"#, "it has no `<unk>`");
    of_vocabulary(r#"{"a": 1, "<unk>": 1}"#, "`<unk>` and `a` both have the number 1");
    write("config.json", b"{\"model_type\": \"gpt2\"}");
    write("merges.txt", b"");
    of_vocabulary(r#"{"a": 4294967295}"#, "`a` has the number 4294967295");
    write("vocab.json", b"{\"a\": 0}");
    write("added_tokens.json", b"{\"<user>\": 7}");
    assert_contains(&refused(), "`<user>` has the number 7, not 1");
    write("tokenizer_config.json", b"{\"tokenizer_class\": \"BertJapaneseTokenizer\"}");
    write("added_tokens.json", b"{}");
    assert_contains(&refused(), "its `tokenizer_class` is `BertJapaneseTokenizer`");
    write("tokenizer_config.json", b"{");
    assert_contains(&refused(), "`tokenizer_config.json` cannot be used");
    write("config.json", b"{\"model_type\": \"llama\"}");
    assert!(refused().contains("has no `tokenizer.json`: `AutoTokenizer"));
}
