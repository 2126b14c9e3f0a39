//! The accuracy of fits on real phones: the bundled mobile-ml-benchmark measurements, and fits
//! kept from seeing what they are judged by. The accuracy page holds the rest.
//!
//! Minutes of fits: in release only, by its name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cpu;
mod learning;

use std::path::{Path, PathBuf};

/// The folder of the data set.
fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/mobile-ml-benchmark")
}
