use super::*;
use crate::sheet::PNG_SCALE;
use crate::test_figures::{Element, elements, pixels, words};

/// A GPU stair with spikes at 385 splits, a falling CPU line and one ring.
fn stair() -> ChannelCurve {
    let gpu = (0..385).map(|index| {
        let spike = if index % 16 == 8 { 90.0 } else { 0.0 };
        (index * 8, 40.0 + f64::from(index / 24) * 21.0 + spike)
    });
    let cpu = (0..385).map(|index| (index * 8, 900.0 - 2.2 * f64::from(index)));
    let series = |name: &str, kind, points| Series { name: name.to_owned(), kind, points };
    ChannelCurve {
        title: "Fully connected 50 × 768 → 3072".to_owned(),
        subtitle: "Pixel 5 & 3 threads".to_owned(),
        channels_label: "output channels on the GPU".to_owned(),
        series: vec![
            series("GPU part", SeriesKind::Gpu, gpu.collect()),
            series("CPU part", SeriesKind::Cpu, cpu.collect()),
            series("published", SeriesKind::Published, vec![(2480, 372.0)]),
        ],
        marks: vec![Mark { label: "chosen: 2120".to_owned(), channels: 2120, us: 299.0 }],
    }
}

fn svg(curve: &ChannelCurve) -> Vec<u8> {
    channel_curve(curve, Format::Svg).unwrap()
}

/// The samples of the lines of a colour, but not those of the legend.
fn samples(curve: &ChannelCurve, wanted: RGBColor) -> Vec<Place> {
    let elements = elements(&svg(curve));
    let lines = elements.iter().filter(|one| one.is("polyline") && one.has_colour("stroke", wanted));
    let mut parts: Vec<Vec<Place>> = lines.map(Element::points).collect();
    parts.pop();
    let mut samples = parts.concat();
    samples.dedup();
    samples
}

#[test]
fn an_svg_names_title_axes_series_and_marks() {
    let svg = svg(&stair());
    let words = words(&svg);
    for expected in [
        "Fully connected 50 × 768 → 3072",
        "Pixel 5 &amp; 3 threads",
        "output channels on the GPU",
        "latency (µs)",
        "GPU part",
        "CPU part",
        "published",
        "chosen: 2120",
        "512",
        "3072",
        "800",
    ] {
        assert!(words.iter().any(|word| word == expected), "{expected}");
    }
    assert!(svg.starts_with(b"<svg width=\"900\" height=\"520\" "));
}

#[test]
fn a_png_has_the_size_of_the_figure_and_the_colours_of_its_lines() {
    let png = channel_curve(&stair(), Format::Png).unwrap();
    let (width, height, pixels) = pixels(&png);
    assert_eq!((width, height), (WIDTH * PNG_SCALE, HEIGHT * PNG_SCALE));
    for colour in [GREEN, BLUE, INK] {
        let area = pixels.iter().filter(|&&pixel| pixel == colour).count();
        assert!(area > 500, "{colour:?} covers {area} pixels");
    }
}

#[test]
fn a_line_keeps_every_sample_and_every_sample_lies_in_the_plot() {
    let gpu = samples(&stair(), GREEN);
    assert_eq!(gpu.len(), 385);
    let spikes = gpu.windows(3).filter(|near| near[1].1 < near[0].1.min(near[2].1) - 20.0);
    assert_eq!(spikes.count(), 24, "each spike stands out");
    let (left, right) = (MARGIN + LEFT_LABELS, f64::from(WIDTH) - RIGHT);
    for (x, y) in &gpu {
        assert!((left..=right).contains(x) && *y <= f64::from(HEIGHT) - MARGIN - LOWER_LABELS);
    }
}

#[test]
fn dense_spikes_are_not_drawn_beyond_the_plot() {
    let mut curve = stair();
    let spiky = |channels: u32| (channels, if channels.is_multiple_of(2) { 700.0 } else { 100.0 });
    curve.series[0].points = (0..3072).map(spiky).collect();
    let (width, height, pixels) = pixels(&channel_curve(&curve, Format::Png).unwrap());
    let below = (height - ((MARGIN + LOWER_LABELS) as u32 - 2) * PNG_SCALE) * width;
    assert!(!pixels[below as usize..].contains(&GREEN));
}

#[test]
fn samples_are_joined_by_channels_whatever_their_order() {
    let mut shuffled = stair();
    shuffled.series[0].points.reverse();
    assert_eq!(samples(&shuffled, GREEN), samples(&stair(), GREEN));
}

#[test]
fn a_further_series_of_one_kind_is_paler() {
    let mut curve = stair();
    curve.series.push(Series { name: "Winograd".to_owned(), kind: SeriesKind::Gpu, points: vec![(1, 1.0)] });
    assert_eq!(colour(&curve.series, 0), GREEN);
    assert_eq!(colour(&curve.series, 3), tint(GREEN, VARIANT_TINT));
}

#[test]
fn a_curve_without_a_point_is_refused() {
    let mut curve = stair();
    curve.marks.clear();
    for series in &mut curve.series {
        series.points = vec![(1, f64::NAN), (2, -1.0), (3, f64::INFINITY), (4, 1e300)];
    }
    let error = channel_curve(&curve, Format::Png).unwrap_err();
    assert!(error.to_string().contains("Fully connected"), "{error}");
}

#[test]
fn a_single_point_is_a_figure() {
    let series = vec![Series { name: String::new(), kind: SeriesKind::CoExecution, points: vec![(0, 0.0)] }];
    let curve = ChannelCurve {
        title: String::new(),
        subtitle: String::new(),
        channels_label: String::new(),
        series,
        marks: Vec::new(),
    };
    assert!(channel_curve(&curve, Format::Svg).is_ok());
}

#[test]
fn the_legend_stands_where_it_hides_no_line() {
    let elements = elements(&svg(&stair()));
    let ground = elements.iter().find(|one| one.is("rect") && one.attribute("opacity") != "1").unwrap();
    let (left, top) = (ground.length("x"), ground.length("y"));
    let (right, bottom) = (left + ground.length("width"), top + ground.length("height"));
    let inside = |&&(x, y): &&Place| (left..=right).contains(&x) && (top..=bottom).contains(&y);
    for colour in [GREEN, BLUE] {
        assert_eq!(samples(&stair(), colour).iter().filter(inside).count(), 0);
    }
    assert!(right <= f64::from(WIDTH) - RIGHT, "it stands in the plot");
}

#[test]
fn a_legend_too_tall_for_the_plot_makes_it_taller() {
    let mut curve = stair();
    for index in 0..30 {
        let name = format!("series {index}");
        curve.series.push(Series { name, kind: SeriesKind::Cpu, points: vec![(1, 1.0)] });
    }
    let (_, height) = lay_out(&curve).unwrap().size();
    assert!(height > HEIGHT);
    let elements = elements(&svg(&curve));
    let last = elements.iter().find(|one| one.text == "series 29").unwrap();
    assert!(last.length("y") < f64::from(height) - MARGIN - LOWER_LABELS);
}

#[test]
fn an_axis_starts_at_zero_unless_the_values_lie_close_together() {
    assert_eq!(range(10.0, 100.0, 0.25), (0.0, 125.0));
    assert_eq!(range(80.0, 100.0, 0.1), (78.0, 102.0));
    assert_eq!(range(8.0, 8.0, 0.1), (4.0, 12.0));
    assert_eq!(range(0.0, 0.0, 0.1), (0.0, 1.0));
}

#[test]
fn channel_ticks_are_multiples_of_a_power_of_two() {
    assert_eq!(
        channel_ticks((0, 3072)),
        [0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2304, 2560, 2816, 3072]
    );
    assert_eq!(channel_ticks((0, 3134)), [0, 512, 1024, 1536, 2048, 2560, 3072]);
    assert_eq!(channel_ticks((0, 3)), [0, 1, 2, 3]);
    assert_eq!(channel_ticks((u32::MAX - 1, u32::MAX)), [u32::MAX - 1, u32::MAX]);
}
