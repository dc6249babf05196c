//! Conditions on trials and configurations: the language of `[[constraint]]`, of `--where` and of
//! the leaderboard's filter.
//!
//! | binds | written | means |
//! |---|---|---|
//! | least | `a or b`, `a and b`, `not a`, `(a)` | in a filter, a space joins like `and` |
//! | | `a < b`, `<= == != >= >`, `a < b <= c` | numbers, and `==` and `!=` of texts |
//! | | `a + b`, `- * / % **`, `max(a, b)` | numbers; also `min abs log log2 log10 exp sqrt` |
//! | most | `0.1`, `'text'`, `true`, `width`, `"eval loss"` | names are bare or in double quotes |
//!
//! A filter also takes short forms, each one word without a space outside of quotes; they
//! become the same tree:
//!
//! - `adamw`, `"out of memory"`: trials that hold the text in a parameter, the state, the device, a
//!   tag, a note or the reason.
//! - `state:running,queued`: in one of these states; `state:finished` means complete, pruned or
//!   failed.
//! - `device:cuda`, `reason:rank`, `note:odd`, `tag:baseline`: whose device, reason or a note holds
//!   the text; that have the tag.
//! - `optim=adamw`, `layers=2,4`, `optim:ada`: whose parameter is one of these, or holds the text.
//! - `learning_rate>1e-3`, `layers!=4`: whose parameter compares so; `model.layers` may be written
//!   `layers` where that is clear.
//! - `value<=0.5`, `last_value<1`: whose value (complete trials have one), or whose last report of
//!   the study's metric, compares so.
//! - `eval_accuracy>0.8`: whose metric compares so: the study's own as the tables show it, others
//!   as last reported.
//! - `train/loss<0.3`, `max(grad_norm)<10`: whose series of this name ends there; whose smallest
//!   (`min`) or largest value compares so.
//! - `study=sms`, `name:base`, `group=ablation`: of the study; with such a run name or group.
//! - `summary.test_accuracy>0.9`: whose summary says so.
//! - `number>=100`, `step>3`, `seconds<60`, `attempts>1`, `failures>0`: with such a number, step,
//!   time spent, or count.
//! - `created>=2026-11-01`, `created<2026-11-30T18:30`: created then, in UTC; after a day means
//!   after its end.
//! - `-term`, `!term`: for which the term, or the group in parentheses, does not hold.
//!
//! In a filter, comparisons with absent values and with NaN are false; `value=nan` finds NaN
//! itself. The prefixes `params.` and `metrics.` disambiguate names, and reach metrics that the
//! study has not reported yet. A parameter or metric named `study`, `name`, `group` or `created`
//! takes precedence over the property.

mod check;
mod dates;
mod expression;
mod moment;
mod names;
mod parse;
mod property;
mod short_form;
mod sought;
mod syntax;
#[cfg(test)]
mod tests;

pub use check::{KnownNames, check, nearest_metric};
pub use expression::{Expression, Violation};
pub(crate) use names::Names;
pub use names::TrialNames;
pub use parse::LONGEST;
pub use property::{Measured, Needs, Statistic, TrialField};
pub(crate) use property::{Property, objective_value};
pub use sought::Sought;
pub use syntax::ExpressionError;
