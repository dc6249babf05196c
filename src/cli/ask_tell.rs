//! `hpsearch ask-tell`: a study for a program that runs its trials itself, over standard input and
//! output; in memory, or stored under a name.

use std::io;

use clap::Args;

use super::{Console, Exit, Failure};
use crate::app::AppError;
use crate::ask_tell::{Session, converse, converse_stored};
use crate::config::is_study_name;
use crate::storage::StorageReader as _;

const EXAMPLES: &str = r#"Examples:
  hpsearch ask-tell < session.jsonl
  hpsearch ask-tell --study digits --store runs/hpsearch.db < session.jsonl

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
over the "metrics" of tell); a parameter: type "int" or "cat" (with
choices), step, when ({"param":"optim","in":["sgd"]}).
ask may also answer {"resume":3,"until":9}, a paused trial that continues, or
{"done":true}. report may answer "pause" or "stop"; tell takes "state":"failed"
or "pruned" instead of a value. Several trials may be open at a time; requeue
gives one back, and ask gives it again:
  {"cmd":"requeue","id":0}                          {"ok":true}

With several objectives init takes "directions" (and "metric_names"), report
and tell take "values", and best answers the front:
  {"cmd":"tell","id":0,"values":[0.9,12.5]}         {"ok":true}

With candidates, a new trial gets one of these configurations, by its index:
  {"cmd":"ask","candidates":[{"lr":0.1},{"lr":1}]}
  {"id":1,"candidate":0,"params":..}

enqueue runs a configuration before any other; missing parameters are sampled:
  {"cmd":"enqueue","params":{"lr":0.1}}             {"ok":true}

With --study every answer is in the store before it is given, where watch,
trials and best read it. Send the same init again to continue: the answer lists
open trials under "open", and ask returns these first. Several programs may send
it at the same time: they share the study, and each trial goes to one of them.
"accept":true in init accepts a changed study; {"cmd":"trials"} lists all.
With "define":true in init, suggest adds a parameter to a trial and the space:
  {"cmd":"suggest","id":0,"param":{"name":"x","type":"int","low":1,"high":9}}
                                                    {"value":4}"#;

/// Arguments of `hpsearch ask-tell`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AskTellArguments {
    /// Keep the study under this name in the store, and continue it
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
}

/// Answers until the input ends or `quit`.
pub fn ask_tell(arguments: &AskTellArguments, console: &mut Console) -> Result<Exit, Failure> {
    match &arguments.study {
        Some(name) => {
            // Earlier versions took any.
            let is_known = || -> Result<bool, Failure> {
                let reader = console.reader_if_there()?;
                Ok(reader.map(|reader| reader.study(name)).transpose()?.flatten().is_some())
            };
            if !is_study_name(name) && !is_known()? {
                return Err(AppError::NoStudyName { name: name.clone() }.into());
            }
            let input = || io::stdin().lock();
            converse_stored(console.store.clone(), name.clone(), input, &mut console.out)?;
        }
        None => converse(Session::new(), io::stdin().lock(), &mut console.out)?,
    }
    Ok(Exit::Done)
}
