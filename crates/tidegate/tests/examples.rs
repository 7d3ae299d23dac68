//! Every example is accepted as it is, and its flows go where its README says.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::fs;
use std::path::Path;
use std::process::Command;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

fn tidegate(arguments: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments.split_whitespace())
        .current_dir(EXAMPLES)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn folders() -> Vec<String> {
    let folders =
        fs::read_dir(EXAMPLES).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let names = folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    names.collect()
}

/// Those that are accepted as they are. The Secret of `certificates` is made when it is run, by an issuer that only the
/// command line names, and missed until then.
fn examples() -> Vec<String> {
    folders().into_iter().filter(|name| name != "certificates").collect()
}

#[test]
fn every_example_is_accepted_without_a_word() {
    let examples = examples();
    assert_eq!(examples.len(), 10);
    for example in examples {
        let (exit, _, remarks) = tidegate(&format!("check {example}"));
        assert_eq!((exit, remarks.as_str()), (0, ""), "{example}");
        for format in ["json", "yaml"] {
            let (exit, list, remarks) = tidegate(&format!("check {example} -o {format}"));
            assert_eq!((exit, remarks.as_str()), (0, ""), "{example}");
            assert!(!list.contains("PRIVATE KEY"), "{example} shows a key");
        }
    }
}

#[test]
fn of_certificates_nothing_is_missing_but_the_secret_that_is_made() {
    let (exit, table, remarks) = tidegate("check certificates");
    assert_eq!((exit, remarks.lines().count()), (1, 1), "{remarks}");
    assert!(table.contains("Secret default/front does not exist"), "{table}");
    let (exit, plan, _) = tidegate("certs plan certificates --certs embedded");
    assert_eq!((exit, plan.contains("notes.example.com")), (0, true), "{plan}");
}

/// What a list says is read back as the same objects, and there is nothing more to say about them.
#[test]
fn the_printed_list_can_be_checked_again() {
    for example in examples() {
        let (_, list, _) = tidegate(&format!("check {example} -o yaml"));
        let folder = tempfile::tempdir().unwrap();
        let certificates = format!("{EXAMPLES}/{example}/certs");
        if Path::new(&certificates).exists() {
            copy(Path::new(&certificates), &folder.path().join("certs"));
        }
        fs::write(folder.path().join("list.yaml"), &list).unwrap();
        let (exit, again, remarks) = tidegate(&format!("check {} -o yaml", folder.path().display()));
        assert_eq!((exit, remarks.as_str()), (0, ""), "{example}");
        assert_eq!(list, again, "{example}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The commands in the READMEs work.
#[test]
fn every_command_of_a_readme_is_good_usage() {
    for example in folders() {
        let readme = fs::read_to_string(format!("{EXAMPLES}/{example}/README.md")).unwrap();
        let commands = readme.lines().filter(|line| line.starts_with("tidegate ") && !line.ends_with('&'));
        let commands: Vec<&str> = commands.collect();
        assert!(commands.len() >= 3, "{example}");
        for line in commands {
            let command =
                line.split('#').next().unwrap().trim_start_matches("tidegate ").replace("examples/", "");
            let (exit, _, remarks) = tidegate(&command);
            let expected = i32::from(["refused", "421"].iter().any(|word| line.contains(word)));
            assert_eq!(exit, expected, "{line}\n{remarks}");
        }
    }
}

#[test]
fn flows_go_where_the_examples_say() {
    for (arguments, exit, expected) in [
        (
            "passthrough --port 5432 --sni orders.db.example.com",
            0,
            &[
                "TLS passthrough",
                "TLSRoute default/orders",
                "100 % to Service default/postgres-orders:5432",
                "127.0.0.1:15432",
            ][..],
        ),
        (
            "passthrough --port 5432 --sni CUSTOMERS.db.example.com.",
            0,
            &[
                "90 % to Service default/postgres-customers:5432",
                "10 % to Service default/postgres-customers-new:5432",
            ],
        ),
        (
            "passthrough --port 9094 --sni bootstrap.kafka.example.com",
            0,
            &["50 % to Service default/kafka-0:9094"],
        ),
        (
            "passthrough --port 9094 --sni broker-1.kafka.example.com",
            0,
            &["100 % to Service default/kafka-1:9094"],
        ),
        (
            "passthrough --port 9094 --sni orders.db.example.com",
            1,
            &["no listener of this port takes this server name"],
        ),
        ("passthrough --port 5432 --sni db.example.com", 1, &["the connection is closed"]),
        ("passthrough --port 5432", 1, &["the client does not speak it"]),
        ("passthrough --port 5433 --sni orders.db.example.com", 1, &["no listener on this address and port"]),
        (
            "terminate --port 8883 --sni mqtt.example.com --client-ip 192.0.2.1",
            0,
            &[
                "from 192.0.2.1",
                "TLS terminate",
                "Secret default/mqtt (mqtt.example.com; until 2126-",
                "keeps its endpoint for 600 s",
            ],
        ),
        ("terminate --port 8883 --no-sni", 1, &["the client named no server"]),
        ("mixed --port 443 --sni vault.example.com", 0, &["TLS passthrough", "Service default/vault:8200"]),
        (
            "mixed --port 443 --sni mqtt.example.com",
            0,
            &["TLS terminate", "Secret default/mqtt", "Service default/broker:1883"],
        ),
        (
            "mixed --port 443 --host www.example.com --path /a --alpn h2 --alpn http/1.1",
            0,
            &[
                "HTTPS, www.example.com, HTTP/2",
                "Secret default/web",
                "GET http://www.example.com/a",
                "[::1]:8080",
            ],
        ),
        ("mixed --port 443 --host shop.example.com:443", 0, &["HTTPRoute default/shop"]),
        ("mixed --port 443 --sni www.example.com --host shop.example.com", 1, &["HTTP status 421"]),
        ("mixed --port 443 --sni www.example.com --alpn mqtt", 1, &["offers only protocols"]),
        ("mixed --port 443 --sni example.com", 1, &["no listener of this port takes this server name"]),
        ("tcp-and-udp --port 5300 --udp", 0, &["UDPRoute default/dns", "127.0.0.1:1053"]),
        ("tcp-and-udp --port 5300", 0, &["TCPRoute default/dns", "127.0.0.1:1053"]),
        ("tcp-and-udp --port 53 --udp", 1, &["the datagram is dropped"]),
        (
            "reencrypt --port 6380 --sni cache.example.com",
            0,
            &[
                "Secret default/cache",
                "TLS with server name redis.internal.example.com, checked against CA bundle",
            ],
        ),
        (
            "reencrypt --port 8443 --host app.example.com --path /x",
            0,
            &["must name spiffe://example.com/ns/default/sa/app", "GET https://app.example.com/x"],
        ),
        (
            "reencrypt --port 15432",
            0,
            &["TLS with server name ledger.example.org, checked against the system's CAs"],
        ),
        (
            "http --port 8080 --host shop.example.com --path /api/orders",
            0,
            &[
                "rule 1 `api`",
                "90 % to Service default/api-v1:80",
                "10 % to Service default/api-v2:80",
                "request timeout 5 s",
            ],
        ),
        (
            "http --port 8080 --host shop.example.com --path /api --header X-Canary=yes",
            0,
            &["rule 0 `canary`", "100 % to Service default/api-v2:80"],
        ),
        (
            "http --port 8080 --host shop.example.com --path /static/logo.svg?v=2",
            0,
            &["GET http://shop.example.com/assets/logo.svg?v=2"],
        ),
        (
            "http --port 8080 --host shop.example.com --path /static/logo.svg --method PUT",
            0,
            &["HTTPRoute default/start-page"],
        ),
        (
            "http --port 8080 --host shop.example.com --path /old-shop",
            0,
            &["301 to http://shop.example.com:8080/"],
        ),
        ("http --port 8080 --host shop.example.com --path /about", 0, &["HTTPRoute default/start-page"]),
        ("http --port 8080 --host other.test", 1, &["HTTP status 404"]),
        ("http --port 8080", 1, &["the client gives no host"]),
        (
            "grpc --port 8443 --host grpc.example.com --alpn h2 --method POST --path /shop.v1.Orders/Get",
            0,
            &["rule 0 `reads`", "127.0.0.1:9101, 127.0.0.1:9102"],
        ),
        (
            "grpc --port 8443 --host grpc.example.com --alpn h2 --method POST --path /shop.v1.Orders/Create",
            0,
            &["rule 1 `all`", "set x-source=edge"],
        ),
        (
            "grpc --port 8443 --host grpc.example.com --alpn h2 --method POST --path /shop.v1.Users/Get",
            1,
            &["no rule of the routes"],
        ),
    ] {
        let (found, text, remarks) = tidegate(&format!("explain {arguments}"));
        assert_eq!(found, exit, "{arguments}\n{text}{remarks}");
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in expected {
            assert!(joined.contains(words), "{arguments}: no {words:?} in\n{text}");
        }
    }
}

#[test]
fn an_example_differs_from_itself_in_nothing() {
    for example in examples() {
        let (exit, text, remarks) = tidegate(&format!("diff {example} {example}"));
        assert_eq!(
            (exit, text.as_str(), remarks.as_str()),
            (0, "Nothing changes for traffic.\n", ""),
            "{example}"
        );
    }
}
