//! Data of question answering: questions, contexts and answers in them, tokenised as transformers'
//! `run_qa.py` does: a long context in windows that overlap, each an example.

mod given;

use std::fs;
use std::io::{BufRead as _, BufReader};

use serde::{Deserialize, Serialize};
use tokenizers::{
    Encoding, PostProcessor as _, Tokenizer, TruncationDirection, TruncationParams,
    TruncationStrategy,
};

use given::{GivenAnswer, Start, answers, place};

use super::atomic_directory::AtomicDirectory;
use super::findings::in_splits;
use super::labelled::{note_overlap, note_unknown, texts, tokenizer_of};
use super::prepared::{Description, Extra, NO_LABEL, QuestionsAbout, Split};
use super::progress::{PARSE, TOKENISE};
use super::sources::{Sources, clean, note_header};
use super::tokenizer_file::{self, SpecialTokens, catch_panics, encode_inputs};
use super::{DataProblem, Finding, PreparedData, TrainerError};
use hpsearch_core::arguments::data_file::DataRow;

/// What an evaluation compares answers with: a line of a file beside the token ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) context: String,
    /// Answers that count as right; none if the context has none.
    pub(super) answers: Vec<String>,
}

/// A question about a context.
#[derive(Debug, PartialEq, Eq)]
struct Question<'r> {
    row: &'r DataRow,
    answers: Vec<String>,
    /// The characters of the first answer within the context.
    first: Option<[usize; 2]>,
    /// Whether that is where the data says, if it does.
    is_as_said: bool,
}

/// Questions, tokenised and written to `staged`.
pub(super) fn prepare(
    sources: &Sources,
    staged: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let data = sources.data;
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the rows", sources.bytes * PARSE);
    let splits = read(sources, &mut findings)?;
    let [train, validation, test] = splits.each_ref().map(Vec::as_slice);
    let questions = [
        located(sources, Split::Train, train)?,
        located(sources, Split::Validation, validation)?,
        located(sources, Split::Test, test)?,
    ];
    note_questions(&splits, &questions, &mut findings);

    let (mut tokenizer, unknown) = tokenizer_of(sources, staged, &texts(&splits[0]), &[])?;
    let truncation = TruncationParams {
        direction: TruncationDirection::Right,
        max_length: data.max_length,
        strategy: TruncationStrategy::OnlySecond,
        stride: data.doc_stride(),
    };
    let special = tokenizer.get_post_processor().map_or(0, |one| one.added_tokens(true));
    if truncation.stride + special >= data.max_length {
        let message = format!(
            "`[data] doc_stride` = {} and {special} special tokens leave nothing new in a window \
             of `max_length` = {} tokens",
            truncation.stride, data.max_length
        );
        let help = "give a smaller `doc_stride` or a greater `max_length`";
        return Err(sources.problem(None, message).with_help(help).into());
    }
    tokenizer.with_truncation(Some(truncation)).map_err(TrainerError::tokenizer)?;
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    let bytes = |row: &DataRow| row.text.len() + row.text_pair.len();
    let (mut done, all) = (0, splits.iter().flatten().map(bytes).sum());
    let mut counted = [0; 3];
    for (split, questions) in Split::ALL.into_iter().zip(&questions) {
        let pairs: Vec<(&str, &str)> =
            questions.iter().map(|one| (&*one.row.text, &*one.row.text_pair)).collect();
        let windows = windows(&tokenizer, &pairs, &mut |bytes| {
            done += bytes;
            sources.progress.update(done, all);
        })?;
        let mut written = SplitWindows::default();
        let mut kept = Kept::default();
        for ((number, question), windows) in (0..).zip(questions).zip(windows) {
            let windows = windows
                .map_err(|problem| problem_of_window(sources, split, question.row, &problem))?;
            let windows: Vec<Window> = windows.iter().map(Window::of).collect();
            kept.count(question, &windows, data.max_answer_length);
            for window in windows {
                written.add(number, window, question.first);
            }
        }
        kept.note(split, data.max_answer_length, &mut findings);
        let ids = written.rows.iter().map(|(ids, _)| ids);
        note_unknown(split, ids, unknown, &mut findings);
        counted[split as usize] = written.rows.len();
        let remedy = "give fewer rows, or a smaller `doc_stride`";
        sources.write_rows(staged, split, &written.rows, remedy)?;
        for (extra, numbers) in Extra::OF_QUESTIONS.into_iter().zip(&written.extras) {
            sources.write_extra(staged, split, extra, numbers)?;
        }
        write_references(staged, split, questions)?;
    }
    findings.push(Finding::note(
        "windows",
        format!(
            "{} examples: windows of at most {} tokens; neighbours share {}",
            in_splits(counted),
            data.max_length,
            data.doc_stride()
        ),
    ));
    tokenizer_file::write(staged, &tokenizer)?;
    Ok(Description {
        extras: Extra::OF_QUESTIONS.to_vec(),
        questions: Some(QuestionsAbout {
            longest_answer: data.max_answer_length,
            may_be_unanswerable: questions[0].iter().any(|one| one.answers.is_empty()),
        }),
        ..sources.describe(counted, tokenizer.get_vocab_size(true), findings)
    })
}

/// The questions that a split is compared with, by their numbers.
pub(super) fn references(
    data: &PreparedData,
    split: Split,
) -> Result<Vec<Reference>, TrainerError> {
    let path = data.directory().join(references_file(split));
    let file = fs::File::open(&path).map_err(TrainerError::io("read", &path))?;
    let of_line = |line: std::io::Result<String>| {
        let line = line.map_err(TrainerError::io("read", &path))?;
        serde_json::from_str(&line).map_err(|error| {
            let problem =
                DataProblem::new(&path, None, format!("prepared data is damaged: {error}"));
            problem.with_help("remove its directory; it is made again").into()
        })
    };
    BufReader::new(file).lines().map(of_line).collect()
}

fn references_file(split: Split) -> String {
    format!("{}.questions", split.name())
}

fn write_references(
    staged: &AtomicDirectory,
    split: Split,
    questions: &[Question<'_>],
) -> Result<(), TrainerError> {
    let mut lines = Vec::new();
    for question in questions {
        let (context, answers) = (question.row.text_pair.clone(), question.answers.clone());
        let reference = Reference { context, answers };
        serde_json::to_writer(&mut lines, &reference).expect("a reference is plain data");
        lines.push(b'\n');
    }
    staged.write(&references_file(split), &lines).map(|_| ())
}

/// What becomes of the answers of a split.
#[derive(Debug, Default)]
struct Kept {
    answered: usize,
    /// Not where the data says.
    elsewhere: usize,
    /// As a whole in no window.
    cut: usize,
    /// Longer than answers that are found.
    long: usize,
}

impl Kept {
    fn count(&mut self, question: &Question<'_>, windows: &[Window], longest: usize) {
        let Some(answer) = question.first else { return };
        self.answered += 1;
        self.elsewhere += usize::from(!question.is_as_said);
        let mut found = windows.iter().filter_map(|window| window.tokens_of(answer)).peekable();
        match found.peek() {
            None => self.cut += 1,
            Some([first, last]) => self.long += usize::from(last + 1 - first > longest),
        }
    }

    fn note(&self, split: Split, longest: usize, findings: &mut Vec<Finding>) {
        let all = format!("of {} {} answers", self.answered, split.name());
        for (count, code, what) in [
            (
                self.elsewhere,
                "answer_start",
                "not at their `answer_start`: the place nearest to it counts".to_owned(),
            ),
            (
                self.cut,
                "cut_answers",
                "in no window as a whole: a greater `[data] max_length` or `doc_stride` keeps them"
                    .to_owned(),
            ),
            (
                self.long,
                "long_answers",
                format!(
                    "longer than `[data] max_answer_length` = {longest} tokens, the most that is \
                     found"
                ),
            ),
        ] {
            let be = if count == 1 { "is" } else { "are" };
            if count > 0 {
                findings.push(Finding::warning(code, format!("{count} {all} {be} {what}")));
            }
        }
    }
}

/// The windows of a split.
#[derive(Debug, Default)]
struct SplitWindows {
    rows: Vec<(Vec<u32>, u32)>,
    /// By [`Extra::OF_QUESTIONS`].
    extras: [Vec<Vec<u32>>; Extra::OF_QUESTIONS.len()],
}

impl SplitWindows {
    fn add(&mut self, question: u32, window: Window, answer: Option<[usize; 2]>) {
        let [first, last] =
            answer.and_then(|answer| window.tokens_of(answer)).unwrap_or_default().map(number);
        let begins_and_ends = [0, 1].map(|side| {
            let side =
                |place: &Option<[usize; 2]>| place.map_or(NO_LABEL, |place| number(place[side]));
            window.places.iter().map(side).collect()
        });
        let [begins, ends] = begins_and_ends;
        let numbers = [window.types, begins, ends, vec![question, first, last]];
        self.rows.push((window.ids, 0));
        for (all, numbers) in self.extras.iter_mut().zip(numbers) {
            all.push(numbers);
        }
    }
}

fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(NO_LABEL)
}

/// A question with a part of its context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) ids: Vec<u32>,
    pub(super) types: Vec<u32>,
    /// The characters of the context that a token stands for; `None` outside of it.
    pub(super) places: Vec<Option<[usize; 2]>>,
}

impl Window {
    pub(super) fn of(encoding: &Encoding) -> Self {
        let places = encoding.get_sequence_ids().into_iter().zip(encoding.get_offsets());
        let place = |(sequence, (begin, end)): (Option<usize>, &(usize, usize))| {
            (sequence == Some(1)).then_some([*begin, *end])
        };
        Self {
            ids: encoding.get_ids().to_vec(),
            types: encoding.get_type_ids().to_vec(),
            places: places.map(place).collect(),
        }
    }

    /// The first and the last token of an answer with these characters, if all of it is in the
    /// window: the last token that begins at or before it, and the first that ends at or after it.
    fn tokens_of(&self, [begin, end]: [usize; 2]) -> Option<[usize; 2]> {
        let inside =
            || self.places.iter().enumerate().filter_map(|(token, place)| Some((token, (*place)?)));
        let first = inside().take_while(|(_, place)| place[0] <= begin).last()?.0;
        let last = inside().find(|(_, place)| place[1] >= end)?.0;
        Some([first, last.max(first)])
    }
}

/// Why a question has no window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoWindow {
    /// The tokenizer makes nothing of the context.
    NoTokens,
    /// Beside the question and special tokens there is no room for the context.
    NoRoom,
}

/// The windows of each pair of a question and a context, by the limits of the tokenizer; questions
/// without the white space before them, as in `run_qa.py`.
pub(super) fn windows(
    tokenizer: &Tokenizer,
    pairs: &[(&str, &str)],
    on_bytes: &mut dyn FnMut(usize),
) -> Result<Vec<Result<Vec<Encoding>, NoWindow>>, TrainerError> {
    let mut whole = tokenizer.clone();
    whole.with_truncation(None).map_err(TrainerError::tokenizer)?;
    whole.with_padding(None);
    let special = tokenizer.get_post_processor().map_or(0, |one| one.added_tokens(true));
    let truncation = tokenizer.get_truncation();
    let longest = truncation.map_or(usize::MAX, |truncation| truncation.max_length);
    let stride = truncation.map_or(0, |truncation| truncation.stride);
    let mut all = Vec::with_capacity(pairs.len());
    let (questions, contexts): (Vec<&str>, Vec<&str>) =
        pairs.iter().map(|(question, context)| (question.trim_start(), *context)).unzip();
    let mut encode = |texts: &[&str]| {
        encode_inputs(&whole, texts, SpecialTokens::None, |text| text.len(), on_bytes)
    };
    let (questions, contexts) = (encode(&questions)?, encode(&contexts)?);
    for (question, mut context) in questions.into_iter().zip(contexts) {
        let room = longest.saturating_sub(special + question.len());
        if context.is_empty() {
            all.push(Err(NoWindow::NoTokens));
            continue;
        }
        if room == 0 {
            all.push(Err(NoWindow::NoRoom));
            continue;
        }
        // A long question leaves little room, of which not all is shared.
        let stride = if room <= stride { room / 2 } else { stride };
        context.set_type_ids(vec![1; context.len()]);
        context.truncate(room, stride, TruncationDirection::Right);
        let further = context.take_overflowing();
        let windows = std::iter::once(context).chain(further).map(|part| {
            catch_panics(|| whole.post_process(question.clone(), Some(part), true))
                .map_err(TrainerError::tokenizer)
        });
        all.push(Ok(windows.collect::<Result<_, _>>()?));
    }
    Ok(all)
}

fn problem_of_window(
    sources: &Sources,
    split: Split,
    row: &DataRow,
    problem: &NoWindow,
) -> TrainerError {
    let (message, help) = match problem {
        NoWindow::NoTokens => (
            format!("the tokenizer produces no tokens for the context `{}`", row.text_pair),
            "remove the row",
        ),
        NoWindow::NoRoom => (
            format!(
                "the question leaves no room for its context within `[data] max_length` = {} \
                 tokens",
                sources.data.max_length
            ),
            "give a greater `max_length`, or remove the row",
        ),
    };
    sources.problem_of(split, Some(row.line), message).with_help(help).into()
}

/// Reads and cleans every file and cuts the splits.
fn read(sources: &Sources, findings: &mut Vec<Finding>) -> Result<[Vec<DataRow>; 3], TrainerError> {
    let data = sources.data;
    // Answers are found by their characters: each is normalised with its context, or not at all.
    let mut splits: [Vec<DataRow>; 3] = Default::default();
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            let read = file.rows_of_questions(data)?;
            note_header(&read, path, data, findings);
            *rows = clean(read, path, split, data, findings)?;
        }
    }
    sources.hold_out(&mut splits)?;
    note_overlap(&splits, data, findings);
    Ok(splits)
}

/// Questions with the places of their answers.
fn located<'r>(
    sources: &Sources,
    split: Split,
    rows: &'r [DataRow],
) -> Result<Vec<Question<'r>>, TrainerError> {
    let of_row = |row: &'r DataRow| {
        let given = answers(&row.label).or_else(|message| match &row.label {
            // A text that only looks like JSON.
            text if row.text_pair.contains(text) => {
                Ok(vec![GivenAnswer { text: text.clone(), start: Start::Unsaid }])
            }
            _ => Err(message),
        });
        let given = given.map_err(|message| {
            sources.problem_of(split, Some(row.line), message).with_help(
                "write an answer as text, or as in SQuAD: {\"text\": [\"..\"], \"answer_start\": \
                 [12]}",
            )
        })?;
        let normalized = sources.data.clean.normalize;
        let text = |one: &GivenAnswer| {
            if normalized { super::sources::normalized(&one.text) } else { one.text.clone() }
        };
        let answers: Vec<String> = given.iter().map(text).collect();
        let first = given.first().zip(answers.first()).map(|(given, text)| {
            let start = match given.start {
                // Of a normalised context at least about there.
                Start::At(start) => Some(start),
                _ => None,
            };
            place(&row.text_pair, text, start).ok_or_else(|| {
                let message = format!("the answer `{text}` is not in its context");
                sources.problem_of(split, Some(row.line), message).with_help(
                    "an answer is a part of the context, letter by letter; or remove the row",
                )
            })
        });
        let first: Option<[usize; 2]> = first.transpose()?;
        let is_as_said = match given.first().map(|given| given.start) {
            Some(Start::At(start)) if !normalized => first.is_some_and(|place| place[0] == start),
            Some(Start::Nowhere) => false,
            _ => true,
        };
        Ok(Question { row, answers, first, is_as_said })
    };
    rows.iter().map(of_row).collect()
}

fn note_questions(
    splits: &[Vec<DataRow>; 3],
    questions: &[Vec<Question<'_>>; 3],
    findings: &mut Vec<Finding>,
) {
    let without = |questions: &Vec<Question<'_>>| {
        questions.iter().filter(|question| question.answers.is_empty()).count()
    };
    let rows = in_splits(splits.each_ref().map(Vec::len));
    let [train, others @ ..] = questions.each_ref().map(without);
    let unanswered = match train {
        0 => String::new(),
        1 => "; one training question has no answer".to_owned(),
        count => format!("; {count} training questions have no answer"),
    };
    findings.push(Finding::note("rows", format!("{rows} questions{unanswered}")));
    if train > 0 && train == splits[0].len() {
        let message = "no training question has an answer: the model learns to give none";
        findings.push(Finding::warning("unanswerable", message.to_owned()));
    }
    if train == 0 && others.iter().any(|count| *count > 0) {
        findings.push(Finding::warning(
            "unanswerable",
            "some validation or test questions have no answer, and all training questions have \
             one: the model never learns to give none"
                .to_owned(),
        ));
    }
    let contexts: std::collections::HashSet<&str> =
        splits[0].iter().map(|row| row.text_pair.as_str()).collect();
    for (rows, split) in splits.iter().zip(Split::ALL).skip(1) {
        let shared = rows.iter().filter(|row| contexts.contains(row.text_pair.as_str())).count();
        if shared > 0 {
            findings.push(Finding::note(
                "shared_contexts",
                format!(
                    "{shared} of {} {} questions are about contexts of train",
                    rows.len(),
                    split.name()
                ),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Made by `tests/peers/answers_golden.py`.
    #[test]
    fn windows_are_those_of_run_qa() {
        let golden: Value =
            serde_json::from_str(include_str!("tests/golden/answers.json")).unwrap();
        let of = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let both = |pair: &Value| [of(&pair[0]), of(&pair[1])];
        let mut tokenizer =
            tokenizer_file::read(golden["cut"]["tokenizer"].to_string().as_bytes()).unwrap();
        for case in golden["cut"]["cases"].as_array().unwrap() {
            let truncation = TruncationParams {
                max_length: of(&case["max_length"]),
                stride: of(&case["doc_stride"]),
                strategy: TruncationStrategy::OnlySecond,
                direction: TruncationDirection::Right,
            };
            tokenizer.with_truncation(Some(truncation)).unwrap();
            let text = |key: &str| case[key].as_str().unwrap();
            let pair = (text("question"), text("context"));
            let cut = windows(&tokenizer, &[pair], &mut |_| {}).unwrap().remove(0).unwrap();
            let expected = case["windows"].as_array().unwrap();
            assert_eq!(cut.len(), expected.len(), "{case}");
            for (encoding, expected) in cut.iter().zip(expected) {
                let window = Window::of(encoding);
                assert_eq!(Value::from(window.ids.clone()), expected["ids"]);
                assert_eq!(Value::from(window.types.clone()), expected["types"]);
                let places = expected["places"].as_array().unwrap().iter();
                let places: Vec<_> =
                    places.map(|place| (!place.is_null()).then(|| both(place))).collect();
                assert_eq!(window.places, places);
                let answer = &case["characters"];
                let found = (!answer.is_null()).then(|| window.tokens_of(both(answer))).flatten();
                assert_eq!(found.unwrap_or_default(), both(&expected["answer"]), "{case}");
            }
        }
    }

    #[test]
    fn the_tokens_of_an_answer_cover_it() {
        let places = [None, None, Some([0, 3]), Some([4, 7]), Some([7, 9]), None].to_vec();
        let window = Window { ids: vec![0; 6], types: vec![0; 6], places };
        assert_eq!(window.tokens_of([4, 9]), Some([3, 4]));
        assert_eq!(window.tokens_of([5, 6]), Some([3, 3]));
        assert_eq!(window.tokens_of([8, 9]), Some([4, 4]));
        assert_eq!(window.tokens_of([8, 12]), None);
        let later = Window { places: vec![None, Some([7, 9]), None], ..window };
        assert_eq!(later.tokens_of([4, 9]), None);
    }
}
