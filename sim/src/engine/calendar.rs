//! The event calendar: a priority queue of pending events.
//!
//! Responsible for: the total order of pending events, the single event that can be rescheduled, and the
//! current simulated time. Not for: what an event means.
//! Invariants: events are popped by time, simultaneous ones in the order in which they were
//! scheduled; nothing is allocated once the buffers have grown to size.
//!
//! An event's key is one `u128`: time, then a sequence number. One comparison orders two events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem::take;

use crate::units::Picos;

/// Bits of a key below the time: the sequence number.
const TIME_SHIFT: u32 = 64;

/// A key after those of all events.
const NEVER: u128 = u128::MAX;

/// Which of the calendar's buffers holds an event.
#[derive(Clone, Copy)]
enum Place {
    Later,
    Immediate,
    Movable,
}

/// A pending event, preceded by its key.
type Entry<Event> = (u128, Event);

/// Pending events, ordered by time.
#[derive(Clone, Debug)]
pub struct Calendar<Event> {
    now: Picos,
    later: BinaryHeap<Reverse<Entry<Event>>>,
    /// Whether the top of `later` has been popped but still occupies its slot. Most events schedule a
    /// successor, which then replaces the top with one sift instead of two.
    first_is_taken: bool,
    /// Events scheduled for exactly `now`: a FIFO, which needs no heap.
    immediate: VecDeque<Entry<Event>>,
    /// The event that can be rescheduled.
    movable: Option<Entry<Event>>,
    next_sequence: u64,
}

/// Empty, at time zero.
impl<Event: Copy + Ord> Default for Calendar<Event> {
    fn default() -> Self {
        Self {
            now: Picos::ZERO,
            later: BinaryHeap::new(),
            first_is_taken: false,
            immediate: VecDeque::new(),
            movable: None,
            next_sequence: 0,
        }
    }
}

impl<Event: Copy + Ord> Calendar<Event> {
    /// Removes every event and returns to time zero; keeps the buffers.
    pub fn clear(&mut self) {
        self.now = Picos::ZERO;
        self.later.clear();
        self.first_is_taken = false;
        self.immediate.clear();
        self.movable = None;
        self.next_sequence = 0;
    }

    /// The time of the last event popped.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Schedules an event at `time`, after those already scheduled for that time.
    ///
    /// # Panics
    /// If `time` is before [`now`](Self::now).
    #[inline]
    pub fn push(&mut self, time: Picos, event: Event) {
        let entry = self.entry(time, event);
        if time == self.now {
            self.immediate.push_back(entry);
        } else if !take(&mut self.first_is_taken) {
            self.later.push(Reverse(entry));
        } else if let Some(mut first) = self.later.peek_mut() {
            *first = Reverse(entry);
        }
    }

    /// Reschedules the movable event to `time`, after the events already there; `None` cancels it. An event
    /// already scheduled for `time` keeps its place.
    ///
    /// # Panics
    /// As [`push`](Self::push).
    pub fn move_to(&mut self, time: Option<Picos>, event: Event) {
        if self.movable.map(|(key, _)| time_of(key)) != time {
            self.movable = time.map(|time| self.entry(time, event));
        }
    }

    /// Removes the next event and advances the time to it.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let (key, place) = self.first()?;
        self.now = time_of(key);
        match place {
            Place::Immediate => self.immediate.pop_front().map(|(_, event)| event),
            Place::Movable => self.movable.take().map(|(_, event)| event),
            Place::Later => {
                self.first_is_taken = true;
                self.later.peek().map(|Reverse(entry)| entry.1)
            }
        }
    }

    /// When the next event happens.
    pub fn next_time(&mut self) -> Option<Picos> {
        if !self.immediate.is_empty() {
            return Some(self.now);
        }
        self.first().map(|(key, _)| time_of(key))
    }

    /// The key of the next event, and the buffer that holds it.
    #[inline]
    fn first(&mut self) -> Option<(u128, Place)> {
        if take(&mut self.first_is_taken) {
            self.later.pop();
        }
        let mut first = (NEVER, Place::Later);
        if let Some(Reverse((key, _))) = self.later.peek() {
            first.0 = *key;
        }
        for (place, entry) in
            [(Place::Immediate, self.immediate.front()), (Place::Movable, self.movable.as_ref())]
        {
            if let Some(&(key, _)) = entry
                && key < first.0
            {
                first = (key, place);
            }
        }
        (first.0 < NEVER).then_some(first)
    }

    #[inline]
    fn entry(&mut self, time: Picos, event: Event) -> Entry<Event> {
        assert!(time >= self.now, "an event cannot happen in the past");
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        ((u128::from(time.0) << TIME_SHIFT) | u128::from(sequence), event)
    }
}

fn time_of(key: u128) -> Picos {
    Picos((key >> TIME_SHIFT) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn simultaneous_events_are_popped_in_insertion_order() {
        let mut calendar = Calendar::default();
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
    fn the_movable_event_happens_once_at_its_last_time_unless_cancelled() {
        let mut calendar = Calendar::default();
        calendar.push(Picos(2), 'a');
        calendar.move_to(Some(Picos(1)), 'm');
        calendar.move_to(Some(Picos(2)), 'm');
        calendar.push(Picos(2), 'b');
        calendar.move_to(Some(Picos(2)), 'm');
        assert_eq!([calendar.pop(), calendar.pop(), calendar.pop()], [Some('a'), Some('m'), Some('b')]);
        calendar.move_to(Some(Picos(3)), 'm');
        calendar.move_to(None, 'm');
        assert_eq!((calendar.next_time(), calendar.pop()), (None, None));
        assert_eq!(calendar.now(), Picos(2));
    }

    #[derive(Clone, Debug)]
    enum Action {
        Push { delay: u64 },
        Pop,
        Move { delay: Option<u64> },
        NextTime,
    }

    fn action() -> impl Strategy<Value = Action> {
        // Short delays, including zero, so that events often coincide.
        let delay = 0_u64..6;
        prop_oneof![
            4 => delay.clone().prop_map(|delay| Action::Push { delay }),
            3 => Just(Action::Pop),
            2 => prop::option::of(delay).prop_map(|delay| Action::Move { delay }),
            1 => Just(Action::NextTime),
        ]
    }

    /// The movable event; differs from every pushed one.
    const MOVABLE: u32 = u32::MAX;

    proptest! {
        #[test]
        fn the_calendar_orders_events_as_a_sorted_map_does(actions in prop::collection::vec(action(), 1..400)) {
            let mut calendar = Calendar::default();
            let mut shadow = BTreeMap::new();
            for (event, action) in (0_u32..).zip(actions) {
                match action {
                    Action::Push { delay } => {
                        let time = calendar.now() + Picos(delay);
                        calendar.push(time, event);
                        shadow.insert((time, event), event);
                    }
                    Action::Pop => {
                        let expected = shadow.pop_first();
                        prop_assert_eq!(calendar.pop(), expected.map(|(_, event)| event));
                        if let Some(((time, _), _)) = expected {
                            prop_assert_eq!(calendar.now(), time);
                        }
                    }
                    Action::Move { delay } => {
                        let time = delay.map(|delay| calendar.now() + Picos(delay));
                        calendar.move_to(time, MOVABLE);
                        let before = shadow.iter().find(|(_, event)| **event == MOVABLE).map(|(key, _)| *key);
                        if before.map(|(time, _)| time) != time {
                            before.map(|key| shadow.remove(&key));
                            shadow.extend(time.map(|time| ((time, event), MOVABLE)));
                        }
                    }
                    Action::NextTime => {
                        let expected = shadow.first_key_value().map(|((time, _), _)| *time);
                        prop_assert_eq!(calendar.next_time(), expected);
                    }
                }
            }
            while let Some((_, event)) = shadow.pop_first() {
                prop_assert_eq!(calendar.pop(), Some(event));
            }
            prop_assert_eq!(calendar.pop(), None);
        }
    }
}
