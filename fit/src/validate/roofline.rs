//! The roofline baseline: the time of a network from its totals of operations and bytes.
//!
//! Responsible for: the two rates, of arithmetic and of memory, of which the slower bounds the
//! time. It models no launches, kernels or shapes.

/// The totals of a network.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// Multiply-adds.
    pub operations: f64,
    /// Bytes of all tensors and weights, each time they are read or written.
    pub bytes: f64,
}

/// `max(us_per_operation * operations, us_per_byte * bytes)`.
#[derive(Clone, Copy, Debug)]
pub struct Roofline {
    us_per_operation: f64,
    us_per_byte: f64,
}

impl Roofline {
    /// Fits the rates to the totals and measured microseconds of networks: the pair with the least mean
    /// absolute log error, each rate being that of one of the networks. None where no network has
    /// operations or none has bytes.
    pub fn fit(networks: &[(Totals, f64)]) -> Option<Self> {
        let rates = |of: fn(&Totals) -> f64| {
            let has_work = networks.iter().filter(move |(totals, _)| of(totals) > 0.0);
            has_work.map(move |(totals, measured_us)| measured_us / of(totals))
        };
        let candidates = rates(|totals| totals.operations).flat_map(|us_per_operation| {
            rates(|totals| totals.bytes).map(move |us_per_byte| Self { us_per_operation, us_per_byte })
        });
        let error = |line: &Self| {
            let errors =
                networks.iter().map(|(totals, measured_us)| (line.predict(*totals) / measured_us).ln().abs());
            errors.sum::<f64>()
        };
        let scored = candidates.map(|line| (error(&line), line));
        scored.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, line)| line)
    }

    /// Predicted time of a network, in microseconds.
    pub fn predict(&self, totals: Totals) -> f64 {
        (self.us_per_operation * totals.operations).max(self.us_per_byte * totals.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rates_are_found_where_networks_reach_them() {
        let of =
            |operations: f64, bytes: f64| (Totals { operations, bytes }, (2.0 * operations).max(5.0 * bytes));
        let networks = [of(100.0, 1.0), of(50.0, 2.0), of(1.0, 40.0), of(3.0, 90.0)];
        let line = Roofline::fit(&networks).unwrap();
        for (totals, measured_us) in networks {
            assert!((line.predict(totals) / measured_us - 1.0).abs() < 1e-9, "{line:?}");
        }
        assert!(Roofline::fit(&[]).is_none());
    }
}
