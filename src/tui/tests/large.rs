//! A large study: no frame takes long, whatever is shown. It has 100,000 trials where
//! HPSEARCH_THOROUGH is set, otherwise a quarter of them, since filling the store takes longest.

use std::time::Duration;

use super::*;

/// A frame of sixty a second.
const FRAME: Duration = Duration::from_millis(16);

/// The events of a study of so many trials, a batch at a time: three reports each, a third of them
/// pruned.
fn batches(trials: u64) -> impl Iterator<Item = Vec<Event>> {
    (0..trials)
        .step_by(1_000)
        .map(move |first| (first..trials.min(first + 1_000)).flat_map(events_of).collect())
}

fn events_of(number: u64) -> Vec<Event> {
    let trial = TrialNumber(number);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let value = ((number * 7_919) % 10_007) as f64 / 10_007.0;
    let optim = if number.is_multiple_of(3) { "sgd" } else { "adamw" };
    let layers = i64::try_from(number % 8).unwrap() + 1;
    let params = params(1e-5 + value / 11.0, layers, optim);
    let mut events = vec![created(trial, params), attempt_started(trial, slot())];
    for step in 1..=3_u32 {
        let loss = value + 1.0 / f64::from(step);
        let metrics = [("eval_loss", loss), ("eval_accuracy", 1.0 - loss)];
        events.push(reported(trial, step.into(), &metrics));
    }
    events.extend(match number % 3 {
        0 => {
            let reason = "rank 9 of 12 at step 3; 4 continue";
            ended(trial, AttemptEnd::Stopped, None, Some(reason))
        }
        _ => ended(trial, AttemptEnd::Completed, Some(value + 1.0 / 3.0), None),
    });
    events
}

/// Keys that lead to each screen, and what it is called.
fn screens() -> [(&'static str, &'static str); 11] {
    [
        ("trials", ""),
        ("trials, the last", "⇲"),
        ("trials by a parameter", "slearning\n"),
        ("trials, filtered", "/optim=sgd learning_rate>1e-2\n"),
        ("trial", "\n"),
        ("events with reports", "6v"),
        ("compare", "  3"),
        ("search", "4"),
        ("parameters", "4v"),
        ("help", "?"),
        ("form", "e"),
    ]
}

/// The processor time of the quickest of some frames: whatever else the machine does takes none of
/// it.
fn quickest_frame(shown: &mut Shown) -> Duration {
    let mut terminal = Terminal::new(TestBackend::new(shown.size.0, shown.size.1)).unwrap();
    let mut frame = || {
        let began = processor_time();
        terminal
            .draw(|frame| {
                screen::draw(frame, &mut shown.state, at(shown.script.clock + 3), shown.theme)
            })
            .unwrap();
        processor_time() - began
    };
    (0..7).map(|_| frame()).min().unwrap()
}

#[test]
fn no_frame_of_a_large_study_takes_longer_than_a_sixtieth_of_a_second() {
    let mut script = Script::new(&spec());
    let trials = if std::env::var_os("HPSEARCH_THOROUGH").is_some() { 100_000 } else { 25_000 };
    for batch in batches(trials) {
        script.append(&batch);
    }
    let mut slow = Vec::new();
    let mut shown = Shown::new(script, (200, 60));
    for (name, keys) in screens() {
        let fresh =
            TuiState::new(TuiMode::Watching, shown.state.seen.clone(), TableSettings::default());
        shown.state = fresh;
        // Loaded once at the end: the memory store sorts all trials for each page.
        screen::measure(Rect::new(0, 0, shown.size.0, shown.size.1), &mut shown.state);
        for char in keys.chars() {
            shown.state.press(key_of(char));
        }
        let seen = shown.source().load(&Arc::new(shown.state.wanted())).unwrap();
        shown.state.see(seen);
        let took = quickest_frame(&mut shown);
        println!("{name}: {took:?}");
        if took > FRAME {
            slow.push((name, took));
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn parameters_are_shown_with_how_much_they_matter() {
    let mut script = Script::new(&spec());
    for batch in batches(60) {
        script.append(&batch);
    }
    let shown = Shown::new(script, (120, 40)).press("4v").frame();
    // The value is the learning rate's own, so that it alone matters.
    assert!(shown.contains("learning_rate  9") && shown.contains(" %"), "{shown}");
}
