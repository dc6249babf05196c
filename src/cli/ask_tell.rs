//! `hpsearch ask-tell`: a study in memory for a program that runs its trials itself, over standard
//! input and output.

use std::io;

use clap::Args;

use super::{Console, Exit, Failure};
use crate::ask_tell::serve;

const EXAMPLES: &str = r#"Examples:
  hpsearch ask-tell < session.jsonl

One JSON object a line, and exactly one back; an error is {"error":".."}, and
the conversation continues. NaN and Infinity may be bare or quoted.

  {"cmd":"init","space":[{"name":"lr","type":"float","low":1e-5,"high":1,
   "log":true}],"n_trials":50}                      all on one line
                                                    {"ok":true}
  {"cmd":"ask"}                                     {"id":0,"params":{"lr":0.3}}
  {"cmd":"report","id":0,"step":1,"value":0.5}      {"verdict":"continue"}
  {"cmd":"tell","id":0,"value":0.4}                 {"ok":true}
  {"cmd":"best"}                                    {"id":0,"params":..,..}
  {"cmd":"quit"}                                    {"ok":true}

init also takes: seed, direction, sampler and pruner ({"type":"asha", options}),
enqueue (a list of params to try first), workers, constraints (a list of
{"require":"lr * width <= 3"} over parameters and {"limit":"latency <= 20"}
over what tell says under "metrics"); a parameter: type "int" or "cat" (with
choices), step, when ({"param":"optim","in":["sgd"]}).
ask may also answer {"resume":3,"until":9}, a paused trial that continues, or
{"done":true}. report may answer "pause" or "stop"; tell takes "state":"failed"
or "pruned" instead of a value. Several trials may be out at a time."#;

/// Arguments of `hpsearch ask-tell`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AskTellArguments {}

/// Answers until the input ends or `quit` is said. The store plays no part.
pub fn ask_tell(_arguments: &AskTellArguments, console: &mut Console) -> Result<Exit, Failure> {
    serve(io::stdin().lock(), &mut console.out)?;
    Ok(Exit::Done)
}
