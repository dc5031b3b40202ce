//! Graphs: Kautz graphs (thesis section 3.2.3) and random ones.

use super::builder::Net;
use super::spec::{Refusal, Words};
use crate::model::rng::Rng;

/// `random:125,1000,1000,seed=1`: switches, hosts, cables (thesis section 3.2.5). Hosts are spread
/// evenly; a ring keeps the fabric connected (a line, if there is one cable too few), the other
/// cables join random pairs (parallel cables may occur).
pub(super) fn random(words: &mut Words) -> Result<Net, Refusal> {
    let [switches, hosts, cables] = words.numbers("SWITCHES,HOSTS,CABLES")?;
    let mut rng = Rng::new(words.seed);
    if switches < 2 || cables < switches - 1 {
        return Err("wants at least two switches and a cable fewer than there are switches".into());
    }
    let mut net = words.net(switches)?;
    (0..switches).try_for_each(|s| net.hosts(s, hosts / switches + usize::from(s < hosts % switches)))?;
    // Two switches make a line.
    let ring = cables.min(if switches > 2 { switches } else { 1 });
    (0..ring).try_for_each(|s| net.cable(s, (s + 1) % switches))?;
    for _ in ring..cables {
        let a = rng.below(switches);
        let b = (a + 1 + rng.below(switches - 1)) % switches;
        net.cable(a, b)?;
    }
    Ok(net)
}

/// `kautz:d,n[,hosts=1]`: a switch for each word of n letters out of d + 1 in which neighbours
/// differ, and a cable from each a_1 .. a_n to each a_2 .. a_n b (Equations 3.4 and 3.5). Where
/// two words lead to each other the two cables are parallel, so there are d for each switch.
pub(super) fn kautz(words: &mut Words) -> Result<Net, Refusal> {
    let [degree, length] = words.numbers("DEGREE,LENGTH")?;
    let hosts = words.take("hosts", 1)?;
    let count = u32::try_from(length - 1).ok().and_then(|e| degree.checked_pow(e));
    let count = count.and_then(|c| c.checked_mul(degree.checked_add(1)?)).ok_or("too many switches")?;
    let mut net = words.net(count)?;
    (0..count).try_for_each(|s| net.hosts(s, hosts))?;
    // Number of a word: its first letter, then for each next one its rank among the d letters
    // that differ from the one before.
    let tail = count / (degree + 1);
    for s in 0..count {
        let mut letters = vec![s / tail];
        let mut rest = tail;
        while rest > 1 {
            let rank = s % rest / (rest / degree);
            letters.push(rank + usize::from(rank >= letters[letters.len() - 1]));
            rest /= degree;
        }
        for last in (0..=degree).filter(|b| Some(b) != letters.last()) {
            let word: Vec<usize> = letters[1..].iter().copied().chain([last]).collect();
            let ranks = word.windows(2).map(|w| w[1] - usize::from(w[1] > w[0]));
            net.cable(s, ranks.fold(word[0], |n, rank| n * degree + rank))?;
        }
    }
    Ok(net)
}

/// `regular:switches,degree[,hosts=1][,seed=1]`: a random regular graph without parallel cables
/// (Jellyfish; Polarized paper), hosts per switch. Ends are paired at random; pairs that may not
/// be are exchanged with others until none is left.
pub(super) fn regular(words: &mut Words) -> Result<Net, Refusal> {
    const TRIES: usize = 200;
    let [switches, degree] = words.numbers("SWITCHES,DEGREE")?;
    let hosts = words.take("hosts", 1)?;
    if degree >= switches || (switches * degree) % 2 == 1 {
        return Err("wants a degree below the number of switches, one of both even".into());
    }
    let mut rng = Rng::new(words.seed);
    for _ in 0..TRIES {
        let Some(pairs) = pairing(switches, degree, &mut rng) else { continue };
        if !is_connected(switches, &pairs) {
            continue;
        }
        let mut net = words.net(switches)?;
        (0..switches).try_for_each(|s| net.hosts(s, hosts))?;
        pairs.iter().try_for_each(|(a, b)| net.cable(*a, *b))?;
        return Ok(net);
    }
    Err("found no connected graph of that degree".into())
}

/// Pairs of switches, each switch `degree` times, no pair twice; `None` if exchanges do not help.
fn pairing(switches: usize, degree: usize, rng: &mut Rng) -> Option<Vec<(usize, usize)>> {
    let mut ends: Vec<usize> = (0..switches).flat_map(|s| std::iter::repeat_n(s, degree)).collect();
    rng.shuffle(&mut ends);
    let mut joined = std::collections::BTreeSet::new();
    let order = |a: usize, b: usize| (a.min(b), a.max(b));
    let mut open: Vec<(usize, usize)> = Vec::new();
    for p in ends.chunks_exact(2) {
        if p[0] == p[1] || !joined.insert(order(p[0], p[1])) {
            open.push((p[0], p[1]));
        }
    }
    let mut good: Vec<(usize, usize)> = joined.iter().copied().collect();
    for (a, b) in open {
        let fits = (0..1000).find_map(|_| {
            let i = rng.below(good.len());
            let (c, d) = if rng.below(2) == 0 { good[i] } else { (good[i].1, good[i].0) };
            let free = a != c && b != d && !joined.contains(&order(a, c)) && !joined.contains(&order(b, d));
            // Of two copies of a pair, both could be made here.
            (free && order(a, c) != order(b, d)).then_some((i, c, d))
        });
        let (i, c, d) = fits?;
        joined.remove(&order(c, d));
        joined.extend([order(a, c), order(b, d)]);
        good[i] = order(a, c);
        good.push(order(b, d));
    }
    Some(good)
}

fn is_connected(switches: usize, pairs: &[(usize, usize)]) -> bool {
    let mut near = vec![Vec::new(); switches];
    for (a, b) in pairs {
        near[*a].push(*b);
        near[*b].push(*a);
    }
    let mut seen = vec![false; switches];
    let mut stack = vec![0];
    while let Some(s) = stack.pop() {
        if !std::mem::replace(&mut seen[s], true) {
            stack.extend(&near[s]);
        }
    }
    seen.iter().all(|s| *s)
}
