use std::time::UNIX_EPOCH;

use proptest::prelude::*;
use tidegate_plan::{BackendKind, ObjectName, RouteKind, Transport};

use super::super::fields::decimal;
use super::*;

pub(crate) fn ids() -> (ListenerId, RouteId, BackendId) {
    let listener =
        ListenerId { gateway: ObjectName::new("infra", "edge"), listener_set: None, name: "tls".into() };
    let object = ObjectName::new("shop", "web");
    let route = RouteId { kind: RouteKind::Tls, object: object.clone() };
    let backend = BackendId { kind: BackendKind::Service, object, port: 8443, transport: Transport::Tcp };
    (listener, route, backend)
}

pub(crate) fn record<'a>(ids: &'a (ListenerId, RouteId, BackendId), sni: &'a str) -> Record<'a> {
    Record {
        start: UNIX_EPOCH + Duration::from_millis(1_794_800_475_042),
        protocol: "TLS passthrough",
        client: "203.0.113.9:51234".parse().unwrap(),
        local: "198.51.100.1:443".parse().unwrap(),
        sni: Some(sni),
        tls: None,
        listener: Some(&ids.0),
        route: Some(&ids.1),
        backend: Some(&ids.2),
        endpoint: Some("10.1.2.3:8443".parse().unwrap()),
        up: 517,
        down: 1_234_567_890_123,
        duration: Duration::from_micros(12_345_678),
        ending: Ending::Done,
        detail: None,
        request: None,
    }
}

fn written(record: &Record<'_>, format: Format) -> String {
    let mut line = Vec::new();
    record.write(format, &mut line);
    String::from_utf8(line).unwrap()
}

#[test]
fn a_line_in_both_formats() {
    let ids = ids();
    let record = record(&ids, "www.example.com");
    assert_eq!(
        written(&record, Format::Text),
        "2026-11-16T03:41:15.042Z protocol=\"TLS passthrough\" client=203.0.113.9:51234 \
         local=198.51.100.1:443 sni=\"www.example.com\" listener=\"infra/edge/tls\" \
         route=\"TLSRoute shop/web\" backend=\"Service shop/web:8443\" endpoint=10.1.2.3:8443 \
         bytes_up=517 bytes_down=1234567890123 seconds=12.345678 ending=\"done\"\n"
    );
    let json: serde_json::Value = serde_json::from_str(&written(&record, Format::Json)).unwrap();
    let expected = serde_json::json!({
        "start": "2026-11-16T03:41:15.042Z",
        "protocol": "TLS passthrough",
        "client": "203.0.113.9:51234",
        "local": "198.51.100.1:443",
        "sni": "www.example.com",
        "listener": "infra/edge/tls",
        "route": "TLSRoute shop/web",
        "backend": "Service shop/web:8443",
        "endpoint": "10.1.2.3:8443",
        "bytes_up": 517,
        "bytes_down": 1_234_567_890_123_u64,
        "seconds": 12.345678,
        "ending": "done",
    });
    assert_eq!(json, expected);
}

#[test]
fn what_is_not_known_is_left_out_and_what_is_known_of_tls_is_there() {
    let ids = ids();
    let mut record = Record {
        client: "[::ffff:203.0.113.9]:1".parse().unwrap(),
        local: "[2001:db8::1]:443".parse().unwrap(),
        sni: None,
        listener: None,
        route: None,
        backend: None,
        endpoint: None,
        up: 0,
        down: 0,
        duration: Duration::ZERO,
        ending: Ending::HelloInvalid,
        detail: Some(&tidegate_hello::HelloError::LooksLikeHttp),
        ..record(&ids, "")
    };
    assert_eq!(
        written(&record, Format::Text),
        "2026-11-16T03:41:15.042Z protocol=\"TLS passthrough\" client=203.0.113.9:1 local=[2001:db8::1]:443 \
         bytes_up=0 bytes_down=0 seconds=0.000000 ending=\"hello_invalid\" \
         detail=\"the client speaks HTTP without TLS\"\n"
    );
    record.tls = Some(Tls { version: TlsVersion::V1_3, alpn: Some(b"h2") });
    assert!(written(&record, Format::Text).contains(" tls=\"1.3\" alpn=\"h2\" "));
}

#[test]
fn a_long_value_is_cut() {
    let ids = ids();
    let long = "x".repeat(10_000);
    let line = written(&Record { detail: Some(&long), ..record(&ids, "a") }, Format::Text);
    assert!(line.ends_with(&format!(" detail=\"{}\"\n", "x".repeat(512))));
    let line = written(&record(&ids, &long), Format::Text);
    assert!(line.contains(&format!(" sni=\"{}\" ", "x".repeat(512))));
}

proptest! {
    #[test]
    fn no_peer_can_forge_a_line_or_a_field(sni in ".*", alpn in prop::collection::vec(any::<u8>(), 0..256), detail in ".{0,100}") {
        let ids = ids();
        let tls = Some(Tls { version: TlsVersion::V1_2, alpn: Some(&alpn) });
        let record = Record { tls, detail: Some(&detail), ..record(&ids, &sni) };
        for format in [Format::Text, Format::Json] {
            let line = written(&record, format);
            prop_assert!(line.ends_with('\n'));
            let inside = &line[..line.len() - 1];
            prop_assert!(inside.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line:?}");
        }
        let json: serde_json::Value = serde_json::from_str(&written(&record, Format::Json)).unwrap();
        let latin: String = alpn.iter().map(|&byte| char::from(byte)).collect();
        prop_assert_eq!(json["alpn"].as_str().unwrap(), latin);
        prop_assert_eq!(json.as_object().unwrap().len(), 16);
        // Outside of quotes the names are ours alone.
        let text = written(&record, Format::Text).replace("\\\\", "").replace("\\\"", "");
        let outside: String = text.split('"').step_by(2).collect();
        prop_assert_eq!(outside.matches('=').count(), 15);
    }

    #[test]
    fn numbers_are_written_in_full(number: u64, micros in 0_u64..u64::MAX / 1_000) {
        let mut out = Vec::new();
        decimal(number, &mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        let ids = ids();
        let duration = Duration::from_micros(micros);
        let line = written(&Record { duration, ..record(&ids, "a") }, Format::Text);
        let expected = format!(" seconds={}.{:06} ", micros / 1_000_000, micros % 1_000_000);
        prop_assert!(line.contains(&expected), "{line} {expected}");
    }
}
