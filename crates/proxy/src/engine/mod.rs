//! What becomes of a connection, as state machines that own no thread and make no socket: they are given streams and
//! a way to open more, and are tested with streams that live in memory.

mod admit;
mod dial;
mod end;
mod facts;
mod hand_over;
mod lane;
mod outbox;
mod scratch;
mod session;
mod stream;
mod wheel;

pub(crate) use self::end::{End, Watched};
pub(crate) use self::facts::{Facts, Traced};
pub(crate) use self::hand_over::HandOver;
pub(crate) use self::scratch::Scratch;
pub(crate) use self::session::{Next, Session, World};
pub(crate) use self::stream::{Network, Pipes, Stream};
pub(crate) use self::wheel::{Due, Tick, Wheel};

#[cfg(test)]
mod tests;
