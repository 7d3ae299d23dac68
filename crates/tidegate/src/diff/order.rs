//! Requests that meet two matches and find them in another order. A match that cannot be asked by itself, or two that
//! each ask for something of their own, go before each other as they are ranked and written.

use std::collections::{BTreeMap, BTreeSet};

use crate::diff::Side;
use crate::diff::destination::Destination;
use crate::diff::probe::{Asks, Place, Places};
use crate::diff::traffic::{self, Change};
use crate::diff::written::{self, Written};

/// What the flows that were asked do not tell already.
pub(crate) fn changes(places: &Places, told: &[Change], old: &Side<'_>, new: &Side<'_>) -> Vec<Change> {
    let names: BTreeSet<Place> =
        places.keys().map(|place| Place { matched: None, ..place.clone() }).collect();
    let mut changes = Vec::new();
    for name in names {
        let (was, is) = (written::at(&name, old), written::at(&name, new));
        for (first, now_first) in swapped(&was, &is) {
            let [before, after] =
                [first, now_first].map(|own| Place { matched: Some(own.words.clone()), ..name.clone() });
            // Under a wider name it is told there.
            if !places.contains_key(&before) && !places.contains_key(&after) {
                continue;
            }
            let both = Place {
                matched: Some(format!("{} and also {}", first.words, now_first.words)),
                ..name.clone()
            };
            let change = change(both, (&before, old), (&after, new));
            let is_told = |change: &Change| {
                let tells = |told: &&Change| told.tells(&before, change) || told.tells(&after, change);
                told.iter().find(tells).is_some()
            };
            changes.extend(change.filter(|change| !is_told(change)));
        }
    }
    changes
}

/// Two matches that one request can meet, the one that goes first on the old side and the one that does on the new.
fn swapped<'w, 'a>(
    was: &'w [Written<'a>],
    is: &'w [Written<'a>],
) -> impl Iterator<Item = (&'w Written<'a>, &'w Written<'a>)> {
    let places: BTreeMap<&str, usize> =
        is.iter().enumerate().map(|(index, written)| (written.words.as_str(), index)).collect();
    let place = move |written: &Written<'_>| places.get(written.words.as_str()).copied();
    let both: Vec<(&Written<'a>, usize)> =
        was.iter().filter_map(|written| Some((written, place(written)?))).collect();
    let mut pairs = Vec::new();
    if !both.is_sorted_by_key(|(_, now)| *now) {
        for (index, (first, now)) in both.iter().enumerate() {
            let overtaken = both[index + 1..].iter().filter(|(_, other)| other < now);
            let overlapping = overtaken.filter(|(other, _)| first.matched.overlaps(other.matched));
            pairs.extend(overlapping.map(|(_, other)| (*first, &is[*other])));
        }
    }
    pairs.into_iter()
}

fn change(
    both: Place,
    (before, old): (&Place, &Side<'_>),
    (after, new): (&Place, &Side<'_>),
) -> Option<Change> {
    let of = |place: &Place, side: &Side<'_>| {
        Destination::as_written(place, Destination::of(place, &Asks::nothing(), side), side)
    };
    let (was, is) = (of(before, old), of(after, new));
    (was != is).then(|| traffic::change(both, was, is))
}
