//! `hpsearch events`: the journal of a study, as text or JSON lines, optionally followed as it
//! grows.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;

use super::moments::moment;
use super::selection;
use super::{Console, Exit, Failure};
use crate::app::find;
use crate::app::study_state::has_runner;
use crate::report::journal::Journal;
use crate::report::{Happening, reporter};
use crate::storage::{OutcomeCursor, StorageReader, StudyId, StudySummary};
use crate::study::event::{Event, ProposalEvent, Seq, StateEvent, TrialEvent};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};

/// Arguments of `hpsearch events`.
#[derive(Clone, Debug, Args)]
#[command(after_help = selection::with_filters("\
Examples:
  hpsearch events digits --limit 20
  hpsearch events digits -f
  hpsearch events digits --trial 7
  hpsearch events digits --where state:failed --json"))]
pub struct EventsArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Only what happened to this trial: its number, or a tracked run's name
    #[arg(long, value_name = "TRIAL", conflicts_with = "filter")]
    pub trial: Option<String>,
    /// Only what happened to trials that match the filter now (see below)
    #[arg(long = "where", value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// Only the last N events
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Keep printing new events until the study is over
    #[arg(short, long)]
    pub follow: bool,
    /// Print JSON lines: sequence number, microseconds since 1970, event
    #[arg(long)]
    pub json: bool,
}

/// Polling interval of a growing journal.
const TURN: Duration = Duration::from_millis(200);

/// Events read per page.
const PAGE: u64 = 10_000;

/// The events to print.
enum EventSelection {
    All,
    Trial(TrialNumber),
    Passing(Filter, BTreeSet<TrialNumber>),
}

impl EventSelection {
    fn new(
        arguments: &EventsArguments,
        reader: &dyn StorageReader,
        study: &StudySummary,
        console: &Console,
    ) -> Result<Self, Failure> {
        if let Some(word) = &arguments.trial {
            return Ok(EventSelection::Trial(find::trial_named(reader, study, word)?.number));
        }
        Ok(match selection::filter(reader, study, arguments.filter.as_deref(), console)? {
            filter if filter.is_all() => EventSelection::All,
            filter => EventSelection::Passing(filter, BTreeSet::new()),
        })
    }

    /// Updates the set of trials that match the filter.
    fn refresh(&mut self, reader: &dyn StorageReader, study: StudyId) -> Result<(), Failure> {
        if let EventSelection::Passing(filter, passing) = self {
            *passing = reader
                .numbers(study, &TrialQuery::all(SortKey::Number).filtered(filter.clone()))?
                .into_iter()
                .collect();
        }
        Ok(())
    }

    fn wants(&self, event: &Event) -> bool {
        match self {
            EventSelection::All => true,
            EventSelection::Trial(trial) => event.trial() == Some(*trial),
            EventSelection::Passing(_, passing) => {
                event.trial().is_some_and(|trial| passing.contains(&trial))
            }
        }
    }
}

/// Reads the journal and folds it: lines describe events with the state at the time.
struct Teller {
    state: StudyState,
    journal: Journal,
    seq: Seq,
    json: bool,
    wanted: EventSelection,
}

impl Teller {
    /// Skips the part of the fold that the last `limit` lines do not depend on. Folding 100,000
    /// trials takes seconds, and a line depends only on its own trial and on the best one before
    /// it.
    fn begin_late(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        limit: usize,
        follow: bool,
    ) -> Result<(), Failure> {
        if !matches!(self.wanted, EventSelection::All) {
            return Ok(());
        }
        let mut page = reader.events_before(study, Seq(i64::MAX), limit.max(1) as u64)?;
        let Some((mut begin, ..)) = page.first().cloned() else { return Ok(()) };
        if self.json {
            self.seq = Seq(begin.0 - 1);
            return Ok(());
        }
        // Later events may concern any trial.
        if follow {
            return Ok(());
        }
        // The fold begins where the oldest trial of these lines was created: by place, as clocks
        // may go back.
        // A run that was removed has no beginning any more.
        let is_removal = |event: &Event| {
            matches!(event, Event::Trial(_, TrialEvent::State(StateEvent::Removed { .. })))
        };
        let speaking = page.iter().filter(|(_, _, event)| !is_removal(event));
        let mut unborn: BTreeSet<TrialNumber> =
            speaking.filter_map(|(_, _, event)| event.trial()).collect();
        let (mut created, mut ended) = (BTreeSet::new(), BTreeSet::new());
        loop {
            for (_, _, event) in &page {
                let _is_new = match event {
                    Event::Trial(
                        trial,
                        TrialEvent::Proposal(ProposalEvent::TrialCreated { .. }),
                    ) => created.insert(*trial) && unborn.remove(trial),
                    Event::Trial(trial, TrialEvent::State(StateEvent::Finished { .. })) => {
                        ended.insert(*trial)
                    }
                    _ => false,
                };
            }
            if unborn.is_empty() {
                break;
            }
            page = reader.events_before(study, begin, PAGE)?;
            let Some((first, ..)) = page.first() else { return Ok(()) };
            begin = *first;
        }
        self.seq = Seq(begin.0 - 1);
        if let Some(first) = created.first() {
            self.state.stand_in_before(*first, Timestamp(0));
        }
        // A trial whose value was withdrawn by `hpsearch continue` before all these lines no longer
        // counts as best.
        let (outcomes, _) = reader.outcomes(study, OutcomeCursor::default())?;
        let before = outcomes.iter().filter(|outcome| {
            outcome.state == TrialState::Complete
                && outcome.violation.is_none()
                && !ended.contains(&outcome.number)
        });
        before
            .filter_map(|outcome| outcome.value)
            .for_each(|value| self.journal.know(self.state.direction(), value));
        Ok(())
    }

    /// Passes on the lines for unread events.
    fn read(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        mut take: impl FnMut(String) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.wanted.refresh(reader, study)?;
        loop {
            let page = reader.events_after(study, self.seq, PAGE)?;
            let Some((last, ..)) = page.last() else { return Ok(()) };
            self.seq = *last;
            for (seq, at, event) in &page {
                // JSON lines contain the event only: no state is needed.
                if !self.json {
                    self.state.apply(*at, event);
                }
                let happening = Happening { seq: *seq, at: *at, event, state: &self.state };
                let is_best = self.journal.take(&happening);
                if self.wanted.wants(event) {
                    take(self.line(&happening, is_best)?)?;
                }
            }
        }
    }

    fn line(&self, happening: &Happening<'_>, is_best: bool) -> Result<String, Failure> {
        if !self.json {
            return Ok(format!("{}  {}", moment(happening.at), Journal::line(happening, is_best)));
        }
        let mut line = Vec::new();
        reporter("events").expect("it is in the table of reporters").event(&mut line, happening)?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

/// Prints the journal.
pub fn events(arguments: &EventsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut reader = console.reader()?;
    let study = find::study(&reader, arguments.study.as_deref())?;
    let wanted = EventSelection::new(arguments, &reader, &study, console)?;
    let mut teller = Teller {
        state: StudyState::new(&study.spec),
        journal: Journal::default(),
        seq: Seq(0),
        json: arguments.json,
        wanted,
    };
    if let Some(limit) = arguments.limit {
        teller.begin_late(&reader, study.id, limit, arguments.follow)?;
    }
    let (mut printed, mut last) = (false, VecDeque::new());
    teller.read(&reader, study.id, |line| {
        let Some(limit) = arguments.limit else {
            printed = true;
            return Ok(writeln!(console.out, "{line}")?);
        };
        last.push_back(line);
        if last.len() > limit {
            last.pop_front();
        }
        Ok(())
    })?;
    printed |= !last.is_empty();
    for line in last {
        writeln!(console.out, "{line}")?;
    }
    if arguments.follow {
        follow(&mut teller, &mut reader, study.id, console)?;
    } else if !printed {
        console.say("no such event yet");
    }
    Ok(Exit::Done)
}

/// Prints new events until the study is over and not running.
fn follow(
    teller: &mut Teller,
    reader: &mut dyn StorageReader,
    study: StudyId,
    console: &mut Console,
) -> Result<(), Failure> {
    loop {
        console.out.flush()?;
        // Queried before reading, so that events before the end are not missed.
        let summary = reader.summary(study)?;
        let is_run = has_runner(&summary);
        let is_over = summary.finished.is_some() && !is_run;
        teller.read(reader, study, |line| Ok(writeln!(console.out, "{line}")?))?;
        if is_over {
            return Ok(());
        }
        console.out.flush()?;
        while !reader.changed()? {
            sleep(TURN);
        }
    }
}
