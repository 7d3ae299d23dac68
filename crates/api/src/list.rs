//! Lists of objects, as `kubectl get -o yaml` writes them, taken apart into the objects they hold.

use std::mem;

use crate::kind::note_keys;
use crate::problem::Problem;
use crate::read::At;
use crate::tree::{Key, Node, Value};

/// The objects of a document: itself, or for a `List`, `GatewayList` and the like the items, which may be
/// lists again.
#[must_use]
pub fn objects(document: Node) -> (Vec<Node>, Vec<Problem>) {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    expand(document, &mut found, &mut problems);
    (found, problems)
}

fn expand(node: Node, found: &mut Vec<Node>, problems: &mut Vec<Problem>) {
    let Some(kind) = list_kind(&node) else {
        found.push(node);
        return;
    };
    let mut at = At::new(kind.clone(), "");
    let Value::Map(mut fields) = node.value else { return };
    // The objects' own keys are looked at with each of them.
    let items = fields.iter_mut().filter(|(key, _)| &*key.text == "items");
    let items: Vec<Node> = items
        .map(|(_, node)| Node { span: node.span, value: mem::replace(&mut node.value, Value::Null) })
        .collect();
    note_keys(&fields, &mut at);
    let api_version = fields.iter().find(|(key, _)| &*key.text == "apiVersion").cloned();
    for items in items {
        match items.value {
            Value::List(items) => {
                for item in items {
                    expand(typed(item, &kind, api_version.as_ref()), found, problems);
                }
            }
            Value::Null => {}
            _ => at.within("items", |at| {
                let message = format!("expected a list of objects, found {}", items.describe());
                at.wrong("type", &items, message, "write `- ` before each object");
            }),
        }
    }
    problems.extend(at.into_problems());
}

/// The kind of a list. Other kinds may end in `List` too; only a list has items.
fn list_kind(node: &Node) -> Option<String> {
    let kind = node.get("kind")?.as_str()?;
    (kind.ends_with("List") && node.get("items").is_some()).then(|| kind.to_owned())
}

/// The items of a list of one kind need not repeat it.
fn typed(mut item: Node, list: &str, api_version: Option<&(Key, Node)>) -> Node {
    let kind = list.trim_end_matches("List");
    let silent = item.get("kind").is_none() && item.get("apiVersion").is_none();
    if let (Value::Map(fields), true, false, Some(version)) =
        (&mut item.value, silent, kind.is_empty(), api_version)
    {
        let span = item.span;
        let kind = Node { span, value: Value::Text(kind.into()) };
        fields.push(version.clone());
        fields.push((Key::new(span, "kind"), kind));
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    /// `kind/name` of what a source holds, and the messages.
    fn read(source: &str) -> (Vec<String>, Vec<String>) {
        let (mut names, mut messages) = (Vec::new(), Vec::new());
        for document in yaml::documents(source).0 {
            let (nodes, problems) = objects(document);
            names.extend(nodes.iter().map(|node| {
                let text = |path| node.nearest(path).as_str().unwrap_or("?").to_owned();
                format!("{}/{}", text("kind"), text("metadata.name"))
            }));
            messages.extend(problems.iter().map(ToString::to_string));
        }
        (names, messages)
    }

    #[test]
    fn an_object_is_itself() {
        assert_eq!(read("kind: Gateway\nmetadata: {name: a}\n").0, ["Gateway/a"]);
        assert_eq!(read("kind: PriceList\nmetadata: {name: a}\n").0, ["PriceList/a"]);
        assert_eq!(read("[1]").0, ["?/?"]);
    }

    #[test]
    fn a_list_is_its_items() {
        let list = "apiVersion: v1\nkind: List\nitems:\n- {kind: A, metadata: {name: a}}\n\
                    - {kind: List, items: [{kind: B, metadata: {name: b}}]}\n";
        assert_eq!(read(list), (vec!["A/a".to_owned(), "B/b".to_owned()], vec![]));
        assert_eq!(read("kind: List\nitems:\n").0, [""; 0]);
    }

    #[test]
    fn items_of_a_list_of_one_kind_have_that_kind() {
        let list =
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayList\nitems:\n- {metadata: {name: a}}\n";
        assert_eq!(read(list).0, ["Gateway/a"]);
        let (nodes, _) = objects(yaml::documents(list).0.remove(0));
        assert_eq!(nodes[0].nearest("apiVersion").as_str(), Some("gateway.networking.k8s.io/v1"));
    }

    #[test]
    fn what_is_wrong_with_the_list_itself() {
        assert_eq!(
            read("kind: List\nitems: {a: 1}\n").1,
            ["List: items: expected a list of objects, found a map (write `- ` before each object) [type]"]
        );
        assert_eq!(read("kind: List\nkind: List\nitems: []\n").1.len(), 1);
    }
}
