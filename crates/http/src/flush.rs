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
    soon: Rc<Queue>,
    late: Rc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: RefCell<Vec<Rc<dyn Flush>>>,
    /// Memory for the next.
    spare: Cell<Vec<Rc<dyn Flush>>>,
    /// Of the task that sends.
    waker: RefCell<Option<Waker>>,
}

/// What the task that sends holds: should that ever end, another takes its place.
struct Sending(Rc<Queue>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.waker.take();
    }
}

impl Flushes {
    /// Has it sent when all is done that waits for its turn now. To be called in a task of the worker.
    pub(crate) fn put(&self, connection: Rc<dyn Flush>) {
        self.soon.put(connection, Sending::send);
    }

    /// The same for a connection that most likely has more to send at once: what has come meanwhile is looked at first.
    pub(crate) fn put_late(&self, connection: Rc<dyn Flush>) {
        self.late.put(connection, Sending::send_late);
    }
}

impl Sending {
    async fn send(self) {
        loop {
            poll_fn(|context| self.0.poll_any(context)).await;
            poll_fn(|context| self.0.poll_send(context)).await;
        }
    }

    async fn send_late(self) {
        loop {
            poll_fn(|context| self.0.poll_any(context)).await;
            // Sockets are looked at; and then those have their turn whom that has woken, and whom they wake.
            tokio::task::yield_now().await;
            behind().await;
            poll_fn(|context| self.0.poll_send(context)).await;
        }
    }
}

/// Waits for all who wait for their turn now.
async fn behind() {
    let mut is_behind = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_behind, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Queue {
    fn put<F>(self: &Rc<Self>, connection: Rc<dyn Flush>, send: impl FnOnce(Sending) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(connection);
        if waiting.len() > 1 {
            return;
        }
        match &*self.waker.borrow() {
            Some(waker) => waker.wake_by_ref(),
            None => _ = tokio::task::spawn_local(send(Sending(Rc::clone(self)))),
        }
    }

    fn poll_any(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waker.borrow_mut().get_or_insert_with(|| context.waker().clone());
        if self.waiting.borrow().is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn poll_send(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.waiting.replace(self.spare.take());
        for connection in waiting.drain(..) {
            // A mistake in one must not leave the others waiting; whoever panics has said so.
            let _ = catch_unwind(AssertUnwindSafe(|| connection.flush(context)));
        }
        self.spare.set(waiting);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

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

    /// Notes how far others are when it is sent.
    struct Noting(Rc<Cell<u32>>, Rc<Cell<Option<u32>>>);

    impl Flush for Noting {
        fn flush(&self, _: &mut Context<'_>) {
            self.1.set(Some(self.0.get()));
        }
    }

    /// What is late waits for those whom a look at the sockets wakes, and for those whom they wake.
    #[tokio::test]
    async fn late_ones_are_behind_what_came_meanwhile() {
        let (steps, noted) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
        let came = Rc::new(tokio::sync::Notify::new());
        let (mut far, near) = std::os::unix::net::UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let flushes = Flushes::default();
        let turn = async {
            let near = tokio::net::UnixStream::from_std(near).unwrap();
            let (done, wakes) = (Rc::clone(&steps), Rc::clone(&came));
            tokio::task::spawn_local(async move {
                near.readable().await.unwrap();
                done.set(done.get() + 1);
                wakes.notify_one();
            });
            let (done, woken) = (Rc::clone(&steps), Rc::clone(&came));
            tokio::task::spawn_local(async move {
                woken.notified().await;
                done.set(done.get() + 1);
            });
            tokio::task::yield_now().await;
            far.write_all(b"!").unwrap();
            flushes.put_late(Rc::new(Noting(Rc::clone(&steps), Rc::clone(&noted))));
            while noted.get().is_none() {
                tokio::task::yield_now().await;
            }
        };
        let all = LocalSet::new();
        tokio::time::timeout(std::time::Duration::from_secs(20), all.run_until(turn)).await.unwrap();
        assert_eq!(noted.get(), Some(2));
    }
}
