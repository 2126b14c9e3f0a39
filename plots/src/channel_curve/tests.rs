use super::*;
use crate::canvas::Shape;
use crate::canvas::render::PNG_SCALE;

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

fn lines(drawing: &Drawing, wanted: Colour) -> Vec<&Vec<Point>> {
    drawing
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            Shape::Line { points, colour, .. } if *colour == wanted && points.len() > 2 => Some(points),
            _ => None,
        })
        .collect()
}

#[test]
fn an_svg_names_title_axes_series_and_marks() {
    let svg = String::from_utf8(channel_curve(&stair(), Format::Svg).unwrap()).unwrap();
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
        assert!(svg.contains(&format!("\n{expected}\n</text>")), "{expected}");
    }
    assert!(svg.starts_with("<svg width=\"900\" height=\"520\" "));
}

#[test]
fn a_png_has_the_size_of_the_figure_and_the_colours_of_its_lines() {
    let png = channel_curve(&stair(), Format::Png).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((frame.width, frame.height), (WIDTH * PNG_SCALE, HEIGHT * PNG_SCALE));
    for colour in [GREEN, BLUE, INK] {
        let area = pixels.chunks(3).filter(|pixel| *pixel == [colour.0, colour.1, colour.2]).count();
        assert!(area > 500, "{colour:?} covers {area} pixels");
    }
}

#[test]
fn a_line_keeps_every_sample_and_every_sample_lies_in_the_plot() {
    let drawing = draw(&stair()).unwrap();
    let gpu = lines(&drawing, GREEN);
    assert_eq!(gpu.len(), 1);
    assert_eq!(gpu[0].len(), 385);
    let spikes = gpu[0].windows(3).filter(|near| near[1].y < near[0].y.min(near[2].y) - 20.0);
    assert_eq!(spikes.count(), 24, "each spike stands out");
    for point in gpu[0] {
        assert!((LEFT..=f64::from(WIDTH) - RIGHT).contains(&point.x) && point.y <= f64::from(HEIGHT) - BELOW);
    }
}

#[test]
fn samples_are_joined_by_channels_whatever_their_order() {
    let mut shuffled = stair();
    shuffled.series[0].points.reverse();
    assert_eq!(lines(&draw(&shuffled).unwrap(), GREEN), lines(&draw(&stair()).unwrap(), GREEN));
}

#[test]
fn a_further_series_of_one_kind_is_paler() {
    let mut curve = stair();
    curve.series.push(Series { name: "Winograd".to_owned(), kind: SeriesKind::Gpu, points: vec![(1, 1.0)] });
    assert_eq!(colour(&curve.series, 0), GREEN);
    assert_eq!(colour(&curve.series, 3), GREEN.tint(VARIANT_TINT));
}

#[test]
fn a_curve_without_a_point_is_refused() {
    let mut curve = stair();
    curve.marks.clear();
    for series in &mut curve.series {
        series.points = vec![(1, f64::NAN), (2, -1.0), (3, f64::INFINITY)];
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
fn a_legend_too_wide_for_a_row_takes_more_height_not_the_plots() {
    let mut curve = stair();
    for index in 0..12 {
        let name = format!("a series with a long name {index}");
        curve.series.push(Series { name, kind: SeriesKind::Cpu, points: vec![(1, 1.0)] });
    }
    assert!(draw(&curve).unwrap().height > HEIGHT);
}
