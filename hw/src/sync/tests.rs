//! Mechanisms on whatever device there is, and the hazards.
//!
//! Without a platform the tests say that they are skipped; with
//! `COEXEC_REQUIRE_OPENCL=1` they fail instead.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::flag_polling::{await_device, check_meeting};
use super::probe::{first_sound, probe_within};
use super::*;
use crate::opencl::events::flush;
use crate::opencl::signals::{FlagHome, Meeting, Signals};
use crate::opencl::timing::wait;
use crate::opencl::{Device, DeviceKind, Runtime};

/// What a step may take on a busy machine that also compiles.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs `body` in a process that ends with it: after a device was given up, a driver's
/// threads may run on and use what another test, or the end of the process, has freed.
fn in_a_process_of_its_own(test: &str, body: impl FnOnce()) {
    const TEST: &str = "COEXEC_TEST_ALONE";
    // They would be in each other's way on one device.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if std::env::var(TEST).is_ok_and(|alone| alone == test) {
        body();
        crate::leave(0);
    }
    if selected().is_none() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("sync::tests::{test}")])
        .env(TEST, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    print!("{}{said}", String::from_utf8_lossy(&child.stdout));
    assert!(child.status.success(), "{}: {said}", child.status);
}

/// The device to test on; none where there is no `OpenCL`.
fn selected() -> Option<Device> {
    match Device::select(&std::env::var("COEXEC_OPENCL").unwrap_or_default()) {
        Ok(device) => Some(device),
        Err(error) => {
            let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
            assert!(!required, "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// A device of one compute unit where the device can be cut, in a process of its own.
fn device() -> Option<Arc<Runtime>> {
    let device = selected()?;
    let device = match device.description().kind {
        DeviceKind::Cpu => device.sub_device(1).unwrap(),
        _ => device,
    };
    Some(Runtime::new(device).unwrap())
}

/// Flags, where the device has the memory for them.
fn signals(runtime: &Arc<Runtime>) -> Option<Signals> {
    runtime.device().shared_virtual_memory.allows_polling().then(|| {
        let mut signals = Signals::new(runtime, FlagHome::Shared).unwrap();
        signals.reset();
        signals
    })
}

#[test]
fn every_mechanism_notifies_or_says_why_it_cannot() {
    in_a_process_of_its_own("every_mechanism_notifies_or_says_why_it_cannot", || {
        let Some(runtime) = device() else { return };
        for mechanism in Mechanism::ALL {
            let found = probe_within(&runtime, mechanism, 20, LIMIT, LIMIT * 3);
            if found != Soundness::Sound {
                assert!(!runtime.is_lost(), "{mechanism}: {found:?}");
                println!("{mechanism}: {found:?}");
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
fn flags_meet_without_a_launch() {
    in_a_process_of_its_own("flags_meet_without_a_launch", || {
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
fn of_many_groups_only_the_last_one_spins_so_that_all_get_their_turn() {
    in_a_process_of_its_own("of_many_groups_only_the_last_one_spins_so_that_all_get_their_turn", || {
        let Some(runtime) = device() else { return };
        let Some(mut signals) = signals(&runtime) else { return };
        let groups = runtime.device().compute_units as usize * 64;
        for round in 1..=20 {
            let kernel = signals.enqueue_meeting(round, groups, true).unwrap();
            flush(&runtime).unwrap();
            await_device(&signals, round, LIMIT).unwrap();
            signals.answer(round);
            wait(&runtime, &kernel, "a meeting", LIMIT).unwrap();
            check_meeting(&signals, round).unwrap();
        }
    });
}

#[test]
fn a_kernel_that_nobody_answers_stops_spinning_by_itself() {
    in_a_process_of_its_own("a_kernel_that_nobody_answers_stops_spinning_by_itself", || {
        let Some(runtime) = device() else { return };
        let Some(mut signals) = signals(&runtime) else { return };
        let kernel = signals.enqueue_meeting(7, 1, true).unwrap();
        wait(&runtime, &kernel, "a meeting", LIMIT).unwrap();
        assert_eq!(signals.meeting(), Meeting::SpunOut);
        assert_eq!(check_meeting(&signals, 7), Err(SyncError::SpunOut { round: 7 }));
    });
}

#[test]
fn a_host_that_waits_in_vain_releases_the_device_and_goes_on() {
    in_a_process_of_its_own("a_host_that_waits_in_vain_releases_the_device_and_goes_on", || {
        let Some(runtime) = device() else { return };
        let Some(mut signals) = signals(&runtime) else { return };
        let kernel = signals.enqueue_meeting(1, 1, true).unwrap();
        flush(&runtime).unwrap();
        let started = Instant::now();
        let limit = Duration::from_millis(100);
        // The device is in round 1 and never comes to round 2.
        let error = await_device(&signals, 2, limit).unwrap_err();
        assert_eq!(error, SyncError::Unanswered { round: 2, limit_ms: 100 });
        assert!(started.elapsed() < Duration::from_secs(10), "it gave up in time");
        wait(&runtime, &kernel, "a released meeting", LIMIT).unwrap();
        assert_eq!(signals.meeting(), Meeting::GivenUp);
        // The device is as good as before.
        signals.reset();
        let kernel = signals.enqueue_meeting(3, 1, true).unwrap();
        flush(&runtime).unwrap();
        await_device(&signals, 3, LIMIT).unwrap();
        signals.answer(3);
        wait(&runtime, &kernel, "a meeting", LIMIT).unwrap();
        check_meeting(&signals, 3).unwrap();
    });
}

#[test]
fn a_kernel_that_outlasts_its_limit_is_an_error_and_the_device_is_given_up() {
    in_a_process_of_its_own(
        "a_kernel_that_outlasts_its_limit_is_an_error_and_the_device_is_given_up",
        || {
            let Some(runtime) = device() else { return };
            let Some(mut signals) = signals(&runtime) else { return };
            // It spins for about two seconds.
            let kernel = signals.enqueue_meeting(1, 1, true).unwrap();
            let started = Instant::now();
            let error =
                wait(&runtime, &kernel, "a kernel that hangs", Duration::from_millis(50)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the OpenCL device did not finish a kernel that hangs within 50 ms"
            );
            assert!(started.elapsed() < Duration::from_secs(1));
            assert!(runtime.is_lost());
            let found = probe(&runtime, Mechanism::BlockingFinish);
            assert!(matches!(found, Soundness::Unsound { .. }), "{found:?}");
            signals.release();
            // A driver's threads must not run on while the process ends.
            crate::opencl::events::wait_for(&kernel).unwrap();
        },
    );
}

#[test]
fn a_probe_that_never_returns_is_left_behind() {
    in_a_process_of_its_own("a_probe_that_never_returns_is_left_behind", || {
        let Some(runtime) = device() else { return };
        let Some(mut signals) = signals(&runtime) else { return };
        // The queue is in order: what the probe runs waits behind this.
        let kernel = signals.enqueue_meeting(1, 1, true).unwrap();
        flush(&runtime).unwrap();
        let limit = Duration::from_millis(100);
        let found = probe_within(&runtime, Mechanism::BlockingFinish, 1, limit, limit);
        assert_eq!(found, Soundness::Unsound { why: "the device did not answer within 100 ms".into() });
        signals.release();
        crate::opencl::events::wait_for(&kernel).unwrap();
    });
}

#[test]
fn an_unsound_mechanism_is_replaced_by_the_next_that_works() {
    let unsound = |why: &str| Soundness::Unsound { why: why.to_owned() };
    let only_events = |mechanism| match mechanism {
        Mechanism::EventWait => Soundness::Sound,
        _ => unsound("no"),
    };
    let choice = first_sound(Mechanism::SvmPolling, only_events).unwrap();
    assert_eq!(choice.mechanism, Mechanism::EventWait);
    let replaced: Vec<_> = choice.replaced.iter().map(|replaced| replaced.mechanism).collect();
    assert_eq!(replaced, [Mechanism::SvmPolling, Mechanism::PinnedPolling, Mechanism::EventPolling]);
    assert_eq!(choice.replaced[0].to_string(), "svm-polling does not work here: no");
    assert_eq!(first_sound(Mechanism::EventPolling, |_| unsound("lost")).unwrap_err().len(), 3);
}

#[test]
fn a_sound_mechanism_is_kept() {
    let choice = first_sound(Mechanism::SleepThenPoll, |_| Soundness::Sound).unwrap();
    assert_eq!(choice, Choice { mechanism: Mechanism::SleepThenPoll, replaced: Vec::new() });
}

#[test]
fn what_plans_call_a_mechanism_is_what_runs() {
    for modelled in Modelled::ALL {
        let mechanism = Mechanism::from(modelled);
        assert_eq!(mechanism.modelled(), modelled);
        assert_eq!(mechanism.to_string(), modelled.to_string());
    }
}

#[test]
fn a_short_sleep_takes_longer_than_it_should() {
    assert!(sleep_granularity(5) >= Picos::from_micros(1.0));
}
