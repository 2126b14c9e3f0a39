//! Invalid operands and unsupported operators are rejected.

use super::*;
use coexec_sim::Region;
use coexec_sim::workload::Recurrent;

#[test]
fn what_does_not_fit_is_refused() {
    let linear = Operator::Linear(Linear { rows: 2, input_features: 3, output_features: 4, bias: false });
    let layer = layer(linear, &[]);
    let kernel = [0.0; 12];
    let weights = Weights { kernel: &kernel, bias: &[] };
    let portable = InstructionSet::Portable;
    let prepare = |weights: &Weights<'_>, set| Prepared::<f32>::new(&layer, weights, set);
    assert!(matches!(
        prepare(&Weights { kernel: &kernel[1..], bias: &[] }, portable),
        Err(OperandError::Count { .. })
    ));
    let absent = InstructionSet::ALL.iter().copied().find(|&set| !is_available(set)).unwrap();
    assert!(matches!(prepare(&weights, absent), Err(OperandError::InstructionSet(_))));
    assert!(matches!(Prepared::<f16>::new(&layer, &weights, portable), Err(OperandError::DataType { .. })));
    let mut prepared = prepare(&weights, portable).unwrap();
    let mut pool = ThreadPool::new(1).unwrap();
    let mut output = [0.0; 8];
    let part = Region::of(layer.operator.output());
    let mut run = |input: &[f32], room: usize| prepared.run(&mut pool, &[input], &mut output[..room], part);
    assert!(matches!(run(&[0.0; 5], 8), Err(OperandError::Count { expected: 6, .. })));
    assert!(matches!(run(&[0.0; 6], 7), Err(OperandError::Count { expected: 8, .. })));
    assert!(run(&[0.0; 6], 8).is_ok());
    assert_eq!(layer.operator.output().lines(), 2);
}

#[test]
fn an_index_beyond_the_table_is_that_of_its_nearest_row() {
    let table = Operator::Embedding(Embedding { rows: 1, vocabulary: 3, features: 2 });
    let layer = layer(table, &[]);
    let weights = Weights { kernel: &[0.0, 0.5, 1.0, 1.5, 2.0, 2.5], bias: &[] };
    let mut prepared = Prepared::<f32>::new(&layer, &weights, InstructionSet::Portable).unwrap();
    let mut pool = ThreadPool::new(1).unwrap();
    let part = Region::of(layer.operator.output());
    for (index, row) in [(2.0, 2.0), (3.0, 2.0), (-1.0, 0.0), (0.5, 0.0), (f32::NAN, 0.0)] {
        let mut output = [0.0; 2];
        prepared.run(&mut pool, &[&[index]], &mut output, part).unwrap();
        assert_eq!(output.map(f32::to_bits), [row, row + 0.5].map(f32::to_bits), "index {index}");
    }
}

#[test]
fn an_operator_without_a_kernel_is_refused_by_name() {
    let recurrent = Recurrent { sequences: 1, steps: 5, gates: 4, features: 16, bias: true };
    let layer = layer(recurrent.into(), &[]);
    let [kernel, bias] = weight_counts(&layer.operator).map(|count| vec![0.0; count]);
    let weights = Weights { kernel: &kernel, bias: &bias };
    let prepared = Prepared::<f32>::new(&layer, &weights, InstructionSet::Portable);
    let error = prepared.err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.starts_with("recurrent")));
}
