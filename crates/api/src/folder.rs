//! What a folder of manifests leaves out, filled in as a cluster would have it, and what it may say beyond that:
//! annotations that stand for EndpointSlices and for data in files beside the manifest.
//!
//! Nothing here reads a file; who does knows where objects stand and hands that in.

mod endpoints;
mod files;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::core::{NamespaceObject, NamespaceSpec};
use crate::gateway::{GatewayClass, GatewayClassSpec};
use crate::problem::{Problem, Severity};
use crate::read::At;
use crate::scalar::ControllerName;
use crate::tree::{Node, Span};
use crate::{Meta, Object, ObjectKey};

pub use crate::core::FILES_ANNOTATION;
pub use endpoints::{ENDPOINTS_ANNOTATION, endpoint_slices};
pub use files::{DataFile, add_file, data_files};

pub const CONTROLLER_NAME: &str = "gateway.tidegate.io/controller";
pub const CLASS_NAME: &str = "tidegate";
/// The label that every Namespace of a cluster has.
pub const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// Adds the GatewayClass `tidegate` where there is none, and a Namespace for each namespace that an object is in;
/// every Namespace gets the label with its name.
#[must_use]
pub fn complete(mut objects: Vec<Object>) -> Vec<Object> {
    let has_class = objects.iter().any(|object| match object {
        Object::GatewayClass(class) => &*class.meta.name == CLASS_NAME,
        _ => false,
    });
    if !has_class {
        objects.push(default_class());
    }
    let mut missing: BTreeSet<Arc<str>> = objects
        .iter()
        .filter(|object| object.kind().is_namespaced())
        .map(|object| Arc::clone(&object.meta().namespace))
        .collect();
    for object in &mut objects {
        if let Object::Namespace(namespace) = object {
            missing.remove(&namespace.meta.name);
            label(Arc::make_mut(namespace));
        }
    }
    objects.extend(missing.into_iter().map(namespace));
    objects
}

/// The GatewayClass that a folder has where it writes none.
#[must_use]
pub fn default_class() -> Object {
    let controller_name = ControllerName::new(CONTROLLER_NAME).expect("the controller's name is well-formed");
    let spec = GatewayClassSpec { controller_name, parameters_ref: None, description: None };
    Object::GatewayClass(Arc::new(GatewayClass { meta: Meta::new("", CLASS_NAME), spec }))
}

/// A Namespace that nobody wrote.
#[must_use]
pub fn namespace(name: Arc<str>) -> Object {
    let mut namespace = NamespaceObject { meta: Meta::new("", name), spec: NamespaceSpec {} };
    label(&mut namespace);
    Object::Namespace(Arc::new(namespace))
}

/// Gives a Namespace the label with its name.
pub fn label(namespace: &mut NamespaceObject) {
    let name = namespace.meta.name.to_string();
    namespace.meta.labels.insert(NAMESPACE_LABEL.to_owned(), name);
}

/// What is wrong with an object whose kind, namespace and name an earlier one has; `first` is a place that a
/// person can find, such as `web.yaml:3`.
#[must_use]
pub fn duplicate(key: &ObjectKey, first: &str, span: Span) -> Problem {
    Problem {
        severity: Severity::Error,
        rule: "duplicate-object",
        object: key.to_string(),
        field: String::new(),
        span,
        message: format!("{key} is already in {first}, and this one is not used"),
        help: "remove one of them, or give it another name".to_owned(),
    }
}

/// Notes what is wrong with an annotation, where it is written.
fn wrong(
    object: &ObjectKey,
    node: &Node,
    annotation: &str,
    rule: &'static str,
    message: &str,
    help: &str,
) -> Problem {
    let path = format!("metadata.annotations[{}]", serde_json::Value::from(annotation));
    let mut at = At::new(object.to_string(), "");
    at.within(&path, |at| at.wrong(rule, node.nearest(&path), message, help));
    at.into_problems().remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, read_object, yaml};

    pub(super) fn read(source: &str) -> Vec<(Object, Node)> {
        let (nodes, problems) = yaml::documents(source);
        assert_eq!(problems, []);
        nodes.into_iter().map(|node| (read_object(&node).object.expect("it is right"), node)).collect()
    }

    fn completed(source: &str) -> Vec<Object> {
        complete(read(source).into_iter().map(|(object, _)| object).collect())
    }

    fn keys(objects: &[Object]) -> Vec<String> {
        objects.iter().map(|object| object.key().to_string()).collect()
    }

    const CONFIG_MAPS: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n\
                               {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: infra}}\n";

    #[test]
    fn class_and_namespaces_are_added() {
        let objects = completed(CONFIG_MAPS);
        assert_eq!(
            keys(&objects),
            [
                "ConfigMap default/a",
                "ConfigMap infra/a",
                "GatewayClass tidegate",
                "Namespace default",
                "Namespace infra"
            ]
        );
        let labels = &objects[4].meta().labels;
        assert_eq!(labels.get(NAMESPACE_LABEL).map(String::as_str), Some("infra"));
        assert!(objects.iter().all(|object| object.meta().generation == 1));
        let Object::GatewayClass(class) = &objects[2] else { panic!("{objects:?}") };
        assert_eq!(class.spec.controller_name, CONTROLLER_NAME);
    }

    #[test]
    fn what_is_written_stays() {
        let objects = completed(
            "{apiVersion: v1, kind: Namespace, metadata: {name: infra, labels: {team: a}}}\n---\n\
             {apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: tidegate}, \
             spec: {controllerName: example.com/other}}\n---\n\
             {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: infra}}\n",
        );
        assert_eq!(keys(&objects), ["Namespace infra", "GatewayClass tidegate", "ConfigMap infra/a"]);
        assert_eq!(objects[0].meta().labels.len(), 2);
        assert!(completed("").iter().all(|object| object.kind() == Kind::GatewayClass));
    }

    #[test]
    fn the_second_of_two_is_told_where_the_first_is() {
        let (object, node) = read(CONFIG_MAPS).remove(1);
        assert_eq!(
            duplicate(&object.key(), "a.yaml:3", node.span).to_string(),
            "ConfigMap infra/a: ConfigMap infra/a is already in a.yaml:3, and this one is not used \
             (remove one of them, or give it another name) [duplicate-object]"
        );
    }
}
