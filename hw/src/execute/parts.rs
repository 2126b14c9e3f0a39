//! What CPU and GPU compute of each operator of a plan.
//!
//! Responsible for: the parts, with the lines that operators of a chain reach beyond a
//! cut, and what of a plan does not run here. Invariant: shares of one operator do not
//! overlap; parts of a chain may, and cover their shares.

use std::ops::Range;

use coexec_sim::plan::{Axis, Cut, Placement, Plan, check_chains, cuts};
use coexec_sim::workload::{CHANNELS_PER_SLICE, Operator, Stage};

use super::ExecuteError;
use crate::operands::Part;

/// What one side does of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Portion {
    /// What it computes.
    pub(super) part: Part,
    /// What others have of it: the part, without what later operators of a chain read
    /// beyond the cut.
    pub(super) share: Part,
}

/// Who computes what of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Portions {
    pub(super) cpu: Option<Portion>,
    pub(super) gpu: Option<Portion>,
}

impl Portion {
    fn whole(operator: &Operator) -> Self {
        let part = Part::whole(operator);
        Self { share: part.clone(), part }
    }
}

impl Portions {
    /// Whether both compute some of the operator.
    pub(super) fn overlap(&self) -> bool {
        [&self.cpu, &self.gpu].into_iter().flatten().any(|portion| portion.part != portion.share)
    }
}

/// What CPU and GPU compute of each of `stages`.
pub(super) fn portions(stages: &[Stage], plan: &Plan) -> Result<Vec<Portions>, ExecuteError> {
    check_chains(stages, plan)?;
    let cuts = cuts(stages, plan);
    let parts = stages.iter().zip(&plan.placements).zip(cuts);
    parts.map(|((stage, placement), cut)| of_operator(&stage.layer.operator, placement, cut)).collect()
}

/// What CPU and GPU compute of `operator`, of which `cut` says the parts where it is cut.
fn of_operator(
    operator: &Operator,
    placement: &Placement,
    cut: Option<Cut>,
) -> Result<Portions, ExecuteError> {
    let whole = || Some(Portion::whole(operator));
    match placement {
        Placement::Cpu(_) => Ok(Portions { cpu: whole(), gpu: None }),
        Placement::Gpu => Ok(Portions { cpu: None, gpu: whole() }),
        Placement::Split { .. } | Placement::HeightSplit { .. } => match cut {
            Some(cut) if cut.axis.extent(operator) == Some(cut.all) => of_cut(operator, placement, &cut),
            _ => Err(ExecuteError::CannotCut { operator: operator.to_string() }),
        },
        Placement::Npu | Placement::Accelerators(_) => {
            Err(ExecuteError::NoNpu { operator: operator.to_string() })
        }
    }
}

/// The parts of a cut operator, and the shares that its placement gives.
fn of_cut(operator: &Operator, placement: &Placement, cut: &Cut) -> Result<Portions, ExecuteError> {
    let shares = Cut::of(placement).map_or_else(|| cut.parts.clone(), |cut| cut.parts);
    let channels = shares[0].end;
    if cut.axis == Axis::Channels && !channels.is_multiple_of(CHANNELS_PER_SLICE) {
        return Err(ExecuteError::CutSlice { operator: operator.to_string(), channels });
    }
    let of = |range: &Range<u32>| match cut.axis {
        Axis::Channels => Part::of_channels(operator, range.clone()),
        Axis::Height => Part::of_lines(operator, range.clone()),
    };
    let portion = |which: usize| Portion { part: of(&cut.parts[which]), share: of(&shares[which]) };
    Ok(Portions { cpu: Some(portion(0)), gpu: Some(portion(1)) })
}
