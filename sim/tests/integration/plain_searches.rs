//! The plain searches with which the benchmark `search` compares `optimal`.

use coexec_sim::device::Profile;
use coexec_sim::explore::{Explorer, RandomSearch, SearchOptions};
use coexec_sim::kernel::Library;
use coexec_sim::simulate::Simulator;
use coexec_sim::workload::{fuse, network};

#[path = "../../benches/search/genetic.rs"]
mod genetic;
#[path = "../../benches/search/greedy.rs"]
mod greedy;

#[test]
fn the_genetic_search_beats_random_search_and_is_deterministic() {
    let profile = Profile::load("pixel4").unwrap();
    let stages = fuse(&network("resnet18").unwrap());
    let options = SearchOptions::on(&profile);
    let mut simulator = Simulator::new(&profile, Library::Xnnpack);
    let mut explorer = Explorer::new(&mut simulator, &stages, &options);
    let search = RandomSearch { plans: 600, seed: 3 };
    let drawn = explorer.random(search).unwrap().plan;
    let [one, again] = [0; 2].map(|_| genetic::find(&mut explorer, search).unwrap());
    assert_eq!(one, again);
    assert!(explorer.cost_of(&one).unwrap() < explorer.cost_of(&drawn).unwrap());
    let greedy = greedy::find(&mut explorer, 600).unwrap();
    assert!(explorer.cost_of(&greedy).unwrap() < explorer.cost_of(&drawn).unwrap());
}
