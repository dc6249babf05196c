//! `hpsearch export`: writes the best trial as a directory that is ready for use.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exported;
use super::waiting::listener;
use super::{Console, Exit, Failure};
use crate::app::export::{ExportOptions, export_trial, target};
use crate::app::find;
use crate::export::Otherwise;
use crate::storage::address::absolute;
use crate::study::spec::Quantize;

/// Arguments of `hpsearch export`.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "hpsearch export [OPTIONS] --output <DIR> [STUDY]",
    after_help = "Examples:\n  hpsearch export digits -o model\n  hpsearch export digits -o model \
        --trial 7\n  hpsearch export digits -o small --quantize int8"
)]
pub struct ExportArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The directory to write
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// A trial other than the best one: its number, or a tracked run's name
    #[arg(long, value_name = "TRIAL")]
    pub trial: Option<String>,
    /// Smaller weights, for hpsearch only: int8, with a scale for each channel
    #[arg(long, value_name = "FORMAT", value_parser = quantize)]
    pub quantize: Option<Quantize>,
}

fn quantize(word: &str) -> Result<Quantize, String> {
    Quantize::parse(word)
        .ok_or_else(|| format!("weights can be written as {}", Quantize::WORDS.join(", ")))
}

/// Exports it.
pub fn export(arguments: &ExportArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let store = absolute(&console.store)?;
    let file = arguments.study.as_deref().map(Path::new).filter(|file| file.is_file());
    let target = target(&arguments.output, &study.spec, file, Some((&reader, study.id)), &store)?;
    // Checked before the evaluation, which is slow.
    target.check()?;
    let trial = arguments.trial.as_ref();
    let trial = trial.map(|word| find::trial_named(&reader, &study, word)).transpose()?;
    let wanted = ExportOptions {
        trial: trial.map(|trial| trial.number),
        quantize: arguments.quantize.or(study.spec.export.quantize),
        target: &target,
        otherwise: Otherwise::Refuse,
    };
    let written = export_trial(&reader, &study, wanted, &store, &mut listener(console))?;
    exported::tell(&written, &study.spec, console);
    Ok(Exit::Done)
}
