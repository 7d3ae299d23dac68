//! The connections of one worker, by place. A place is used again only after the turn in which its connection ended,
//! so that an event of that turn never meets another connection.

use crate::engine::{Due, Session, Tick};
use crate::net::TcpStream;

#[derive(Default)]
pub(super) struct Sessions {
    slots: Vec<Slot>,
    free: Vec<u32>,
    ended: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    entry: Option<Box<Entry>>,
}

pub(super) struct Entry {
    pub(super) session: Session<TcpStream>,
    /// When the wheel will come by.
    pub(super) entered: Tick,
    /// Whether it waits for its next share.
    pub(super) again: bool,
}

impl Sessions {
    pub(super) fn insert(&mut self, session: Session<TcpStream>) -> Due {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[place as usize];
        slot.entry = Some(Box::new(Entry { session, entered: Tick::NEVER, again: false }));
        Due { place, generation: slot.generation }
    }

    pub(super) fn at(&mut self, place: u32) -> Option<(Due, &mut Entry)> {
        let slot = self.slots.get_mut(place as usize)?;
        let due = Due { place, generation: slot.generation };
        slot.entry.as_deref_mut().map(|entry| (due, entry))
    }

    /// `None` where the place has another connection by now, or none.
    pub(super) fn same(&mut self, due: Due) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(due.place as usize)?;
        if slot.generation == due.generation { slot.entry.as_deref_mut() } else { None }
    }

    pub(super) fn end(&mut self, place: u32) -> Option<Box<Entry>> {
        let slot = self.slots.get_mut(place as usize)?;
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.ended.push(place);
        Some(entry)
    }

    pub(super) fn free_ended(&mut self) {
        self.free.append(&mut self.ended);
    }

    /// One more than the last place.
    pub(super) fn places(&self) -> u32 {
        self.slots.len() as u32
    }
}
