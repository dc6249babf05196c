//! Optimisers against the packages that transformers takes them from: `golden/optimizers.json` is
//! made by `tests/peers/optimizers_golden.py`.

use super::super::averaging::ExponentialAverage;
use super::super::learning_rate_schedule::{LearningRateSchedule, PlateauState};
use super::super::optimiser::{GradientClip, Optimiser, Placement, StepScalars, clip_coefficient};
use super::super::parameters::tensor;
use super::super::tensor_file::TensorFile;
use super::fine_tuning::Tuned;
use super::golden::{close, golden_directory, numbers};
use super::*;

/// `golden/optimizers.json`.
pub(in super::super) fn golden_optimizers() -> Value {
    json_of(&golden_directory("optimizers.json"))
}

/// Twenty steps of fine-tuning as transformers' Trainer makes them, and the logits afterwards.
fn follows_its_package(optim: &str) {
    let golden = golden_optimizers();
    let from = golden["min_8bit_size"].as_u64().unwrap() as usize;
    let case = &golden["cases"][optim];
    let (batches, losses): (Vec<Vec<usize>>, _) =
        (serde_json::from_value(golden["batches"].clone()).unwrap(), numbers(&case["losses"]));
    assert_eq!(losses.len(), 20);
    for placement in [Placement::InPlace, Placement::Device] {
        let mut tuned = Tuned::of("bert", case["arguments"].clone());
        let schedule = LearningRateSchedule::new(&tuned.arguments, 20);
        let parameters = tuned.model.parameters().clone();
        let mut optimiser =
            Optimiser::quantising(&tuned.arguments, &parameters, &tuned.device, placement, from);
        let decay = tuned.arguments.ema_decay;
        let mut average =
            decay.map(|decay| ExponentialAverage::new(decay, &parameters, &tuned.values));
        for (step, expected) in losses.iter().enumerate() {
            let (loss, gradients) = tuned.gradients(&batches[step % batches.len()], false);
            close(&format!("{optim}: loss of step {step}"), loss, *expected, 1e-3);
            let (_, norm) = gradients.loss_and_norm(tensor(vec![0.0], [1], &tuned.device)).unwrap();
            let clip = GradientClip::By(clip_coefficient(norm, 1.0));
            let learning_rate = schedule.learning_rate(step as u64, &PlateauState::default());
            let scalars = StepScalars::new(learning_rate, step as u64 + 1);
            optimiser.step(&parameters, &mut tuned.values, gradients, scalars, &clip).unwrap();
            if let Some(average) = &mut average {
                average.update(&parameters, &tuned.values);
            }
        }
        if let Some(averaged) = optimiser.averaged(&parameters, &tuned.values) {
            tuned.values = averaged;
        } else if let Some(average) = average {
            tuned.values = average.averaged(&parameters, &tuned.values);
        }
        tuned.logits_are(&format!("{optim}: logits"), &case["logits"], 5e-3);
    }
}

#[test]
fn adafactor_is_transformers() {
    follows_its_package("adafactor");
}

#[test]
fn lion_is_bitsandbytes() {
    follows_its_package("lion_32bit");
}

#[test]
fn schedule_free_adamw_is_its_package() {
    follows_its_package("schedule_free_adamw");
}

#[test]
fn averages_of_weights_are_timms() {
    follows_its_package("adamw");
}

#[test]
fn rmsprop_is_pytorchs() {
    follows_its_package("rmsprop");
}

#[test]
fn adamw_in_8_bits_is_bitsandbytes() {
    follows_its_package("adamw_8bit");
}

#[test]
fn what_is_evaluated_and_exported_is_the_average() {
    let fixture = Fixture::new();
    for (name, values) in [
        ("ema", json!({"ema_decay": 0.9})),
        ("schedule-free", json!({"optim": "schedule_free_adamw"})),
    ] {
        let (arguments, directory) = (arguments(values), fixture.path().join(name));
        let runner = trained(&fixture.job(&arguments, &directory));
        let [report, measured] =
            [runner.last_report().clone(), evaluated(runner.last_checkpoint(), &fixture.data)];
        assert!((measured["eval_loss"] - report["eval_loss"]).abs() < 1e-6, "{name}");
        let [model, optimiser] = ["model.safetensors", "optimizer.safetensors"]
            .map(|file| TensorFile::open(&runner.last_checkpoint().join(file)).unwrap());
        let bytes = |file: &TensorFile, name: &str| file.bytes(file.get(name).unwrap()).to_vec();
        for tensor in model.names() {
            let in_training = bytes(&optimiser, &format!("weights.{tensor}"));
            assert_ne!(bytes(&model, tensor), in_training, "{name}: {tensor}");
        }
    }
}

#[test]
fn moments_in_8_bits_take_a_quarter_of_the_space() {
    let fixture = Fixture::new();
    let size = |optim: &str| {
        let wide = json!({
            "optim": optim, "model.hidden_size": 64, "model.intermediate_size": 256, "max_steps": 1,
        });
        let (arguments, directory) = (arguments(wide), fixture.path().join(optim));
        let runner = trained(&fixture.job(&arguments, &directory));
        fs::metadata(runner.last_checkpoint().join("optimizer.safetensors")).unwrap().len()
    };
    let [whole, quantised] = ["adamw", "adamw_8bit"].map(size);
    // Embeddings, biases and norms stay in 32 bits.
    assert!(3 * quantised < whole, "{quantised} of {whole}");
}
