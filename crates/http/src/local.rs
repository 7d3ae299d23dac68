//! Tasks of hyper on the thread they belong to.

/// Runs what hyper wants to have run beside a connection. A panic ends that task and nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local;

impl<F> hyper::rt::Executor<F> for Local
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
