//! Rules written down: as few as Redis 7.0 needs, and such that reading them back gives the same user.

use crate::acl::catalog::{CATEGORIES, Catalog};
use crate::acl::selector::{Access, Commands, KeyPattern, Selector};
use crate::acl::user::User;

impl User {
    /// Its flags, in the order of Redis.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        flags.extend(self.no_password.then_some("nopass"));
        flags.extend(
            self.sanitizes.map(|does| if does { "sanitize-payload" } else { "skip-sanitize-payload" }),
        );
        flags
    }

    /// All of its rules, as a line behind its name.
    pub fn describe(&self, catalog: &Catalog) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for hash in self.hashes() {
            text.extend_from_slice(format!("#{hash} ").as_bytes());
        }
        text.extend_from_slice(&self.root.describe(catalog));
        for selector in &self.others {
            text.extend_from_slice(b" (");
            text.extend_from_slice(&selector.describe(catalog));
            text.push(b')');
        }
        text
    }

    /// The line of a file that makes it.
    pub fn line(&self, catalog: &Catalog) -> Vec<u8> {
        [&b"user "[..], &self.name, b" ", &self.describe(catalog)].concat()
    }
}

impl Selector {
    /// Its rules.
    pub fn describe(&self, catalog: &Catalog) -> Vec<u8> {
        let mut text = Vec::new();
        if self.all_keys || !self.keys.is_empty() {
            text.extend_from_slice(&self.describe_keys());
            text.push(b' ');
        }
        if !self.all_channels {
            text.extend_from_slice(b"resetchannels ");
        }
        if self.all_channels || !self.channels.is_empty() {
            text.extend_from_slice(&self.describe_channels());
            text.push(b' ');
        }
        if let Some(databases) = self.describe_databases() {
            text.extend_from_slice(databases.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(&self.describe_commands(catalog));
        text
    }

    /// The patterns of its keys.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let text = |own: &KeyPattern| {
            let head: &[u8] = match own.access {
                Access::READ => b"%R~",
                Access::WRITE => b"%W~",
                // Redis writes `~*`, which is read back as `allkeys`: no pattern may follow that.
                _ if *own.pattern == *b"*" => b"%RW~",
                _ => b"~",
            };
            [head, &own.pattern].concat()
        };
        self.keys.iter().map(text).collect::<Vec<_>>().join(&b' ')
    }

    /// The patterns of its channels.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let texts = self.channels.iter().map(|own| [&b"&"[..], own].concat());
        texts.collect::<Vec<_>>().join(&b' ')
    }

    /// Its databases, unless it has all.
    pub fn describe_databases(&self) -> Option<String> {
        let databases = self.databases.as_ref()?;
        if databases.is_empty() {
            return Some("resetdbs".to_owned());
        }
        let numbers: Vec<String> = databases.iter().map(u32::to_string).collect();
        Some(format!("db={}", numbers.join(",")))
    }

    /// The rules of its commands: first all or none, then the categories that fit best, then what these have
    /// left over. Made as Redis 7.0 makes them.
    pub fn describe_commands(&self, catalog: &Catalog) -> Vec<u8> {
        let adds = !self.future;
        let mut text = if adds { b"-@all".to_vec() } else { b"+@all".to_vec() };
        let mut made = Commands::filled(catalog.len(), !adds);
        let mut left = self.commands.clone();
        let mut applied = vec![false; CATEGORIES.len()];
        while let Some(best) = best_category(catalog, &left, &applied, adds) {
            for number in catalog.of_category(best) {
                made.change(catalog, number, adds);
                left.change(catalog, number, !adds);
            }
            text.extend_from_slice(if adds { b" +" } else { b" -" });
            text.extend_from_slice(CATEGORIES[best].as_bytes());
            applied[best] = true;
        }
        for (number, listed) in catalog.shown() {
            let allowed = self.commands.has(number);
            if allowed != made.has(number) {
                text.extend_from_slice(if allowed { b" +" } else { b" -" });
                text.extend_from_slice(listed.name.as_bytes());
                made.change(catalog, number, allowed);
            }
            if !allowed {
                for first_arg in self.first_args.get(&number).into_iter().flatten() {
                    text.extend_from_slice(format!(" +{}|", listed.name).as_bytes());
                    text.extend_from_slice(first_arg);
                }
            }
        }
        text
    }
}

/// The category with the fewest commands that do not fit, and then with the most that do, if more do than do
/// not.
fn best_category(catalog: &Catalog, left: &Commands, applied: &[bool], adds: bool) -> Option<usize> {
    let (mut best, mut diff_min, mut same_max) = (None, usize::MAX, 0);
    for category in (0..CATEGORIES.len()).filter(|category| !applied[*category]) {
        let (mut same, mut diff) = (0, 0);
        for number in catalog.of_category(category) {
            *(if left.has(number) == adds { &mut same } else { &mut diff }) += 1;
        }
        if same > diff && (diff < diff_min || diff == diff_min && same > same_max) {
            (best, diff_min, same_max) = (Some(category), diff, same);
        }
    }
    best
}
