//! The specification of a device, asked for on the terminal.
//!
//! Responsible for: the questions and which of them an answer makes superfluous. Not for: what the answers mean
//! (`coexec_fit::specification`). Invariant: the answers are those that options would give, so the profile names the
//! command that makes it again.

use std::io::{BufRead, Write};

use crate::cli::NewProfile;

/// Asks for the options that are not given; `None` if every answer is empty.
pub(super) fn ask(
    options: &NewProfile,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> std::io::Result<Option<NewProfile>> {
    let mut answer = |question: &str| -> std::io::Result<Option<String>> {
        write!(output, "{question}: ")?;
        output.flush()?;
        let mut line = String::new();
        input.read_line(&mut line)?;
        Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
    };
    let soc = answer("phone or system-on-chip (empty: name its parts instead)")?;
    let [mut cpu, mut gpu, mut memory, mut npu] = [const { None }; 4];
    if soc.is_none() {
        cpu = answer("clusters of cores, fastest first, such as 1xX4@3.4,5xA720@3.15,2xA520@2.27 (GHz)")?;
        if cpu.is_none() {
            return Ok(None);
        }
        memory = answer("memory, such as lpddr5x-4800x64 (clock in MHz x bits)")?;
        gpu = answer("GPU, such as adreno-750@903 (MHz), or none")?;
        npu = answer("NPU, by its name in data/socs/npus.csv, or none (empty: unknown)")?;
    }
    let file = format!("profile to write (empty: {})", options.out.display());
    let out = answer(&file)?.map_or_else(|| options.out.clone(), Into::into);
    Ok(Some(NewProfile { soc, cpu, gpu, memory, npu, without: options.without.clone(), out }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: NewProfile,
    }

    fn asked(answers: &str) -> (Option<NewProfile>, String) {
        let mut questions = Vec::new();
        let Command { options } = Command::parse_from(["new"]);
        let found = ask(&options, &mut answers.as_bytes(), &mut questions).unwrap();
        (found, String::from_utf8(questions).unwrap())
    }

    #[test]
    fn a_system_on_chip_makes_questions_about_parts_superfluous() {
        let (found, questions) = asked("Pixel 9\n\n");
        let found = found.unwrap();
        assert_eq!((found.soc.as_deref(), found.cpu), (Some("Pixel 9"), None));
        assert_eq!(found.out.to_str(), Some("my-phone.toml"));
        assert!(!questions.contains("memory"), "{questions}");
    }

    #[test]
    fn parts_are_asked_for_one_by_one() {
        let (found, questions) = asked("\n1xX4@3.4\nlpddr5x-4800x64\nnone\n\nmine.toml\n");
        let NewProfile { soc, cpu, gpu, memory, npu, out, .. } = found.unwrap();
        let given = [soc, cpu, memory, gpu, npu].map(Option::unwrap_or_default);
        assert_eq!(given, ["", "1xX4@3.4", "lpddr5x-4800x64", "none", ""]);
        assert_eq!((out.to_str(), questions.matches(": ").count()), (Some("mine.toml"), 9));
    }

    #[test]
    fn no_answer_asks_for_nothing_more() {
        assert!(asked("").0.is_none());
    }
}
