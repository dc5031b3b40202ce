//! Dragonflies (thesis section 3.2.4): Kim's with all-to-all groups, and Cray's Cascade.

use super::builder::Net;
use super::spec::{Refusal, Words};

/// `dragonfly:a,p,h,g`: g groups of a switches, all to all inside a group; p hosts and at most h
/// cables to other groups per switch. Each pair of groups has as many cables as the ports allow
/// evenly, ⌊a·h / (g − 1)⌋: with that, the counts of Tables 4.2 and 6.1 come out.
pub(super) fn dragonfly(words: &mut Words) -> Result<Net, Refusal> {
    let [size, hosts, global, groups] = words.numbers("A,P,H,G")?;
    let ports = size.checked_mul(global).ok_or("too many cables between groups")?;
    if groups > ports.saturating_add(1) {
        return Err(
            format!("{size} switches with {global} cables each reach at most {ports} other groups").into()
        );
    }
    let mut net = words.net(size.checked_mul(groups).ok_or("too many switches")?)?;
    for s in 0..size * groups {
        net.hosts(s, hosts)?;
    }
    for s in 0..size * groups {
        for other in s + 1..(s / size + 1) * size {
            net.cable(s, other)?;
        }
    }
    let pair = ports.checked_div(groups - 1).unwrap_or(0);
    between_groups(&mut net, groups, size, pair)?;
    Ok(net)
}

/// `cascade:groups[,hosts=8][,global=N]`: groups of 16 × 6 switches, all to all along both axes:
/// one cable along x, three along y, which gives the 3,072 cables that Table 6.1 counts for two
/// groups. N cables between each pair of groups: unless given, as many bundles of four as ten
/// ports per switch allow, at most 192 (Table 6.1). Table 6.1 has eight hosts per switch.
pub(super) fn cascade(words: &mut Words) -> Result<Net, Refusal> {
    const WIDTH: usize = 16;
    const SIZE: usize = WIDTH * 6;
    const GLOBAL_PORTS: usize = 10 * SIZE;
    let [groups] = words.numbers("GROUPS")?;
    let hosts = words.take("hosts", 8)?;
    let others = groups - 1;
    let most = GLOBAL_PORTS.checked_div(others).unwrap_or(0);
    let pair = words.take("global", (most / 4 * 4).min(192))?;
    if others > 0 && (pair == 0 || pair > most) {
        return Err(format!(
            "{GLOBAL_PORTS} ports between {groups} groups give each pair 1 to {most} cables"
        )
        .into());
    }
    let mut net = words.net(SIZE * groups)?;
    for s in 0..SIZE * groups {
        net.hosts(s, hosts)?;
    }
    for s in 0..SIZE * groups {
        let (group, x, y) = (s / SIZE, s % SIZE % WIDTH, s % SIZE / WIDTH);
        for other in x + 1..WIDTH {
            net.cable(s, group * SIZE + y * WIDTH + other)?;
        }
        for other in y + 1..SIZE / WIDTH {
            for _ in 0..3 {
                net.cable(s, group * SIZE + other * WIDTH + x)?;
            }
        }
    }
    between_groups(&mut net, groups, SIZE, pair)?;
    Ok(net)
}

/// `pair` cables between each two groups. Seen from a group, the cables to the next group come
/// first, then those to the one after it, and so on; they go round its switches in turn.
fn between_groups(net: &mut Net, groups: usize, size: usize, pair: usize) -> Result<(), Refusal> {
    for a in 0..groups {
        for b in a + 1..groups {
            for cable in 0..pair {
                let from = (b - a - 1) * pair + cable;
                let to = (groups - (b - a) - 1) * pair + cable;
                net.cable(a * size + from % size, b * size + to % size)?;
            }
        }
    }
    Ok(())
}
