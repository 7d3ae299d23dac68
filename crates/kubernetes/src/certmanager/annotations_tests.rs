use super::*;

fn meta(annotations: &[(&str, &str)]) -> Meta {
    let mut meta = Meta::new("infra", "front");
    let all = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    meta.annotations.extend(all);
    meta
}

fn asked(annotations: &[(&str, &str)]) -> (Asked, Vec<String>) {
    let mut notes = Vec::new();
    let issuer = [("cert-manager.io/cluster-issuer", "ca")];
    let meta = meta(&[&issuer[..], annotations].concat());
    (read(&meta, Grouping::Name, &mut notes).expect("an issuer"), notes)
}

fn spec(annotations: &[(&str, &str)]) -> Json {
    let (asked, notes) = asked(annotations);
    assert_eq!(notes, Vec::<String>::new());
    Json::Object(asked.spec)
}

#[test]
fn the_issuer_is_read_as_the_gateway_shim_does() {
    let issuer = |annotations: &[(&str, &str)]| {
        let mut notes = Vec::new();
        read(&meta(annotations), Grouping::Name, &mut notes).map(|asked| {
            let IssuerRef { name, kind, group } = asked.issuer;
            format!("{kind}.{group} {name}")
        })
    };
    let of_namespace = ("cert-manager.io/issuer", "own");
    let of_cluster = ("cert-manager.io/cluster-issuer", "ca");
    let kind = ("cert-manager.io/issuer-kind", "Step");
    let group = ("cert-manager.io/issuer-group", "step.example.com");
    assert_eq!(issuer(&[of_namespace]).as_deref(), Ok("Issuer.cert-manager.io own"));
    assert_eq!(issuer(&[of_cluster]).as_deref(), Ok("ClusterIssuer.cert-manager.io ca"));
    assert_eq!(issuer(&[of_namespace, kind, group]).as_deref(), Ok("Step.step.example.com own"));
    assert!(issuer(&[of_namespace, of_cluster]).is_err_and(|why| why.contains("cannot both be set")));
    assert!(issuer(&[of_cluster, kind]).is_err_and(|why| why.contains("go with cert-manager.io/issuer")));
    assert!(issuer(&[("cert-manager.io/issuer", "")]).is_err_and(|why| why.contains("name nobody")));
}

#[test]
fn every_annotation_has_its_field() {
    let told = spec(&[
        ("cert-manager.io/duration", "2160h"),
        ("cert-manager.io/renew-before", "360h"),
        ("cert-manager.io/usages", "digital signature, server auth"),
        ("cert-manager.io/revision-history-limit", "3"),
        ("cert-manager.io/private-key-algorithm", "ECDSA"),
        ("cert-manager.io/private-key-encoding", "PKCS8"),
        ("cert-manager.io/private-key-size", "384"),
        ("cert-manager.io/private-key-rotation-policy", "Always"),
        ("cert-manager.io/subject-organizations", "\"Sea, Inc\",Harbour"),
        ("cert-manager.io/subject-organizationalunits", "ops"),
        ("cert-manager.io/subject-countries", "NL"),
        ("cert-manager.io/subject-provinces", "Zeeland"),
        ("cert-manager.io/subject-localities", "Veere"),
        ("cert-manager.io/subject-postalcodes", "4351"),
        ("cert-manager.io/subject-streetaddresses", "Kaai 1"),
        ("cert-manager.io/subject-serialnumber", "7"),
    ]);
    let expected = json!({
        "duration": "2160h", "renewBefore": "360h", "usages": ["digital signature", "server auth"],
        "revisionHistoryLimit": 3,
        "privateKey": {"algorithm": "ECDSA", "encoding": "PKCS8", "size": 384, "rotationPolicy": "Always"},
        "subject": {
            "organizations": ["Sea, Inc", "Harbour"], "organizationalUnits": ["ops"], "countries": ["NL"],
            "provinces": ["Zeeland"], "localities": ["Veere"], "postalCodes": ["4351"],
            "streetAddresses": ["Kaai 1"], "serialNumber": "7",
        },
    });
    assert_eq!(told, expected);
    assert_eq!(
        spec(&[("cert-manager.io/renew-before-percentage", "25")]),
        json!({"renewBeforePercentage": 25})
    );
    let (asked, notes) = asked(&[
        ("cert-manager.io/common-name", "www.example.com"),
        ("cert-manager.io/alt-names", "a.example.com, *.b.example.com"),
        ("cert-manager.io/ip-sans", "192.0.2.1,2001:db8::1"),
        ("cert-manager.io/uri-sans", "spiffe://example.com/front"),
        ("cert-manager.io/email-sans", "you@example.com"),
        ("cert-manager.io/secret-template", r#"{"annotations": {"a": "1"}, "labels": {"b": "2"}}"#),
        ("acme.cert-manager.io/http01-ingress-class", "nginx"),
        ("acme.cert-manager.io/http01-edit-in-place", "true"),
        ("gateway.tidegate.io/cert-manager", "all"),
        ("gateway.tidegate.io/certificate-per", "listener"),
    ]);
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(asked.common_name.as_deref(), Some("www.example.com"));
    let names: Vec<&str> = asked.alt_names.iter().map(Hostname::as_str).collect();
    assert_eq!(names, ["a.example.com", "*.b.example.com"]);
    assert_eq!(
        Json::Object(asked.first),
        json!({
            "ipAddresses": ["192.0.2.1", "2001:db8::1"], "uris": ["spiffe://example.com/front"],
            "emailAddresses": ["you@example.com"],
        })
    );
    assert_eq!((asked.secret_annotations["a"].as_str(), asked.secret_labels["b"].as_str()), ("1", "2"));
    assert_eq!(asked.annotations["acme.cert-manager.io/http01-override-ingress-class"], "nginx");
    assert!(asked.annotations.contains_key("acme.cert-manager.io/http01-override-ingress-name"));
    assert_eq!(asked.annotations["cert-manager.io/issue-temporary-certificate"], "true");
    assert_eq!((asked.all_listeners, asked.together), (true, Grouping::Listener));
}

#[test]
fn a_wrong_value_is_told_and_takes_no_other_with_it() {
    let long = "a".repeat(65);
    for (key, value, words) in [
        ("duration", "90d", "write a time such as 2160h"),
        ("duration", "59m", "less than 60 minutes"),
        ("renew-before", "1m", "less than 5 minutes"),
        ("renew-before", "2160h", "not shorter than the certificate's life"),
        ("renew-before-percentage", "0", "from 1 to 99"),
        ("renew-before-percentage", "half", "from 1 to 99"),
        ("usages", "server auth,flying", "`flying`"),
        ("revision-history-limit", "0", "from 1 to"),
        ("private-key-algorithm", "DSA", "write RSA or ECDSA or Ed25519"),
        ("private-key-encoding", "PEM", "write PKCS1 or PKCS8"),
        ("private-key-size", "1024", "2048 to 8192 for RSA"),
        ("private-key-rotation-policy", "Sometimes", "write Never or Always"),
        ("subject-organizations", "\"open", "one line of values"),
        ("common-name", &long, "longer than 64"),
        ("alt-names", "not a name", "`not a name`"),
        ("ip-sans", "300.1.1.1", "no IP address"),
        ("uri-sans", "nowhere", "no URI"),
        ("secret-template", "{", "is not JSON"),
        ("secret-template", r#"{"type": "x"}"#, "has a field `type`"),
        ("secret-template", r#"{"labels": {"a": 1}}"#, "something else than texts"),
        ("secret-template", r#"{"annotations": {"cert-manager.io/x": "1"}}"#, "cert-manager's own"),
    ] {
        let key = format!("cert-manager.io/{key}");
        let (told, notes) = asked(&[(&key, value), ("cert-manager.io/subject-countries", "NL")]);
        assert_eq!(notes.len(), 1, "{key}: {notes:?}");
        assert!(notes[0].contains(&key) && notes[0].contains(words), "{}", notes[0]);
        assert_eq!(Json::Object(told.spec), json!({"subject": {"countries": ["NL"]}}), "{key}");
    }
    for key in [LISTENERS, TOGETHER] {
        let (told, notes) = asked(&[(key, "perhaps")]);
        assert!(notes.len() == 1 && notes[0].contains(key), "{notes:?}");
        assert_eq!((told.all_listeners, told.together), (false, Grouping::Name), "as the operator has it");
    }
}

#[test]
fn listeners_can_be_left_out() {
    let meta = meta(&[("cert-manager.io/ignore-tls-listeners", "one, two")]);
    assert!(is_ignored(&meta, "one") && is_ignored(&meta, "two") && !is_ignored(&meta, "three"));
}
