//! Screens that the loader draws, since their charts may take longer than a frame: comparing, the
//! search, devices.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::compare::{self, CompareData};
use super::devices::{self, DevicesData};
use super::search::{self, SearchData, SearchView};
use super::theme::Theme;
use super::trial_key::TrialKey;
use crate::runner::monitor::Monitor;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::device::Device;
use crate::study::time::Timestamp;

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Trials side by side.
    Compare {
        /// They, in the order of marking.
        trials: Vec<TrialKey>,
        /// Whose curves; `None`: the studies' own.
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
    /// What to draw: trials side by side, the search, or the devices.
    pub subject: Subject,
    /// Columns and rows.
    pub size: (u16, u16),
    /// How far it is scrolled.
    pub scroll: usize,
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
    theme: Theme,
    search: Option<SearchData>,
    devices: Option<DevicesData>,
    monitor: Option<Monitor>,
}

impl PictureCache {
    /// Nothing was drawn yet.
    pub fn new(theme: Theme) -> Self {
        PictureCache { theme, search: None, devices: None, monitor: None }
    }

    /// Another study is looked at from now on.
    pub fn forget(&mut self) {
        (self.search, self.devices) = (None, None);
    }

    /// Draws what is asked for, as it is in the store now. What `study` says is not read again:
    /// keys act on it, and what they do has to be what the picture says.
    pub fn draw(
        &mut self,
        reader: &dyn StorageReader,
        study: &StudySummary,
        request: &PictureRequest,
        now: Timestamp,
    ) -> Result<Picture, StorageError> {
        let theme = self.theme;
        let area = Rect::new(0, 0, request.size.0, request.size.1);
        let mut buffer = Buffer::empty(area);
        let mut devices = Vec::new();
        let scroll = match &request.subject {
            Subject::Compare { trials, metric } => {
                let data = CompareData::load(reader, trials, metric.as_deref(), now)?;
                compare::draw(&mut buffer, area, &data, request.scroll, theme)
            }
            Subject::Search(view) => {
                let data = match self.search.take() {
                    None => SearchData::load(reader, study)?,
                    Some(mut known) => {
                        known.refresh(reader, study)?;
                        known
                    }
                };
                let data = self.search.insert(data);
                match view {
                    SearchView::Slices => data.read_importance(reader, study.id)?,
                    SearchView::Paused => data.read_paused(reader, study.id)?,
                    SearchView::History | SearchView::Rungs => {}
                }
                search::draw(&mut buffer, area, data, *view, request.scroll, theme)
            }
            Subject::Devices => {
                let visible = || std::env::var("CUDA_VISIBLE_DEVICES").ok();
                let monitor =
                    self.monitor.get_or_insert_with(|| Monitor::new(visible().as_deref()));
                let before = self.devices.as_ref();
                let data = DevicesData::load(reader, study, monitor, now, before)?;
                let data = self.devices.insert(data);
                devices = data.of_the_study();
                devices::draw(&mut buffer, area, data, request.scroll, theme)
            }
        };
        Ok(Picture { request: PictureRequest { scroll, ..request.clone() }, buffer, devices })
    }
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
