//! The addresses that read, and what they answer: parts of the page as JSON.
//!
//! Names come in the query, so that no name of a study can look like another address.
//!
//! Each address, what it answers, and the names of its query:
//!
//! - `/api/server`: version, store, whether studies can be changed.
//! - `/api/studies`: all studies, also archived ones.
//! - `/api/study`: one study, with its space, names for filters and notes. `study`.
//! - `/api/trials`: a page of the table. `study`, `where`, `sort`, `reverse`, `hidden`, `offset`,
//!   `limit`.
//! - `/api/trial`: one trial, with its decisions, attempts, series and notes. `study`, `trial`.
//! - `/api/image`: an image of a trial. `study`, `trial`, `digest`.
//! - `/api/log`: the end of a log. `study`, `trial`, `attempt`; `known` and `bytes`: the attempt
//!   whose log the page has, and how much of it.
//! - `/api/curves`: curves, thinned to pixels. `study`, `trial`.., `metric`, `clock`, `by`,
//!   `columns`.
//! - `/api/figures`: figures as data. `study`.., `kind`, `param`.., `metric`, `trial`.., `log_x`,
//!   `log_y`, `clock`, `by`, `smooth`, `group`, `over`..
//! - `/api/figure.svg`: figures, drawn. As well `theme`, `width`, `height`.
//! - `/api/devices`: the devices of this machine.
//! - `/api/events`: entries of the journal, oldest first. `study`, `before`, `limit`.
//! - `/api/stream`: server-sent events (`server/watcher.rs`). `study`, `after`.
//!
//! `POST /api/control` changes a study (`server/control.rs`).

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::access::Access;
use super::http::{Head, HttpRequest};
use super::response::{Response, Status};
use super::store::Store;
use crate::app::curves::{By, Detail};
use crate::app::figures::{self, FigureError, FigureKind, FigureOptions, StudyFigure};
use crate::app::groups::GroupBy;
use crate::app::images::{self, ImageError};
use crate::app::{AppError, devices, find, page};
use crate::report::document::privacy::Privacy;
use crate::report::figure::Figure;
use crate::report::figure::svg::{self, Palette, Size};
use crate::report::journal_entry::JournalEntry;
use crate::storage::any::AnyReader;
use crate::storage::{StorageError, StorageReader as _, StudySummary};
use crate::study::condition::ExpressionError;
use crate::study::event::Seq;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::SeriesAxis;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// What the answers need besides the store.
#[derive(Debug)]
pub struct Context {
    /// The store's path.
    pub store: PathBuf,
    /// Whether studies can be changed.
    pub access: Access,
}

/// Why a request is not answered.
enum Refusal {
    App(AppError),
    /// The query is wrong.
    Query(String),
    /// A filter or an order is wrong there.
    Expression(ExpressionJson),
    /// There is no such address.
    Nothing,
}

impl<T: Into<AppError>> From<T> for Refusal {
    fn from(error: T) -> Self {
        Refusal::App(error.into())
    }
}

/// What is wrong with a filter or an order, and where.
#[derive(Serialize)]
struct ExpressionJson {
    error: String,
    remedy: Option<String>,
    /// Where it begins and ends, in characters.
    span: [usize; 2],
}

fn expression(text: &str, error: ExpressionError) -> Refusal {
    let place = |at: usize| text.get(..at).unwrap_or(text).chars().count();
    let span = [place(error.span.start), place(error.span.end)];
    Refusal::Expression(ExpressionJson { error: error.message, remedy: error.help, span })
}

type RouteResult = Result<Response, Refusal>;

/// Answers a request that reads.
pub fn answer(request: &HttpRequest, store: &mut Store, context: &Context) -> Response {
    let head = &request.head;
    let answered = match head.path.as_str() {
        "/api/server" => Ok(server(context)),
        "/api/devices" => {
            let (devices, note) = devices::found();
            json(DevicesPart { devices, note })
        }
        path => match store.look() {
            Err(error) => return store_problem(&error),
            Ok((reader, _)) => match path {
                "/api/studies" => page::studies(reader).map_err(Into::into).and_then(json),
                "/api/study" => {
                    study(head, reader).and_then(|study| json(page::study(reader, study)?))
                }
                "/api/trials" => trials(head, reader),
                "/api/trial" => trial(head, reader),
                "/api/image" => image(head, reader, &context.store),
                "/api/log" => log(head, reader, &context.store),
                "/api/curves" => curves(head, reader),
                "/api/figures" => figures(head, reader),
                "/api/figure.svg" => figure_svg(head, reader),
                "/api/events" => events(head, reader),
                _ => Err(Refusal::Nothing),
            },
        },
    };
    match answered {
        Ok(response) => response,
        Err(Refusal::App(error)) => app_problem(&error),
        Err(Refusal::Query(why)) => Response::problem(Status::BadRequest, &why, None),
        Err(Refusal::Expression(error)) => Response::json(Status::BadRequest, &error),
        Err(Refusal::Nothing) => Response::problem(
            Status::NotFound,
            "there is nothing at this address",
            Some("the page is at `/`"),
        ),
    }
}

/// An error of a use case, with its remedy.
pub fn app_problem(error: &AppError) -> Response {
    let status = match error {
        AppError::Storage(error) => return store_problem(error),
        AppError::UnknownStudy { .. } | AppError::UnknownTrial { .. } => Status::NotFound,
        AppError::NoConfiguration { .. } | AppError::UnfitNote { .. } | AppError::NoTag { .. } => {
            Status::BadRequest
        }
        AppError::Io(_) | AppError::Json(_) => Status::InternalServerError,
        _ => Status::Conflict,
    };
    let remedy = error.remedy().map(|remedy| remedy.in_words(""));
    Response::problem(status, &error.to_string(), remedy.as_deref())
}

/// An error of the store, with its remedy; most pass, and the page asks again.
pub fn store_problem(error: &StorageError) -> Response {
    let status = match error {
        StorageError::NoStudy { .. } | StorageError::NoTrial { .. } => Status::NotFound,
        StorageError::Tracked { .. }
        | StorageError::NotSearched { .. }
        | StorageError::Busy { .. } => Status::Conflict,
        _ => Status::ServiceUnavailable,
    };
    Response::problem(status, &error.to_string(), Some(&error.remedy()))
}

fn json(value: impl Serialize) -> RouteResult {
    Ok(Response::json(Status::Ok, &value))
}

/// The study that the query names.
fn study(head: &Head, reader: &AnyReader) -> Result<StudySummary, Refusal> {
    let Some(name) = head.query("study") else {
        return Err(Refusal::Query("the query lacks `study`".to_owned()));
    };
    Ok(find::by_name(reader, name)?)
}

/// A number of the query.
fn number(head: &Head, name: &str, otherwise: u64) -> Result<u64, Refusal> {
    match head.query(name) {
        None | Some("") => Ok(otherwise),
        Some(text) => {
            text.parse().map_err(|_| Refusal::Query(format!("`{name}` is not an integer")))
        }
    }
}

#[derive(Serialize)]
struct DevicesPart {
    devices: Vec<devices::DetectedDevice>,
    /// Why no GPU is listed, if that is notable.
    note: Option<String>,
}

/// Most trials of one page of the table.
const MOST_TRIALS: u64 = 10_000;

/// A switch of the query.
fn is_set(head: &Head, name: &str) -> bool {
    head.query(name).is_some_and(|value| !matches!(value, "" | "0" | "false"))
}

fn trials(head: &Head, reader: &AnyReader) -> RouteResult {
    let study = study(head, reader)?;
    let names = reader.trial_names(study.id)?;
    let filter = match head.query("where").unwrap_or_default().trim() {
        "" => Filter::all(),
        text => Filter::parse_with(text, &study.spec, &names)
            .map_err(|error| expression(text, error))?,
    };
    let filter = if is_set(head, "hidden") { filter } else { study.visible(filter) };
    let sort = head.query("sort").filter(|sort| !sort.is_empty()).unwrap_or("value");
    let (sort, turned) =
        SortKey::parse_with(sort, &study.spec, &names).map_err(|error| expression(sort, error))?;
    let query = TrialQuery {
        filter,
        sort,
        reverse: turned != is_set(head, "reverse"),
        offset: number(head, "offset", 0)?,
        limit: number(head, "limit", 100)?.min(MOST_TRIALS),
    };
    json(page::trials(reader, &study, query)?)
}

fn trial(head: &Head, reader: &AnyReader) -> RouteResult {
    let study = study(head, reader)?;
    let found = find::trial(reader, &study, TrialNumber(number(head, "trial", u64::MAX)?))?;
    json(page::trial(reader, &study, &found, &Privacy::everything())?)
}

/// An image by its digest, so that a browser may keep it. Opened on its own it is alone: nothing
/// runs in it, and it loads nothing.
fn image(head: &Head, reader: &AnyReader, store: &Path) -> RouteResult {
    let study = study(head, reader)?;
    let trial = find::trial(reader, &study, TrialNumber(number(head, "trial", u64::MAX)?))?.number;
    let digest = head.query("digest").unwrap_or_default();
    let tag = format!("\"{digest}\"");
    let image = match images::open(reader, &study, store, (trial, digest)) {
        Ok(image) => image,
        Err(error) => return Ok(image_problem(error)),
    };
    let response = match head.has_tagged(&tag) {
        true => Response::text(Status::NotModified, ""),
        false => Response::file(image.media_type, image.file, image.bytes),
    };
    Ok(response.with("Content-Security-Policy", "default-src 'none'; sandbox").lasting(tag))
}

fn image_problem(error: ImageError) -> Response {
    let status = match error {
        ImageError::Storage(error) => return store_problem(&error),
        ImageError::Unknown { .. } | ImageError::Gone { .. } | ImageError::Elsewhere { .. } => {
            Status::NotFound
        }
        ImageError::Changed { .. } => Status::Conflict,
        ImageError::Unreadable { .. } => Status::InternalServerError,
        ImageError::NotImage { .. } => Status::UnsupportedMediaType,
    };
    Response::problem(status, &error.to_string(), error.remedy().as_deref())
}

/// Bytes of a log that are read, at its end.
const MOST_LOG_BYTES: u64 = 64 << 10;

fn log(head: &Head, reader: &AnyReader, store: &Path) -> RouteResult {
    let study = study(head, reader)?;
    let found = find::trial(reader, &study, TrialNumber(number(head, "trial", u64::MAX)?))?;
    let attempt = |name| match head.query(name) {
        None | Some("") => Ok(None),
        Some(text) => {
            let read = text.parse().map(|number| Some(AttemptNumber(number)));
            read.map_err(|_| Refusal::Query(format!("`{name}` is not the number of an attempt")))
        }
    };
    let asked = attempt("attempt")?;
    if asked.is_some_and(|asked| found.last_attempt().is_none_or(|last| asked > last)) {
        return Err(Refusal::Query("the trial has no such attempt".to_owned()));
    }
    let bytes = number(head, "bytes", 0)?;
    let known = attempt("known")?.map(|known| (known, bytes));
    json(page::log(reader, &study, store, (&found, asked), (known, MOST_LOG_BYTES))?)
}

/// The axis of the series, and the meaning of the horizontal axis, that the query names.
fn axis_and_by(head: &Head) -> Result<(Option<SeriesAxis>, By), Refusal> {
    let axis = match head.query("clock") {
        None | Some("") => None,
        Some(axis) => {
            let named = SeriesAxis::ALL.into_iter().find(|own| own.as_str() == axis);
            Some(named.ok_or_else(|| Refusal::Query("`clock` is not an axis".to_owned()))?)
        }
    };
    match head.query("by") {
        None | Some("" | "step") => Ok((axis, By::Step)),
        Some("wall") => Ok((axis, By::Wall)),
        Some(_) => Err(Refusal::Query("`by` is `step` or `wall`".to_owned())),
    }
}

/// The trials that the query names by their numbers, up to a limit.
fn trials_of(head: &Head, most: usize) -> Result<Vec<TrialNumber>, Refusal> {
    let named = head.queries("trial").filter(|text| !text.is_empty()).take(most);
    let numbers = named.map(|text| text.parse().map(TrialNumber)).collect::<Result<_, _>>();
    numbers.map_err(|_| Refusal::Query("`trial` is not an integer".to_owned()))
}

/// Most columns of all curves of an answer.
const MOST_COLUMNS: u64 = 40_000;

fn curves(head: &Head, reader: &AnyReader) -> RouteResult {
    let study = study(head, reader)?;
    let trials = trials_of(head, find::MOST_TRIALS)?;
    let (axis, by) = axis_and_by(head)?;
    // However many trials there are, an answer has a size that a page can hold.
    let most = (MOST_COLUMNS / trials.len().max(1) as u64).max(20);
    let columns = number(head, "columns", 800)?.clamp(20, 4_000).min(most);
    let columns = u16::try_from(columns).unwrap_or(u16::MAX);
    let metric = head.query("metric").filter(|metric| !metric.is_empty());
    let metric = metric.unwrap_or(&study.spec.objective().metric).to_owned();
    json(page::curves(reader, &study, &trials, (&metric, axis), (by, columns))?)
}

/// Most curves that are compared: more have no colours of their own.
const MOST_COMPARED: usize = 18;

/// Most trials that are lines of a figure: the best.
const MOST_LINES: usize = 100;
/// About as many points of other figures are sent: more take long to draw, and show no more.
const MOST_POINTS: usize = 20_000;

/// The groups of trials that the query names.
fn groups_of(head: &Head) -> Option<GroupBy> {
    let over: Vec<String> =
        head.queries("over").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match head.query("group").filter(|group| !group.is_empty()) {
        Some(group) => Some(GroupBy::Name(group.to_owned())),
        None => (!over.is_empty()).then_some(GroupBy::Over(over)),
    }
}

/// The figures that the query names.
fn figures_of(head: &Head, reader: &AnyReader) -> Result<Vec<StudyFigure>, Refusal> {
    let named = head.query("kind").unwrap_or("history");
    let Some(kind) = FigureKind::ALL.into_iter().find(|kind| kind.as_str() == named) else {
        return Err(Refusal::Query("there is no such `kind` of figure".to_owned()));
    };
    let studies = head.queries("study").map(|name| find::by_name(reader, name));
    let studies = studies.collect::<Result<Vec<StudySummary>, AppError>>()?;
    if studies.is_empty() {
        return Err(Refusal::Query("the query lacks `study`".to_owned()));
    }
    let (axis, by) = axis_and_by(head)?;
    let smooth = head.query("smooth").and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let trials = trials_of(head, MOST_COMPARED)?;
    let options = FigureOptions {
        params: head.queries("param").map(str::to_owned).collect(),
        group_by: groups_of(head),
        metric: head.query("metric").filter(|metric| !metric.is_empty()).map(str::to_owned),
        axis,
        by,
        detail: Detail::Columns(if trials.is_empty() { 100 } else { 600 }),
        lines: MOST_LINES,
        smooth: if (0.0..1.0).contains(&smooth) { smooth } else { 0.0 },
        log_x: is_set(head, "log_x"),
        log_y: is_set(head, "log_y"),
        trial: trials.first().copied(),
        ..FigureOptions::default()
    };
    let mut all =
        figures::figures(reader, &studies, kind, &options).map_err(|error| match error {
            FigureError::Storage(error) => Refusal::App(error.into()),
            error => Refusal::Query(error.to_string()),
        })?;
    if let (FigureKind::Curves, [study], Some(StudyFigure { figure, .. })) =
        (kind, studies.as_slice(), all.first_mut())
    {
        if trials.len() > 1 {
            figure.series.clear();
        }
        for (index, trial) in trials.into_iter().enumerate() {
            figure.series.retain(|series| series.trial != Some(trial));
            figure.series.push(page::curve_in_front(reader, study, (index, trial), &options)?);
        }
    }
    for one in all.iter_mut().filter(|_| kind != FigureKind::Curves) {
        figures::thin(&mut one.figure, MOST_POINTS);
    }
    Ok(all)
}

#[derive(Serialize)]
struct FiguresPart {
    figures: Vec<Figure<'static>>,
}

fn figures(head: &Head, reader: &AnyReader) -> RouteResult {
    let all = figures_of(head, reader)?;
    json(FiguresPart { figures: all.into_iter().map(|one| one.figure).collect() })
}

fn figure_svg(head: &Head, reader: &AnyReader) -> RouteResult {
    let all = figures_of(head, reader)?;
    let drawn: Vec<Figure<'static>> = all.into_iter().map(|one| one.figure).collect();
    let palette = match head.query("theme") {
        Some("dark") => Palette::Dark,
        _ => Palette::Light,
    };
    let usual = svg::usual_size(drawn.len());
    let pixels = |name, usual: u32| -> Result<u32, Refusal> {
        let asked = number(head, name, u64::from(usual))?.clamp(120, 4_000);
        Ok(u32::try_from(asked).unwrap_or(usual))
    };
    let size =
        Size { width: pixels("width", usual.width)?, height: pixels("height", usual.height)? };
    let document = svg::document(&drawn, palette, Some(size));
    Ok(Response::new(Status::Ok, "image/svg+xml", document.into_bytes()))
}

#[derive(Serialize)]
struct ServerPart<'a> {
    version: &'static str,
    store: &'a str,
    is_controlled: bool,
}

fn server(context: &Context) -> Response {
    // The file's name only: where it lies says more about this machine than a page needs.
    let name = context.store.file_name().map(|name| name.to_string_lossy().into_owned());
    let part = ServerPart {
        version: env!("CARGO_PKG_VERSION"),
        store: name.as_deref().unwrap_or_default(),
        is_controlled: context.access == Access::Control,
    };
    Response::json(Status::Ok, &part)
}

/// Most entries of a journal that are read at once.
const MOST_ENTRIES: u64 = 20_000;

#[derive(Serialize)]
struct EventsPart {
    entries: Vec<JournalEntry>,
    /// Where to ask for those before; `None`: these are the first.
    before: Option<Seq>,
}

fn events(head: &Head, reader: &AnyReader) -> RouteResult {
    let study = study(head, reader)?;
    let limit = number(head, "limit", 500)?.clamp(1, MOST_ENTRIES);
    let before = number(head, "before", u64::MAX)?;
    let before = Seq(i64::try_from(before).unwrap_or(i64::MAX));
    let events = reader.events_before(study.id, before, limit)?;
    let step_unit = study.spec.step;
    let first = events.first().filter(|_| events.len() as u64 == limit).map(|(seq, ..)| *seq);
    let entries = events.iter().map(|event| JournalEntry::new(event, step_unit)).collect();
    json(EventsPart { entries, before: first })
}
