//! Engines that know the jobs.

use super::*;

/// The three interleaved jobs of thesis Figure 5.2.
fn figure_5_2() -> (Fabric, Demand) {
    let fabric = generate("fattree:10x18,5").unwrap();
    let jobs = [[1..=30, 91..=120], [31..=60, 151..=180], [61..=90, 121..=150]];
    let groups = jobs.iter().map(|j| sarouter::model::Group::new(hosts(&fabric, j))).collect();
    (fabric, Demand::new(groups, Vec::new()))
}

/// Thesis section 5.1: scheduling-aware routing brings the largest effective EFI down to 60 and
/// leaves no fiber dark; oblivious routing is far from it. Where the routes of one tree do not see
/// each other, 84 is what is reached.
#[test]
fn figure_5_2_sar_reaches_60_without_dark_fiber() {
    let (fabric, demand) = figure_5_2();
    let effective = |engine| walk(&fabric, &run(engine, &fabric, &demand, 1).unwrap(), &demand).effective;
    let aware = effective("sar");
    assert!(aware.iter().max() <= Some(&60), "{:?}", aware.iter().max());
    assert!(aware.iter().all(|load| *load > 0));
    assert!(effective("dfsssp").iter().max() > Some(&90));
    assert_eq!(effective("sar-literal").iter().max(), Some(&84));
}

/// Jobs are told apart by their members only: their order must not reach the tables.
#[test]
fn the_order_of_jobs_does_not_matter() {
    let (fabric, demand) = figure_5_2();
    let reversed = Demand::new(demand.groups.iter().rev().cloned().collect(), Vec::new());
    assert_eq!(run("sar", &fabric, &demand, 1).unwrap(), run("sar", &fabric, &reversed, 1).unwrap());
}

/// Layers of all routes inside each job.
fn layers_in_jobs(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Vec<usize> {
    let layers = |g: &sarouter::model::Group| {
        let pairs = g.terminals.iter().flat_map(|a| g.terminals.iter().map(move |b| (*a, *b)));
        let between = pairs.filter(|(a, b)| fabric.terminal(*a).switch != fabric.terminal(*b).switch);
        let layer = |(a, b)| tables.layer(fabric.terminal(a).switch, fabric.dest_of_terminal(b));
        between.map(layer).collect::<BTreeSet<_>>().len()
    };
    demand.groups.iter().map(layers).collect()
}

/// On a torus a large job's shortest routes close cycles, so that plain `sar` spreads them.
#[test]
fn layer_per_job_keeps_each_job_on_one_layer() {
    let fabric = generate("torus:5x5,hosts=2").unwrap();
    let jobs = [vec![1..=24], vec![25..=30, 41..=48], vec![31..=40]];
    let groups = jobs.iter().map(|j| sarouter::model::Group::new(hosts(&fabric, j))).collect();
    let demand = Demand::new(groups, Vec::new());
    let options = EngineOptions { layer_per_job: true, ..EngineOptions::default() };
    let route = |options: &EngineOptions| {
        let engine = route::engine("sar", options).unwrap();
        engine.route(&fabric, &demand, LayerBudget::new(8).unwrap()).unwrap()
    };
    assert!(layers_in_jobs(&fabric, &route(&EngineOptions::default()), &demand).iter().any(|n| *n > 1));
    let tables = route(&options);
    assert_eq!(layers_in_jobs(&fabric, &tables, &demand), [1, 1, 1]);
    let walked = walk(&fabric, &tables, &demand);
    assert!(!walked.cyclic && walked.unreached == 0);
}
