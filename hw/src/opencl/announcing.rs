//! Kernels that tell the host of their end themselves.
//!
//! Responsible for: turning any kernel into one whose last-finishing group sets a flag
//! (EPEW'25, section 4). A kernel of its own behind it would cost a launch first. Not for:
//! the flags (`super::signals`). Invariant: every thread reaches the end, where the group
//! counts itself, whichever way it leaves the computation.

/// Where threads go that leave the computation.
const END: &str = "announce";

/// `body` with more parameters and another end of its kernel `entry`, as `kernels/flags.cl`
/// defines both; as it is where it has no such kernel.
pub(super) fn announcing(body: &str, entry: &str) -> String {
    let Some(parameters) = body.find(&format!("void {entry}(")) else { return body.to_owned() };
    let Some(close) = closing(body, parameters, ['(', ')']) else { return body.to_owned() };
    let Some(end) = closing(body, close, ['{', '}']) else { return body.to_owned() };
    let computation = body[close..end].replace("return;", &format!("goto {END};"));
    // Where nobody leaves early, nobody goes to the label.
    let label = if computation.contains(END) { format!("{END}:;\n") } else { String::new() };
    format!("{} ANNOUNCE_PARAMETERS{computation}{label}  ANNOUNCE\n{}", &body[..close], &body[end..])
}

/// Where the first bracket that `open`s behind `from` is closed.
fn closing(text: &str, from: usize, [open, close]: [char; 2]) -> Option<usize> {
    let mut depth = 0;
    for (place, character) in text[from..].char_indices() {
        if character == open {
            depth += 1;
        } else if character == close {
            depth -= 1;
            if depth == 0 {
                return Some(from + place);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "float twice(float x) { return 2 * x; }\n\
        __kernel void other(int n) { if (n) return; }\n\
        __kernel __attribute__((reqd_work_group_size(4, 1, 1)))\nvoid conv(int a, float (*b)[4] OPERANDS) {\n\
          if (a < 0) return;\n  for (;;) { if (a) return; }\n}\nint more;\n";

    #[test]
    fn every_way_out_of_the_kernel_leads_past_the_announcement() {
        let text = announcing(BODY, "conv");
        assert!(text.contains("float (*b)[4] OPERANDS ANNOUNCE_PARAMETERS) {"), "{text}");
        assert_eq!(text.matches("goto announce;").count(), 2, "{text}");
        assert!(text.contains("announce:;\n  ANNOUNCE\n}\nint more;"), "{text}");
        assert!(text.contains("other(int n) { if (n) return; }"), "other kernels stay as they are: {text}");
    }

    #[test]
    fn a_kernel_with_one_way_out_needs_no_label() {
        let text = announcing("__kernel void busy(uint n) { n++; }", "busy");
        assert_eq!(text, "__kernel void busy(uint n ANNOUNCE_PARAMETERS) { n++;   ANNOUNCE\n}");
        assert_eq!(announcing("no kernel", "busy"), "no kernel");
    }
}
