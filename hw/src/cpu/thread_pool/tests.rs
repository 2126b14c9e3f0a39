use super::*;

fn counted(threads: usize, spin: Duration, items: usize) -> Vec<usize> {
    let mut pool = ThreadPool::with_spin(threads, spin).unwrap();
    let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
    for _ in 0..50 {
        pool.self_scheduled(threads, items, &|block| {
            counts[block].fetch_add(1, Ordering::Relaxed);
        });
        pool.equal_parts(threads, items, &|part| {
            for count in &counts[part] {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_block_is_done_once() {
    for threads in 1..=4 {
        assert_eq!(counted(threads, Duration::from_micros(50), 7), [100; 7]);
    }
}

#[test]
fn threads_that_sleep_at_once_are_woken() {
    assert_eq!(counted(3, Duration::ZERO, 3), [100; 3]);
}

#[test]
fn a_task_for_some_of_the_threads_leaves_the_others_alone() {
    let mut pool = ThreadPool::new(4).unwrap();
    let workers = Mutex::new(Vec::new());
    pool.broadcast(2, &|worker| workers.lock().unwrap().push(worker));
    let mut workers = workers.into_inner().unwrap();
    workers.sort_unstable();
    assert_eq!(workers, [0, 1]);
}

#[test]
fn a_limited_pool_uses_its_first_threads_until_the_limit_is_raised() {
    let mut pool = ThreadPool::new(3).unwrap();
    for (limit, expected) in [(2, 2), (0, 1), (9, 3)] {
        pool.limit(limit);
        let workers = AtomicUsize::new(0);
        pool.broadcast(9, &|worker| {
            workers.fetch_or(1 << worker, Ordering::Relaxed);
        });
        assert_eq!((pool.threads(), workers.into_inner()), (expected, (1 << expected) - 1));
    }
}

#[test]
fn every_item_is_changed_once() {
    let mut pool = ThreadPool::new(3).unwrap();
    let mut items = [0; 10];
    pool.for_each_mut(3, &mut items, &|index, item| *item += index);
    assert_eq!(items, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn equal_parts_differ_by_at_most_one_and_the_last_are_the_larger() {
    let mut pool = ThreadPool::new(3).unwrap();
    let parts = Mutex::new(Vec::new());
    pool.equal_parts(3, 8, &|part| parts.lock().unwrap().push(part));
    let mut parts = parts.into_inner().unwrap();
    parts.sort_unstable_by_key(|part| part.start);
    assert_eq!(parts, [0..2, 2..5, 5..8]);
}

#[test]
fn a_panic_reaches_the_caller_and_leaves_the_pool_usable() {
    let mut pool = ThreadPool::new(2).unwrap();
    for failing in [0, 1] {
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            pool.broadcast(2, &|worker| assert_ne!(worker, failing, "this worker fails"));
        }));
        assert!(result.is_err());
    }
    pool.broadcast(2, &|_| {});
}

#[test]
fn a_core_that_does_not_exist_is_an_error() {
    assert!(matches!(ThreadPool::pinned(&[0, 9_999]), Err(PoolError::CannotPin { core: 9_999 })));
    assert!(matches!(ThreadPool::new(0), Err(PoolError::NoThreads)));
}
