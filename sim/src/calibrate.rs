//! Measured runs in, fitted parameters out.
//!
//! Responsible for: fitting kernel models to runs, and saying how well each
//! parameter is known. Not for: reading runs, or judging predictions on other
//! runs. Invariant: what is fitted is never validated on the same points.

mod conformal;
pub mod cpu;
pub mod gpu;
pub mod host;
pub mod interference;
pub mod learning;
pub mod least_squares;
