//! The threads that answer requests: several that read the store, one that changes it, and one that
//! reads the files of responses.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::control;
use super::event_loop::{PartJob, PendingRequest, Replies, Reply};
use super::http::HttpRequest;
use super::response::{Response, Status};
use super::routes::{self, Context};
use super::store::{Notices, Store};
use crate::runner::threads;

/// Threads that read: as many slow answers as may be worked out at a time.
const READERS: usize = 4;
/// Requests that wait for one of them.
const WAITING: usize = 256;

/// Starts the threads that read.
///
/// # Errors
/// The system refuses it.
pub fn start_readers(
    context: &Arc<Context>,
    notices: &Notices,
    replies: &Replies,
) -> io::Result<Sender<PendingRequest>> {
    let (tx, jobs) = bounded(WAITING);
    for _ in 0..READERS {
        let (context, jobs, replies) = (Arc::clone(context), jobs.clone(), replies.clone());
        let mut store = Store::new(&context.store, notices);
        threads::spawn("reader", move || {
            serve(&jobs, &replies, |request| routes::answer(request, &mut store, &context));
        })?;
    }
    Ok(tx)
}

/// Starts the thread that writes: one request after the other, since each may wait for a runner's
/// answer, and none for a reader.
///
/// # Errors
/// The system refuses it.
pub fn start_writer(
    path: &Path,
    notices: &Notices,
    replies: &Replies,
) -> io::Result<Sender<PendingRequest>> {
    let (tx, jobs) = bounded(WAITING);
    let (replies, mut store) = (replies.clone(), Store::new(path, notices));
    threads::spawn("writer", move || {
        serve(&jobs, &replies, |request| control::answer(request, &mut store));
    })?;
    Ok(tx)
}

/// Starts the thread that reads files while they are sent.
///
/// # Errors
/// The system refuses it.
pub fn start_file_reader(replies: &Replies) -> io::Result<Sender<PartJob>> {
    // Each connection waits for one part at most.
    let (tx, jobs) = unbounded();
    let replies = replies.clone();
    threads::spawn("file reader", move || {
        for PartJob { connection, part } in jobs {
            replies.send(Reply::Part(connection, part.read().ok()));
        }
    })?;
    Ok(tx)
}

/// Answers requests until there are no more.
fn serve(
    jobs: &Receiver<PendingRequest>,
    replies: &Replies,
    mut answer: impl FnMut(&HttpRequest) -> Response,
) {
    for PendingRequest { connection, request } in jobs {
        // A defect in one answer must not leave the others without a thread.
        let answered = catch_unwind(AssertUnwindSafe(|| answer(&request)));
        let response = answered.unwrap_or_else(|_| {
            Response::problem(
                Status::InternalServerError,
                "the server failed to answer: a defect in hpsearch",
                Some("please report what `hpsearch serve` printed"),
            )
        });
        replies.send(Reply::Answer(connection, response));
    }
}
