//! The source of a kernel, and the options that specialise it for a layer.

use std::fmt::Write;

use coexec_sim::workload::{DataType, Elementwise, Layout};

/// Common prelude of the kernels on tensors.
const COMMON: &str = include_str!("kernels/common.cl");

/// The `OpenCL` C standard that all devices support.
const STANDARD: &str = "-cl-std=CL1.2";

/// A kernel file with its definitions and options: the key under which a built program is cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub(super) name: &'static str,
    body: &'static str,
    /// Definitions of more than one word, put before the body.
    definitions: String,
    pub(super) options: String,
}

impl Source {
    /// The kernels of a file that needs no definitions.
    pub(crate) fn new(name: &'static str, body: &'static str) -> Self {
        let options = format!("{STANDARD} -cl-mad-enable");
        Self { name, body, definitions: String::new(), options }
    }

    /// Compiles with another `standard` of `OpenCL` C, and with `definitions` before everything
    /// else.
    pub(super) fn need(&mut self, standard: &str, definitions: &str) {
        self.options = self.options.replace(STANDARD, &format!("-cl-std={standard}"));
        self.definitions.insert_str(0, definitions);
    }

    /// The kernels of a file, preceded by the prelude of kernels on tensors.
    pub(super) fn of_tensors(
        name: &'static str,
        body: &'static str,
        data_type: DataType,
        layout: Layout,
    ) -> Self {
        let mut source = Self { definitions: COMMON.to_owned(), ..Self::new(name, body) };
        source.option(layout_option(layout));
        if data_type == DataType::F16 {
            source.option("HALF");
        }
        source
    }

    /// Makes the kernels write in `layout`.
    pub(super) fn result(&mut self, layout: Layout) {
        self.option(&format!("{}_RESULT", layout_option(layout)));
    }

    /// Defines the flag `name`.
    pub(super) fn option(&mut self, name: &str) {
        self.options.push_str(" -D");
        self.options.push_str(name);
    }

    /// Defines `name` as a number.
    pub(super) fn number(&mut self, name: &str, value: u32) {
        // Writing to a string cannot fail.
        let _ = write!(self.options, " -D{name}={value}");
    }

    /// Defines `name` as a line of text.
    pub(super) fn define(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.definitions, "#define {name} {text}");
    }

    /// With `declared`, declares the kernels' work-group size to the compiler. Otherwise a compiler
    /// may give each thread more registers than a group of that size has.
    pub(super) fn work_group(&mut self, [x, y, z]: [u32; 3], declared: bool) {
        let attribute = if declared {
            format!("__attribute__((reqd_work_group_size({x}, {y}, {z})))")
        } else {
            String::new()
        };
        self.define("WORK_GROUP", &attribute);
    }

    /// Defines the linked functions that run after the operator, in order. Each binary function gets an operand.
    /// With `rows_of_images`, the images of a tensor are stored as rows of one.
    pub(super) fn link(&mut self, functions: &[Elementwise], rows_of_images: bool) {
        let mut arguments = String::new();
        let mut statements = String::new();
        let mut operands = 0;
        for elementwise in functions {
            let function = elementwise.function;
            if function.is_binary() {
                let (tensor, extent) = (format!("operand_{operands}"), format!("operand_extent_{operands}"));
                let read = read_operand(elementwise, &tensor, &extent, rows_of_images);
                // Writing to a string cannot fail.
                let _ = write!(arguments, ", SOURCE {tensor}, Extent {extent}");
                let _ = write!(statements, "value = function_{function}(value, {read}); ");
                operands += 1;
            } else {
                let _ = write!(statements, "value = function_{function}(value); ");
            }
        }
        self.define("OPERANDS", &arguments);
        self.define("LINKED(value, x, y, slice)", &format!("do {{ {statements}}} while (0)"));
    }

    /// The complete source text.
    pub(super) fn text(&self) -> String {
        format!("{}\n{}", self.definitions, self.body)
    }
}

/// The expression that reads the second operand of a function at `x`, `y` and `slice` of its result.
fn read_operand(function: &Elementwise, tensor: &str, extent: &str, rows_of_images: bool) -> String {
    let (first, operand) = (function.input, function.second_operand());
    let second = operand.beside(first);
    if operand.is_whole() {
        return format!("READ({tensor}, {extent}, x, y, slice)");
    }
    let [image, column, row] = if rows_of_images {
        let height = first.height;
        [format!("(y) / {height}"), "(x)".to_owned(), format!("(y) % {height}")]
    } else {
        let images = first.batch;
        [format!("(x) % {images}"), format!("(x) / {images}"), "(y)".to_owned()]
    };
    let unless_one = |index: String, extent: u32| if extent == 1 { "0".to_owned() } else { index };
    let image = if second.batch == first.batch { image } else { format!("({image}) % {}", second.batch) };
    let image = unless_one(image, second.batch);
    let (column, row) = (unless_one(column, second.width), unless_one(row, second.height));
    let (x, y) = if rows_of_images {
        (column, format!("({image}) * {} + {row}", second.height))
    } else {
        (format!("({column}) * {} + {image}", second.batch), row)
    };
    if operand.is_per_pixel(first) {
        format!("(Number4)(component(READ({tensor}, {extent}, {x}, {y}, 0), 0))")
    } else {
        format!("READ({tensor}, {extent}, {x}, {y}, slice)")
    }
}

/// The option of kernels that read `layout`.
fn layout_option(layout: Layout) -> &'static str {
    match layout {
        Layout::Image => "IMAGE",
        Layout::SlicedBuffer => "SLICED",
        Layout::Buffer => "PLAIN",
    }
}

#[cfg(test)]
mod tests {
    use coexec_sim::workload::{Function, Linked, Shape};

    use super::*;

    #[test]
    fn linked_functions_run_in_order_and_read_their_own_operands() {
        let mut source = Source::new("test", "");
        let linked = [Function::Add, Function::Relu, Function::Multiply].into_iter().collect::<Linked>();
        source.link(&linked.operators(Shape::image(4, 4, 8)).collect::<Vec<_>>(), false);
        let text = source.text();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        assert!(at("function_add(value, READ(operand_0") < at("function_relu(value)"));
        assert!(at("function_relu(value)") < at("function_multiply(value, READ(operand_1"));
        assert!(text.contains(", SOURCE operand_0, Extent operand_extent_0, SOURCE operand_1"));
    }

    #[test]
    fn a_layer_without_linked_functions_has_no_operands() {
        let mut source = Source::new("test", "");
        source.link(&[], false);
        assert!(source.text().contains("#define OPERANDS \n"));
    }
}
