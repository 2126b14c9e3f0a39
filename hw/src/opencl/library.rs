//! Search for the `OpenCL` library.
//!
//! The environment variable `OPENCL_DYLIB_PATH` lists libraries, separated by `;`; the first that
//! loads is used. If it lists only paths that do not exist, the search ends there. Otherwise the
//! loader's `libOpenCL.so.1` is tried last. Android has no such loader: there, without the
//! variable, the vendors' libraries are tried in the order of [`ANDROID_PATHS`].

use std::path::Path;

use super::{OpenClError, Result};

/// Environment variable that lists the libraries to try.
pub const PATH_VARIABLE: &str = "OPENCL_DYLIB_PATH";

/// Paths of the vendors' libraries on Android: Qualcomm and most others, then their older root;
/// Arm, whose GLES driver contains `OpenCL`; Imagination.
pub const ANDROID_PATHS: [&str; 5] = [
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/system/vendor/lib64/egl/libGLES_mali.so",
    "libPVROCL.so",
];

/// The library that is tried last, on every system.
const LOADER: &str = "libOpenCL.so.1";

/// Loads the library on the first call.
///
/// # Errors
/// [`OpenClError::NoLibrary`] where there is none.
pub(super) fn load() -> Result<()> {
    #[cfg(target_os = "android")]
    name_vendor_paths();
    let named = std::env::var(PATH_VARIABLE).unwrap_or_default();
    if names_nothing(&named) {
        return Err(OpenClError::NoLibrary { searched: named });
    }
    if cl3::is_opencl_runtime_available() {
        return Ok(());
    }
    let searched = named.split(';').filter(|path| !path.is_empty()).chain([LOADER]);
    Err(OpenClError::NoLibrary { searched: searched.collect::<Vec<_>>().join(", ") })
}

/// Whether every listed entry is a path that does not exist. A bare file name is resolved by the
/// system, so it may exist.
fn names_nothing(named: &str) -> bool {
    let mut paths = named.split(';').filter(|path| !path.is_empty()).map(Path::new).peekable();
    paths.peek().is_some()
        && paths.all(|path| path.parent().is_some_and(|folder| folder != Path::new("")) && !path.exists())
}

#[cfg(target_os = "android")]
fn name_vendor_paths() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if std::env::var_os(PATH_VARIABLE).is_none() {
            // SAFETY: the standard library's lock keeps other Rust code from reading the
            // environment meanwhile, and no foreign library that could read it is loaded yet.
            unsafe { std::env::set_var(PATH_VARIABLE, ANDROID_PATHS.join(";")) };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_paths_are_not_libraries() {
        assert!(names_nothing("/nonexistent/a.so;/nonexistent/b.so"));
        assert!(!names_nothing(""));
        assert!(!names_nothing("/nonexistent/a.so;libOpenCL.so"), "the system looks for a name");
        assert!(!names_nothing("/"), "it is there");
    }

    #[test]
    fn android_tries_the_common_path_before_a_vendor_s_own() {
        assert!(ANDROID_PATHS[0].ends_with("libOpenCL.so"));
        assert_eq!(ANDROID_PATHS.iter().filter(|path| path.contains("mali")).count(), 2);
    }
}
