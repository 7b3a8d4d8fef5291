//! What the store must hold: bounds, not one answer.
//!
//! Invariants: `states` are the frames that whoever looks now must find, `durable` of them also after a loss of
//! power. Exactly one of `tails` stands behind them; which one is unknown until somebody looks.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{self, Gone, Held, Model, Step};

/// The truth, as far as anybody was told.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    /// After each frame; none where a repair gave frames up.
    pub(crate) states: Vec<Option<Arc<Model>>>,
    tails: Vec<Vec<Arc<Model>>>,
    pub(crate) durable: u64,
    /// Frames that repairs lost.
    pub(crate) gone: BTreeSet<u64>,
    /// The oldest frame that nobody tried to drop.
    pub(crate) oldest: u64,
    /// Frames that somebody tried to make the oldest.
    pub(crate) bases: BTreeSet<u64>,
}

pub(crate) type Check<T = ()> = Result<T, String>;

impl Truth {
    pub(crate) fn new() -> Truth {
        Truth {
            states: vec![Some(Arc::new(model::empty()))],
            tails: vec![Vec::new()],
            durable: 0,
            gone: BTreeSet::new(),
            oldest: 0,
            bases: BTreeSet::new(),
        }
    }

    /// The last frame that must be there.
    pub(crate) fn last(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// The last frame that there is at least: which of two histories led to the same state may be unknown for good.
    pub(crate) fn least(&self) -> u64 {
        self.last() + self.tails.iter().map(|tail| tail.len() as u64).min().unwrap_or_default()
    }

    /// Whether nothing stands behind it that may be there or not.
    pub(crate) fn is_known(&self) -> bool {
        self.tails.len() == 1 && self.tails[0].is_empty()
    }

    pub(crate) fn state(&self, frame: u64) -> Option<&Arc<Model>> {
        self.states.get(frame as usize).and_then(Option::as_ref)
    }

    fn end<'a>(&'a self, tail: &'a [Arc<Model>]) -> Option<&'a Arc<Model>> {
        tail.last().or(self.states.last().and_then(Option::as_ref))
    }

    /// What a tail may become by a step.
    fn after(&self, tail: &[Arc<Model>], at: usize, step: &Step) -> Vec<Vec<Arc<Model>>> {
        let Some(end) = self.end(tail) else { return vec![tail.to_vec()] };
        let mut next = Model::clone(end);
        // Those that look back are only asked for where every earlier state is known.
        let wrote = match step {
            Step::RestoreNote(..) | Step::RestoreRow(..) | Step::Rollback(_) => {
                let states: Vec<&Model> = self.states.iter().flatten().map(|state| &**state).collect();
                step.apply_to(&mut next, at, &states)
            }
            step => step.apply(&mut next[at]),
        };
        if !wrote {
            return vec![tail.to_vec()];
        }
        let unchanged = matches!(step, Step::Rollback(_)).then(|| tail.to_vec());
        [Some([tail, &[Arc::new(next)]].concat()), unchanged].into_iter().flatten().collect()
    }

    /// A step was taken, and the log now ends at a frame.
    pub(crate) fn wrote(
        &mut self,
        at: usize,
        step: &Step,
        last: u64,
        held: &dyn Fn() -> Option<Model>,
    ) -> Check {
        self.tails = self.tails.iter().flat_map(|tail| self.after(tail, at, step)).collect();
        self.found(last, held, false)
    }

    /// A step was taken, and whether it is there nobody knows.
    pub(crate) fn unknown(&mut self, at: usize, step: &Step) {
        let longer: Vec<_> = self.tails.iter().flat_map(|tail| self.after(tail, at, step)).collect();
        for tail in longer {
            if !is_among(&self.tails, &tail) {
                self.tails.push(tail);
            }
        }
    }

    /// One of several runs of frames was written, or may have been: each is what a workspace holds after it.
    pub(crate) fn grow(&mut self, at: usize, runs: &dyn Fn(&Held) -> Vec<Vec<Held>>) {
        let mut tails: Vec<Vec<Arc<Model>>> = Vec::new();
        for tail in &self.tails {
            // What is lost is not known, and neither is what comes of it.
            let Some(end) = self.end(tail) else {
                tails.push(tail.clone());
                continue;
            };
            for run in runs(&end[at]) {
                let with = |held| {
                    let mut model = Model::clone(end);
                    model[at] = held;
                    Arc::new(model)
                };
                let longer: Vec<_> = tail.iter().cloned().chain(run.into_iter().map(with)).collect();
                if !is_among(&tails, &longer) {
                    tails.push(longer);
                }
            }
        }
        self.tails = tails;
    }

    /// What is there now, if it is known.
    pub(crate) fn now(&self) -> Option<&Arc<Model>> {
        let mut ends = self.tails.iter().map(|tail| self.end(tail));
        let first = ends.next()??;
        ends.all(|end| end == Some(first)).then_some(first)
    }

    /// Somebody looks, and the log ends at a frame. Looks at what it holds, if it can, where that is in doubt or if told to.
    pub(crate) fn found(&mut self, last: u64, held: &dyn Fn() -> Option<Model>, look: bool) -> Check {
        let Some(more) = last.checked_sub(self.last()) else {
            return Err(format!("frame {last} is the last, and {} must be there", self.last()));
        };
        let mut fitting: Vec<_> = self.tails.iter().filter(|tail| tail.len() as u64 == more).collect();
        if fitting.is_empty() {
            let lengths: Vec<_> = self.tails.iter().map(|tail| self.last() + tail.len() as u64).collect();
            return Err(format!("frame {last} is the last, expected one of {lengths:?}"));
        }
        if (look || fitting.len() > 1)
            && let Some(held) = held()
        {
            fitting.retain(|tail| self.end(tail).is_none_or(|end| **end == held));
            if fitting.is_empty() {
                return Err(format!("frame {last} holds something else: {held:?}"));
            }
        }
        if fitting.len() > 1 && fitting.iter().any(|tail| *tail != fitting[0]) {
            self.tails = fitting.into_iter().cloned().collect();
            return Ok(());
        }
        let tail = fitting[0].clone();
        self.states.extend(tail.into_iter().map(Some));
        self.tails = vec![Vec::new()];
        Ok(())
    }

    /// A process says that the log is durable up to a frame, which may be one that nobody was told of.
    pub(crate) fn claimed(&mut self, durable: u64) -> Check {
        let more = durable.saturating_sub(self.last()) as usize;
        if more > 0 {
            self.tails.retain(|tail| tail.len() >= more);
            let Some(first) = self.tails.first().map(|tail| tail[..more].to_vec()) else {
                return Err(format!("frame {durable} is called durable, the last is {}", self.last()));
            };
            if self.tails.iter().any(|tail| tail[..more] != first) {
                return Ok(());
            }
            self.states.extend(first.into_iter().map(Some));
            self.tails.iter_mut().for_each(|tail| drop(tail.drain(..more)));
        }
        self.durable = self.durable.max(durable);
        Ok(())
    }

    /// What was not durable may be gone, from any frame on.
    pub(crate) fn lose(&mut self) {
        let unproved: Vec<_> = self.states.drain(self.durable as usize + 1..).flatten().collect();
        let mut tails: Vec<Vec<Arc<Model>>> = Vec::new();
        for tail in &self.tails {
            let whole = [unproved.as_slice(), tail].concat();
            for kept in 0..=whole.len() {
                if !is_among(&tails, &whole[..kept]) {
                    tails.push(whole[..kept].to_vec());
                }
            }
        }
        self.tails = tails;
    }

    /// Something was erased: no frame ever held it.
    pub(crate) fn erase(&mut self, gone: &Gone) {
        let tails = self.tails.iter_mut().flatten();
        for state in self.states.iter_mut().flatten().chain(tails) {
            gone.leave(Arc::make_mut(state));
        }
    }

    /// A repair gave frames up; the store ends at a frame and holds what it holds.
    pub(crate) fn give_up(&mut self, gone: &[u64], last: u64, held: Model) {
        let from = gone.first().copied().unwrap_or(last);
        self.gone.extend(gone);
        self.states.resize(last as usize + 1, None);
        self.states[from as usize..].fill(None);
        self.states[last as usize] = Some(Arc::new(held));
        self.tails = vec![Vec::new()];
        self.durable = last;
    }
}

/// Whether one of the tails is the same. One of which less is known may be equal, and is another.
fn is_among(tails: &[Vec<Arc<Model>>], tail: &[Arc<Model>]) -> bool {
    let as_known = |one: &Model, other: &Model| {
        one.iter().zip(other).all(|(one, other)| match (&one.shadow, &other.shadow) {
            (Some(one), Some(other)) => one.is_as_known_as(other),
            _ => true,
        })
    };
    let is_same = |other: &Vec<Arc<Model>>| {
        other[..] == *tail && other.iter().zip(tail).all(|(one, other)| as_known(one, other))
    };
    tails.iter().any(is_same)
}
