//! Trials of several studies as one list: in one order if their values are comparable, else study
//! by study.

use super::find::{self, Archived, FoundStudies};
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::query::{SortKey, SortPosition, TrialQuery};
use crate::study::spec::{Objective, StudySpec};
use crate::study::trial::Trial;

/// Selects studies of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StudySelection {
    /// All that are not archived.
    All,
    /// Those whose names match one of these patterns.
    Matching(Vec<String>),
}

impl StudySelection {
    /// The selected studies, by name.
    ///
    /// # Errors
    /// The store failed.
    pub fn find(&self, reader: &dyn StorageReader) -> Result<FoundStudies, StorageError> {
        match self {
            StudySelection::All => find::all(reader, Archived::LeftOut),
            StudySelection::Matching(patterns) => find::matching_now(reader, patterns),
        }
    }
}

/// The objective of all studies, if each has this one alone.
pub fn common_objective<'a>(
    specs: impl IntoIterator<Item = &'a StudySpec>,
) -> Option<&'a Objective> {
    match common_objectives(specs)? {
        [objective] => Some(objective),
        _ => None,
    }
}

/// The objectives of all studies, if each has these in this order.
pub fn common_objectives<'a>(
    specs: impl IntoIterator<Item = &'a StudySpec>,
) -> Option<&'a [Objective]> {
    let mut specs = specs.into_iter();
    let objectives = specs.next()?.objectives.as_slice();
    let key = |objective: &'a Objective| (&objective.metric, objective.direction);
    let is_same =
        |other: &'a StudySpec| other.objectives.iter().map(key).eq(objectives.iter().map(key));
    specs.all(is_same).then_some(objectives)
}

/// Whether trials of all these studies can be ranked together.
pub fn ranks_together<'a>(specs: impl IntoIterator<Item = &'a StudySpec>, sort: &SortKey) -> bool {
    *sort != SortKey::Value || common_objective(specs).is_some()
}

/// A trial of one of the studies.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedTrial {
    /// The index of its study.
    pub study: usize,
    /// Its rank in the list, or in its study's if there is no common order; from 1.
    pub rank: u64,
    /// The trial.
    pub trial: Trial,
}

/// A part of the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Length of the whole list.
    pub matching: u64,
    /// Offset of this part.
    pub first: u64,
    /// The trials.
    pub rows: Vec<RankedTrial>,
}

/// A page of the trials that match each study's query: at most `limit` from `offset` on, or the
/// last ones if there are fewer. Of the others only the sort positions are read.
///
/// # Errors
/// The store failed.
pub fn page(
    reader: &dyn StorageReader,
    studies: &[(StudySummary, TrialQuery)],
    offset: u64,
    limit: u64,
) -> Result<Page, StorageError> {
    let mut positions: Vec<(usize, SortPosition)> = Vec::new();
    for (index, (study, query)) in studies.iter().enumerate() {
        let own = reader.positions(study.id, query)?;
        positions.extend(own.into_iter().map(|position| (index, position)));
    }
    let Some((_, query)) = studies.first() else { return Ok(Page::default()) };
    let is_one_list = ranks_together(studies.iter().map(|(study, _)| &study.spec), &query.sort);
    if is_one_list {
        // Stable: ties keep the order of the studies.
        positions.sort_by(|(_, one), (_, other)| one.compare(other, query.reverse));
    }
    let matching = positions.len() as u64;
    let first = if offset < matching { offset } else { matching.saturating_sub(limit) };
    let begin = usize::try_from(first).unwrap_or(usize::MAX).min(positions.len());
    let count = usize::try_from(limit).unwrap_or(usize::MAX).min(positions.len() - begin);
    let (before, shown) = (&positions[..begin], &positions[begin..begin + count]);
    // The rows of a study are one page of its own list.
    let of = |part: &[(usize, SortPosition)], index: usize| {
        part.iter().filter(|(study, _)| *study == index).count() as u64
    };
    let (mut trials, mut ranks) = (Vec::new(), Vec::new());
    for (index, (study, query)) in studies.iter().enumerate() {
        let (skipped, wanted) = (of(before, index), of(shown, index));
        let own = match wanted {
            0 => Vec::new(),
            _ => reader.trials(study.id, &query.clone().page(query.offset + skipped, wanted))?,
        };
        trials.push(own.into_iter());
        ranks.push(skipped);
    }
    let mut rows = Vec::with_capacity(shown.len());
    for (at, (index, _)) in (first + 1..).zip(shown) {
        ranks[*index] += 1;
        let rank = if is_one_list { at } else { ranks[*index] };
        // A trial removed since its position was read is skipped.
        rows.extend(trials[*index].next().map(|trial| RankedTrial { study: *index, rank, trial }));
    }
    Ok(Page { matching, first, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::memory::MemoryStore;
    use crate::storage::{Holder, Storage as _, Takeover};
    use crate::study::event::{Event, TrialEvent};
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::query::Filter;
    use crate::study::space::Space;
    use crate::study::time::Timestamp;
    use crate::study::trial::{Origin, TrialNumber, TrialState};

    /// A study whose trials have these values.
    fn study(store: &mut MemoryStore, name: &str, direction: Direction, values: &[f64]) {
        let space = Space::new(Vec::new()).unwrap();
        let spec = StudySpec::new(name, "loss", direction, space, Program::Inline);
        let study = store.create_study(Timestamp(0), &spec).unwrap();
        let holder = Holder { pid: 7, pid_started: 1, host: "here".into(), boot_id: None };
        let lease = store.acquire(study, &holder, Timestamp(0), Takeover::IfFree).unwrap();
        for (number, value) in (0..).map(TrialNumber).zip(values) {
            let finished = TrialEvent::finished(TrialState::Complete, Some(*value), None);
            let events = [TrialEvent::created(Params::new(), Origin::Enqueued(0)), finished];
            let events = events.map(|event| Event::Trial(number, event));
            store.append(&lease, Timestamp(1), &events).unwrap();
        }
    }

    fn listed(store: &MemoryStore, sort: &SortKey) -> Vec<(StudySummary, TrialQuery)> {
        let studies = StudySelection::All.find(store).unwrap().studies;
        let query = TrialQuery::all(sort.clone()).filtered(Filter::all());
        studies.into_iter().map(|study| (study, query.clone())).collect()
    }

    fn rows(page: &Page) -> Vec<(usize, u64, u64)> {
        page.rows.iter().map(|row| (row.study, row.trial.number.0, row.rank)).collect()
    }

    #[test]
    fn trials_are_ranked_together_page_by_page_where_their_values_compare() {
        let mut store = MemoryStore::new();
        study(&mut store, "a", Direction::Minimize, &[0.5, 0.1, 0.3]);
        study(&mut store, "b", Direction::Minimize, &[0.2, 0.3, f64::NAN, 0.4]);
        let studies = listed(&store, &SortKey::Value);
        let all = page(&store, &studies, 0, u64::MAX).unwrap();
        assert_eq!(
            rows(&all),
            [(0, 1, 1), (1, 0, 2), (1, 1, 3), (0, 2, 4), (1, 3, 5), (0, 0, 6), (1, 2, 7)]
        );
        for (offset, limit) in [(0, 3), (2, 2), (5, 9), (6, 1)] {
            let part = page(&store, &studies, offset, limit).unwrap();
            let (begin, count) = (offset as usize, limit as usize);
            let expected: Vec<RankedTrial> =
                all.rows.iter().skip(begin).take(count).cloned().collect();
            let same = rows(&part) == rows(&Page { rows: expected, ..Page::default() });
            assert!(same && part.matching == 7 && part.first == offset, "{offset} {limit}");
        }
        let beyond = page(&store, &studies, 70, 2).unwrap();
        assert_eq!((beyond.first, beyond.rows.len()), (5, 2), "the last ones");
    }

    #[test]
    fn trials_of_other_objectives_stay_study_by_study_but_for_other_orders() {
        let mut store = MemoryStore::new();
        study(&mut store, "a", Direction::Minimize, &[0.5, 0.1]);
        study(&mut store, "b", Direction::Maximize, &[0.2, 0.3]);
        let studies = listed(&store, &SortKey::Value);
        let by_value = page(&store, &studies, 0, 9).unwrap();
        assert_eq!(rows(&by_value), [(0, 1, 1), (0, 0, 2), (1, 1, 1), (1, 0, 2)]);
        let end = page(&store, &studies, 3, 9).unwrap();
        assert_eq!(rows(&end), [(1, 0, 2)]);
        let by_number = page(&store, &listed(&store, &SortKey::Number), 0, 9).unwrap();
        assert_eq!(rows(&by_number), [(0, 0, 1), (1, 0, 2), (0, 1, 3), (1, 1, 4)]);
    }
}
