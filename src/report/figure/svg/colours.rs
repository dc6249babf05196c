//! Colours that people with colour vision deficiency tell apart: Okabe and Ito (2008) for series,
//! viridis (Smith and van der Walt, 2015) for values.

use crate::report::figure::SeriesRole;

/// Which background a figure is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// Dark lines on white: print and pages.
    #[default]
    Light,
    /// Light lines on a dark background.
    Dark,
    /// Those of the page that the figure stands in, as CSS variables; light without them.
    Page,
}

/// The colours of a figure, as CSS.
#[derive(Clone, Copy, Debug)]
pub struct Colours {
    pub background: &'static str,
    pub text: &'static str,
    pub dim: &'static str,
    pub grid: &'static str,
    behind: &'static str,
    best: &'static str,
    compared: [&'static str; 6],
}

impl Palette {
    pub(super) fn colours(self) -> Colours {
        match self {
            Palette::Light => Colours {
                background: "#ffffff",
                text: "#1f2328",
                dim: "#59636e",
                grid: "#e4e7eb",
                behind: "#8c959f",
                best: "#d55e00",
                compared: ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000"],
            },
            Palette::Dark => Colours {
                background: "#0f1419",
                text: "#e6edf3",
                dim: "#9aa4af",
                grid: "#2a313a",
                behind: "#6e7781",
                best: "#ff8c42",
                compared: ["#56b4e9", "#e69f00", "#2fc39a", "#e29ac4", "#5a8fd6", "#f0e442"],
            },
            Palette::Page => Colours {
                background: "none",
                text: "var(--text, #1f2328)",
                dim: "var(--dim, #59636e)",
                grid: "var(--grid, #e4e7eb)",
                behind: "var(--behind, #8c959f)",
                best: "var(--best, #d55e00)",
                compared: [
                    "var(--series-1, #0072b2)",
                    "var(--series-2, #e69f00)",
                    "var(--series-3, #009e73)",
                    "var(--series-4, #cc79a7)",
                    "var(--series-5, #56b4e9)",
                    "var(--series-6, #000000)",
                ],
            },
        }
    }
}

impl Colours {
    /// The colour of a series.
    pub fn of(&self, role: SeriesRole) -> &'static str {
        match role {
            SeriesRole::Behind => self.behind,
            SeriesRole::Best => self.best,
            SeriesRole::Compared(index) => self.compared[index % self.compared.len()],
        }
    }

    /// The dash pattern of a series: with more series than colours, lines differ in it.
    pub fn dashes(&self, role: SeriesRole) -> Option<&'static str> {
        match role {
            SeriesRole::Compared(index) => {
                [None, Some("6 3"), Some("2 3")][index / self.compared.len() % 3]
            }
            SeriesRole::Behind | SeriesRole::Best => None,
        }
    }
}

/// viridis at equal distances.
const VIRIDIS: [[u8; 3]; 9] = [
    [68, 1, 84],
    [72, 40, 120],
    [62, 74, 137],
    [49, 104, 142],
    [38, 130, 142],
    [31, 158, 137],
    [53, 183, 121],
    [109, 205, 89],
    [253, 231, 37],
];

/// The colour of a value between 0 and 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the table and to bytes"
)]
pub fn of_value(value: f64) -> String {
    let last = VIRIDIS.len() - 1;
    let at = value.clamp(0.0, 1.0) * f64::from(u8::try_from(last).unwrap_or(u8::MAX));
    let low = (at.floor() as usize).min(last - 1);
    let part = at - at.floor().min(f64::from(u8::try_from(last - 1).unwrap_or(u8::MAX)));
    let mix = |channel: usize| {
        let (from, to) = (f64::from(VIRIDIS[low][channel]), f64::from(VIRIDIS[low + 1][channel]));
        (from + (to - from) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_coloured_between_the_ends_of_the_scale() {
        assert_eq!(of_value(0.0), "#440154");
        assert_eq!(of_value(1.0), "#fde725");
        assert_eq!(of_value(-7.0), of_value(0.0));
        assert_eq!(of_value(0.5), "#26828e");
        assert_eq!(of_value(f64::NAN).len(), 7);
    }
}
