//! CPU time of the built-in trainer's steps, and the memory they need:
//! `step ARGUMENTS.json DATA [WARMUP [STEPS [DEVICE]]]`.
//!
//! It runs the product: data are prepared and a model trained as in a study, with one thread. The
//! clock is that of the process, read when steps are done, so that neither preparation nor the
//! evaluation at the end counts. One JSON line is printed: `benches/peers/step.py` makes the data
//! and compares with PyTorch, `benches/gpu/steps.py` on a GPU: there the steps are as many as a
//! multiple of the warm-up, since a device is only asked what came of them when they are logged.
//! `KERNELS` names a directory for kernels.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use hpsearch::arguments::{DataArguments, TrainerArguments};
use hpsearch::trainer::{
    AlignedAllocator, Host, HostError, HostVerdict, Milestones, Start, StepUnit, TrainingJob,
    TrainingObjective, prepare, set_kernel_cache, train, tune_allocator,
};
use serde_json::{Value, json};

/// The program's.
#[global_allocator]
static ALLOCATOR: AlignedAllocator = AlignedAllocator;

/// A runner that reads the clock when it hears of steps.
struct Stopwatch {
    warmup: u64,
    last: u64,
    /// CPU time and wall time after the warm-up and after the last step.
    began: Option<(Duration, std::time::Instant)>,
    ended: Option<(Duration, Duration)>,
    started: std::time::Instant,
    /// What the warm-up took.
    first: Duration,
    line: String,
}

impl Host for Stopwatch {
    fn report(&mut self, _: u64, _: &BTreeMap<String, f64>) -> Result<HostVerdict, HostError> {
        Ok(HostVerdict::Continue)
    }

    fn checkpoint(&mut self, _: u64, _: &Path) -> Result<(), HostError> {
        Ok(())
    }

    fn log(&mut self, line: &str) {
        if line.starts_with("step ") {
            line.clone_into(&mut self.line);
        }
    }

    fn at(&mut self, step: u64, _: u64) {
        if step == self.warmup {
            self.first = self.started.elapsed();
            self.began = Some((cpu_time(), std::time::Instant::now()));
        }
        if step == self.last {
            self.ended =
                self.began.map(|(processor, wall)| (cpu_time() - processor, wall.elapsed()));
        }
    }

    fn stop_requested(&self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tune_allocator();
    if let Some(directory) = std::env::var_os("KERNELS") {
        set_kernel_cache(Path::new(&directory));
    }
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let (Some(arguments), Some(data)) = (words.first(), words.get(1)) else {
        println!("step ARGUMENTS.json DATA [WARMUP [STEPS [DEVICE]]]; see benches/peers/step.py");
        return Ok(());
    };
    let number =
        |index: usize, default: u64| words.get(index).map_or(Ok(default), |word| word.parse());
    let (warmup, steps) = (number(2, 3)?, number(3, 10)?);
    let mut values: BTreeMap<String, Value> = serde_json::from_slice(&std::fs::read(arguments)?)?;
    let device = words.get(4).map_or("cpu", String::as_str);
    let logging = if device == "cpu" { warmup + steps } else { warmup };
    values.extend([
        ("max_steps".to_owned(), json!(warmup + steps)),
        ("logging_steps".to_owned(), json!(logging)),
    ]);
    let arguments =
        TrainerArguments::resolve(&values).map_err(|problems| format!("{problems:?}"))?;
    let data = json!({
        "train": data, "validation_split": 0.02,
        "max_length": arguments.model.max_length.unwrap_or(128),
    });
    let data = DataArguments::resolve(&serde_json::from_value(data)?)
        .map_err(|problems| format!("{problems:?}"))?;
    let room = std::env::temp_dir().join(format!("hpsearch-step-{}", std::process::id()));
    let data = prepare(
        arguments.task,
        &data,
        &arguments.tokenizer(),
        &room.join("cache"),
        &mut |_| {},
        &|_, _, _| {},
    )?;
    let mut stopwatch = Stopwatch {
        warmup,
        last: warmup + steps,
        began: None,
        ended: None,
        started: std::time::Instant::now(),
        first: Duration::ZERO,
        line: String::new(),
    };
    let job = TrainingJob {
        arguments: &arguments,
        data: &data,
        device,
        seed: 1,
        objective: TrainingObjective { metric: "eval_loss".to_owned(), maximize: false },
        step_unit: StepUnit::Step,
        milestones: Milestones::default(),
        directory: &room.join("trial"),
        rows_at_once: None,
        start: Start::Fresh,
        until: None,
        reported: None,
    };
    let before = peak_memory()?;
    train(&job, &mut stopwatch)?;
    let (processor, wall) = stopwatch.ended.ok_or("the run ended before its last step")?;
    #[expect(clippy::cast_precision_loss, reason = "a number of steps")]
    let per_step = |time: Duration| time.as_secs_f64() * 1e3 / steps as f64;
    println!(
        "{}",
        json!({
            "cpu_ms": per_step(processor), "wall_ms": per_step(wall),
            "first_s": stopwatch.first.as_secs_f64(), "peak_mb": peak_memory()?,
            "peak_before_mb": before, "log": stopwatch.line,
        })
    );
    std::fs::remove_dir_all(room)?;
    Ok(())
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory that the process has held, in megabytes.
fn peak_memory() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? / 1024.0)
}
