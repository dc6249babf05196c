//! The columns of `hpsearch trials` that the user names, or sorts and filters by.

use serde_json::json;

use crate::harness::{ONE_SLOT, Site, assert_done, assert_names, assert_refused, study};

/// Two runs with a metric besides the study's, and one with a summary.
fn runs() -> Site {
    let site = Site::empty();
    site.write(
        "train.sh",
        "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1,\\\"acc\\\":$2}\"\n\
         echo '@hpsearch {\"summary\":{\"test\":0.75}}'\n",
    );
    for (name, lr, loss, acc) in [("a", "lr=0.1", "0.3", "0.5"), ("b", "lr=0.01", "0.4", "0.9")] {
        let options = ["track", "--name", name, "--param", lr, "--param", "seed=7"];
        let command = ["--", "sh", "train.sh", loss, acc];
        assert_done(&site.run(&[&options[..], &command].concat()));
    }
    site
}

/// The words of a table, line by line.
fn cells(site: &Site, words: &[&str]) -> Vec<Vec<String>> {
    let listed = site.run(words);
    assert_done(&listed);
    let line = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    listed.out.lines().map(line).collect()
}

#[test]
fn the_metric_of_an_order_or_a_filter_is_a_column() {
    let site = runs();
    assert!(!cells(&site, &["trials", "runs"])[0].contains(&"acc".to_owned()));
    for words in [["--sort", "-acc"], ["--where", "acc>0.4"], ["--where", "max(acc) > 0.4"]] {
        let table = cells(&site, &[&["trials", "runs"], &words[..]].concat());
        let place = table[0].iter().position(|title| title == "acc").unwrap();
        let values: Vec<&str> = table[1..].iter().map(|row| row[place].as_str()).collect();
        let expected = if words[0] == "--sort" { ["0.9", "0.5"] } else { ["0.5", "0.9"] };
        assert_eq!(values, expected, "{words:?}");
    }
}

#[test]
fn named_columns_are_shown_alone_and_in_their_order() {
    let site = runs();
    let named = ["trials", "runs", "--columns", "acc,number,lr,summary.test,params.seed,loss"];
    assert_eq!(
        cells(&site, &named),
        [
            ["acc", "number", "lr", "summary.test", "params.seed", "loss"],
            ["0.5", "0", "0.1", "0.75", "7", "0.3"],
            ["0.9", "1", "0.01", "0.75", "7", "0.4"],
        ]
    );
    let several = ["trials", "--all", "--columns", "study,acc"];
    assert_eq!(cells(&site, &several), [["study", "acc"], ["runs", "0.5"], ["runs", "0.9"]]);
    let refused = site.run(&["trials", "runs", "--columns", "trial,accc"]);
    assert_refused(&refused, &["`accc` is not a column", "did you mean `acc`?"]);
}

#[test]
fn a_metric_that_trials_of_a_search_only_logged_is_a_column() {
    let logs = "echo \"@hpsearch {\\\"step\\\":1,\\\"speed\\\":4}\"\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&study("trials = 2", ONE_SLOT), logs);
    assert_done(&site.run_study());
    let table = cells(&site, &["trials", "s", "--columns", "trial,speed", "--sort", "number"]);
    assert_eq!(table, [["trial", "speed"], ["0", "4"], ["1", "4"]]);
    assert_names(&site.run(&["trials", "s", "--where", "speed>3"]).out, &["speed"]);
}

#[test]
fn json_has_the_last_metrics_and_the_summary_of_each_trial() {
    let site = runs();
    let listed = site.json(&["trials", "runs", "--sort", "number", "--json"]);
    let run = &listed["trials"][1];
    assert_eq!(run["metrics"], json!({ "acc": 0.9, "loss": 0.4 }));
    assert_eq!(run["summary"], json!({ "test": 0.75 }));
    let all = site.json(&["trials", "--all", "--sort", "number", "--json"]);
    assert_eq!(all["trials"][1]["metrics"]["acc"], 0.9);
}
