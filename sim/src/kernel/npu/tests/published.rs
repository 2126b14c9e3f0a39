//! The NPU model against published latencies, rates and power.

use super::*;
use crate::units::Joules;

#[test]
fn the_rows_of_heteroinfers_table_3_are_met() {
    // Outputs, inputs, tokens, published us, accepted relative error. The constants are fitted to
    // the first three rows; the others are predictions.
    let rows = [
        (4096, 4096, 256, 1884.0, 0.002),
        (4096, 4096, 1, 693.0, 0.001),
        (28_672, 4096, 1, 3886.0, 0.001),
        (4096, 4096, 128, 912.0, 0.04),
        (4096, 14_336, 256, 23_445.0, 0.02),
        (4096, 14_336, 1, 6506.0, 0.03),
    ];
    for (outputs, inputs, tokens, published, accepted) in rows {
        let found = micros(&linear(tokens, inputs, outputs), &hexagon());
        let error: f64 = found / published - 1.0;
        assert!(error.abs() < accepted, "{outputs}x{inputs}, {tokens} tokens: {:.1} %", error * 100.0);
    }
}

/// TFLOPS of a square product of 16-bit floats.
fn tera_operations(npu: &SystolicArrays, extent: u32) -> f64 {
    let layer = Layer { data_type: DataType::F16, ..linear(extent, extent, extent) };
    2.0 * f64::from(extent).powi(3) / micros(&layer, npu) / 1e6
}

#[test]
fn large_products_come_close_to_the_published_rates_of_other_npus() {
    // Google Cloud, TPU v4: 275 TFLOPS. ANE guide, M1: near 12 TFLOP/s.
    let tpu = tera_operations(&bundled("tpu-v4"), 8192);
    assert!((0.9 * 275.0..275.0).contains(&tpu), "{tpu}");
    // The ANE guide isolates compute from dispatch by the slope over the rows.
    let neural_engine = bundled("apple-m1");
    let rows = |rows| micros(&Layer { data_type: DataType::F16, ..linear(rows, 512, 512) }, &neural_engine);
    let slope = 2.0 * 32_768.0 * 512.0 * 512.0 / (rows(65_536) - rows(32_768)) / 1e6;
    assert!((0.95 * 12.0..12.01).contains(&slope), "{slope}");
    // A square product does not fit on chip and is memory-bound: contributed rooflines
    // (ANEForge) have 2.7 TFLOP/s for the M1's.
    let square = tera_operations(&neural_engine, 4096);
    assert!((2.0..4.0).contains(&square), "{square}");
}

#[test]
fn the_time_to_prepare_graphs_agrees_with_heteroinfer() {
    // HeteroInfer, section 5.3.2: 408.4 ms at 135 tokens, 2050 ms at 1000.
    for (tokens, published_ms) in [(135, 408.4), (1000, 2050.0)] {
        let found = graph_preparation(&hexagon(), tokens).as_micros();
        assert_close(found, published_ms * 1e3, &format!("{tokens} tokens"));
    }
}

#[test]
fn npu_prefill_draws_about_the_published_power() {
    // HeteroInfer, section 5.8: 2.23 W for prefill with most work on the NPU. The products of one
    // layer of Llama-8B on the NPU alone draw less, since the GPU and the CPU add to that figure.
    let (npu, power) = (hexagon(), profile().power);
    let shapes = [(4096, 4096), (4096, 2048), (4096, 4096), (4096, 28_672), (14_336, 4096)];
    let executions = shapes.map(|(inputs, outputs)| execute(&linear(256, inputs, outputs), &npu).unwrap());
    let time: Picos = executions.iter().map(|execution| execution.phases.duration()).sum();
    let moved: Joules = executions.iter().map(|execution| power.memory_energy(execution.detail.bytes)).sum();
    let watts =
        (power.base().during(time) + power.npu.unwrap().active().during(time) + moved).0 / time.as_seconds();
    assert!((1.5..2.23).contains(&watts), "{watts} W");
}
