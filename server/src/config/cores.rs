//! Lists of cores, as Redis writes them.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::error::ValueError;
use super::kinds::{Phase, Stored};
use super::shape::Value;

/// Cores that threads are confined to: `0,2-5,8-15:2`, the last for every second one. Empty: no confinement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cores {
    text: String,
    numbers: Vec<usize>,
}

impl Cores {
    fn read(text: &str) -> Option<Cores> {
        let mut numbers = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (range, step) =
                part.split_once(':').map_or((part, Some(1)), |(range, step)| (range, core(step)));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last, step) = (core(first)?, core(last)?, step.filter(|&step| step > 0)?);
            if first > last {
                return None;
            }
            numbers.extend((first..=last).step_by(step));
        }
        numbers.sort_unstable();
        numbers.dedup();
        Some(Cores { text: text.to_owned(), numbers })
    }

    /// How many of them this thread may run on; `None` if it is not to be confined.
    pub fn available(&self) -> Option<usize> {
        let allowed = sched_getaffinity(None).ok()?;
        let available = self.numbers.iter().filter(|&&number| allowed.is_set(number)).count();
        Some(available).filter(|_| !self.numbers.is_empty())
    }

    /// Confines this thread, and those that it starts from now on.
    pub fn confine(&self) -> io::Result<()> {
        if self.numbers.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        for &number in &self.numbers {
            set.set(number);
        }
        Ok(sched_setaffinity(None, &set)?)
    }
}

fn core(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number: &usize| is_number && number < CpuSet::MAX_CPU)
}

impl Stored for Cores {
    fn to_value(&self) -> Value {
        Value::Text(self.text.clone().into_bytes())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let Value::Text(text) = value else { return Err(ValueError::ArgumentCount) };
        let read = std::str::from_utf8(&text).ok().and_then(Cores::read);
        *self = read.ok_or(ValueError::NotCores { cores: CpuSet::MAX_CPU })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_list_has_numbers_ranges_and_steps() {
        let numbers = |text| Cores::read(text).map(|cores| cores.numbers);
        assert_eq!(numbers(""), Some(vec![]));
        assert_eq!(numbers("3"), Some(vec![3]));
        assert_eq!(numbers("0,2-4,8-15:3"), Some(vec![0, 2, 3, 4, 8, 11, 14]));
        for wrong in [
            " ",
            ",",
            "1,",
            "-",
            "1-",
            "-1",
            "4-2",
            "0-7:0",
            "0-7:",
            "0:x",
            "1024",
            "+1",
            "1 2",
            "99999999999999999999",
        ] {
            assert_eq!(numbers(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_thread_is_confined() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).unwrap();
        let cores = Cores::read(&first.to_string()).unwrap();
        assert_eq!(cores.available(), Some(1));
        std::thread::spawn(move || {
            cores.confine().unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert_eq!((now.count(), now.is_set(first)), (1, true));
        })
        .join()
        .unwrap();
        assert_eq!(Cores::default().available(), None);
    }
}
