//! `hpsearch watch`: the live leaderboard of a study, or of several, in whichever process they run.

use std::io::{self, IsTerminal};

use clap::Args;

use super::console::{Console, can_draw};
use super::exit::{Exit, Failure};
use super::selection::{self, SeveralArguments};
use super::study_columns::columns;
use crate::app::control::post;
use crate::app::find;
use crate::app::several::StudySelection;
use crate::app::study_state::{life, state};
use crate::storage::StorageReader as _;
use crate::tui::{
    Detach, EventPoll, TuiContext, TuiError, TuiMode, Watched, choose_study, run_tui,
};

/// Arguments of `hpsearch watch`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  hpsearch watch
  hpsearch watch digits --store /data/hpsearch.db
  hpsearch watch --all                       trials of all studies in one table
  hpsearch watch digits 'sms*'               of some studies")]
pub struct WatchArguments {
    /// The study's name or file; a list to choose from, if the store holds several. With several
    /// names or patterns ('sms*'), all trials are in one table
    #[arg(value_name = "STUDY")]
    pub studies: Vec<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
}

/// Shows it until the user quits.
pub fn watch(arguments: &WatchArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut reader = console.reader()?;
    let several = selection::watched(&reader, &arguments.studies, &arguments.several, console)?;
    let named = arguments.studies.first().map(String::as_str);
    if !can_draw() {
        let verb = match &several {
            None => format!("trials {}", find::study(&reader, named)?.spec.name),
            Some(StudySelection::All) => "trials --all".to_owned(),
            Some(StudySelection::Matching(patterns)) => {
                let patterns = patterns.iter().map(|pattern| format!(" --study '{pattern}'"));
                format!("trials{}", patterns.collect::<String>())
            }
        };
        let is_there = io::stdout().is_terminal() && io::stdin().is_terminal();
        let what = if is_there {
            "`hpsearch watch` needs a terminal that can draw, and `TERM` is `dumb`"
        } else {
            "`hpsearch watch` needs a terminal"
        };
        return Err(
            Failure::usage(what).help(format!("{} prints the same table", console.next(&verb)))
        );
    }
    let watched = match several {
        Some(selection) => Watched::Several(selection),
        None if named.is_none() && reader.names()?.len() > 1 => {
            match choose_study(&mut reader, &|studies| columns(studies, &state), console.look)? {
                Some(chosen) => Watched::One(chosen),
                None => return Ok(Exit::Done),
            }
        }
        None => Watched::One(find::study(&reader, named)?.id),
    };
    let store = console.store.clone();
    let mut context = TuiContext {
        mode: TuiMode::Watching,
        detach: Detach::Impossible,
        theme: console.look,
        store: console.store.clone(),
        // Opened only for requests: watching alone needs no write access.
        request: &mut |study, request, repeat| post(&store, study, request, repeat),
        ended: &|| None,
        life,
    };
    let event_poll = EventPoll::new(context.mode).map_err(TuiError::from)?;
    run_tui(Box::new(reader), watched, event_poll, &mut context)?;
    Ok(Exit::Done)
}
