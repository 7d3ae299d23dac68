//! A body on its way out over HTTP/2, as fast as the other side takes it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, SendStream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Outbound;

/// Sends it to its end, unless one of the sides breaks off, or the other takes nothing for so long.
pub(crate) async fn pipe(mut body: impl Outbound + Unpin, mut stream: SendStream<Bytes>, time: Duration) {
    let mut stall = Stall { time, since: None, alarm: None };
    loop {
        let next = poll_fn(|context| match stream.poll_reset(context) {
            Poll::Ready(_) => Poll::Ready(Err(Gone)),
            Poll::Pending => Pin::new(&mut body).poll_frame(context).map(Ok),
        });
        let Ok(next) = next.await else { return };
        let frame = match next {
            Some(Ok(frame)) => frame,
            Some(Err(_)) => return stream.send_reset(Reason::INTERNAL_ERROR),
            None => {
                let _ = stream.send_data(Bytes::new(), true);
                return;
            }
        };
        match frame.into_data() {
            Ok(data) => {
                let is_last = body.is_end_stream();
                if !data.is_empty() {
                    match room(&mut body, &mut stream, &mut stall).await {
                        Ok(()) => {}
                        Err(Blocked::Gone) => return,
                        Err(Blocked::Broken(reason)) => return stream.send_reset(reason),
                    }
                }
                if stream.send_data(data, is_last).is_err() || is_last {
                    return;
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    // What was reserved and is not needed may be others'.
                    stream.reserve_capacity(0);
                    let _ = stream.send_trailers(trailers);
                    return;
                }
            }
        }
    }
}

/// The stream is at its end.
struct Gone;

/// Why nothing more can be sent.
enum Blocked {
    Gone,
    /// From our side, for this reason.
    Broken(Reason),
}

/// Waits until the other side takes anything at all. No more than that is asked for, and not before there is something to
/// be sent: what one stream reserves others do not have.
async fn room(
    body: &mut impl Outbound,
    stream: &mut SendStream<Bytes>,
    stall: &mut Stall,
) -> Result<(), Blocked> {
    stream.reserve_capacity(1);
    if stream.capacity() > 0 {
        return Ok(());
    }
    stall.since = None;
    poll_fn(|context| {
        if stream.poll_reset(context).is_ready() {
            return Poll::Ready(Err(Blocked::Gone));
        }
        while stream.capacity() == 0 {
            match stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(Blocked::Gone)),
                Poll::Pending if stall.is_over(context) => {
                    body.stalls();
                    return Poll::Ready(Err(Blocked::Broken(Reason::CANCEL)));
                }
                Poll::Pending => {
                    let on = body.go_on(context);
                    return on.map_or(Poll::Ready(Err(Blocked::Broken(Reason::INTERNAL_ERROR))), |()| {
                        Poll::Pending
                    });
                }
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// How long the other side has taken nothing. Frames of the connection say nothing of that: whoever keeps a stream
/// closed may send as many of them as it likes.
struct Stall {
    time: Duration,
    since: Option<Instant>,
    /// Set when it is first needed, and late from then on rather than set anew each time.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let end = *self.since.get_or_insert_with(Instant::now) + self.time;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(end)));
        while alarm.as_mut().poll(context).is_ready() {
            if end <= Instant::now() {
                return true;
            }
            alarm.as_mut().reset(end);
        }
        false
    }
}
