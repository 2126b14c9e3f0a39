//! Energy of a prompt of 256 tokens and an answer of 32, by three designs (`HeteroInfer`,
//! section 5.8).

use coexec_sim::device::Profile;
use coexec_sim::explore::{Strategy, explore_language};
use coexec_sim::kernel::Library;
use coexec_sim::plan::Mechanism;
use coexec_sim::simulate::{Conversation, Generation, PhaseReport};
use coexec_sim::workload::{LanguageTask, Turn, WeightFormat, language_model};

fn generation(strategy: Strategy) -> Generation {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let turn = Turn { prompt_tokens: 256, generated_tokens: 32 };
    let task = LanguageTask::single(language_model("llama3-8b").unwrap(), WeightFormat::W4a16, turn);
    let library = Library::default_for(&device.cpu);
    explore_language(Conversation::new(&device, library, &task), strategy, Mechanism::SleepThenPoll)
        .unwrap()
        .generation
}

fn joules(generation: &Generation) -> f64 {
    generation.energy.unwrap().0
}

#[test]
fn layer_wise_prefill_draws_the_published_power_and_the_least_of_the_three() {
    let watts = |strategy| generation(strategy).turns[0].prefill.watts().unwrap();
    let layer = watts(Strategy::HeteroLayer);
    assert!((layer / 2.23 - 1.0).abs() < 0.02, "{layer} W");
    for other in [Strategy::GpuOnly, Strategy::HeteroTensor] {
        assert!(layer < watts(other), "{other:?}");
    }
}

#[test]
fn gpu_and_npu_together_take_about_half_of_the_gpu_s_energy() {
    // Published: 55 % less than the GPU alone, 12.8 % less than layer by layer.
    let tensor = joules(&generation(Strategy::HeteroTensor));
    let gpu = tensor / joules(&generation(Strategy::GpuOnly));
    assert!((gpu / 0.45 - 1.0).abs() < 0.15, "{gpu}");
    let layer = tensor / joules(&generation(Strategy::HeteroLayer));
    assert!((layer / 0.872 - 1.0).abs() < 0.17, "{layer}");
}

#[test]
fn a_token_costs_its_part_of_a_phase() {
    let turn = generation(Strategy::HeteroLayer).turns.remove(0);
    let each = |phase: &PhaseReport| phase.energy_per_token().unwrap().0;
    let decode = turn.decode.unwrap();
    let sum = 256.0 * each(&turn.prefill) + 32.0 * each(&decode);
    let whole = turn.prefill.energy.unwrap().0 + decode.energy.unwrap().0;
    assert!((sum / whole - 1.0).abs() < 1e-9, "{sum} {whole}");
    assert!(each(&decode) > 10.0 * each(&turn.prefill), "each token of an answer reads all weights");
}
