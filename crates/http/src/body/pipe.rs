//! A body on its way out over HTTP/2, as fast as the other side takes it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body;

use super::BodyError;

/// Sends it to its end, unless one of the sides breaks off.
pub(crate) async fn pipe(body: impl Body<Data = Bytes, Error = BodyError>, mut stream: SendStream<Bytes>) {
    let mut body = pin!(body);
    loop {
        let next = poll_fn(|context| match stream.poll_reset(context) {
            Poll::Ready(_) => Poll::Ready(Err(Gone)),
            Poll::Pending => body.as_mut().poll_frame(context).map(Ok),
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
                if !data.is_empty() && room(&mut stream).await.is_err() {
                    return;
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

/// Waits until the other side takes anything at all. No more than that is asked for, and not before there is something to
/// be sent: what one stream reserves others do not have.
async fn room(stream: &mut SendStream<Bytes>) -> Result<(), Gone> {
    stream.reserve_capacity(1);
    poll_fn(|context| {
        if stream.poll_reset(context).is_ready() {
            return Poll::Ready(Err(Gone));
        }
        while stream.capacity() == 0 {
            match std::task::ready!(stream.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(Gone)),
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}
