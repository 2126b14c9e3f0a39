//! Lists the bundled device profiles, networks and scenario files, so that adding one
//! takes no more than adding its file.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for folder in ["device-profiles", "scenarios/networks", "scenarios"] {
        let list = bundled(&root, folder)?;
        let name = Path::new(folder).file_name().unwrap_or_default();
        fs::write(out.join(name).with_extension("rs"), list)?;
        println!("cargo::rerun-if-changed=../{folder}");
    }
    Ok(())
}

/// Name and content of every TOML file in `folder`, sorted by name, as a Rust array. Files with a dot in
/// their names (`*.plan.toml`) are skipped. Paths are relative to the crate's folder, so the list stays
/// valid when the repository is moved.
fn bundled(root: &Path, folder: &str) -> io::Result<String> {
    let paths = fs::read_dir(root.join(folder))?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let entries = paths.iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".toml")?;
        let file = format!("/../{folder}/{name}.toml");
        let content = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {file:?}))");
        (!name.contains('.')).then(|| format!("({name:?}, {content}),"))
    });
    Ok(format!("&[{}]", entries.collect::<String>()))
}
