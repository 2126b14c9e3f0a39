//! Measured runs, the profiles fitted to them, and the errors of predictions against them.
//!
//! Responsible for: reading runs and reporting unusable ones ([`measure`]), fitting kernel tables
//! ([`calibrate`]), the errors of predictions ([`validate`]), and the predictors of other work, fitted
//! to the same runs ([`predictor`]). Not for: predicting (`coexec-sim`), nor measuring (`coexec-hw`).
//! Invariant: no fit is validated on the points that it was fitted to.
//!
//! Comments that name the *six-phone study* as a source mean an earlier study, which is not part of this
//! repository: it held out each phone of mobile-ml-benchmark in turn to choose weights, prior deviations and
//! the launches that tell most. The book (*Your own phone*) has what came of it.

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod csv_rows;
pub mod measure;
pub mod predictor;
pub mod specification;
pub mod transfer;
pub mod validate;
