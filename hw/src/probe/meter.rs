//! The power that the machine draws, where the system reports it.
//!
//! Responsible for: finding a meter and reading it while something runs. Not for: what runs
//! (`power`). Invariant: a meter that cannot be read is treated as absent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::system::{number, text};

const MICRO: f64 = 1e-6;

/// A source of readings.
enum Gauge {
    /// An energy counter in microjoules, which wraps around at `range` joules.
    Energy { counter: PathBuf, range: f64 },
    /// The present power in microwatts.
    Power(PathBuf),
    /// The present current in microamperes and voltage in microvolts.
    Battery { current: PathBuf, voltage: PathBuf },
}

/// Gauges whose sum is the machine's power.
pub(super) struct Meter {
    gauges: Vec<Gauge>,
    /// Their description.
    pub(super) name: &'static str,
}

impl Meter {
    /// The processor packages' energy counters (RAPL), else the battery, else the board's sensors;
    /// `None` if the system has no readable one.
    pub(super) fn find(root: &Path) -> Option<Self> {
        let found = [
            ("the packages' energy counters", packages(&root.join("sys/class/powercap"))),
            ("the battery", batteries(&root.join("sys/class/power_supply"))),
            ("the board's power sensors", sensors(&root.join("sys/class/hwmon"))),
        ];
        let mut meters = found.into_iter().map(|(name, gauges)| Self { gauges, name });
        meters.find(|meter| !meter.gauges.is_empty() && meter.read().is_some())
    }

    /// Repeats `work` for at least `duration`; returns the mean power in watts and the number of
    /// repetitions. `None` if a gauge fails.
    pub(super) fn watch<E>(
        &self,
        duration: Duration,
        mut work: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<(f64, u32)>, E> {
        let mut readings = vec![self.read()];
        let started = Instant::now();
        while started.elapsed() < duration {
            work()?;
            readings.push(self.read());
        }
        let seconds = started.elapsed().as_secs_f64();
        let readings: Option<Vec<_>> = readings.into_iter().collect();
        Ok(readings.map(|readings| (self.watts(&readings, seconds), readings.len() as u32 - 1)))
    }

    /// The reading of each gauge.
    fn read(&self) -> Option<Vec<f64>> {
        self.gauges.iter().map(Gauge::read).collect()
    }

    /// The mean power over `seconds` with these readings, the first of which preceded the work.
    fn watts(&self, readings: &[Vec<f64>], seconds: f64) -> f64 {
        let of = |(index, gauge): (usize, &Gauge)| {
            let mut shown = readings.iter().map(|reading| reading[index]);
            match gauge {
                Gauge::Energy { range, .. } => {
                    let ends = shown.clone().next().zip(shown.next_back());
                    ends.map_or(0.0, |(before, now)| counted(before, now, *range)) / seconds
                }
                Gauge::Power(_) | Gauge::Battery { .. } => {
                    shown.skip(1).sum::<f64>() / (readings.len() - 1).max(1) as f64
                }
            }
        };
        self.gauges.iter().enumerate().map(of).sum()
    }
}

impl Gauge {
    /// Its reading, in joules or watts.
    fn read(&self) -> Option<f64> {
        match self {
            Self::Energy { counter: shown, .. } | Self::Power(shown) => Some(number::<f64>(shown)? * MICRO),
            // Some batteries report discharge as a negative current.
            Self::Battery { current, voltage } => {
                Some(number::<f64>(current)?.abs() * MICRO * number::<f64>(voltage)? * MICRO)
            }
        }
    }
}

/// The increase of a counter that wraps around at `range`.
fn counted(before: f64, now: f64, range: f64) -> f64 {
    if now >= before { now - before } else { now + (range - before).max(0.0) }
}

fn packages(folder: &Path) -> Vec<Gauge> {
    // A package is named `intel-rapl:0`, its subdomains `intel-rapl:0:1`.
    let is_package = |name: &str| name.starts_with("intel-rapl:") && name.matches(':').count() == 1;
    let of = |entry: PathBuf| {
        let counter = entry.join("energy_uj");
        let range = number::<f64>(&entry.join("max_energy_range_uj"))? * MICRO;
        number::<u64>(&counter).map(|_| Gauge::Energy { counter, range })
    };
    entries(folder).filter(|(name, _)| is_package(name)).filter_map(|(_, entry)| of(entry)).collect()
}

fn batteries(folder: &Path) -> Vec<Gauge> {
    let of = |entry: PathBuf| {
        let is_battery = text(&entry.join("type")).is_some_and(|kind| kind == "Battery");
        let (current, voltage) = (entry.join("current_now"), entry.join("voltage_now"));
        let power = entry.join("power_now");
        if !is_battery {
            None
        } else if number::<f64>(&power).is_some() {
            Some(Gauge::Power(power))
        } else {
            number::<f64>(&current).and(number::<f64>(&voltage)).map(|_| Gauge::Battery { current, voltage })
        }
    };
    entries(folder).filter_map(|(_, entry)| of(entry)).collect()
}

fn sensors(folder: &Path) -> Vec<Gauge> {
    let is_power =
        |name: &str| name.starts_with("power") && (name.ends_with("_input") || name.ends_with("_average"));
    let inside = entries(folder).flat_map(|(_, entry)| entries(&entry).collect::<Vec<_>>());
    let power = inside.filter(|(name, path)| is_power(name) && number::<f64>(path).is_some());
    power.map(|(_, path)| Gauge::Power(path)).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(String, PathBuf)> =
        found.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect();
    found.sort();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed on drop.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("coexec-meter-{name}-{}", std::process::id()));
            for (path, content) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn packages_are_read_and_their_parts_are_not_counted_twice() {
        let root = Root::new(
            "packages",
            &[
                ("sys/class/powercap/intel-rapl:0/energy_uj", "5000000"),
                ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850"),
                ("sys/class/powercap/intel-rapl:0:0/energy_uj", "1000000"),
                ("sys/class/powercap/intel-rapl:0:0/max_energy_range_uj", "262143328850"),
            ],
        );
        let counter = root.0.join("sys/class/powercap/intel-rapl:0/energy_uj");
        let meter = Meter::find(&root.0).unwrap();
        assert_eq!((meter.name, meter.gauges.len()), ("the packages' energy counters", 1));
        let mut joules = 5.0;
        let watched = meter.watch(SHORT, || {
            joules += 1.0;
            std::thread::sleep(SHORT);
            fs::write(&counter, format!("{:.0}", joules / MICRO))
        });
        let (watts, runs) = watched.unwrap().unwrap();
        assert!(runs >= 1 && watts > 0.0 && watts <= f64::from(runs) / SHORT.as_secs_f64(), "{watts}");
    }

    #[test]
    fn a_counter_that_wrapped_around_is_continued() {
        assert!((counted(90.0, 15.0, 100.0) - 25.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_battery_s_current_counts_whatever_its_sign() {
        let root = Root::new(
            "battery",
            &[
                ("sys/class/power_supply/usb/type", "USB"),
                ("sys/class/power_supply/battery/type", "Battery\n"),
                ("sys/class/power_supply/battery/current_now", "-500000\n"),
                ("sys/class/power_supply/battery/voltage_now", "4000000\n"),
            ],
        );
        let meter = Meter::find(&root.0).unwrap();
        let sleep = || {
            std::thread::sleep(SHORT);
            Ok::<(), ()>(())
        };
        let (watts, _) = meter.watch(SHORT, sleep).unwrap().unwrap();
        assert!((watts - 2.0).abs() < 1e-9, "{watts}");
    }

    #[test]
    fn an_unreadable_sensor_is_not_a_meter() {
        assert!(Meter::find(Path::new("/nonexistent")).is_none());
        let root = Root::new("sensors", &[("sys/class/hwmon/hwmon0/power1_input", "nonsense")]);
        assert!(Meter::find(&root.0).is_none());
    }
}
