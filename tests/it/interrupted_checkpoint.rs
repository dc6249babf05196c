//! A runner killed while SQLite writes the store's log (WAL) back into its file: the log is then
//! the only whole copy of some pages.

use std::collections::BTreeMap;
use std::fs;

use crate::harness::{
    ONE_SLOT, STORE, Site, answered_steps, assert_code, assert_done, assert_names, study,
    wait_until,
};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The files that a killed runner leaves, without the index, which SQLite makes again.
struct Left {
    site: Site,
    file: Vec<u8>,
    log: Vec<u8>,
    /// Steps of the second trial that were answered.
    answered: i64,
    page: usize,
    /// The pages that a checkpoint writes, in its order.
    pages: BTreeMap<usize, Vec<u8>>,
}

/// Of a runner that is killed again until the log alone has some pages: it may just have written
/// all of it back.
fn left_by_a_killed_runner() -> Left {
    (0..10).find_map(|_| left_if_the_file_grows()).expect("a log by which the file grows")
}

fn left_if_the_file_grows() -> Option<Left> {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &answered_steps(40, "0.01", ""));
    let mut running = site.start_study();
    site.wait_for_lines("steps.1", 10);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    wait_until("its processes are gone", || site.processes().is_empty());
    let answered = i64::try_from(site.lines("steps.1").len()).unwrap();
    let read = |ending: &str| fs::read(site.path(&format!("{STORE}{ending}"))).unwrap();
    let (file, log) = (read(""), read("-wal"));
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let page = number(&log[8..]);
    let (mut pages, mut transaction, mut all) = (BTreeMap::new(), Vec::new(), 0);
    for frame in log[HEADER..].chunks_exact(FRAME_HEADER + page) {
        transaction.push((number(frame), frame[FRAME_HEADER..].to_vec()));
        if number(&frame[4..]) > 0 {
            all = number(&frame[4..]);
            pages.extend(transaction.drain(..));
        }
    }
    (all * page > file.len()).then_some(Left { site, file, log, answered, page, pages })
}

impl Left {
    /// Puts the files as they are when a checkpoint has written this number of pages, with so much
    /// of the log.
    fn place(&self, written: usize, log: usize) {
        let mut file = self.file.clone();
        for (number, page) in self.pages.iter().take(written) {
            let end = number * self.page;
            file.resize(file.len().max(end), 0);
            file[end - self.page..end].copy_from_slice(page);
        }
        fs::write(self.site.path(STORE), file).unwrap();
        fs::write(self.site.path(&format!("{STORE}-wal")), &self.log[..log]).unwrap();
        let _not_there = fs::remove_file(self.site.path(&format!("{STORE}-shm")));
    }

    fn assert_all_is_there(&self) {
        self.site.assert_sound();
        let sql = "SELECT count(*) FROM report WHERE trial_id % 1000000000 = ?1";
        let store = self.site.database();
        let stored = |trial| store.query_row(sql, [trial], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(stored(0), 40);
        assert!(stored(1) >= self.answered, "{} of {}", stored(1), self.answered);
    }
}

#[test]
fn wherever_a_checkpoint_was_interrupted_the_log_completes_it() {
    let left = left_by_a_killed_runner();
    for written in 0..=left.pages.len() {
        left.place(written, left.log.len());
        left.assert_all_is_there();
    }
    left.place(left.pages.len() / 2, left.log.len());
    assert_done(&left.site.run_study());
    assert_eq!(left.site.states(), ["complete", "complete"]);
    left.assert_all_is_there();
}

/// A store may also turn out to be damaged when it is written to.
#[test]
fn the_log_of_a_store_that_is_damaged_is_not_written_into_it_when_the_run_ends() {
    let site = Site::finished("trials = 1");
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'event_of_study'";
    let root = usize::try_from(site.query::<i64>(root)).unwrap();
    let mut file = fs::read(site.path(STORE)).unwrap();
    let page = usize::from(u16::from_be_bytes([file[16], file[17]]));
    file[(root - 1) * page..root * page].fill(0xA5);
    fs::write(site.path(STORE), file).unwrap();
    site.write("study.toml", site.read("study.toml").replace("trials = 1", "trials = 2"));
    let ended = site.run_study();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["is damaged", "-wal"]);
    let log = fs::metadata(site.path(&format!("{STORE}-wal"))).unwrap();
    assert!(log.len() > 0, "{}", ended.err);
}

/// A page of each table that the log does not have.
#[test]
fn a_run_that_finds_a_table_damaged_changes_neither_the_store_nor_its_log() {
    let left = left_by_a_killed_runner();
    left.place(0, left.log.len());
    let sql = "SELECT json_group_object(name, rootpage) FROM sqlite_schema
        WHERE type = 'table' AND rootpage > 1";
    let roots: BTreeMap<String, usize> =
        serde_json::from_str(&left.site.query::<String>(sql)).unwrap();
    let mut found = 0;
    for (table, root) in roots {
        let end = root * left.page;
        if left.pages.contains_key(&root) || end > left.file.len() {
            continue;
        }
        left.place(0, left.log.len());
        let mut damaged = left.file.clone();
        damaged[end - left.page..end].fill(0xA5);
        fs::write(left.site.path(STORE), &damaged).unwrap();
        let ended = left.site.run_study();
        if !ended.err.contains("is damaged") {
            continue;
        }
        assert_code(&ended, 5);
        let log = fs::read(left.site.path(&format!("{STORE}-wal")));
        let kept = log.is_ok_and(|log| log.starts_with(&left.log[..]));
        assert!(kept, "the log is gone or overwritten, with `{table}` damaged: {}", ended.err);
        assert!(fs::read(left.site.path(STORE)).unwrap() == damaged, "{table}: {}", ended.err);
        found += 1;
    }
    assert!(found > 2, "{found} damaged tables were found");
}

#[test]
fn a_store_whose_log_was_cut_as_well_is_said_to_be_damaged_and_nothing_of_it_is_changed() {
    let left = left_by_a_killed_runner();
    let site = &left.site;
    let half = left.log.len() / 2;
    for log in [0, half] {
        left.place(left.pages.len() / 2, log);
        let bytes = || ["", "-wal"].map(|end| fs::read(site.path(&format!("{STORE}{end}"))).ok());
        let before = bytes();
        for (verb, code) in [(&["run", "study.toml", "--plain"][..], 5), (&["ls"], 5)] {
            let ended = site.run(verb);
            assert_code(&ended, code);
            assert_names(&ended.err, &["is damaged", "-wal", "put back a backup", ".recover"]);
            assert!(bytes() == before, "`{verb:?}` changed the files that are left");
        }
        assert_names(&site.run(&["doctor"]).out, &["broken", "is damaged"]);
        assert!(bytes() == before, "`doctor` changed the files that are left");
    }
    // With the whole log put back, nothing is lost.
    fs::write(site.path(&format!("{STORE}-wal")), &left.log).unwrap();
    let _not_there = fs::remove_file(site.path(&format!("{STORE}-shm")));
    left.assert_all_is_there();
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
}
