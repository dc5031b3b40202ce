//! Trees (thesis section 3.2.2): two-level fat trees, k-ary n-trees, extended generalized fat trees, rails.

use super::builder::Net;
use super::spec::{Refusal, Words};

/// `fattree:10x18,5`: leaves × hosts, spines; as many uplinks as hosts per leaf, spread
/// round-robin over the spines, rotated by one per leaf.
pub(super) fn fattree(words: &mut Words) -> Result<Net, Refusal> {
    let [first, spines] = words.plain.as_slice() else {
        return Err("wants LEAVESxHOSTS,SPINES".into());
    };
    let (sizes, spines) = (Words::sizes(first)?, Words::sizes(spines)?);
    let ([leaves, hosts], [spines]) = (sizes.as_slice(), spines.as_slice()) else {
        return Err("wants LEAVESxHOSTS,SPINES".into());
    };
    let switches = leaves.checked_add(*spines).ok_or("too many switches")?;
    let mut net = words.net(switches)?;
    for leaf in 0..*leaves {
        net.hosts(leaf, *hosts)?;
        for up in 0..*hosts {
            net.cable(leaf, leaves + (up + leaf) % spines)?;
        }
    }
    Ok(net)
}

/// `kary:10,3[,hosts=11]`: k-ary n-tree (thesis section 3.2.2): n levels of k^(n-1) switches,
/// `hosts` per leaf (k unless given). Level 0, the leaves, comes first.
pub(super) fn kary(words: &mut Words) -> Result<Net, Refusal> {
    let [k, n] = words.numbers("K,N")?;
    let hosts = words.take("hosts", k)?;
    let width = u32::try_from(n - 1).ok().and_then(|e| k.checked_pow(e));
    let width = width.filter(|w| w.checked_mul(n).is_some()).ok_or("too many switches")?;
    let mut net = words.net(width * n)?;
    (0..width).try_for_each(|leaf| net.hosts(leaf, hosts))?;
    // A switch <w, l> is cabled to <w', l+1> where w and w' differ at most in digit l.
    let mut digit = 1;
    for level in 0..n.saturating_sub(1) {
        for w in 0..width {
            let without = w - (w / digit % k) * digit;
            for up in 0..k {
                net.cable(level * width + w, (level + 1) * width + without + up * digit)?;
            }
        }
        digit *= k;
    }
    Ok(net)
}

/// `xgft:h;m1,..,mh;w1,..,wh[,hosts=..]`: an extended generalized fat tree of height h (Öhring et
/// al. 1995). A switch of level l has m_l switches below and w_(l+1) above it; level 0, the
/// leaves, comes first. `hosts` per leaf: w_1 unless given, which balances the lowest level.
pub(super) fn xgft(words: &mut Words) -> Result<Net, Refusal> {
    let wanted = "wants H;M1,..,MH;W1,..,WH with numbers of at least 1";
    let text = words.plain.join(",");
    let parts: Vec<&str> = text.split(';').collect();
    let [height, m, w] = parts.as_slice() else { return Err(wanted.into()) };
    let numbers = |list: &str| -> Result<Vec<usize>, String> {
        let parsed: Option<Vec<usize>> = list.split(',').map(|n| n.parse().ok().filter(|n| *n > 0)).collect();
        parsed.ok_or_else(|| wanted.to_string())
    };
    let (m, w) = (numbers(m)?, numbers(w)?);
    if *height != m.len().to_string() || m.len() != w.len() {
        return Err(wanted.into());
    }
    let hosts = words.take("hosts", w[0])?;
    // Switches of level l: product of w_i for i <= l and of m_i for i > l.
    let mut counts = Vec::with_capacity(m.len() + 1);
    for level in 0..=m.len() {
        let mut factors = w[..level].iter().chain(&m[level..]);
        counts.push(factors.try_fold(1usize, |n, f| n.checked_mul(*f)).ok_or("too many switches")?);
    }
    let total = counts.iter().try_fold(0usize, |n, c| n.checked_add(*c)).ok_or("too many switches")?;
    let mut net = words.net(total)?;
    (0..counts[0]).try_for_each(|leaf| net.hosts(leaf, hosts))?;
    // A switch of level l is (b_1 .. b_l, a_(l+1) .. a_h) with b_i < w_i and a_i < m_i, b_1 the
    // lowest digit. It is cabled to those of level l + 1 that differ at most in digit l + 1.
    let (mut below, mut digit) = (0, 1);
    for (level, &count) in counts[..m.len()].iter().enumerate() {
        for s in 0..count {
            let (low, high) = (s % digit, s / digit / m[level]);
            for up in 0..w[level] {
                let parent = low + digit * (up + w[level] * high);
                net.cable(below + s, below + count + parent)?;
            }
        }
        below += count;
        digit *= w[level];
    }
    Ok(net)
}

/// `rails:4x8,8,4[,apart=1]`: units of so many nodes, adapters of each node, spines. Adapter r of all nodes of a unit
/// is on the unit's leaf of rail r (rail-optimised); leaves have as many uplinks as hosts, spread over the spines
/// as those of [`fattree`]. With `apart=1` each rail has spines of its own, and no cable leads to another rail.
pub(super) fn rails(words: &mut Words) -> Result<Net, Refusal> {
    let wanted = "wants UNITSxNODES,RAILS,SPINES";
    let numbers = |word: Option<&String>| word.map_or(Err(wanted.to_string()), |word| Words::sizes(word));
    let [first, second, third] = [0, 1, 2].map(|at| numbers(words.plain.get(at)));
    let (first, second, third) = (first?, second?, third?);
    let (&[units, nodes], &[rails], &[spines]) = (first.as_slice(), second.as_slice(), third.as_slice())
    else {
        return Err(wanted.into());
    };
    let is_apart = match words.take("apart", 0)? {
        0 => false,
        1 => true,
        _ => return Err("apart is 0 or 1".into()),
    };
    let leaves = units.checked_mul(rails).ok_or("too many switches")?;
    let above = if is_apart { spines.checked_mul(rails).ok_or("too many switches")? } else { spines };
    let mut net = words.net(leaves.checked_add(above).ok_or("too many switches")?)?;
    net.rails(nodes, rails);
    for leaf in 0..leaves {
        net.hosts(leaf, nodes)?;
        let first = leaves + if is_apart { leaf % rails * spines } else { 0 };
        for up in 0..nodes {
            net.cable(leaf, first + (up + leaf / rails) % spines)?;
        }
    }
    Ok(net)
}
