//! The accuracy limits on real phones: the mobile-ml-benchmark data set, and fits kept
//! from seeing what they are judged by. The data are not part of the repository; without
//! them these tests say that they were skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cpu;
mod gpu;
mod inference;
mod learning;

use std::path::{Path, PathBuf};

/// The folder of the data set; none, and it says so, where there is none.
fn data() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/mobile-ml-benchmark");
    let folder = std::env::var_os("COEXEC_BENCHMARK_DATA").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("SKIPPED: no data in {}; set COEXEC_BENCHMARK_DATA", folder.display());
    None
}

/// Whether fits of many phones end within minutes; says so where they would not.
fn is_optimised() -> bool {
    if cfg!(debug_assertions) {
        println!("SKIPPED: many calibrations take many minutes unless built with --release");
    }
    !cfg!(debug_assertions)
}
