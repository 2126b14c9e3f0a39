//! Inception-v3 (Szegedy et al., CVPR'16) without the auxiliary classifier,
//! which inference does not run. Block letters are those of the common
//! implementations: A and C keep the extent, B and D halve it, E is the widest.
//!
//! The network has a row window and a column window where others have a square one. A
//! framework that knows square windows only runs it with those; so does, going by its
//! times, EPEW'25.

use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{PoolKind, Window};
use crate::workload::shape::{DataType, Shape};

const POINT: Window = Window::same(1);
const ROW: Window = Window::same_rectangle(1, 7);
const COLUMN: Window = Window::same_rectangle(7, 1);

/// Windows where the network factorises a square into a row and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Windows {
    /// As it is defined.
    Factorised,
    /// One square in place of each row and column.
    Square,
}

impl Windows {
    /// A 7x7 window of `after` channels: two convolutions in the order of `halves`, with
    /// `between` channels, or one.
    fn seven(self, between: u32, after: u32, halves: [Window; 2]) -> Vec<(u32, Window)> {
        match self {
            Self::Factorised => vec![(between, halves[0]), (after, halves[1])],
            Self::Square => vec![(after, Window::same(7))],
        }
    }

    /// The two windows side by side that stand for a 3x3 one.
    fn three(self) -> [Window; 2] {
        match self {
            Self::Factorised => [Window::same_rectangle(1, 3), Window::same_rectangle(3, 1)],
            Self::Square => [Window::same(3); 2],
        }
    }
}

pub(super) fn v3() -> Graph {
    build("inception-v3", Windows::Factorised)
}

pub(super) fn v3_square() -> Graph {
    build("inception-v3-square", Windows::Square)
}

fn build(name: &str, windows: Windows) -> Graph {
    let mut net = GraphBuilder::new(name, DataType::F32);
    let mut x = net.input(Shape::image(299, 299, 3));
    net.scope("stem");
    x = branch(
        &mut net,
        x,
        &[(32, Window::valid(3).stride(2)), (32, Window::valid(3)), (64, Window::same(3))],
    );
    x = net.pool(x, PoolKind::Max, Window::valid(3).stride(2));
    x = branch(&mut net, x, &[(80, POINT), (192, Window::valid(3))]);
    x = net.pool(x, PoolKind::Max, Window::valid(3).stride(2));
    for (name, pool_channels) in [("5b", 32), ("5c", 64), ("5d", 64)] {
        net.scope(name);
        x = block_a(&mut net, x, pool_channels);
    }
    net.scope("6a");
    x = block_b(&mut net, x);
    for (name, channels) in [("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)] {
        net.scope(name);
        x = block_c(&mut net, x, channels, windows);
    }
    net.scope("7a");
    x = block_d(&mut net, x, windows);
    for name in ["7b", "7c"] {
        net.scope(name);
        x = block_e(&mut net, x, windows);
    }
    net.scope("classifier");
    x = net.mean(x);
    net.linear(x, 1000);
    finish(net)
}

/// Convolutions in a row, each with its batch norm and rectifier.
fn branch(net: &mut GraphBuilder, x: Source, layers: &[(u32, Window)]) -> Source {
    layers.iter().fold(x, |x, &(channels, window)| net.conv_norm_relu(x, channels, window))
}

/// The pooling branch of the blocks that keep the extent.
fn pooled(net: &mut GraphBuilder, x: Source, channels: u32) -> Source {
    let mean = net.pool(x, PoolKind::Average, Window::same(3));
    branch(net, mean, &[(channels, POINT)])
}

fn block_a(net: &mut GraphBuilder, x: Source, pool_channels: u32) -> Source {
    let parts = [
        branch(net, x, &[(64, POINT)]),
        branch(net, x, &[(48, POINT), (64, Window::same(5))]),
        branch(net, x, &[(64, POINT), (96, Window::same(3)), (96, Window::same(3))]),
        pooled(net, x, pool_channels),
    ];
    net.concat(&parts)
}

fn block_b(net: &mut GraphBuilder, x: Source) -> Source {
    let halving = Window::valid(3).stride(2);
    let parts = [
        branch(net, x, &[(384, halving)]),
        branch(net, x, &[(64, POINT), (96, Window::same(3)), (96, halving)]),
        net.pool(x, PoolKind::Max, halving),
    ];
    net.concat(&parts)
}

fn block_c(net: &mut GraphBuilder, x: Source, channels: u32, windows: Windows) -> Source {
    let point = [(channels, POINT)];
    let once = windows.seven(channels, 192, [ROW, COLUMN]);
    let twice =
        [windows.seven(channels, channels, [COLUMN, ROW]), windows.seven(channels, 192, [COLUMN, ROW])]
            .concat();
    let parts = [
        branch(net, x, &[(192, POINT)]),
        branch(net, x, &[&point[..], &once].concat()),
        branch(net, x, &[&point[..], &twice].concat()),
        pooled(net, x, 192),
    ];
    net.concat(&parts)
}

fn block_d(net: &mut GraphBuilder, x: Source, windows: Windows) -> Source {
    let halving = Window::valid(3).stride(2);
    let seven = windows.seven(192, 192, [ROW, COLUMN]);
    let parts = [
        branch(net, x, &[(192, POINT), (320, halving)]),
        branch(net, x, &[&[(192, POINT)], &seven[..], &[(192, halving)]].concat()),
        net.pool(x, PoolKind::Max, halving),
    ];
    net.concat(&parts)
}

fn block_e(net: &mut GraphBuilder, x: Source, windows: Windows) -> Source {
    let fork =
        |net: &mut GraphBuilder, x: Source| windows.three().map(|window| branch(net, x, &[(384, window)]));
    let point = branch(net, x, &[(320, POINT)]);
    let narrow = branch(net, x, &[(384, POINT)]);
    let [row, column] = fork(net, narrow);
    let deep = branch(net, x, &[(448, POINT), (384, Window::same(3))]);
    let [deep_row, deep_column] = fork(net, deep);
    let pool = pooled(net, x, 192);
    net.concat(&[point, row, column, deep_row, deep_column, pool])
}
