//! The event calendar: what happens next.
//!
//! Responsible for: the total order of pending events, cancelling them, and the
//! current simulated time. Not for: what an event means.
//! Invariant: events come out by time, and at one time in the order they went
//! in; nothing is allocated once the buffers have reached their size.
//!
//! An event's key is one `u128`: time, then a sequence number, then the slot
//! that holds the payload. One comparison orders two events, and moving one
//! moves 16 bytes. A cancelled event is left in the heap: its slot no longer
//! carries its sequence number, so it is dropped when it surfaces.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem::take;

use crate::units::Picos;

/// Bits of a key below the time: sequence number and slot.
const TIME_SHIFT: u32 = 64;
/// Bits of a key below the sequence number: the slot.
const SEQUENCE_SHIFT: u32 = 32;
/// The sequence number of a slot without an event.
const VACANT: u32 = u32::MAX;

/// A pending event, for [`Calendar::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    sequence: u32,
    slot: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot<Event> {
    /// Of the event that lives here; any other key that names the slot is stale.
    sequence: u32,
    event: Event,
}

/// Pending events in the order they happen.
#[derive(Clone, Debug)]
pub struct Calendar<Event> {
    now: Picos,
    later: BinaryHeap<Reverse<u128>>,
    /// The first of them has been taken and still has its place: most events schedule a
    /// successor, which takes that place in one pass instead of two.
    first_is_taken: bool,
    /// Events at exactly `now` need no ordering: first in, first out.
    immediate: VecDeque<u128>,
    slots: Vec<Slot<Event>>,
    free: Vec<u32>,
    next_sequence: u32,
}

impl<Event: Copy> Calendar<Event> {
    /// An empty calendar at time zero.
    pub const fn new() -> Self {
        Self {
            now: Picos::ZERO,
            later: BinaryHeap::new(),
            first_is_taken: false,
            immediate: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            next_sequence: 0,
        }
    }

    /// Forgets every event and returns to time zero; keeps the buffers.
    pub fn clear(&mut self) {
        self.now = Picos::ZERO;
        self.later.clear();
        self.first_is_taken = false;
        self.immediate.clear();
        self.slots.clear();
        self.free.clear();
        self.next_sequence = 0;
    }

    /// The time of the last event that came out.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Adds an event at `time`, behind those already there at that time.
    ///
    /// # Panics
    /// For a `time` before [`now`](Self::now), and beyond 2^32 - 1 events since
    /// the last [`clear`](Self::clear).
    #[inline]
    pub fn push(&mut self, time: Picos, event: Event) -> Ticket {
        assert!(time >= self.now, "an event cannot happen in the past");
        let sequence = self.next_sequence;
        assert!(sequence != VACANT, "sequence numbers are used up");
        self.next_sequence += 1;
        let slot = self.occupy(Slot { sequence, event });
        let key =
            (u128::from(time.0) << TIME_SHIFT) | (u128::from(sequence) << SEQUENCE_SHIFT) | u128::from(slot);
        if time == self.now {
            self.immediate.push_back(key);
        } else {
            self.push_later(key);
        }
        Ticket { sequence, slot }
    }

    /// Takes a pending event back; false where it has already happened or been
    /// cancelled.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let pending = self.is_pending(ticket);
        if pending {
            self.vacate(ticket.slot);
        }
        pending
    }

    /// Takes the next event out and moves the time to it.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        loop {
            let (key, immediate) = self.first()?;
            self.discard(immediate);
            let ticket = ticket_of(key);
            if self.is_pending(ticket) {
                self.now = time_of(key);
                self.vacate(ticket.slot);
                return Some(self.slots[ticket.slot as usize].event);
            }
        }
    }

    /// When the next event happens.
    pub fn next_time(&mut self) -> Option<Picos> {
        loop {
            let (key, immediate) = self.first()?;
            if self.is_pending(ticket_of(key)) {
                return Some(time_of(key));
            }
            self.discard(immediate);
        }
    }

    /// The first key, stale or not, and whether it is an immediate one.
    #[inline]
    fn first(&mut self) -> Option<(u128, bool)> {
        match (self.immediate.front().copied(), self.first_later()) {
            (Some(immediate), Some(later)) => Some((immediate.min(later), immediate < later)),
            (Some(immediate), None) => Some((immediate, true)),
            (None, later) => later.map(|key| (key, false)),
        }
    }

    fn discard(&mut self, immediate: bool) {
        if immediate {
            self.immediate.pop_front();
        } else {
            self.first_is_taken = true;
        }
    }

    #[inline]
    fn push_later(&mut self, key: u128) {
        if !take(&mut self.first_is_taken) {
            self.later.push(Reverse(key));
        } else if let Some(mut first) = self.later.peek_mut() {
            *first = Reverse(key);
        }
    }

    #[inline]
    fn first_later(&mut self) -> Option<u128> {
        if take(&mut self.first_is_taken) {
            self.later.pop();
        }
        self.later.peek().map(|Reverse(key)| *key)
    }

    fn is_pending(&self, ticket: Ticket) -> bool {
        self.slots[ticket.slot as usize].sequence == ticket.sequence
    }

    fn occupy(&mut self, content: Slot<Event>) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = content;
            slot
        } else {
            self.slots.push(content);
            (self.slots.len() - 1) as u32
        }
    }

    fn vacate(&mut self, slot: u32) {
        self.slots[slot as usize].sequence = VACANT;
        self.free.push(slot);
    }
}

impl<Event: Copy> Default for Calendar<Event> {
    fn default() -> Self {
        Self::new()
    }
}

fn time_of(key: u128) -> Picos {
    Picos((key >> TIME_SHIFT) as u64)
}

fn ticket_of(key: u128) -> Ticket {
    Ticket { sequence: (key >> SEQUENCE_SHIFT) as u32, slot: key as u32 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_at_one_time_come_out_in_the_order_they_went_in() {
        let mut calendar = Calendar::new();
        calendar.push(Picos(5), 'b');
        calendar.push(Picos(5), 'c');
        calendar.push(Picos(2), 'a');
        assert_eq!(calendar.pop(), Some('a'));
        assert_eq!(calendar.pop(), Some('b'));
        calendar.push(Picos(5), 'd');
        assert_eq!(calendar.pop(), Some('c'));
        assert_eq!(calendar.pop(), Some('d'));
        assert_eq!((calendar.pop(), calendar.now()), (None, Picos(5)));
    }

    #[test]
    fn a_ticket_of_a_past_event_cancels_nothing() {
        let mut calendar = Calendar::new();
        let first = calendar.push(Picos(1), 'a');
        assert_eq!(calendar.pop(), Some('a'));
        let second = calendar.push(Picos(2), 'b');
        assert_eq!(first.slot, second.slot);
        assert!(!calendar.cancel(first));
        assert!(calendar.cancel(second));
        assert!(!calendar.cancel(second));
        assert_eq!((calendar.next_time(), calendar.pop()), (None, None));
        assert_eq!(calendar.now(), Picos(1));
    }

    #[derive(Clone, Debug)]
    enum Action {
        Push {
            delay: u64,
        },
        Pop,
        Cancel {
            pick: usize,
        },
        /// A cancel and a push of the same event at another date.
        Redate {
            pick: usize,
            delay: u64,
        },
        NextTime,
    }

    fn action() -> impl Strategy<Value = Action> {
        // Short delays, zero among them, so that dates often coincide.
        let delay = 0_u64..6;
        prop_oneof![
            4 => delay.clone().prop_map(|delay| Action::Push { delay }),
            3 => Just(Action::Pop),
            1 => any::<usize>().prop_map(|pick| Action::Cancel { pick }),
            1 => (any::<usize>(), delay).prop_map(|(pick, delay)| Action::Redate { pick, delay }),
            1 => Just(Action::NextTime),
        ]
    }

    proptest! {
        #[test]
        fn the_calendar_orders_events_as_a_sorted_map_does(actions in prop::collection::vec(action(), 1..400)) {
            let mut calendar = Calendar::new();
            let mut shadow = BTreeMap::new();
            let mut tickets = Vec::new();
            let mut pushed = 0_u32;
            let mut push = |calendar: &mut Calendar<u32>, shadow: &mut BTreeMap<_, _>, event, delay| {
                let time = calendar.now() + Picos(delay);
                let ticket = calendar.push(time, event);
                shadow.insert((time, pushed), event);
                pushed += 1;
                (ticket, (time, pushed - 1), event)
            };
            for (event, action) in (0_u32..).zip(actions) {
                match action {
                    Action::Push { delay } => tickets.push(push(&mut calendar, &mut shadow, event, delay)),
                    Action::Pop => {
                        let expected = shadow.pop_first();
                        prop_assert_eq!(calendar.pop(), expected.map(|(_, event)| event));
                        if let Some(((time, _), _)) = expected {
                            prop_assert_eq!(calendar.now(), time);
                        }
                    }
                    Action::Cancel { pick } if !tickets.is_empty() => {
                        let (ticket, key, _) = tickets[pick % tickets.len()];
                        prop_assert_eq!(calendar.cancel(ticket), shadow.remove(&key).is_some());
                    }
                    Action::Redate { pick, delay } if !tickets.is_empty() => {
                        let (ticket, key, event) = tickets[pick % tickets.len()];
                        prop_assert_eq!(calendar.cancel(ticket), shadow.remove(&key).is_some());
                        tickets.push(push(&mut calendar, &mut shadow, event, delay));
                    }
                    Action::NextTime => {
                        let expected = shadow.first_key_value().map(|((time, _), _)| *time);
                        prop_assert_eq!(calendar.next_time(), expected);
                    }
                    Action::Cancel { .. } | Action::Redate { .. } => {}
                }
            }
            while let Some((_, event)) = shadow.pop_first() {
                prop_assert_eq!(calendar.pop(), Some(event));
            }
            prop_assert_eq!(calendar.pop(), None);
        }
    }
}
