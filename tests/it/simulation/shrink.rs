//! The shortest history that still fails: leaves out as many actions as it can, and all that fail or crash first.

use super::history::{Action, History, Within};

/// How many histories are tried.
const TRIES: usize = 4000;

/// Leaves out ever smaller runs of actions, as long as the history still fails.
pub(crate) fn shrink(history: &History, fails: &dyn Fn(&History) -> bool) -> History {
    let mut best = history.clone();
    let mut tries = 0;
    let mut attempt = |actions: Vec<Action>, best: &mut History| {
        tries += 1;
        let shorter = History { actions, ..best.clone() };
        let better = tries <= TRIES && fails(&shorter);
        if better {
            *best = shorter;
        }
        better
    };
    loop {
        let before = best.actions.len();
        let mut run = before.div_ceil(2);
        while run > 0 {
            let mut from = 0;
            while from < best.actions.len() {
                let mut actions = best.actions.clone();
                actions.drain(from..(from + run).min(actions.len()));
                if !attempt(actions, &mut best) {
                    from += run;
                }
            }
            run /= 2;
        }
        let inside = |history: &History| history.actions.iter().map(acts_within).sum::<usize>();
        let acts = inside(&best);
        for at in 0..best.actions.len() {
            for simpler in simpler(&best.actions[at]) {
                let mut actions = best.actions.clone();
                actions[at] = simpler;
                attempt(actions, &mut best);
            }
        }
        if best.actions.len() == before && inside(&best) == acts {
            return best;
        }
    }
}

/// How much happens within an action.
fn acts_within(action: &Action) -> usize {
    match action {
        Action::Reembed { within, .. } => {
            within.len() + within.iter().filter(|within| !matches!(within, Within::Nothing)).count()
        }
        _ => 0,
    }
}

/// An action with one thing less that happens within it.
fn simpler(action: &Action) -> Vec<Action> {
    let Action::Reembed { process, at, dim, within } = action else { return Vec::new() };
    let with = |within| Action::Reembed { process: *process, at: *at, dim: *dim, within };
    let mut all = vec![with(within[..within.len().saturating_sub(1)].to_vec())];
    for at in 0..within.len() {
        let mut fewer = within.clone();
        fewer[at] = Within::Nothing;
        all.push(with(fewer));
    }
    all
}
