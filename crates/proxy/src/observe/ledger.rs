//! The counters of routes and backends. There may be a hundred thousand of these, and a connection adds to those of
//! one that was perhaps not used for long: each worker has them side by side in pages of its own, so that this reads
//! one line of memory.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::stats::TrafficCell;

#[derive(Debug)]
pub(crate) struct Ledger {
    books: Box<[Book]>,
    numbers: Mutex<Numbers>,
}

/// One worker's pages. Each is made when something is first counted on it.
#[derive(Debug)]
struct Book(Box<[OnceLock<Shelf>]>);

type Shelf = Box<[OnceLock<Box<Page>>]>;

/// No line of it is another worker's.
#[derive(Debug)]
#[repr(align(128))]
struct Page([TrafficCell; CELLS]);

/// Cells of a page, pages of a shelf, shelves of a book: more in all than memory has room for routes.
const CELLS: usize = 256;
const PAGES: usize = 256;
const SHELVES: usize = 4096;

/// Which numbers are taken.
#[derive(Debug, Default)]
struct Numbers {
    /// All from here on are free,
    next: u32,
    /// and these.
    free: Vec<u32>,
}

/// A number of the ledger, for as long as this is kept. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct Account {
    ledger: Arc<Ledger>,
    number: u32,
    /// The last one gives the number back.
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    ledger: Arc<Ledger>,
    number: u32,
}

impl Ledger {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { books: (0..workers).map(|_| Book::new()).collect(), numbers: Mutex::default() })
    }

    /// A number that nobody has, with nothing counted.
    pub(super) fn open(self: &Arc<Self>) -> Account {
        let number = {
            let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            numbers.free.pop().unwrap_or_else(|| {
                numbers.next += 1;
                numbers.next - 1
            })
        };
        // Whoever had it before is gone: nobody adds.
        self.books.iter().filter_map(|book| book.seen(number)).for_each(TrafficCell::clear);
        let held = Held { ledger: Arc::clone(self), number };
        Account { ledger: Arc::clone(self), number, _held: Arc::new(held) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut numbers = self.ledger.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.free.push(self.number);
    }
}

impl Account {
    /// The cell of this worker, which alone may add to it.
    #[inline]
    pub(super) fn cell(&self, worker: usize) -> &TrafficCell {
        self.ledger.books[worker].cell(self.number)
    }

    pub(super) fn sum(&self, of: impl Fn(&TrafficCell) -> u64) -> u64 {
        self.ledger.books.iter().filter_map(|book| book.seen(self.number)).map(of).sum()
    }
}

impl Book {
    fn new() -> Self {
        Self((0..SHELVES).map(|_| OnceLock::new()).collect())
    }

    #[inline]
    fn cell(&self, number: u32) -> &TrafficCell {
        let (shelf, page, cell) = place(number);
        let shelf = self.0[shelf].get_or_init(|| (0..PAGES).map(|_| OnceLock::new()).collect());
        let page = shelf[page].get_or_init(Box::default);
        &page.0[cell]
    }

    /// `None` where nothing was counted.
    fn seen(&self, number: u32) -> Option<&TrafficCell> {
        let (shelf, page, cell) = place(number);
        Some(&self.0[shelf].get()?[page].get()?.0[cell])
    }
}

impl Default for Page {
    fn default() -> Self {
        Self(std::array::from_fn(|_| TrafficCell::default()))
    }
}

#[inline]
fn place(number: u32) -> (usize, usize, usize) {
    let number = number as usize;
    (number / CELLS / PAGES, number / CELLS % PAGES, number % CELLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(account: &Account) -> u64 {
        account.sum(TrafficCell::connections)
    }

    #[test]
    fn each_has_its_own_whatever_page_it_is_on() {
        let ledger = Ledger::new(2);
        let accounts: Vec<_> = (0..CELLS * PAGES + 3).map(|_| ledger.open()).collect();
        for (index, account) in accounts.iter().enumerate().step_by(CELLS - 1) {
            (0..=index % 3).for_each(|_| account.cell(index % 2).connected());
        }
        for (index, account) in accounts.iter().enumerate() {
            let expected = if index % (CELLS - 1) == 0 { index % 3 + 1 } else { 0 };
            assert_eq!(connections(account), expected as u64, "{index}");
        }
    }

    #[test]
    fn a_number_is_had_again_when_the_last_of_its_owners_is_gone_and_begins_at_nothing() {
        let ledger = Ledger::new(1);
        let first = ledger.open();
        first.cell(0).connected();
        let same = first.clone();
        drop(first);
        assert_ne!(ledger.open().number, same.number);
        assert_eq!(connections(&same), 1);
        let number = same.number;
        drop(same);
        let next = ledger.open();
        assert_eq!((next.number, connections(&next)), (number, 0));
    }
}
