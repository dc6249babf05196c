//! Problems of data are located by file and line, and findings are kept with it.

use super::*;

fn write_files(files: &[(&str, &[u8])]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

/// The problem of these files, which leave nothing in the cache.
pub(super) fn problem_with(
    files: &[(&str, &[u8])],
    kind: TaskKind,
    values: Value,
    tokenizer: &TokenizerSource,
) -> String {
    let directory = write_files(files);
    let (prepared, _) = prepare_logged(directory.path(), kind, values, tokenizer);
    let cached = fs::read_dir(directory.path().join("cache"));
    assert_eq!(cached.map_or(0, Iterator::count), 0);
    prepared.unwrap_err().to_string().replace(&format!("{}/", directory.path().display()), "")
}

fn problem(files: &[(&str, &[u8])], values: Value) -> String {
    problem_with(files, TaskKind::TextClassification, values, &words())
}

fn csv_problem(csv: &str) -> String {
    problem(&[("a.csv", csv.as_bytes())], json!({"train": "a.csv", "clean.drop_empty": false}))
}

fn csv_problem_begins(csv: &str, start: &str) {
    let problem = csv_problem(csv);
    assert!(problem.starts_with(start), "{problem}");
}

#[test]
fn a_missing_file_is_named() {
    let expected = "a.csv: the file does not exist (paths are relative to the study file)";
    assert_eq!(problem(&[], json!({"train": "a.csv"})), expected);
}

#[test]
fn a_missing_column_is_named_with_those_there_are() {
    let expected = "a.csv:1: there is no column `label`; columns are `text`, `labels` (did you \
        mean `labels`?)";
    assert_eq!(csv_problem("text,labels\nx,1\n"), expected);
}

#[test]
fn all_missing_columns_are_named_at_once() {
    let said = |text: &str| csv_problem(text);
    assert_eq!(
        said("texts,labels\nx,1\n"),
        "a.csv:1: there are no columns `text`, `label`; columns are `texts`, `labels` (did you \
         mean `texts`, `labels`?)"
    );
    let one = said("texts,stars\nx,1\n");
    assert!(one.contains("(did you mean `texts`? If not, set `[data] text`"), "{one}");
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let said = problem(&[], json!({"train": "/dev/zero"}));
    assert!(said.starts_with("/dev/zero: it is a pipe or a device, not a file"), "{said}");
}

#[test]
fn a_file_with_another_delimiter_is_told_so() {
    let remedy = "(are its fields separated by `;`? `[data] separator = \";\"` says so)";
    assert!(csv_problem("text;label\nx;1\n").ends_with(remedy));
    let remedy = "(are its fields separated by tabs? `[data] separator = \"\\t\"` says so)";
    assert!(csv_problem("text\tlabel\nx\t1\n").ends_with(remedy));
}

#[test]
fn empty_files_and_headers_alone_are_refused() {
    let empty = "a.csv: the file is empty (was it written completely? `[data]` names another one)";
    assert_eq!(csv_problem("\n"), empty);
    let no_rows = "a.csv: the file has a header but no rows (was it written completely?)";
    assert_eq!(csv_problem("text,label\n"), no_rows);
}

#[test]
fn one_label_is_not_enough() {
    csv_problem_begins("text,label\nx,1\ny,1\n", "a.csv: all 2 rows have the label `1`");
}

#[test]
fn broken_quoting_is_found_at_its_line() {
    for (csv, start) in [
        (
            "text,label\nx,1\n\"y,2\nz,1\n",
            "a.csv:3: a quote is opened here and never closed (close it",
        ),
        ("text,label\nx,1\n\"y\" z,2\n", "a.csv:3: text after a closing quote"),
        ("text,label\nx,1\ny, z,2\n", "a.csv:3: 3 fields where the first line has 2"),
    ] {
        csv_problem_begins(csv, start);
    }
}

#[test]
fn quoted_line_breaks_count_as_lines() {
    let expected =
        "a.csv:5: the label in column `label` is empty (give it a label, or remove the row)";
    assert_eq!(csv_problem("text,label\n\"x\ny\",1\n\"a \"\"b\"\"\",2\nz,\n"), expected);
}

#[test]
fn bytes_that_are_not_utf_8_are_located() {
    let problem = problem(&[("a.csv", b"text,label\nx,1\ncaf\xe9,2\n")], json!({"train": "a.csv"}));
    assert!(problem.starts_with("a.csv:3: not UTF-8: byte 0xe9 at byte offset 18"), "{problem}");
}

#[test]
fn an_empty_text_is_an_error_unless_it_is_to_be_dropped() {
    csv_problem_begins("text,label\nx,1\n ,2\n", "a.csv:3: the text in column `text` is empty");
    let expected = "a.csv: all 2 texts in column `text` are empty (is that the right column? \
        `[data] text` names it)";
    let files: [(&str, &[u8]); 1] = [("a.csv", b"text,label\n,1\n,2\n")];
    assert_eq!(problem(&files, json!({"train": "a.csv"})), expected);
}

#[test]
fn a_label_that_is_never_trained_is_an_error() {
    let files: [(&str, &[u8]); 2] =
        [("a.csv", b"text,label\nx,1\ny,2\n"), ("v.csv", b"text,label\nx,1\nz,3\n")];
    let problem = problem(&files, json!({"train": "a.csv", "validation": "v.csv"}));
    let expected = "v.csv:3: label `3` occurs in the validation rows but not in the training rows";
    assert!(problem.starts_with(expected), "{problem}");
}

#[test]
fn too_few_rows_cannot_be_split() {
    let expected = "a.csv: 2 rows with 2 labels are too few to split";
    csv_problem_begins("text,label\nx,1\ny,2\n", expected);
}

#[test]
fn json_lines_are_located_too() {
    for (text, start) in [
        ("{\"text\": \"x\", \"label\": 1}\n{\"text\"\n", "a.jsonl:2: not JSON"),
        (
            "{\"text\": \"x\", \"label\": 1}\n{\"text\": \"y\"}\n",
            "a.jsonl:2: there is no column `label`",
        ),
        ("{\"text\": {}, \"label\": 1}\n", "a.jsonl:1: `text` is `{}`"),
        (
            "{\"text\": \"x\", \"label\": [\"a\"]}\n{\"text\": \"y\", \"label\": [\"a\", \"b\"]}\n",
            "a.jsonl:2: 2 labels in column `label`",
        ),
        ("{\"text\": \"x\", \"label\": null}\n", "a.jsonl:1: the label in column `label` is empty"),
        ("{\"text\": null, \"label\": 1}\n", "a.jsonl: all 1 texts in column `text` are empty"),
    ] {
        let problem = problem(&[("a.jsonl", text.as_bytes())], json!({"train": "a.jsonl"}));
        assert!(problem.starts_with(start), "{problem}");
    }
}

const OVERLAP: &str = "1 of 1 validation texts also occur in train, so that metrics are too good: \
    remove them from one of the two files";

#[test]
fn findings_are_kept_with_the_data() {
    let directory = write_files(&[
        ("a.tsv", b"label\ttext\n10\tsay \"hi\n9\tbye\n10\t\n9\tbye\n10\tsay\n"),
        ("v.jsonl", b"{\"text\": \"bye\", \"label\": 9}\n"),
    ]);
    let (prepared, lines) = prepare_logged(
        directory.path(),
        TaskKind::TextClassification,
        json!({"train": "a.tsv", "validation": "v.jsonl", "clean": {"deduplicate": true}}),
        &words(),
    );
    let prepared = prepared.unwrap();
    assert_eq!(prepared.labels(), ["9", "10"]);
    assert_eq!(Split::ALL.map(|split| prepared.rows(split)), [3, 1, 0]);
    assert_eq!(prepared.label_counts(Split::Train), [1, 2]);
    let messages: Vec<&str> =
        prepared.findings().iter().map(|finding| finding.message.as_str()).collect();
    for expected in [
        "1 of 5 train rows have an empty text and are left out",
        "1 of 4 train rows repeat an earlier one and are left out",
        OVERLAP,
    ] {
        assert!(messages.contains(&expected), "{messages:?}");
    }
    assert!(lines.contains(&format!("warning: {OVERLAP}")));
}

#[test]
fn labels_that_the_validation_rows_hardly_measure_are_named() {
    let labelled = |counts: &[(&str, usize)]| {
        let rows = counts.iter().flat_map(|(label, count)| vec![*label; *count]).enumerate();
        let rows: String = rows.map(|(row, label)| format!("text {row},{label}\n")).collect();
        format!("text,label\n{rows}")
    };
    let found = |train: &[(&str, usize)], validation: &[(&str, usize)], more: Value| {
        let (train, validation) = (labelled(train), labelled(validation));
        let directory =
            write_files(&[("t.csv", train.as_bytes()), ("v.csv", validation.as_bytes())]);
        let values = merged(json!({"train": "t.csv"}), more);
        let kind = TaskKind::TextClassification;
        let (prepared, _) = prepare_logged(directory.path(), kind, values, &words());
        let code = "unmeasured_labels";
        let prepared = prepared.unwrap();
        let found = prepared.findings().iter().find(|finding| finding.code == code);
        found.map(|finding| finding.message.clone())
    };
    let few = "labels with at most one validation row, for which metrics are unreliable: ";
    let held_out = json!({"validation_split": 0.2});
    let rows = [("a", 40), ("b", 40), ("c", 3), ("d", 1)];
    assert_eq!(
        found(&rows, &[], held_out.clone()).unwrap(),
        format!(
            "{few}`c` (1), `d` (0); use a larger `validation_split` than 0.2, or add rows of them"
        )
    );
    assert_eq!(found(&[("a", 40), ("b", 8)], &[], held_out), None);
    let at_random = json!({"validation_split": 0.2, "stratify": false});
    let said = found(&[("a", 400), ("b", 1)], &[], at_random).unwrap();
    assert!(
        said.ends_with("`stratify = true` under [data] holds out rows of each label"),
        "{said}"
    );
    let own = json!({"validation": "v.csv"});
    assert_eq!(
        found(&[("a", 9), ("b", 9)], &[("a", 2)], own.clone()).unwrap(),
        format!("{few}`b` (0); add rows of them to `[data] validation`")
    );
    assert_eq!(found(&[("a", 9), ("b", 9)], &[("a", 2), ("b", 2)], own), None);
}

#[test]
fn preparing_again_uses_the_cache_and_a_changed_file_does_not() {
    let fixture = Fixture::new();
    let again = |name: &str| {
        let values = json!({"train": name, "validation_split": 0.2, "max_length": 16});
        let (prepared, lines) =
            prepare_logged(fixture.path(), TaskKind::TextClassification, values, &words());
        let digest = prepared.unwrap().digest().to_owned();
        (digest, lines.iter().any(|line| line.starts_with("preparing")))
    };
    assert_eq!(again("train.csv"), (fixture.data.digest().to_owned(), false));
    fs::copy(fixture.path().join("train.csv"), fixture.path().join("moved.csv")).unwrap();
    assert_eq!(again("moved.csv"), (fixture.data.digest().to_owned(), false));
    fs::write(fixture.path().join("train.csv"), keyword_csv(121)).unwrap();
    assert!(again("train.csv").1);
}

#[test]
fn preparing_twice_at_once_gives_the_same_data() {
    let directory = write_files(&[("a.csv", keyword_csv(60).as_bytes())]);
    let prepare = || prepare_rows(directory.path(), json!({"train": "a.csv"})).unwrap();
    let digests: Vec<String> = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| prepare().digest().to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let cache = fs::read_dir(directory.path().join("cache")).unwrap();
    let left: Vec<_> = cache.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn damaged_prepared_data_is_refused() {
    let fixture = Fixture::new();
    let rows = fixture.data.directory().join("train.rows");
    let bytes = fs::read(&rows).unwrap();
    fs::remove_file(&rows).unwrap();
    fs::write(&rows, &bytes[..bytes.len() - 4]).unwrap();
    let error = PreparedData::open(fixture.data.directory()).unwrap_err().to_string();
    assert_contains(&error, "train.rows: prepared data is damaged");
}

#[test]
fn a_text_that_no_memory_suffices_for_is_refused_at_its_line() {
    let long = "word ".repeat((32 << 20) / 5 + 1);
    let expected = "a.csv:3: the text has 32 MiB, and 32 MiB are the most (give it as several \
        rows, or remove the row)";
    assert_eq!(csv_problem(&format!("text,label\na,b\n{long},c\n")), expected);
    let text = format!("two\nlines of words\n{}\nmore", "x".repeat((32 << 20) + 1));
    let problem = problem_with(
        &[("a.txt", text.as_bytes())],
        TaskKind::LanguageModeling,
        json!({"train": "a.txt", "validation_split": 0.2}),
        &tokenizer(TokenizerKind::Chars, 100, false),
    );
    let expected =
        "a.txt:1: what follows without a space or line break between two words has 32 MiB";
    assert_contains(&problem, expected);
}

#[test]
fn a_word_of_two_hundred_thousand_letters_is_no_reason_to_wait() {
    let rows: String = (0..20).map(|row| format!("some text {row},{}\n", row % 2)).collect();
    let csv = format!("text,label\n{rows}{},1\n", "ab".repeat(100_000));
    for kind in [TokenizerKind::WordPiece, TokenizerKind::Bpe, TokenizerKind::Word] {
        let directory = write_files(&[("train.csv", csv.as_bytes())]);
        let values = json!({"train": "train.csv", "validation_split": 0.2, "max_length": 16});
        let (began, tokenizer) = (std::time::Instant::now(), tokenizer(kind, 2000, true));
        let (prepared, _) =
            prepare_logged(directory.path(), TaskKind::TextClassification, values, &tokenizer);
        prepared.unwrap();
        assert!(began.elapsed().as_secs() < 10, "{kind:?}: {:?}", began.elapsed());
    }
}

#[test]
fn a_file_with_another_separator_and_without_a_header_is_read_as_the_same_rows() {
    let rows = |separator: &str| -> String {
        (0..12).map(|row| format!("{}{separator}a text {row}\n", ["no", "yes"][row % 2])).collect()
    };
    let plain = format!("label,text\n{}", rows(","));
    let directory =
        write_files(&[("plain.csv", plain.as_bytes()), ("bare.csv", rows(";").as_bytes())]);
    let prepared = |values: Value| prepare_rows(directory.path(), values).unwrap();
    let plain = prepared(json!({"train": "plain.csv"}));
    let bare =
        prepared(json!({"train": "bare.csv", "separator": ";", "column_names": ["label", "text"]}));
    for split in Split::ALL {
        let rows = |data: &PreparedData| -> Vec<(Vec<u32>, usize)> {
            let rows = data.split(split);
            (0..rows.len()).map(|row| (rows.ids(row).collect(), rows.label(row))).collect()
        };
        assert_eq!(rows(&plain), rows(&bare), "{split:?}");
    }
    assert_ne!(plain.digest(), bare.digest());
}

#[test]
fn a_label_column_that_is_called_like_a_label_is_noticed() {
    let rows: String =
        (0..12).map(|row| format!("{}\ta text {row}\n", ["ham", "spam"][row % 2])).collect();
    let directory = write_files(&[("sms.tsv", rows.as_bytes())]);
    let values = json!({"train": "sms.tsv", "text": "a text 0", "label": "ham"});
    let prepared = prepare_rows(directory.path(), values).unwrap();
    let finding = prepared.findings().iter().find(|finding| finding.code == "header").unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    let expected = "called `ham`, which is also the label of 5 of its 11 rows";
    assert_contains(&finding.message, expected);
}

/// The token ids and labels of each split.
fn rows_of(data: &PreparedData) -> Vec<Vec<(Vec<u32>, usize)>> {
    let split = |split: Split| {
        let rows = data.split(split);
        (0..rows.len()).map(|row| (rows.ids(row).collect(), rows.label(row))).collect()
    };
    Split::ALL.into_iter().map(split).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_folder_of_compressed_files_has_the_rows_of_one_file() {
    let row = |row: usize| format!("a text {row},{}\n", ["no", "yes"][row % 2]);
    let part = |rows: std::ops::Range<usize>| {
        let rows: String = rows.map(row).collect();
        format!("text,label\n{rows}")
    };
    let directory = write_files(&[("all.csv", part(0..40).as_bytes())]);
    let folder = directory.path().join("parts");
    fs::create_dir(&folder).unwrap();
    for (name, rows) in [("b.csv", 25..40), ("a.csv", 0..15), ("a2.csv", 15..25)] {
        fs::write(folder.join(format!("{name}.gz")), gzip(part(rows).as_bytes())).unwrap();
    }
    fs::write(folder.join("README.md"), "other files do not matter").unwrap();
    fs::write(folder.join(".hidden.jsonl"), "{").unwrap();
    let prepared = |train: &str| prepare_rows(directory.path(), json!({"train": train})).unwrap();
    let (whole, parts) = (prepared("all.csv"), prepared("parts"));
    assert_eq!(rows_of(&whole), rows_of(&parts));
    assert_eq!(prepared("parts/").digest(), parts.digest());
    fs::write(folder.join("b.csv.gz"), gzip(part(26..41).as_bytes())).unwrap();
    assert_ne!(prepared("parts").digest(), parts.digest());
    fs::rename(folder.join("b.csv.gz"), folder.join("0.csv.gz")).unwrap();
    assert_eq!(prepared("parts").split(Split::Train).len(), whole.split(Split::Train).len());
}

#[test]
fn folders_without_data_or_with_several_formats_are_told() {
    let directory = write_files(&[]);
    let folder = directory.path().join("parts");
    fs::create_dir(&folder).unwrap();
    let said = || {
        let prepared = prepare_rows(directory.path(), json!({"train": "parts"}));
        let said = prepared.unwrap_err().to_string();
        said.replace(&format!("{}/", directory.path().display()), "")
    };
    assert!(said().starts_with("parts: there is no data file in the folder ("), "{}", said());
    fs::write(folder.join("a.csv"), "text,label\nx,1\n").unwrap();
    fs::write(folder.join("b.jsonl"), "{}").unwrap();
    let expected = "parts: `a.csv` and `b.jsonl` are of different formats (";
    assert!(said().starts_with(expected), "{}", said());
    fs::write(folder.join("b.csv"), "text,class\nx,1\n").unwrap();
    fs::remove_file(folder.join("b.jsonl")).unwrap();
    let expected = "parts/b.csv:1: there is no column `label`; columns are";
    assert!(said().starts_with(expected), "{}", said());
    fs::write(folder.join("b.csv"), "").unwrap();
    assert!(said().starts_with("parts/b.csv: the file is empty ("), "{}", said());
}

#[test]
fn running_text_may_be_a_folder_too() {
    let text = |from: usize| -> String {
        (from..from + 30).map(|line| format!("this is line {line}\n")).collect()
    };
    let directory = write_files(&[("all.txt", format!("{}{}", text(0), text(30)).as_bytes())]);
    let folder = directory.path().join("parts");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("2.txt.gz"), gzip(text(30).as_bytes())).unwrap();
    // What lacks its last newline gets one.
    fs::write(folder.join("1.txt"), text(0).trim_end()).unwrap();
    let tokenizer = tokenizer(TokenizerKind::Chars, 100, false);
    let [whole, parts] = ["all.txt", "parts"].map(|train| {
        let values = json!({"train": train});
        let kind = TaskKind::LanguageModeling;
        prepare_logged(directory.path(), kind, values, &tokenizer).0.unwrap()
    });
    let ids = |data: &PreparedData| -> Vec<Vec<Vec<u32>>> {
        let split = |split: Split| {
            let rows = data.split(split);
            (0..rows.len()).map(|row| rows.ids(row).collect()).collect()
        };
        Split::ALL.into_iter().map(split).collect()
    };
    assert_eq!(ids(&whole), ids(&parts));
}

#[test]
fn repeated_rows_are_counted_with_the_argument_that_leaves_them_out() {
    let rows: String = (0..20).map(|row| format!("a text {},{}\n", row / 2, row / 2 % 2)).collect();
    let directory = write_files(&[("a.csv", format!("text,label\n{rows}").as_bytes())]);
    let findings = |values: Value| {
        let data = prepare_rows(directory.path(), values).unwrap();
        let found = data.findings().iter().find(|finding| finding.code.contains("duplicates"));
        found.map(|finding| finding.message.clone()).unwrap()
    };
    assert_eq!(
        findings(json!({"train": "a.csv", "validation_split": 0.3})),
        "10 of 20 train rows repeat an earlier one: `[data] clean.deduplicate = true` leaves them \
         out"
    );
    let values = json!({"train": "a.csv", "validation_split": 0.3, "clean.deduplicate": true});
    let expected = "10 of 20 train rows repeat an earlier one and are left out";
    assert_eq!(findings(values), expected);
}

/// Rows with these labels, as JSON lines.
fn labelled(labels: &[&str]) -> String {
    let row = |(number, label): (usize, &&str)| {
        format!("{{\"text\": \"text {number}\", \"label\": {label}}}\n")
    };
    labels.iter().enumerate().map(row).collect()
}

#[test]
fn multi_hot_labels_have_the_places_of_their_lists_and_all_files_the_same_length() {
    let kind = TaskKind::MultiLabelClassification;
    let train = labelled(&["[1.0, 0.0, 0.0]", "[0.0, 0.0, 1.0]", "[0, 0, 0]", "[1, 0, 1]"]);
    let values = |format: Value| {
        let [train, validation] = ["train.jsonl", "v.jsonl"];
        let values = json!({"train": train, "validation": validation});
        if format.is_null() { values } else { merged(values, json!({"label_format": format})) }
    };
    let prepared = |format: Value, validation: &str| {
        let files = [("train.jsonl", train.as_bytes()), ("v.jsonl", validation.as_bytes())];
        let directory = write_files(&files);
        let (prepared, _) = prepare_logged(directory.path(), kind, values(format), &words());
        prepared.map_err(|error| error.to_string())
    };
    let both = labelled(&["[0, 1, 0]", "[1, 0, 1]"]);
    for format in ["auto", "multi-hot"] {
        let data = prepared(json!(format), &both).unwrap();
        // Also the one that no training row has.
        assert_eq!(data.labels(), ["LABEL_0", "LABEL_1", "LABEL_2"]);
        assert_eq!(data.label_counts(Split::Train), [2, 0, 2]);
        assert_eq!(data.label_counts(Split::Validation), [1, 1, 1]);
    }
    // As studies read them that began earlier.
    for format in [Value::Null, json!("names")] {
        let names = labelled(&["[0, 1]", "[\"1.0\", \"0.0\"]"]);
        assert_eq!(prepared(format, &names).unwrap().labels(), ["0", "0.0", "1", "1.0"]);
    }
    let short = prepared(json!("auto"), &labelled(&["[0, 1, 0]", "[1, 0]"])).unwrap_err();
    let expected = "v.jsonl:2: the list of labels has 2 numbers, and there are 3 labels";
    assert!(short.contains(expected), "{short}");
    let named = prepared(json!("auto"), &labelled(&["[0, 1, 0]", "[\"a\"]"])).unwrap_err();
    assert!(named.contains("v.jsonl:2: the labels are no list of 0 and 1"), "{named}");
    let marked = prepared(json!("auto"), &labelled(&["[0, 1, -100]"])).unwrap_err();
    assert!(marked.contains("v.jsonl:1: the label in column `label` is -100"), "{marked}");
}

#[test]
fn a_label_that_is_not_learned_is_refused_for_texts() {
    for label in ["-100", "-100.0"] {
        let said = csv_problem(&format!("text,label\nx,1\ny,{label}\n"));
        assert!(said.starts_with("a.csv:3: the label in column `label` is -100, which"), "{said}");
    }
}
