//! Figures as files, whose format is that of their name.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::Failure;
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

/// A file to write.
#[derive(Debug)]
pub struct Target<'a> {
    /// Its path.
    pub path: &'a Path,
    format: Format,
}

impl<'a> Target<'a> {
    /// The file at `path`.
    ///
    /// # Errors
    /// The name ends like no format, or there can be no file.
    pub fn of(path: &'a Path) -> Result<Self, Failure> {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let format = FORMATS.iter().find(|(name, _)| name.eq_ignore_ascii_case(end));
        let shown = one_line(&path.display().to_string());
        let Some((_, format)) = format else {
            return Err(Failure::usage(format!("`{shown}` names no format of figures"))
                .help("end it with .svg, .png, .html or .json"));
        };
        let directory = directory_of(path);
        if !directory.is_dir() {
            let directory = one_line(&directory.display().to_string());
            return Err(Failure::usage(format!("there is no directory `{directory}`"))
                .help("make it first, or name a file in one that exists"));
        }
        if path.is_dir() {
            return Err(Failure::usage(format!("`{shown}` is a directory"))
                .help(format!("name a file in it: `-o {shown}/figure.svg`")));
        }
        Ok(Target { path, format: *format })
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
            Format::Svg => document().into_bytes(),
            Format::Png => png(figures, palette, size)?,
            Format::Html => html(figures, &document()).into_bytes(),
            Format::Json => json()?.into_bytes(),
        };
        let directory = directory_of(self.path);
        let written = || -> std::io::Result<()> {
            let mut draft = tempfile(directory)?;
            draft.1.write_all(&bytes)?;
            draft.1.sync_all()?;
            fs::rename(&draft.0.0, self.path)
        };
        written().map_err(|error| {
            let shown = one_line(&self.path.display().to_string());
            Failure::usage(format!("`{shown}` cannot be written: {error}"))
                .help("name a file in a directory that exists and that you may write")
        })
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes what was not renamed.
struct Draft(std::path::PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        let _was_renamed = fs::remove_file(&self.0);
    }
}

/// A new file beside the target.
fn tempfile(directory: &Path) -> std::io::Result<(Draft, fs::File)> {
    let process = std::process::id();
    for attempt in 0.. {
        let path = directory.join(format!(".hpsearch-figure.{process}.{attempt}"));
        // Never through a file or a link that is there.
        match fs::File::create_new(&path) {
            Ok(file) => return Ok((Draft(path), file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 100 => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
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

/// A page with the figures, without any other file.
fn html(figures: &[Figure<'_>], document: &str) -> String {
    let title = figures.first().map_or("", |figure| figure.title.as_str());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
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
