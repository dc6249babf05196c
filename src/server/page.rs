//! The files of the live page: HTML, style and modules as they are in the sources, without a build
//! step.

use crate::report::page;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Its address.
    pub path: &'static str,
    /// Its content type.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $content_type:expr, $file:literal) => {
        shared($path, $content_type, include_str!(concat!("page/", $file)))
    };
}

const fn shared(path: &'static str, content_type: &'static str, content: &'static str) -> PageFile {
    PageFile { path, content_type, content }
}

/// All files of the page.
pub const PAGE_FILES: &[PageFile] = &[
    file!("/", HTML, "index.html"),
    file!("/icon.svg", "image/svg+xml", "icon.svg"),
    shared("/shared.css", STYLE, page::STYLE),
    file!("/live.css", STYLE, "live.css"),
    shared("/uplot.css", STYLE, page::UPLOT_STYLE),
    shared("/uplot.js", SCRIPT, page::UPLOT),
    shared("/chart.js", SCRIPT, page::CHART),
    shared("/elements.js", SCRIPT, page::ELEMENTS),
    shared("/format.js", SCRIPT, page::FORMAT),
    file!("/main.js", SCRIPT, "main.js"),
    file!("/server.js", SCRIPT, "server.js"),
    file!("/stream.js", SCRIPT, "stream.js"),
    file!("/worker.js", SCRIPT, "worker.js"),
    file!("/studies.js", SCRIPT, "studies.js"),
    file!("/study.js", SCRIPT, "study.js"),
    file!("/objectives.js", SCRIPT, "objectives.js"),
    file!("/trials.js", SCRIPT, "trials.js"),
    file!("/trial.js", SCRIPT, "trial.js"),
    file!("/images.js", SCRIPT, "images.js"),
    file!("/log.js", SCRIPT, "log.js"),
    file!("/compare.js", SCRIPT, "compare.js"),
    file!("/figures.js", SCRIPT, "figures.js"),
    file!("/events.js", SCRIPT, "events.js"),
    file!("/devices.js", SCRIPT, "devices.js"),
    file!("/control.js", SCRIPT, "control.js"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_makes_no_markup_of_data() {
        for file in PAGE_FILES {
            // An XML namespace: nothing is loaded from it.
            let text = file.content.replace("http://www.w3.org/2000/svg", "");
            for forbidden in page::FORBIDDEN {
                assert!(!text.contains(forbidden), "{}: `{forbidden}`", file.path);
            }
        }
    }

    #[test]
    fn every_module_that_is_imported_is_served() {
        for file in PAGE_FILES.iter().filter(|file| file.content_type == SCRIPT) {
            for import in file.content.split(" from \"").skip(1) {
                let name = import.split('"').next().unwrap().trim_start_matches('.');
                assert!(PAGE_FILES.iter().any(|own| own.path == name), "{}: {name}", file.path);
            }
        }
        let html = PAGE_FILES[0].content;
        assert_eq!(html.matches("<script").count(), 1, "one module, nothing inline");
    }
}
