//! `hpsearch report`: a report on studies as one file, to send to others.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::output_file::{refuse_inputs, refuse_others, whole_file};
use super::selection::{self, SeveralArguments};
use super::waiting::listener;
use crate::app::find;
use crate::app::study_report::{ReportOptions, report as read_report};
use crate::report::document::images::IMAGE_BYTES;
use crate::report::document::privacy::PrivatePart;
use crate::report::document::{html, markdown};
use crate::report::wording::{bytes, one_line};
use crate::runner;
use crate::storage::StudySummary;
use crate::storage::any::AnyReader;
use crate::storage::paths::store_files;
use crate::study::size;
use crate::study::trial::TrialNumber;

/// The largest limit of images: browsers cannot read much more as one text.
const MOST_IMAGE_BYTES: u64 = 256 << 20;

const EXAMPLES: &str = "\
Examples:
  hpsearch report digits -o digits.html
  hpsearch report digits sms -o both.html
  hpsearch report digits --trial 7,12      with pages of these trials, too
  hpsearch report digits --markdown        for pull requests and wikis
  hpsearch report digits --include logs,host

The file is made to be sent: it needs no other file and no network. Logs,
uncommitted changes, command lines, host names and absolute paths are left out
unless `--include` names them, and the report says what was left out.";

/// Arguments of `hpsearch report`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArguments {
    /// Names, files or patterns of studies
    #[arg(value_name = "STUDY")]
    pub studies: Vec<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// The file to write, `-` for standard output [default: report.html; standard output with
    /// --markdown]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write GitHub-flavoured Markdown; the default for a file whose name ends in .md
    #[arg(long)]
    pub markdown: bool,
    /// Trials that get a page in addition to the best 100: 7, 3,5, 0-4; of several studies:
    /// digits/7
    #[arg(long, value_name = "TRIAL")]
    pub trial: Vec<String>,
    /// Private parts to include
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub include: Vec<IncludedPart>,
    /// The most bytes of images in an HTML file, of which one image takes an eighth at most; `none`
    /// leaves images out [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = image_bytes, conflicts_with = "markdown")]
    pub images: Option<u64>,
    /// Replace the file even if it is not a report
    #[arg(long, alias = "force")]
    pub overwrite: bool,
}

/// The private parts on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IncludedPart {
    /// The ends of trials' logs
    Logs,
    /// Uncommitted changes of the code
    Changes,
    /// Host names, absolute paths, command lines
    Host,
}

impl From<IncludedPart> for PrivatePart {
    fn from(part: IncludedPart) -> Self {
        match part {
            IncludedPart::Logs => PrivatePart::Logs,
            IncludedPart::Changes => PrivatePart::Changes,
            IncludedPart::Host => PrivatePart::Host,
        }
    }
}

fn image_bytes(text: &str) -> Result<u64, String> {
    match text {
        "none" | "0" => Ok(0),
        size => match size::parse(size) {
            Ok(size) if size <= MOST_IMAGE_BYTES => Ok(size),
            Ok(_) => Err(format!("images take at most {} of a report", bytes(MOST_IMAGE_BYTES))),
            Err(why) => Err(format!("{why}: write a size such as `20MiB`, or `none`")),
        },
    }
}

/// Writes the report.
pub fn report(arguments: &ReportArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let studies =
        match selection::watched(&reader, &arguments.studies, &arguments.several, console)? {
            Some(selection) => selection.find(&reader)?.studies,
            None => vec![find::study(&reader, arguments.studies.first().map(String::as_str))?],
        };
    let is_markdown = arguments.markdown || arguments.output.as_deref().is_some_and(is_markdown);
    if is_markdown && arguments.images.is_some() {
        return Err(Failure::usage("a Markdown report has no images")
            .help("leave out `--images`, or write an HTML file"));
    }
    let default = if is_markdown { "-" } else { "report.html" };
    let output = arguments.output.as_deref().unwrap_or(Path::new(default));
    let files = arguments.studies.iter().map(PathBuf::from);
    refuse_inputs(output, store_files(&console.store).into_iter().chain(files))?;
    refuse_other_formats(output, arguments.markdown)?;
    if !arguments.overwrite {
        let markers = [html::MARKER, markdown::MARKER].map(|marker| (0, marker.as_bytes()));
        refuse_others(output, &markers, "a report")?;
    }
    let options = ReportOptions {
        include: arguments.include.iter().map(|part| PrivatePart::from(*part)).collect(),
        trials: named_trials(&reader, &studies, &arguments.trial)?,
        image_bytes: arguments.images.unwrap_or(if is_markdown { 0 } else { IMAGE_BYTES }),
        machine: machine(&console.store),
    };
    let document =
        read_report(&reader, &console.store, &studies, &options, &mut listener(console))?;
    let text = match is_markdown {
        true => markdown::text(&document),
        false => html::document(&document),
    };
    if output == Path::new("-") {
        console.out.write_all(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    whole_file(output, |out| Ok(out.write_all(text.as_bytes())?))?;
    let size = bytes(u64::try_from(text.len()).unwrap_or(u64::MAX));
    let left_out: Vec<&str> = document.left_out.iter().map(|part| part.as_str()).collect();
    console.say(&format!("report written to {} ({size})", shown(output)));
    if !left_out.is_empty() {
        let parts = left_out.join(",");
        console.say(&format!("left out, as it is made to be sent: {parts} (`--include {parts}`)"));
    }
    if !is_markdown && arguments.images != Some(0) {
        for (images, option) in document.images.left_out_in_words() {
            console.say(&format!("left out: {images} (`{option}`)"));
        }
    }
    Ok(Exit::Done)
}

/// Refuses names that promise another format than is written.
fn refuse_other_formats(output: &Path, is_markdown: bool) -> Result<(), Failure> {
    let Some(end) = output.extension() else { return Ok(()) };
    let end = end.to_string_lossy().to_ascii_lowercase();
    if is_markdown || ["html", "htm", "md", "markdown"].contains(&end.as_str()) {
        return Ok(());
    }
    let message = format!("`{}`: a report is not written as `.{}`", shown(output), one_line(&end));
    Err(Failure::usage(message)
        .help("end the name in .html, or in .md for Markdown; a browser prints HTML as PDF"))
}

/// Whether a file's name says that it is Markdown.
fn is_markdown(output: &Path) -> bool {
    output.extension().is_some_and(|end| ["md", "markdown"].iter().any(|known| end == *known))
}

/// The trials of `--trial`, for each study.
fn named_trials(
    reader: &AnyReader,
    studies: &[StudySummary],
    words: &[String],
) -> Result<Vec<Vec<TrialNumber>>, Failure> {
    let mut named: Vec<Vec<TrialNumber>> = vec![Vec::new(); studies.len()];
    for word in words {
        let (study, trials) = match studies {
            [only] => (only.clone(), find::trials_named(reader, only, std::slice::from_ref(word))?),
            _ => find::study_and_trials(reader, std::slice::from_ref(word))?,
        };
        let Some(index) = studies.iter().position(|known| known.id == study.id) else {
            let name = one_line(&study.spec.name);
            return Err(Failure::usage(format!("`{name}` is not in this report"))
                .help("name the study, too, or leave out its trial"));
        };
        for trial in &trials {
            find::trial(reader, &studies[index], *trial)?;
        }
        if trials.is_empty() {
            return Err(Failure::usage(format!("`{}` names no trial", one_line(word)))
                .help("of several studies, write `--trial STUDY/7`"));
        }
        named[index].extend(trials);
    }
    Ok(named)
}

/// Names and directories of this machine.
fn machine(store: &Path) -> (Vec<String>, Vec<String>) {
    let host = runner::this_process().host;
    let short = host.split('.').next().unwrap_or_default().to_owned();
    let home = env::var("HOME").ok();
    let directories = [
        home,
        env::current_dir().ok().map(|path| path.display().to_string()),
        store.parent().map(|path| path.display().to_string()),
    ];
    (vec![host, short], directories.into_iter().flatten().collect())
}
