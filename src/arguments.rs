//! The arguments a training run takes: Hugging Face's names with their kinds, ranges and defaults, checked all at once before anything runs.
//!
//! Plain data: this module is compiled without the trainer too, so that a study is validated by a binary that cannot train.

mod data;
mod lines;
mod model;
mod probe;
mod refused;
mod rows;
mod schedule;
mod shape;
mod table;
mod tasks;
#[cfg(test)]
mod tests;
mod training;
mod tuning;

pub use data::{Clean, DATA_ARGUMENTS, DataArguments};
pub use lines::ARGUMENTS;
pub use model::{Activation, DECODER_TYPES, ENCODER_TYPES, FromScratch, ModelArguments, Pooling, TokenizerArguments, TokenizerKind, TokenizerSource};
pub use probe::Probe;
pub use refused::newer_name;
pub use rows::RowsAtOnce;
#[cfg(feature = "train")]
pub(crate) use schedule::LR_END;
pub use schedule::{Ramp, Schedule, ScheduleArguments};
#[cfg(feature = "train")]
pub(crate) use table::nearest;
pub use table::{Argument, ArgumentDefault, ArgumentKind, ArgumentProblem, check_key, check_values, table_schema};
pub use tasks::{TRAINER_TASKS, TaskKind, TrainerTask};
pub use training::{EvalStrategy, LoggingStrategy, Optim, SamplingStrategy, TrainerArguments};
pub use tuning::ClassWeights;
