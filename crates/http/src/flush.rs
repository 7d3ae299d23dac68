//! What goes out together. A proxy that reads a request, sends it on, and reads the next wakes up its peers one by one,
//! for one message each; waking them is a good part of what a message costs. Small messages therefore wait until all
//! that came at once was looked at, which is never longer than that takes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A connection with something to send.
pub(crate) trait Flush {
    /// Sends what it can. Where that is not all, it has its own task go on with it.
    fn flush(&self, context: &mut Context<'_>);
}

/// The connections of a worker that have something to send.
#[derive(Default)]
pub(crate) struct Flushes {
    waiting: RefCell<Vec<Rc<dyn Flush>>>,
    /// Memory for the next.
    spare: Cell<Vec<Rc<dyn Flush>>>,
    /// Of the task that sends.
    waker: RefCell<Option<Waker>>,
}

/// What the task that sends holds: should that ever end, another takes its place.
struct Sending(Rc<Flushes>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.waker.take();
    }
}

impl Flushes {
    /// Has it sent when all is done that waits for its turn now. To be called in a task of the worker.
    pub(crate) fn put(self: &Rc<Self>, connection: Rc<dyn Flush>) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(connection);
        if waiting.len() > 1 {
            return;
        }
        match &*self.waker.borrow() {
            Some(waker) => waker.wake_by_ref(),
            None => {
                let sending = Sending(Rc::clone(self));
                tokio::task::spawn_local(poll_fn(move |context| sending.0.poll(context)));
            }
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waker.borrow_mut().get_or_insert_with(|| context.waker().clone());
        let mut waiting = self.waiting.replace(self.spare.take());
        for connection in waiting.drain(..) {
            // A mistake in one must not leave the others waiting; whoever panics has said so.
            let _ = catch_unwind(AssertUnwindSafe(|| connection.flush(context)));
        }
        self.spare.set(waiting);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;

    use super::*;

    struct Counted(Rc<Cell<u32>>);

    impl Flush for Counted {
        fn flush(&self, _: &mut Context<'_>) {
            self.0.set(self.0.get() + 1);
        }
    }

    struct Broken;

    impl Flush for Broken {
        fn flush(&self, _: &mut Context<'_>) {
            panic!("as the test wants it");
        }
    }

    /// One that panics takes no other with it, neither of its turn nor of those after it.
    #[tokio::test]
    async fn a_panic_is_of_one_connection() {
        let count = Rc::new(Cell::new(0));
        let flushes = Rc::new(Flushes::default());
        let turns = async {
            for turn in 1..=3 {
                flushes.put(Rc::new(Counted(Rc::clone(&count))));
                flushes.put(Rc::new(Broken));
                flushes.put(Rc::new(Counted(Rc::clone(&count))));
                while count.get() < 2 * turn {
                    tokio::task::yield_now().await;
                }
            }
        };
        let all = LocalSet::new();
        tokio::time::timeout(std::time::Duration::from_secs(20), all.run_until(turns)).await.unwrap();
        assert_eq!(count.get(), 6);
    }
}
