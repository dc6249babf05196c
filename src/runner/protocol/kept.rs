//! Parses texts, images, tables and artifacts in a trial's line.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::MessageToRunner;
use crate::study::artifact::{
    ARTIFACT_NAME_RULE, FileOwner, LONGEST_TEXT, NewArtifact, NewContent, checked_table, cut_text,
    is_artifact_name, is_of_line, name_of_path,
};
use crate::study::remark::{Remark, RemarkKind};

/// Removes these keys from an object, and its step if nothing else is left in it.
pub(super) fn kept(object: &mut Map<String, Value>) -> (Vec<MessageToRunner>, Vec<Remark>) {
    let has = |key: &str, is_it: fn(&Value) -> bool| object.get(key).is_some_and(is_it);
    let [artifact, image] = ["artifact", "image"].map(|key| has(key, Value::is_string));
    let [text, table] = ["text", "table"].map(|key| has(key, Value::is_object));
    if !artifact && !image && !text && !table {
        return Default::default();
    }
    let step = object.get("step").and_then(Value::as_u64);
    let (mut taken, mut remarks) = (Vec::new(), Vec::new());
    let mut take = |name: String, content: Result<NewContent, String>| {
        let content = match content {
            Ok(_) if !is_artifact_name(&name) => {
                Err(format!("`{}` is not a name of an artifact: {ARTIFACT_NAME_RULE}", cut(&name)))
            }
            content => content,
        };
        match content {
            Ok(content) => taken
                .push(MessageToRunner::Artifact { artifact: NewArtifact { name, step, content } }),
            Err(why) => remarks.push(Remark::new(RemarkKind::Artifact, why)),
        }
    };
    let named = (artifact || image || table).then(|| object.remove("name")).flatten();
    let named = named.as_ref().and_then(Value::as_str).map(str::to_owned);
    let flag = |value: Option<Value>| value.as_ref().and_then(Value::as_bool);
    let is_moved = (artifact || image) && flag(object.remove("moved")).unwrap_or(false);
    let of = is_moved.then(|| path(object.remove("of"))).flatten();
    let owner = |path: &Path| match is_moved && is_of_line(path) {
        true => FileOwner::Line { of: of.clone() },
        false => FileOwner::Program,
    };
    if let Some(path) = path(artifact.then(|| object.remove("artifact")).flatten()) {
        let copy = flag(object.remove("copy"));
        let name = named.clone().unwrap_or_else(|| name_of_path(&path));
        let owner = owner(&path);
        take(name, Ok(NewContent::Path { path, copy, owner }));
    }
    if let Some(path) = path(image.then(|| object.remove("image")).flatten()) {
        let name = named.clone().unwrap_or_else(|| name_of_path(&path));
        let owner = owner(&path);
        take(name, Ok(NewContent::Image { path, owner }));
    }
    if let Some(table) = table.then(|| object.remove("table")).flatten() {
        let name = named.unwrap_or_else(|| "table".to_owned());
        let checked = checked_table(&table).map(NewContent::Table);
        let checked = checked.map_err(|why| format!("the table `{}`: {why}", cut(&name)));
        take(name, checked);
    }
    let texts = text.then(|| object.remove("text")).flatten();
    let mut is_cut = None;
    for (name, text) in texts.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let content = text.as_str().map(|text| {
            let (kept, was_cut) = cut_text(text);
            if was_cut {
                is_cut = Some((name.clone(), text.len()));
            }
            NewContent::Text(kept.to_owned())
        });
        let why = || {
            format!("the text `{}` must be a string, not `{}`", cut(name), cut(&text.to_string()))
        };
        take(name.clone(), content.ok_or_else(why));
    }
    if let Some((name, bytes)) = is_cut {
        let most = LONGEST_TEXT >> 10;
        let why =
            format!("the text `{}` has {bytes} bytes; the first {most} KiB are kept", cut(&name));
        remarks.push(Remark::new(RemarkKind::Cut, why));
    }
    if object.keys().all(|key| key == "step") {
        object.clear();
    }
    (taken, remarks)
}

fn path(value: Option<Value>) -> Option<PathBuf> {
    value.as_ref().and_then(Value::as_str).map(PathBuf::from)
}

/// Truncates a quotation in a remark.
pub(super) fn cut(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<NewArtifact>, Vec<String>, String) {
        let mut object: Map<String, Value> = serde_json::from_str(text).unwrap();
        let (taken, remarks) = kept(&mut object);
        let artifacts = taken.into_iter().map(|message| match message {
            MessageToRunner::Artifact { artifact } => artifact,
            other => panic!("{other:?}"),
        });
        let whys = remarks.into_iter().map(|remark| remark.why).collect();
        (artifacts.collect(), whys, Value::Object(object).to_string())
    }

    #[test]
    fn what_is_kept_is_taken_out_of_a_line_and_metrics_stay() {
        let (kept, remarks, rest) = read(r#"{"step":5,"loss":0.5,"text":{"sample":"a b"}}"#);
        let content = NewContent::Text("a b".to_owned());
        assert_eq!(kept, [NewArtifact { name: "sample".to_owned(), step: Some(5), content }]);
        assert_eq!((remarks.len(), rest.as_str()), (0, r#"{"loss":0.5,"step":5}"#));
        let (kept, _, rest) = read(r#"{"artifact":"out/model.pt","copy":false,"step":2}"#);
        let owner = FileOwner::Program;
        let content = NewContent::Path { path: "out/model.pt".into(), copy: Some(false), owner };
        assert_eq!(kept, [NewArtifact { name: "model.pt".to_owned(), step: Some(2), content }]);
        assert_eq!(rest, "{}");
        let (kept, _, _) = read(r#"{"image":"p.png","name":"picture"}"#);
        let content = NewContent::Image { path: "p.png".into(), owner: FileOwner::Program };
        assert_eq!(kept, [NewArtifact { name: "picture".to_owned(), step: None, content }]);
        let (kept, _, _) = read(r#"{"table":{"columns":["a"],"rows":[[1]]},"name":"t"}"#);
        let content = NewContent::Table(r#"{"columns":["a"],"rows":[[1]]}"#.to_owned());
        assert_eq!(kept, [NewArtifact { name: "t".to_owned(), step: None, content }]);
    }

    #[test]
    fn only_what_the_client_made_is_a_lines_own() {
        for (path, of, owner) in [
            (
                ".artifact-00000000001f",
                Some("/a/b.csv"),
                FileOwner::Line { of: Some("/a/b.csv".into()) },
            ),
            ("x.files/.image-00000000001f.png", None, FileOwner::Line { of: None }),
            ("/home/me", Some("/home/me"), FileOwner::Program),
        ] {
            for key in ["artifact", "image"] {
                let mut line = serde_json::json!({ key: path, "name": "a", "moved": true });
                of.iter().for_each(|of| line["of"] = (*of).into());
                let (kept, remarks, rest) = read(&line.to_string());
                let (NewContent::Path { owner: found, .. }
                | NewContent::Image { owner: found, .. }) = &kept[0].content
                else {
                    panic!("{kept:?}")
                };
                assert_eq!((found, remarks.len(), rest.as_str()), (&owner, 0, "{}"), "{line}");
            }
        }
    }

    #[test]
    fn metrics_may_have_these_names() {
        let line = r#"{"image":3,"name":2,"step":1,"table":1,"text":0.5}"#;
        assert_eq!(read(line), (Vec::new(), Vec::new(), line.to_owned()));
    }

    #[test]
    fn what_cannot_be_kept_is_said() {
        for (line, why) in [
            (r#"{"artifact":"a","name":"../a"}"#, "`../a` is not a name of an artifact"),
            (r#"{"text":{"a":3}}"#, "the text `a` must be a string, not `3`"),
            (r#"{"table":{"columns":["a"]},"name":"t"}"#, "the table `t`: a table has `columns`"),
        ] {
            let (kept, remarks, rest) = read(line);
            assert_eq!((kept.len(), rest.as_str()), (0, "{}"), "{line}");
            assert!(remarks.len() == 1 && remarks[0].contains(why), "{remarks:?}");
        }
        let long = format!(r#"{{"text":{{"a":"{}"}}}}"#, "x".repeat(LONGEST_TEXT + 1));
        let (kept, remarks, _) = read(&long);
        let NewContent::Text(text) = &kept[0].content else { panic!("{kept:?}") };
        assert_eq!((text.len(), remarks.len()), (LONGEST_TEXT, 1));
    }
}
