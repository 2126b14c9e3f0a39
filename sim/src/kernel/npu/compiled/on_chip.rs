//! Lifetimes of a graph's tensors in on-chip memory, and their spills to DRAM.
//!
//! The compiler knows the order of all operators, so eviction follows Belady's rule: the tensor
//! with the furthest next use leaves first, in part if that suffices. The output overwrites
//! inputs that are read for the last time; a tensor already in DRAM is dropped without a copy.

use std::cmp::Reverse;

use super::Operators;
use super::operators::CompiledOperator;
use super::rates::{Spill, activation_bytes};
use crate::workload::DataType;

/// What each operator moves between on-chip memory and DRAM, excluding weights. `formats` are
/// the members' number formats, `capacity` the size of the on-chip memory in bytes.
pub(super) fn spills(operators: &Operators, formats: &[DataType], capacity: f64) -> Vec<Spill> {
    let mut memory = Memory::new(operators, formats, capacity);
    let spill = |place| {
        let [entering, leaving] = memory.crossing(operators, place);
        Spill { bytes: memory.step(operators, place), entering, leaving }
    };
    (0..operators.all.len()).map(spill).collect()
}

/// Lower bounds of the bytes that each operator reads in any graph that computes its inputs, and that it writes in any
/// graph that reads its result: what exceeds the chip's memory.
pub(super) fn least_spills(operators: &Operators, formats: &[DataType], capacity: f64) -> [Vec<f64>; 2] {
    let memory = Memory::new(operators, formats, capacity);
    // Of tensors from outside nothing is certain, and of those between operators of attention only one head's part.
    let mut sizes = vec![0.0; memory.sizes.len()];
    for operator in &operators.all {
        sizes[operator.output] = memory.sizes[operator.output] / operator.work.slices;
    }
    let read = |operator: &CompiledOperator| {
        let bytes: f64 = operator.inputs.iter().map(|&input| sizes[input]).sum();
        (bytes - capacity).max(0.0)
    };
    let written = |(place, operator): (usize, &CompiledOperator)| {
        let is_read = memory.next_use(operator.output, place).is_some();
        if is_read { (sizes[operator.output] - capacity).max(0.0) } else { 0.0 }
    };
    let all = &operators.all;
    [all.iter().map(read).collect(), all.iter().enumerate().map(written).collect()]
}

struct Memory {
    capacity: f64,
    /// Bytes of each tensor.
    sizes: Vec<f64>,
    /// Positions of the operators that read each tensor, ascending, concatenated over the tensors.
    readers: Vec<usize>,
    /// Start of each tensor's readers in `readers`, plus the end of the last one's.
    first_reader: Vec<usize>,
    /// Bytes of each tensor that are on chip; `None` if it is not live.
    resident: Vec<Option<f64>>,
    /// Live tensors.
    live: Vec<usize>,
}

impl Memory {
    fn new(operators: &Operators, formats: &[DataType], capacity: f64) -> Self {
        let mut sizes = operators.sizes.clone();
        // A tensor from outside is in the format of its first reader.
        let mut is_sized = vec![false; sizes.len()];
        for operator in &operators.all {
            let element_bytes = activation_bytes(formats[operator.member]);
            for &tensor in operator.inputs.iter().chain([&operator.output]) {
                if !std::mem::replace(&mut is_sized[tensor], true) {
                    sizes[tensor] *= element_bytes;
                }
            }
        }
        let reads = || {
            operators
                .all
                .iter()
                .enumerate()
                .flat_map(|(place, operator)| operator.inputs.iter().map(move |&input| (place, input)))
        };
        let mut first_reader = vec![0; sizes.len() + 1];
        reads().for_each(|(_, input)| first_reader[input + 1] += 1);
        for tensor in 0..sizes.len() {
            first_reader[tensor + 1] += first_reader[tensor];
        }
        let (mut readers, mut free) = (vec![0; first_reader[sizes.len()]], first_reader.clone());
        for (place, input) in reads() {
            readers[free[input]] = place;
            free[input] += 1;
        }
        // Tensors from outside start in DRAM.
        let mut resident = vec![None; sizes.len()];
        let live: Vec<usize> = (0..sizes.len()).filter(|&tensor| operators.is_outside[tensor]).collect();
        for &tensor in &live {
            resident[tensor] = Some(0.0);
        }
        Self { capacity, sizes, readers, first_reader, resident, live }
    }

    /// The next operator after `place` that reads the tensor.
    fn next_use(&self, tensor: usize, place: usize) -> Option<usize> {
        let readers = &self.readers[self.first_reader[tensor]..self.first_reader[tensor + 1]];
        readers.get(readers.partition_point(|&reader| reader <= place)).copied()
    }

    /// Bytes beyond the capacity that an operator moves into the graph, of tensors from outside that it is the first to
    /// read, and out of it, if no operator reads its result.
    fn crossing(&self, operators: &Operators, place: usize) -> [f64; 2] {
        let operator = &operators.all[place];
        let is_first = |input: usize| self.readers[self.first_reader[input]] == place;
        let inputs = operator.inputs.iter().copied();
        let entering = inputs.filter(|&input| operators.is_outside[input] && is_first(input));
        let entering: f64 = entering.map(|input| self.sizes[input]).sum();
        let is_result = self.next_use(operator.output, place).is_none();
        let leaving = if is_result { self.sizes[operator.output] } else { 0.0 };
        [entering, leaving].map(|bytes| (bytes - self.capacity).max(0.0))
    }

    fn on_chip(&self, tensor: usize) -> f64 {
        self.resident[tensor].unwrap_or(0.0)
    }

    /// Runs one operator: fetches missing inputs, makes room, and keeps its output as far as it fits.
    /// Returns the traffic in bytes.
    fn step(&mut self, operators: &Operators, place: usize) -> f64 {
        let operator = &operators.all[place];
        let inputs = &operator.inputs;
        let missing =
            |&tensor: &usize| self.resident[tensor].map_or(0.0, |resident| self.sizes[tensor] - resident);
        let mut traffic: f64 = inputs.iter().map(missing).sum();
        let is_dying = |tensor: usize| self.next_use(tensor, place).is_none();
        let total: f64 = inputs.iter().map(|&tensor| self.sizes[tensor]).sum();
        let dying: f64 =
            inputs.iter().filter(|&&tensor| is_dying(tensor)).map(|&tensor| self.sizes[tensor]).sum();
        let output = self.sizes[operator.output];
        let needed = (total - dying + dying.max(output)).min(self.capacity);
        traffic += self.make_room(operators, inputs, place, needed);
        for &input in inputs {
            if self.next_use(input, place).is_none() {
                self.resident[input] = None;
            }
        }
        let resident = &self.resident;
        self.live.retain(|&tensor| resident[tensor].is_some());
        traffic + self.keep(operators, inputs, place, operator.output)
    }

    /// Evicts the tensors with the furthest next use until `needed` bytes are free for the operator.
    /// Returns the bytes written to DRAM.
    fn make_room(&mut self, operators: &Operators, inputs: &[usize], place: usize, needed: f64) -> f64 {
        let is_other = |tensor: &usize| !inputs.contains(tensor) && self.on_chip(*tensor) > 0.0;
        let others = || self.live.iter().copied().filter(is_other);
        let held: f64 = others().map(|tensor| self.on_chip(tensor)).sum();
        let mut over = held + needed - self.capacity;
        if over <= 0.0 {
            return 0.0;
        }
        let mut traffic = 0.0;
        let mut others: Vec<usize> = others().collect();
        others.sort_by_key(|&tensor| Reverse(self.next_use(tensor, place).unwrap_or(usize::MAX)));
        for tensor in others {
            if over <= 0.0 {
                break;
            }
            let leaving = self.on_chip(tensor).min(over);
            over -= leaving;
            self.resident[tensor] = Some(self.on_chip(tensor) - leaving);
            if !operators.is_outside[tensor] {
                traffic += leaving;
            }
        }
        traffic
    }

    /// Keeps the output and the inputs with further uses as far as there is room. Returns the bytes
    /// written to DRAM.
    fn keep(&mut self, operators: &Operators, inputs: &[usize], place: usize, output: usize) -> f64 {
        let is_other = |tensor: &&usize| !inputs.contains(tensor);
        let held: f64 = self.live.iter().filter(is_other).map(|&tensor| self.on_chip(tensor)).sum();
        let mut room = (self.capacity - held).max(0.0);
        let mut traffic = 0.0;
        for &tensor in [output].iter().chain(inputs) {
            if self.next_use(tensor, place).is_none() {
                continue;
            }
            let size = self.sizes[tensor];
            let kept = size.min(room);
            room -= kept;
            let was_whole = self.on_chip(tensor) >= size;
            if tensor == output || (!operators.is_outside[tensor] && was_whole) {
                traffic += size - kept;
            }
            if self.resident[tensor].is_none() {
                self.live.push(tensor);
            }
            self.resident[tensor] = Some(kept);
        }
        traffic
    }
}
