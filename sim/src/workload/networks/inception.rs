//! Inception-v3 (Szegedy et al., CVPR'16) without the auxiliary classifier,
//! which inference does not run. Block letters are those of the common
//! implementations: A and C keep the extent, B and D halve it, E is the widest.

use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source, Window};
use crate::workload::operator::PoolKind;
use crate::workload::shape::{DataType, Shape};

const POINT: Window = Window::same(1);
const ROW: Window = Window::same_rectangle(1, 7);
const COLUMN: Window = Window::same_rectangle(7, 1);

pub(super) fn v3() -> Graph {
    let mut net = GraphBuilder::new("inception-v3", DataType::F32);
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
        x = block_c(&mut net, x, channels);
    }
    net.scope("7a");
    x = block_d(&mut net, x);
    for name in ["7b", "7c"] {
        net.scope(name);
        x = block_e(&mut net, x);
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

fn block_c(net: &mut GraphBuilder, x: Source, channels: u32) -> Source {
    let parts = [
        branch(net, x, &[(192, POINT)]),
        branch(net, x, &[(channels, POINT), (channels, ROW), (192, COLUMN)]),
        branch(
            net,
            x,
            &[(channels, POINT), (channels, COLUMN), (channels, ROW), (channels, COLUMN), (192, ROW)],
        ),
        pooled(net, x, 192),
    ];
    net.concat(&parts)
}

fn block_d(net: &mut GraphBuilder, x: Source) -> Source {
    let halving = Window::valid(3).stride(2);
    let parts = [
        branch(net, x, &[(192, POINT), (320, halving)]),
        branch(net, x, &[(192, POINT), (192, ROW), (192, COLUMN), (192, halving)]),
        net.pool(x, PoolKind::Max, halving),
    ];
    net.concat(&parts)
}

fn block_e(net: &mut GraphBuilder, x: Source) -> Source {
    let fork = |net: &mut GraphBuilder, x: Source| {
        [(1, 3), (3, 1)]
            .map(|(height, width)| branch(net, x, &[(384, Window::same_rectangle(height, width))]))
    };
    let point = branch(net, x, &[(320, POINT)]);
    let narrow = branch(net, x, &[(384, POINT)]);
    let [row, column] = fork(net, narrow);
    let deep = branch(net, x, &[(448, POINT), (384, Window::same(3))]);
    let [deep_row, deep_column] = fork(net, deep);
    let pool = pooled(net, x, 192);
    net.concat(&[point, row, column, deep_row, deep_column, pool])
}
