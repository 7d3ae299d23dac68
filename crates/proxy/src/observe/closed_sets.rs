//! The closed sets that counters have a number for each member of, beside [`Ending`](crate::Ending).

use std::io;

use rustix::io::Errno;
use tidegate_hello::HelloError;
use tidegate_plan::TlsVersion;

/// Which side of the proxy a handshake was with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

impl Side {
    pub(super) const ALL: [Self; 2] = [Self::Client, Self::Backend];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Backend => "backend",
        }
    }
}

/// A TLS handshake that was carried through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    pub(super) side: Side,
    pub(super) version: TlsVersion,
    pub(super) resumed: bool,
}

impl Handshake {
    pub(super) const COUNT: usize = 8;

    pub(super) fn all() -> impl Iterator<Item = Self> {
        Side::ALL.into_iter().flat_map(|side| {
            [TlsVersion::V1_2, TlsVersion::V1_3].into_iter().flat_map(move |version| {
                [false, true].into_iter().map(move |resumed| Self { side, version, resumed })
            })
        })
    }

    pub(super) const fn index(self) -> usize {
        (self.side as usize) << 2 | (self.version as usize) << 1 | self.resumed as usize
    }
}

/// Why an endpoint did not accept a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectFailure {
    Refused,
    TimedOut,
    Unreachable,
    Reset,
    /// This machine had no port, descriptor or memory left for it.
    OutOfResources,
    Tls,
    Other,
}

impl ConnectFailure {
    pub(super) const ALL: [Self; 7] = [
        Self::Refused,
        Self::TimedOut,
        Self::Unreachable,
        Self::Reset,
        Self::OutOfResources,
        Self::Tls,
        Self::Other,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::OutOfResources => "out_of_resources",
            Self::Tls => "tls",
            Self::Other => "other",
        }
    }
}

impl From<&io::Error> for ConnectFailure {
    fn from(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::CONNREFUSED) => Self::Refused,
            Some(Errno::TIMEDOUT) => Self::TimedOut,
            Some(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::HOSTDOWN) => {
                Self::Unreachable
            }
            Some(Errno::CONNRESET | Errno::PIPE) => Self::Reset,
            Some(
                Errno::MFILE
                | Errno::NFILE
                | Errno::NOMEM
                | Errno::NOBUFS
                | Errno::ADDRNOTAVAIL
                | Errno::AGAIN,
            ) => Self::OutOfResources,
            None if error.kind() == io::ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Other,
        }
    }
}

macro_rules! hello_kinds {
    ($($variant:ident $fields:tt = $name:literal;)+) => {
        /// The kinds of bad hello by name, each at the index that [`hello_kind`] gives.
        pub(super) const HELLO_KINDS: &[&str] = &[$($name,)+];

        pub(super) const fn hello_kind(error: &HelloError) -> usize {
            #[allow(clippy::enum_variant_names, reason = "they are named in another crate")]
            enum Kind { $($variant,)+ }
            match error {
                $(hello_kinds!(@pattern $variant $fields) => Kind::$variant as usize,)+
            }
        }
    };
    (@pattern $variant:ident ()) => { HelloError::$variant };
    (@pattern $variant:ident (_)) => { HelloError::$variant(_) };
    (@pattern $variant:ident {}) => { HelloError::$variant { .. } };
}

hello_kinds! {
    LooksLikeHttp () = "looks_like_http";
    LooksLikeSsh () = "looks_like_ssh";
    LooksLikeProxyProtocol () = "looks_like_proxy_protocol";
    LooksLikePostgres () = "looks_like_postgres";
    LooksLikeSslv2 () = "looks_like_sslv2";
    NotTls {} = "not_tls";
    Alert () = "alert";
    NotHandshake {} = "not_handshake";
    Interleaved {} = "interleaved";
    RecordVersion {} = "record_version";
    EmptyRecord () = "empty_record";
    RecordTooLong () = "record_too_long";
    TooManyRecords {} = "too_many_records";
    NotClientHello {} = "not_client_hello";
    HelloTooLong {} = "hello_too_long";
    BytesAfterHello () = "bytes_after_hello";
    HelloVersion {} = "hello_version";
    BadLength (_) = "bad_length";
    TrailingBytes () = "trailing_bytes";
    NoNullCompression () = "no_null_compression";
    DuplicateExtension {} = "duplicate_extension";
    PreSharedKeyNotLast () = "pre_shared_key_not_last";
    EmptyAlpnName () = "empty_alpn_name";
    ServerNameEmpty () = "server_name_empty";
    ServerNameInvalid () = "server_name_invalid";
    ServerNameIsIpAddress () = "server_name_is_ip_address";
    ServerNameType {} = "server_name_type";
    SeveralServerNames () = "several_server_names";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_at_their_index() {
        assert_eq!(Handshake::all().count(), Handshake::COUNT);
        assert!(Handshake::all().enumerate().all(|(index, handshake)| handshake.index() == index));
    }

    #[test]
    fn connect_failures_are_at_their_index() {
        assert!(ConnectFailure::ALL.iter().enumerate().all(|(index, failure)| *failure as usize == index));
    }

    #[test]
    fn errors_of_the_system_have_their_kind() {
        for (errno, failure) in [
            (Errno::CONNREFUSED, ConnectFailure::Refused),
            (Errno::TIMEDOUT, ConnectFailure::TimedOut),
            (Errno::NETUNREACH, ConnectFailure::Unreachable),
            (Errno::CONNRESET, ConnectFailure::Reset),
            (Errno::MFILE, ConnectFailure::OutOfResources),
            (Errno::ADDRNOTAVAIL, ConnectFailure::OutOfResources),
            (Errno::INVAL, ConnectFailure::Other),
        ] {
            assert_eq!(ConnectFailure::from(&io::Error::from(errno)), failure, "{errno}");
        }
        let ours = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(ConnectFailure::from(&ours), ConnectFailure::TimedOut);
    }

    #[test]
    fn bad_hellos_have_the_name_of_their_kind() {
        for (error, name) in [
            (HelloError::LooksLikeHttp, "looks_like_http"),
            (HelloError::HelloTooLong { max: 3 }, "hello_too_long"),
            (HelloError::BadLength(tidegate_hello::Part::Alpn), "bad_length"),
            (HelloError::SeveralServerNames, "several_server_names"),
        ] {
            assert_eq!(HELLO_KINDS[hello_kind(&error)], name);
        }
    }
}
