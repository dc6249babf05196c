//! The data model of a search: a study's specification, trials, reports and journal, and the state
//! that the journal folds to. Plain data: nothing here reads a clock, draws random numbers, starts
//! threads or touches files.

pub mod artifact;
pub mod budget;
pub mod checkpoint;
pub mod cluster;
pub mod condition;
pub mod configuration;
pub mod constraint;
pub mod database_url;
pub mod decision;
pub mod destination;
pub mod device;
pub mod duration;
pub mod event;
pub mod field;
pub mod finalists;
pub mod front;
pub mod history;
pub mod metric;
pub mod notify;
pub mod number;
pub mod outcome;
pub mod params;
pub mod pareto;
pub mod printed_metrics;
pub mod program;
pub mod provenance;
pub mod query;
pub mod registry;
pub mod remark;
pub mod request;
pub mod seed;
mod serialized;
pub mod series;
pub mod size;
pub mod space;
pub mod spec;
pub mod state;
pub mod statistics;
pub mod step;
pub mod suggestion;
pub mod tag;
pub mod time;
pub mod tracked;
pub mod trial;
pub mod usage;
