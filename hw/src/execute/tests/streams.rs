//! Batches in flight.

use super::*;

fn streamed(machine: &mut Machine, numbers: &[usize], plan_chain: bool, streaming: Streaming) -> Streamed {
    let (stages, profile) = scenario(NETWORK);
    let placements = placements(&stages, &profile, &numbers[..stages.len()]);
    let mut plan = Plan::new(Modelled::SvmPolling, placements);
    if plan_chain {
        let all = stages.len();
        plan.placements[all - 1] = Placement::cpu_and_gpu(Axis::Height, cores(&profile), [3, 6]);
        let chains = (0..all).map(|stage| (stage + 1 == all).then_some(0)).collect();
        plan = plan.chained(chains);
    }
    let task = task((&stages, &profile), &plan);
    stream::stream::<f32>(machine, &task, streaming).unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

#[test]
fn batches_in_flight_are_right_with_every_synchronisation() {
    let Some((_lock, mut machine)) = machine() else { return };
    let check = |machine: &mut Machine| {
        for (numbers, chained) in
            [([0, 1, 2, 0, 1, 2, 0], false), ([2; 7], true), ([1; 7], false), ([0; 7], false)]
        {
            let streaming = Streaming { depth: 3, host_gap: Duration::ZERO, batches: 8 };
            let streamed = streamed(machine, &numbers, chained, streaming);
            assert_eq!((streamed.periods_us.len(), streamed.latencies_us.len()), (8, 8));
            assert!(streamed.period_us() > 0.0 && streamed.verified_elements > 0);
        }
    };
    check(&mut machine);
    for (mechanism, memory) in [
        (Mechanism::EventWait, Home::Device),
        (Mechanism::BlockingFinish, Home::Device),
        (Mechanism::EventPolling, Home::Device),
    ] {
        assume(&mut machine, Modelled::SvmPolling, mechanism, memory);
        check(&mut machine);
    }
}

#[test]
fn host_work_for_a_batch_is_hidden_only_with_other_batches_in_flight() {
    let Some((_lock, mut machine)) = machine() else { return };
    // Far longer than the batch, even on a busy machine.
    let host_gap = Duration::from_millis(20);
    let mut period = |depth| {
        let streaming = Streaming { depth, host_gap, batches: 6 };
        let streamed = streamed(&mut machine, &[0, 1, 2, 0, 1, 2, 0], false, streaming);
        (streamed.period_us(), streamed.batch_latency_us())
    };
    let (one, latency) = period(1);
    assert!(one >= 20_000.0 && latency >= 20_000.0, "one after the other: {one} {latency}");
    let (two, _) = period(2);
    assert!(two >= 19_000.0, "the host's work is done for one batch at a time: {two}");
}
