//! The labels and scales of axes that the options ask for.

use super::FigureOptions;
use crate::report::figure::Figure;
use crate::report::wording::one_line;
use crate::study::space::Scale;

impl Figure<'static> {
    /// With the axes that the options ask for.
    pub(super) fn scaled(mut self, options: &FigureOptions) -> Self {
        for (axis, is_log) in [(&mut self.x, options.log_x), (&mut self.y, options.log_y)] {
            if is_log && axis.names.is_empty() {
                axis.scale = Scale::Log;
                axis.ends = None;
            }
        }
        self
    }

    /// The same for the vertical axis alone: the horizontal one is the parameter's.
    pub(super) fn scaled_up(self, options: &FigureOptions) -> Self {
        let x = self.x.clone();
        Figure { x, ..self.scaled(options) }
    }

    /// With these labels of its axes.
    pub(super) fn on(mut self, x: &str, y: &str, options: &FigureOptions) -> Self {
        self.x.label = x.to_owned();
        self.y.label = one_line(y);
        if options.smooth > 0.0 {
            self.title = format!("{} (smoothed by {})", self.title, options.smooth);
        }
        self.scaled(options)
    }
}
