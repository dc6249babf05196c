//! Charts as they look.

use super::*;
use crate::report::figure::Axis;
use crate::study::space::Scale;
use crate::tui::tests::{self, COLOURS, PLAIN, at_every_size};

const GREY: Theme = Theme { palette: Palette::Monochrome, ..COLOURS };

fn chart(series: Vec<Series<'_>>) -> Figure<'_> {
    Figure {
        title: "eval_loss by epoch".to_owned(),
        x: Axis::whole(),
        y: Axis::without_outliers(Vec::new()),
        series,
        cells: None,
        empty: "no reports yet",
    }
}

fn drawn(chart: &Figure<'_>, size: (u16, u16), theme: Theme) -> String {
    tests::drawn(size, |buffer, area| chart.draw(buffer, area, theme))
}

/// A curve that falls as losses do.
fn falling(rate: f64, floor: f64, steps: u32) -> Vec<(f64, f64)> {
    (1..=steps)
        .map(|step| (f64::from(step), floor + 2.0 * (-rate * f64::from(step)).exp()))
        .collect()
}

/// A line that falls as losses do.
fn line(trial: usize, rate: f64, floor: f64, steps: u32) -> Series<'static> {
    let name = format!("trial {trial}");
    Series::new(&name, Mark::Line, SeriesRole::Compared(trial), falling(rate, floor, steps))
}

/// A field of grey curves behind two.
fn field() -> Figure<'static> {
    let grey = |index: u32| {
        Series::new("", Mark::Line, SeriesRole::Behind, falling(0.02 * f64::from(index), 0.3, 30))
    };
    let mut all: Vec<Series<'_>> = (0..12).map(grey).collect();
    all.push(Series { name: "trial 7".to_owned(), ..line(0, 0.15, 0.2, 30) });
    all.push(Series { name: "trial 12".to_owned(), ..line(1, 0.4, 0.5, 20) });
    chart(all)
}

#[test]
fn curves_on_areas_of_several_kinds() {
    let lines = chart((0..3).map(|index| line(index, 0.1, 0.2 * index as f64, 30)).collect());
    let equal = (1..10).map(|step| (f64::from(step), 0.5)).collect();
    let equal = chart(vec![Series::new("", Mark::Line, SeriesRole::Compared(0), equal)]);
    let nan = Series::new("trial 3", Mark::Line, SeriesRole::Compared(0), vec![(1.0, f64::NAN)]);
    for (name, chart, size, theme) in [
        ("curves_over_a_grey_field_on_a_large_area", &field(), (110, 24), COLOURS),
        ("curves_over_a_grey_field_on_a_small_area", &field(), (40, 10), COLOURS),
        ("curves_over_a_grey_field_in_ascii", &field(), (60, 16), PLAIN),
        ("without_colours_lines_are_told_apart_by_their_gaps", &lines, (60, 14), GREY),
        ("equal_values_are_a_line_in_the_middle", &equal, (40, 9), COLOURS),
        ("nothing_to_draw_says_so", &chart(vec![nan.clone()]), (40, 7), COLOURS),
    ] {
        insta::assert_snapshot!(name, drawn(chart, size, theme));
    }
}

#[test]
fn without_colours_points_behind_others_have_a_sign_of_their_own() {
    let points = |from: u32| (0..8).map(|at| (f64::from(at), f64::from((at * from) % 7))).collect();
    let both = chart(vec![
        Series::new("pruned, last report", Mark::Dots, SeriesRole::Behind, points(3)),
        Series::new("complete", Mark::Dots, SeriesRole::Compared(0), points(5)),
    ]);
    let said = drawn(&both, (50, 12), GREY);
    assert!(said.contains("× pruned, last report  • complete"), "{said}");
    // One is in the legend; where both are, the complete one is seen.
    assert_eq!(said.matches('×').count(), 7, "{said}");
    assert!(!drawn(&both, (50, 12), COLOURS).contains('×'));
}

#[test]
fn without_colours_each_of_some_lines_and_bars_has_a_stroke_of_its_own() {
    let points = || vec![(0.0, 0.0), (8.0, 1.0)];
    let tones = || [SeriesRole::Behind, SeriesRole::Best].into_iter();
    for mark in [Mark::Line, Mark::Bars] {
        let series = tones().chain((0..3).map(SeriesRole::Compared)).enumerate();
        let series = series.map(|(at, tone)| Series::new(format!("n{at}"), mark, tone, points()));
        let said = drawn(&chart(series.collect()), (60, 8), GREY);
        let legend = said.lines().last().unwrap();
        let strokes: std::collections::BTreeSet<&str> =
            (0..5).map(|at| legend.split(&format!(" n{at}")).next().unwrap()).collect();
        assert_eq!(strokes.len(), 5, "{legend}");
        let samples = ["┈  n0", "n1  ╍╍ n2  ┈┈ n3  ╍┈ n4"];
        samples.iter().for_each(|sample| assert!(legend.contains(sample), "{legend}"));
    }
}

#[test]
fn gaps_single_points_and_outliers_are_told() {
    let mut curve = falling(0.1, 0.2, 30);
    curve[9].1 = f64::NAN;
    curve[10].1 = f64::INFINITY;
    curve[20].1 = 1e9;
    let all = vec![
        Series::new("trial 0", Mark::Line, SeriesRole::Compared(0), curve),
        Series::new("trial 1", Mark::Line, SeriesRole::Compared(1), vec![(15.0, 2.0)]),
    ];
    insta::assert_snapshot!(drawn(&chart(all), (60, 14), COLOURS));
}

#[test]
fn a_logarithmic_axis_and_points_that_it_cannot_show() {
    let curve = (0..=40)
        .map(|step| {
            (f64::from(step), if step == 20 { 0.0 } else { 10_f64.powf(-f64::from(step) / 8.0) })
        })
        .collect();
    let chart = Figure {
        y: Axis { scale: Scale::Log, ..Axis::linear() },
        ..chart(vec![Series::new("", Mark::Line, SeriesRole::Compared(0), curve)])
    };
    insta::assert_snapshot!(drawn(&chart, (60, 14), COLOURS));
}

#[test]
fn points_with_the_best_among_them() {
    let points: Vec<(f64, f64)> =
        (0..60).map(|index| (f64::from(index), f64::from(index * 37 % 60) / 60.0)).collect();
    let best = points.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let steps = points.iter().scan(f64::INFINITY, |best, point| {
        *best = best.min(point.1);
        Some((point.0, *best))
    });
    let all = vec![
        Series::new("trials", Mark::Dots, SeriesRole::Behind, points.clone()),
        Series::new("best so far", Mark::Steps, SeriesRole::Compared(0), steps.collect()),
        Series::new("best", Mark::Star, SeriesRole::Best, vec![best]),
    ];
    insta::assert_snapshot!(drawn(&chart(all), (60, 14), COLOURS));
}

#[test]
fn choices_have_names_instead_of_numbers() {
    let points = (0..40).map(|index| (f64::from(index % 3), f64::from(index) / 40.0)).collect();
    let names = vec![
        (0.0, "adamw".to_owned()),
        (1.0, "sgd".to_owned()),
        (2.0, "最適化手法の長い名前".to_owned()),
    ];
    let x = Axis { ends: Some((-0.5, 2.5)), names, ..Axis::linear() };
    let chart = Figure {
        x,
        title: "optim".to_owned(),
        ..chart(vec![Series::new("", Mark::Dots, SeriesRole::Compared(0), points)])
    };
    insta::assert_snapshot!(drawn(&chart, (40, 10), COLOURS));
}

#[test]
fn no_size_makes_drawing_panic() {
    for chart in [field(), chart(Vec::new())] {
        for theme in [COLOURS, PLAIN] {
            at_every_size(0..40, 0..14, |buffer, area| chart.draw(buffer, area, theme));
        }
    }
}

#[test]
fn a_legend_that_does_not_fit_says_how_many_are_missing() {
    let lines = (0..9).map(|index| line(index, 0.1, 0.2, 30));
    let drawn = drawn(&chart(lines.collect()), (50, 10), COLOURS);
    assert!(drawn.ends_with("━━ trial 2  +6\n"), "{drawn}");
}
