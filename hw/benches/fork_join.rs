//! Fork-join latency: starting threads on empty work and waiting for them.
//!
//! Compares our pool, with workers that spin between tasks or sleep at once, to rayon's and to
//! newly spawned threads: `cargo bench -p coexec-hw --bench fork_join`. The calling thread counts
//! as one of the threads, also in rayon's pool, inside which the benchmark runs.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use coexec_hw::cpu::ThreadPool;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

/// Powers of two from 2 up to the number of cores.
fn thread_counts() -> impl Iterator<Item = usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    std::iter::successors(Some(2), |threads| Some(2 * threads)).take_while(move |&threads| threads <= cores)
}

fn work(worker: usize) {
    black_box(worker);
}

fn fork_join(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fork_join");
    for threads in thread_counts() {
        let mut spinning = ThreadPool::new(threads).expect("threads can be started");
        group.bench_function(BenchmarkId::new("ours, spinning", threads), |bencher| {
            bencher.iter(|| spinning.broadcast(threads, &work));
        });
        drop(spinning);
        let mut sleeping = ThreadPool::with_spin(threads, Duration::ZERO).expect("threads can be started");
        group.bench_function(BenchmarkId::new("ours, sleeping", threads), |bencher| {
            bencher.iter(|| sleeping.broadcast(threads, &work));
        });
        drop(sleeping);
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let rayon = rayon.expect("threads can be started");
        group.bench_function(BenchmarkId::new("rayon", threads), |bencher| {
            rayon.install(|| bencher.iter(|| rayon::broadcast(|context| work(context.index()))));
        });
        drop(rayon);
        group.bench_function(BenchmarkId::new("new threads", threads), |bencher| {
            bencher.iter(|| {
                thread::scope(|scope| {
                    for worker in 1..threads {
                        scope.spawn(move || work(worker));
                    }
                    work(0);
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, fork_join);
criterion_main!(benches);
