//! Slim Fly: the graphs of McKay, Miller and Širáň (1998) with diameter 2, as networks by Besta
//! and Hoefler (2014).

use super::builder::Net;
use super::spec::{Refusal, Words};

/// `slimfly:q[,hosts=]` for a prime power q = 4w + δ with δ of −1, 0 or 1: 2q² switches of degree
/// (3q − δ) / 2. Half as many hosts per switch, rounded up, unless given. Switch (0, x, y) is
/// number xq + y, switch (1, m, c) is q² + mq + c.
pub(super) fn slimfly(words: &mut Words) -> Result<Net, Refusal> {
    let [q] = words.numbers("Q")?;
    if q > 151 {
        return Err("more switches than LIDs".into());
    }
    let powers =
        powers(q).ok_or_else(|| format!("{q} is not a prime power of the form 4w - 1, 4w or 4w + 1"))?;
    let generators = generators(q, &powers);
    let degree = q + generators[0].len();
    let hosts = words.take("hosts", degree.div_ceil(2))?;
    let field = Field::new(q, powers);
    let mut net = words.net(2 * q * q)?;
    for s in 0..2 * q * q {
        net.hosts(s, hosts)?;
    }
    for (half, generators) in generators.iter().enumerate() {
        for s in 0..q * q {
            let (group, y) = (s / q, s % q);
            for far in generators.iter().map(|g| field.add(y, *g)).filter(|far| *far > y) {
                net.cable(half * q * q + s, half * q * q + group * q + far)?;
            }
        }
    }
    for x in 0..q {
        for m in 0..q {
            for c in 0..q {
                let y = field.add(field.multiply(m, x), c);
                net.cable(x * q + y, q * q + m * q + c)?;
            }
        }
    }
    Ok(net)
}

/// The generator sets X and X' out of powers of the primitive element ξ.
fn generators(q: usize, powers: &[usize]) -> [Vec<usize>; 2] {
    let power = |e: usize| powers[e % (q - 1)];
    let evens = |from: usize, count: usize| (0..count).map(move |i| from + 2 * i);
    let w = q.div_ceil(4);
    let exponents: [Vec<usize>; 2] = match q % 4 {
        // δ = -1, q = 4w - 1
        3 => [evens(0, w).chain(evens(2 * w - 1, w)).collect(), evens(1, w).chain(evens(2 * w, w)).collect()],
        // δ = 0 and 1: even and odd powers.
        _ => [evens(0, q / 2).collect(), evens(1, q / 2).collect()],
    };
    exponents.map(|list| list.into_iter().map(power).collect())
}

/// Arithmetic in the field of q elements. An element is a number below q whose digits to the base
/// p are the coefficients of a polynomial.
struct Field {
    prime: usize,
    /// `powers[e]` is ξ^e.
    powers: Vec<usize>,
    /// `logs[powers[e]]` is e; `logs[0]` has no meaning.
    logs: Vec<usize>,
}

impl Field {
    fn new(q: usize, powers: Vec<usize>) -> Self {
        let mut logs = vec![0; q];
        powers.iter().enumerate().for_each(|(e, a)| logs[*a] = e);
        Self { prime: smallest_factor(q), powers, logs }
    }
    fn add(&self, a: usize, b: usize) -> usize {
        add(self.prime, a, b)
    }
    fn multiply(&self, a: usize, b: usize) -> usize {
        if a == 0 || b == 0 { 0 } else { self.powers[(self.logs[a] + self.logs[b]) % self.powers.len()] }
    }
}

/// Digit by digit, without carry.
fn add(prime: usize, mut a: usize, mut b: usize) -> usize {
    let (mut sum, mut place) = (0, 1);
    while a + b > 0 {
        sum += (a % prime + b % prime) % prime * place;
        (a, b, place) = (a / prime, b / prime, place * prime);
    }
    sum
}

fn smallest_factor(q: usize) -> usize {
    (2..).find(|p| q % p == 0 || p * p > q).map_or(q, |p| if q % p == 0 { p } else { q })
}

/// 1, ξ, ξ², … ξ^(q-2) for a primitive element ξ of the field of q elements; `None` if there is
/// no such field or q is 2, or not one of the forms.
fn powers(q: usize) -> Option<Vec<usize>> {
    if q < 3 || q % 4 == 2 {
        return None;
    }
    let prime = smallest_factor(q);
    let mut rest = q;
    while rest % prime == 0 {
        rest /= prime;
    }
    if rest != 1 {
        return None;
    }
    if q == prime {
        return (2..q).find_map(|root| cycle(q, |a| a * root % q));
    }
    // ξ = x modulo a polynomial x^n - r with r of lower degree: one of them is primitive. Multiplying by x moves
    // the digits up; the one that leaves brings back that many times r.
    let top = q / prime;
    (1..q).find_map(|r| {
        cycle(q, |a| {
            let (leaves, mut next) = (a / top, a % top * prime);
            for _ in 0..leaves {
                next = add(prime, next, r);
            }
            next
        })
    })
}

/// The orbit of 1, if it is all of 1..q.
fn cycle(q: usize, times: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
    let mut orbit = vec![1];
    let mut a = times(1);
    while a != 1 && a != 0 && orbit.len() < q {
        orbit.push(a);
        a = times(a);
    }
    (a == 1 && orbit.len() == q - 1).then_some(orbit)
}
