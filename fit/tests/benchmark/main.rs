//! The held-out accuracy of fits to the bundled mobile-ml-benchmark measurements of real
//! phones. The accuracy page has the other figures.
//!
//! Takes minutes: run it in release mode only, by its name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cpu;
mod learning;

use std::path::{Path, PathBuf};

/// The folder of the data set.
fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/mobile-ml-benchmark")
}
