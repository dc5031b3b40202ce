//! A pass on a direct torus: jobs that come and go, and links that fail under them.

use std::collections::BTreeSet;
use std::sync::Arc;

use sarouter::measure::angara::measure;
use sarouter::model::rng::Rng;
use sarouter::model::*;
use sarouter::pass::torus::{Plan, Site, plan};
use sarouter::route::angara::{Limits, engine};
use sarouter::verify::angara::judge;

type Link = (Coords, Direction);

fn torus(sizes: &[usize], failed: &BTreeSet<Link>) -> Torus {
    let mut builder = TorusBuilder::new(sizes).unwrap();
    failed.iter().for_each(|(at, direction)| builder.fail_link(*at, *direction).unwrap());
    builder.build().unwrap()
}

fn job(id: usize, nodes: Vec<NodeId>) -> TorusJob {
    TorusJob::new(Some(JobId::new(id.to_string()).unwrap()), nodes)
}

fn passed(site: &Site, running: &[TorusJob], starting: &[TorusJob], name: &str, rounds: u32) -> Plan {
    let limits = Limits { rounds, ..Limits::default() };
    plan(site, running, starting, engine(name).unwrap().as_ref(), &limits).unwrap()
}

/// The jobs of a plan, with the routes they have now.
fn now(plan: &Plan) -> Vec<TorusJob> {
    let tables = plan.tables.get();
    let with_routes = |(job, routes): (&TorusJob, &Routes)| job.clone().keeping(Arc::new(routes.clone()));
    tables.demand.jobs.iter().zip(&tables.routes).map(with_routes).collect()
}

fn site(torus: Torus, transit: Transit) -> Site {
    Site { steady: torus.clone(), torus, transit }
}

/// Four jobs that share the links: routed one by one, each around those before it, their largest load
/// together is within a tenth of that of routing all at once, in the mean of several draws.
#[test]
fn jobs_that_start_one_by_one_are_routed_around_each_other() {
    for sizes in [&[6, 6, 5][..], &[8, 8], &[4, 4, 4, 4]] {
        let site = site(torus(sizes, &BTreeSet::new()), Transit::Any);
        let limits = Limits { rounds: 100, ..Limits::default() };
        let sar = engine("angara-sar").unwrap();
        let (mut one_by_one, mut together, mut each_alone) = (0, 0, 0);
        for seed in 1..4 {
            let mut nodes: Vec<NodeId> = site.torus.nodes().collect();
            Rng::new(seed).shuffle(&mut nodes);
            let quarters = nodes.chunks(nodes.len() / 4).enumerate();
            let jobs: Vec<TorusJob> = quarters.map(|(id, nodes)| job(id, nodes.to_vec())).collect();
            let of = |jobs: &[TorusJob]| TorusDemand { jobs: jobs.to_vec(), transit: Transit::Any };
            let route = |jobs: &[TorusJob]| sar.route(&site.torus, &of(jobs), &limits).unwrap();
            let max = |tables: &TorusTables| measure(&site.torus, tables, None).max;
            let all = route(&jobs);
            let alone = jobs.iter().map(|job| route(std::slice::from_ref(job)).routes.remove(0)).collect();
            (together, each_alone) =
                (together + max(&all), each_alone + max(&TorusTables { routes: alone, ..all }));
            let mut running: Vec<TorusJob> = Vec::new();
            for starting in jobs.chunks(1) {
                let plan = passed(&site, &running, starting, "angara-sar", 100);
                assert!(now(&plan).starts_with(&running), "{sizes:?}: who runs keeps its routes");
                running = now(&plan);
                one_by_one += if running.len() == 4 { max(plan.tables.get()) } else { 0 };
            }
        }
        let found =
            format!("{sizes:?}: each alone {each_alone}, one by one {one_by_one}, together {together}");
        println!("{found}");
        assert!(f64::from(one_by_one) <= 1.1 * f64::from(together) && one_by_one < each_alone, "{found}");
    }
}

/// What runs, and what has failed, over a day.
struct Day {
    sizes: Vec<usize>,
    transit: Transit,
    failed: BTreeSet<Link>,
    links: Vec<Link>,
    site: Site,
    running: Vec<TorusJob>,
    random: Rng,
    /// Routes that failures cut, those of jobs that could not go on, plans on the torus without repairs.
    seen: [usize; 3],
}

impl Day {
    fn new(sizes: &[usize], transit: Transit, seed: u64) -> Self {
        let whole = torus(sizes, &BTreeSet::new());
        let links = TorusBuilder::new(sizes).unwrap().links();
        let (site, random) = (site(whole, transit), Rng::new(seed));
        let (failed, running) = (BTreeSet::new(), Vec::new());
        Self { sizes: sizes.to_vec(), transit, failed, links, site, running, random, seen: [0; 3] }
    }

    /// One pass, and a judge's look at all routes that are on nodes after it.
    fn pass(&mut self, starting: &[TorusJob], name: &str) {
        let before = std::mem::take(&mut self.running);
        let torus = torus(&self.sizes, &self.failed);
        let steady = match before.is_empty() {
            true => torus.clone(),
            false => torus.without_failures_of(&self.site.steady),
        };
        self.site = Site { torus, steady, transit: self.transit };
        let plan = passed(&self.site, &before, starting, name, 5);
        self.seen[0] += plan.cut.iter().map(|cut| cut.routes).sum::<usize>();
        self.seen[1] += plan.cut.iter().filter(|cut| cut.lost.is_some()).count();
        let tables = plan.tables.get();
        let on = |torus: &Torus| judge(torus, tables, true).accepted;
        self.seen[2] += usize::from(!on(&self.site.torus));
        assert!(on(&self.site.torus) || on(&self.site.steady), "all routes together are free of cycles");
        // Who lost nothing has the routes of before; who did, has them but for what is dead.
        for job in now(&plan) {
            let Some(old) = before.iter().find(|old| old.id == job.id) else { continue };
            let (old, new) = (old.kept().unwrap(), job.kept().unwrap());
            let differ = old.pairs().zip(new.pairs()).filter(|(a, b)| a != b).count();
            let cut =
                plan.cut.iter().find(|cut| Some(&cut.job) == job.id.as_ref()).map_or(0, |cut| cut.routes);
            assert!(differ <= cut, "{differ} of {cut}");
        }
        self.running = now(&plan);
    }

    fn step(&mut self, number: usize) {
        let busy: BTreeSet<NodeId> = self.running.iter().flat_map(|job| job.nodes().to_vec()).collect();
        let mut free: Vec<NodeId> = self.site.torus.nodes().filter(|n| !busy.contains(n)).collect();
        if self.transit == Transit::Any {
            self.random.shuffle(&mut free);
        }
        let wanted = 2 + self.random.below(24);
        if free.len() < wanted {
            let over = self.random.below(self.running.len());
            self.running.remove(over);
        }
        match self.random.below(4) {
            0 => drop(self.failed.insert(self.links[self.random.below(self.links.len())])),
            1 => drop(self.failed.pop_first()),
            _ => {}
        }
        let names = ["angara-sar", "angara-sssp", "angara-bfs", "angara-genetic", "angara-balanced"];
        let name = names[number % names.len()];
        match free.len() < wanted {
            true => self.pass(&[], name),
            false => self.pass(&[job(number, free[..wanted].to_vec())], name),
        }
    }
}

#[test]
fn running_jobs_keep_valid_routes_while_others_come_and_links_fail() {
    let mut seen = [0; 3];
    for (sizes, transit) in
        [(&[6, 6, 5][..], Transit::Any), (&[6, 6, 5], Transit::Job), (&[4, 2, 2, 3], Transit::Any)]
    {
        let mut day = Day::new(sizes, transit, 3);
        (0..100).for_each(|number| day.step(number));
        println!("{sizes:?} {transit:?}: {:?}", day.seen);
        seen.iter_mut().zip(day.seen).for_each(|(sum, seen)| *sum += seen);
    }
    assert!(seen[0] > 100, "failures that touch nobody show nothing: {seen:?}");
}

/// Turns that a broken ring allowed may not go with the ring that is whole again: the new job waits with the
/// repaired link.
#[test]
fn what_is_repaired_waits_for_routes_that_do_not_go_with_it() {
    let links = TorusBuilder::new(&[3, 3]).unwrap().links();
    let mut wait = 0;
    for seed in 70..80 {
        let mut random = Rng::new(seed);
        let count = 1 + random.below(links.len() / 2);
        let failed: BTreeSet<Link> = (0..count).map(|_| links[random.below(links.len())]).collect();
        let broken = torus(&[3, 3], &failed);
        let mut nodes: Vec<NodeId> = broken.nodes().collect();
        random.shuffle(&mut nodes);
        let (first, second) = nodes.split_at(nodes.len() / 2);
        let (first, second) = (job(1, first.to_vec()), job(2, second.to_vec()));
        let old = passed(&site(broken.clone(), Transit::Any), &[], &[first], "angara-sar", 5);
        let whole = torus(&[3, 3], &BTreeSet::new());
        let steady = whole.without_failures_of(&broken);
        let repaired = Site { steady: steady.clone(), torus: whole, transit: Transit::Any };
        let plan = passed(&repaired, &now(&old), &[second], "angara-sar", 5);
        let accepted = |torus| judge(torus, plan.tables.get(), true).accepted;
        assert!(accepted(&repaired.torus) || accepted(&steady));
        wait += usize::from(!accepted(&repaired.torus));
    }
    assert!(wait > 0, "the case does not occur");
}
