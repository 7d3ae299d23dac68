//! One TLS connection without I/O and without buffers of its own: records in, plain bytes out, and the other way
//! round. Between calls it keeps the keys, and of the input only what is not yet a whole record.

use std::sync::Arc;

use rustls::client::{ClientConfig, ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConfig, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, HandshakeKind, ProtocolVersion};
use tidegate_plan::TlsVersion;

use super::error::TlsError;

pub(crate) struct Codec {
    connection: Connection,
    /// Of the input, what is not yet a whole record or a whole handshake message.
    carried: Vec<u8>,
    phase: Phase,
    peer_has_closed: bool,
}

enum Connection {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// We have said that we send no more.
    Closed,
    Failed(TlsError),
}

/// What both sides agreed on, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed<'c> {
    pub(crate) version: Option<TlsVersion>,
    pub(crate) cipher: Option<&'static str>,
    /// `None` where a TLS 1.2 session is resumed: no keys are exchanged then.
    pub(crate) key_exchange: Option<&'static str>,
    pub(crate) alpn: Option<&'c [u8]>,
    pub(crate) resumed: bool,
}

impl Codec {
    /// As much as is ever carried: a handshake message may have so many bytes, a record fewer.
    pub(crate) const MOST_CARRIED: usize = 64 * 1024;

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        UnbufferedServerConnection::new(config).map(Connection::Server).map(Self::new)
    }

    pub(crate) fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        offers: Vec<Vec<u8>>,
    ) -> Result<Self, rustls::Error> {
        UnbufferedClientConnection::new_with_alpn(config, name, offers).map(Connection::Client).map(Self::new)
    }

    fn new(connection: Connection) -> Self {
        Self { connection, carried: Vec::new(), phase: Phase::Open, peer_has_closed: false }
    }

    /// Puts a copy of what is left of an unfinished record to the front of `buffer`, which has more room than
    /// [`Self::MOST_CARRIED`], and says how long it is. What is read from the socket goes behind it and all of it to
    /// [`Self::receive`]; where nothing was there to read, nothing need be done.
    pub(crate) fn carried(&self, buffer: &mut [u8]) -> usize {
        let length = self.carried.len();
        buffer[..length].copy_from_slice(&self.carried);
        length
    }

    /// Takes everything that was read, the carried bytes first. What the peer says goes to `plain`, what it must be
    /// told (handshake, tickets, key updates, alerts) to `wire`; after an error, too. With no input it lets a client
    /// begin.
    pub(crate) fn receive(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        self.check_not_failed()?;
        let mut space = Space::behind(wire);
        let taken = match &mut self.connection {
            Connection::Server(connection) => drive(connection, incoming, plain, &mut space),
            Connection::Client(connection) => drive(connection, incoming, plain, &mut space),
        };
        space.cut();
        let progress = taken.map_err(|error| self.fail(error, wire))?;
        self.peer_has_closed |= progress.peer_has_closed;
        self.carry(&incoming[progress.used..], wire)
    }

    /// Encrypts into records as large as they may be, to the front of `wire`, and says how long they are. Whatever is
    /// behind them is of earlier calls: a vector that is lent again and again need not be cleared for each.
    pub(crate) fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<usize, TlsError> {
        self.check_not_failed()?;
        if self.phase == Phase::Closed {
            return Err(TlsError::Closed);
        }
        let mut space = Space::front(wire);
        let sent = match &mut self.connection {
            Connection::Server(connection) => {
                write(connection, &mut self.carried, &mut space, |traffic, space| {
                    encrypt(traffic, plain, space)
                })
            }
            Connection::Client(connection) => {
                write(connection, &mut self.carried, &mut space, |traffic, space| {
                    encrypt(traffic, plain, space)
                })
            }
        };
        let length = space.used;
        match sent {
            Ok(()) => Ok(length),
            Err(TlsError::NotReady) => Err(TlsError::NotReady),
            Err(error) => Err(self.fail(error, wire)),
        }
    }

    /// Says that nothing more will be sent. The peer may go on. Does nothing before the end of the handshake, when
    /// nothing can be said.
    pub(crate) fn close(&mut self, wire: &mut Vec<u8>) {
        if self.phase != Phase::Open {
            return;
        }
        let mut space = Space::behind(wire);
        let said = match &mut self.connection {
            Connection::Server(connection) => write(connection, &mut self.carried, &mut space, close_notify),
            Connection::Client(connection) => write(connection, &mut self.carried, &mut space, close_notify),
        };
        space.cut();
        self.phase = said.map_or_else(Phase::Failed, |()| Phase::Closed);
    }

    /// Whether application data cannot be sent yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.common().is_handshaking()
    }

    /// Whether the peer has said that it sends no more: an orderly end, unlike that of the connection alone.
    pub(crate) fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    pub(crate) fn agreed(&self) -> Agreed<'_> {
        let common = self.common();
        Agreed {
            version: common.protocol_version().and_then(version),
            cipher: common.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()),
            key_exchange: common.negotiated_key_exchange_group().and_then(|group| group.name().as_str()),
            alpn: common.alpn_protocol(),
            resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    fn common(&self) -> &CommonState {
        match &self.connection {
            Connection::Server(connection) => connection,
            Connection::Client(connection) => connection,
        }
    }

    fn check_not_failed(&self) -> Result<(), TlsError> {
        match self.phase {
            Phase::Failed(error) => Err(error),
            Phase::Open | Phase::Closed => Ok(()),
        }
    }

    /// Keeps the rest of the input; nothing of it matters once the peer has closed.
    fn carry(&mut self, rest: &[u8], wire: &mut Vec<u8>) -> Result<(), TlsError> {
        if rest.is_empty() || self.peer_has_closed {
            self.carried = Vec::new();
        } else if rest.len() > Self::MOST_CARRIED {
            return Err(self.fail(TlsError::TooLarge, wire));
        } else {
            self.carried.clear();
            self.carried.reserve_exact(rest.len());
            self.carried.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Nothing is taken or sent from here on but the alert that rustls has ready.
    fn fail(&mut self, error: TlsError, wire: &mut Vec<u8>) -> TlsError {
        self.phase = Phase::Failed(error);
        self.carried = Vec::new();
        match &mut self.connection {
            Connection::Server(connection) => say_last_words(connection, wire),
            Connection::Client(connection) => say_last_words(connection, wire),
        }
        error
    }
}

/// The two sides of rustls' connections have the same methods and no trait for them.
trait Records: std::ops::Deref<Target: std::ops::Deref<Target = CommonState>> {
    type Data;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

#[derive(Default)]
struct Progress {
    used: usize,
    peer_has_closed: bool,
}

/// A vector that is written to. It is made longer where it must be, and only what it never had is filled with zeros.
struct Space<'v> {
    bytes: &'v mut Vec<u8>,
    used: usize,
}

impl<'v> Space<'v> {
    fn front(bytes: &'v mut Vec<u8>) -> Self {
        Self { bytes, used: 0 }
    }

    fn behind(bytes: &'v mut Vec<u8>) -> Self {
        Self { used: bytes.len(), bytes }
    }

    fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.used + length;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.used..end]
    }

    /// Leaves nothing behind what was written.
    fn cut(self) {
        self.bytes.truncate(self.used);
    }
}

/// Lets rustls work until it wants more input.
fn drive(
    connection: &mut impl Records,
    incoming: &mut [u8],
    plain: &mut Vec<u8>,
    wire: &mut Space<'_>,
) -> Result<Progress, TlsError> {
    let mut progress = Progress::default();
    loop {
        let status = connection.process(&mut incoming[progress.used..]);
        let mut discard = status.discard;
        let wants_input = match status.state? {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    plain.extend_from_slice(record.payload);
                }
                false
            }
            ConnectionState::EncodeTlsData(mut data) => {
                encode(&mut data, wire)?;
                false
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                false
            }
            ConnectionState::PeerClosed => {
                progress.peer_has_closed = true;
                false
            }
            ConnectionState::BlockedHandshake
            | ConnectionState::WriteTraffic(_)
            | ConnectionState::Closed => true,
            // Early data, which no configuration of ours lets in, and states of a newer rustls.
            _ => return Err(TlsError::Misbehaved),
        };
        progress.used += discard;
        if wants_input {
            return Ok(progress);
        }
    }
}

/// Lets rustls work until it takes application data, and gives it some. It is shown the carried bytes again because
/// it remembers where in them a handshake message began.
fn write<R: Records>(
    connection: &mut R,
    carried: &mut [u8],
    wire: &mut Space<'_>,
    say: impl FnOnce(WriteTraffic<'_, R::Data>, &mut Space<'_>) -> Result<(), TlsError>,
) -> Result<(), TlsError> {
    loop {
        match connection.process(carried).state? {
            ConnectionState::WriteTraffic(traffic) => return say(traffic, wire),
            ConnectionState::EncodeTlsData(mut data) => encode(&mut data, wire)?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::BlockedHandshake => return Err(TlsError::NotReady),
            ConnectionState::Closed => return Err(TlsError::Closed),
            // What came was taken when it came.
            _ => return Err(TlsError::Misbehaved),
        }
    }
}

fn encrypt<D>(mut traffic: WriteTraffic<'_, D>, plain: &[u8], wire: &mut Space<'_>) -> Result<(), TlsError> {
    const RECORD: usize = 16 * 1024;
    /// Header, explicit nonce, content type and tag; of TLS 1.2 and 1.3 the larger.
    const OVERHEAD: usize = 5 + 8 + 1 + 16;
    let likely = plain.len() + plain.len().div_ceil(RECORD) * OVERHEAD;
    fill(wire, likely, |space| traffic.encrypt(plain, space))
}

fn close_notify<D>(mut traffic: WriteTraffic<'_, D>, wire: &mut Space<'_>) -> Result<(), TlsError> {
    fill(wire, 64, |space| traffic.queue_close_notify(space))
}

fn fill(
    wire: &mut Space<'_>,
    likely: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), TlsError> {
    let mut room = likely;
    loop {
        match write(wire.room(room)) {
            Ok(written) => {
                wire.used += written;
                return Ok(());
            }
            // A key update that waits to be sent goes first.
            Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(_) => return Err(TlsError::Exhausted),
        }
    }
}

fn encode<D>(data: &mut EncodeTlsData<'_, D>, wire: &mut Space<'_>) -> Result<(), TlsError> {
    let length = match data.encode(&mut []) {
        Ok(_) => 0,
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Err(EncodeError::AlreadyEncoded) => return Err(TlsError::Internal),
    };
    wire.used += data.encode(wire.room(length)).map_err(|_| TlsError::Internal)?;
    Ok(())
}

/// After an error rustls still has the alert; beyond that it must not be asked to look at any input.
fn say_last_words(connection: &mut impl Records, wire: &mut Vec<u8>) {
    let mut space = Space::behind(wire);
    while connection.wants_write() {
        let Ok(ConnectionState::EncodeTlsData(mut data)) = connection.process(&mut []).state else { break };
        if encode(&mut data, &mut space).is_err() {
            break;
        }
    }
    space.cut();
}

fn version(version: ProtocolVersion) -> Option<TlsVersion> {
    match version {
        ProtocolVersion::TLSv1_2 => Some(TlsVersion::V1_2),
        ProtocolVersion::TLSv1_3 => Some(TlsVersion::V1_3),
        _ => None,
    }
}
