//! The tables that a calibration prints.

use coexec_fit::calibrate::cpu::FittedTable;
use coexec_fit::calibrate::gpu::Fitted as Known;
use coexec_fit::validate::score::Scored;
use coexec_sim::kernel::cpu::rate_table;

use crate::calibrate::fit::Fitted;
use crate::{output, validate};

/// Absolute correlation from which two CPU parameters are reported as trading off.
const STRONG_CORRELATION: f64 = 0.7;

/// Prints the fitted parameters, their intervals and their trade-offs.
pub(super) fn parameters(fitted: &Fitted) {
    let Fitted { tables, cpu_tables, host, npu, .. } = fitted;
    let row = |key: String, value: f64, ci95: Option<[f64; 2]>, informed: bool| {
        let interval = ci95.map_or("-".to_owned(), |ends| ends.map(decimal).join(" to "));
        let (value, unit) = (decimal(value), unit(&key).to_owned());
        vec![key, value, unit, interval, (if informed { "runs" } else { "prior" }).to_owned()]
    };
    let of_table = |(table, parameter): (String, &Known)| {
        row(format!("{table}.{}", parameter.key), parameter.value, Some(parameter.ci95), parameter.informed)
    };
    let gpu = tables.iter().flat_map(|fit| {
        fit.parameters.iter().map(|parameter| (format!("gpu.{}", fit.table.key()), parameter))
    });
    let host = host.iter().map(|parameter| ("gpu.host".to_owned(), parameter));
    let npu = npu.iter().map(|parameter| ("npu.compiled".to_owned(), parameter));
    let on_cpu = cpu_tables.iter().flat_map(|fit| {
        fit.parameters.iter().map(|known| {
            row(format!("{}.{}", cpu_key(fit), known.key), known.value, known.ci95, known.informed)
        })
    });
    let mut rows = gpu.chain(host).chain(npu).map(of_table).chain(on_cpu).peekable();
    // Factors on the kernels of a profile are no parameters of their own.
    if rows.peek().is_some() {
        output::table(&["parameter", "value", "unit", "95 % interval", "decided by"], rows);
    }
    for fit in tables {
        for pair in &fit.trade_offs {
            let [first, second] = pair.keys;
            trade_off(&format!("gpu.{}", fit.table.key()), first, second, pair.correlation);
        }
        if !fit.converged {
            output::line(&format!("gpu.{}: the fit stopped before it had converged", fit.table.key()));
        }
    }
    for fit in cpu_tables {
        for known in &fit.parameters {
            let Some((other, correlation)) = known.trades_with else { continue };
            let mutual = fit.parameters.iter().any(|second| {
                second.key == other && second.trades_with.is_some_and(|(first, _)| first == known.key)
            });
            // A mutual pair is printed once.
            if correlation.abs() >= STRONG_CORRELATION && (known.key < other || !mutual) {
                trade_off(&cpu_key(fit), known.key, other, correlation);
            }
        }
    }
}

fn trade_off(table: &str, first: &str, second: &str, correlation: f64) {
    output::line(&format!("{table}: {first} and {second} trade off (correlation {correlation:+.2})"));
}

/// Significant digits of a printed parameter.
const DIGITS: i32 = 4;

/// A number in plain decimals with [`DIGITS`] significant digits.
fn decimal(value: f64) -> String {
    let first = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = (DIGITS - 1 - first).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// The unit that a key's suffix names; empty for a factor or an exponent.
fn unit(key: &str) -> &'static str {
    let units = [
        ("_per_ns", "1/ns"),
        ("_ns", "ns"),
        ("_us", "us"),
        ("_ps", "ps"),
        ("_gbps", "GB/s"),
        ("_mhz", "MHz"),
        ("_bytes", "B"),
        ("_percent", "%"),
    ];
    units.into_iter().find(|(suffix, _)| key.ends_with(suffix)).map_or("", |(_, unit)| unit)
}

/// Prints the cross-validated errors.
pub(super) fn errors(title: &str, errors: &[Scored]) {
    if errors.is_empty() {
        output::line(
            "\nno errors on held-out networks: no processor ran two networks in one number format, no NPU models of two \
             families, or the base predicts them and keeps the errors that it states",
        );
        return;
    }
    output::line(&format!("\n{title}, errors on held-out networks, worst groups first\n"));
    let (header, rows) = output::cells(&validate::COLUMNS, errors);
    output::table(&header, rows);
}

/// The key of a CPU table in the profile.
pub(super) fn cpu_key(fit: &FittedTable) -> String {
    let table = rate_table(fit.library, fit.data_type).expect("only a table that exists is fitted");
    format!("cpu.{}.{table}", fit.cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain_decimals_with_the_unit_of_their_key() {
        assert_eq!(
            [0.0213, 388.57, 2151.0, 0.000_029_663, 0.0, 12.0].map(decimal),
            ["0.0213", "388.6", "2151", "0.00002966", "0", "12",]
        );
        assert_eq!(unit("gpu.conv_generic.launch_us"), "us");
        assert_eq!(unit("cpu.large.ruy_f32.width_factor"), "");
    }
}
