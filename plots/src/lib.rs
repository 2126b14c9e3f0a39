//! Figures and traces.
