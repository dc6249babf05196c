//! Figures as files, whose format is that of their name.

use std::path::{Path, PathBuf};

use super::Failure;
use crate::cli::output_file::{refuse_inputs, refuse_others, whole_file};
use crate::report::figure::Figure;
use crate::report::figure::svg::{self, Palette, Size, escaped};
use crate::report::wording::one_line;

/// Formats by the end of a file's name.
const FORMATS: [(&str, Format); 4] =
    [("svg", Format::Svg), ("png", Format::Png), ("html", Format::Html), ("json", Format::Json)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Html,
    Json,
}

/// Begins an SVG.
const SVG_MARKER: &str = "<!-- a figure of hpsearch -->\n";
/// Begins a page.
const HTML_MARKER: &str = "<!doctype html>\n<!-- a figure of hpsearch -->\n";
/// Begins the data.
const JSON_MARKER: &str = "{\"version\":1,\"plot\":";
/// A chunk of a PNG that names the program: length, type, content, CRC.
const PNG_MARKER: &[u8] = b"\x00\x00\x00\x11tEXtSoftware\0hpsearch\xc2\xec\xcd\x76";
/// The length of a PNG's signature and first chunk, which the marker follows.
const PNG_HEADER: usize = 33;

/// A file to write.
#[derive(Debug)]
pub struct Target<'a> {
    /// Its path.
    pub path: &'a Path,
    format: Format,
}

impl<'a> Target<'a> {
    /// The file at `path`, which is none of the `inputs`.
    ///
    /// # Errors
    /// The name ends like no format, or it is an input.
    pub fn of(path: &'a Path, inputs: impl IntoIterator<Item = PathBuf>) -> Result<Self, Failure> {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let format = FORMATS.iter().find(|(name, _)| name.eq_ignore_ascii_case(end));
        let shown = one_line(&path.display().to_string());
        let Some((_, format)) = format else {
            return Err(Failure::usage(format!("`{shown}` does not name a format of figures"))
                .help("end it with .svg, .png, .html or .json"));
        };
        refuse_inputs(path, inputs)?;
        Ok(Target { path, format: *format })
    }

    /// Rejects an existing file that is no figure of hpsearch, of whatever format.
    ///
    /// # Errors
    /// There is such a file.
    pub fn refuse_others(&self) -> Result<(), Failure> {
        let texts = [SVG_MARKER, HTML_MARKER, JSON_MARKER].map(|marker| (0, marker.as_bytes()));
        let markers = texts.into_iter().chain([(PNG_HEADER, PNG_MARKER)]);
        refuse_others(self.path, &markers.collect::<Vec<_>>(), "a figure")
    }

    /// Writes the figures; `json` makes their JSON. The file is whole or, after an error, what it
    /// was before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(
        &self,
        figures: &[Figure<'_>],
        palette: Palette,
        size: Option<Size>,
        json: &dyn Fn() -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let document = || svg::document(figures, palette, size);
        let bytes = match self.format {
            Format::Svg => format!("{SVG_MARKER}{}", document()).into_bytes(),
            Format::Png => marked(png(figures, palette, size)?),
            Format::Html => html(figures, &document()).into_bytes(),
            Format::Json => json()?.into_bytes(),
        };
        whole_file(self.path, |out| Ok(out.write_all(&bytes)?))
    }
}

/// The colours of a file.
pub fn palette(is_dark: bool) -> Palette {
    if is_dark { Palette::Dark } else { Palette::Light }
}

/// The size of each figure; `None`: the usual one.
pub fn size(width: Option<u16>, height: Option<u16>, figures: usize) -> Option<Size> {
    let usual = svg::usual_size(figures);
    let pixels =
        |given: Option<u16>, usual: u32| given.map_or(usual, |given| u32::from(given).max(120));
    (width.is_some() || height.is_some())
        .then(|| Size { width: pixels(width, usual.width), height: pixels(height, usual.height) })
}

/// The image with the name of the program in it.
fn marked(mut png: Vec<u8>) -> Vec<u8> {
    png.splice(PNG_HEADER..PNG_HEADER, PNG_MARKER.iter().copied());
    png
}

/// A page with the figures, without any other file.
fn html(figures: &[Figure<'_>], document: &str) -> String {
    let title = figures.first().map_or("", |figure| figure.title.as_str());
    format!(
        "{HTML_MARKER}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n\
         <style>body {{ margin: 1rem }} svg {{ max-width: 100%; height: auto }}</style>\n</head>\n\
         <body>\n{document}</body>\n</html>\n",
        escaped(title)
    )
}

#[cfg(feature = "png")]
fn png(figures: &[Figure<'_>], palette: Palette, size: Option<Size>) -> Result<Vec<u8>, Failure> {
    crate::report::figure::png::image(figures, palette, size).map_err(|error| {
        Failure::usage(error.to_string())
            .help("give a smaller `--width` and `--height`, or write a `.svg`")
    })
}

#[cfg(not(feature = "png"))]
fn png(_: &[Figure<'_>], _: Palette, _: Option<Size>) -> Result<Vec<u8>, Failure> {
    Err(Failure::usage("this binary was built without PNG files")
        .help("write a `.svg`, which browsers and LaTeX convert, or build with `--features png`"))
}
