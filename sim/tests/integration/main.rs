//! Tests of the public interface of the simulator: one file per behaviour, one binary for all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accelerators;
mod allocations;
mod bandwidth;
mod chains;
mod consistency;
mod cpu_golden;
mod directions;
mod discrete_gpu;
mod engine;
mod generation;
mod gpu_golden;
mod interference;
mod language_energy;
mod movement;
mod optimality;
mod parallel_blocks;
mod plain_searches;
mod provenance;
mod random_plans;
mod regret;
mod requests;
mod robustness;
mod small_graphs;
mod strategies;
mod waiting;
