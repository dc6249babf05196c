//! Relocation: rewrites the paths of a stored specification after a project was renamed or moved.

use std::path::{Component, Path, PathBuf};

use serde_json::Value as Json;

use crate::study::program::Program;
use crate::study::spec::StudySpec;

/// A renamed, moved or copied directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its old name.
    pub from: PathBuf,
    /// Its new name.
    pub to: PathBuf,
}

/// The stored specification `old` with relocated paths, if `new` shows that the project was moved:
/// paths of both differ in a common prefix only, and `is_moved` confirms that the directory is the
/// same one.
pub fn moved(
    old: &StudySpec,
    new: &StudySpec,
    is_moved: &dyn Fn(&Moved) -> bool,
) -> Option<(Moved, StudySpec)> {
    let moved = paths(old)
        .into_iter()
        .zip(paths(new))
        .filter_map(|(old, new)| difference(&old?, &new?))
        .find(is_moved)?;
    let mut json = serde_json::to_value(old).ok()?;
    for part in ["program", "checkpoints", "export"] {
        if let Some(part) = json.get_mut(part) {
            rewrite(part, &moved);
        }
    }
    Some((moved, serde_json::from_value(json).ok()?))
}

/// The paths of a specification, in a fixed order.
fn paths(spec: &StudySpec) -> Vec<Option<PathBuf>> {
    let mut paths = vec![spec.checkpoints.dir.clone(), spec.export.dir.clone()];
    match &spec.program {
        Program::Command { cwd, .. } => paths.push(Some(cwd.clone())),
        Program::Trainer { arguments, data } => {
            let text = |value: Option<&Json>| {
                value.and_then(Json::as_str).map(PathBuf::from).filter(|path| path.is_absolute())
            };
            paths.extend(["train", "validation", "test"].map(|key| text(data.get(key))));
            paths.push(text(arguments.get("model")));
        }
        Program::Inline => {}
    }
    paths
}

/// Two paths without their common suffix.
fn difference(old: &Path, new: &Path) -> Option<Moved> {
    let (old, new): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (old.components().collect(), new.components().collect());
    let common = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let first = |parts: &[Component<'_>]| parts[..parts.len() - common].iter().collect::<PathBuf>();
    let moved = Moved { from: first(&old), to: first(&new) };
    (old != new && moved.from.components().count() > 1).then_some(moved)
}

fn rewrite(json: &mut Json, moved: &Moved) {
    match json {
        Json::String(text) => {
            if let Ok(rest) = Path::new(text.as_str()).strip_prefix(&moved.from)
                && let Some(now) = moved.to.join(rest).to_str()
            {
                // Joined with an empty path, it ends with a slash.
                *text = now.trim_end_matches('/').to_owned();
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rewrite(item, moved)),
        Json::Object(members) => members.values_mut().for_each(|member| rewrite(member, moved)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::space::Space;

    fn spec(directory: &str) -> StudySpec {
        let program = Program::Command {
            run: vec!["./train".to_owned(), "--keep".to_owned()],
            cwd: format!("{directory}/code").into(),
            env: Default::default(),
            args: Default::default(),
            metrics: Default::default(),
        };
        let mut spec = StudySpec::new("s", "loss", Direction::Minimize, Space::default(), program);
        spec.checkpoints.dir = Some(format!("{directory}/big").into());
        spec
    }

    #[test]
    fn a_project_that_was_renamed_has_the_paths_of_its_new_place() {
        let (old, new) = (spec("/home/me/project"), spec("/home/me/renamed"));
        let (found, rebased) =
            moved(&old, &new, &|moved| moved.to.starts_with("/home/me/renamed")).unwrap();
        assert_eq!(
            (found.from.to_str(), found.to.to_str()),
            (Some("/home/me/project"), Some("/home/me/renamed"))
        );
        assert_eq!(rebased, new);
    }

    #[test]
    fn what_is_still_there_was_not_moved() {
        let (old, new) = (spec("/home/me/project"), spec("/home/me/copy"));
        assert_eq!(moved(&old, &new, &|_| false), None);
        assert_eq!(moved(&old, &old.clone(), &|_| true), None);
    }
}
