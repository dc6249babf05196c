//! `hpsearch diff`: two trials side by side, or a changed study file against the stored study.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::Value as Json;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::overrides::sets;
use super::provenance::{self, MadeJson};
use super::trial_json::TrialJson;
use crate::app::best::{result_metrics, value_step};
use crate::app::find;
use crate::app::reconcile::{changes_by_file, continue_file, place_files};
use crate::app::study_state::times_spent;
use crate::config::{self, Change, ChangeClass};
use crate::report::table::{Column, Columns};
use crate::report::wording::{duration, metric_names, number, one_line, param, values};
use crate::runner::inputs;
use crate::storage::{StorageReader as _, StudySummary};
use crate::study::counted::count;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Value;
use crate::study::state::shown_params;
use crate::study::trial::{Trial, TrialNumber};

const EXAMPLES: &str = "\
Examples:
  hpsearch diff 3 7                    two trials of the only study
  hpsearch diff digits 3 7
  hpsearch diff digits 3 7 --changed   only what differs
  hpsearch diff sms/3 digits/7         trials of two studies
  hpsearch diff study.toml             the file as it is now, against its study
  hpsearch diff study.toml digits      against another study";

/// Arguments of `hpsearch diff`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "hpsearch diff [OPTIONS] [STUDY] <TRIAL> <TRIAL>\n       hpsearch diff \
        [OPTIONS] <STUDY/TRIAL> <STUDY/TRIAL>\n       hpsearch diff [OPTIONS] <STUDY.toml> [STUDY]"
)]
pub struct DiffArguments {
    /// A study and two trials, or a study file and a study
    #[arg(value_name = "STUDY, TRIAL", required = true, num_args = 1..=3)]
    pub words: Vec<String>,
    /// Show only what differs
    #[arg(long)]
    pub changed: bool,
    /// Override a key of the study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct TrialsDiffJson {
    trials: [TrialJson; 2],
    metrics: [Metrics; 2],
    #[serde(rename = "lineage")]
    provenance: [Option<MadeJson>; 2],
    different: Vec<DifferenceJson>,
}

#[derive(Serialize)]
struct DifferenceJson {
    kind: &'static str,
    name: String,
    values: [Json; 2],
}

#[derive(Serialize)]
struct FileDiffJson {
    needs: &'static str,
    changes: Vec<ChangeJson>,
}

#[derive(Serialize)]
struct ChangeJson {
    key: String,
    before: Option<String>,
    after: Option<String>,
    needs: &'static str,
}

/// Prints the differences.
pub fn diff(arguments: &DiffArguments, console: &mut Console) -> Result<Exit, Failure> {
    let is_file =
        |word: &String| Path::new(word).extension().is_some_and(|extension| extension == "toml");
    match arguments.words.as_slice() {
        [file] if is_file(file) => file_against_study(Path::new(file), None, arguments, console),
        [file, study] if is_file(file) && find::numbers(study).is_none() => {
            file_against_study(Path::new(file), Some(study), arguments, console)
        }
        words => {
            let reader = console.reader()?;
            let named = match find::trials_of_studies(&reader, words) {
                Some(found) => found?,
                None => vec![find::study_and_trials(&reader, words)?],
            };
            let each = named
                .iter()
                .flat_map(|(study, trials)| trials.iter().map(|trial| (study.clone(), *trial)));
            let each: Vec<(StudySummary, TrialNumber)> = each.collect();
            let Ok(sides) = <[_; 2]>::try_from(each) else {
                let given = named.iter().map(|(_, trials)| trials.len() as u64).sum();
                let given = count(given, "trial");
                let message =
                    format!("two different trials are compared, and these words name {given}");
                return Err(Failure::usage(message).help(
                    "write `hpsearch diff STUDY 3 7`, or `hpsearch diff study.toml` for a changed \
                     file",
                ));
            };
            trials(sides, arguments, console)
        }
    }
}

/// A trial with the metrics of its value's report.
struct Side {
    study: StudySummary,
    trial: Trial,
    spent: Option<Duration>,
    metrics: Metrics,
    summary: BTreeMap<String, Json>,
    made: Vec<provenance::Made>,
    facts: Vec<(String, String)>,
}

fn trials(
    named: [(StudySummary, TrialNumber); 2],
    arguments: &DiffArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let side = |(study, number): (StudySummary, TrialNumber)| -> Result<Side, Failure> {
        let trial = find::trial(&reader, &study, number)?;
        let step = value_step(&study.spec, &trial);
        let metrics = result_metrics(&reader, &study, &trial, step)?;
        let made = provenance::of_trial(&reader, study.id, number)?;
        let summary = reader.trial_summary(study.id, number)?;
        let mut spent = times_spent(&reader, &study, std::slice::from_ref(&trial))?;
        let spent = spent.remove(&trial.number);
        Ok(Side {
            spent,
            facts: provenance::facts(&study, &trial, &made),
            study,
            made,
            trial,
            metrics,
            summary,
        })
    };
    let [one, other] = named;
    let sides = [side(one)?, side(other)?];
    let of_one_study = sides[0].study.id == sides[1].study.id;
    let packages = match sides.each_ref().map(|side| side.made.last()?.provenance()) {
        [Some(one), Some(other)] => provenance::package_differences(&reader, one, other)?,
        _ => Packages::default(),
    };
    if arguments.json {
        let trial = |side: &Side| match of_one_study {
            true => TrialJson::new(&side.study.spec, &side.trial).after(side.spent),
            false => TrialJson::of_study(&side.study.spec, &side.trial).after(side.spent),
        };
        let study = of_one_study.then(|| sides[0].study.spec.name.clone());
        let output = TrialsDiffJson {
            trials: sides.each_ref().map(trial),
            different: different(&sides, &packages),
            provenance: sides.each_ref().map(|side| side.made.last().map(MadeJson::from)),
            metrics: sides.map(|side| side.metrics),
        };
        return console.json(study.as_deref(), &output);
    }
    print(&sides, &packages, arguments.changed, console)?;
    Ok(Exit::Done)
}

/// Packages that differ between two trials: the version of each.
type Packages = BTreeMap<String, [Option<String>; 2]>;

impl Side {
    /// The name of its metric.
    fn metric(&self) -> &str {
        &self.study.spec.objective().metric
    }

    fn params(&self) -> impl Iterator<Item = &str> {
        shown_params(&self.study.spec, &self.trial).iter().map(|(name, _)| name)
    }

    fn param(&self, name: &str) -> Option<&Value> {
        shown_params(&self.study.spec, &self.trial).get(name)
    }

    fn metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|(name, _)| name)
    }

    fn summary(&self) -> impl Iterator<Item = &str> {
        self.summary.keys().map(String::as_str)
    }
}

fn different(sides: &[Side; 2], packages: &Packages) -> Vec<DifferenceJson> {
    let of = |kind, name: &str, value: &dyn Fn(&Side) -> Option<Json>| {
        let values = sides.each_ref().map(|side| value(side).unwrap_or(Json::Null));
        (values[0] != values[1]).then(|| DifferenceJson { kind, name: name.to_owned(), values })
    };
    let param = |name| of("parameter", name, &|side| side.param(name).map(Value::to_json));
    let metric = |name| {
        of("metric", name, &|side| side.metrics.get(name).map(|value| Number(value).to_json()))
    };
    let summary = |name| of("summary", name, &|side| side.summary.get(name).cloned());
    let provenance = provenance_differences(sides).into_iter().map(|(name, values)| {
        DifferenceJson { kind: "lineage", name, values: values.map(Json::from) }
    });
    names(sides, Side::params)
        .into_iter()
        .filter_map(param)
        .chain(names(sides, Side::metrics).into_iter().filter_map(metric))
        .chain(names(sides, Side::summary).into_iter().filter_map(summary))
        .chain(provenance)
        .chain(packages.iter().map(|(name, versions)| DifferenceJson {
            kind: "package",
            name: name.clone(),
            values: versions.clone().map(Json::from),
        }))
        .collect()
}

/// Differences in the provenance of two trials' last attempts, except seeds, which always differ:
/// of several facts of one name, such as files, those that the other trial does not have.
fn provenance_differences(sides: &[Side; 2]) -> Vec<(String, [Option<String>; 2])> {
    differing_facts(sides.each_ref().map(|side| side.facts.as_slice()))
}

fn differing_facts([one, other]: [&[(String, String)]; 2]) -> Vec<(String, [Option<String>; 2])> {
    let of = |name: &str, own: &[(String, String)], others: &[(String, String)]| {
        let differing = own.iter().filter(|fact| fact.0 == name && !others.contains(fact));
        let texts: Vec<&str> = differing.map(|(_, text)| text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    };
    let mut found: Vec<(String, [Option<String>; 2])> = Vec::new();
    for (name, _) in one.iter().chain(other) {
        let values = [of(name, one, other), of(name, other, one)];
        if name != provenance::SEED
            && values[0] != values[1]
            && found.iter().all(|(known, _)| known != name)
        {
            found.push((name.clone(), values));
        }
    }
    found
}

/// The names of both sides, sorted.
fn names<'a, I: Iterator<Item = &'a str>>(
    sides: &'a [Side; 2],
    of: impl Fn(&'a Side) -> I,
) -> BTreeSet<&'a str> {
    sides.iter().flat_map(of).collect()
}

/// A line of the comparison.
struct DiffRow {
    name: String,
    sides: [String; 2],
    change: String,
}

fn print(
    sides: &[Side; 2],
    packages: &Packages,
    only_changed: bool,
    console: &mut Console,
) -> Result<(), Failure> {
    let of_one_study = sides[0].study.id == sides[1].study.id;
    let rows = outcome_rows(sides);
    let params =
        names(sides, Side::params).into_iter().map(|name| param_row(name, sides)).collect();
    let titles = sides.each_ref().map(|side| match of_one_study {
        true => format!("trial {}", side.trial.number),
        false => format!("{}/{}", one_line(&side.study.spec.name), side.trial.number),
    });
    let differing = |mut rows: Vec<DiffRow>| {
        rows.retain(|row| !only_changed || row.sides[0] != row.sides[1]);
        rows
    };
    let (rows, params) = (differing(rows), differing(params));
    if !rows.is_empty() {
        console.table(&columns("outcome", &titles, rows))?;
    }
    if params.is_empty() {
        writeln!(console.out, "\nthe parameters are the same")?;
    } else {
        writeln!(console.out)?;
        console.table(&columns("parameter", &titles, params))?;
    }
    print_provenance(sides, &titles, console)?;
    for (index, (name, versions)) in packages.iter().enumerate() {
        let begin = format!("{:<14}", if index == 0 { "changed" } else { "" });
        console.hanging(&begin, 16, &one_line(&provenance::version_change(name, versions)))?;
    }
    Ok(())
}

/// How the two trials ended, and what they measured.
fn outcome_rows(sides: &[Side; 2]) -> Vec<DiffRow> {
    let [one, other] = sides;
    let is_one_metric = one.metric() == other.metric();
    let metric = match is_one_metric {
        true => metric_names(&one.study.spec),
        false => one_line(&format!("{} | {}", one.metric(), other.metric())),
    };
    let text = |value: Option<f64>| value.map_or_else(String::new, number);
    let outcome = |name: &str, cell: &dyn Fn(&Trial) -> String| DiffRow {
        name: name.to_owned(),
        sides: [cell(&one.trial), cell(&other.trial)],
        change: String::new(),
    };
    let last = |side: &Side| {
        side.trial.last().map_or_else(String::new, |(step, value)| {
            format!("{} at {} {step}", number(value), side.study.spec.step.as_str())
        })
    };
    let mut rows = vec![
        outcome("state", &|trial| trial.state.as_str().to_owned()),
        DiffRow {
            name: format!("value ({metric})"),
            sides: sides.each_ref().map(|side| {
                let several = (!side.trial.values.is_empty()).then(|| values(&side.trial.values));
                several.unwrap_or_else(|| text(side.trial.value))
            }),
            change: if is_one_metric {
                change(one.trial.value, other.trial.value)
            } else {
                String::new()
            },
        },
        DiffRow {
            name: "last report".to_owned(),
            sides: sides.each_ref().map(last),
            change: String::new(),
        },
        DiffRow {
            name: "time".to_owned(),
            sides: sides.each_ref().map(|side| duration(side.spent.unwrap_or_default())),
            change: String::new(),
        },
        outcome("attempts", &|trial| trial.attempts.to_string()),
        outcome("device", &|trial| {
            trial.devices.as_ref().map_or_else(String::new, ToString::to_string)
        }),
    ];
    for name in names(sides, Side::metrics) {
        let (mine, theirs) = (one.metrics.get(name), other.metrics.get(name));
        if !is_one_metric || name != one.metric() || one.study.spec.has_several_objectives() {
            rows.push(DiffRow {
                name: one_line(name),
                sides: [text(mine), text(theirs)],
                change: change(mine, theirs),
            });
        }
    }
    for name in names(sides, Side::summary) {
        let texts = sides.each_ref().map(|side| side.summary.get(name));
        rows.push(DiffRow {
            name: one_line(&format!("summary.{name}")),
            sides: texts.map(|value| value.map_or_else(String::new, summary_text)),
            change: change(texts[0].and_then(Json::as_f64), texts[1].and_then(Json::as_f64)),
        });
    }
    rows
}

/// Prints the differences in code, machine, program and data.
fn print_provenance(
    sides: &[Side; 2],
    titles: &[String; 2],
    console: &mut Console,
) -> Result<(), Failure> {
    if sides.iter().all(|side| side.made.last().and_then(provenance::Made::provenance).is_none()) {
        return Ok(());
    }
    let telling = provenance_differences(sides);
    if telling.is_empty() {
        let seed =
            |side: &Side| side.facts.iter().find(|(name, _)| name == provenance::SEED).cloned();
        let [one, other] = sides.each_ref().map(seed);
        let seeds = if one != other { "; the seeds differ" } else { "" };
        writeln!(console.out, "\ncode, machine, program and data are the same{seeds}")?;
        return Ok(());
    }
    writeln!(console.out, "\nprovenance (code, machine, program, data)")?;
    for (name, values) in telling {
        for (index, (side, value)) in titles.iter().zip(values).enumerate() {
            let title = if index == 0 { name.as_str() } else { "" };
            let begin = format!("{title:<14}{side}: ");
            console.hanging(&begin, 16, &one_line(&value.unwrap_or_else(|| "none".to_owned())))?;
        }
    }
    Ok(())
}

fn param_row(name: &str, [one, other]: &[Side; 2]) -> DiffRow {
    let (mine, theirs) = (one.param(name), other.param(name));
    let text = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), param);
    let numbers = (mine.and_then(Value::as_number), theirs.and_then(Value::as_number));
    let change = match (mine, theirs, numbers) {
        _ if mine == theirs => String::new(),
        (Some(Value::Float(_)), Some(Value::Float(_)), (Some(mine), Some(theirs)))
            if mine > 0.0 && theirs > 0.0 =>
        {
            format!("x {}", number(theirs / mine))
        }
        (.., (Some(mine), Some(theirs))) => signed(theirs - mine),
        _ => "differs".to_owned(),
    };
    DiffRow { name: one_line(name), sides: [text(mine), text(theirs)], change }
}

/// A value of a summary: texts without quotes.
fn summary_text(value: &Json) -> String {
    one_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn change(one: Option<f64>, other: Option<f64>) -> String {
    match (one, other) {
        (Some(one), Some(other)) if one != other && (other - one).is_finite() => {
            signed(other - one)
        }
        _ => String::new(),
    }
}

fn signed(difference: f64) -> String {
    if difference > 0.0 { format!("+{}", number(difference)) } else { number(difference) }
}

fn columns(title: &str, titles: &[String; 2], rows: Vec<DiffRow>) -> Vec<Column> {
    Columns::of(&rows)
        .left(title, |row| row.name.clone())
        .left(titles[0].as_str(), |row| row.sides[0].clone())
        .left(titles[1].as_str(), |row| row.sides[1].clone())
        .left("change", |row| row.change.clone())
        .end()
}

fn file_against_study(
    file: &Path,
    named: Option<&String>,
    arguments: &DiffArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let checked = config::load_with_warnings(file, &arguments.set)?;
    let mut spec = checked.spec.clone();
    place_files(&mut spec, file, &console.store)?;
    let reader = console.reader()?;
    let study = match named {
        Some(named) => find::study(&reader, Some(named))?,
        None => find::of_file(&reader, file, &spec)?,
    };
    let known = study.clone().stored();
    continue_file(&known, &checked, &mut spec);
    let (store, inputs) = (console.absolute_store()?, inputs::of_study(&spec));
    let (_, changes) = changes_by_file(&reader, &known, &spec, &store, &inputs)?;
    let needed = changes.iter().map(|change| change.class).max();
    if arguments.json {
        let changes = changes.into_iter().map(|change| ChangeJson {
            needs: needs(Some(change.class)),
            key: change.path,
            before: change.old,
            after: change.new,
        });
        let output = FileDiffJson { needs: needs(needed), changes: changes.collect() };
        return console.json(Some(&study.spec.name), &output);
    }
    let (name, file) = (one_line(&study.spec.name), shown(file));
    if changes.is_empty() {
        writeln!(console.out, "`{file}` is the study `{name}` as it is stored")?;
        return Ok(Exit::Done);
    }
    let mut groups: BTreeMap<ChangeClass, Vec<&Change>> = BTreeMap::new();
    changes.iter().for_each(|change| groups.entry(change.class).or_default().push(change));
    for (class, changes) in groups {
        writeln!(console.out, "{}", heading(class))?;
        for change in changes {
            writeln!(console.out, "  {}", one_line(&change.to_string()))?;
        }
    }
    let (option, does) = match needed {
        Some(ChangeClass::NeedsFork) => (" --fork NAME", "starts it"),
        Some(ChangeClass::NeedsAccept) => (" --accept", "continues with it"),
        _ => ("", "continues with it"),
    };
    let run = console.next(&format!("run {file}{}{option}", sets(&arguments.set)));
    writeln!(console.out, "{run} {does}")?;
    Ok(Exit::Done)
}

fn needs(class: Option<ChangeClass>) -> &'static str {
    match class {
        None | Some(ChangeClass::Free) => "nothing",
        Some(ChangeClass::NeedsAccept) => "accept",
        Some(ChangeClass::NeedsFork) => "fork",
    }
}

fn heading(class: ChangeClass) -> &'static str {
    match class {
        ChangeClass::Free => "applied when it is run again:",
        ChangeClass::NeedsAccept => "needs --accept; trials so far stay as they are:",
        ChangeClass::NeedsFork => "changes what is searched; needs a new study (--fork NAME):",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_files_those_that_differ_are_said() {
        let facts = |texts: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = [("seed", texts[0].1), ("untracked", "same.py")];
            let pairs = pairs.iter().chain(texts);
            pairs.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let one = facts(&[("untracked", "a.py 1"), ("untracked", "b.py")]);
        let other = facts(&[("untracked", "a.py 2"), ("code", "c")]);
        let text = |text: &str| Some(text.to_owned());
        let untracked = [text("a.py 1; b.py"), text("a.py 2")];
        let expected =
            [("untracked".to_owned(), untracked), ("code".to_owned(), [None, text("c")])];
        assert_eq!(differing_facts([&one, &other]), expected);
    }

    #[test]
    fn changes_are_said_as_differences() {
        for (one, other, said) in [
            (Some(1.0), None, ""),
            (Some(f64::NAN), Some(1.0), ""),
            (Some(1.0), Some(1.5), "+0.5"),
            (Some(1.0), Some(-2.0), "-3"),
        ] {
            assert_eq!(change(one, other), said, "{one:?} {other:?}");
        }
    }
}
