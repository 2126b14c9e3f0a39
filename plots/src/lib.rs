//! Figures and traces of predictions.
//!
//! Responsible for: turning plain data (a timeline, a latency curve, predictions with their
//! measurements) into the bytes of an SVG or PNG figure, or of a trace for Perfetto. There are
//! four kinds of figure: XY, timeline, bars and heat map; all others are built from these. Not
//! for: writing files, which the command does, nor computing the data.
//! Invariant: a figure is a pure function of its data. Text is measured and drawn with the
//! font embedded here, never with a system font, so that a label that fits here fits everywhere.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use thiserror::Error;

mod accuracy;
mod axis;
pub mod figure;
mod font;
mod frame;
mod lanes;
mod learning;
mod legend;
mod mark;
mod nesting;
pub mod palette;
mod picture;
mod shares;
mod timeline;
mod trace;

pub use accuracy::{error_cdf, scatter};
pub use axis::{Axis, Unit};
pub use frame::Figure;
pub use learning::learning_curve;
pub use mark::Mark;
pub use picture::picture;
pub use shares::shares;
pub use timeline::timeline;
pub use trace::trace;

// Shared by the files of this crate.
use axis::{MAX_VALUE, Scale};
use frame::{Drawn, Item, SCALE, TEXT_SIZE, at, steps};
use legend::{Legend, Row};
use palette::{
    BLUE, Colour, GREEN, GREY, GRID, INK, Look, MUTED, ORANGE, PURPLE, Shape, VERMILION, YELLOW, ink_on,
    look, looks, tint,
};

/// The format of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable vector graphics.
    Svg,
    /// Portable network graphics, with two device pixels per figure pixel.
    Png,
}

impl Format {
    /// The format that the extension of `path` names, in either case.
    ///
    /// # Errors
    ///
    /// [`PlotError::UnknownFormat`] for a missing extension, or any other than `svg` and `png`.
    pub fn of(path: &Path) -> Result<Self, PlotError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => Err(PlotError::UnknownFormat { path: path.to_owned() }),
        }
    }
}

/// Why a figure was not drawn.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum PlotError {
    /// The format cannot be determined from the file name.
    #[error("cannot determine the format of the figure {}: its name must end in .svg or .png", path.display())]
    UnknownFormat { path: PathBuf },
    /// A point with a value that cannot be drawn.
    #[error("cannot draw the point of {what}: {found}, expected {expected}")]
    BadPoint { what: String, found: String, expected: String },
    /// More series or cells than a figure can distinguish.
    #[error("the figure would show {count} {what}, but at most {limit} can be distinguished; show fewer")]
    TooMany { what: &'static str, count: usize, limit: usize },
    /// A figure without a point.
    #[error("the figure '{title}' has no point to draw")]
    NoPoints { title: String },
    /// More rows than one figure can show.
    #[error("the figure would be {height} pixels tall, but at most {limit} can be drawn; show fewer tracks")]
    TooTall { height: u32, limit: u32 },
    /// The drawing library refused.
    #[error("cannot draw the figure: {0}")]
    Draw(String),
    /// The picture could not be encoded.
    #[error("cannot encode the figure as PNG")]
    Encode(#[from] png::EncodingError),
}

/// Refuses more of `what` than `limit`.
fn at_most(limit: usize, what: &'static str, count: usize) -> Result<(), PlotError> {
    if count > limit { Err(PlotError::TooMany { what, count, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_selects_the_format_in_either_case() {
        assert_eq!(Format::of(Path::new("a/b.svg")).unwrap(), Format::Svg);
        assert_eq!(Format::of(Path::new("b.PNG")).unwrap(), Format::Png);
    }

    #[test]
    fn another_extension_is_refused_by_name() {
        for name in ["b.pdf", "png", "b.", ""] {
            let message = Format::of(Path::new(name)).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(".svg or .png"), "{message}");
        }
    }
}

#[cfg(test)]
mod test_figures;
