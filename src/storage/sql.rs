//! The queries of stores in databases: one set of SQL for SQLite and PostgreSQL.
//!
//! Two copies of the queries would drift apart, and the journal's fold must equal the tables in
//! both databases. So the queries see a database through [`connection::Connection`], whose rows
//! have cells of SQLite's five types, and keep to SQL that both understand: numbered parameters,
//! `ON CONFLICT`, `RETURNING`, `CASE`. The few words that differ are in [`connection::Dialect`];
//! for functions of SQLite on JSON and text, the schema for PostgreSQL defines functions of the
//! same names. Columns have the same names and meanings: moments are integers (so that no server's
//! time zone matters), NaN is NULL, JSON is text.

pub(super) mod append;
mod artifacts;
mod attempts;
mod chunk;
pub(super) mod column;
pub(super) mod connection;
mod continued;
pub(super) mod fault;
mod journal;
pub(super) mod known;
pub(super) mod located;
mod optuna;
mod outcomes;
mod pages;
mod read;
mod remove;
mod remove_run;
mod reports;
mod requests;
mod runners;
mod scan;
mod series;
mod series_read;
mod shown_params;
pub(super) mod storage_reader;
pub(super) mod storage_writer;
mod tracked;
mod trials;
mod used;
mod write;
