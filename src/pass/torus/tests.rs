use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::model::{Coords, TorusBuilder};
use crate::route::angara::engine;

fn torus(sizes: &[usize], failed_nodes: &[[u8; 2]], failed_links: &[([u8; 2], &str)]) -> Torus {
    let mut builder = TorusBuilder::new(sizes).unwrap();
    failed_nodes.iter().for_each(|at| builder.fail_node(Coords::new(at)).unwrap());
    for (at, direction) in failed_links {
        builder.fail_link(Coords::new(at), direction.parse().unwrap()).unwrap();
    }
    builder.build().unwrap()
}

fn site(torus: Torus, transit: Transit) -> Site {
    Site { steady: torus.clone(), torus, transit }
}

fn job(id: &str, nodes: &[usize]) -> TorusJob {
    TorusJob::new(Some(JobId::new(id).unwrap()), nodes.iter().map(|n| NodeId::at(*n)).collect())
}

/// Routes of a job, as `routes.txt` writes them, by source and then by destination.
fn routes(nodes: &[usize], of: &[&str]) -> Routes {
    let mut routes = Routes::new(nodes.iter().map(|n| NodeId::at(*n)).collect());
    let mut of = of.iter();
    for pair in 0..nodes.len() * nodes.len() {
        let is_own = pair / nodes.len() == pair % nodes.len();
        let steps = if is_own { "" } else { of.next().unwrap() };
        routes.push(steps.split_terminator(',').map(|step| step.parse::<Step>().unwrap()));
    }
    routes
}

fn running(id: &str, nodes: &[usize], of: &[&str]) -> TorusJob {
    job(id, nodes).keeping(Arc::new(routes(nodes, of)))
}

type Made = Result<TorusTables, TorusRouteError>;

/// An engine that notes for whom it was asked, and answers as it is told.
struct Asked<'a> {
    demands: Mutex<Vec<TorusDemand>>,
    answer: &'a (dyn Fn(&Torus, &TorusDemand) -> Made + Sync),
}

impl<'a> Asked<'a> {
    fn new(answer: &'a (dyn Fn(&Torus, &TorusDemand) -> Made + Sync)) -> Self {
        Self { demands: Mutex::default(), answer }
    }

    /// Sizes of the jobs without an id, each time it was asked.
    fn company(&self) -> Vec<Vec<usize>> {
        let size = |job: &TorusJob| job.nodes().len();
        let of = |demand: &TorusDemand| demand.jobs.iter().filter(|job| job.id.is_none()).map(size).collect();
        self.demands.lock().unwrap().iter().map(of).collect()
    }
}

impl TorusEngine for Asked<'_> {
    fn name(&self) -> &'static str {
        "asked"
    }

    fn route(&self, torus: &Torus, demand: &TorusDemand, _: &Limits<'_>) -> Made {
        self.demands.lock().unwrap().push(demand.clone());
        (self.answer)(torus, demand)
    }
}

fn by_bfs(torus: &Torus, demand: &TorusDemand) -> Made {
    engine("angara-bfs").unwrap().route(torus, demand, &Limits::default())
}

/// Running jobs keep what they have, and the last job gets these routes.
fn by_hand(torus: &Torus, demand: &TorusDemand, of: &[&str]) -> Made {
    demand.check(torus)?;
    let made = |job: &TorusJob| match job.kept() {
        Some(kept) => kept.clone(),
        None if job.id.is_some() => routes(&job.nodes().iter().map(|n| n.index()).collect::<Vec<_>>(), of),
        None => Routes::new(job.nodes().to_vec()),
    };
    let routes = demand.jobs.iter().map(made).collect();
    Ok(TorusTables { torus: torus.fingerprint(), engine: "hand".into(), demand: demand.clone(), routes })
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.tables.get().demand.jobs.iter().map(|job| job.id.as_ref().unwrap().as_str()).collect()
}

/// On 4 × 4 nodes, the last coordinate varying fastest: node 4 is 1.0.
#[test]
fn only_who_starts_or_lost_a_route_gets_others() {
    let whole = torus(&[4, 4], &[], &[]);
    let there = [running("1", &[0, 4], &["+X", "-X"]), running("2", &[2, 3], &["+Y", "-Y"])];
    let planned = |torus: &Torus, starting: &[TorusJob]| {
        plan(&site(torus.clone(), Transit::Any), &there, starting, &Asked::new(&by_bfs), &Limits::default())
            .unwrap()
    };
    let calm = planned(&whole, &[]);
    assert_eq!((calm.changed.len(), calm.cut.len(), calm.refused.len()), (0, 0, 0));
    let starts = planned(&whole, &[job("3", &[10, 11])]);
    assert_eq!((ids(&starts), &starts.changed, starts.cut.len()), (vec!["1", "2", "3"], &vec![2], 0));
    let broken = torus(&[4, 4], &[], &[([0, 0], "+X")]);
    let cut = planned(&broken, &[job("3", &[10, 11])]);
    assert_eq!(cut.changed, [0, 2]);
    assert_eq!(cut.cut, [Cut { job: JobId::new("1").unwrap(), routes: 2, lost: None }]);
    let kept = [&there[0], &there[1]].map(|job| job.kept().unwrap());
    let now = &cut.tables.get().routes;
    assert!(now[1] == *kept[1] && now[0] != *kept[0] && now[0].pairs().all(|(.., steps)| steps.len() == 3));
    let dead = |torus: &Torus, transit| [0, 1].map(|n| dead_routes(torus, transit, &there[n]));
    assert_eq!((dead(&whole, Transit::Any), dead(&broken, Transit::Any)), ([0, 0], [2, 0]));
    // A route over a node of another job is none where jobs keep to their own nodes.
    let around = running("1", &[0, 8], &["+X,+X", "-X,-X"]);
    let dead = [Transit::Any, Transit::Job].map(|transit| dead_routes(&whole, transit, &around));
    assert_eq!((dead, dead_routes(&whole, Transit::Any, &job("1", &[0, 8]))), ([0, 2], 0));
}

#[test]
fn jobs_are_routed_in_the_company_of_others_of_their_size_on_idle_nodes() {
    let company = |torus: Torus, transit, running: &[&TorusJob], starting: &[&TorusJob]| {
        let [running, starting] =
            [running, starting].map(|jobs| jobs.iter().map(|j| (*j).clone()).collect::<Vec<_>>());
        let asked = Asked::new(&by_bfs);
        let planned = plan(&site(torus, transit), &running, &starting, &asked, &Limits::default()).unwrap();
        assert_eq!(planned.tables.get().demand.jobs.len(), running.len() + starting.len());
        assert_eq!(planned.tables.get().routes.len(), running.len() + starting.len());
        let mut company = asked.company();
        assert_eq!(company.len(), 1);
        company.remove(0)
    };
    let whole = || torus(&[4, 4], &[], &[]);
    let four = job("3", &[0, 1, 4, 5]);
    assert_eq!(company(whole(), Transit::Any, &[], &[&four]), [4; 3]);
    let without_one = torus(&[4, 4], &[[3, 3]], &[]);
    assert_eq!(company(without_one, Transit::Any, &[], &[&four]), [4; 2]);
    let pair = running("1", &[2, 3], &["+Y", "-Y"]);
    assert_eq!(company(whole(), Transit::Any, &[&pair], &[&four]), [3; 3], "the mean size");
    assert_eq!(company(whole(), Transit::Any, &[], &[&job("4", &[0, 1])]), [2; 7]);
    assert_eq!(company(whole(), Transit::Any, &[], &[&job("4", &[0])]), [0; 0], "it sends to nobody");
    assert_eq!(company(whole(), Transit::Job, &[], &[&four]), [0; 0]);
    assert_eq!(company(whole(), Transit::Any, &[&pair], &[]), [0; 0], "all routes stay");
    let broken = torus(&[4, 4], &[], &[([0, 2], "+Y")]);
    assert_eq!(company(broken, Transit::Any, &[&pair], &[]), [2; 7]);
    // On no node twice, and drawn at random.
    let drawn = |seed| {
        let asked = Asked::new(&by_bfs);
        let limits = Limits { seed, ..Limits::default() };
        plan(&site(whole(), Transit::Any), &[], &[job("4", &[0, 1])], &asked, &limits).unwrap();
        let demand = asked.demands.lock().unwrap().remove(0);
        let nodes: Vec<NodeId> = demand.jobs.iter().flat_map(|job| job.nodes().to_vec()).collect();
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), 16);
        nodes
    };
    assert_ne!(drawn(1), drawn(2));
    assert!(!drawn(1).is_sorted());
}

#[test]
fn company_that_cannot_be_routed_is_done_without() {
    let alone = |torus: &Torus, demand: &TorusDemand| match demand.jobs.iter().all(|job| job.id.is_some()) {
        true => by_bfs(torus, demand),
        false => Err(TorusRouteError::UnknownEngine("none for so many".into())),
    };
    let asked = Asked::new(&alone);
    let site = site(torus(&[4, 4], &[], &[]), Transit::Any);
    let planned = plan(&site, &[], &[job("1", &[0, 5])], &asked, &Limits::default()).unwrap();
    assert_eq!((ids(&planned), asked.company()), (vec!["1"], vec![vec![2; 7], vec![]]));
    // Who is refused without company is not tried a second time.
    let never = |_: &Torus, _: &TorusDemand| Err(TorusRouteError::UnknownEngine("none".into()));
    let asked = Asked::new(&never);
    let error = plan(&site, &[job("1", &[0, 5])], &[], &asked, &Limits::default()).unwrap_err();
    assert!(matches!(error, PlanError::Route(_)) && asked.company().len() == 1, "{error}");
}

#[test]
fn jobs_that_cannot_be_routed_are_left_out_and_the_others_are_routed() {
    let broken = torus(&[4, 4], &[[3, 3]], &[]);
    let there =
        [running("1", &[14, 15], &["+Y", "-Y"]), job("2", &[11, 15]), running("3", &[0, 4], &["+X", "-X"])];
    let starting = [job("4", &[12, 15]), job("5", &[1, 6])];
    let planned =
        plan(&site(broken, Transit::Any), &there, &starting, &Asked::new(&by_bfs), &Limits::default())
            .unwrap();
    assert_eq!((ids(&planned), &planned.changed), (vec!["3", "5"], &vec![1]));
    let refused: Vec<_> = planned.refused.iter().map(|(id, why)| (id.as_str(), why.as_str())).collect();
    assert_eq!(refused, [("4", "node n16 has failed")], "without the job, which whoever says it names");
    let cut: Vec<(&str, usize, bool)> =
        planned.cut.iter().map(|cut| (cut.job.as_str(), cut.routes, cut.lost.is_some())).collect();
    // The second one's routes are not known.
    assert_eq!(cut, [("1", 2, true), ("2", 0, true)]);
}

/// Packets of a job that is lost fly until it is over: with what is left of its routes the others' must be free of cycles.
#[test]
fn new_routes_must_go_with_those_of_a_job_that_is_lost() {
    let site = site(torus(&[3, 3], &[[0, 2]], &[]), Transit::Any);
    // From 0.0 along X at Y = 0, and then along Y at X = 1.
    let of = ["-Y", "+X,+Y", "+Y", "+X,-Y", "-X,-Y", "+Y,-X"];
    let lost = running("1", &[0, 2, 4], &of);
    let with = |of: &'static [&'static str]| {
        let answer = move |torus: &Torus, demand: &TorusDemand| by_hand(torus, demand, of);
        plan(
            &site,
            std::slice::from_ref(&lost),
            &[job("2", &[5, 6])],
            &Asked::new(&answer),
            &Limits::default(),
        )
    };
    let planned = with(&["+X,+Y", "-X,-Y"]).unwrap();
    assert_eq!((ids(&planned), planned.cut.len()), (vec!["2"], 1));
    assert!(planned.cut[0].lost.is_some() && planned.cut[0].routes == 4, "{:?}", planned.cut);
    // The other way round, from ring to ring: each is in order by itself.
    let error = with(&["F+Y,+X", "-X,-Y"]).unwrap_err();
    assert!(matches!(error, PlanError::Rejected(Some(_))), "{error}");
    let alone = plan(
        &site,
        &[],
        &[job("2", &[5, 6])],
        &Asked::new(&|torus, demand| by_hand(torus, demand, &["F+Y,+X", "-X,-Y"])),
        &Limits::default(),
    );
    assert!(alone.is_ok(), "{:?}", alone.err());
}

/// Routes that stay may have become longer than they need be, since a link was repaired. New ones may not be.
#[test]
fn new_routes_are_as_short_as_the_rules_allow() {
    let site = site(torus(&[3, 3], &[], &[]), Transit::Any);
    let long: &[&str] = &["-X,-X,-Y,-Y", "-X,-Y"];
    let answer = |torus: &Torus, demand: &TorusDemand| by_hand(torus, demand, long);
    let (there, starting) = (running("1", &[0, 1], &["+Y", "-Y"]), job("2", &[5, 6]));
    for running in [&[][..], &[there]] {
        let made =
            plan(&site, running, std::slice::from_ref(&starting), &Asked::new(&answer), &Limits::default());
        assert!(matches!(made, Err(PlanError::Rejected(Some(TorusFinding::Detour { .. })))), "{made:?}");
    }
    let made = plan(
        &site,
        &[running("2", &[5, 6], long)],
        &[job("3", &[0, 1])],
        &Asked::new(&by_bfs),
        &Limits::default(),
    );
    assert!(made.is_ok(), "{:?}", made.err());
}
