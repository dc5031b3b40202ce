//! Fabrics without a regular form.

use super::builder::Net;
use super::rng::Rng;
use super::spec::Words;

/// `random:125,1000,1000,seed=1`: switches, hosts, cables. Hosts are spread evenly; a random tree
/// keeps the fabric connected, the other cables join random pairs (parallel cables may occur).
pub(super) fn random(words: &mut Words) -> Result<Net, String> {
    let [switches, hosts, cables] = words.numbers("SWITCHES,HOSTS,CABLES")?;
    let mut rng = Rng::new(words.take("seed", 1)?);
    if cables + 1 < switches || switches < 2 {
        return Err("wants at least two switches and a cable fewer than there are switches".into());
    }
    let mut net = Net::new(switches);
    (0..switches).for_each(|s| net.hosts(s, hosts / switches + usize::from(s < hosts % switches)));
    let mut order: Vec<usize> = (0..switches).collect();
    rng.shuffle(&mut order);
    for i in 1..switches {
        net.cable(order[i], order[rng.below(i)]);
    }
    for _ in switches - 1..cables {
        let a = rng.below(switches);
        let b = (a + 1 + rng.below(switches - 1)) % switches;
        net.cable(a, b);
    }
    Ok(net)
}
