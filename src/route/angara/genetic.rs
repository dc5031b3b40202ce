//! `angara-genetic` (section 4.2): a population of tables; a gene is the route of one pair.
//!
//! As in the paper: 100 random chromosomes, two-point crossover of parents drawn from the whole
//! population, every gene of a child mutated with probability 2 %, fitness σ(4), stop after 30
//! generations without improvement.
//!
//! Where the paper leaves freedom:
//! - Fitness is the sum of fourth powers of differences from the mean load; σ(4) is monotone in it.
//! - Pairs with a single route are no genes.
//! - A generation makes 100 children; the best 100 of parents and children survive, equal ones
//!   in order of age.
//! - The second stopping rule (next best within 0.05 of the best) is left out: it stops a
//!   converged population that mutation still improves.
//! - Each job is routed as if alone.

use super::choice::{self, Choice};
use super::{Limits, TorusEngine, TorusRouteError};
use crate::model::rng::Rng;
use crate::model::{Torus, TorusDemand, TorusTables};

/// See the module.
pub struct Genetic;

const POPULATION: usize = 100;
const MUTATION: f64 = 0.02;
const PATIENCE: u32 = 30;

impl TorusEngine for Genetic {
    fn name(&self) -> &'static str {
        "angara-genetic"
    }

    fn route(
        &self,
        torus: &Torus,
        demand: &TorusDemand,
        limits: &Limits<'_>,
    ) -> Result<TorusTables, TorusRouteError> {
        let turns = choice::turns(torus, demand)?;
        let mut routes = Vec::with_capacity(demand.jobs.len());
        for job in 0..demand.jobs.len() {
            let mut settled = Vec::new();
            let mut choice = Choice::new(torus, demand, job, &turns, &mut settled)?;
            let settled = choice.legal.lanes.by_channel(torus, &settled);
            let best = evolve(&choice, &demand.usable(torus, Some(job)), &settled, limits);
            for (place, gene) in best.into_iter().enumerate() {
                let pair = choice.flexible[place];
                choice.chosen[pair.pair as usize] = choice.alternatives(&pair)[usize::from(gene)];
            }
            routes.push(choice.into_routes());
        }
        Ok(choice::tables(torus, demand, self.name(), routes))
    }
}

/// For every flexible pair the number of its route.
type Chromosome = Vec<u16>;

fn evolve(choice: &Choice<'_>, usable: &[u8], settled: &[u32], limits: &Limits<'_>) -> Chromosome {
    let judge = Judge::new(choice, usable, settled);
    let mut rng = Rng::new(limits.seed);
    let counts: Vec<u16> = choice.flexible.iter().map(|f| f.count).collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let random = |rng: &mut Rng| counts.iter().map(|n| rng.below(usize::from(*n)) as u16).collect();
    let mut population: Vec<(f64, Chromosome)> = Vec::with_capacity(2 * POPULATION);
    for _ in 0..POPULATION {
        let genes: Chromosome = random(&mut rng);
        population.push((judge.fitness(&genes), genes));
    }
    let mut idle = 0;
    for generation in 1..=limits.rounds {
        if idle >= PATIENCE || !(limits.go_on)(generation) {
            break;
        }
        let best = population.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        for _ in 0..POPULATION / 2 {
            let (a, b) = (rng.below(POPULATION), rng.below(POPULATION));
            let (mut a, mut b) = (population[a].1.clone(), population[b].1.clone());
            let (from, to) = (rng.below(counts.len() + 1), rng.below(counts.len() + 1));
            let (from, to) = (from.min(to), from.max(to));
            a[from..to].swap_with_slice(&mut b[from..to]);
            for mut child in [a, b] {
                mutate(&mut child, &counts, &mut rng);
                population.push((judge.fitness(&child), child));
            }
        }
        population.sort_by(|a, b| a.0.total_cmp(&b.0));
        population.truncate(POPULATION);
        idle = if population[0].0 < best { 0 } else { idle + 1 };
    }
    population.sort_by(|a, b| a.0.total_cmp(&b.0));
    population.swap_remove(0).1
}

fn mutate(genes: &mut Chromosome, counts: &[u16], rng: &mut Rng) {
    for (gene, count) in genes.iter_mut().zip(counts) {
        if rng.unit() < MUTATION {
            *gene = rng.below(usize::from(*count)) as u16;
        }
    }
}

struct Judge<'a> {
    choice: &'a Choice<'a>,
    settled: &'a [u32],
    /// Slots of channels that exist.
    channels: Vec<usize>,
}

impl<'a> Judge<'a> {
    fn new(choice: &'a Choice<'a>, usable: &[u8], settled: &'a [u32]) -> Self {
        let exits = settled.len() / usable.len().max(1);
        let exists = |slot: &usize| usable[slot / exits] >> (slot % exits) & 1 == 1;
        Self { choice, settled, channels: (0..settled.len()).filter(exists).collect() }
    }

    /// Sum of fourth powers of differences from the mean: smaller is better.
    fn fitness(&self, genes: &[u16]) -> f64 {
        let mut load = self.settled.to_vec();
        for (pair, gene) in self.choice.flexible.iter().zip(genes) {
            let shape = self.choice.alternatives(pair)[usize::from(*gene)];
            self.choice.legal.channels(pair.source, &shape, |c| load[c] += 1);
        }
        let used = || self.channels.iter().map(|c| f64::from(load[*c]));
        let mean = used().sum::<f64>() / self.channels.len().max(1) as f64;
        used().map(|l| (l - mean).powi(4)).sum()
    }
}
