//! `hpsearch watch`: the live leaderboard of a study, whoever runs it.

use std::io::{self, IsTerminal};

use clap::Args;

use super::console::{Console, can_draw};
use super::exit::{Exit, Failure};
use super::study_columns::columns;
use crate::app::find;
use crate::app::request::post;
use crate::app::study_state::{life, state};
use crate::storage::StorageReader as _;
use crate::tui::{Detach, TuiContext, TuiMode, choose_study, run_tui};

/// Arguments of `hpsearch watch`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch watch\n  hpsearch watch digits --store /data/hpsearch.db"
)]
pub struct WatchArguments {
    /// The study's name or file; a list to choose from, if the store holds several
    pub study: Option<String>,
}

/// Shows it until it is left.
pub fn watch(arguments: &WatchArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut reader = console.reader()?;
    if !can_draw() {
        let study = find::study(&reader, arguments.study.as_deref())?;
        let is_there = io::stdout().is_terminal() && io::stdin().is_terminal();
        let what = if is_there {
            "`hpsearch watch` needs a terminal that can draw, and `TERM` is `dumb`"
        } else {
            "`hpsearch watch` needs a terminal"
        };
        return Err(Failure::usage(what).help(format!(
            "{} prints the same table",
            console.next(&format!("trials {}", study.spec.name))
        )));
    }
    let chosen = if arguments.study.is_none() && reader.names()?.len() > 1 {
        match choose_study(&mut reader, &|studies| columns(studies, &state), console.look)? {
            Some(chosen) => chosen,
            None => return Ok(Exit::Done),
        }
    } else {
        find::study(&reader, arguments.study.as_deref())?.id
    };
    let store = console.store.clone();
    let mut context = TuiContext {
        mode: TuiMode::Watching,
        detach: Detach::Impossible,
        theme: console.look,
        store: console.store.clone(),
        // Opened only when something is asked: watching alone needs no right to write.
        request: &mut |request| post(&store, chosen, &request),
        ended: &|| None,
        life,
    };
    run_tui(Box::new(reader), chosen, &mut context)?;
    Ok(Exit::Done)
}
