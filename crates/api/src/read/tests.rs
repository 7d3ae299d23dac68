#![allow(dead_code, unreachable_pub, reason = "records are made for other crates to use, these are not")]

use crate::bounded::Text;
use crate::read::{At, Entries, List, Map, Place, Read, Whole};
use crate::tree::Node;
use crate::yaml;

record! {
    #[derive(Eq)]
    pub struct Inner {
        pub size: Whole<1, 10> = "size",
    }
    rules: [size_is_even]
    others: ["passedOver"]
}

record! {
    #[derive(Eq)]
    pub struct Outer {
        flatten pub inner: Inner,
        pub name: String = "name",
        pub colour: Colour = "colour" or Colour::Red,
        pub names: List<String, 0, 2> = "names",
        pub inners: Vec<Inner> = "inners",
        pub labels: Map<String> = "labels",
        pub few: Entries<Text<0, 3>, 2> = "few",
        pub maybe: Option<bool> = "maybe",
    }
}

words! {
    pub enum Colour {
        Red = "Red",
        Green = "Green",
    }
}

fn size_is_even(inner: &Inner, place: &mut Place<'_>) {
    if inner.size.get() % 2 == 1 {
        place.wrong("size", "odd", "");
    }
}

fn read<T: Read>(source: &str) -> (Option<T>, Vec<String>) {
    let mut at = At::new("Thing", "v1");
    let node = yaml::documents(source).0.pop().unwrap_or_else(|| Node::from(&serde_json::Value::Null));
    let value = T::read(&node, &mut at);
    let problems = at.into_problems();
    for problem in &problems {
        assert!(problem.span.end <= source.len() && problem.span.start <= problem.span.end);
    }
    (value, problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect())
}

#[test]
fn what_is_left_out_means_its_default() {
    let (outer, problems) = read::<Outer>("{size: 2, name: a, maybe: null}");
    let outer = outer.expect("it is right");
    assert_eq!(problems, [""; 0]);
    assert_eq!((outer.colour, outer.names.len(), outer.maybe), (Colour::Red, 0, None));
}

#[test]
fn every_mistake_is_told_at_its_place() {
    let (_, problems) = read::<Outer>(
        "{size: 11, colour: Blue, names: [a, b, c], inners: [{size: 2}, {size: 0}, {size: 3}, x], \
         labels: {a.b: 1, c: d}, few: {a: long, b: x, c: x}, maybe: no}",
    );
    assert_eq!(
        problems,
        [
            "size: 11 is not between 1 and 10",
            ": the field `name` is missing",
            "colour: `Blue` is not one of Red, Green",
            "names: 3 items where at most 2 may be",
            "inners[1].size: 0 is not between 1 and 10",
            "inners[2].size: odd",
            "inners[3]: expected a map, found a string",
            "labels[\"a.b\"]: `1` without quotes is a number in YAML, and a string belongs here",
            "few.a: 4 characters where at most 3 may be",
            "few: 3 entries where at most 2 may be",
        ]
    );
}

record! {
    #[derive(Eq)]
    pub struct Paint {
        pub colour: Colour = "colour",
        pub layers: Vec<Inner> = "layers",
        pub lid: Option<bool> = "lid",
    }
    rules: [
        green_has_a_lid("colour"),
        layers_grow("layers[].size"),
        layers_are_two("layers?"),
        layers_are_thick("layers[*].size"),
        all_is_well,
    ]
}

fn green_has_a_lid(paint: &Paint, place: &mut Place<'_>) {
    if paint.colour == Colour::Green && paint.lid.is_none() {
        place.wrong("", "green without a lid", "");
    }
}

fn layers_grow(paint: &Paint, place: &mut Place<'_>) {
    if !paint.layers.iter().is_sorted_by_key(|layer| layer.size) {
        place.wrong("layers", "not growing", "");
    }
}

fn layers_are_two(paint: &Paint, place: &mut Place<'_>) {
    if paint.layers.len() != 2 {
        place.wrong("layers", "not two", "");
    }
}

/// The placeholder of a size is 1.
fn layers_are_thick(paint: &Paint, place: &mut Place<'_>) {
    for (index, _) in paint.layers.iter().enumerate().filter(|(_, layer)| layer.size.get() == 1) {
        place.wrong(&format!("layers[{index}]"), "thin", "");
    }
}

fn all_is_well(_: &Paint, place: &mut Place<'_>) {
    place.warn("", "asked", "");
}

#[test]
fn rules_that_do_not_look_at_what_could_not_be_read_are_asked() {
    for (source, told) in [
        ("{colour: Green}", ": green without a lid|layers: not two|: asked"),
        ("{colour: Geren}", "colour: `Geren` is not one of Red, Green|layers: not two"),
        ("{}", ": the field `colour` is missing|layers: not two"),
        (
            "{colour: Green, lid: x, layers: [{size: 4}, {size: 2}]}",
            "lid: expected true or false, found a string|layers: not growing",
        ),
        (
            "{colour: Green, layers: [{size: 4}, {}]}",
            "layers[1]: the field `size` is missing|: green without a lid",
        ),
        (
            "{colour: Green, layers: [x]}",
            "layers[0]: expected a map, found a string|: green without a lid|layers: not two",
        ),
        (
            "{lid: true, colour: Red, layers: [{size: 1}, {}, x, {size: 1}]}",
            "layers[0].size: odd|layers[1]: the field `size` is missing|layers[2]: expected a map, found a string\
             |layers[3].size: odd|layers: not two|layers[0]: thin|layers[3]: thin",
        ),
        ("{colour: Green, layers: x}", "layers: expected a list, found a string|: green without a lid"),
    ] {
        assert_eq!(read::<Paint>(source).1.join("|"), told, "{source}");
    }
}

#[test]
fn unknown_fields_are_told_with_what_was_meant() {
    let (outer, problems) = read::<Outer>(
        "{size: 2, name: a, color: Red, Names: [], passedOver: 1, inners: [{size: 2, passedOver: 1, siez: 1}]}",
    );
    assert!(outer.is_some());
    assert_eq!(
        problems,
        [
            "inners[0].siez: unknown field `siez`, it has no effect",
            "color: unknown field `color`, it has no effect",
            "Names: unknown field `Names`, it has no effect",
            "passedOver: unknown field `passedOver`, it has no effect",
        ]
    );
    let mut at = At::new("", "");
    let node = yaml::documents("{color: 1, zzz: 2, siz: 3}").0.remove(0);
    let fields = at.fields(&node).map(<[_]>::to_vec).unwrap_or_default();
    at.unknown(&fields, &[&["colour"], &["size"]]);
    let help: Vec<String> = at.into_problems().into_iter().map(|problem| problem.help).collect();
    assert_eq!(
        help,
        [
            "did you mean `colour`?",
            "remove it, or check the spelling and the indentation",
            "did you mean `size`?"
        ]
    );
}

#[test]
fn types_are_told_apart() {
    for (source, message) in [
        ("1", "expected true or false, found a number"),
        ("\"true\"", "expected true or false, found a string"),
        ("[]", "expected true or false, found a list"),
    ] {
        assert_eq!(read::<bool>(source), (None, vec![format!(": {message}")]));
    }
    for source in ["1.5", "\"1\"", "true", "{a: 1}", "1e300"] {
        assert_eq!(read::<i64>(source).0, None, "{source}");
    }
    for (source, number) in [("1.0", 1), ("0x10", 16), ("1e3", 1000), ("-4", -4)] {
        assert_eq!(read::<i64>(source).0, Some(number), "{source}");
    }
    for source in ["y", "off", "True", "12", "1.10", "[a]", "{a: b}"] {
        assert_eq!(read::<String>(source).0, None, "{source}");
    }
    assert_eq!(read::<bool>("off").0, Some(false));
}
