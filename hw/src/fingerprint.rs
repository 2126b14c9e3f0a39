//! The conditions that identify a set of runs: device, driver, affinity, governor, clocks,
//! temperature, date. What the system does not report is absent.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::slice;
use std::time::{SystemTime, UNIX_EPOCH};

use coexec_fit::measure::digest;
use coexec_fit::measure::runs::{Fingerprint, fingerprints_to_toml};
use tai_time::MonotonicTime;

use crate::opencl::Description;
use crate::system::{core_folder, number, text};

/// `PoCL`'s environment variable that pins worker `i` to core `i`.
pub const POCL_AFFINITY: &str = "POCL_AFFINITY";
/// `PoCL`'s environment variables that limit its workers (the second one since version 5).
pub const POCL_WORKERS: [&str; 2] = ["POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"];
/// Directory of the thermal sensors on Linux and Android.
const SENSORS: &str = "/sys/class/thermal";
/// Millidegrees per degree: the unit of sensors.
const MILLI: f64 = 1e3;
/// Kilohertz per megahertz: the unit of clocks.
const KILO: u64 = 1_000;
/// Readings outside this range, in degrees Celsius, come from a broken sensor or are no
/// temperature.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1.0..=130.0;

/// The current conditions: the `OpenCL` device, and the `cores` that threads run on, pinned if
/// `pins`.
pub(crate) fn fingerprint(opencl: Option<&Description>, cores: &[usize], pins: bool) -> Fingerprint {
    let processor = processor_name();
    let device = match opencl {
        Some(device) => format!("{processor}; {} of {} compute units", device.name, device.compute_units),
        None => processor,
    };
    let mut fingerprint = Fingerprint {
        device,
        affinity: Some(affinity(cores, pins)),
        date: today(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        driver: opencl.map(|device| format!("{} {}", device.platform, device.driver)),
        opencl_version: opencl.map(|device| device.version.clone()),
        governor: governor(cores),
        clocks: clocks(cores),
        temperature_c: temperature(),
        ..Fingerprint::default()
    };
    fingerprint.id = id(&fingerprint);
    fingerprint
}

/// An id that is equal for equal conditions: the date and a hash of the rest.
fn id(fingerprint: &Fingerprint) -> String {
    let text = fingerprints_to_toml(slice::from_ref(fingerprint)).expect("the conditions are TOML values");
    let date = fingerprint.date.as_deref().unwrap_or("undated");
    format!("{date}-{}", digest::of_lines([text].into_iter()))
}

fn affinity(cores: &[usize], pins: bool) -> String {
    let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let bound = if pins { "kept on" } else { "placed by the system on" };
    let setting = |name: &str| std::env::var(name).map_or(String::new(), |value| format!("; {name}={value}"));
    let device = setting(POCL_AFFINITY) + &POCL_WORKERS.map(setting).concat();
    format!("{bound} the first needed of cores {}{device}", cores.join(","))
}

/// The processor's name, or the architecture where the system reports no name.
pub(crate) fn processor_name() -> String {
    let text = text(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let lines = || text.lines().filter_map(|line| line.split_once(':'));
    let value = |key: &str| Some(lines().find(|(found, _)| found.starts_with(key))?.1.trim());
    let name = value("model name").or_else(|| value("Hardware")).filter(|name| !name.is_empty());
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

fn of_core(core: usize, file: &str) -> Option<String> {
    text(&core_folder(Path::new("/"), core).join("cpufreq").join(file))
}

fn governor(cores: &[usize]) -> Option<String> {
    let names: BTreeSet<String> =
        cores.iter().filter_map(|&core| of_core(core, "scaling_governor")).collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
}

fn clocks(cores: &[usize]) -> Option<String> {
    let clocks = cores.iter().filter_map(|&core| of_core(core, "scaling_cur_freq")?.parse::<u64>().ok());
    let clocks: Vec<u64> = clocks.map(|khz| khz / KILO).collect();
    let (least, most) = (clocks.iter().min()?, clocks.iter().max()?);
    Some(if least == most { format!("cores {least} MHz") } else { format!("cores {least} to {most} MHz") })
}

/// Temperature of the hottest sensor, in degrees Celsius.
fn temperature() -> Option<f64> {
    let zones = fs::read_dir(SENSORS).ok()?;
    let of_zone = |zone: fs::DirEntry| -> Option<f64> {
        let millidegrees: f64 = number(&zone.path().join("temp"))?;
        Some(millidegrees / MILLI).filter(|degrees| PLAUSIBLE.contains(degrees))
    };
    zones.flatten().filter_map(of_zone).max_by(f64::total_cmp)
}

/// Today's date in UTC, as in `2026-05-01`.
pub fn today() -> Option<String> {
    date(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// Whether `text` is a calendar date in the format of [`today`].
pub fn is_date(text: &str) -> bool {
    let midnight = format!("{text} 00:00:00").parse::<MonotonicTime>();
    midnight.is_ok_and(|time| time.to_string().get(..10) == Some(text))
}

/// The date so many seconds after the Unix epoch. `MonotonicTime` without leap seconds counts as
/// UTC does.
fn date(seconds: u64) -> Option<String> {
    let time = MonotonicTime::try_from_unix_timestamp(i64::try_from(seconds).ok()?, 0, 0).ok()?;
    Some(time.to_string().get(..10)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        let days = [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_088, "2024-12-31")];
        for (days, expected) in days {
            let noon = days * 86_400 + 43_200;
            assert_eq!(date(noon).as_deref(), Some(expected));
        }
        assert_eq!(date(20_089 * 86_400).as_deref(), Some("2025-01-01"));
    }

    #[test]
    fn a_date_is_a_day_of_the_calendar() {
        assert!(["1970-01-01", "2024-02-29", "2026-12-31"].into_iter().all(is_date));
        let others = [
            "yesterday",
            "",
            "2026-02-29",
            "2026-13-01",
            "2026-1-01",
            "2026-+1-01",
            "2026-05-01 ",
            "12026-05-01",
        ];
        assert!(!others.into_iter().any(is_date));
    }

    #[test]
    fn the_same_conditions_have_the_same_id() {
        let fingerprint = Fingerprint {
            device: "a".to_owned(),
            date: Some("2026-05-01".to_owned()),
            ..Fingerprint::default()
        };
        assert_eq!(id(&fingerprint), id(&fingerprint.clone()));
        let hotter = Fingerprint { temperature_c: Some(41.0), ..fingerprint.clone() };
        assert_ne!(id(&fingerprint), id(&hotter));
        assert_eq!(id(&fingerprint), "2026-05-01-f41d045fd23b4d5e");
    }
}
