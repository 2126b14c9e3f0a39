//! Measured runs, the profiles fitted to them, and how well predictions agree with them.
//!
//! Responsible for: reading runs and naming what cannot be used ([`measure`]), fitting kernel
//! tables to them ([`calibrate`]), error figures of predictions ([`validate`]), and the
//! predictors of other work, fitted on the same runs ([`predictor`]). Not for: predicting, which
//! is `coexec-sim`'s; nor for making measurements, which is `coexec-hw`'s.
//! Invariant: what is fitted is never validated on the same points.

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod csv_rows;
pub mod measure;
pub mod predictor;
pub mod specification;
pub mod transfer;
pub mod validate;
