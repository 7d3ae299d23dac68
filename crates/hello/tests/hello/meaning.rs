//! What a valid hello is taken to say.

use tidegate_hello::{HelloError, Limits, Progress, Reader, Version};

use crate::build::{
    ALPN, EARLY_DATA, ECH, Fields, PRE_SHARED_KEY, SERVER_NAME, SUPPORTED_VERSIONS, Said, host_name,
    protocols, read_at_once, versions,
};

fn said(fields: &Fields) -> Said {
    read_at_once(&fields.wire(), Limits::default()).expect("a valid hello").expect("a complete hello")
}

fn name(sent: &[u8]) -> Result<String, HelloError> {
    let wire = Fields::default().with(SERVER_NAME, host_name(sent)).wire();
    read_at_once(&wire, Limits::default())
        .map(|said| said.and_then(|said| said.server_name).expect("a complete hello with a name"))
}

/// A name of this length whose labels are as long as labels can be.
fn name_of(len: usize) -> String {
    let label = "a".repeat(63);
    format!("{label}.{label}.{label}.{}", "b".repeat(len - 3 * 64))
}

#[test]
fn names_are_given_in_one_spelling() {
    let longest = name_of(253);
    let cases = [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_dmarc.a_b.example", "_dmarc.a_b.example"),
        ("1.2.3.example", "1.2.3.example"),
        ("1-2.example", "1-2.example"),
        ("4chan", "4chan"),
        (&longest, &longest),
        (&format!("{longest}."), &longest),
    ];
    for (sent, meant) in cases {
        assert_eq!(name(sent.as_bytes()).as_deref(), Ok(meant), "{sent}");
    }
}

#[test]
fn names_that_no_host_has_are_refused() {
    let too_long = name_of(254);
    let long_label = format!("{}.example", "a".repeat(64));
    let invalid: &[&[u8]] = &[
        b"..",
        b".example",
        b"a..example",
        b"a.example..",
        b"-a.example",
        b"a-.example",
        b"a.example-",
        b"*.example",
        b"a b.example",
        b"a.example\0",
        b"a.example\n",
        b"a/b",
        b"a.example:443",
        b"b\xc3\xbccher.example",
        b"\xff",
        b"127.1",
        b"1.2.3.4.5",
        b"999.1.1.1",
        b"12345",
        b"a.1",
        b"[::1",
        long_label.as_bytes(),
        too_long.as_bytes(),
        &[b'a'; 300],
        &[b'a'; 60_000],
    ];
    for sent in invalid {
        assert_eq!(name(sent), Err(HelloError::ServerNameInvalid), "{}", sent.escape_ascii());
    }
    for sent in
        ["127.0.0.1", "192.0.2.1.", "::1", "2001:db8::1", "[2001:db8::1]", "fe80::1%eth0", "::ffff:1.2.3.4"]
    {
        assert_eq!(name(sent.as_bytes()), Err(HelloError::ServerNameIsIpAddress), "{sent}");
    }
    for sent in ["", "."] {
        assert_eq!(name(sent.as_bytes()), Err(HelloError::ServerNameEmpty), "{sent}");
    }
}

#[test]
fn without_extensions_there_is_no_name() {
    for extensions in [None, Some(vec![])] {
        let said = said(&Fields { extensions, version: [3, 1], ..Fields::default() });
        assert_eq!((said.server_name, said.alpn, said.versions), (None, vec![], vec![0x0301]));
    }
}

#[test]
fn alpn_keeps_its_order_and_loses_its_grease() {
    let offered: [&[u8]; 5] = [b"\xaa\xaa", b"acme-tls/1", b"h2", b"\x0a\x1a", b"\xff\x00"];
    let said = said(&Fields::default().with(ALPN, protocols(&offered)));
    assert_eq!(said.alpn, offered[1..]);
}

#[test]
fn alpn_of_nothing_but_grease_is_empty() {
    let wire = Fields::default().with(ALPN, protocols(&[b"\x5a\x5a"])).wire();
    let mut reader = Reader::new(Limits::default());
    let Ok(Progress::Hello(hello)) = reader.advance(&wire) else { panic!("a valid hello was not read") };
    assert!(hello.alpn.is_empty());
    assert!(!hello.alpn.contains(b"\x5a\x5a"));
}

#[test]
fn versions_come_from_the_extension_or_else_from_the_old_field() {
    let listed = |list: &[u16]| said(&Fields::default().with(SUPPORTED_VERSIONS, versions(list))).versions;
    assert_eq!(listed(&[0x0304, 0x0303]), [0x0304, 0x0303]);
    assert_eq!(listed(&[0x8a8a, 0x0302, 0x7f1c]), [0x0302, 0x7f1c]);
    assert_eq!(listed(&[0xfafa]), []);
    let old = |minor| said(&Fields { version: [3, minor], ..Fields::default() }).versions;
    assert_eq!(old(0), [0x0300]);
    assert_eq!(old(2), [0x0302]);
    assert_eq!(old(4), [0x0303], "TLS 1.3 is only offered by the extension");
    assert_eq!(Version::TLS_1_3.to_string(), "TLS 1.3");
    assert_eq!(Version(0x0300).to_string(), "SSL 3.0");
    assert_eq!(Version(0x7f1c).to_string(), "0x7f1c");
}

#[test]
fn flags_for_ech_and_early_data() {
    let said = said(
        &Fields::typical().with(ECH, vec![0; 200]).with(EARLY_DATA, vec![]).with(PRE_SHARED_KEY, vec![0; 60]),
    );
    assert!(said.ech && said.early_data);
    assert_eq!(said.server_name.as_deref(), Some("www.example.com"), "the outer name");
}
