use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const PATIENT: Duration = Duration::from_mins(1);

fn workers(workers: usize, requests_max: u64) -> PageWorkers {
    PageWorkers::start(Bounds {
        workers,
        queue_max: 100,
        requests_max,
        patience: Duration::from_millis(5),
        stragglers_max: 16,
        stack_bytes: stack_bytes(0),
    })
}

fn page(name: &str) -> Arc<str> {
    name.into()
}

/// Runs until it is stopped.
fn looping(end: &Arc<AtomicBool>) -> impl FnOnce(&Worker) + Send + use<> {
    let end = Arc::clone(end);
    move |_| {
        while !end.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }
}

#[tokio::test]
async fn pages_that_loop_hold_up_no_other() {
    let workers = Arc::new(workers(1, 0));
    let end = Arc::new(AtomicBool::new(false));
    let mut loops = Vec::new();
    for number in 0..12 {
        let (workers, work) = (Arc::clone(&workers), looping(&end));
        loops.push(tokio::spawn(async move {
            workers
                .run(&page(&format!("loop{}", number % 3)), PATIENT, work)
                .await
        }));
    }
    for number in 0..100 {
        let answer = workers.run(&page("quick"), PATIENT, move |_| number).await;
        assert_eq!(answer, Ok(number));
    }
    end.store(true, Ordering::Relaxed);
    for one in loops {
        assert_eq!(one.await.expect("no panic"), Ok(()));
    }
    assert!(workers.replaced() > 0);
}

#[tokio::test]
async fn one_page_gets_no_more_than_its_share() {
    let workers = Arc::new(workers(1, 0));
    let end = Arc::new(AtomicBool::new(false));
    let mut loops = Vec::new();
    for _ in 0..40 {
        let (workers, work) = (Arc::clone(&workers), looping(&end));
        loops.push(tokio::spawn(async move {
            workers.run(&page("loop"), PATIENT, work).await
        }));
    }
    // Now all of them wait before the fast one.
    tokio::task::yield_now().await;
    assert_eq!(workers.run(&page("quick"), PATIENT, |_| 1).await, Ok(1));
    end.store(true, Ordering::Relaxed);
    let mut refused = 0;
    for one in loops {
        let answer = one.await.expect("no panic");
        assert!(
            matches!(answer, Ok(()) | Err(RenderError::Busy)),
            "{answer:?}"
        );
        refused += usize::from(answer.is_err());
    }
    // A quarter of the stragglers, and the one on the worker's own thread.
    assert!(refused >= 40 - 16 / 4 - 1, "{refused} refused");
}

#[tokio::test]
async fn a_worker_is_replaced_after_its_requests_and_after_a_panic() {
    let workers = workers(1, 10);
    for _ in 0..25 {
        assert_eq!(workers.run(&page("a"), PATIENT, |_| ()).await, Ok(()));
    }
    let panics: Result<(), _> = workers
        .run(&page("a"), PATIENT, |_| panic!("as meant"))
        .await;
    assert_eq!(panics, Err(RenderError::Fault));
    assert_eq!(workers.run(&page("a"), PATIENT, |_| 7).await, Ok(7));
    assert_eq!(workers.replaced(), 3);
}

#[tokio::test]
async fn a_page_that_is_late_is_given_up() {
    let workers = workers(1, 0);
    let end = Arc::new(AtomicBool::new(false));
    let late = workers
        .run(&page("a"), Duration::from_millis(1), looping(&end))
        .await;
    end.store(true, Ordering::Relaxed);
    assert_eq!(late, Err(RenderError::TimedOut));
}
