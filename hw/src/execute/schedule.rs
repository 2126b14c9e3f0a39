//! In which order host and device do their parts of a plan, and where they meet.
//!
//! Responsible for: the order. Not for: memory, or how one side learns of the other.
//! Invariants: neither side waits for something that comes after what the other waits
//! for; the host knows of everything the device did when a run ends.

/// Who computes a stage, or parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) cpu: bool,
    pub(super) gpu: bool,
}

/// What is known of one stage.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) sides: Sides,
    /// Numbers of the tensors it reads; tensor `i` is stage `i`'s result, those behind
    /// are inputs of the workload.
    pub(super) reads: Vec<usize>,
}

/// A tensor as far as copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    /// The host's and the device's memory each hold it.
    pub(super) twice: bool,
}

/// What is put into the device's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// The device waits for that signal of the host.
    Await(u32),
    /// What the host computed of a tensor is copied to the device.
    Upload(usize),
    /// The device computes its part of a stage.
    Launch(usize),
    /// What the device computed of a tensor is copied to the host.
    Fetch(usize),
    /// The device tells the host how far it is.
    Announce(u32),
}

/// What the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hosted {
    /// It waits until the device has announced that.
    WaitFor(u32),
    /// It computes its part of a stage.
    Compute(usize),
    /// It tells the device how far it is.
    Signal(u32),
}

/// Both orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) queue: Vec<Queued>,
    pub(super) host: Vec<Hosted>,
    /// Number of the last announcement.
    pub(super) announcements: u32,
    /// The stage that each announcement follows.
    pub(super) announcers: Vec<usize>,
    /// Number of the last signal.
    pub(super) signals: u32,
}

/// How far each side knows of the other while the schedule is made.
struct Maker<'a> {
    nodes: &'a [Node],
    tensors: &'a [Copies],
    schedule: Schedule,
    /// Of each stage: its announcement, its signal.
    announced: Vec<Option<u32>>,
    signalled: Vec<Option<u32>>,
    uploaded: Vec<bool>,
    /// Latest announcement that the host waited for, latest signal that the device did.
    host_knows: u32,
    device_knows: u32,
    /// Latest signal that the device must have waited for before its next launch.
    owed: u32,
}

impl Schedule {
    /// The schedule of stages that read `tensors`.
    pub(super) fn new(nodes: &[Node], tensors: &[Copies]) -> Self {
        let mut maker = Maker {
            nodes,
            tensors,
            schedule: Self::default(),
            announced: vec![None; nodes.len()],
            signalled: vec![None; nodes.len()],
            uploaded: vec![false; tensors.len()],
            host_knows: 0,
            device_knows: 0,
            owed: 0,
        };
        for (stage, node) in nodes.iter().enumerate() {
            if node.sides.gpu {
                maker.on_device(stage);
            }
            if node.sides.cpu {
                maker.on_host(stage);
            }
        }
        maker.wait_for(maker.schedule.announcements);
        maker.schedule
    }
}

impl Maker<'_> {
    fn on_device(&mut self, stage: usize) {
        let reads = &self.nodes[stage].reads;
        let signals = reads.iter().filter_map(|&read| self.signalled.get(read).copied().flatten());
        let needed = signals.max().unwrap_or(0).max(self.owed);
        if needed > self.device_knows {
            self.schedule.queue.push(Queued::Await(needed));
            self.device_knows = needed;
        }
        for &read in reads {
            let from_host = self.nodes.get(read).is_none_or(|node| node.sides.cpu);
            if from_host && self.tensors[read].twice && !self.uploaded[read] {
                self.uploaded[read] = true;
                self.schedule.queue.push(Queued::Upload(read));
            }
        }
        self.schedule.queue.push(Queued::Launch(stage));
        if !self.is_announced(stage) {
            return;
        }
        if self.tensors[stage].twice {
            self.schedule.queue.push(Queued::Fetch(stage));
        }
        self.schedule.announcements += 1;
        self.schedule.announcers.push(stage);
        self.announced[stage] = Some(self.schedule.announcements);
        self.schedule.queue.push(Queued::Announce(self.schedule.announcements));
    }

    /// Whether the host must learn when the device has done its part: it reads the
    /// result, computes the other part, wants it, or nothing follows on the device.
    fn is_announced(&self, stage: usize) -> bool {
        let behind = &self.nodes[stage + 1..];
        let is_read_by_host = behind.iter().any(|node| node.sides.cpu && node.reads.contains(&stage));
        let is_result = !behind.iter().any(|node| node.reads.contains(&stage));
        self.nodes[stage].sides.cpu
            || is_read_by_host
            || (is_result && self.tensors[stage].twice)
            || !behind.iter().any(|node| node.sides.gpu)
    }

    fn on_host(&mut self, stage: usize) {
        let reads = &self.nodes[stage].reads;
        let announced = reads.iter().filter_map(|&read| self.announced.get(read).copied().flatten());
        self.wait_for(announced.max().unwrap_or(0));
        self.schedule.host.push(Hosted::Compute(stage));
        let behind = &self.nodes[stage + 1..];
        let is_cut = self.nodes[stage].sides.gpu;
        // Behind a cut operator the device's queue waits for the join (EPEW'25, section 4).
        let joins = is_cut && behind.iter().any(|node| node.sides.gpu);
        if joins || behind.iter().any(|node| node.sides.gpu && node.reads.contains(&stage)) {
            self.schedule.signals += 1;
            self.signalled[stage] = Some(self.schedule.signals);
            self.schedule.host.push(Hosted::Signal(self.schedule.signals));
        }
        if joins {
            self.owed = self.schedule.signals;
        }
        if is_cut {
            self.wait_for(self.announced[stage].unwrap_or(0));
        }
    }

    fn wait_for(&mut self, announcement: u32) {
        if announcement > self.host_knows {
            self.schedule.host.push(Hosted::WaitFor(announcement));
            self.host_knows = announcement;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CPU: Sides = Sides { cpu: true, gpu: false };
    const GPU: Sides = Sides { cpu: false, gpu: true };
    const BOTH: Sides = Sides { cpu: true, gpu: true };

    fn chain(sides: &[Sides], twice: bool) -> Schedule {
        let count = sides.len();
        let reads = |stage: usize| vec![if stage == 0 { count } else { stage - 1 }];
        let nodes: Vec<Node> =
            sides.iter().enumerate().map(|(stage, &sides)| Node { sides, reads: reads(stage) }).collect();
        Schedule::new(&nodes, &vec![Copies { twice }; count + 1])
    }

    #[test]
    fn a_single_processor_meets_nobody_but_at_the_end() {
        assert_eq!(chain(&[CPU, CPU], false).queue, []);
        assert_eq!(chain(&[CPU, CPU], false).host, [Hosted::Compute(0), Hosted::Compute(1)]);
        let gpu = chain(&[GPU, GPU], false);
        assert_eq!(gpu.queue, [Queued::Launch(0), Queued::Launch(1), Queued::Announce(1)]);
        assert_eq!(gpu.host, [Hosted::WaitFor(1)]);
    }

    #[test]
    fn a_cut_operator_is_computed_by_both_at_once_and_joined() {
        let schedule = chain(&[BOTH], false);
        assert_eq!(schedule.queue, [Queued::Launch(0), Queued::Announce(1)]);
        assert_eq!(schedule.host, [Hosted::Compute(0), Hosted::WaitFor(1)]);
    }

    #[test]
    fn behind_a_join_the_device_waits_for_the_host_s_part() {
        let schedule = chain(&[BOTH, GPU], false);
        assert_eq!(
            schedule.queue,
            [
                Queued::Launch(0),
                Queued::Announce(1),
                Queued::Await(1),
                Queued::Launch(1),
                Queued::Announce(2)
            ]
        );
        assert_eq!(
            schedule.host,
            [Hosted::Compute(0), Hosted::Signal(1), Hosted::WaitFor(1), Hosted::WaitFor(2)]
        );
    }

    #[test]
    fn hand_overs_happen_only_where_the_placement_changes() {
        let schedule = chain(&[CPU, CPU, GPU, GPU, CPU], false);
        assert_eq!((schedule.announcements, schedule.signals), (1, 1));
        assert_eq!(
            schedule.queue,
            [Queued::Await(1), Queued::Launch(2), Queued::Launch(3), Queued::Announce(1)]
        );
    }

    #[test]
    fn without_shared_memory_each_side_is_sent_what_the_other_computed() {
        let schedule = chain(&[CPU, GPU, CPU], true);
        assert_eq!(
            schedule.queue,
            [Queued::Await(1), Queued::Upload(0), Queued::Launch(1), Queued::Fetch(1), Queued::Announce(1)]
        );
        let whole = chain(&[GPU], true);
        assert_eq!(
            whole.queue,
            [Queued::Upload(1), Queued::Launch(0), Queued::Fetch(0), Queued::Announce(1)]
        );
    }

    /// Runs both orders side by side: whether both come to their ends.
    fn ends(schedule: &Schedule) -> bool {
        let (mut queued, mut hosted, mut announced, mut signalled) = (0, 0, 0, 0);
        loop {
            let before = (queued, hosted);
            while let Some(&item) = schedule.queue.get(queued) {
                match item {
                    Queued::Await(signal) if signal > signalled => break,
                    Queued::Announce(number) => announced = number,
                    _ => {}
                }
                queued += 1;
            }
            while let Some(&item) = schedule.host.get(hosted) {
                match item {
                    Hosted::WaitFor(number) if number > announced => break,
                    Hosted::Signal(number) => signalled = number,
                    _ => {}
                }
                hosted += 1;
            }
            if (queued, hosted) == before {
                return queued == schedule.queue.len() && hosted == schedule.host.len();
            }
        }
    }

    proptest! {
        #[test]
        fn both_sides_always_come_to_an_end(
            sides in prop::collection::vec(0..3_usize, 1..12),
            picks in prop::collection::vec(0..1_000_usize, 24),
            twice: bool,
        ) {
            let count = sides.len();
            let nodes: Vec<Node> = sides
                .iter()
                .enumerate()
                .map(|(stage, &side)| Node {
                    sides: [CPU, GPU, BOTH][side],
                    reads: picks[2 * stage..2 * stage + 2]
                        .iter()
                        .map(|pick| if stage == 0 { count } else { pick % stage })
                        .collect(),
                })
                .collect();
            let schedule = Schedule::new(&nodes, &vec![Copies { twice }; count + 1]);
            prop_assert!(ends(&schedule));
            let computed = schedule.host.iter().filter(|item| matches!(item, Hosted::Compute(_))).count();
            let launched = schedule.queue.iter().filter(|item| matches!(item, Queued::Launch(_))).count();
            prop_assert_eq!(computed, nodes.iter().filter(|node| node.sides.cpu).count());
            prop_assert_eq!(launched, nodes.iter().filter(|node| node.sides.gpu).count());
        }
    }
}
