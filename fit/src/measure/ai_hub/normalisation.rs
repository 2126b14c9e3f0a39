//! Normalisation of pictures, which the measured models contain and their graphs lack: AI Hub
//! normalises inside the model that it compiles, and the graphs start after it.

use coexec_sim::workload::{Elementwise, Function, Graph, GraphError, Node, NodeId, Operator, Shape, Source};

/// Models that normalise each channel, by name: AI Hub's code of each calls a function for it or contains it
/// (`qai-hub-models` 0.65, and the graphs of `data/aihub`). The others take pictures as they are, scale all channels
/// alike, have the normalisation folded into their weights, or read no pictures.
const NORMALISED: &str = include_str!("normalisation/normalised.txt");

/// Channels of a picture.
const CHANNELS: u32 = 3;

/// The graph with an addition (of the mean) and a multiplication (by the deviation) for each picture
/// that it reads, if the model of that name normalises.
///
/// # Errors
/// The graph would exceed the maximum size.
pub(super) fn with_normalisation(name: &str, graph: Graph) -> Result<Graph, GraphError> {
    // A part of a model is named after the model and two underscores.
    let model = name.split_once("__").map_or(name, |(model, _)| model);
    if !NORMALISED.lines().any(|normalised| normalised == model) {
        return Ok(graph);
    }
    let is_picture =
        |shape: &Shape| (shape.batch, shape.channels) == (1, CHANNELS) && shape.height > 1 && shape.width > 1;
    let pictures: Vec<(usize, Shape)> =
        graph.inputs().iter().copied().enumerate().filter(|(_, shape)| is_picture(shape)).collect();
    let mut inputs = graph.inputs().to_vec();
    let mut nodes: Vec<Node> = Vec::with_capacity(graph.nodes().len() + 2 * pictures.len());
    let mut normalised = vec![None; inputs.len()];
    for (picture, shape) in pictures {
        let mut source = Source::Input(picture as u32);
        for (what, function) in [("mean", Function::Add), ("deviation", Function::Multiply)] {
            let other = Shape::image(1, 1, CHANNELS);
            inputs.push(other);
            let operator = Operator::Elementwise(Elementwise { function, input: shape, other: Some(other) });
            let values = Source::Input(inputs.len() as u32 - 1);
            nodes.push(Node {
                name: format!("{what} of input {picture}"),
                operator,
                inputs: vec![source, values],
                data_type: None,
                shares_weights: false,
            });
            source = Source::Node(NodeId(nodes.len() as u32 - 1));
        }
        normalised[picture] = Some(source);
    }
    let before = nodes.len() as u32;
    nodes.extend(graph.nodes().iter().cloned().map(|node| {
        let moved = |source: &Source| match *source {
            Source::Input(input) => normalised[input as usize].unwrap_or(Source::Input(input)),
            Source::Node(id) => Source::Node(NodeId(id.0 + before)),
        };
        Node { inputs: node.inputs.iter().map(moved).collect(), ..node }
    }));
    Graph::new(graph.name(), graph.data_type(), inputs, nodes)
}
