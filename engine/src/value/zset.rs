//! Sorted sets: members ordered by score, then by their bytes; each with the `Lsn` of its newest record.
//!
//! A packed one is kept in its order. A large one is two trees: an index by member, with scores and `Lsn`s,
//! and a ranking in order.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::Scanned;
use super::form::Form;
use super::packed::{self, Buffer, Item, Layout, RANKED, Varint, ZSET, lsn_bytes};
use super::scattered::{ByPosition, ScoreOrder};
use super::tree::{Branch, Child, Order, Probe, Tree};
use crate::record::Lsn;

/// A sorted set, borrowed from its entry.
#[derive(Clone, Copy)]
pub struct ZSetRef<'a> {
    /// The members by name.
    pub(crate) index: Form<'a, ScoreOrder>,
    /// The members in order; the same bytes if packed.
    pub(crate) ranking: Form<'a, RankOrder>,
}

fn scored<'a>(item: Item<'a>) -> (&'a [u8], f64) {
    (item.name, item.score())
}

impl<'a> ZSetRef<'a> {
    /// How many members there are; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The score of a member.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.index.find(member).map(|item| item.score())
    }

    /// How many members stand before this one.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.lower_bound(|item_score, name| compare((item_score, name), (score, member)).is_lt()))
    }

    /// The member at `index`, lowest first, and its score.
    pub fn get(&self, index: usize) -> Option<(&'a [u8], f64)> {
        self.ranking.get(index).map(scored)
    }

    /// The members from `index` up.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = (&'a [u8], f64)> + use<'a> {
        self.ranking.walk_from(index).map(scored)
    }

    /// The members from `index` down; from the highest if there are not so many.
    pub fn rev_iter_from(&self, index: usize) -> impl Iterator<Item = (&'a [u8], f64)> + use<'a> {
        self.ranking.walk_back_from(index).map(scored)
    }

    /// How many members have a score below `score`; if `exclusive`, at most `score`. So it is the index of
    /// the first member from there on.
    pub fn lower_bound_score(&self, score: f64, exclusive: bool) -> usize {
        self.lower_bound(|item_score, _| item_score < score || exclusive && item_score == score)
    }

    /// How many members stand before `member` by their bytes; if `exclusive`, or are it. Means something only
    /// where all scores are the same.
    pub fn lower_bound_lex(&self, member: &[u8], exclusive: bool) -> usize {
        let score = self.get(0).map_or(0.0, |(_, score)| score);
        self.lower_bound(|item_score, name| match compare((item_score, name), (score, member)) {
            Ordering::Less => true,
            Ordering::Equal => exclusive,
            Ordering::Greater => false,
        })
    }

    /// How many members `before` holds for. REQUIRES: it holds for a front part of the order, separators
    /// included.
    fn lower_bound(&self, before: impl Fn(f64, &[u8]) -> bool) -> usize {
        match self.ranking {
            Form::Packed { layout, bytes, .. } => front_len(layout, bytes, &before),
            Form::Tree(tree) => {
                let mut probe = Front { before: &before, passed: 0 };
                let leaf = tree.seek(&mut probe);
                probe.passed + front_len(RANKED, leaf, &before)
            }
        }
    }

    /// One step of a scan: about `count` members from `cursor`, and the cursor to go on with, 0 at the end. A
    /// member that is there during the whole scan is returned at least once, however the sorted set changes
    /// meanwhile.
    pub fn scan(&self, cursor: u64, count: usize) -> Scanned<(&'a [u8], f64)> {
        self.index.scan(cursor, count, scored)
    }

    /// A member, chosen by a uniform random number.
    pub fn sample(&self, random: u64) -> Option<(&'a [u8], f64)> {
        self.index.sample(random).map(scored)
    }
}

/// The order of sorted sets: by score, where 0 and -0 are the same, then by bytes. REQUIRES: no score is NaN.
pub(crate) fn compare(a: (f64, &[u8]), b: (f64, &[u8])) -> Ordering {
    a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(b.1))
}

/// How many elements at the front `before` holds for.
fn front_len(layout: Layout, bytes: &[u8], before: &impl Fn(f64, &[u8]) -> bool) -> usize {
    packed::items(layout, bytes).take_while(|item| before(item.score(), item.name)).count()
}

/// Appends a member with its score, packed.
pub(crate) fn pack(bytes: &mut Vec<u8>, member: &[u8], score: f64, lsn: Lsn) {
    bytes.extend_from_slice(&lsn_bytes(lsn));
    bytes.extend_from_slice(&score.to_le_bytes());
    bytes.extend_from_slice(Varint::new(member.len()).as_slice());
    bytes.extend_from_slice(member);
}

/// Where an element belongs in sorted elements.
fn place(layout: Layout, bytes: &[u8], score: f64, member: &[u8]) -> usize {
    packed::items(layout, bytes)
        .find(|item| compare((item.score(), item.name), (score, member)).is_gt())
        .map_or(bytes.len(), |item| item.at)
}

/// Gives a member of a packed sorted set a score; the `Lsn` that it had.
pub(crate) fn put(buffer: &mut impl Buffer, member: &[u8], score: f64, lsn: Lsn) -> Option<Lsn> {
    let layout = buffer.admit(ZSET, lsn);
    let (len, lsn, score_bytes) = (Varint::new(member.len()), layout.lsn_bytes(lsn), score.to_le_bytes());
    let head = [lsn.as_slice(), &score_bytes];
    let Some(item) = packed::find(layout, buffer.bytes(), member) else {
        let at = place(layout, buffer.bytes(), score, member);
        buffer.insert(at, &[head[0], head[1], len.as_slice(), member]);
        return None;
    };
    let (range, old) = (item.range(), item.lsn());
    if item.score() == score {
        buffer.splice(range.start..range.start + layout.prefix, &head);
        return Some(old);
    }
    // It changes places with those between: the same bytes in all, so that nothing is allocated.
    let at = place(layout, buffer.bytes(), score, member);
    let whole = [head[0], head[1], len.as_slice(), member];
    if at > range.start {
        let between: SmallVec<[u8; 1024]> = SmallVec::from_slice(&buffer.bytes()[range.end..at]);
        buffer.splice(range.start..at, &[&between, whole[0], whole[1], whole[2], whole[3]]);
    } else {
        let between: SmallVec<[u8; 1024]> = SmallVec::from_slice(&buffer.bytes()[at..range.start]);
        buffer.splice(at..range.end, &[whole[0], whole[1], whole[2], whole[3], &between]);
    }
    Some(old)
}

/// Gives a member of a leaf of the index a score; the `Lsn` and the score that it had.
fn put_indexed(buffer: &mut impl Buffer, member: &[u8], score: f64, lsn: Lsn) -> Option<(Lsn, f64)> {
    let (len, lsn, score) = (Varint::new(member.len()), lsn_bytes(lsn), score.to_le_bytes());
    match packed::find(ZSET, buffer.bytes(), member).map(|item| (item.at, item.lsn(), item.score())) {
        Some((at, old, old_score)) => {
            buffer.splice(at..at + ZSET.prefix, &[&lsn, &score]);
            Some((old, old_score))
        }
        None => {
            buffer.insert(buffer.bytes().len(), &[&lsn, &score, len.as_slice(), member]);
            None
        }
    }
}

/// The order of the ranking.
pub(crate) struct RankOrder;

/// Not above what is right of it, and above all that is left of it; the member is as short as will do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Separator {
    pub(crate) score: f64,
    pub(crate) member: SmallVec<[u8; 16]>,
}

impl Order for RankOrder {
    const LAYOUT: Layout = RANKED;
    const LEAF_BYTES_MAX: usize = 1008;
    const SORTED: bool = true;
    type Separator = Separator;

    fn separate(left: &Item<'_>, right: &Item<'_>) -> Option<Separator> {
        let score = right.score();
        if left.score() < score {
            return Some(Separator { score, member: SmallVec::new() });
        }
        let same = left.name.iter().zip(right.name).take_while(|(a, b)| a == b).count();
        Some(Separator { score, member: SmallVec::from_slice(&right.name[..same + 1]) })
    }
}

/// The way to where a predicate that holds for a front part of the order ends to hold.
struct Front<'a, F> {
    before: &'a F,
    /// Elements left of the node that was reached.
    passed: usize,
}

impl<F: Fn(f64, &[u8]) -> bool> Probe<RankOrder> for Front<'_, F> {
    fn pick(&mut self, branch: &Branch<RankOrder>) -> usize {
        let before = |child: &Child<RankOrder>| (self.before)(child.separator.score, &child.separator.member);
        let child = branch.children[1..].partition_point(before);
        self.passed += branch.counts[..child].iter().sum::<usize>();
        child
    }
}

/// The way to a member.
struct ByRank<'a> {
    score: f64,
    member: &'a [u8],
}

impl Probe<RankOrder> for ByRank<'_> {
    fn pick(&mut self, branch: &Branch<RankOrder>) -> usize {
        let key = (self.score, self.member);
        let before =
            |child: &Child<RankOrder>| compare((child.separator.score, &child.separator.member), key).is_le();
        branch.children[1..].partition_point(before)
    }
}

impl Tree<RankOrder> {
    fn insert(&mut self, score: f64, member: &[u8]) {
        let (len, score_bytes) = (Varint::new(member.len()), score.to_le_bytes());
        self.edit(&mut ByRank { score, member }, |leaf, _| {
            let at = place(RANKED, leaf.bytes(), score, member);
            leaf.insert(at, &[&score_bytes, len.as_slice(), member]);
        });
    }

    fn remove(&mut self, score: f64, member: &[u8]) {
        self.edit(&mut ByRank { score, member }, |leaf, _| {
            let found = packed::find(RANKED, leaf.bytes(), member).map(|item| item.range());
            leaf.remove(found.expect("the ranking has what the index has"), 1);
        });
    }
}

/// New trees are built rather than those that are there changed, where so many times the new members are more
/// than there are.
const MANY: usize = 4;

/// A large sorted set.
#[derive(Clone)]
pub(crate) struct ZSetTrees {
    pub(crate) index: Tree<ScoreOrder>,
    pub(crate) ranking: Tree<RankOrder>,
}

impl ZSetTrees {
    /// The sorted set of these members, in any order; of those with one name, the last counts.
    pub(crate) fn build<'a>(items: impl Iterator<Item = Item<'a>>) -> ZSetTrees {
        ZSetTrees::of(Tree::build_scattered(items))
    }

    /// The sorted set of the members in `index`.
    fn of(index: Tree<ScoreOrder>) -> ZSetTrees {
        let mut ranked: Vec<_> = index.walk_from(0).map(scored).collect();
        ranked.sort_unstable_by(|a, b| compare((a.1, a.0), (b.1, b.0)));
        let mut bytes = Vec::new();
        for (member, score) in ranked {
            bytes.extend_from_slice(&score.to_le_bytes());
            bytes.extend_from_slice(Varint::new(member.len()).as_slice());
            bytes.extend_from_slice(member);
        }
        let ranking = Tree::build(packed::items(RANKED, &bytes));
        ZSetTrees { index, ranking }
    }

    /// Gives packed members their scores in turn, and builds the trees again if they are many; `replaced` is
    /// told the `Lsn`s that they had. Returns the longest member that was not there.
    pub(crate) fn put_all<'m>(
        &mut self,
        members: &'m [u8],
        mut replaced: impl FnMut(Lsn),
    ) -> Option<&'m [u8]> {
        let mut longest: Option<&[u8]> = None;
        let mut note = |member: &'m [u8]| {
            if longest.is_none_or(|longest| longest.len() < member.len()) {
                longest = Some(member);
            }
        };
        let items = packed::items(ZSET, members);
        if items.clone().count() < self.index.len() / MANY {
            for item in items {
                match self.put(item.name, item.score(), item.lsn()) {
                    Some(old) => replaced(old),
                    None => note(item.name),
                }
            }
        } else {
            let index = self.index.with_scattered(items, replaced, note);
            *self = ZSetTrees::of(index);
        }
        longest
    }

    /// Gives a member a score; the `Lsn` that it had.
    pub(crate) fn put(&mut self, member: &[u8], score: f64, lsn: Lsn) -> Option<Lsn> {
        let mut probe = ByPosition::of(member);
        let old = self.index.edit(&mut probe, |leaf, _| put_indexed(leaf, member, score, lsn));
        match old {
            Some((_, old_score)) if old_score.to_bits() == score.to_bits() => {}
            Some((_, old_score)) => {
                self.ranking.remove(old_score, member);
                self.ranking.insert(score, member);
            }
            None => self.ranking.insert(score, member),
        }
        old.map(|(lsn, _)| lsn)
    }

    /// Takes out a member; the `Lsn` that it had.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<Lsn> {
        let score = self.index.find(member)?.score();
        self.ranking.remove(score, member);
        self.index.remove(member)
    }
}
