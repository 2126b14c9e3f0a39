//! The mechanisms on the available device, and their hazards.
//!
//! Without a platform the tests are skipped with a message; with `COEXEC_REQUIRE_OPENCL=1` they
//! fail instead.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::round::await_device;
use super::*;
use crate::opencl::events::{flush, wait};
use crate::opencl::signals::{FlagHome, Signals, Word};
use crate::opencl::traffic::BoundKernel;
use crate::opencl::{DeviceKind, OpenClError, Runtime};

/// Status of a wait that the host released.
const GIVEN_UP: u32 = 2;
/// Time limit of a step on a busy machine that is also compiling.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs `body` in a subprocess. After a device was given up, a driver's threads may run on and use
/// memory that another test, or the end of the process, has freed.
fn in_subprocess(test: &str, body: impl FnOnce()) {
    const TEST: &str = "COEXEC_TEST_ALONE";
    if std::env::var(TEST).is_ok_and(|alone| alone == test) {
        body();
        crate::exit_immediately(0);
    }
    let Some(_device) = crate::tests::device() else { return };
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("sync::tests::{test}")])
        .env(TEST, test)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&child.stderr);
    print!("{}{stderr}", String::from_utf8_lossy(&child.stdout));
    assert!(child.status.success(), "{}: {stderr}", child.status);
}

/// A runtime on the test device, cut to one compute unit if it is a CPU; call it in a subprocess.
fn device() -> Option<Arc<Runtime>> {
    let (_lock, device) = crate::tests::device()?;
    let device = match device.description().kind {
        DeviceKind::Cpu => device.sub_device(1).unwrap(),
        _ => device,
    };
    Some(Runtime::new(device).unwrap())
}

/// Flags, where the device has fine-grained shared memory.
fn signals(runtime: &Arc<Runtime>) -> Option<Signals> {
    runtime.device().polls_shared_memory.then(|| {
        let mut signals = Signals::new(runtime, FlagHome::Shared).unwrap();
        signals.reset();
        signals
    })
}

#[test]
fn every_mechanism_notifies_or_says_why_it_cannot() {
    in_subprocess("every_mechanism_notifies_or_says_why_it_cannot", || {
        let Some(runtime) = device() else { return };
        for &mechanism in Mechanism::ALL {
            let found = measure_within(&runtime, mechanism, (20, LIMIT), LIMIT * 3);
            if let Err(unsound) = found {
                assert!(!runtime.is_lost(), "{unsound}");
                println!("{unsound}");
                continue;
            }
            let times = measure(&runtime, mechanism, 50, LIMIT).unwrap();
            assert_eq!((times.to_host.len(), times.to_device.len()), (50, 50));
            println!(
                "{mechanism}: to host {}, to device {}, +-{}",
                median(&times.to_host),
                median(&times.to_device),
                times.uncertainty
            );
        }
    });
}

#[test]
fn flags_synchronise_without_a_launch() {
    in_subprocess("flags_synchronise_without_a_launch", || {
        let Some(runtime) = device() else { return };
        for mechanism in [Mechanism::SvmPolling, Mechanism::PinnedPolling] {
            match ping_pong(&runtime, mechanism, 1_000, LIMIT) {
                Ok(times) => {
                    assert_eq!(times.len(), 999);
                    println!("{mechanism}: round trip {}", median(&times));
                }
                Err(error) => println!("{mechanism}: {error}"),
            }
        }
        assert!(ping_pong(&runtime, Mechanism::EventWait, 1, LIMIT).is_err());
    });
}

#[test]
fn the_last_of_many_work_groups_notifies_the_host() {
    in_subprocess("the_last_of_many_work_groups_notifies_the_host", || {
        let Some(runtime) = device() else { return };
        let Some(signals) = signals(&runtime) else { return };
        let groups = runtime.device().compute_units as usize * 64;
        let mut work = BoundKernel::announcing(&runtime, [groups, 1], 100, Some(&signals)).unwrap();
        for round in 1..=20 {
            let kernel = work.enqueue_announcing(round).unwrap();
            let waiting = signals.enqueue_hand_over(None, Some(round)).unwrap();
            flush(&runtime).unwrap();
            await_device(&signals, round, LIMIT).unwrap();
            signals.signal(round);
            wait(&runtime, &kernel, "a kernel that announces itself", LIMIT).unwrap();
            wait(&runtime, &waiting, "a meeting", LIMIT).unwrap();
            signals.check(round).unwrap();
        }
    });
}

#[test]
fn an_unanswered_kernel_stops_spinning() {
    in_subprocess("an_unanswered_kernel_stops_spinning", || {
        let Some(runtime) = device() else { return };
        let Some(signals) = signals(&runtime) else { return };
        let kernel = signals.enqueue_hand_over(Some(7), Some(7)).unwrap();
        wait(&runtime, &kernel, "a meeting", LIMIT).unwrap();
        assert_eq!(signals.check(7), Err(OpenClError::SpunOut { round: 7 }));
    });
}

#[test]
fn a_flag_visible_before_its_data_is_detected() {
    in_subprocess("a_flag_visible_before_its_data_is_detected", || {
        let Some(runtime) = device() else { return };
        let Some(mut signals) = signals(&runtime) else { return };
        signals.release();
        let kernel = signals.enqueue_hand_over(None, Some(1)).unwrap();
        wait(&runtime, &kernel, "a meeting", LIMIT).unwrap();
        assert_eq!(signals.word(Word::Status).load(Ordering::SeqCst), GIVEN_UP);
        signals.reset();
        signals.word(Word::Host).store(1, Ordering::SeqCst);
        let kernel = signals.enqueue_hand_over(None, Some(1)).unwrap();
        wait(&runtime, &kernel, "a meeting", LIMIT).unwrap();
        assert_eq!(signals.check(1), Err(OpenClError::Stale { who: "device", round: 1 }));
    });
}

#[test]
fn a_host_whose_wait_times_out_releases_the_device_and_continues() {
    in_subprocess("a_host_whose_wait_times_out_releases_the_device_and_continues", || {
        let Some(runtime) = device() else { return };
        let Some(mut signals) = signals(&runtime) else { return };
        let kernel = signals.enqueue_hand_over(Some(1), Some(1)).unwrap();
        flush(&runtime).unwrap();
        let started = Instant::now();
        let limit = Duration::from_millis(100);
        // The device announces 1, never 2.
        let error = await_device(&signals, 2, limit).unwrap_err();
        assert!(matches!(error, OpenClError::TimedOut { limit_ms: 100, .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10), "it gave up in time");
        wait(&runtime, &kernel, "a released meeting", LIMIT).unwrap();
        assert_eq!(signals.word(Word::Status).load(Ordering::SeqCst), GIVEN_UP);
        // The device is usable as before.
        signals.reset();
        let kernel = signals.enqueue_hand_over(Some(3), Some(3)).unwrap();
        flush(&runtime).unwrap();
        await_device(&signals, 3, LIMIT).unwrap();
        signals.signal(3);
        wait(&runtime, &kernel, "a meeting", LIMIT).unwrap();
        signals.check(3).unwrap();
    });
}

#[test]
fn a_kernel_that_outlasts_its_limit_is_an_error_and_the_device_is_given_up() {
    in_subprocess("a_kernel_that_outlasts_its_limit_is_an_error_and_the_device_is_given_up", || {
        let Some(runtime) = device() else { return };
        let Some(signals) = signals(&runtime) else { return };
        // It spins for about two seconds.
        let kernel = signals.enqueue_hand_over(None, Some(1)).unwrap();
        let started = Instant::now();
        let error = wait(&runtime, &kernel, "a kernel that hangs", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "the OpenCL device did not finish a kernel that hangs within 50 ms");
        assert!(started.elapsed() < Duration::from_secs(1));
        assert!(runtime.is_lost());
        // What is queued behind it is not waited for in turn.
        assert!(wait(&runtime, &kernel, "the next kernel", LIMIT).is_err() && started.elapsed() < LIMIT / 2);
        let found = probe(&runtime, Mechanism::BlockingFinish);
        assert!(found.is_err());
        signals.release();
        // The driver's threads must have stopped when the process ends.
        crate::opencl::events::wait_for(&kernel).unwrap();
    });
}

#[test]
fn a_probe_that_never_returns_is_abandoned() {
    in_subprocess("a_probe_that_never_returns_is_abandoned", || {
        let Some(runtime) = device() else { return };
        let Some(signals) = signals(&runtime) else { return };
        // The queue is in order, so the probe's commands wait behind this kernel.
        let kernel = signals.enqueue_hand_over(None, Some(1)).unwrap();
        flush(&runtime).unwrap();
        let limit = Duration::from_millis(100);
        let found = measure_within(&runtime, Mechanism::BlockingFinish, (1, limit), limit);
        assert_eq!(found.unwrap_err().why, "the device did not answer within 100 ms");
        signals.release();
        crate::opencl::events::wait_for(&kernel).unwrap();
    });
}

#[test]
fn an_unsound_mechanism_is_replaced_by_the_next_that_works() {
    let unsound = |mechanism, why: &str| Err(Unsound { mechanism, why: why.to_owned() });
    let only_events = |mechanism| match mechanism {
        Mechanism::EventWait => Ok(()),
        _ => unsound(mechanism, "no"),
    };
    let (mechanism, passed_over) = choose(Mechanism::SvmPolling, only_events).unwrap();
    assert_eq!(mechanism, Mechanism::EventWait);
    let replaced: Vec<_> = passed_over.iter().map(|unsound| unsound.mechanism).collect();
    assert_eq!(replaced, [Mechanism::SvmPolling, Mechanism::PinnedPolling, Mechanism::EventPolling]);
    assert_eq!(passed_over[0].to_string(), "svm-polling does not work here: no");
    let none = choose(Mechanism::EventPolling, |mechanism| unsound(mechanism, "lost"));
    assert_eq!(none.unwrap_err().len(), 3);
}

#[test]
fn a_sound_mechanism_is_kept() {
    let chosen = choose(Mechanism::SleepThenPoll, |_| Ok(())).unwrap();
    assert_eq!(chosen, (Mechanism::SleepThenPoll, Vec::new()));
}

#[test]
fn the_mechanism_that_a_plan_names_is_the_one_that_runs() {
    for &modelled in Modelled::ALL {
        let mechanism = Mechanism::from(modelled);
        assert_eq!(mechanism.modelled(), modelled);
        assert_eq!(mechanism.to_string(), modelled.to_string());
    }
}

#[test]
fn a_short_sleep_takes_longer_than_it_should() {
    assert!(sleep_granularity(5) >= Picos::from_micros(1.0));
}
