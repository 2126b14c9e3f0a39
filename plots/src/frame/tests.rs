use super::*;
use crate::axis::Unit;
use crate::mark::Mark;
use crate::palette::{BLUE, GREEN, Shape, VERMILION};
use crate::test_figures::{ROUNDING, elements, pixels, words};

const SIZE: (f64, f64) = (400.0, 300.0);

/// A line, an area and markers over two axes, the upper one logarithmic.
fn figure(name: &str) -> Figure {
    let points = vec![(0.0, 1.0), (50.0, 100.0), (100.0, 10.0)];
    let markers = Mark::Markers { shape: Shape::Circle, is_filled: true };
    let x = Axis::linear("time", (0.0, 100.0), Unit::Micros);
    let y = Axis::between("energy", (1.0, 100.0), Unit::Number);
    let mut figure = Figure::new(SIZE, x, y).titled("a < b & \"c\"", "second line");
    figure.legend.heads = vec!["what".to_owned(), "n".to_owned()];
    figure.add("", Mark::Area(1.0), GREEN, points.clone());
    figure.add(name, Mark::Line(2.0), VERMILION, points.clone());
    figure.add("", markers, BLUE, points);
    figure.legend.rows.push(Row::of(markers, BLUE, &["markers", "3"]));
    figure
}

#[test]
fn a_value_is_drawn_where_its_axes_map_it() {
    let svg = figure("line").draw(Format::Svg).unwrap();
    let circles: Vec<(f64, f64)> = elements(&svg)
        .iter()
        .filter(|one| one.is("circle") && one.has_colour("fill", BLUE))
        .map(|one| (one.length("cx"), one.length("cy")))
        .collect();
    let from = |index: usize, (right, up): (f64, f64)| {
        let at = (circles[0].0 + right * SIZE.0, circles[0].1 - up * SIZE.1);
        assert!(
            (circles[index].0 - at.0).abs() < 2.0 * ROUNDING
                && (circles[index].1 - at.1).abs() < 2.0 * ROUNDING
        );
    };
    from(1, (0.5, 1.0));
    from(2, (1.0, 0.5));
}

#[test]
fn titles_ticks_and_legend_are_there_and_every_tag_is_closed() {
    let svg = figure("\u{0}\u{1b}]]><&\"' \u{fffe}").draw(Format::Svg).unwrap();
    let words = words(&svg);
    for word in ["a &lt; b &amp; &quot;c&quot;", "second line", "time (µs)", "energy", "10", "what", "3"] {
        assert!(words.iter().any(|found| found == word), "{word} in {words:?}");
    }
    let svg = String::from_utf8(svg).unwrap();
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("every tag is closed");
        assert!(!text.contains(['<', '>']) && text.chars().all(|c| c == '\n' || !c.is_control()));
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty() && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn a_png_has_the_size_of_the_figure_and_the_colours_of_its_series() {
    let svg = String::from_utf8(figure("line").draw(Format::Svg).unwrap()).unwrap();
    let (width, height, pixels) = pixels(&figure("line").draw(Format::Png).unwrap());
    let size = format!("<svg width=\"{}\" height=\"{}\"", width / PNG_SCALE, height / PNG_SCALE);
    assert!(svg.starts_with(&size), "{size}");
    for colour in [BLUE, GREEN, VERMILION] {
        let area = pixels.iter().filter(|&&pixel| pixel == colour).count();
        assert!(area > 100, "{colour:?} covers {area} pixels");
    }
    let dark = pixels.iter().filter(|pixel| pixel.0.max(pixel.1).max(pixel.2) < 0x60).count();
    assert!(dark > 500, "text and axes are drawn");
}

#[test]
fn nothing_of_a_figure_with_a_tall_legend_lies_outside_of_it() {
    let mut tall = figure("line");
    let row = |index: usize| Row::of(Mark::Line(1.0), BLUE, &[&format!("a rather long name {index}")]);
    tall.legend.rows.extend((0..40).map(row));
    let svg = tall.draw(Format::Svg).unwrap();
    let frame = elements(&svg)
        .iter()
        .find(|one| one.is("rect"))
        .map(|one| (one.length("width"), one.length("height")));
    let (width, height) = frame.unwrap();
    assert!(height > 42.0 * 18.0);
    for one in elements(&svg).iter().filter(|one| one.is("text") && !one.text.starts_with("a &lt")) {
        let (x, y, length) = (one.length("x"), one.length("y"), font::width(&one.text, TEXT_SIZE));
        let right = match one.attribute("text-anchor") {
            "start" => x + length,
            "middle" => x + length / 2.0,
            _ => x,
        };
        assert!(y < height && right <= width, "{}", one.text);
    }
    tall.legend.rows.extend((0..40).map(row));
    assert!(matches!(tall.draw(Format::Svg), Err(PlotError::TooMany { count: 82, .. })));
}

#[test]
fn values_beyond_the_axes_are_refused_by_name() {
    for (x, y) in [(f64::NAN, 1.0), (1.0, 0.0), (f64::INFINITY, 1.0), (1.0, -5.0), (1e300, 1.0)] {
        let mut odd = figure("");
        odd.add("line", Mark::Line(2.0), VERMILION, vec![(1.0, 1.0), (x, y)]);
        let message = odd.draw(Format::Svg).unwrap_err().to_string();
        assert!(message.contains("line"), "{message}");
    }
    let empty = Figure { items: Vec::new(), ..figure("line") };
    assert!(matches!(empty.draw(Format::Svg), Err(PlotError::NoPoints { .. })));
}
