//! Why a connection's first bytes were refused: a closed list, so that a log line, a metric and a test can each
//! tell one reason from another. The texts hold numbers at most and never bytes of the client's, which would let
//! it write into the log.

use std::fmt;

/// Why the bytes are not a ClientHello that a proxy can safely route by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HelloError {
    // Not TLS at all.
    LooksLikeHttp,
    LooksLikeSsh,
    LooksLikeProxyProtocol,
    LooksLikePostgres,
    LooksLikeSslv2,
    NotTls { first: u8 },

    // TLS records, but not those of a ClientHello.
    Alert,
    NotHandshake { content_type: u8 },
    Interleaved { content_type: u8 },
    RecordVersion { major: u8 },
    EmptyRecord,
    RecordTooLong,
    TooManyRecords { max: usize },
    NotClientHello { handshake_type: u8 },
    HelloTooLong { max: usize },
    BytesAfterHello,

    // A ClientHello with something wrong in it.
    HelloVersion { version: u16 },
    BadLength(Part),
    TrailingBytes,
    NoNullCompression,
    DuplicateExtension { extension_type: u16 },
    PreSharedKeyNotLast,
    EmptyAlpnName,

    // A name that cannot be routed by.
    ServerNameEmpty,
    ServerNameInvalid,
    ServerNameIsIpAddress,
    ServerNameType { name_type: u8 },
    SeveralServerNames,
}

/// The part of a ClientHello whose length does not add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    Version,
    Random,
    SessionId,
    CipherSuites,
    CompressionMethods,
    Extensions,
    ServerName,
    Alpn,
    SupportedVersions,
    EarlyData,
}

impl std::error::Error for HelloError {}

impl fmt::Display for HelloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LooksLikeHttp => f.write_str("the client speaks HTTP without TLS"),
            Self::LooksLikeSsh => f.write_str("the client speaks SSH, not TLS"),
            Self::LooksLikeProxyProtocol => {
                f.write_str("a PROXY protocol header came where this listener expects none")
            }
            Self::LooksLikePostgres => {
                f.write_str("the client asks for TLS the PostgreSQL way, before speaking it")
            }
            Self::LooksLikeSslv2 => f.write_str("the client opens with an SSL 2.0 hello"),
            Self::NotTls { first } => write!(f, "not TLS: the first byte is {first:#04x}"),
            Self::Alert => f.write_str("the client sent a TLS alert instead of a ClientHello"),
            Self::NotHandshake { content_type } => {
                write!(f, "the first TLS record has type {content_type}, not handshake")
            }
            Self::Interleaved { content_type } => {
                write!(f, "a record of type {content_type} came before the ClientHello was complete")
            }
            Self::RecordVersion { major } => write!(f, "a TLS record has major version {major}, not 3"),
            Self::EmptyRecord => f.write_str("an empty TLS record"),
            Self::RecordTooLong => f.write_str("a TLS record of more than 16384 bytes"),
            Self::TooManyRecords { max } => {
                write!(f, "the ClientHello is spread over more than {max} records")
            }
            Self::NotClientHello { handshake_type } => {
                write!(f, "the first handshake message has type {handshake_type}, not ClientHello")
            }
            Self::HelloTooLong { max } => write!(f, "the ClientHello is longer than {max} bytes"),
            Self::BytesAfterHello => {
                f.write_str("more handshake bytes in the record in which the ClientHello ends")
            }
            Self::HelloVersion { version } => {
                write!(f, "the ClientHello has version {version:#06x}, which is not TLS")
            }
            Self::BadLength(part) => write!(f, "a length in the ClientHello is wrong: {part}"),
            Self::TrailingBytes => f.write_str("bytes after the extensions of the ClientHello"),
            Self::NoNullCompression => f.write_str("the ClientHello insists on compression"),
            Self::DuplicateExtension { extension_type } => {
                write!(f, "extension {extension_type} is in the ClientHello twice")
            }
            Self::PreSharedKeyNotLast => f.write_str("the pre-shared key is not the last extension"),
            Self::EmptyAlpnName => f.write_str("an empty name among the application protocols"),
            Self::ServerNameEmpty => f.write_str("the server name is empty"),
            Self::ServerNameInvalid => f.write_str("the server name is not a valid DNS host name"),
            Self::ServerNameIsIpAddress => f.write_str("the server name is an IP address, which TLS forbids"),
            Self::ServerNameType { name_type } => {
                write!(f, "the server name has the unknown type {name_type}")
            }
            Self::SeveralServerNames => f.write_str("more than one server name"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "version",
            Self::Random => "random",
            Self::SessionId => "session id",
            Self::CipherSuites => "cipher suites",
            Self::CompressionMethods => "compression methods",
            Self::Extensions => "extensions",
            Self::ServerName => "server name",
            Self::Alpn => "application protocols",
            Self::SupportedVersions => "supported versions",
            Self::EarlyData => "early data",
        })
    }
}
