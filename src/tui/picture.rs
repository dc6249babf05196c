//! Screens that the loader draws, since their charts may take longer than a frame: comparing, the
//! search, devices.

use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::compare::{self, CompareData};
use super::devices::{self, DevicesData};
use super::look::Look;
use super::search::{self, SearchData, SearchView};
use crate::analysis::importance::{self, Evaluator};
use crate::runner::monitor::Monitor;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudyId};
use crate::study::device::Device;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Trials side by side.
    Compare {
        /// Which.
        trials: Vec<TrialNumber>,
        /// Whose curves; `None`: the study's.
        metric: Option<String>,
    },
    /// How the search goes.
    Search(SearchView),
    /// What runs where.
    Devices,
}

/// A picture that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureRequest {
    /// Of what.
    pub subject: Subject,
    /// Columns and rows.
    pub size: (u16, u16),
    /// How far it is scrolled.
    pub scroll: u16,
}

/// A picture as it was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// As it was asked for, but scrolled no further than there is something to see.
    pub request: PictureRequest,
    /// Its cells.
    pub buffer: Buffer,
    /// The devices that the study runs on, where it shows them.
    pub devices: Vec<Device>,
}

/// Where pictures are drawn, and what is kept from one to the next.
pub struct PictureCache {
    look: Look,
    search: Option<SearchData>,
    /// When it was last asked which parameters matter, and of how many trials.
    importance_read: Option<(Instant, usize)>,
    devices: Option<DevicesData>,
    monitor: Option<Monitor>,
}
/// What they told holds so long.
const IMPORTANCE_AGE: Duration = Duration::from_secs(10);
/// No picture scrolls further.
const MOST: u16 = 1_000;

impl PictureCache {
    /// Nothing was drawn yet.
    pub fn new(look: Look) -> Self {
        PictureCache { look, search: None, importance_read: None, devices: None, monitor: None }
    }

    /// Draws what is asked for, as it is in the store now.
    pub fn draw(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        request: &PictureRequest,
        now: Timestamp,
    ) -> Result<Picture, StorageError> {
        let look = self.look;
        let area = Rect::new(0, 0, request.size.0, request.size.1);
        match &request.subject {
            Subject::Compare { trials, metric } => {
                let data = CompareData::load(reader, study, trials, metric.as_deref())?;
                Ok(scrolled(request, area, |buffer, scroll| {
                    compare::draw(buffer, area, &data, scroll, look)
                }))
            }
            Subject::Search(view) => {
                self.search_data(reader, study)?;
                if *view == SearchView::Slices {
                    self.read_importance(reader, study)?;
                }
                let data = self.search_data(reader, study)?;
                Ok(scrolled(request, area, |buffer, scroll| {
                    search::draw(buffer, area, data, *view, scroll, look)
                }))
            }
            Subject::Devices => {
                let data = self.devices_data(reader, study, now)?;
                let picture = scrolled(request, area, |buffer, scroll| {
                    devices::draw(buffer, area, data, scroll, look)
                });
                Ok(Picture { devices: data.of_the_study(), ..picture })
            }
        }
    }

    fn search_data(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
    ) -> Result<&SearchData, StorageError> {
        let data = match self.search.take() {
            None => SearchData::load(reader, study)?,
            Some(mut known) => {
                known.refresh(reader, study)?;
                known
            }
        };
        Ok(self.search.insert(data))
    }

    /// Asks which parameters matter, where there are trials enough to tell, more of them than
    /// before, and not all the time.
    fn read_importance(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
    ) -> Result<(), StorageError> {
        let Some(data) = &mut self.search else {
            return Ok(());
        };
        let trials = data.trials();
        let due = self
            .importance_read
            .is_none_or(|(at, of)| at.elapsed() >= IMPORTANCE_AGE && trials > of);
        if !due {
            return Ok(());
        }
        let (outcomes, _) = reader.outcomes(study, OutcomeCursor::default())?;
        let (rows, _) = importance::rows(&outcomes, Evaluator::PedAnova, data.spec.direction());
        // Of too few nothing is said.
        let told = importance::importances(
            Evaluator::PedAnova,
            &data.spec.space,
            &rows,
            data.spec.direction(),
            data.spec.seed,
        );
        data.importances = told.unwrap_or_default();
        self.importance_read = Some((Instant::now(), trials));
        Ok(())
    }

    fn devices_data(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        now: Timestamp,
    ) -> Result<&DevicesData, StorageError> {
        let visible = || std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let monitor = self.monitor.get_or_insert_with(|| Monitor::new(visible().as_deref()));
        let data = DevicesData::load(reader, study, monitor, now, self.devices.as_ref())?;
        Ok(self.devices.insert(data))
    }
}

/// Draws as far down as is asked for, or as there is something to see: what is drawn further down
/// looks all the same.
fn scrolled(request: &PictureRequest, area: Rect, draw: impl Fn(&mut Buffer, u16)) -> Picture {
    let at = |scroll| {
        let mut buffer = Buffer::empty(area);
        draw(&mut buffer, scroll);
        buffer
    };
    let (mut scroll, mut buffer) = (request.scroll.min(MOST), at(request.scroll.min(MOST)));
    if scroll > 0 && at(scroll - 1) == buffer {
        // The first place from which on nothing changes.
        let (mut below, mut above) = (None, scroll);
        while below.map_or(0, |below: u16| below + 1) < above {
            let middle = below.map_or(0, |below| below + 1) / 2 + above / 2;
            let middle = middle.clamp(below.map_or(0, |below| below + 1), above - 1);
            if at(middle) == buffer {
                above = middle;
            } else {
                below = Some(middle);
            }
        }
        scroll = above;
        buffer = at(scroll);
    }
    Picture { request: PictureRequest { scroll, ..request.clone() }, buffer, devices: Vec::new() }
}

/// Puts a picture into `area`, as much of it as there is room for.
pub fn copy(picture: &Picture, target: &mut Buffer, area: Rect) {
    let source = picture.buffer.area;
    for row in 0..area.height.min(source.height) {
        for column in 0..area.width.min(source.width) {
            if let (Some(cell), Some(place)) = (
                picture.buffer.cell((column, row)),
                target.cell_mut((area.x + column, area.y + row)),
            ) {
                *place = cell.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of `lines` lines, of which three are seen.
    fn text(lines: u16) -> impl Fn(&mut Buffer, u16) {
        move |buffer, scroll| {
            let first = scroll.min(lines.saturating_sub(3));
            for row in 0..3.min(lines) {
                buffer.set_string(0, row, (first + row).to_string(), ratatui::style::Style::new());
            }
        }
    }

    #[test]
    fn scrolling_ends_where_there_is_nothing_more_to_see() {
        let area = Rect::new(0, 0, 6, 3);
        for (lines, asked, shown) in [
            (10, 4, 4),
            (10, 7, 7),
            (10, 8, 7),
            (10, u16::MAX, 7),
            (2, 5, 0),
            (0, 1, 0),
            (4, 1, 1),
            (500, u16::MAX, 497),
        ] {
            let request = PictureRequest { subject: Subject::Devices, size: (6, 3), scroll: asked };
            let picture = scrolled(&request, area, text(lines));
            assert_eq!(picture.request.scroll, shown, "{lines} lines, scrolled by {asked}");
        }
    }
}
