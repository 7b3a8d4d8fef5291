//! The tree above the leaves: which leaf a key belongs to.
//!
//! Invariants: between two neighbours of a node stands a key that is not after the first of the right one and after
//! the last of the left one, so that there is one key less than there are children. All leaves are equally deep. A
//! node that others share is copied before it is changed.

use std::sync::Arc;

use super::keys::{DIGESTS_MAX, Keys};
use super::leaf::Leaf;
use super::{Order, Record, Wanted};

/// A node with more children is split. Looking a key up asks memory for two places in each node, one after the other,
/// so few wide nodes are found through faster.
const CHILDREN_MAX: usize = DIGESTS_MAX;

/// A node.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    between: Keys,
    below: Below,
}

#[derive(Clone, Debug)]
enum Below {
    Leaves(Vec<Leaf>),
    Nodes(Vec<Arc<Node>>),
}

impl Default for Below {
    fn default() -> Self {
        Below::Leaves(Vec::new())
    }
}

impl Below {
    fn len(&self) -> usize {
        match self {
            Below::Leaves(leaves) => leaves.len(),
            Below::Nodes(nodes) => nodes.len(),
        }
    }
}

impl Node {
    /// A tree of leaves in their order, each with its first key.
    pub(super) fn build<O: Order>(leaves: Vec<(&[u8], Leaf)>) -> Node {
        let mut level = parents::<O, _, _>(leaves, Below::Leaves);
        while level.len() > 1 {
            level = parents::<O, _, _>(level, Below::Nodes);
        }
        level.pop().map(|(_, node)| Arc::unwrap_or_clone(node)).unwrap_or_default()
    }

    /// The leaf that has a key, if any has.
    pub(super) fn leaf<O: Order>(&self, wanted: &Wanted<'_, O>) -> Option<&Leaf> {
        let mut node = self;
        loop {
            let place = node.between.place(wanted);
            match &node.below {
                Below::Leaves(leaves) => return leaves.get(place),
                Below::Nodes(nodes) => node = nodes.get(place)?,
            }
        }
    }

    /// The last leaf.
    pub(super) fn last_leaf(&self) -> Option<&Leaf> {
        let mut node = self;
        loop {
            match &node.below {
                Below::Leaves(leaves) => return leaves.last(),
                Below::Nodes(nodes) => node = nodes.last()?,
            }
        }
    }

    /// Every leaf, in order.
    pub(super) fn leaves(&self) -> Box<dyn DoubleEndedIterator<Item = &Leaf> + '_> {
        match &self.below {
            Below::Leaves(leaves) => Box::new(leaves.iter()),
            Below::Nodes(nodes) => Box::new(nodes.iter().flat_map(|node| node.leaves())),
        }
    }

    /// Changes the leaf of a key, or the last one: `change` answers the leaves that come to stand behind it. A leaf
    /// that becomes empty goes.
    pub(super) fn change<O: Order, R: Record>(
        root: &mut Arc<Node>,
        wanted: Option<&Wanted<'_, O>>,
        change: impl FnOnce(&mut Leaf) -> Vec<Leaf>,
    ) {
        let node = Arc::make_mut(root);
        if node.below.len() == 0 {
            *node = Node { between: Keys::default(), below: Below::Leaves(vec![Leaf::default()]) };
        }
        if let Some((between, right)) = node.change_below::<O, R, _>(wanted, change) {
            let left = std::mem::take(node);
            node.below = Below::Nodes(vec![Arc::new(left), right]);
            node.between.insert::<O>(0, &between);
        }
        while let Below::Nodes(nodes) = &mut node.below
            && nodes.len() == 1
            && let Some(only) = nodes.pop()
        {
            *node = Arc::unwrap_or_clone(only);
        }
    }

    /// Answers the node that comes to stand behind this one because it got too many children.
    fn change_below<O: Order, R: Record, F: FnOnce(&mut Leaf) -> Vec<Leaf>>(
        &mut self,
        wanted: Option<&Wanted<'_, O>>,
        change: F,
    ) -> Option<(Vec<u8>, Arc<Node>)> {
        let place = wanted.map_or(self.between.len(), |wanted| self.between.place(wanted));
        let Node { between, below } = self;
        let is_empty = match below {
            Below::Leaves(leaves) => {
                let leaf = leaves.get_mut(place)?;
                for (behind, leaf) in (1..).zip(change(leaf)) {
                    between.insert::<O>(place + behind - 1, leaf.first_key());
                    leaves.insert(place + behind, leaf);
                }
                self.tidy_leaf::<O, R>(place)
            }
            Below::Nodes(nodes) => {
                let node = Arc::make_mut(nodes.get_mut(place)?);
                let grown = node.change_below::<O, R, F>(wanted, change);
                let is_empty = node.below.len() == 0;
                if let Some((key, right)) = grown {
                    between.insert::<O>(place, &key);
                    nodes.insert(place + 1, right);
                }
                is_empty
            }
        };
        if is_empty {
            self.remove::<O>(place);
        }
        self.split::<O>()
    }

    /// Joins a leaf with the one behind it if both are small. Answers whether the leaf is empty.
    fn tidy_leaf<O: Order, R: Record>(&mut self, place: usize) -> bool {
        let Below::Leaves(leaves) = &mut self.below else { return false };
        let (_, rest) = leaves.split_at_mut_checked(place).unwrap_or_default();
        let [leaf, behind @ ..] = rest else { return false };
        if leaf.is_empty() {
            return true;
        }
        if behind.first().is_some_and(|next| leaf.absorb::<R>(next)) {
            self.remove::<O>(place + 1);
        }
        false
    }

    fn remove<O: Order>(&mut self, place: usize) {
        self.between.remove::<O>(place.saturating_sub(1));
        match &mut self.below {
            Below::Leaves(leaves) => drop(leaves.remove(place)),
            Below::Nodes(nodes) => drop(nodes.remove(place)),
        }
    }

    fn split<O: Order>(&mut self) -> Option<(Vec<u8>, Arc<Node>)> {
        if self.below.len() <= CHILDREN_MAX {
            return None;
        }
        // Keys that come in order leave nodes behind that are nearly full.
        let half = self.below.len() * 3 / 4;
        let (between, right) = self.between.split::<O>(half - 1);
        let below = match &mut self.below {
            Below::Leaves(leaves) => Below::Leaves(leaves.split_off(half)),
            Below::Nodes(nodes) => Below::Nodes(nodes.split_off(half)),
        };
        Some((between, Arc::new(Node { between: right, below })))
    }
}

/// The nodes above a level of the tree, each with its first key.
fn parents<O: Order, K: AsRef<[u8]>, T>(
    level: Vec<(K, T)>,
    below: impl Fn(Vec<T>) -> Below,
) -> Vec<(K, Arc<Node>)> {
    let mut nodes = Vec::with_capacity(level.len().div_ceil(CHILDREN_MAX));
    let mut level = level.into_iter();
    while let Some((first, child)) = level.next() {
        let (mut between, mut children) = (Keys::default(), vec![child]);
        for (key, child) in level.by_ref().take(CHILDREN_MAX - 1) {
            between.insert::<O>(usize::MAX, key.as_ref());
            children.push(child);
        }
        nodes.push((first, Arc::new(Node { between, below: below(children) })));
    }
    nodes
}
