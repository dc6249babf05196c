//! Words for files that are left when a study or a trial is removed.

use super::Console;
use super::console::shown;
use crate::app::left_files::{Left, LeftFile};
use crate::report::wording::{bytes, one_line};
use crate::runner::own_files::Kept;
use crate::study::counted::count;

/// Most files that hpsearch did not write whose names are printed.
const MOST_NAMED: usize = 10;

/// Why something in a directory of this store is left.
pub fn why_kept(why: &Kept) -> String {
    match why {
        Kept::NotWritten => {
            "hpsearch did not write it: remove it yourself if nothing needs it".to_owned()
        }
        Kept::HoldsStore(store) => format!(
            "the store `{}` is there, or a file that may be one: move that elsewhere, and remove \
             the rest yourself",
            one_line(&shown(store))
        ),
        Kept::HoldsMark(directory) => format!(
            "`{}` has the marker of a store: if that store does not need it, remove it yourself",
            one_line(&shown(directory))
        ),
        Kept::Unreadable(error) => {
            format!("it cannot be read ({error}): make it readable, then remove it yourself")
        }
        Kept::Link => "a symbolic link leads there, and nothing behind one is removed: remove it \
                       yourself"
            .to_owned(),
    }
}

/// Prints what is left and why.
pub fn print_left<'a>(left: impl IntoIterator<Item = &'a LeftFile>, console: &Console) {
    let mut not_written = 0;
    for file in left {
        if file.why == Left::Kept(Kept::NotWritten) {
            not_written += 1;
            if not_written > MOST_NAMED {
                continue;
            }
        }
        console.say(&in_words(file));
    }
    if let Some(more) = not_written.checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        let files = count(more as u64, "more file");
        console.say(&format!("{files} that hpsearch did not write are kept"));
    }
}

fn in_words(LeftFile { path, why }: &LeftFile) -> String {
    let path = one_line(&shown(path));
    let if_you_know = "if you know that nothing needs it, remove it yourself";
    match why {
        Left::NotThere => format!(
            "its files were in `{path}`, which does not exist, so none are removed: if they were \
             moved elsewhere, remove them yourself"
        ),
        Left::Unmarked => format!("`{path}` has no marker of a store, and is kept: {if_you_know}"),
        Left::Unreadable => {
            format!("`{path}` has a marker that cannot be read, and is kept: {if_you_know}")
        }
        Left::Refused(error) => format!(
            "`{path}` is kept: its marker cannot be read now ({error}); `hpsearch gc` checks \
             again, once that is settled"
        ),
        Left::OtherStore(store) => format!(
            "`{path}` has the marker of the store `{}`, and is kept for that one: {if_you_know}",
            one_line(&shown(store))
        ),
        Left::NotMoved(store) => format!(
            "`{path}` is kept: its marker names the store `{}`, which no longer exists there; this \
             store may be a copy of that one; {if_you_know}",
            one_line(&shown(store))
        ),
        Left::NeededBy(study) => format!(
            "`{path}` has a checkpoint that the study `{}` needs, and is kept: `hpsearch gc` \
             checks again, once that study is removed",
            one_line(study)
        ),
        Left::Copied => format!(
            "`{path}` is kept: a copy of the store lies beside it and may need it; `hpsearch gc` \
             checks again, once the copy is elsewhere"
        ),
        Left::MayBeStore(file) => format!(
            "`{path}` is kept: `{}` beside the store may be one, cannot be read, and may need it; \
             `hpsearch gc` checks again, once that file is elsewhere",
            one_line(&shown(file))
        ),
        Left::NotRemoved(error, left) => format!(
            "`{path}` ({}) is kept: the system refuses its removal ({error}); `hpsearch gc` tries \
             again, once that is settled",
            bytes(*left)
        ),
        Left::Changed => format!(
            "`{path}` is kept: a process writes there, or it changed meanwhile; `hpsearch gc` \
             checks again"
        ),
        Left::NeededByCopy(store) => format!(
            "`{path}` is kept: a copy of the study in `{}` has checkpoints there, or may have; \
             `hpsearch gc` checks again",
            one_line(&shown(store))
        ),
        Left::Kept(why) => format!("`{path}` is kept: {}", why_kept(why)),
    }
}
