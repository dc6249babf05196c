//! Figures as SVG: well-formed, small, and harmless whatever names there are.

use super::*;
use crate::report::figure::{Axis, HeatMap, Mark, Series, SeriesRole};
use crate::study::space::Scale;

fn figure(title: &str, series: Vec<Series<'static>>) -> Figure<'static> {
    Figure {
        title: title.to_owned(),
        x: Axis::linear().labelled("trial"),
        y: Axis::linear().labelled("loss"),
        cells: None,
        series,
        empty: "no trial has a value yet",
    }
}

fn dots(name: &str, points: Vec<(f64, f64)>) -> Series<'static> {
    Series::new(name, Mark::Dots, SeriesRole::Compared(0), points)
}

/// The texts of a document, which must be well-formed.
fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn a_figure_has_its_title_labels_ticks_and_legend() {
    let figure = figure("loss by trial", vec![dots("complete", vec![(0.0, 0.5), (10.0, 0.1)])]);
    let svg = document(&[figure], Palette::Light, None);
    let texts = texts(&svg);
    for text in ["loss by trial", "trial", "loss", "complete", "10", "0.2"] {
        assert!(texts.iter().any(|one| one == text), "{text} in {texts:?}");
    }
    assert!(svg.contains("role=\"img\" aria-label=\"loss by trial\""));
}

#[test]
fn hostile_names_are_text_and_nothing_else() {
    for name in [
        "</text><script>alert(1)</script>",
        "\" onload=\"alert(1)",
        "a & b < c > 'd'",
        "]]>&amp;",
        "\u{202e}reversed\u{0}\u{7}\u{1b}[31m\u{ffff}",
        "語".repeat(400).as_str(),
        "x".repeat(10_000).as_str(),
    ] {
        let mut one = figure(name, vec![dots(name, vec![(0.0, 0.5), (1.0, 0.1)])]);
        one.x = Axis {
            names: vec![(0.0, name.to_owned()), (1.0, name.to_owned())],
            ..Axis::linear().labelled(name)
        };
        one.cells = Some(HeatMap {
            x: vec![0.0, 1.0],
            y: vec![0.1, 0.5],
            values: vec![Some(1.0), None, Some(f64::NAN), Some(2.0)],
            label: name.to_owned(),
        });
        for palette in [Palette::Light, Palette::Dark] {
            let svg = document(&[one.clone(), one.clone()], palette, None);
            let parsed = roxmltree::Document::parse(&svg).unwrap();
            let known = ["svg", "title", "rect", "g", "path", "text", "circle"];
            for node in parsed.descendants().filter(roxmltree::Node::is_element) {
                assert!(known.contains(&node.tag_name().name()), "{node:?}");
                assert!(node.attributes().all(|one| !one.name().starts_with("on")), "{node:?}");
            }
            assert!(svg.len() < 50_000, "{} bytes", svg.len());
        }
    }
}

#[test]
fn characters_that_reorder_or_control_text_are_visible_escapes() {
    assert_eq!(
        escaped("a\u{202e}b\u{1b}[31m\u{200f}\u{2066}"),
        "a\\u202eb\\u001b[31m\\u200f\\u2066"
    );
    assert_eq!(escaped("a\nb\tc\u{ffff}"), "a b c");
}

#[test]
fn what_cannot_be_drawn_is_counted_and_odd_numbers_are_no_error() {
    let odd = [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e300, -1e300, 1e-320, -0.0, 0.0];
    let points: Vec<(f64, f64)> = odd.iter().flat_map(|x| odd.iter().map(|y| (*x, *y))).collect();
    for mark in [Mark::Line, Mark::Steps, Mark::Dots, Mark::Star, Mark::Bars] {
        for scale in [Scale::Linear, Scale::Log] {
            for ends in [None, Some((0.0, 1.0)), Some((3.0, 3.0))] {
                let series = Series::new("a", mark, SeriesRole::Best, points.clone());
                let mut one = figure("odd", vec![series]);
                (one.x.scale, one.y.ends) = (scale, ends);
                let svg = document(&[one], Palette::Light, None);
                texts(&svg);
                let is_odd = ["NaN", "inf"].iter().any(|word| svg.contains(word));
                assert!(!is_odd, "{mark:?} {scale:?} {ends:?}: {svg}");
            }
        }
    }
    let one = figure("t", vec![dots("a", vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 0.5)])]);
    assert!(texts(&document(&[one], Palette::Light, None)).contains(&"1 not finite".to_owned()));
}

#[test]
fn empty_figures_say_why_and_one_point_or_equal_values_are_drawn() {
    let empty = document(&[figure("t", Vec::new())], Palette::Light, None);
    assert!(texts(&empty).contains(&"no trial has a value yet".to_owned()));
    texts(&document(&[], Palette::Light, None));
    for points in [vec![(3.0, 0.5)], vec![(0.0, 0.5), (1.0, 0.5), (2.0, 0.5)]] {
        let svg = document(&[figure("t", vec![dots("a", points)])], Palette::Light, None);
        assert!(svg.contains("h0"), "a dot: {svg}");
        texts(&svg);
    }
    // The smallest sizes leave no room for a plot, and are no error.
    let tiny = Some(Size { width: 1, height: 1 });
    texts(&document(&[figure("t", vec![dots("a", vec![(0.0, 1.0)])])], Palette::Light, tiny));
}

#[test]
fn figures_of_many_trials_stay_small() {
    let points = |seed: u32| -> Vec<(f64, f64)> {
        (0..10_000_u32)
            .map(|index| (f64::from(index), f64::from((index * 7919 + seed) % 10_007)))
            .collect()
    };
    let svg = document(&[figure("t", vec![dots("a", points(0))])], Palette::Light, None);
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
    texts(&svg);
}

#[test]
fn panels_stand_beside_each_other() {
    let one = || figure("t", vec![dots("a", vec![(0.0, 1.0), (1.0, 2.0)])]);
    let svg = document(&[one(), one(), one(), one()], Palette::Dark, None);
    let root = roxmltree::Document::parse(&svg).unwrap();
    let root = root.root_element();
    assert_eq!((root.attribute("width"), root.attribute("height")), (Some("1380"), Some("640")));
    assert!(svg.contains("translate(460 320)") || svg.contains("translate(0 320)"));
}

#[test]
fn names_at_the_left_make_room_and_labels_that_would_touch_are_left_out() {
    let bars = |count: u32| {
        let row = |index: u32| [(0.0, f64::from(index)), (1.0, f64::from(index))];
        let points = (0..count).flat_map(row).collect();
        let mut one =
            figure("t", vec![Series::new("", Mark::Bars, SeriesRole::Compared(0), points)]);
        let names = (0..count).map(|index| (f64::from(index), format!("p{index}"))).collect();
        one.y = Axis { ends: Some((-0.6, f64::from(count) - 0.4)), names, ..Axis::linear() };
        one
    };
    let shown = |svg: &str| texts(svg).iter().filter(|text| text.starts_with('p')).count();
    let high = document(&[bars(60)], Palette::Light, None);
    assert!(high.contains("height=\"1190\""), "{}", &high[..200]);
    assert_eq!(shown(&high), 60);
    let low = document(&[bars(60)], Palette::Light, Some(FIGURE));
    assert!((15..40).contains(&shown(&low)), "{}", shown(&low));
    let few = document(&[bars(3)], Palette::Light, None);
    assert!(few.contains("height=\"440\""));
}

#[test]
fn what_is_outside_stands_beside_the_title_or_else_the_legend() {
    let mut points: Vec<(f64, f64)> =
        (0..50).map(|at| (f64::from(at), f64::from(at % 5))).collect();
    points.push((50.0, 1e6));
    let line = |title: &str| {
        let mut one = figure(title, vec![dots("a", points.clone())]);
        one.y = Axis::without_outliers(Vec::new());
        let svg = document(&[one], Palette::Light, Some(Size { width: 300, height: 240 }));
        let document = roxmltree::Document::parse(&svg).unwrap();
        let note = document.descendants().find(|node| node.text() == Some("1 point outside"));
        note.unwrap().attribute("y").unwrap().to_owned()
    };
    assert_eq!(
        (line("loss").as_str(), line("best loss by completed trials").as_str()),
        ("22", "40")
    );
}

#[test]
fn one_bad_cell_does_not_take_the_whole_scale_of_colours() {
    let mut values: Vec<Option<f64>> =
        (0..100_u32).map(|index| Some(f64::from(index % 10))).collect();
    values[7] = Some(1e6);
    values[8] = Some(f64::NAN);
    values[9] = None;
    let cells = HeatMap { x: Vec::new(), y: Vec::new(), values, label: String::new() };
    let ends = cells.ends().unwrap();
    assert_eq!((ends, cells.is_cut(ends)), ((0.0, 9.0), (false, true)));
    assert_eq!((HeatMap::share(4.5, ends), HeatMap::share(1e6, ends)), (0.5, 1.0));
    assert_eq!(HeatMap::share(3.0, (3.0, 3.0)), 0.5);
    assert_eq!(HeatMap::share(0.0, (-f64::MAX, f64::MAX)), 0.5);
}

#[test]
fn slanted_names_begin_within_their_figure() {
    let mut one = figure("t", vec![dots("a", (0..8).map(|at| (f64::from(at), 1.0)).collect())]);
    let names = (0..8).map(|at| (f64::from(at), "a name that is rather long".to_owned()));
    one.x = Axis { ends: Some((-0.5, 7.5)), names: names.collect(), ..Axis::linear() };
    let svg = document(&[one], Palette::Light, Some(Size { width: 460, height: 320 }));
    let document = roxmltree::Document::parse(&svg).unwrap();
    let slanted = document.descendants().filter(|node| {
        node.attribute("transform").is_some_and(|transform| transform.starts_with("rotate(-32"))
    });
    let begins: Vec<f64> = slanted
        .map(|node| {
            let end: f64 = node.attribute("x").unwrap().parse().unwrap();
            let length = node.text().unwrap().chars().count() as f64 * 6.6;
            end - length * 32_f64.to_radians().cos()
        })
        .collect();
    assert_eq!(begins.len(), 8);
    assert!(begins.iter().all(|begin| *begin >= 0.0), "{begins:?}");
}

#[test]
fn cells_of_one_colour_beside_each_other_are_one_rectangle() {
    let at = [0.0, 1.0, 2.0, 3.0];
    let row = [Some(0.0), Some(0.001), None, Some(1.0)];
    let values = [row, [Some(f64::NAN), Some(1.0), Some(1.0), Some(1.0)]].concat();
    let mut one = figure("t", vec![dots("a", vec![(0.0, 0.0), (3.0, 1.0)])]);
    let (x, y) = (at.to_vec(), vec![0.0, 1.0]);
    one.cells = Some(HeatMap { x, y, values, label: String::new() });
    let svg = document(&[one], Palette::Light, None);
    let document = roxmltree::Document::parse(&svg).unwrap();
    let cells = document
        .descendants()
        .find(|node| node.attribute("shape-rendering").is_some())
        .unwrap()
        .children()
        .filter(|node| node.has_tag_name("rect"));
    let cells: Vec<(&str, f64)> = cells
        .map(|cell| {
            (cell.attribute("fill").unwrap(), cell.attribute("width").unwrap().parse().unwrap())
        })
        .collect();
    let [(low, two), (high, one), (last, three)] = cells.as_slice() else { panic!("{cells:?}") };
    assert_eq!((*low, *high, *last), ("#440154", "#fde725", "#fde725"));
    assert!((two / one - 2.0).abs() < 0.05 && (three / one - 3.0).abs() < 0.05, "{cells:?}");
}
