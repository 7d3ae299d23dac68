//! `gateway.tidegate.io/files: "tls.crt=certs/a.pem, tls.key=certs/a.key"` on a Secret or ConfigMap takes its data
//! from files beside the manifest, never from outside the folder.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::core::{Base64, FILES_ANNOTATION};
use crate::form::is_data_key;
use crate::problem::Problem;
use crate::scalar::quote;
use crate::tree::Node;
use crate::{Meta, Object};

use super::wrong;

/// A key whose data is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    pub key: String,
    /// Relative to the manifest, with `/` between its parts. It may lead anywhere: who opens it sees to it that it stays
    /// in the folder.
    pub path: String,
}

/// The files that a Secret or ConfigMap takes its data from, and what is wrong with the annotation; `node` is
/// where the object was read from.
#[must_use]
pub fn data_files(object: &Object, node: &Node) -> (Vec<DataFile>, Vec<Problem>) {
    let Some((meta, data)) = parts(object) else { return Default::default() };
    let Some(annotation) = meta.annotation(FILES_ANNOTATION) else { return Default::default() };
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    let mut taken: BTreeSet<&str> = data;
    for entry in annotation.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        match parse(entry).and_then(|(key, path)| free(key, path, &mut taken)) {
            Ok(file) => files.push(file),
            Err((message, help)) => {
                problems.push(wrong(
                    &object.key(),
                    node,
                    FILES_ANNOTATION,
                    "files_annotation",
                    &message,
                    help,
                ));
            }
        }
    }
    (files, problems)
}

/// Adds what a file holds to a Secret or ConfigMap; other objects stay as they are.
pub fn add_file(object: &mut Object, key: &str, content: Vec<u8>) {
    match object {
        Object::Secret(secret) => {
            Arc::make_mut(secret).spec.data.insert(key.to_owned(), content);
        }
        Object::ConfigMap(map) => {
            let spec = &mut Arc::make_mut(map).spec;
            match String::from_utf8(content) {
                Ok(text) => spec.data.insert(key.to_owned(), text).map(drop),
                Err(error) => spec.binary_data.insert(key.to_owned(), Base64(error.into_bytes())).map(drop),
            };
        }
        _ => {}
    }
}

/// The metadata and the keys of what may take data from files.
fn parts(object: &Object) -> Option<(&Meta, BTreeSet<&str>)> {
    match object {
        Object::Secret(secret) => Some((&secret.meta, secret.spec.data.keys().map(String::as_str).collect())),
        Object::ConfigMap(map) => {
            let keys = map.spec.data.keys().chain(map.spec.binary_data.keys());
            Some((&map.meta, keys.map(String::as_str).collect()))
        }
        _ => None,
    }
}

type Wrong = (String, &'static str);

fn parse(entry: &str) -> Result<(&str, &str), Wrong> {
    let (key, path) =
        entry.split_once('=').map(|(key, path)| (key.trim(), path.trim())).ok_or_else(|| {
            (format!("{} does not say which key it is for", quote(entry)), "write tls.crt=certs/a.pem")
        })?;
    if !is_data_key(key) {
        return Err((format!("{} is not a key for data", quote(key)), "write a key such as tls.crt"));
    }
    let is_absolute = path.starts_with(['/', '~']) || path.contains(':');
    if path.is_empty() || path.ends_with('/') {
        Err((format!("{} is not the path of a file", quote(path)), "write a path such as certs/a.pem"))
    } else if is_absolute || path.contains(['\\', '\0']) {
        Err((
            format!("{} is not a relative path", quote(path)),
            "write it from the manifest's folder, such as certs/a.pem",
        ))
    } else {
        Ok((key, path))
    }
}

fn free<'a>(key: &'a str, path: &str, taken: &mut BTreeSet<&'a str>) -> Result<DataFile, Wrong> {
    if !taken.insert(key) {
        return Err((format!("the key `{key}` has its data already"), "keep one of them"));
    }
    Ok(DataFile { key: key.to_owned(), path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::tests::read;

    fn parsed(kind: &str, annotation: &str) -> (Vec<String>, Vec<String>) {
        let source = format!(
            "{{apiVersion: v1, kind: {kind}, metadata: {{name: a, annotations: \
             {{gateway.tidegate.io/files: '{annotation}'}}}}, data: {{old: YQ==}}}}"
        );
        let (object, node) = read(&source).remove(0);
        let (files, problems) = data_files(&object, &node);
        for problem in &problems {
            assert_eq!(&source[problem.span.start..problem.span.end], format!("'{annotation}'"));
        }
        let files = files.into_iter().map(|file| format!("{}<{}", file.key, file.path)).collect();
        (files, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn keys_and_paths() {
        for kind in ["Secret", "ConfigMap"] {
            assert_eq!(
                parsed(kind, "tls.crt=certs/a.pem, tls.key = ./a b.key,"),
                (vec!["tls.crt<certs/a.pem".to_owned(), "tls.key<./a b.key".to_owned()], vec![])
            );
        }
        assert_eq!(parsed("Secret", ""), (vec![], vec![]));
    }

    #[test]
    fn what_is_refused() {
        for (annotation, message) in [
            ("certs/a.pem", "`certs/a.pem` does not say which key it is for"),
            ("a b=c", "`a b` is not a key for data"),
            ("=c", "an empty string is not a key for data"),
            ("a=", "an empty string is not the path of a file"),
            ("a=b/", "`b/` is not the path of a file"),
            ("a=/etc/passwd", "`/etc/passwd` is not a relative path"),
            ("a=~/key", "`~/key` is not a relative path"),
            ("a=C:/key", "`C:/key` is not a relative path"),
            ("a=b\\c", "`b\\c` is not a relative path"),
            ("old=b", "the key `old` has its data already"),
        ] {
            assert_eq!(parsed("Secret", annotation), (vec![], vec![message.to_owned()]), "{annotation}");
        }
        let (files, problems) = parsed("ConfigMap", "a=b, a=c, d=/e, f=g");
        assert_eq!((files.len(), problems.len()), (2, 2));
    }

    #[test]
    fn data_is_added() {
        let mut objects = read(
            "{apiVersion: v1, kind: Secret, metadata: {name: a}}\n---\n\
             {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n\
             {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n",
        );
        for (object, _) in &mut objects {
            add_file(object, "text", b"abc".to_vec());
            add_file(object, "bytes", vec![0xff]);
        }
        let Object::Secret(secret) = &objects[0].0 else { panic!("{objects:?}") };
        assert_eq!((&*secret.spec.data["text"], &*secret.spec.data["bytes"]), (&b"abc"[..], &[0xff][..]));
        let Object::ConfigMap(map) = &objects[1].0 else { panic!("{objects:?}") };
        assert_eq!((map.spec.get("text"), map.spec.get("bytes")), (Some(&b"abc"[..]), Some(&[0xff][..])));
    }
}
