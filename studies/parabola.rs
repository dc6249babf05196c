//! Two studies of a Rust closure: `cargo run --example parabola`. The README and docs/rust.md show
//! their code, which a test compares.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let finished = closure()?;
    println!("best of the closure: {:?}", finished.best().map(|best| (best.number, best.value)));
    let finished = ask_and_tell()?;
    println!("best of ask and tell: {:?}", finished.best().map(|best| (best.number, best.value)));
    Ok(())
}

fn closure() -> Result<hpsearch::Finished, Box<dyn Error>> {
    use hpsearch::{Study, TrialEnd};

    let finished = Study::minimize("parabola", "loss")
        .float("x", -5.0, 5.0)
        .trials(30)
        .store("runs/parabola.db")
        .run(|trial| {
            let x = trial.number_of("x")?;
            trial.report(1, (x - 1.0).powi(2));
            Ok(TrialEnd::Finished)
        })?;
    Ok(finished)
}

fn ask_and_tell() -> Result<hpsearch::Finished, Box<dyn Error>> {
    use hpsearch::{Continue, Study};

    let study = Study::minimize("asked", "loss")
        .float("x", -5.0, 5.0)
        .trials(30)
        .store("runs/parabola.db")
        .open()?;
    while let Some(mut trial) = study.ask()? {
        let loss = (trial.number_of("x")? - 1.0).powi(2);
        if trial.report(1, loss)? == Continue::No {
            continue; // the pruner paused or stopped this trial
        }
        study.tell(trial, loss)?;
    }
    let finished = study.finish()?;
    Ok(finished)
}
