//! Trees: two-level fat trees and k-ary n-trees.

use super::builder::Net;
use super::spec::Words;

/// `fattree:10x18,5`: leaves × hosts, spines; as many uplinks as hosts per leaf, spread
/// round-robin over the spines, rotated by one per leaf.
pub(super) fn fattree(words: &mut Words) -> Result<Net, String> {
    let [first, spines] = words.plain.as_slice() else {
        return Err("wants LEAVESxHOSTS,SPINES".into());
    };
    let (sizes, spines) = (Words::sizes(first)?, Words::sizes(spines)?);
    let ([leaves, hosts], [spines]) = (sizes.as_slice(), spines.as_slice()) else {
        return Err("wants LEAVESxHOSTS,SPINES".into());
    };
    let mut net = Net::new(leaves + spines);
    for leaf in 0..*leaves {
        net.hosts(leaf, *hosts);
        for up in 0..*hosts {
            net.cable(leaf, leaves + (up + leaf) % spines);
        }
    }
    Ok(net)
}

/// `kary:10,3[,hosts=11]`: k-ary n-tree (thesis section 3.2.2): n levels of k^(n-1) switches,
/// `hosts` per leaf (k unless given). Level 0, the leaves, comes first.
pub(super) fn kary(words: &mut Words) -> Result<Net, String> {
    let [k, n] = words.numbers("K,N")?;
    let hosts = words.take("hosts", k)?;
    let width = u32::try_from(n - 1).ok().and_then(|e| k.checked_pow(e)).filter(|w| w * n <= 65_536);
    let width = width.ok_or("more than 65536 switches")?;
    let mut net = Net::new(width * n);
    (0..width).for_each(|leaf| net.hosts(leaf, hosts));
    // A switch <w, l> is cabled to <w', l+1> where w and w' differ at most in digit l.
    let mut digit = 1;
    for level in 0..n.saturating_sub(1) {
        for w in 0..width {
            let without = w - (w / digit % k) * digit;
            for up in 0..k {
                net.cable(level * width + w, (level + 1) * width + without + up * digit);
            }
        }
        digit *= k;
    }
    Ok(net)
}
