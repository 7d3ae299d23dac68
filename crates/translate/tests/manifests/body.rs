//! What must hold for any bytes that are given as manifests: no panic from YAML to decisions, problems that
//! point into the source, and the same translation twice. The fuzz target `manifests` runs this, too.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_api::{Node, Object, Problem, folder, objects, read_object, yaml};
use tidegate_plan::{Connection, Flow, Hello, Hostname, Plan, Request, Step, Tables};
use tidegate_translate::{Resources, Settings, Source, translate};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    let (documents, mut problems) = yaml::documents(source);
    let mut found: Vec<Object> = Vec::new();
    for document in documents {
        let (nodes, of_lists) = objects(document);
        problems.extend(of_lists);
        for node in &nodes {
            let reading = read_object(node);
            assert!(
                reading.object.is_some() || reading.key.is_none() || !reading.problems.is_empty(),
                "refused without a word"
            );
            assert!(reading.object.is_none() || reading.draft.is_none(), "right and wrong at once");
            problems.extend(reading.problems);
            if let Some(object) = reading.object.as_ref().or(reading.draft.as_ref()) {
                found.extend(annotated(object, node, &mut problems));
            }
            found.extend(reading.object);
        }
    }
    problems.iter().for_each(|problem| inside(problem, source));
    let mut resources = Resources::default();
    for object in folder::complete(found) {
        resources.insert(object);
    }
    for origin in [Source::Folder, Source::Cluster] {
        let settings = Settings { source: origin, ..Settings::folder() };
        let translation = translate(&resources, &settings);
        assert_eq!(translation, translate(&resources, &settings));
        decide(&translation.plan);
    }
}

/// What the annotations of a folder stand for; the files themselves are not there.
fn annotated(object: &Object, node: &Node, problems: &mut Vec<Problem>) -> Vec<Object> {
    problems.extend(folder::data_files(object, node).1);
    let Object::Service(service) = object else { return Vec::new() };
    let (slices, wrong) = folder::endpoint_slices(service, node);
    problems.extend(wrong);
    slices.into_iter().map(|slice| Object::EndpointSlice(Arc::new(slice))).collect()
}

fn inside(problem: &Problem, source: &str) {
    let span = problem.span;
    assert!(
        span.start <= span.end && span.end <= source.len() + 1,
        "{problem} at {span:?} of {}",
        source.len()
    );
    assert!(source.is_char_boundary(span.start.min(source.len())), "{problem}");
}

/// Every listener is asked about a few flows.
fn decide(plan: &Plan) {
    let tables = Tables::new(plan);
    for listener in plan.listeners() {
        let local = SocketAddr::from(([192, 0, 2, 1], listener.port));
        for name in [None, Some("a.example.com"), listener.hostname.as_ref().map(Hostname::base)] {
            let hello = listener.handling.reads_hello().then_some(Hello { sni: name, alpn: &[] });
            let connection = Connection { local, transport: listener.handling.transport(), hello };
            let request =
                Request { host: name, method: "GET", path: "/a/b", query: Some("a=b"), headers: &() };
            let mut trace: Vec<Step> = Vec::new();
            let traced =
                tidegate_plan::decide(&tables, &Flow { connection, request: Some(request) }, &mut trace);
            let plain = tidegate_plan::decide(&tables, &Flow { connection, request: Some(request) }, &mut ());
            assert_eq!(traced.is_ok(), plain.is_ok(), "the trace changes the decision");
        }
    }
}
