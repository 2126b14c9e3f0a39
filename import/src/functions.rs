//! Operators that compute each element by itself: their names in ONNX, their number and name
//! in TFLite, and what they do.
//!
//! Responsible for: what both formats have. Not for: operands and attributes, which each
//! format's reader knows. Invariant: no name and no number stands twice.

use crate::model::Elemental::{
    self, Ceil, Cheap, Clip, Erf, Floor, Known, Negate, Reciprocal, ReciprocalSqrt, Sqrt, Square,
    Transcendental,
};
use crate::model::{Arithmetic, Work};
use coexec_sim::workload::Function;

/// Names in ONNX, number and name in TFLite, and what it does.
type Entry<T> = (&'static [&'static str], Option<(i32, &'static str)>, T);

/// Functions of one tensor.
const FUNCTIONS: &[Entry<Elemental>] = &[
    (&["Relu"], Some((19, "RELU")), Known(Function::Relu)),
    (&[], Some((21, "RELU6")), Known(Function::Relu6)),
    (&["Sigmoid"], Some((14, "LOGISTIC")), Known(Function::Sigmoid)),
    (&["HardSigmoid"], None, Known(Function::HardSigmoid)),
    (&["HardSwish"], Some((117, "HARD_SWISH")), Known(Function::HardSwish)),
    (&["Swish", "Silu", "QuickGelu"], None, Known(Function::Silu)),
    (&["Gelu", "FastGelu"], Some((150, "GELU")), Known(Function::Gelu)),
    (&["Tanh"], Some((28, "TANH")), Known(Function::Tanh)),
    (&["Clip"], Some((20, "RELU_N1_TO_1")), Clip),
    (&[], Some((152, "RELU_0_TO_1")), Clip),
    (&["Erf"], None, Erf),
    (&["Sqrt"], Some((75, "SQRT")), Sqrt),
    (&[], Some((76, "RSQRT")), ReciprocalSqrt),
    (&["Reciprocal"], None, Reciprocal),
    (&[], Some((92, "SQUARE")), Square),
    (&["Neg"], Some((59, "NEG")), Negate),
    (&["Floor"], Some((8, "FLOOR")), Floor),
    (&["Ceil"], Some((104, "CEIL")), Ceil),
    (&["LeakyRelu"], Some((98, "LEAKY_RELU")), Cheap),
    (&["PRelu"], Some((54, "PRELU")), Cheap),
    (&["Abs"], Some((101, "ABS")), Cheap),
    (&["Sign"], Some((158, "SIGN")), Cheap),
    (&["Round"], Some((116, "ROUND")), Cheap),
    (&["ThresholdedRelu", "Not"], None, Cheap),
    (&["Elu"], Some((111, "ELU")), Transcendental),
    (&["Exp"], Some((47, "EXP")), Transcendental),
    (&["Log"], Some((73, "LOG")), Transcendental),
    (&["Sin"], Some((66, "SIN")), Transcendental),
    (&["Cos"], Some((108, "COS")), Transcendental),
    (&["Selu", "Celu", "Softplus", "Softsign", "Mish"], None, Transcendental),
];

/// Arithmetic on two tensors.
const ARITHMETIC: &[Entry<Arithmetic>] = &[
    (&["Add", "Sum", "Mean", "BiasAdd"], Some((0, "ADD")), Arithmetic::Add),
    (&[], Some((106, "ADD_N")), Arithmetic::Add),
    (&["Sub"], Some((41, "SUB")), Arithmetic::Subtract),
    (&["Mul"], Some((18, "MUL")), Arithmetic::Multiply),
    (&["Div"], Some((42, "DIV")), Arithmetic::Divide),
    (&[], Some((90, "FLOOR_DIV")), Arithmetic::Divide),
    (&["Pow"], Some((78, "POW")), Arithmetic::Power),
    (&["Max"], Some((55, "MAXIMUM")), Arithmetic::Maximum),
    (&["Min"], Some((57, "MINIMUM")), Arithmetic::Minimum),
    (&[], Some((99, "SQUARED_DIFFERENCE")), Arithmetic::SquaredDifference),
    (&["Equal"], Some((71, "EQUAL")), Arithmetic::Equal),
    (&["And", "Or", "Xor", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"], None, Arithmetic::Compare),
    (&["Mod"], Some((95, "FLOOR_MOD")), Arithmetic::Modulo),
];

/// What the operator of that name in ONNX does.
pub(super) fn of_onnx(name: &str) -> Option<Work> {
    let function =
        FUNCTIONS.iter().find(|entry| entry.0.contains(&name)).map(|entry| Work::Function(entry.2));
    let arithmetic = || ARITHMETIC.iter().find(|entry| entry.0.contains(&name));
    function.or_else(|| Some(Work::Arithmetic(arithmetic()?.2)))
}

/// Name of the operator of that number in TFLite, and what it does.
pub(super) fn of_tflite(code: i32) -> Option<(&'static str, Work)> {
    let functions = FUNCTIONS.iter().map(|(_, tflite, function)| (tflite, Work::Function(*function)));
    let arithmetic = ARITHMETIC.iter().map(|(_, tflite, one)| (tflite, Work::Arithmetic(*one)));
    let known = |(tflite, work): (&Option<(i32, &'static str)>, Work)| {
        tflite.filter(|&(number, _)| number == code).map(|(_, name)| (name, work))
    };
    functions.chain(arithmetic).find_map(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_and_no_number_stands_twice() {
        let names: Vec<&str> = FUNCTIONS
            .iter()
            .flat_map(|entry| entry.0)
            .chain(ARITHMETIC.iter().flat_map(|entry| entry.0))
            .copied()
            .collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let numbers: Vec<i32> = FUNCTIONS
            .iter()
            .filter_map(|entry| entry.1)
            .chain(ARITHMETIC.iter().filter_map(|entry| entry.1))
            .map(|(number, _)| number)
            .collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
    }
}
