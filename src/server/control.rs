//! Writes: a request to a study in JSON, and what came of it.
//!
//! A request of which something is lost is answered with a question first, in the words of the
//! screens; the page asks it, and sends the request again with `"confirmed": true`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::http::HttpRequest;
use super::response::{Response, Status};
use super::routes::{app_problem, store_problem};
use super::store::Store;
use crate::app::control::{Carried, carry_out, check_trial};
use crate::app::enqueue::{Repeat, typed};
use crate::app::find;
use crate::report::requests::question;
use crate::storage::any::AnyStore;
use crate::storage::{StorageReader as _, StudySummary};
use crate::study::params::{Params, Value};
use crate::study::request::Request;

/// The body of a write.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    study: String,
    /// A request as the store has it, such as `{"type":"kill","trial":3}`.
    request: Map<String, Json>,
    /// Whether its question was answered with yes.
    #[serde(default)]
    confirmed: bool,
    /// Whether a configuration may be run that was tried already.
    #[serde(default)]
    again: bool,
}

/// The answer to the page.
#[derive(Debug, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
enum ControlAnswer<'a> {
    /// It is done.
    Done { text: &'a str },
    /// The runner will do it.
    Asked { text: &'a str },
    /// A question comes first.
    Question { asks: &'a str, then: &'a str },
}

/// Said of a request that the runner has.
const ASKED: &str = "requested: the study's runner serves it as soon as it can";

/// Carries a write out.
pub fn answer(request: &HttpRequest, store: &mut Store) -> Response {
    if request.head.path != "/api/control" {
        return Response::problem(Status::NotFound, "nothing can be changed at this address", None);
    }
    let asked: Asked = match serde_json::from_slice(&request.body) {
        Ok(asked) => asked,
        Err(error) => return unreadable(&error.to_string()),
    };
    // Opened for reading first: it must exist, and a migration is told.
    let path = store.path().to_owned();
    let opened = store.look().map(|(reader, _)| reader.names().map(drop));
    let opened = opened.and_then(|names| names.and_then(|()| AnyStore::open_existing(&path)));
    let mut writer = match opened {
        Ok(writer) => writer,
        Err(error) => return store_problem(&error),
    };
    let summary = match find::by_name(&writer, &asked.study) {
        Ok(summary) => summary,
        Err(error) => return app_problem(&error),
    };
    let request = match request_of(asked.request, &summary) {
        Ok(request) => request,
        Err(why) => return unreadable(&why),
    };
    if let Err(error) = check_trial(&writer, &summary, &request) {
        return app_problem(&error);
    }
    if !asked.confirmed
        && let Some(question) = question(&request, summary.counts.failed)
    {
        let answer = ControlAnswer::Question { asks: &question.asks, then: question.then };
        return Response::json(Status::Conflict, &answer);
    }
    let repeat = if asked.again { Repeat::Wanted } else { Repeat::Refused };
    match carry_out(&mut writer, &path, &summary, request, repeat) {
        Ok(Carried::Done(text)) => Response::json(Status::Ok, &ControlAnswer::Done { text: &text }),
        Ok(Carried::Asked) => Response::json(Status::Ok, &ControlAnswer::Asked { text: ASKED }),
        Ok(Carried::Refused(why)) => Response::problem(Status::Conflict, &why, None),
        Err(error) => app_problem(&error),
    }
}

fn unreadable(why: &str) -> Response {
    Response::problem(Status::BadRequest, &format!("the request cannot be read: {why}"), None)
}

/// The request; parameters may be texts as they were typed.
fn request_of(mut request: Map<String, Json>, study: &StudySummary) -> Result<Request, String> {
    if request.get("type").and_then(Json::as_str) == Some("enqueue") {
        let Some(Json::Object(given)) = request.remove("params") else {
            return Err("`params` is not an object of parameters".to_owned());
        };
        return Ok(Request::Enqueue { params: params(&given, study)? });
    }
    serde_json::from_value(Json::Object(request)).map_err(|error| error.to_string())
}

fn params(given: &Map<String, Json>, study: &StudySummary) -> Result<Params, String> {
    let mut params = Params::new();
    for (name, json) in given {
        let dimension = study.spec.space.dimension(name);
        let value = Value::from_json(json).ok_or_else(|| format!("`{name}` has no such value"))?;
        let fits = |value: &Value| {
            dimension.is_none_or(|dimension| dimension.distribution.normalize(value).is_some())
        };
        let value = match (dimension, &value) {
            (Some(dimension), Value::Text(text)) if !fits(&value) => {
                typed(&dimension.distribution, text).map_err(|why| format!("`{name}` {why}"))?
            }
            _ => value,
        };
        params.insert(name.as_str(), value);
    }
    Ok(params)
}
