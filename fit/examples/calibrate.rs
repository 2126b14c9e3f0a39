//! Fits the GPU of a phone to measured runs of a CSV file, and writes its profile to standard output.

use std::error::Error;
use std::path::Path;

use coexec_fit::calibrate::Options;
use coexec_fit::calibrate::gpu::calibrate;
use coexec_fit::measure::{benchmark_gpu, draw};
use coexec_sim::Profile;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/mobile-ml-benchmark");
    let runs = draw::rows(&benchmark_gpu::read(&folder, "pixel4")?.runs, 100, 0);
    let mut profile = Profile::load("pixel4")?;
    let base = profile.gpu.as_ref().ok_or("the profile has no GPU")?;
    let fitted = calibrate(base, &runs, &Options::of("100 runs of mobile-ml-benchmark"), &|_, _| {});
    for table in &fitted.tables {
        eprintln!("{} fitted to {} layers", table.table.key(), table.layers);
    }
    profile.gpu = Some(fitted.gpu);
    print!("{}", profile.to_toml()?);
    Ok(())
}
