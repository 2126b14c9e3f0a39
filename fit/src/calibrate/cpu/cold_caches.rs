//! Fit of what operators cost inside a network beyond their time when repeated by themselves.
//!
//! Responsible for: the values of `[cpu.cold_caches]`, given the rates of coexec's own kernels. Not
//! for: those rates (`super::fit`), or the equation, which the kernel model is asked for with one
//! value at a time.

use crate::calibrate::gpu::Fitted;
use crate::calibrate::least_squares::{Stop, minimise, pseudo_huber};
use coexec_sim::device::cpu::{ColdCaches, Cpu};
use coexec_sim::kernel::cpu::{CoreSet, Library, execute, execute_in_network};
use coexec_sim::{Layer, Quantity};

/// Keys in the profile, with their centres: a microsecond, and a byte at 10 and at 30 GB/s, as a
/// server's core reads from memory and from the caches of others.
const PRIORS: [(&str, f64); 3] = [("operator_us", 1.0), ("weight_byte_ns", 0.1), ("tensor_byte_ns", 0.03)];
/// Prior deviation of their logarithms: a phone's memory is up to ten times slower.
const DEVIATION: f64 = 1.5;
/// Relative error of the kernel model on an operator, from which the loss grows linearly.
const EXPECTED_ERROR: f64 = 0.1;

/// An operator timed inside a network.
#[derive(Clone, Debug)]
pub struct InNetwork<'a> {
    /// The operator.
    pub layer: &'a Layer,
    /// The cores that computed it.
    pub cores: CoreSet,
    /// Its time.
    pub measured_us: f64,
}

/// The values for which `cpu` predicts the `timed` operators best, by robust least squares on their
/// logarithms; none where no operator is predicted.
pub fn cold_caches(cpu: &Cpu, timed: &[InNetwork<'_>], source: &str) -> Option<ColdCaches> {
    let units: Vec<ColdCaches> = (0..PRIORS.len())
        .map(|unit| {
            made(source, std::array::from_fn(|index| Quantity::plain(f64::from(u8::from(index == unit)))))
        })
        .collect();
    let cpus: Vec<Cpu> =
        units.into_iter().map(|unit| Cpu { cold_caches: Some(unit), ..cpu.clone() }).collect();
    let terms: Vec<([f64; 1 + PRIORS.len()], f64)> =
        timed.iter().filter_map(|one| terms(cpu, &cpus, one)).collect();
    if terms.is_empty() {
        return None;
    }
    let solution = minimise(vec![0.0; PRIORS.len()], Stop::default(), |places| {
        let values = || PRIORS.iter().zip(places).map(|((_, centre), place)| centre * place.exp());
        let error = |([repeated, units @ ..], measured): &([f64; 1 + PRIORS.len()], f64)| {
            let inside: f64 =
                repeated + units.iter().zip(values()).map(|(unit, value)| unit * value).sum::<f64>();
            pseudo_huber((inside / measured).ln(), EXPECTED_ERROR)
        };
        let prior = places.iter().map(|place| EXPECTED_ERROR * place / DEVIATION);
        terms.iter().map(error).chain(prior).collect()
    });
    let quantity = |index: usize| {
        let (key, centre) = PRIORS[index];
        let known = solution.posterior(index, (DEVIATION, EXPECTED_ERROR), terms.len());
        Fitted::of(key, centre, known).quantity(source, 1.0)
    };
    Some(made(source, std::array::from_fn(quantity)))
}

fn made(source: &str, [operator_us, weight_byte_ns, tensor_byte_ns]: [Quantity; PRIORS.len()]) -> ColdCaches {
    ColdCaches { source: source.to_owned(), operator_us, weight_byte_ns, tensor_byte_ns }
}

/// The time of an operator when repeated, what one unit of each value adds, and its measured time, in
/// microseconds; `cpus` have that unit.
fn terms(cpu: &Cpu, cpus: &[Cpu], timed: &InNetwork<'_>) -> Option<([f64; 1 + PRIORS.len()], f64)> {
    let InNetwork { layer, cores, measured_us } = timed;
    let repeated = execute(layer, cpu, cores, Library::Coexec).ok()?.phases.duration().as_micros();
    let mut terms = [repeated; 1 + PRIORS.len()];
    for (term, cpu) in terms[1..].iter_mut().zip(cpus) {
        let inside = execute_in_network(layer, cpu, cores, Library::Coexec).ok()?;
        *term = inside.phases.duration().as_micros() - repeated;
    }
    (repeated > 0.0 && *measured_us > 0.0).then_some((terms, *measured_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::workload::{DataType, Elementwise, Function, Linear, Operator, Shape};

    fn layers() -> Vec<Layer> {
        let linear =
            |features| Linear { rows: 50, input_features: features, output_features: 256, bias: true };
        let products = (1..40).map(|number| Operator::from(linear(64 * number)));
        let function =
            |side| Elementwise { function: Function::Relu, input: Shape::image(side, side, 32), other: None };
        let functions = (1..40).map(|number| Operator::from(function(4 * number)));
        products.chain(functions).map(|operator| Layer::new(operator, DataType::F32)).collect()
    }

    #[test]
    fn the_values_that_made_the_times_are_found_again() {
        let mut cpu = coexec_sim::Profile::load("xeon-pocl").unwrap().cpu;
        cpu.cold_caches = Some(made("test", [2.0, 0.3, 0.05].map(Quantity::plain)));
        let cores = CoreSet::parse("3large", &cpu).unwrap();
        let layers = layers();
        let measured_us = |layer| {
            let inside = execute_in_network(layer, &cpu, &cores, Library::Coexec).unwrap();
            inside.phases.duration().as_micros()
        };
        let timed: Vec<InNetwork<'_>> =
            layers.iter().map(|layer| InNetwork { layer, cores, measured_us: measured_us(layer) }).collect();
        let warm = Cpu { cold_caches: None, ..cpu.clone() };
        let found = cold_caches(&warm, &timed, "test").unwrap();
        let values = [&found.operator_us, &found.weight_byte_ns, &found.tensor_byte_ns];
        for (found, made) in values.into_iter().zip([2.0, 0.3, 0.05]) {
            assert!((found.value / made - 1.0).abs() < 0.1, "{found:?}, made with {made}");
        }
        assert_eq!(cold_caches(&warm, &[], "test"), None);
    }
}
