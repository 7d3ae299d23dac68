//! Whatever the way to a set of objects, its translation is the same.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use support::{any_object, class, object};
use tidegate_api::Object;
use tidegate_translate::{Change, Issuer, Resources, Settings, Source, Translation, Translator, translate};

/// With an issuer for all, so that there are wants to compare.
fn settings(source: Source) -> Settings {
    Settings { source, issuer: Some(Issuer::Acme { account: None }), ..Settings::folder() }
}

fn full(translator: &Translator, settings: &Settings) -> Translation {
    let mut resources = Resources::default();
    translator.resources().iter().for_each(|object| drop(resources.insert(object)));
    translate(&resources, settings)
}

fn assert_same(incremental: &Translation, full: &Translation) {
    assert_eq!(incremental.plan, full.plan);
    assert_eq!(incremental.statuses, full.statuses);
    assert_eq!(incremental, full);
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(Box<serde_json::Value>),
    Remove(Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any_object().prop_map(|value| Step::Upsert(Box::new(value))),
        1 => any::<Index>().prop_map(Step::Remove),
    ]
}

fn change(step: &Step, resources: &Resources) -> Change {
    match step {
        Step::Upsert(value) => Change::Upsert(object(value)),
        Step::Remove(index) => {
            let objects: Vec<Object> = resources.iter().collect();
            Change::Remove(objects[index.index(objects.len())].key())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_full(
        start in prop::collection::vec(any_object(), 10..40),
        steps in prop::collection::vec(step(), 1..30),
        in_folder in any::<bool>(),
    ) {
        let settings = settings(if in_folder { Source::Folder } else { Source::Cluster });
        let mut translator = Translator::new(settings.clone());
        translator.apply([Change::Upsert(object(&class()))]);
        translator.apply(start.iter().map(|value| Change::Upsert(object(value))));
        assert_same(translator.translation(), &full(&translator, &settings));
        for step in &steps {
            let before = translator.translation().clone();
            let change = change(step, translator.resources());
            let delta = translator.apply([change]);
            let after = translator.translation();
            assert_same(after, &full(&translator, &settings));
            // What is not in the delta has not changed.
            for (id, fragment) in &before.plan.fragments {
                prop_assert!(delta.fragments.contains(id) || after.plan.fragments.get(id) == Some(fragment), "{id}");
            }
            for (key, status) in &before.statuses {
                prop_assert!(delta.statuses.contains(key) || after.statuses.get(key) == Some(status), "{key}");
            }
            // Certificates are asked for anew only where another name is wanted, or one for another reason.
            let listeners: BTreeSet<_> = before.wants.keys().chain(after.wants.keys()).collect();
            for id in listeners {
                let is_same = before.wants.get(id) == after.wants.get(id);
                prop_assert_eq!(delta.wants.contains(id), !is_same, "{}", id);
            }
        }
    }

    /// The order in which objects are told does not matter, nor does telling them twice.
    #[test]
    fn order_does_not_matter(objects in prop::collection::vec(any_object(), 10..40)) {
        let settings = settings(Source::Folder);
        let mut resources = Resources::default();
        resources.insert(object(&class()));
        objects.iter().for_each(|value| drop(resources.insert(object(value))));
        let all: Vec<Object> = resources.iter().collect();
        let mut translator = Translator::new(settings.clone());
        for object in all.iter().rev() {
            translator.apply([Change::Upsert(object.clone())]);
        }
        assert_same(translator.translation(), &translate(&resources, &settings));
        let again = translator.apply(all.into_iter().map(Change::Upsert));
        prop_assert!(again.is_empty(), "{again:?}");
    }
}
