use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use tidegate_api::Object;
use tidegate_translate::{Change, Resources};

use super::{Manifests, Unwatched, Update};

/// A folder that is followed as `run` follows it.
struct Folder {
    _folder: TempDir,
    root: PathBuf,
    manifests: Manifests,
    /// What somebody has who knows nothing but the changes.
    told: Resources,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (manifests, update) = Manifests::open(std::slice::from_ref(&root), &mut Unwatched);
        let mut folder = Self { _folder: folder, root, manifests, told: Resources::default() };
        folder.hear(&update);
        folder
    }

    fn hear(&mut self, update: &Update) {
        for change in update.changes.iter().cloned() {
            let before = match change {
                Change::Upsert(object) => {
                    let before = self.told.insert(object.clone());
                    assert_ne!(before.as_ref(), Some(&object), "it did not change");
                    continue;
                }
                Change::Remove(key) => self.told.remove(&key),
            };
            assert!(before.is_some(), "it was not there");
        }
    }

    fn changed(&mut self, names: &[&str]) -> Vec<String> {
        let entries: BTreeSet<PathBuf> = names.iter().map(|name| self.root.join(name)).collect();
        let update = self.manifests.changed(&entries, &mut Unwatched);
        self.hear(&update);
        update
            .changes
            .iter()
            .map(|change| match change {
                Change::Upsert(object) => object.key().to_string(),
                Change::Remove(key) => format!("-{key}"),
            })
            .collect()
    }

    fn write(&mut self, name: &str, text: &str) -> Vec<String> {
        fs::write(self.root.join(name), text).unwrap();
        self.changed(&[name])
    }

    fn remove(&mut self, name: &str) -> Vec<String> {
        fs::remove_file(self.root.join(name)).unwrap();
        self.changed(&[name])
    }

    /// The same as if everything had been read just now.
    fn is_as_fresh(&self) {
        let fresh = Manifests::read(std::slice::from_ref(&self.root)).unwrap();
        let objects = |resources: &Resources| resources.iter().collect::<Vec<Object>>();
        assert_eq!(objects(self.manifests.resources()), objects(fresh.resources()));
        assert_eq!(objects(&self.told), objects(fresh.resources()));
        let written = |manifests: &Manifests| {
            manifests.written().map(|(key, value)| (key.cloned(), value)).collect::<Vec<_>>()
        };
        assert_eq!(written(&self.manifests), written(&fresh));
        let invalid = |manifests: &Manifests| manifests.invalid().collect::<Vec<_>>();
        assert_eq!(invalid(&self.manifests), invalid(&fresh));
    }
}

fn map(namespace: &str, name: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         data: {{a: \"{data}\"}}\n---\n"
    )
}

fn service(name: &str, endpoints: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  annotations:\n    \
         gateway.tidegate.io/endpoints: \"{endpoints}\"\nspec: {{ports: [{{port: 80}}]}}\n---\n"
    )
}

#[test]
fn what_a_cluster_would_add_comes_and_goes() {
    let mut folder = Folder::new();
    assert_eq!(folder.write("a.yaml", &map("shop", "a", "1")), ["ConfigMap shop/a", "Namespace shop"]);
    assert_eq!(folder.write("b.yaml", &map("shop", "b", "1")), ["ConfigMap shop/b"]);
    assert!(folder.write("b.yaml", &format!("# a remark\n{}", map("shop", "b", "1"))).is_empty());
    assert_eq!(folder.remove("a.yaml"), ["-ConfigMap shop/a"]);
    assert_eq!(folder.remove("b.yaml"), ["-ConfigMap shop/b", "-Namespace shop"]);
    let mut told = folder.write("s.yaml", &service("web", "127.0.0.1:80"));
    told.sort();
    assert_eq!(told, ["EndpointSlice default/web-endpoints-0", "Namespace default", "Service default/web"]);
    folder.is_as_fresh();
}

#[test]
fn the_second_takes_over_when_the_first_goes() {
    let mut folder = Folder::new();
    folder.write("b.yaml", &map("x", "a", "second"));
    assert_eq!(folder.write("a.yaml", &map("x", "a", "first")), ["ConfigMap x/a"]);
    assert_eq!(folder.manifests.invalid().count(), 1);
    assert!(folder.write("b.yaml", &map("x", "a", "still second")).is_empty());
    folder.is_as_fresh();
    assert_eq!(folder.remove("a.yaml"), ["ConfigMap x/a"]);
    assert_eq!(folder.manifests.invalid().count(), 0);
    folder.is_as_fresh();
}

#[test]
fn what_is_wrong_stays_as_it_was() {
    let mut folder = Folder::new();
    let good = format!("{}{}", map("x", "a", "1"), service("web", "127.0.0.1:80"));
    folder.write("a.yaml", &good);
    // One object is wrong: it stays, the other changes.
    let wrong = format!("{}{}", map("x", "a", "2"), service("web", "nowhere"));
    assert_eq!(folder.write("a.yaml", &wrong), ["ConfigMap x/a"]);
    let kept: Vec<String> = folder.manifests.kept().map(|(key, why)| format!("{key} {why}")).collect();
    assert!(kept.len() == 1 && kept[0].contains("a.yaml:11: Service default/web"), "{kept:?}");
    // The file is no YAML: everything stays.
    assert!(folder.write("a.yaml", "a: [\n").is_empty());
    assert_eq!(folder.manifests.kept().count(), 2);
    assert!(fs::write(folder.root.join("a.yaml"), [0xff, 0xfe]).is_ok());
    assert!(folder.changed(&["a.yaml"]).is_empty());
    // An object that is gone from a file that can be read is gone.
    assert_eq!(folder.write("a.yaml", &map("x", "a", "2")).len(), 3);
    assert_eq!(folder.manifests.kept().count(), 0);
    folder.is_as_fresh();
}

#[test]
fn data_files_are_read_again_with_their_manifest() {
    let mut folder = Folder::new();
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    \
                    gateway.tidegate.io/files: \"a=data/a.txt\"\n";
    assert!(folder.write("a.yaml", manifest).is_empty(), "the file is not there yet");
    fs::create_dir(folder.root.join("data")).unwrap();
    fs::write(folder.root.join("data/a.txt"), "1").unwrap();
    assert_eq!(folder.changed(&["data"]), ["ConfigMap default/a", "Namespace default"]);
    fs::write(folder.root.join("data/a.txt"), "2").unwrap();
    assert_eq!(folder.changed(&["data/a.txt"]), ["ConfigMap default/a"]);
    folder.is_as_fresh();
    fs::remove_file(folder.root.join("data/a.txt")).unwrap();
    assert!(folder.changed(&["data/a.txt"]).is_empty(), "the last good state stays");
    assert_eq!(folder.manifests.kept().count(), 1);
}

#[test]
fn a_mounted_config_map_is_swapped() {
    let mut folder = Folder::new();
    let root = folder.root.clone();
    let version = |name: &str, data: &str| {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("a.yaml"), map("x", "a", data)).unwrap();
        symlink(name, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    version("..1", "1");
    symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
    assert_eq!(folder.changed(&["..1", "..data", "a.yaml"]), ["ConfigMap x/a", "Namespace x"]);
    for (name, data) in [("..2", "2"), ("..3", "3")] {
        version(name, data);
        assert_eq!(folder.changed(&["..data"]), ["ConfigMap x/a"], "{name}");
        folder.is_as_fresh();
    }
    fs::remove_file(root.join("a.yaml")).unwrap();
    assert_eq!(folder.changed(&["a.yaml"]), ["-ConfigMap x/a", "-Namespace x"]);
}

#[test]
fn folders_come_and_go_and_are_replaced() {
    let mut folder = Folder::new();
    let root = folder.root.clone();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/c.yaml"), map("x", "a", "1")).unwrap();
    assert_eq!(folder.changed(&["a"]).len(), 2);
    fs::rename(root.join("a"), root.join("other")).unwrap();
    assert!(folder.changed(&["a", "other"]).is_empty(), "the same objects from another place");
    folder.is_as_fresh();
    fs::remove_dir_all(root.join("other")).unwrap();
    assert_eq!(folder.changed(&["other"]).len(), 2);
    folder.is_as_fresh();
}

#[test]
fn a_folder_that_is_away_for_a_moment_keeps_serving() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &map("x", "a", "1"));
    let (root, away) = (folder.root.clone(), folder.root.with_extension("away"));
    fs::rename(&root, &away).unwrap();
    let update = folder.manifests.changed(&BTreeSet::from([root.clone()]), &mut Unwatched);
    assert!(update.changes.is_empty() && update.failures.len() == 1);
    fs::rename(&away, &root).unwrap();
    let update = folder.manifests.changed(&BTreeSet::from([root]), &mut Unwatched);
    assert!(update.changes.is_empty() && update.failures.is_empty());
}

#[test]
fn reading_all_again_finds_what_nobody_told() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &map("x", "a", "1"));
    fs::write(folder.root.join("a.yaml"), map("x", "a", "2")).unwrap();
    fs::write(folder.root.join("b.yaml"), map("x", "b", "1")).unwrap();
    let update = folder.manifests.look_again(&mut Unwatched);
    assert_eq!(update.changes.len(), 2);
    folder.hear(&update);
    let update = folder.manifests.read_again(&mut Unwatched);
    assert!(update.changes.is_empty() && update.files.len() == 2);
    folder.is_as_fresh();
}

const NAMES: &[&str] = &["a.yaml", "b.yaml", "c.json", "in/a.yaml", "in/deeper/d.yml", "notes.txt"];

#[derive(Clone, Debug)]
enum Edit {
    Write(usize, Vec<(usize, u8)>),
    Remove(usize),
    Rename(usize, usize),
    Link(usize, usize),
    RemoveFolder,
}

fn edit() -> impl Strategy<Value = Edit> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => (name.clone(), prop::collection::vec((0..OBJECTS, 0..3_u8), 0..4))
            .prop_map(|(name, objects)| Edit::Write(name, objects)),
        1 => name.clone().prop_map(Edit::Remove),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => (name.clone(), name).prop_map(|(from, to)| Edit::Link(from, to)),
        1 => Just(Edit::RemoveFolder),
    ]
}

const OBJECTS: usize = 7;

fn object(which: usize, state: u8) -> String {
    match which {
        0 => map("x", "a", &state.to_string()),
        1 => map("y", "a", &state.to_string()),
        2 => service("web", ["127.0.0.1:1", "127.0.0.1:1, [::1]:1", ""][usize::from(state)]),
        3 => service("web-endpoints-0", ["127.0.0.1:2", "[::1]:2", ""][usize::from(state)]),
        4 => {
            format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: x, labels: {{a: l{state}}}}}\n---\n")
        }
        5 => format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: tidegate}}\n\
             spec: {{controllerName: example.com/c{state}}}\n---\n"
        ),
        _ => format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: web-endpoints-0}}\n\
             addressType: IPv4\nendpoints: [{{addresses: [10.0.0.{state}]}}]\nports: [{{port: 80}}]\n---\n"
        ),
    }
}

fn apply(folder: &mut Folder, edit: &Edit) {
    let path = |number: usize| folder.root.join(NAMES[number]);
    let parent = |path: &Path| fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut touched: Vec<usize> = Vec::new();
    match edit {
        Edit::Write(name, objects) => {
            parent(&path(*name));
            let text: String = objects.iter().map(|(which, state)| object(*which, *state)).collect();
            // As careful people write: another file, moved over the old one.
            fs::write(folder.root.join("new.tmp"), text).unwrap();
            fs::rename(folder.root.join("new.tmp"), path(*name)).unwrap();
            touched.push(*name);
        }
        Edit::Remove(name) => {
            let _ = fs::remove_file(path(*name));
            touched.push(*name);
        }
        Edit::Rename(from, to) => {
            parent(&path(*to));
            let _ = fs::rename(path(*from), path(*to));
            touched.extend([*from, *to]);
        }
        Edit::Link(from, to) => {
            parent(&path(*from));
            // A link that leads nowhere cannot be read afresh.
            if from != to && fs::metadata(path(*to)).is_ok() && fs::symlink_metadata(path(*from)).is_err() {
                symlink(path(*to), path(*from)).unwrap();
            }
            touched.push(*from);
        }
        Edit::RemoveFolder => {
            let _ = fs::remove_dir_all(folder.root.join("in"));
        }
    }
    // Links that lead nowhere go, since a fresh reading would stop at them.
    for number in 0..NAMES.len() {
        if fs::symlink_metadata(path(number)).is_ok() && fs::metadata(path(number)).is_err() {
            fs::remove_file(path(number)).unwrap();
            touched.push(number);
        }
    }
    let mut names: Vec<&str> = touched.into_iter().map(|number| NAMES[number]).collect();
    names.extend(["in", "in/deeper", "new.tmp"]);
    folder.changed(&names);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However files come, change, move and go: what is known is what a fresh reading finds.
    #[test]
    fn following_is_the_same_as_reading_afresh(edits in prop::collection::vec(edit(), 1..24)) {
        let mut folder = Folder::new();
        for edit in &edits {
            apply(&mut folder, edit);
            folder.is_as_fresh();
        }
    }
}
