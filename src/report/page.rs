//! What the live page and reports share: modules and style, as they are in the sources, without a
//! build step.
//!
//! The live page serves each file; a report has them in one script ([`one_script`]), so that it
//! needs no other file.

/// Elements from data.
pub const ELEMENTS: &str = include_str!("page/elements.js");
/// Numbers, times and values in words.
pub const FORMAT: &str = include_str!("page/format.js");
/// Figures that answer to the pointer.
pub const CHART: &str = include_str!("page/chart.js");
/// What draws them: uPlot 1.6.32 by Leon Sorokin, with its licence.
pub const UPLOT: &str = include_str!("page/uplot/uplot.js");
/// Its style.
pub const UPLOT_STYLE: &str = include_str!("page/uplot/uplot.css");
/// Colours, tables, states and controls.
pub const STYLE: &str = include_str!("page/shared.css");

/// Modules as one script that needs no loader, each after those that it imports.
///
/// Their names become those of one scope: they must differ between the modules.
pub fn one_script(modules: &[&str]) -> String {
    let mut script = String::from("\"use strict\";\n");
    for line in modules.iter().flat_map(|module| module.lines()) {
        if line.starts_with("import ") || line.starts_with("export {") {
            continue;
        }
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

/// What no file of a page contains: markup made of data, code made of text, and names of other
/// places.
#[cfg(test)]
pub const FORBIDDEN: &[&str] = &[
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "createContextualFragment",
    "DOMParser",
    "srcdoc",
    "eval(",
    "new Function",
    "http:",
    "https:",
    "@import",
    "url(",
    "<style>",
    " onclick=",
    " style=",
    "javascript:",
];

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::config::shown::drives_a_terminal;

    #[test]
    fn uplot_is_what_its_authors_published_and_has_its_licence() {
        let code = UPLOT.lines().find(|line| line.starts_with("var uPlot=")).unwrap();
        let digest = format!("{:x}", Sha256::digest(code.as_bytes()));
        assert_eq!(digest, "84fb29dcfe481128ac9cee70c537408d0c2d6c5d93aba7da59c654aedc70fcc5");
        let style = UPLOT_STYLE.lines().last().unwrap();
        let digest = format!("{:x}", Sha256::digest(style.as_bytes()));
        assert_eq!(digest, "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04");
        assert!(UPLOT.contains(include_str!("page/uplot/LICENSE").trim()));
    }

    #[test]
    fn the_pages_make_the_same_characters_visible_as_the_program() {
        let (_, rest) = ELEMENTS.split_once("const hidden = /[").unwrap();
        let (class, _) = rest.split_once("]/g;").unwrap();
        let code = |text: &str| u32::from_str_radix(text.strip_prefix("\\u").unwrap(), 16).unwrap();
        let mut ranges = Vec::new();
        let mut rest = class;
        while !rest.is_empty() {
            let first = code(&rest[..6]);
            let last = rest.get(6..13).and_then(|range| range.strip_prefix('-')).map(code);
            ranges.push(first..=last.unwrap_or(first));
            rest = &rest[if last.is_some() { 13 } else { 6 }..];
        }
        for char in '\0'..=char::MAX {
            let is_hidden = ranges.iter().any(|range| range.contains(&u32::from(char)));
            let expected = drives_a_terminal(char) && !"\t\n\r".contains(char);
            assert_eq!(is_hidden, expected, "{:x}", u32::from(char));
        }
    }

    #[test]
    fn modules_become_one_script() {
        let first = "// First.\nexport function one() {}\n";
        let second =
            "import { one } from \"/first.js\";\nfunction two() { one(); }\nexport { two };";
        assert_eq!(
            one_script(&[first, second]),
            "\"use strict\";\n// First.\nfunction one() {}\nfunction two() { one(); }\n"
        );
    }
}
