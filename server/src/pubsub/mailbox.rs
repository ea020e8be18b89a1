//! The messages on their way to the clients of one worker.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tarn_engine::lock::Mutex;
use tokio::sync::Notify;

use crate::pubsub::message::Delivery;

/// Bytes of messages, and of lists of clients, from which on who publishes is asked to try again.
const BYTES_MAX: usize = 32 << 20;
/// Bytes of messages that are taken at once, about.
const TAKEN_BYTES: usize = 1 << 20;
/// Bytes of a client in a list.
const CLIENT_BYTES: usize = 16;

/// The messages on their way to the clients of one worker.
#[derive(Debug, Default)]
pub struct Mailbox {
    mail: Mutex<VecDeque<Delivery>>,
    /// Bytes of them. A message counts in each mailbox, and so does the list of its clients, which it may
    /// share with others.
    bytes: AtomicUsize,
    has_mail: AtomicBool,
    /// Woken when the first message comes.
    pub arrived: Notify,
}

impl Mailbox {
    /// Whether who publishes is to try again.
    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= BYTES_MAX
    }

    /// Whether nobody may put more in, as those did who need not try again.
    pub fn is_over_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= 2 * BYTES_MAX
    }

    /// How many messages there are.
    #[cfg(test)]
    pub(super) fn messages(&self) -> usize {
        self.mail.lock().len()
    }

    /// Bytes of the messages.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there are messages.
    pub fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Puts a message in. The worker is woken, unless it `looks` by itself before it sleeps.
    pub(super) fn put(&self, delivery: Delivery, looks: bool) {
        self.bytes.fetch_add(bytes_of(&delivery), Ordering::Relaxed);
        self.mail.lock().push_back(delivery);
        if !self.has_mail.swap(true, Ordering::AcqRel) && !looks {
            self.arrived.notify_one();
        }
    }

    /// Takes messages for about so many clients, and not many bytes of them, oldest first, one at least.
    pub fn take(&self, clients: usize) -> Vec<Delivery> {
        let mut mail = self.mail.lock();
        let (mut taken, mut copies, mut copied, mut bytes) = (Vec::new(), 0, 0, 0);
        while copies < clients && copied < TAKEN_BYTES {
            let Some(delivery) = mail.pop_front() else { break };
            copies += delivery.to.len();
            copied += delivery.len() * delivery.to.len();
            bytes += bytes_of(&delivery);
            taken.push(delivery);
        }
        if mail.is_empty() {
            // Under the lock: who puts something in afterwards sets it again.
            self.has_mail.store(false, Ordering::Release);
            *mail = VecDeque::new();
        }
        drop(mail);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken
    }
}

/// Bytes of memory that a message takes, with the list of its clients.
fn bytes_of(delivery: &Delivery) -> usize {
    delivery.len() + delivery.to.len() * CLIENT_BYTES
}
