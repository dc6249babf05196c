//! The arguments of a training run: Hugging Face's names with their kinds, ranges and defaults,
//! checked together before anything runs.
//!
//! Plain data: this module is compiled without the trainer too, so that a study is validated by a
//! binary that cannot train.

mod changeable;
mod class_weights;
mod contradictions;
mod data;
pub mod data_file;
pub mod data_format;
mod defaults;
mod model;
mod probe;
mod problem;
mod resolve;
mod rows;
mod scheduler;
mod step_interval;
mod table;
mod tasks;
#[cfg(test)]
mod tests;
mod trainer_table;
mod training;
mod unsupported;
mod writing;

pub use changeable::CHANGEABLE;
pub use class_weights::ClassWeights;
pub use data::{Clean, DATA_ARGUMENTS, DataArguments, LabelFormat};
pub use defaults::MLM_PROBABILITY;
pub use model::{
    Activation, DECODER_TYPES, ENCODER_TYPES, FromScratch, ModelArguments, PRETRAINED, Pooling,
    SEQ2SEQ_TYPES, TokenizerArguments, TokenizerKind, TokenizerSource, vocabulary_files,
};
pub use probe::Probe;
pub use problem::{ArgumentProblem, Multiple};
pub use rows::RowsAtOnce;
pub use scheduler::{LR_END, Ramp, SchedulerSettings, SchedulerType};
pub use step_interval::StepInterval;
pub use table::{check_key, check_values, default_of, table_schema};
pub use tasks::{
    COMMON_METRICS, COMMON_OBJECTIVES, TRAIN_LOSS, TRAINER_TASKS, TaskKind, TrainerTask,
    is_smaller_better, monitored,
};
pub use trainer_table::ARGUMENTS;
pub use training::{EvalStrategy, LoggingStrategy, Optim, SamplingStrategy, TrainerArguments};
pub use unsupported::newer_name;
pub use writing::{MOST_BEAMS, MOST_NEW_TOKENS, WritingOptions};
