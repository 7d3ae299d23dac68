//! The fuzz target's body as an ordinary test: over every manifest of the crates' corpora, and over thousands
//! of mutations of them.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod body;

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;

const FOLDERS: [&str; 3] = ["../api/tests/corpus", "tests/golden", "../../examples"];

#[test]
fn every_manifest_holds() {
    let manifests = manifests();
    assert!(manifests.len() > 100, "the corpora have gone");
    for (path, bytes) in manifests {
        println!("{}", path.display());
        body::check(&bytes);
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize),
    /// A piece of another manifest.
    Splice(Index, Index, Index, usize),
    Insert(Index, &'static str),
}

fn edit() -> impl Strategy<Value = Edit> {
    let words = vec![
        "*a",
        "&a ",
        "<<: ",
        "{}",
        "[]",
        "- ",
        ": ",
        "~",
        "!!str ",
        "\"",
        "'",
        "|\n",
        "---\n",
        "\t",
        "\u{feff}",
        "0x1F",
        "-1",
        "99999999999999999999",
        "1e400",
        ".nan",
        "on",
        "*.",
        "\u{e9}",
        "\0",
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Flip(at, byte)),
        (any::<Index>(), 1..40usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (any::<Index>(), 1..80usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
        (any::<Index>(), any::<Index>(), any::<Index>(), 1..200usize)
            .prop_map(|(at, other, from, length)| Edit::Splice(at, other, from, length)),
        (any::<Index>(), prop::sample::select(words)).prop_map(|(at, word)| Edit::Insert(at, word)),
    ]
}

fn apply(edit: &Edit, bytes: &mut Vec<u8>, all: &[(PathBuf, Vec<u8>)]) {
    if bytes.is_empty() {
        return;
    }
    let piece = |from: &[u8], at: usize, length: usize| from[at..(at + length).min(from.len())].to_vec();
    let length = bytes.len();
    match edit {
        Edit::Flip(at, byte) => bytes[at.index(length)] = *byte,
        Edit::Remove(at, count) => {
            let at = at.index(length);
            bytes.drain(at..(at + count).min(length));
        }
        Edit::Repeat(at, count) => {
            let at = at.index(length);
            let piece = piece(bytes, at, *count);
            bytes.splice(at..at, piece);
        }
        Edit::Splice(at, other, from, count) => {
            let other = &all[other.index(all.len())].1;
            if !other.is_empty() {
                let (at, piece) = (at.index(length), piece(other, from.index(other.len()), *count));
                bytes.splice(at..at, piece);
            }
        }
        Edit::Insert(at, word) => {
            let at = at.index(length);
            bytes.splice(at..at, word.bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_manifests_hold(which in any::<Index>(), edits in prop::collection::vec(edit(), 1..6)) {
        let all = cached();
        let mut bytes = all[which.index(all.len())].1.clone();
        edits.iter().for_each(|edit| apply(edit, &mut bytes, all));
        body::check(&bytes);
    }
}

fn cached() -> &'static [(PathBuf, Vec<u8>)] {
    static ALL: std::sync::OnceLock<Vec<(PathBuf, Vec<u8>)>> = std::sync::OnceLock::new();
    ALL.get_or_init(manifests)
}

fn manifests() -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| collect(Path::new(folder), &mut files));
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
}
