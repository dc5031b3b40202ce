//! Fabrics drawn at random: all families that there are generators for, small and large, whole and damaged.

use crate::model::rng::Rng;

/// A family: draws a spec, and says how many switches and hosts it has before damage.
type Family = fn(&mut Rng) -> (String, usize, usize);

/// All families. Each is as likely as any other.
const FAMILIES: [Family; 14] = [
    kary, xgft, fattree, dragonfly, torus, mesh, hypercube, hyperx, random, regular, kautz, slimfly, cascade,
    system,
];
/// Switches that a fabric may have beside each host: the engines' time grows with both.
const MOST_SWITCHES_PER_HOST: usize = 2;
/// Redraws of one spec, at most.
const TRIES: usize = 10_000;

/// A spec with at least three switches and between 6 and `most` hosts, four in ten damaged; `None` if no family
/// has one so small.
pub(super) fn spec(rng: &mut Rng, most: usize) -> Option<String> {
    for _ in 0..TRIES {
        let family = FAMILIES[rng.below(FAMILIES.len())];
        // A family of large fabrics shall not be rarer than others: it gets some tries of its own.
        for _ in 0..8 {
            let (text, switches, hosts) = family(rng);
            if switches >= 3 && (6..=most).contains(&hosts) && switches <= hosts * MOST_SWITCHES_PER_HOST {
                let damage = damage(rng, switches, text.contains("seed="));
                return Some(text + &damage);
            }
        }
    }
    None
}

/// Cut cables, dead switches, parallel cables.
fn damage(rng: &mut Rng, switches: usize, has_seed: bool) -> String {
    let mut text = String::new();
    if rng.below(12) == 0 {
        text += ",redundancy=2";
    }
    if rng.below(10) >= 4 {
        return text;
    }
    text += [",faults=1", ",faults=1%", ",faults=3%", ",faults=5%", ",faults=10%"][rng.below(5)];
    if rng.below(4) == 0 && switches > 8 {
        text += ",dead-switches=1";
    }
    if !has_seed {
        text += &format!(",seed={}", 1 + rng.below(999));
    }
    text
}

fn between(rng: &mut Rng, least: usize, most: usize) -> usize {
    least + rng.below(most - least + 1)
}

fn kary(rng: &mut Rng) -> (String, usize, usize) {
    let n = between(rng, 2, 4);
    let k = between(rng, 2, [24, 10, 5][n - 2]);
    let hosts = if rng.below(2) == 0 { k } else { between(rng, 1, 2 * k) };
    let leaves = k.pow(n as u32 - 1);
    let more = if hosts == k { String::new() } else { format!(",hosts={hosts}") };
    (format!("kary:{k},{n}{more}"), leaves * n, leaves * hosts)
}

fn xgft(rng: &mut Rng) -> (String, usize, usize) {
    let height = between(rng, 1, 3);
    let most = [24, 10, 5][height - 1];
    let m: Vec<usize> = (0..height).map(|_| between(rng, 2, most)).collect();
    let w: Vec<usize> = (0..height).map(|_| between(rng, 1, most)).collect();
    let hosts = between(rng, 1, 12);
    let level = |l: usize| w[..l].iter().chain(&m[l..]).product::<usize>();
    let list = |n: &[usize]| n.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let text = format!("xgft:{height};{};{},hosts={hosts}", list(&m), list(&w));
    (text, (0..=height).map(level).sum(), level(0) * hosts)
}

fn fattree(rng: &mut Rng) -> (String, usize, usize) {
    let (leaves, hosts, spines) = (between(rng, 2, 32), between(rng, 2, 18), between(rng, 1, 18));
    (format!("fattree:{leaves}x{hosts},{spines}"), leaves + spines, leaves * hosts)
}

fn dragonfly(rng: &mut Rng) -> (String, usize, usize) {
    let (a, p, h) = (between(rng, 2, 10), between(rng, 1, 6), between(rng, 1, 5));
    let groups = between(rng, 2, a * h + 1);
    (format!("dragonfly:{a},{p},{h},{groups}"), a * groups, a * groups * p)
}

/// Two to five dimensions.
fn sizes(rng: &mut Rng, least: usize, most: [usize; 4]) -> Vec<usize> {
    let dims = between(rng, 2, 5);
    (0..dims).map(|_| between(rng, least, most[dims - 2])).collect()
}

fn lattice(rng: &mut Rng, kind: &str, sizes: &[usize], most_hosts: usize) -> (String, usize, usize) {
    let (switches, hosts) = (sizes.iter().product::<usize>(), between(rng, 1, most_hosts));
    let text: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    (format!("{kind}:{},hosts={hosts}", text.join("x")), switches, switches * hosts)
}

fn torus(rng: &mut Rng) -> (String, usize, usize) {
    let sizes = sizes(rng, 2, [16, 8, 5, 3]);
    lattice(rng, "torus", &sizes, 6)
}

fn mesh(rng: &mut Rng) -> (String, usize, usize) {
    let sizes = sizes(rng, 2, [16, 8, 5, 3]);
    lattice(rng, "mesh", &sizes, 6)
}

fn hypercube(rng: &mut Rng) -> (String, usize, usize) {
    let dims = between(rng, 3, 8);
    let kind = ["torus", "mesh"][rng.below(2)];
    lattice(rng, kind, &vec![2; dims], 6)
}

fn hyperx(rng: &mut Rng) -> (String, usize, usize) {
    let sizes = sizes(rng, 2, [10, 6, 4, 3]);
    lattice(rng, "hyperx", &sizes, 8)
}

fn random(rng: &mut Rng) -> (String, usize, usize) {
    let switches = between(rng, 4, 100);
    let (hosts, degree) = (switches * between(rng, 1, 8), between(rng, 3, 12));
    let cables = (switches * degree / 2).max(switches);
    let seed = 1 + rng.below(999);
    (format!("random:{switches},{hosts},{cables},seed={seed}"), switches, hosts)
}

fn regular(rng: &mut Rng) -> (String, usize, usize) {
    let switches = 2 * between(rng, 4, 50);
    let (degree, hosts) = (between(rng, 3, (switches - 1).min(12)), between(rng, 1, 8));
    let seed = 1 + rng.below(999);
    (format!("regular:{switches},{degree},hosts={hosts},seed={seed}"), switches, switches * hosts)
}

fn kautz(rng: &mut Rng) -> (String, usize, usize) {
    let length = between(rng, 2, 4);
    let degree = between(rng, 2, [9, 5, 3][length - 2]);
    let hosts = between(rng, 1, 7);
    let switches = degree.pow(length as u32 - 1) * (degree + 1);
    (format!("kautz:{degree},{length},hosts={hosts}"), switches, switches * hosts)
}

fn slimfly(rng: &mut Rng) -> (String, usize, usize) {
    let q = [3, 4, 5, 7, 8, 9][rng.below(6)];
    let hosts = between(rng, 1, 6);
    (format!("slimfly:{q},hosts={hosts}"), 2 * q * q, 2 * q * q * hosts)
}

fn cascade(rng: &mut Rng) -> (String, usize, usize) {
    let (groups, hosts) = (between(rng, 1, 3), between(rng, 1, 4));
    (format!("cascade:{groups},hosts={hosts}"), 96 * groups, 96 * groups * hosts)
}

fn system(rng: &mut Rng) -> (String, usize, usize) {
    [("deimos", 108, 729), ("tsubame2", 243, 1_408), ("taurus", 211, 2_090)]
        .map(|(name, switches, hosts)| (name.to_string(), switches, hosts))[rng.below(3)]
    .clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn specs_are_of_the_size_that_is_said() {
        let mut rng = Rng::new(1);
        for family in FAMILIES {
            for _ in 0..6 {
                let (text, switches, hosts) = family(&mut rng);
                if hosts > 3_000 || switches > 3_000 {
                    continue;
                }
                let Ok(fabric) = generate(&text) else { panic!("{text} is no spec") };
                assert_eq!((fabric.switches().len(), fabric.host_ids().count()), (switches, hosts), "{text}");
            }
        }
    }

    #[test]
    fn all_families_come_whole_and_damaged() {
        let mut rng = Rng::new(7);
        let specs: Vec<String> = (0..400).filter_map(|_| spec(&mut rng, 1_500)).collect();
        assert_eq!(specs.len(), 400);
        // Rails are trees of two levels.
        let drawn = |kind: &&&str| !["taurus", "rails"].contains(kind);
        for kind in crate::lab::generate::spec::KINDS.iter().filter(drawn) {
            let of: Vec<&String> = specs.iter().filter(|s| s.starts_with(kind)).collect();
            assert!(of.iter().any(|s| s.contains("faults=")), "{kind}: {of:?}");
            assert!(of.iter().any(|s| !s.contains("faults=")), "{kind}: {of:?}");
        }
        assert_eq!(spec(&mut rng, 5), None);
    }
}
