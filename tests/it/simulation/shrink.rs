//! The shortest history that still fails: leaves out as many actions as it can, and all that fail or crash first.

use super::history::{Action, History};

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
        if best.actions.len() == before {
            return best;
        }
    }
}
