//! Tori, meshes (thesis section 3.2.1) and HyperX.

use super::builder::Net;
use super::spec::{Refusal, Words};
use crate::model::Shape;

/// `torus:10x10x10,hosts=4` or `mesh:…`: cables of the first dimension get the lowest ports, as
/// OpenSM's dor expects. A torus dimension of size 2 has one cable, like a mesh.
pub(super) fn grid(words: &mut Words, wrap: bool) -> Result<Net, Refusal> {
    let (sizes, switches, mut net) = lattice(words)?;
    let mut stride = switches;
    for size in &sizes {
        // The first dimension varies slowest.
        stride /= size;
        for s in 0..switches {
            let at = s / stride % size;
            if at + 1 < *size {
                net.cable(s, s + stride)?;
            } else if wrap && *size > 2 {
                net.cable(s, s - at * stride)?;
            }
        }
    }
    net.shape(Shape::Grid {
        wrap: sizes.iter().map(|s| wrap && *s > 2).collect(),
        coords: coords(&sizes, switches),
        sizes: sizes.iter().map(|s| *s as u16).collect(),
    });
    Ok(net)
}

/// `hyperx:4x4x4,hosts=4`: a torus in which the switches of a line are cabled all to all (Ahn et
/// al. 2009, a Hamming graph). Switch order and port order as for a torus.
pub(super) fn hyperx(words: &mut Words) -> Result<Net, Refusal> {
    let (sizes, switches, mut net) = lattice(words)?;
    let mut stride = switches;
    for size in &sizes {
        stride /= size;
        for s in 0..switches {
            for further in 1..size - s / stride % size {
                net.cable(s, s + further * stride)?;
            }
        }
    }
    Ok(net)
}

/// The only positional word as sizes, the number of switches, and these with their hosts.
fn lattice(words: &mut Words) -> Result<(Vec<usize>, usize, Net), Refusal> {
    let [sizes] = words.plain.as_slice() else { return Err("wants sizes such as 8x8x8".into()) };
    let sizes = Words::sizes(sizes)?;
    let switches = sizes.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
    let switches = switches.filter(|n| *n <= MOST_SWITCHES);
    let switches = switches.ok_or_else(|| format!("more than {MOST_SWITCHES} switches"))?;
    let hosts = words.take("hosts", 1)?;
    let mut net = words.net(switches)?;
    (0..switches).try_for_each(|s| net.hosts(s, hosts))?;
    Ok((sizes, switches, net))
}

const MOST_SWITCHES: usize = 49_000;

fn coords(sizes: &[usize], switches: usize) -> Vec<u16> {
    let mut coords = Vec::with_capacity(switches * sizes.len());
    for s in 0..switches {
        let mut stride = switches;
        for size in sizes {
            stride /= size;
            coords.push((s / stride % size) as u16);
        }
    }
    coords
}
