//! Study files and shell scripts as trials: what most tests of commands begin with.

/// The study `s` of a script with one parameter `x`: `budget` are lines of that table, `rest`
/// further tables.
pub fn study(budget: &str, rest: &str) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         seed = 7\n\
         [space]\nx = {{ float = [0.0, 1.0] }}\n\
         [sampler]\ntype = \"random\"\n[command]\nrun = [\"sh\", \"trial.sh\", \"{{x}}\"]\n\
         [budget]\n{budget}\n{rest}\n"
    )
}

pub const ONE_SLOT: &str = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"none\"\n";
pub const TWO_SLOTS: &str = "[devices]\nuse = [\"sim:0..1\"]\n[pruner]\ntype = \"none\"\n";
pub const KEEP_ALL: &str = "[checkpoints]\nkeep = \"all\"\n";

/// Reports `x` once.
pub const REPORT_X: &str = "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";

/// Steps with a checkpoint each, up to 6 or to where it is to go; leaves when it hears `pause`.
pub const RESUMABLE: &str = r#"
step=0; [ -z "$HPSEARCH_RESUME" ] || step=$(cat "$HPSEARCH_RESUME")
last=${HPSEARCH_UNTIL:-6}
while [ $step -lt $last ]; do
  step=$((step + 1)); echo "$HPSEARCH_TRIAL $step" >> steps; sleep 0.1
  echo $step > "$HPSEARCH_CHECKPOINT_DIR/$step"
  echo "@hpsearch {\"checkpoint\":\"$HPSEARCH_CHECKPOINT_DIR/$step\",\"step\":$step}"
  echo "@hpsearch {\"step\":$step,\"loss\":$1}"
  read -r answer || exit 8
  case "$answer" in *'"stop"'* | *'"pause"'*) exit 0 ;; esac
done
"#;

/// Tells in the file `started` that it runs, does so until the file `go` is there, and then what
/// `script` says.
pub fn held(script: &str) -> String {
    format!("echo >> started\nwhile [ ! -e go ]; do sleep 0.02; done\n{script}")
}

/// Announces a checkpoint of step 1.
pub fn announces(path: &str) -> String {
    format!("echo \"@hpsearch {{\\\"checkpoint\\\":\\\"{path}\\\",\\\"step\\\":1}}\"\n")
}

/// Says these words to hpsearch, one line each.
pub fn says(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("echo '@hpsearch {line}'\n")).collect()
}

/// Reports at the steps from the checkpoint's on until `last`, `rest` seconds apart; a step is in
/// the file `steps.N` once its report was answered. `save` is said before each report.
pub fn answered_steps(last: u64, rest: &str, save: &str) -> String {
    format!(
        "step=0; [ -z \"$HPSEARCH_RESUME\" ] || step=$(cat \"$HPSEARCH_RESUME\")\n\
         while [ $step -lt {last} ]; do\n  step=$((step + 1)); sleep {rest}\n{save}\
         echo \"@hpsearch {{\\\"step\\\":$step,\\\"loss\\\":$1}}\"\n  \
         read -r answer || exit 8\n  echo $step >> steps.$HPSEARCH_TRIAL\ndone\n"
    )
}
