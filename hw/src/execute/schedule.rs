//! In which order host and device do their parts of a plan, and where they meet.
//!
//! Responsible for: the order. Not for: memory, or how one side learns of the other.
//! Invariants: neither side waits for something that comes after what the other waits
//! for; the host knows of everything the device did when a run ends. Inside a chain
//! neither waits for the other: what others read of it is joined once, before the first of
//! them reads it.

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
    /// The chain it belongs to.
    pub(super) chain: Option<u32>,
}

/// A tensor as far as copies go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copies {
    /// The host's and the device's memory each hold it.
    pub(super) twice: bool,
    /// Both compute some of it, for operators of their chain that reach over the cut.
    pub(super) overlaps: bool,
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
    /// The stages whose results each announcement is about.
    pub(super) announcers: Vec<Vec<usize>>,
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
    /// Of each stage: whether its parts lie with those who computed them, for others to
    /// read.
    apart: Vec<bool>,
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
            apart: vec![false; nodes.len()],
            host_knows: 0,
            device_knows: 0,
            owed: 0,
        };
        for (stage, node) in nodes.iter().enumerate() {
            maker.join_what_it_reads(stage);
            if node.sides.gpu {
                maker.on_device(stage);
            }
            if node.sides.cpu {
                maker.on_host(stage);
            }
            maker.apart[stage] = leaves_its_chain(nodes, stage);
        }
        for chain in nodes.iter().filter_map(|node| node.chain) {
            maker.join(chain, nodes.len());
        }
        maker.wait_for(maker.schedule.announcements);
        maker.schedule
    }

    /// Whether the host is sent what the device computes of a stage.
    pub(super) fn is_fetched(&self, stage: usize) -> bool {
        self.queue.contains(&Queued::Fetch(stage))
    }

    /// Whether anything is copied from one side to the other.
    pub(super) fn copies(&self) -> bool {
        self.queue.iter().any(|item| matches!(item, Queued::Upload(_) | Queued::Fetch(_)))
    }
}

impl Maker<'_> {
    fn on_device(&mut self, stage: usize) {
        let reads = &self.nodes[stage].reads;
        let signals = reads.iter().filter_map(|&read| self.signalled.get(read).copied().flatten());
        let needed = signals.max().unwrap_or(0).max(self.owed);
        self.await_signal(needed);
        for &read in reads {
            let from_host = self.nodes.get(read).is_none_or(|node| node.sides.cpu);
            let has_own = is_within_chain(self.nodes, read, stage);
            if from_host && !has_own && self.tensors[read].twice && !self.uploaded[read] {
                self.uploaded[read] = true;
                self.schedule.queue.push(Queued::Upload(read));
            }
        }
        self.schedule.queue.push(Queued::Launch(stage));
        if self.nodes[stage].chain.is_none() && self.is_announced(stage) {
            self.announce(vec![stage]);
        }
    }

    /// The device tells the host, and sends it, what it computed of `stages`.
    fn announce(&mut self, stages: Vec<usize>) {
        self.schedule.announcements += 1;
        for &stage in &stages {
            if self.tensors[stage].twice {
                self.schedule.queue.push(Queued::Fetch(stage));
            }
            self.announced[stage] = Some(self.schedule.announcements);
        }
        self.schedule.announcers.push(stages);
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
        if self.nodes[stage].chain.is_some() {
            return;
        }
        let behind = &self.nodes[stage + 1..];
        let is_cut = self.nodes[stage].sides.gpu;
        // Behind a cut operator the device's queue waits for the join (EPEW'25, section 4).
        let joins = is_cut && behind.iter().any(|node| node.sides.gpu);
        if joins || behind.iter().any(|node| node.sides.gpu && node.reads.contains(&stage)) {
            self.signal(&[stage]);
        }
        if joins {
            self.owed = self.schedule.signals;
        }
        if is_cut {
            self.wait_for(self.announced[stage].unwrap_or(0));
        }
    }

    /// The host tells the device that it has computed its parts of `stages`.
    fn signal(&mut self, stages: &[usize]) {
        self.schedule.signals += 1;
        for &stage in stages {
            self.signalled[stage] = Some(self.schedule.signals);
        }
        self.schedule.host.push(Hosted::Signal(self.schedule.signals));
    }

    /// Joins the chains of which `stage`, which is no part of them, reads results.
    fn join_what_it_reads(&mut self, stage: usize) {
        for &read in &self.nodes[stage].reads {
            let chain = self.nodes.get(read).and_then(|node| node.chain);
            if let Some(chain) = chain.filter(|_| !is_within_chain(self.nodes, read, stage)) {
                self.join(chain, stage);
            }
        }
    }

    /// Brings together what a chain has computed so far for others to read: one join,
    /// whatever the number of results. `next` is the stage that comes behind.
    fn join(&mut self, chain: u32, next: usize) {
        let is_open = |&stage: &usize| self.apart[stage] && self.nodes[stage].chain == Some(chain);
        let stages: Vec<usize> = (0..self.nodes.len()).filter(is_open).collect();
        if stages.is_empty() {
            return;
        }
        for &stage in &stages {
            self.apart[stage] = false;
        }
        let goes_on = self.nodes[next..].iter().any(|node| node.sides.gpu);
        // What the device sends lands where the host has computed lines beyond its share,
        // and may still read them.
        let collides =
            stages.iter().any(|&stage| self.tensors[stage] == Copies { twice: true, overlaps: true });
        if goes_on || collides {
            self.signal(&stages);
        }
        if collides {
            self.await_signal(self.schedule.signals);
        }
        if goes_on {
            self.owed = self.schedule.signals;
        }
        self.announce(stages);
        self.wait_for(self.schedule.announcements);
    }

    fn await_signal(&mut self, signal: u32) {
        if signal > self.device_knows {
            self.schedule.queue.push(Queued::Await(signal));
            self.device_knows = signal;
        }
    }

    fn wait_for(&mut self, announcement: u32) {
        if announcement > self.host_knows {
            self.schedule.host.push(Hosted::WaitFor(announcement));
            self.host_knows = announcement;
        }
    }
}

/// Whether both are of one chain: each side reads what it computed itself.
fn is_within_chain(nodes: &[Node], read: usize, reader: usize) -> bool {
    let chain = nodes[reader].chain;
    chain.is_some() && nodes.get(read).is_some_and(|node| node.chain == chain)
}

/// Whether a stage of a chain has a result that another stage reads, or nobody.
fn leaves_its_chain(nodes: &[Node], stage: usize) -> bool {
    let mut readers = (0..nodes.len()).filter(|&reader| nodes[reader].reads.contains(&stage)).peekable();
    let is_result = readers.peek().is_none();
    nodes[stage].chain.is_some()
        && (is_result || readers.any(|reader| !is_within_chain(nodes, stage, reader)))
}

#[cfg(test)]
mod tests;
