//! What the live page and reports share: modules and style, as they are in the sources, without a
//! build step.
//!
//! The live page serves each file; a report has them in one script ([`one_script`]), so that it
//! needs no other file.

/// Elements from data.
pub const ELEMENTS: &str = include_str!("page/elements.js");
/// Numbers, times and values in words.
pub const FORMAT: &str = include_str!("page/format.js");
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
    use super::*;

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
