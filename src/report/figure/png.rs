//! Figures as PNG: their SVG, rendered by resvg with fonts of the binary's own.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{self, Family, Query, Weight};
use resvg::usvg::{FontResolver, Options, Tree};

use super::Figure;
use super::svg::{self, Palette, Size};

/// Pixels of the image per pixel of the figure, where no size is given: sharp in print and on dense
/// screens.
const DENSITY: f32 = 2.0;

/// Most pixels of an image: each takes four bytes of memory.
const MOST_PIXELS: f32 = 100e6;

const REGULAR: &[u8] = include_bytes!("fonts/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("fonts/DejaVuSans-Bold.ttf");

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The figures are too large.
    #[error("the image would be {width} by {height} pixels, more than 100 million")]
    TooLarge {
        /// Pixels.
        width: f32,
        /// Pixels.
        height: f32,
    },
    /// The renderer failed.
    #[error("the figure is not rendered: {0}")]
    NotRendered(String),
}

/// The figures as a PNG image. With a size each figure has exactly that many pixels, and larger
/// ones have larger letters; without one it has twice the pixels of [`svg::document`].
///
/// # Errors
/// It would be too large.
pub fn image(
    figures: &[Figure<'_>],
    palette: Palette,
    size: Option<Size>,
) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    let drawn = size.map(|size| laid_out(size, svg::usual_size(figures.len())));
    let (across, down) = size.zip(drawn).map_or((DENSITY, DENSITY), |(size, drawn)| {
        (times(size.width, drawn.width), times(size.height, drawn.height))
    });
    let document = svg::document(figures, palette, drawn);
    if !document.chars().all(is_embedded) {
        fonts.load_system_fonts();
    }
    let options = Options {
        fontdb: Arc::new(fonts),
        font_resolver: FontResolver {
            // Whatever the document asks for: other fonts of this machine are for the characters
            // that this one lacks.
            select_font: Box::new(|font, fonts| {
                let weight = if font.weight() > 500 { Weight::BOLD } else { Weight::NORMAL };
                let families = &[Family::Name("DejaVu Sans")];
                fonts.query(&Query { families, weight, ..Query::default() })
            }),
            ..FontResolver::default()
        },
        ..Options::default()
    };
    let not_rendered = |error: String| PngError::NotRendered(error);
    let tree =
        Tree::from_str(&document, &options).map_err(|error| not_rendered(error.to_string()))?;
    let (width, height) =
        ((tree.size().width() * across).round(), (tree.size().height() * down).round());
    if width * height > MOST_PIXELS {
        return Err(PngError::TooLarge { width, height });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few enough pixels"
    )]
    let pixels = Pixmap::new(width as u32, height as u32);
    let mut pixels = pixels.ok_or_else(|| not_rendered("it has no pixels".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(across, down), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| not_rendered(error.to_string()))
}

#[expect(clippy::cast_precision_loss, reason = "sizes of images")]
fn times(length: u32, part: u32) -> f32 {
    length as f32 / part as f32
}

/// The size in which a figure of `size` pixels is laid out: the usual one or larger in both
/// directions, so that letters grow with the image.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and smaller than the size"
)]
fn laid_out(size: Size, usual: Size) -> Size {
    let times = |length: u32, usual: u32| f64::from(length) / f64::from(usual);
    let larger = times(size.width, usual.width).min(times(size.height, usual.height)).max(1.0);
    let divided = |length: u32| ((f64::from(length) / larger).round() as u32).max(1);
    Size { width: divided(size.width), height: divided(size.height) }
}

/// Whether the embedded fonts have a character.
fn is_embedded(char: char) -> bool {
    matches!(
        char,
        '\u{0}'..='\u{17f}'
            | '\u{391}'..='\u{3a1}'
            | '\u{3a3}'..='\u{45f}'
            | '\u{2010}'..='\u{2027}'
            | '\u{2030}'..='\u{203a}'
            | '\u{2074}'..='\u{208e}'
            | '€'
            | '\u{2190}'..='\u{2199}'
            | '\u{2200}'..='\u{2265}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figure::{Axis, Mark, Series, SeriesRole};

    #[test]
    fn an_image_has_the_figures_size_and_colours() {
        let points = vec![(0.0, 0.5), (1.0, 0.1)];
        let figure = Figure {
            title: "loss by trial".to_owned(),
            x: Axis::linear(),
            y: Axis::linear(),
            cells: None,
            series: vec![Series::new("loss", Mark::Line, SeriesRole::Compared(0), points)],
            empty: "",
        };
        let bytes = image(&[figure], Palette::Light, None).unwrap();
        let pixels = Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (1520, 880));
        let count = |wanted: (u8, u8, u8)| {
            let colour = |pixel: &resvg::tiny_skia::PremultipliedColorU8| {
                (pixel.red(), pixel.green(), pixel.blue())
            };
            pixels.pixels().iter().filter(|pixel| colour(pixel) == wanted).count()
        };
        assert!(count((255, 255, 255)) > 1_000_000, "the background");
        assert!(count((0, 0x72, 0xb2)) > 1000, "the line");
        // The title is dark: with a font that is missing there would be no text.
        assert!(count((0x1f, 0x23, 0x28)) > 200, "the title");
    }

    #[test]
    fn an_image_that_no_memory_holds_is_refused() {
        let size = Some(Size { width: 60_000, height: 60_000 });
        assert!(matches!(image(&[], Palette::Light, size), Err(PngError::TooLarge { .. })));
    }

    #[test]
    fn an_image_has_exactly_the_pixels_asked_for() {
        let figure = |series| Figure {
            title: "loss 損失 by trial".to_owned(),
            x: Axis::linear(),
            y: Axis::linear(),
            cells: None,
            series,
            empty: "nothing",
        };
        let figures = [figure(Vec::new()), figure(Vec::new())];
        for (width, height) in [(120, 120), (401, 299), (777, 555), (1999, 1501)] {
            for count in [1, 2] {
                let bytes =
                    image(&figures[..count], Palette::Dark, Some(Size { width, height })).unwrap();
                let pixels = Pixmap::decode_png(&bytes).unwrap();
                let columns = u32::try_from(count).unwrap();
                assert_eq!((pixels.width(), pixels.height()), (width * columns, height));
            }
        }
    }
}
