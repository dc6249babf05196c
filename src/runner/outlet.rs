//! Writes each reporter's stream on its own thread, so that a stalled reader blocks nothing.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::threads;
use crate::report::{LeftOut, Reporter};
use crate::study::event::Seq;

/// Buffer limit; above it, lines are dropped and counted.
const WAITING: usize = 4 << 20;

/// Time for a reader to read the rest at the end of a run.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// A reporter and its stream.
pub(super) struct Outlet {
    reporter: Box<dyn Reporter>,
    words: Sender<Vec<u8>>,
    /// Closed once everything is written, or the stream is closed.
    over: Receiver<()>,
    waiting: Arc<AtomicUsize>,
    /// The last event that was reported.
    last_reported: Option<Seq>,
    left_out: LeftOut,
}

impl Outlet {
    /// Starts the thread that writes to `out`.
    pub fn new(reporter: Box<dyn Reporter>, mut out: Box<dyn Write + Send>) -> io::Result<Self> {
        let (words, heard) = unbounded::<Vec<u8>>();
        let (ends_with_the_thread, over) = bounded::<()>(0);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        threads::spawn("reporter", move || {
            let _until_here = ends_with_the_thread;
            for words in heard {
                // The reader closed the stream (`| head`).
                if out.write_all(&words).and_then(|()| out.flush()).is_err() {
                    return;
                }
                left.fetch_sub(words.len(), Ordering::Relaxed);
            }
        })?;
        Ok(Outlet {
            reporter,
            words,
            over,
            waiting,
            last_reported: None,
            left_out: LeftOut::default(),
        })
    }

    /// Reports something, of the event at that position if it is one; returns whether the stream is
    /// open.
    pub fn tell(
        &mut self,
        seq: Option<Seq>,
        say: impl FnOnce(&mut dyn Reporter, &mut Vec<u8>) -> io::Result<()>,
    ) -> bool {
        let mut words = Vec::new();
        if say(self.reporter.as_mut(), &mut words).is_err() {
            return false;
        }
        if words.is_empty() {
            return true;
        }
        let has_room = self.waiting.load(Ordering::Relaxed) < WAITING;
        if !has_room {
            if self.left_out.lines == 0 {
                self.left_out.after = self
                    .last_reported
                    .or_else(|| seq.map(|seq| Seq(seq.0 - 1)))
                    .unwrap_or_default();
            }
            self.left_out.events += u64::from(seq.is_some());
            self.left_out.lines += words.iter().filter(|byte| **byte == b'\n').count() as u64;
            return true;
        }
        self.last_reported = seq.or(self.last_reported);
        self.send(words)
    }

    /// Sends text, preceded by a note of dropped lines.
    fn send(&mut self, words: Vec<u8>) -> bool {
        let mut all = Vec::new();
        let left_out = std::mem::take(&mut self.left_out);
        if left_out.lines > 0 && self.reporter.left_out(&mut all, &left_out).is_err() {
            return false;
        }
        all.extend(words);
        self.waiting.fetch_add(all.len(), Ordering::Relaxed);
        self.words.send(all).is_ok()
    }

    /// Writes the last text, which is never dropped, and waits for a slow reader, but not for a
    /// stalled one.
    pub fn end(
        mut self,
        until: Instant,
        say: impl FnOnce(&mut dyn Reporter, &mut Vec<u8>) -> io::Result<()>,
    ) {
        let mut words = Vec::new();
        if say(self.reporter.as_mut(), &mut words).is_ok() {
            self.send(words);
        }
        drop(self.words);
        let _read_or_not = self.over.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::report::reporter;

    /// A reader that reads when allowed.
    struct Slow(mpsc::Receiver<()>, Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _let_go = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a late reader finds after `events` lines of 1,000 bytes were written.
    fn read_late(name: &str, events: i64) -> Vec<String> {
        let (go, waits) = mpsc::channel();
        let read = Arc::default();
        let mut outlet =
            Outlet::new(reporter(name).unwrap(), Box::new(Slow(waits, Arc::clone(&read)))).unwrap();
        for seq in 1..=events {
            assert!(outlet.tell(Some(Seq(seq)), |_, out| writeln!(out, "{seq:0999}")));
        }
        drop(go);
        while outlet.waiting.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert!(outlet.tell(Some(Seq(events + 1)), |_, out| writeln!(out, "next")));
        // The thread that writes may have to wait for its turn.
        let until = Instant::now() + Duration::from_secs(60);
        outlet.end(until, |_, out| writeln!(out, "last"));
        let read = read.lock().unwrap().clone();
        String::from_utf8(read).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_that_nobody_reads_are_left_out_and_counted_where_they_are_missing() {
        let plain = |_, left_out| {
            format!(
                "... {left_out} lines dropped, since nothing read them in time: `hpsearch events` \
                 has all"
            )
        };
        let events = |after, left_out| {
            format!("{{\"event\":\"skipped\",\"after\":{after},\"count\":{left_out}}}")
        };
        let cases: [(_, &dyn Fn(usize, usize) -> String); 2] =
            [("plain", &plain), ("events", &events)];
        for (name, words) in cases {
            let lines = read_late(name, 10_000);
            let told = lines.len() - 3;
            assert_eq!(lines[told - 1].parse(), Ok(told), "the first ones are whole and in order");
            assert_eq!(lines[told], words(told, 10_000 - told), "{name}");
            assert_eq!(lines[told + 1..], ["next", "last"], "{name}");
        }
    }

    #[test]
    fn a_reader_that_never_reads_is_not_waited_for() {
        let (_never, waits) = mpsc::channel();
        let mut outlet =
            Outlet::new(reporter("plain").unwrap(), Box::new(Slow(waits, Arc::default()))).unwrap();
        assert!(outlet.tell(None, |_, out| writeln!(out, "first")));
        let (began, patience) = (Instant::now(), Duration::from_millis(50));
        outlet.end(began + patience, |_, out| writeln!(out, "last"));
        assert!(began.elapsed() >= patience);
    }
}
