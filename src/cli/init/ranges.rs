//! Recognises hyperparameters among a program's options, and proposes ranges around their values.

/// Parts of names of options that are not hyperparameters.
const NOT_SEARCHED: &str = "\
    epoch epochs steps iter iters iteration iterations seed worker workers thread threads proc \
    procs jobs device devices gpu gpus cuda cpu cpus port host rank world node nodes master \
    backend log logs logging eval evaluation save saving print verbose verbosity debug profile \
    path paths dir directory folder file files filename root url out output input data dataset \
    datasets ckpt checkpoint checkpoints resume config name names tag tags project run runs id \
    version interval freq frequency every cache download prefetch timeout patience budget trials \
    fold folds split splits test val validation classes vocab mode task";
/// Suffixes of names written as one word: `numworkers`, `outdir`.
const ENDS: [&str; 8] = ["epochs", "epoch", "workers", "threads", "seed", "dir", "path", "file"];

/// The words of an option's name.
fn parts(name: &str) -> Vec<String> {
    name.to_ascii_lowercase()
        .split(['-', '_', '.'])
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether an option is a hyperparameter: not paths, seeds, run lengths or machine settings.
pub fn is_hyperparameter(option: &str) -> bool {
    let mut parts = parts(option);
    // `per_device_train_batch_size` is a size of batches.
    if parts.len() > 2 && parts[0] == "per" && ["device", "gpu"].contains(&parts[1].as_str()) {
        parts.drain(..2);
    }
    let is = |words: &str| parts.iter().any(|part| words.split(' ').any(|word| part == word));
    if is("class") && is("n num") {
        return false;
    }
    // The length of warm-up is one, although it is counted in steps.
    is("warmup")
        || !(is(NOT_SEARCHED)
            || parts.last().is_some_and(|last| ENDS.iter().any(|end| last.ends_with(end))))
}

/// The meaning of a number, judged by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Between 0 and 1, and small: dropout, label smoothing.
    Share,
    /// The part of rows or columns that a tree sees: above 0, and 1 for all.
    Portion,
    /// Between 0 and 1, mostly near 1: momentum, a discount.
    NearOne,
    LearningRate,
    /// Weight decay and other penalties, which may be off.
    Penalty,
    /// Powers of two, mostly: a batch, a width.
    Size,
    /// Of numbers: quantisation, hashes.
    Bits,
    Unknown,
}

fn meaning(name: &str) -> Meaning {
    let bare = |part: String| part.trim_end_matches(|char: char| char.is_ascii_digit()).to_owned();
    let parts: Vec<String> = parts(name).into_iter().map(bare).collect();
    let is = |words: &str| parts.iter().any(|part| words.split(' ').any(|word| part == word));
    let has = |part: &str| name.to_ascii_lowercase().contains(part);
    let is_portion =
        is("subsample colsample") || is("bagging feature features") && is("fraction max");
    if is_portion {
        Meaning::Portion
    } else if has("dropout") || is("drop smoothing prob probability p ratio frac fraction") {
        Meaning::Share
    } else if is("lr") || (is("learning") && is("rate")) {
        Meaning::LearningRate
    } else if is("beta betas gamma discount ema rho") || has("momentum") {
        Meaning::NearOne
    } else if is("wd decay l reg regularization penalty") {
        Meaning::Penalty
    } else if is("batch hidden dim size unit units width channels bs") {
        Meaning::Size
    } else if is("bit bits nbits wbits bitwidth") {
        Meaning::Bits
    } else if is("rate") {
        Meaning::Share
    } else {
        Meaning::Unknown
    }
}

/// A range around the present value of `option`, in the study file's form; `None` if it is not a
/// number. `kind`: `int` or `float`, where the program declares it.
pub fn around(option: &str, value: &str, kind: Option<&str>) -> Option<String> {
    let meaning = meaning(option);
    if let (Ok(int), false) = (value.parse::<i64>(), kind == Some("float")) {
        return match int {
            1..=64 if meaning == Meaning::Bits => Some(bits(int)),
            1.. if meaning == Meaning::Size && int >= 8 => {
                Some(format!("{{ int = [{}, {}], log = true }}", int / 4, int.checked_mul(4)?))
            }
            1.. => Some(format!("{{ int = [{}, {}] }}", (int / 4).max(1), int.checked_mul(4)?)),
            // Steps of warm-up; other steps are not searched.
            0 if parts(option).iter().any(|part| part == "steps") => {
                Some("{ int = [0, 500] }".to_owned())
            }
            0 => Some("{ int = [0, 4] }".to_owned()),
            _ => None,
        };
    }
    let float = value.parse::<f64>().ok().filter(|float| float.is_finite() && *float >= 0.0)?;
    Some(match meaning {
        Meaning::Portion if float > 0.0 && float <= 1.0 => {
            format!("{{ float = [{}, 1.0] }}", f64::min(0.3, float / 2.0))
        }
        Meaning::Share if float <= 0.5 => "{ float = [0.0, 0.5] }".to_owned(),
        Meaning::Share if float < 1.0 => "{ float = [0.0, 0.9] }".to_owned(),
        Meaning::LearningRate if float == 0.0 => RATES.to_owned(),
        Meaning::Penalty if float == 0.0 => PENALTIES.to_owned(),
        _ if float == 0.0 => "{ float = [0.0, 0.5] }".to_owned(),
        // A factor of ten would overflow or underflow.
        _ if !(1e-300..1e300).contains(&float) => return None,
        Meaning::LearningRate | Meaning::Penalty => logarithmic(float),
        _ if (0.99..1.0).contains(&float) => "{ float = [0.9, 0.9999] }".to_owned(),
        _ if (0.5..1.0).contains(&float) => "{ float = [0.5, 0.999] }".to_owned(),
        _ => logarithmic(float),
    })
}

/// Four powers of two, or all integers up to one where the present number is none.
fn bits(present: i64) -> String {
    let is_power = present.count_ones() == 1;
    let mut most = if present == 1 { 8 } else { 16 };
    while most < present {
        most *= 2;
    }
    match is_power {
        true => format!("[{}, {}, {}, {most}]", most / 8, most / 4, most / 2),
        false => format!("{{ int = [2, {most}] }}"),
    }
}

const RATES: &str = "{ float = [1e-5, 1e-1], log = true }";
const PENALTIES: &str = "{ float = [1e-6, 1e-1], log = true }";

/// A range for a number without a known value.
pub fn of_kind(option: &str, kind: &str) -> Option<String> {
    let range = match (kind, meaning(option)) {
        ("float", Meaning::Share) => "{ float = [0.0, 0.5] }",
        ("float", Meaning::Portion) => "{ float = [0.3, 1.0] }",
        ("float", Meaning::NearOne) => "{ float = [0.0, 0.99] }",
        ("float", Meaning::LearningRate) => RATES,
        ("float", Meaning::Penalty) => PENALTIES,
        ("float", _) => "{ float = [1e-4, 1.0], log = true }",
        ("int", Meaning::Size) => "{ int = [16, 256], log = true }",
        ("int", _) => "{ int = [1, 8] }",
        _ => return None,
    };
    Some(range.to_owned())
}

/// From a tenth to ten times the value, but at most 1 for values below 1, which may be fractions.
fn logarithmic(float: f64) -> String {
    let high = if float < 1.0 { (float * 10.0).min(1.0) } else { float * 10.0 };
    format!("{{ float = [{}, {}], log = true }}", short(float / 10.0), short(high))
}

/// With three significant digits.
fn short(float: f64) -> String {
    let text = format!("{float:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_seeds_lengths_and_machines_are_no_hyperparameters() {
        let not_searched = "--epochs --num-epochs --n_epochs --nepochs --max_steps --seed \
            --manualSeed --num-workers --numworkers --data --data-dir --outdir --output_path \
            --log-interval --save-every --gpu --local_rank --run-name --val-split \
            --n_splits --num-class --devices-per-node --per_device_eval_batch_size";
        for option in not_searched.split_whitespace() {
            assert!(!is_hyperparameter(option), "{option}");
        }
        let searched = "--lr --dropout --batch-size --hidden-dim --warmup-steps --criterion \
            --logit-scale --step-size --optimizer --per_device_train_batch_size";
        for option in searched.split_whitespace() {
            assert!(is_hyperparameter(option), "{option}");
        }
    }

    #[test]
    fn ranges_are_those_that_the_name_allows() {
        for (option, value, kind, expected) in [
            ("--dropout", "0.1", None, "{ float = [0.0, 0.5] }"),
            ("--attn_dropout", "0.6", None, "{ float = [0.0, 0.9] }"),
            ("--drop-path-rate", "0.2", Some("float"), "{ float = [0.0, 0.5] }"),
            ("--dropout", "0", Some("float"), "{ float = [0.0, 0.5] }"),
            ("--label-smoothing", "0.1", None, "{ float = [0.0, 0.5] }"),
            ("--lr", "0.3", None, "{ float = [3e-2, 1e0], log = true }"),
            ("--learning-rate", "0.001", None, "{ float = [1e-4, 1e-2], log = true }"),
            ("--weight-decay", "0.0", None, "{ float = [1e-6, 1e-1], log = true }"),
            ("--momentum", "0.9", None, "{ float = [0.5, 0.999] }"),
            ("--beta2", "0.999", None, "{ float = [0.9, 0.9999] }"),
            ("--mixture", "0.2", None, "{ float = [2e-2, 1e0], log = true }"),
            ("--temperature", "2.0", None, "{ float = [2e-1, 2e1], log = true }"),
            ("--batch-size", "64", None, "{ int = [16, 256], log = true }"),
            ("--layers", "3", None, "{ int = [1, 12] }"),
            ("--bits", "14", None, "{ int = [2, 16] }"),
            ("--n-bits", "4", Some("int"), "[2, 4, 8, 16]"),
            ("--wbits", "1", None, "[1, 2, 4, 8]"),
            ("--weight_bits", "32", None, "[4, 8, 16, 32]"),
            ("--hash-bits", "18", None, "{ int = [2, 32] }"),
            ("--bits", "500", None, "{ int = [125, 2000] }"),
            ("--subsample", "1.0", Some("float"), "{ float = [0.3, 1.0] }"),
            ("--colsample_bytree", "0.8", None, "{ float = [0.3, 1.0] }"),
            ("--feature-fraction", "0.2", None, "{ float = [0.1, 1.0] }"),
            ("--max-features", "1.0", Some("float"), "{ float = [0.3, 1.0] }"),
            ("--max-features", "8", Some("int"), "{ int = [2, 32] }"),
            ("--num_warmup_steps", "0", Some("int"), "{ int = [0, 500] }"),
            ("--scale", "1", Some("float"), "{ float = [1e-1, 1e1], log = true }"),
        ] {
            assert_eq!(around(option, value, kind).as_deref(), Some(expected), "{option} {value}");
        }
        for value in ["x", "-1", "1e-320", "nan", ""] {
            assert_eq!(around("--lr", value, None), None, "{value}");
        }
    }
}
