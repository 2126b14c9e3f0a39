//! Tables of a delegate's partitions, and of the operators it leaves to the CPU, with the reason.

use coexec_sim::Stage;
use coexec_sim::explore::delegates::Partitioning;

use crate::output;
use crate::output::row;

/// Prints the partitions in execution order, and the operators left out; each table ends with an empty
/// line.
pub(crate) fn print_partitions(partitioning: &Partitioning, stages: &[Stage]) {
    let Partitioning { delegate, partitions, left_out } = partitioning;
    let taken = partitions.iter().filter(|partition| partition.delegated).count();
    let all = stages.len();
    output::line(&format!(
        "{delegate}: {} of {all} operators in {taken} of {} partitions, which run one after another\n",
        all - left_out.len(),
        partitions.len(),
    ));
    let rows = partitions.iter().map(|partition| {
        let name = |stage: Option<&usize>| stage.map_or("-", |&stage| stages[stage].name.as_str());
        let by = if partition.delegated { delegate.to_string() } else { "CPU".to_owned() };
        let [first, last] = [partition.stages.first(), partition.stages.last()].map(name);
        row![first, last, by, partition.stages.len(), partition.tensors, partition.bytes, partition.crossing]
    });
    let header = ["from", "to", "computed by", "operators", "tensors in", "bytes in", "crossing"];
    output::keyed_table(&header, 3, rows);
    output::line("");
    if !left_out.is_empty() {
        let rows = left_out.iter().map(|left| row![stages[left.stage].name, left.reason]);
        output::keyed_table(&["left to the CPU", "because of"], 1, rows);
        output::line("");
    }
}
