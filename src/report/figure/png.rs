//! Figures as PNG: their SVG, rendered by resvg with fonts of the binary's own.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::Figure;
use super::svg::{self, Palette, Size};

/// Pixels of the image per pixel of the figure: sharp in print and on dense screens.
const DENSITY: f32 = 2.0;

/// Longest side of an image in pixels.
const LONGEST: f32 = 16_384.0;

const REGULAR: &[u8] = include_bytes!("fonts/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("fonts/DejaVuSans-Bold.ttf");

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The figures are too large.
    #[error("the image would be {width} by {height} pixels; {LONGEST} is the most")]
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

/// The figures as a PNG image with twice the pixels of [`svg::document`].
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
    let options = Options {
        font_family: "DejaVu Sans".to_owned(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let not_rendered = |error: String| PngError::NotRendered(error);
    let tree = Tree::from_str(&svg::document(figures, palette, size), &options)
        .map_err(|error| not_rendered(error.to_string()))?;
    let (width, height) = (tree.size().width() * DENSITY, tree.size().height() * DENSITY);
    if width > LONGEST || height > LONGEST {
        return Err(PngError::TooLarge { width, height });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the longest side"
    )]
    let pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32);
    let mut pixels = pixels.ok_or_else(|| not_rendered("it has no pixels".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(DENSITY, DENSITY), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| not_rendered(error.to_string()))
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
}
