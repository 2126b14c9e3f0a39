use proptest::prelude::*;

use super::*;

const CPU: Sides = Sides { cpu: true, gpu: false };
const GPU: Sides = Sides { cpu: false, gpu: true };
const BOTH: Sides = Sides { cpu: true, gpu: true };

/// Stages of which each reads the one before, the last ones of them one chain.
fn line_with_chain(sides: &[Sides], chained: usize, copies: Copies) -> Schedule {
    let count = sides.len();
    let reads = |stage: usize| vec![if stage == 0 { count } else { stage - 1 }];
    let chain = |stage: usize| (stage >= count - chained).then_some(0);
    let nodes: Vec<Node> = sides
        .iter()
        .enumerate()
        .map(|(stage, &sides)| Node { sides, reads: reads(stage), chain: chain(stage) })
        .collect();
    Schedule::new(&nodes, &vec![copies; count + 1])
}

fn line(sides: &[Sides], twice: bool) -> Schedule {
    line_with_chain(sides, 0, Copies { twice, overlaps: false })
}

#[test]
fn a_single_processor_meets_nobody_but_at_the_end() {
    assert_eq!(line(&[CPU, CPU], false).queue, []);
    assert_eq!(line(&[CPU, CPU], false).host, [Hosted::Compute(0), Hosted::Compute(1)]);
    let gpu = line(&[GPU, GPU], false);
    assert_eq!(gpu.queue, [Queued::Launch(0), Queued::Launch(1), Queued::Announce(1)]);
    assert_eq!(gpu.host, [Hosted::WaitFor(1)]);
}

#[test]
fn a_cut_operator_is_computed_by_both_at_once_and_joined() {
    let schedule = line(&[BOTH], false);
    assert_eq!(schedule.queue, [Queued::Launch(0), Queued::Announce(1)]);
    assert_eq!(schedule.host, [Hosted::Compute(0), Hosted::WaitFor(1)]);
}

#[test]
fn behind_a_join_the_device_waits_for_the_host_s_part() {
    let schedule = line(&[BOTH, GPU], false);
    assert_eq!(
        schedule.queue,
        [Queued::Launch(0), Queued::Announce(1), Queued::Await(1), Queued::Launch(1), Queued::Announce(2)]
    );
    assert_eq!(
        schedule.host,
        [Hosted::Compute(0), Hosted::Signal(1), Hosted::WaitFor(1), Hosted::WaitFor(2)]
    );
}

#[test]
fn hand_overs_happen_only_where_the_placement_changes() {
    let schedule = line(&[CPU, CPU, GPU, GPU, CPU], false);
    assert_eq!((schedule.announcements, schedule.signals), (1, 1));
    assert_eq!(schedule.queue, [Queued::Await(1), Queued::Launch(2), Queued::Launch(3), Queued::Announce(1)]);
}

#[test]
fn without_shared_memory_each_side_is_sent_what_the_other_computed() {
    let schedule = line(&[CPU, GPU, CPU], true);
    assert_eq!(
        schedule.queue,
        [Queued::Await(1), Queued::Upload(0), Queued::Launch(1), Queued::Fetch(1), Queued::Announce(1)]
    );
    let whole = line(&[GPU], true);
    assert_eq!(whole.queue, [Queued::Upload(1), Queued::Launch(0), Queued::Fetch(0), Queued::Announce(1)]);
}

#[test]
fn a_chain_meets_once_at_its_end_and_what_follows_waits_for_the_join() {
    let alone = line_with_chain(&[BOTH, BOTH, BOTH], 3, Copies::default());
    assert_eq!(alone.queue, [Queued::Launch(0), Queued::Launch(1), Queued::Launch(2), Queued::Announce(1)]);
    assert_eq!(alone.host, [Hosted::Compute(0), Hosted::Compute(1), Hosted::Compute(2), Hosted::WaitFor(1)]);
    assert_eq!(alone.announcers, [[2]], "what is read inside the chain is nobody else's business");
    let nodes = |chain| Node { sides: BOTH, reads: vec![], chain };
    let followed = [
        Node { reads: vec![3], ..nodes(Some(4)) },
        Node { reads: vec![0], ..nodes(Some(4)) },
        Node { sides: GPU, reads: vec![1], chain: None },
    ];
    let schedule = Schedule::new(&followed, &[Copies::default(); 4]);
    assert_eq!(
        schedule.queue,
        [
            Queued::Launch(0),
            Queued::Launch(1),
            Queued::Announce(1),
            Queued::Await(1),
            Queued::Launch(2),
            Queued::Announce(2)
        ]
    );
    assert_eq!(schedule.host[2..], [Hosted::Signal(1), Hosted::WaitFor(1), Hosted::WaitFor(2)]);
}

#[test]
fn what_the_host_may_still_read_beyond_its_share_is_not_overwritten() {
    // The first result is read inside the chain, over the cut, and outside it.
    let nodes = [
        Node { sides: BOTH, reads: vec![3], chain: Some(0) },
        Node { sides: BOTH, reads: vec![0], chain: Some(0) },
        Node { sides: CPU, reads: vec![0, 1], chain: None },
    ];
    let copies = [true, false, false, false].map(|both| Copies { twice: both, overlaps: both });
    let schedule = Schedule::new(&nodes, &copies);
    assert_eq!(
        schedule.queue,
        [Queued::Launch(0), Queued::Launch(1), Queued::Await(1), Queued::Fetch(0), Queued::Announce(1)]
    );
    assert_eq!(
        schedule.host,
        [Hosted::Compute(0), Hosted::Compute(1), Hosted::Signal(1), Hosted::WaitFor(1), Hosted::Compute(2)]
    );
}

/// Both orders side by side, with what each side did so far.
struct Run<'a> {
    nodes: &'a [Node],
    tensors: &'a [Copies],
    schedule: &'a Schedule,
    queued: usize,
    hosted: usize,
    /// Latest announcement that was made and that the host waited for; latest signal.
    announced: u32,
    known: u32,
    signalled: u32,
    launched: Vec<bool>,
    computed: Vec<bool>,
    uploaded: Vec<bool>,
    /// The announcement behind which a tensor was fetched.
    fetched: Vec<Option<u32>>,
}

impl Run<'_> {
    fn is_own(&self, read: usize, reader: usize) -> bool {
        is_within_chain(self.nodes, read, reader)
    }

    /// What stage `reader` reads on the device is there.
    fn check_launch(&self, reader: usize) {
        for &read in &self.nodes[reader].reads {
            let Some(node) = self.nodes.get(read) else {
                assert!(!self.tensors[read].twice || self.uploaded[read], "an input was not sent");
                continue;
            };
            assert!(!node.sides.gpu || self.launched[read], "{reader} reads {read}");
            if node.sides.cpu && !self.is_own(read, reader) {
                assert!(self.computed[read], "{reader} reads {read} on the device");
                assert!(!self.tensors[read].twice || self.uploaded[read], "{read} was not sent");
            }
        }
    }

    /// What stage `reader` reads on the host is there, and nothing arrives meanwhile.
    fn check_compute(&self, reader: usize) {
        for &read in self.nodes[reader].reads.iter().filter(|&&read| read < self.nodes.len()) {
            let (node, copies) = (&self.nodes[read], self.tensors[read]);
            assert!(!node.sides.cpu || self.computed[read], "{reader} reads {read}");
            if let Some(announcement) = self.fetched[read].filter(|_| copies.overlaps) {
                assert!(self.known >= announcement, "{read} is overwritten while {reader} reads it");
            }
            if node.sides.gpu && !self.is_own(read, reader) {
                assert!(self.launched[read], "{reader} reads {read} on the host");
                let about = |about: &Vec<usize>| about.contains(&read);
                let told = self.schedule.announcers.iter().position(about).map(|index| index as u32 + 1);
                assert!(told.is_some_and(|told| self.known >= told), "{reader} does not know of {read}");
                assert!(!copies.twice || self.fetched[read].is_some(), "{read} was not fetched");
            }
        }
    }

    fn device_steps(&mut self) -> bool {
        let Some(&item) = self.schedule.queue.get(self.queued) else { return false };
        match item {
            Queued::Await(signal) if signal > self.signalled => return false,
            Queued::Await(_) => {}
            Queued::Announce(number) => self.announced = number,
            Queued::Launch(stage) => {
                self.check_launch(stage);
                self.launched[stage] = true;
            }
            Queued::Upload(tensor) => {
                assert!(self.computed.get(tensor).is_none_or(|&done| done), "{tensor} is sent too early");
                self.uploaded[tensor] = true;
            }
            Queued::Fetch(stage) => {
                assert!(self.launched[stage]);
                self.fetched[stage] = Some(self.announced + 1);
            }
        }
        self.queued += 1;
        true
    }

    fn host_steps(&mut self) -> bool {
        let Some(&item) = self.schedule.host.get(self.hosted) else { return false };
        match item {
            Hosted::WaitFor(number) if number > self.announced => return false,
            Hosted::WaitFor(number) => self.known = number,
            Hosted::Signal(number) => self.signalled = number,
            Hosted::Compute(stage) => {
                self.check_compute(stage);
                self.computed[stage] = true;
            }
        }
        self.hosted += 1;
        true
    }

    /// Takes steps, of the device first where it can for each `turn` that says so.
    fn run_to_the_end(mut self, turns: impl Iterator<Item = bool>) {
        for device_first in turns {
            let mut order: [fn(&mut Self) -> bool; 2] = [Self::device_steps, Self::host_steps];
            if !device_first {
                order.reverse();
            }
            let stepped = order.into_iter().any(|step| step(&mut self));
            if !stepped {
                break;
            }
        }
        assert_eq!(self.queued, self.schedule.queue.len(), "the device waits forever");
        assert_eq!(self.hosted, self.schedule.host.len(), "the host waits forever");
        assert_eq!(self.known, self.schedule.announcements, "the host knows of everything");
        assert!(self.nodes.iter().zip(&self.launched).all(|(node, &done)| done == node.sides.gpu));
        assert!(self.nodes.iter().zip(&self.computed).all(|(node, &done)| done == node.sides.cpu));
    }
}

/// Stages by number, each reading two of those before it.
fn nodes(sides: &[usize], picks: &[usize]) -> Vec<Node> {
    let node = |(stage, &side): (usize, &usize)| Node {
        sides: [CPU, GPU, BOTH, BOTH][side],
        reads: picks[3 * stage..3 * stage + 2]
            .iter()
            .map(|pick| if stage == 0 { sides.len() } else { pick % stage })
            .collect(),
        chain: Some(picks[3 * stage + 2] as u32 % 3).filter(|&chain| side >= 2 && chain < 2),
    };
    sides.iter().enumerate().map(node).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn both_sides_come_to_an_end_and_read_what_is_there(
        sides in prop::collection::vec(0..4_usize, 1..12),
        picks in prop::collection::vec(0..1_000_usize, 36),
        twice in prop::collection::vec(any::<bool>(), 13),
        turns in prop::collection::vec(any::<bool>(), 200),
        eager in 0..3_usize,
    ) {
        let nodes = nodes(&sides, &picks);
        let count = nodes.len();
        let is_cut = |tensor: usize| nodes.get(tensor).is_some_and(|node| node.chain.is_some());
        let tensors: Vec<Copies> = (0..=count)
            .map(|tensor| Copies { twice: twice[tensor], overlaps: twice[tensor] && is_cut(tensor) })
            .collect();
        let schedule = Schedule::new(&nodes, &tensors);
        let run = Run {
            nodes: &nodes,
            tensors: &tensors,
            schedule: &schedule,
            queued: 0,
            hosted: 0,
            announced: 0,
            known: 0,
            signalled: 0,
            launched: vec![false; count],
            computed: vec![false; count],
            uploaded: vec![false; count + 1],
            fetched: vec![None; count],
        };
        let turns = turns.into_iter().map(|turn| match eager {
            0 => true,
            1 => false,
            _ => turn,
        });
        run.run_to_the_end(turns);
    }
}
