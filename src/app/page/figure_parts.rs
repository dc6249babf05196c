//! Figures as the page has them: as data for its charts, or drawn.

use serde::Serialize;

use crate::app::curves::Detail;
use crate::app::figures::{FigureError, FigureKind, FigureOptions, StudyFigure, figures};
use crate::report::figure::Figure;
use crate::report::figure::svg::{self, Palette};
use crate::storage::{StorageReader, StudySummary};

/// Columns of a curve.
const COLUMNS: u16 = 200;
/// Largest figure as SVG, in bytes; slices of very many trials are larger.
const LARGEST_FIGURE: usize = 400 * 1024;

/// A figure, drawn or as data for the page's chart library.
#[derive(Debug, Serialize)]
pub struct FigurePart {
    /// Its kind.
    pub kind: &'static str,
    /// What it shows.
    pub summary: &'static str,
    /// Over the figure.
    pub title: String,
    /// Drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    /// As data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure<'static>>,
    /// Why it is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// The figures of one kind, as the page has them: histories and curves as data, the others drawn.
///
/// # Errors
/// The store failed.
pub fn figure_parts(
    reader: &dyn StorageReader,
    studies: &[StudySummary],
    kind: FigureKind,
) -> Result<Vec<FigurePart>, FigureError> {
    let options = FigureOptions {
        detail: Detail::Columns(COLUMNS / 2),
        lines: 100,
        ..FigureOptions::default()
    };
    let found = figures(reader, studies, kind, &options)?;
    let part = |figure: Figure<'static>| FigurePart {
        kind: kind.as_str(),
        summary: kind.summary(),
        title: figure.title.clone(),
        svg: None,
        figure: Some(figure),
        left_out: None,
    };
    if matches!(kind, FigureKind::History | FigureKind::Curves) {
        return Ok(found.into_iter().map(|StudyFigure { figure, .. }| part(figure)).collect());
    }
    let drawn: Vec<FigurePart> = found
        .into_iter()
        .filter(|figure| figure.figure.ranges().is_some())
        .map(|StudyFigure { figure, .. }| {
            let svg = svg::document(std::slice::from_ref(&figure), Palette::Page, None);
            let left_out = (svg.len() > LARGEST_FIGURE).then(|| {
                format!("too large for this page: `hpsearch plot {}` draws it", kind.as_str())
            });
            let svg = left_out.is_none().then_some(svg);
            FigurePart { svg, left_out, figure: None, ..part(figure) }
        })
        .collect();
    Ok(drawn)
}
