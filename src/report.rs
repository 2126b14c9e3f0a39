use crate::cli::{Common, Report};
use crate::failure::Failure;
pub(crate) fn run(_o: &Report, _c: &Common) -> Result<(), Failure> {
    Ok(())
}
