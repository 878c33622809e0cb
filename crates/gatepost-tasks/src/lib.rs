//! Starts asynchronous tasks, and names the types of boxed futures.
//!
//! The code with which the runtime polls, ends and drops a task is generic over the task's future:
//! 14 kB of machine code for each place that spawns one, half of it for either scheduler. A boxed
//! future has the same type everywhere, so the program contains this code once. That costs an
//! allocation for each task, so a task for each request is spawned with [`tokio::spawn`].
//!
//! The compiler translates the body of an `async fn` in the crate that polls it, with the bodies of
//! all that it awaits. The functions with which a crate is entered, such as those that serve a
//! protocol, therefore return a boxed future: their code is translated in their own crate, and
//! once.

use std::future::Future;
use std::pin::Pin;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A future in a box.
pub type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The future of a task.
pub type Task<T = ()> = BoxedFuture<'static, T>;

/// Starts a task on the runtime of the caller.
///
/// # Panics
///
/// Outside a runtime, as [`tokio::spawn`] does.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn_boxed_on(&Handle::current(), Box::pin(task))
}

/// Starts a task on this runtime.
pub fn spawn_on(
    runtime: &Handle,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    spawn_boxed_on(runtime, Box::pin(task))
}

fn spawn_boxed_on(runtime: &Handle, task: Task) -> JoinHandle<()> {
    runtime.spawn(task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    #[test]
    fn a_task_runs_on_the_runtime_that_it_was_started_on() {
        let here = Builder::new_current_thread().build().expect("a runtime");
        let there = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("there")
            .build()
            .expect("a runtime");
        let name = || std::thread::current().name().map(str::to_owned);
        let (sender, mut receiver) = tokio::sync::mpsc::channel(2);
        let names = here.block_on(async {
            let local = sender.clone();
            let first = spawn(async move { local.send(name()).await.expect("received") });
            first.await.expect("the task ends");
            let second = async move { sender.send(name()).await.expect("received") };
            spawn_on(there.handle(), second)
                .await
                .expect("the task ends");
            (receiver.recv().await, receiver.recv().await)
        });
        assert_eq!(names, (Some(name()), Some(Some("there".to_owned()))));
        there.shutdown_background();
    }
}
