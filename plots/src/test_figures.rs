//! Helpers of tests that inspect drawn figures: the elements of an SVG, the pixels of a PNG.

use plotters::style::RGBColor;

use crate::frame::SCALE;

/// Tolerance for the rounding of places to the grid, in figure pixels.
pub(crate) const ROUNDING: f64 = 0.3;

/// An element of an SVG: its start tag, and the text in it.
pub(crate) struct Element {
    tag: String,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.tag.starts_with(&format!("{name} "))
    }

    pub(crate) fn attribute(&self, name: &str) -> &str {
        let (_, rest) = self.tag.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0
    }

    /// A length, in figure pixels.
    pub(crate) fn length(&self, name: &str) -> f64 {
        self.attribute(name).parse::<f64>().unwrap() / f64::from(SCALE)
    }

    pub(crate) fn has_colour(&self, name: &str, colour: RGBColor) -> bool {
        self.attribute(name) == format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
    }
}

/// The elements of an SVG without children, in order.
pub(crate) fn elements(svg: &[u8]) -> Vec<Element> {
    let svg = std::str::from_utf8(svg).unwrap();
    let tags = svg.split('<').skip(2).filter(|tag| !tag.starts_with('/'));
    tags.map(|tag| tag.split_once('>').unwrap())
        .map(|(tag, text)| Element { tag: tag.to_owned(), text: text.trim().to_owned() })
        .collect()
}

/// Texts of an SVG.
pub(crate) fn words(svg: &[u8]) -> Vec<String> {
    elements(svg).into_iter().filter(|one| one.is("text")).map(|one| one.text).collect()
}

/// Width, height and pixels of a PNG.
pub(crate) fn pixels(png: &[u8]) -> (u32, u32, Vec<RGBColor>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut bytes).unwrap();
    let pixels = bytes.chunks_exact(3).map(|pixel| RGBColor(pixel[0], pixel[1], pixel[2]));
    (frame.width, frame.height, pixels.collect())
}
