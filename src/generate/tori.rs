//! Tori and meshes (thesis section 3.2.1).

use super::builder::Net;
use super::spec::Words;
use crate::model::Shape;

/// `torus:10x10x10,hosts=4` or `mesh:…`: cables of the first dimension get the lowest ports, as
/// OpenSM's dor expects. A torus dimension of size 2 has one cable, like a mesh.
pub(super) fn grid(words: &mut Words, wrap: bool) -> Result<Net, String> {
    let [sizes] = words.plain.as_slice() else { return Err("wants sizes such as 8x8x8".into()) };
    let sizes = Words::sizes(sizes)?;
    let hosts = words.take("hosts", 1)?;
    let switches = sizes.iter().try_fold(1usize, |n, s| n.checked_mul(*s)).filter(|n| *n <= 49_000);
    let switches = switches.ok_or("more than 49000 switches")?;
    let mut net = Net::new(switches);
    (0..switches).for_each(|s| net.hosts(s, hosts));
    let mut stride = switches;
    for size in &sizes {
        // The first dimension varies slowest.
        stride /= size;
        for s in 0..switches {
            let at = s / stride % size;
            if at + 1 < *size {
                net.cable(s, s + stride);
            } else if wrap && *size > 2 {
                net.cable(s, s - at * stride);
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
