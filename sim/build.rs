//! Lists the device profiles and scenario files that come with the crate, so that adding one takes its
//! file alone.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for folder in ["device-profiles", "scenarios"] {
        let list = bundled(&root.join(folder))?;
        fs::write(out.join(folder).with_extension("rs"), list)?;
        println!("cargo::rerun-if-changed=../{folder}");
    }
    Ok(())
}

/// Name and content of every TOML file in `folder` that is no plan, by name, as a Rust array.
fn bundled(folder: &Path) -> io::Result<String> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let entries = paths.iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".toml")?;
        (!name.contains('.')).then(|| format!("({name:?}, include_str!({:?})),", path.display().to_string()))
    });
    Ok(format!("&[{}]", entries.collect::<String>()))
}
