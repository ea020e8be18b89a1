//! A history, and the search for a cycle in it.
//!
//! Every row carries the number of the transaction that wrote it last, its version, and a transaction reads a
//! row before it writes it. So the reads determine the whole order. An edge leads from the earlier to the
//! later of two:
//!
//! ```text
//!   writer of v -> reader of v               wr
//!   writer of v -> who overwrote v           ww
//!   reader of v -> who overwrote v           rw
//!   ended       -> began after that          for snapshots, against everything
//! ```
//!
//! A snapshot is a reader of all rows. It shows a prefix of the order if and only if there is no cycle.

use std::collections::HashMap;

/// A transaction that has committed. Times are ticks of one clock.
pub(crate) struct Record {
    /// Not 0, which is the version of a row that no transaction has written.
    pub(crate) number: u64,
    /// Rows and the versions that were read, of those that were written too.
    pub(crate) read: Vec<(usize, u64)>,
    pub(crate) written: Vec<usize>,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// A snapshot: the version of each row, and when it was taken.
pub(crate) struct Cut {
    pub(crate) versions: Vec<u64>,
    pub(crate) called: u64,
    pub(crate) returned: u64,
}

/// The fault of a history, if it has one.
pub(crate) fn check(records: &[Record], cuts: &[Cut]) -> Result<(), String> {
    let mut graph = Graph::new(records, cuts)?;
    for (node, record) in records.iter().enumerate() {
        for (row, version) in &record.read {
            graph.reads(node, *row, *version)?;
        }
    }
    for (number, cut) in cuts.iter().enumerate() {
        let node = records.len() + number;
        for (row, version) in cut.versions.iter().enumerate() {
            graph.reads(node, row, *version)?;
        }
        for (other, record) in records.iter().enumerate() {
            graph.in_time(node, (cut.called, cut.returned), other, (record.began, record.ended));
        }
        for (other, later) in cuts.iter().enumerate().skip(number + 1) {
            let times = (later.called, later.returned);
            graph.in_time(node, (cut.called, cut.returned), records.len() + other, times);
        }
    }
    graph.acyclic()
}

struct Graph {
    names: Vec<String>,
    /// The node of the transaction with this number.
    writers: HashMap<u64, usize>,
    /// The transaction that overwrote a version of a row.
    overwriters: HashMap<(usize, u64), usize>,
    edges: Vec<Vec<usize>>,
}

impl Graph {
    fn new(records: &[Record], cuts: &[Cut]) -> Result<Graph, String> {
        let transactions = records.iter().map(|record| format!("transaction {}", record.number));
        let snapshots = (0..cuts.len()).map(|number| format!("snapshot {number}"));
        let names: Vec<String> = transactions.chain(snapshots).collect();
        let writers = records.iter().enumerate().map(|(node, record)| (record.number, node)).collect();
        let mut overwriters = HashMap::new();
        for (node, record) in records.iter().enumerate() {
            for (row, version) in record.read.iter().filter(|(row, _)| record.written.contains(row)) {
                if let Some(other) = overwriters.insert((*row, *version), node) {
                    let (one, other) = (&names[node], &names[other]);
                    return Err(format!("{one} and {other} both overwrote version {version} of row {row}"));
                }
            }
        }
        let edges = vec![Vec::new(); names.len()];
        Ok(Graph { names, writers, overwriters, edges })
    }

    fn reads(&mut self, node: usize, row: usize, version: u64) -> Result<(), String> {
        if version != 0 {
            let writer = self.writers.get(&version).ok_or_else(|| {
                format!("{} sees row {row} as {version}, which has not committed", self.names[node])
            })?;
            self.edges[*writer].push(node);
        }
        if let Some(overwriter) = self.overwriters.get(&(row, version)).filter(|other| **other != node) {
            self.edges[node].push(*overwriter);
        }
        Ok(())
    }

    /// An edge between two, one of which had ended when the other one began.
    fn in_time(&mut self, one: usize, (from, to): (u64, u64), other: usize, (began, ended): (u64, u64)) {
        if ended < from {
            self.edges[other].push(one);
        } else if to < began {
            self.edges[one].push(other);
        }
    }

    /// Repeatedly removes a node to which no edge leads. If nodes remain, they have a cycle.
    fn acyclic(&self) -> Result<(), String> {
        let mut before = vec![0; self.names.len()];
        self.edges.iter().flatten().for_each(|to| before[*to] += 1);
        let mut free: Vec<usize> = (0..before.len()).filter(|node| before[*node] == 0).collect();
        while let Some(node) = free.pop() {
            for to in &self.edges[node] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        let Some(start) = (0..before.len()).find(|node| before[*node] > 0) else { return Ok(()) };
        Err(format!("no order: {}", self.cycle(start, &before)))
    }

    /// A cycle among the nodes with something before them: walked backwards until a node comes again.
    fn cycle(&self, start: usize, before: &[usize]) -> String {
        let predecessor = |node: usize| {
            (0..before.len()).find(|from| before[*from] > 0 && self.edges[*from].contains(&node)).unwrap()
        };
        let mut path = vec![start];
        loop {
            let next = predecessor(path[path.len() - 1]);
            if let Some(at) = path.iter().position(|node| *node == next) {
                path.push(next);
                let names: Vec<&str> =
                    path[at..].iter().rev().map(|node| self.names[*node].as_str()).collect();
                return names.join(" -> ");
            }
            path.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, read: &[(usize, u64)], written: &[usize]) -> Record {
        Record { number, read: read.to_vec(), written: written.to_vec(), began: 0, ended: 100 }
    }

    fn cut(versions: &[u64]) -> Cut {
        Cut { versions: versions.to_vec(), called: 10, returned: 20 }
    }

    #[test]
    fn a_prefix_is_accepted_and_a_mixture_is_not() {
        let records = [record(1, &[(0, 0), (1, 0)], &[0, 1]), record(2, &[(0, 1)], &[0])];
        for versions in [[0, 0], [1, 1], [2, 1]] {
            assert_eq!(check(&records, &[cut(&versions)]), Ok(()));
        }
        for versions in [[0, 1], [1, 0], [2, 0]] {
            assert!(check(&records, &[cut(&versions)]).unwrap_err().contains("snapshot 0"), "{versions:?}");
        }
    }

    #[test]
    fn a_snapshot_without_what_was_read_before_a_write_that_it_has_is_rejected() {
        // 1 read row 0 before 2 wrote it, and wrote row 1.
        let records = [record(1, &[(0, 0), (1, 0)], &[1]), record(2, &[(0, 0)], &[0])];
        assert!(check(&records, &[cut(&[2, 0])]).is_err());
        assert_eq!(check(&records, &[cut(&[0, 1])]), Ok(()));
    }

    #[test]
    fn lost_updates_and_what_never_committed_are_rejected() {
        let twice = [record(1, &[(0, 0)], &[0]), record(2, &[(0, 0)], &[0])];
        assert!(check(&twice, &[]).unwrap_err().contains("both overwrote"));
        assert!(check(&[], &[cut(&[7])]).unwrap_err().contains("has not committed"));
    }

    #[test]
    fn a_snapshot_is_of_its_time() {
        let early = Record { ended: 5, ..record(1, &[(0, 0)], &[0]) };
        assert!(check(&[early], &[cut(&[0])]).is_err());
        let late = Record { began: 30, ..record(1, &[(0, 0)], &[0]) };
        assert!(check(&[late], &[cut(&[1])]).is_err());
        let later = Cut { called: 30, returned: 40, ..cut(&[0]) };
        let between = record(1, &[(0, 0)], &[0]);
        assert!(check(&[between], &[cut(&[1]), later]).is_err());
    }
}
