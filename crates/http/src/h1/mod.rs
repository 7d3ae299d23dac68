//! HTTP/1.1 as bytes: heads and bodies, read and written without a socket. A client's bytes are taken to the letter, so
//! that what stands before us and behind us cannot read them in another way; backends are ours, and may end lines as
//! old programs do.

mod decode;
mod encode;
mod head;
mod lines;
mod outbox;
mod request;
mod response;

pub(crate) use self::decode::take_front;
pub use self::decode::{BadBody, Decoder, Piece, TRAILER_BYTES, TRAILER_LINES};
pub(crate) use self::encode::write_early;
pub use self::encode::{Asked, Encoder, WrongLength, write_request, write_response};
pub use self::head::{HeadError, Length, Message};
pub use self::lines::{LineEnds, Scan};
pub use self::outbox::Outbox;
pub use self::request::read_request;
pub use self::response::read_response;
