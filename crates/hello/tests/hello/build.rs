//! Builds ClientHellos, right and wrong ones, and drives a reader over them.

use tidegate_hello::{Hello, HelloError, Limits, Progress, Reader};

pub(crate) const SERVER_NAME: u16 = 0;
pub(crate) const SIGNATURE_ALGORITHMS: u16 = 13;
pub(crate) const ALPN: u16 = 16;
pub(crate) const PADDING: u16 = 21;
pub(crate) const PRE_SHARED_KEY: u16 = 41;
pub(crate) const EARLY_DATA: u16 = 42;
pub(crate) const SUPPORTED_VERSIONS: u16 = 43;
pub(crate) const ECH: u16 = 0xfe0d;

pub(crate) const MAX_RECORD: usize = 1 << 14;

/// Enough for a record per byte.
pub(crate) const PATIENT: Limits = Limits { max_hello: 128 * 1024, max_records: 128 * 1024 };

/// The fields of a ClientHello as they go on the wire, valid unless a test changes them.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub(crate) version: [u8; 2],
    pub(crate) session_id: Vec<u8>,
    pub(crate) cipher_suites: Vec<u8>,
    pub(crate) compression_methods: Vec<u8>,
    /// `None` leaves out even the length.
    pub(crate) extensions: Option<Vec<(u16, Vec<u8>)>>,
    pub(crate) trailing: Vec<u8>,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            version: [3, 3],
            session_id: vec![0x5e; 32],
            cipher_suites: vec![0x0a, 0x0a, 0x13, 0x01, 0xc0, 0x2f],
            compression_methods: vec![0],
            extensions: Some(Vec::new()),
            trailing: Vec::new(),
        }
    }
}

impl Fields {
    /// A hello such as browsers send, GREASE included.
    pub(crate) fn typical() -> Self {
        Self::default()
            .with(0x1a1a, vec![])
            .with(SERVER_NAME, host_name(b"WWW.Example.com."))
            .with(ALPN, protocols(&[b"\x2a\x2a", b"h2", b"http/1.1"]))
            .with(SIGNATURE_ALGORITHMS, vec![0, 4, 0x04, 0x03, 0x08, 0x04])
            .with(SUPPORTED_VERSIONS, versions(&[0x3a3a, 0x0304, 0x0303]))
            .with(0xdada, vec![0])
    }

    pub(crate) fn with(mut self, extension_type: u16, data: Vec<u8>) -> Self {
        self.extensions.get_or_insert_default().push((extension_type, data));
        self
    }

    /// Pads a hello to exactly this many bytes of message.
    pub(crate) fn padded_to(self, message_len: usize) -> Self {
        let padding = message_len - self.message().len() - 4;
        self.with(PADDING, vec![0; padding])
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = self.version.to_vec();
        body.extend_from_slice(&[0x7a; 32]);
        body.extend(short(&self.session_id));
        body.extend(long(&self.cipher_suites));
        body.extend(short(&self.compression_methods));
        if let Some(extensions) = &self.extensions {
            let list = extensions.iter().flat_map(|(extension_type, data)| {
                let mut extension = extension_type.to_be_bytes().to_vec();
                extension.extend(long(data));
                extension
            });
            body.extend(long(&list.collect::<Vec<_>>()));
        }
        body.extend_from_slice(&self.trailing);
        body
    }

    pub(crate) fn message(&self) -> Vec<u8> {
        handshake(1, &self.body())
    }

    /// As a client sends it that has no reason to split: in as few records as there can be.
    pub(crate) fn wire(&self) -> Vec<u8> {
        records(&self.message(), MAX_RECORD)
    }
}

pub(crate) fn short(bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(bytes.len()).expect("a length of one byte");
    [&[len], bytes].concat()
}

pub(crate) fn long(bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("a length of two bytes");
    [&len.to_be_bytes(), bytes].concat()
}

pub(crate) fn handshake(handshake_type: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("a length of three bytes").to_be_bytes();
    [&[handshake_type], &len[1..], body].concat()
}

pub(crate) fn record(content_type: u8, payload: &[u8]) -> Vec<u8> {
    [&[content_type, 3, 1], long(payload).as_slice()].concat()
}

/// Cuts a message into records of one size.
pub(crate) fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|payload| record(22, payload)).collect()
}

pub(crate) fn host_name(name: &[u8]) -> Vec<u8> {
    names(&[(0, name)])
}

pub(crate) fn names(names: &[(u8, &[u8])]) -> Vec<u8> {
    let entries = names.iter().flat_map(|(name_type, name)| [&[*name_type], long(name).as_slice()].concat());
    long(&entries.collect::<Vec<_>>())
}

pub(crate) fn protocols(names: &[&[u8]]) -> Vec<u8> {
    long(&names.iter().flat_map(|name| short(name)).collect::<Vec<_>>())
}

pub(crate) fn versions(versions: &[u16]) -> Vec<u8> {
    short(&versions.iter().flat_map(|version| version.to_be_bytes()).collect::<Vec<_>>())
}

/// A hello without its borrows, to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) server_name: Option<String>,
    pub(crate) alpn: Vec<Vec<u8>>,
    pub(crate) versions: Vec<u16>,
    pub(crate) ech: bool,
    pub(crate) early_data: bool,
}

impl From<Hello<'_>> for Said {
    fn from(hello: Hello<'_>) -> Self {
        Self {
            server_name: hello.server_name.as_ref().map(ToString::to_string),
            alpn: hello.alpn.iter().map(<[u8]>::to_vec).collect(),
            versions: hello.versions.iter().map(|version| version.0).collect(),
            ech: hello.ech,
            early_data: hello.early_data,
        }
    }
}

/// What [`Fields::typical`] says.
pub(crate) fn typical_said() -> Said {
    Said {
        server_name: Some("www.example.com".into()),
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        versions: vec![0x0304, 0x0303],
        ech: false,
        early_data: false,
    }
}

/// One call; `None` is "need more".
pub(crate) fn step(reader: &mut Reader, seen: &[u8]) -> Result<Option<Said>, HelloError> {
    match reader.advance(seen)? {
        Progress::NeedMore => Ok(None),
        Progress::Hello(hello) => Ok(Some(hello.into())),
    }
}

pub(crate) fn read_at_once(wire: &[u8], limits: Limits) -> Result<Option<Said>, HelloError> {
    step(&mut Reader::new(limits), wire)
}

/// Shows the bytes one by one, and gives the first answer that is not "need more" with the number of bytes it
/// took.
pub(crate) fn read_dripped(wire: &[u8], limits: Limits) -> (usize, Result<Option<Said>, HelloError>) {
    let mut reader = Reader::new(limits);
    (0..=wire.len())
        .map(|end| (end, step(&mut reader, &wire[..end])))
        .find(|(_, answer)| *answer != Ok(None))
        .unwrap_or((wire.len(), Ok(None)))
}
