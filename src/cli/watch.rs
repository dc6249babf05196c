//! `hpsearch watch`: the live leaderboard of a study, whoever runs it.

use std::io::{self, IsTerminal};

use clap::Args;

use super::console::{Console, can_draw, life};
use super::exit::{Exit, Failure};
use super::named_study;
use super::request::post;
use crate::tui::{Surroundings, TuiMode, run_tui};

/// What `hpsearch watch` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch watch\n  hpsearch watch digits --store /data/hpsearch.db")]
pub struct WatchArguments {
    /// The study's name or file
    pub study: Option<String>,
}

/// Shows it until it is left.
pub fn watch(arguments: &WatchArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    if !can_draw() {
        let is_there = io::stdout().is_terminal() && io::stdin().is_terminal();
        let what =
            if is_there { "`hpsearch watch` needs a terminal that can draw, and `TERM` is `dumb`" } else { "`hpsearch watch` needs a terminal" };
        return Err(Failure::usage(what).help("`hpsearch trials` prints the same table"));
    }
    let store = console.store.clone();
    let mut surroundings = Surroundings {
        mode: TuiMode::Watching,
        look: console.look,
        store: console.store.clone(),
        // Opened only when something is asked: watching alone needs no right to write.
        request: &mut |request| post(&store, study.id, &request),
        ended: &|| None,
        life,
    };
    run_tui(Box::new(reader), study.id, &mut surroundings)?;
    Ok(Exit::Done)
}
