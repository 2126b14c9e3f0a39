//! Slowdowns of co-runs, predicted by one curve alone and by the engine with all curves.

use super::CoRun;
use coexec_sim::device::memory::{Interference, Memory};
use coexec_sim::engine::fluid::{SharedMemory, Traffic};
use coexec_sim::engine::{self, Capacity, ClientId, MAX_CLIENTS, TaskId};
use coexec_sim::simulate::memory::{curve, totals};
use coexec_sim::units::{BYTES_PER_GIGABYTE, Bytes, PICOS_PER_SECOND, Picos};

/// Time of a run over its time alone, by the curve.
pub(super) fn by_curve(curve: &engine::Interference, run: &CoRun) -> f64 {
    let per_picosecond = BYTES_PER_GIGABYTE / PICOS_PER_SECOND;
    1.0 / curve.kept_fraction(run.own_gbps * per_picosecond, run.others_gbps * per_picosecond)
}

/// A memory with the clients whose curves are known.
pub(super) struct Sharing<'a> {
    capacity: Capacity,
    clients: Vec<&'a str>,
}

impl<'a> Sharing<'a> {
    pub(super) fn new(memory: &Memory, curves: &'a [Interference]) -> Self {
        // Clients without a curve share the last id, which has no interference.
        let curves = &curves[..curves.len().min(MAX_CLIENTS - 1)];
        let capacity = (0..).zip(curves).fold(totals(memory), |capacity, (client, table)| {
            capacity.with_interference(ClientId(client), curve(table))
        });
        Self { capacity, clients: curves.iter().map(|curve| curve.client.as_str()).collect() }
    }

    /// Time of a run over its time alone, by the engine's rates while both flows last.
    pub(super) fn slowdown(&self, run: &CoRun) -> f64 {
        const OWN: TaskId = TaskId(0);
        const OTHERS: TaskId = TaskId(1);
        let mut memory = SharedMemory::default();
        let mut start = |task, client: &str, streams, gbps: f64| {
            let bytes = Bytes((gbps * BYTES_PER_GIGABYTE) as u64);
            if bytes > Bytes::ZERO {
                let duration = Picos(PICOS_PER_SECOND as u64);
                let traffic = Traffic { task, client: self.client(client), streams, duration, bytes };
                memory.start(Picos::ZERO, &traffic, &self.capacity);
            }
            memory.settle(Picos::ZERO, &self.capacity);
            memory.rates().find(|(task, _)| *task == OWN).map_or(0.0, |(_, rate)| rate.0)
        };
        let alone = start(OWN, &run.client, run.streams, run.own_gbps);
        let together = start(OTHERS, &run.others, run.others_streams, run.others_gbps);
        if together > 0.0 { alone / together } else { 1.0 }
    }

    fn client(&self, name: &str) -> ClientId {
        let index = self.clients.iter().position(|client| *client == name).unwrap_or(MAX_CLIENTS - 1);
        ClientId(index as u8)
    }
}
