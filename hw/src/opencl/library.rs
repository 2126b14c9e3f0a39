//! Where the `OpenCL` library is looked for.
//!
//! The environment variable `OPENCL_DYLIB_PATH` names libraries, separated by `;`;
//! the first that loads is taken, and where it names only files that do not exist there
//! is none. After it, or without it, the loader's `libOpenCL.so.1` is tried. Android has no such loader: there, without the
//! variable, the vendors' libraries are tried in the order of [`ANDROID_PATHS`].

use std::path::Path;

use super::{OpenClError, Result};

/// Names the libraries to try.
pub const PATH_VARIABLE: &str = "OPENCL_DYLIB_PATH";

/// Where vendors install the library on Android: Qualcomm and most others, the
/// same under its older root, Arm (the GLES driver holds `OpenCL` too), Imagination.
pub const ANDROID_PATHS: [&str; 5] = [
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/system/vendor/lib64/egl/libGLES_mali.so",
    "libPVROCL.so",
];

/// The library that is tried last, everywhere.
const LOADER: &str = "libOpenCL.so.1";

/// Loads the library, once.
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

/// Whether all that is named are paths to nothing. A name without a folder is the
/// system's to find.
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
            // SAFETY: the standard library's lock keeps other Rust code from reading
            // the environment meanwhile, and no library of another language has been
            // loaded yet that could.
            unsafe { std::env::set_var(PATH_VARIABLE, ANDROID_PATHS.join(";")) };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_to_nothing_are_no_library() {
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
