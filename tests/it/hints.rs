//! What refused commands about tracked runs and their files suggest.

use crate::harness::{Site, assert_done, assert_names, assert_refused};

/// A study `sh` of three tracked runs.
fn site() -> Site {
    let site = Site::empty();
    site.write("runs.csv", "lr,seed,loss\n1e-300,1,0.1\n0.2,2,0.2\n0.3,3,0.3\n");
    assert_done(&site.run(&["import", "runs.csv", "--study", "sh", "--metric", "loss"]));
    site
}

#[test]
fn a_tag_without_a_sign_and_a_text_without_its_option_are_explained_for_runs_too() {
    let site = site();
    assert_refused(&site.run(&["tag", "sh", "0", "keep"]), &["no run `keep`", "`+keep` adds it"]);
    assert_refused(&site.run(&["note", "sh", "0", "looks good"]), &["comes after -m"]);
}

#[test]
fn a_moved_run_is_said_to_be_moved_and_a_removed_one_to_be_removed() {
    let site = site();
    assert_done(&site.run(&["mv", "sh", "1", "--to", "new", "--yes"]));
    assert_done(&site.run(&["rm", "sh", "2", "--yes"]));
    assert_refused(&site.run(&["show", "sh", "1"]), &["it was moved to `new`", "`new/0`"]);
    assert_refused(&site.run(&["show", "sh", "2"]), &["it was removed"]);
}

#[test]
fn verbs_of_searches_say_how_runs_are_added_and_continued() {
    let site = site();
    let verbs: [&[&str]; 4] = [
        &["extend", "sh", "--trials", "+5"],
        &["retry", "sh", "0"],
        &["enqueue", "sh", "lr=0.5"],
        &["resume", "sh", "0"],
    ];
    for words in verbs {
        let refused = site.run(words);
        assert_refused(&refused, &["holds tracked runs", "--resume RUN"]);
        assert!(!refused.err.contains("study file"), "{words:?}: {}", refused.err);
    }
}

#[test]
fn an_unknown_parameter_of_groups_is_answered_with_each_name_once() {
    let refused = site().run(&["curves", "sh", "--over", "seeed"]);
    assert_refused(&refused, &["did you mean `seed`?"]);
    assert_eq!(refused.err.matches("`seed`").count(), 2, "{}", refused.err);
}

#[test]
fn a_report_is_not_written_under_the_name_of_another_format() {
    let site = site();
    assert_refused(&site.run(&["report", "sh", "-o", "rep.pdf"]), &["`.pdf`", ".html", ".md"]);
    assert!(!site.exists("rep.pdf"));
}

#[test]
fn tiny_parameters_are_printed_in_their_shortest_form() {
    assert_names(&site().run(&["best", "sh"]).out, &["lr = 1e-300\n"]);
}
