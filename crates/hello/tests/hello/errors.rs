//! Each way to be refused: which error, and at which byte.

use tidegate_hello::{HelloError, Limits, Part};

use crate::build::{
    ALPN, EARLY_DATA, Fields, MAX_RECORD, PRE_SHARED_KEY, SERVER_NAME, SUPPORTED_VERSIONS, handshake,
    host_name, names, protocols, read_at_once, read_dripped, record, records, short, versions,
};

#[test]
fn framing_is_refused_at_the_first_byte_that_cannot_be_right() {
    let message = Fields::typical().message();
    let with_record = |later: &[u8]| [record(22, &message[..20]), later.to_vec()].concat();
    let cases: &[(&str, Vec<u8>, usize, HelloError)] = &[
        ("alert", record(21, &[1, 0]), 1, HelloError::Alert),
        ("change cipher spec", record(20, &[1]), 1, HelloError::NotHandshake { content_type: 20 }),
        ("application data", record(23, b"x"), 1, HelloError::NotHandshake { content_type: 23 }),
        ("heartbeat", record(24, b"x"), 1, HelloError::NotHandshake { content_type: 24 }),
        ("major version", vec![22, 2, 0, 0, 1], 2, HelloError::RecordVersion { major: 2 }),
        ("DTLS", vec![22, 0xfe, 0xfd, 0, 0], 2, HelloError::RecordVersion { major: 0xfe }),
        ("empty record", vec![22, 3, 1, 0, 0, 22, 3, 1], 5, HelloError::EmptyRecord),
        ("record too long by its high byte", vec![22, 3, 1, 0x41, 0], 4, HelloError::RecordTooLong),
        ("record too long by one", vec![22, 3, 1, 0x40, 1], 5, HelloError::RecordTooLong),
        (
            "server hello",
            record(22, &handshake(2, &[0; 40])),
            6,
            HelloError::NotClientHello { handshake_type: 2 },
        ),
        ("hello request", record(22, &[0, 0, 0, 0]), 6, HelloError::NotClientHello { handshake_type: 0 }),
        ("a megabyte", record(22, &[1, 0x10, 0, 0]), 7, HelloError::HelloTooLong { max: 65536 }),
        (
            "too long by its last byte",
            record(22, &[1, 0, 0xff, 0xfd]),
            9,
            HelloError::HelloTooLong { max: 65536 },
        ),
        (
            "too long, header in four records",
            records(&[1, 0x10, 0, 0], 1),
            12,
            HelloError::HelloTooLong { max: 65536 },
        ),
        (
            "alert in between",
            with_record(&record(21, &[1, 0])),
            26,
            HelloError::Interleaved { content_type: 21 },
        ),
        ("garbage in between", with_record(b"GET "), 26, HelloError::Interleaved { content_type: b'G' }),
        ("empty record in between", with_record(&[22, 3, 1, 0, 0]), 30, HelloError::EmptyRecord),
        ("version in between", with_record(&[22, 2]), 27, HelloError::RecordVersion { major: 2 }),
        (
            "second message in the hello's record",
            record(22, &[message.clone(), handshake(1, &[])].concat()),
            9,
            HelloError::BytesAfterHello,
        ),
        (
            "second message in the hello's second record",
            with_record(&record(22, &[&message[20..], &[0]].concat())),
            30,
            HelloError::BytesAfterHello,
        ),
    ];
    for (what, wire, at, error) in cases {
        assert_eq!(read_dripped(wire, Limits::default()), (*at, Err(*error)), "{what}");
        assert_eq!(read_at_once(wire, Limits::default()), Err(*error), "{what}, at once");
    }
}

#[test]
fn other_protocols_are_refused_at_once_and_told_apart() {
    let not_tls = |first| HelloError::NotTls { first };
    let cases: &[(&[u8], HelloError)] = &[
        (b"GET / HTTP/1.1\r\n", HelloError::LooksLikeHttp),
        (b"G", HelloError::LooksLikeHttp),
        (b"POST /", HelloError::LooksLikeHttp),
        (b"OPTIONS * HTTP/1.1", HelloError::LooksLikeHttp),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HelloError::LooksLikeHttp),
        (b"P", HelloError::LooksLikeHttp),
        (b"GETTING there", not_tls(b'G')),
        (b"SSH-2.0-OpenSSH_9.2\r\n", HelloError::LooksLikeSsh),
        (b"PROXY TCP4 192.0.2.1", HelloError::LooksLikeProxyProtocol),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11", HelloError::LooksLikeProxyProtocol),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", HelloError::LooksLikePostgres),
        (b"\x80\x2e\x01\x00\x02\x00\x15", HelloError::LooksLikeSslv2),
        (b"\x80\x2e\x01\x03\x01\x00\x15", HelloError::LooksLikeSslv2),
        (b"\x80\x2e\x01", HelloError::LooksLikeSslv2),
        (b"\x80\x2e\x01\x00", HelloError::LooksLikeSslv2),
        (b"\x80\x2e\x01\x00\x09", not_tls(0x80)),
        (b"\x80\x2e\x02", not_tls(0x80)),
        (b"\x80", not_tls(0x80)),
        (b"\0", not_tls(0)),
        (b"\r\n", not_tls(b'\r')),
        (b"EHLO example.com\r\n", not_tls(b'E')),
        (b"\x17", HelloError::NotHandshake { content_type: 0x17 }),
    ];
    for (wire, error) in cases {
        assert_eq!(read_at_once(wire, Limits::default()), Err(*error), "{}", wire.escape_ascii());
        let (taken, dripped) = read_dripped(wire, Limits::default());
        assert!(dripped.is_err() && taken == 1, "{}", wire.escape_ascii());
    }
}

#[test]
fn limits_are_exact() {
    let message = Fields::typical().message();
    let len = message.len();
    let max_hello = |max_hello| Limits { max_hello, ..Limits::default() };
    assert!(matches!(read_at_once(&records(&message, MAX_RECORD), max_hello(len)), Ok(Some(_))));
    assert_eq!(
        read_at_once(&records(&message, MAX_RECORD), max_hello(len - 1)),
        Err(HelloError::HelloTooLong { max: len - 1 })
    );
    let max_records = |max_records| Limits { max_records, ..Limits::default() };
    let three = records(&message, len.div_ceil(3));
    assert!(matches!(read_at_once(&three, max_records(3)), Ok(Some(_))));
    assert_eq!(read_at_once(&three, max_records(2)), Err(HelloError::TooManyRecords { max: 2 }));
}

#[test]
fn bodies_that_do_not_add_up() {
    let fields = Fields::default;
    let bad = HelloError::BadLength;
    let shortened = |len: usize| handshake(1, &Fields::default().body()[..len]);
    let with = |extension_type, data: &[u8]| fields().with(extension_type, data.to_vec()).message();
    let cases: &[(&str, Vec<u8>, HelloError)] = &[
        ("empty body", handshake(1, &[]), bad(Part::Version)),
        ("ends in the version", shortened(1), bad(Part::Version)),
        ("ends in the random", shortened(33), bad(Part::Random)),
        ("ends before the session id", shortened(34), bad(Part::SessionId)),
        ("ends in the session id", shortened(40), bad(Part::SessionId)),
        ("ends in the cipher suites", shortened(70), bad(Part::CipherSuites)),
        ("ends before the compression methods", shortened(75), bad(Part::CompressionMethods)),
        ("ends in the extensions' length", shortened(78), bad(Part::Extensions)),
        (
            "SSL 2.0 version",
            Fields { version: [0, 2], ..fields() }.message(),
            HelloError::HelloVersion { version: 2 },
        ),
        (
            "session id of 33 bytes",
            Fields { session_id: vec![0; 33], ..fields() }.message(),
            bad(Part::SessionId),
        ),
        ("no cipher suites", Fields { cipher_suites: vec![], ..fields() }.message(), bad(Part::CipherSuites)),
        (
            "half a cipher suite",
            Fields { cipher_suites: vec![0; 3], ..fields() }.message(),
            bad(Part::CipherSuites),
        ),
        (
            "no compression methods",
            Fields { compression_methods: vec![], ..fields() }.message(),
            bad(Part::CompressionMethods),
        ),
        (
            "only real compression",
            Fields { compression_methods: vec![1], ..fields() }.message(),
            HelloError::NoNullCompression,
        ),
        (
            "bytes after the extensions",
            Fields { trailing: vec![0], ..Fields::typical() }.message(),
            HelloError::TrailingBytes,
        ),
        (
            "extensions longer than the hello",
            Fields { extensions: None, trailing: vec![0, 9, 0, 0], ..fields() }.message(),
            bad(Part::Extensions),
        ),
        (
            "half an extension header",
            Fields { extensions: None, trailing: vec![0, 3, 0, 0, 0], ..fields() }.message(),
            bad(Part::Extensions),
        ),
        (
            "extension longer than the list",
            Fields { extensions: None, trailing: vec![0, 4, 0, 99, 0, 1], ..fields() }.message(),
            bad(Part::Extensions),
        ),
        (
            "the same name twice",
            Fields::typical().with(SERVER_NAME, host_name(b"www.example.com")).message(),
            HelloError::DuplicateExtension { extension_type: 0 },
        ),
        (
            "an unknown extension twice",
            fields().with(0xffff, vec![]).with(7777, vec![]).with(0xffff, vec![1]).message(),
            HelloError::DuplicateExtension { extension_type: 0xffff },
        ),
        (
            "a GREASE extension twice",
            fields().with(0x0a0a, vec![]).with(0x0a0a, vec![]).message(),
            HelloError::DuplicateExtension { extension_type: 0x0a0a },
        ),
        (
            "pre-shared key before another",
            fields().with(PRE_SHARED_KEY, vec![]).with(7777, vec![]).message(),
            HelloError::PreSharedKeyNotLast,
        ),
        ("early data with content", with(EARLY_DATA, &[0]), bad(Part::EarlyData)),
        ("ALPN without list", with(ALPN, &[]), bad(Part::Alpn)),
        ("ALPN with an empty list", with(ALPN, &[0, 0]), bad(Part::Alpn)),
        ("ALPN with an empty name", with(ALPN, &protocols(&[b"h2", b""])), HelloError::EmptyAlpnName),
        ("ALPN name longer than the list", with(ALPN, &[0, 3, 9, b'h', b'2']), bad(Part::Alpn)),
        ("ALPN list longer than the extension", with(ALPN, &[0, 9, 2, b'h', b'2']), bad(Part::Alpn)),
        ("bytes after the ALPN list", with(ALPN, &[0, 3, 2, b'h', b'2', 0]), bad(Part::Alpn)),
        ("no versions", with(SUPPORTED_VERSIONS, &versions(&[])), bad(Part::SupportedVersions)),
        ("half a version", with(SUPPORTED_VERSIONS, &short(&[3, 4, 3])), bad(Part::SupportedVersions)),
        ("versions too long", with(SUPPORTED_VERSIONS, &[4, 3, 4]), bad(Part::SupportedVersions)),
        ("bytes after the versions", with(SUPPORTED_VERSIONS, &[2, 3, 4, 0]), bad(Part::SupportedVersions)),
        ("server name without list", with(SERVER_NAME, &[]), bad(Part::ServerName)),
        ("server name list too long", with(SERVER_NAME, &[0, 9, 0, 0, 1, b'a']), bad(Part::ServerName)),
        ("server name too long", with(SERVER_NAME, &[0, 4, 0, 0, 9, b'a']), bad(Part::ServerName)),
        ("bytes after the server names", with(SERVER_NAME, &[0, 4, 0, 0, 1, b'a', 0]), bad(Part::ServerName)),
        ("server name list empty", with(SERVER_NAME, &[0, 0]), HelloError::ServerNameEmpty),
        ("server name empty", with(SERVER_NAME, &host_name(b"")), HelloError::ServerNameEmpty),
        (
            "server name of another type",
            with(SERVER_NAME, &names(&[(1, b"a.example")])),
            HelloError::ServerNameType { name_type: 1 },
        ),
        (
            "two server names",
            with(SERVER_NAME, &names(&[(0, b"a.example"), (0, b"b.example")])),
            HelloError::SeveralServerNames,
        ),
        (
            "a second name of another type",
            with(SERVER_NAME, &names(&[(0, b"a.example"), (1, b"b.example")])),
            HelloError::SeveralServerNames,
        ),
    ];
    for (what, message, error) in cases {
        assert_eq!(read_at_once(&records(message, MAX_RECORD), Limits::default()), Err(*error), "{what}");
        assert_eq!(
            read_at_once(&records(message, 3), Limits { max_records: 999, ..Limits::default() }),
            Err(*error),
            "{what}, in records of three bytes"
        );
    }
}

#[test]
fn errors_read_as_plain_words() {
    let cases = [
        (HelloError::LooksLikeHttp, "the client speaks HTTP without TLS"),
        (HelloError::NotTls { first: 7 }, "not TLS: the first byte is 0x07"),
        (HelloError::HelloVersion { version: 2 }, "the ClientHello has version 0x0002, which is not TLS"),
        (HelloError::BadLength(Part::Alpn), "a length in the ClientHello is wrong: application protocols"),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
    }
}
