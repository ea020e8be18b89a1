//! Values on their way to a key, in steps: each part is logged when it is full.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tarn_engine::record::{Change, Kind};
use tarn_engine::value::{ImageBuilder, Making, ValueRef};
use tarn_engine::{Engine, Entry};

use crate::error::CommandError;
use crate::execute::preparing::{Place, Preparing};
use crate::execute::steps::Steps;

/// Bytes of a part.
const PART_BYTES: usize = 32 << 10;
/// How long a part waits when the log has no room for it, or somebody has the store for itself.
const ROOM_PAUSE: Duration = Duration::from_millis(1);
/// The work of adding an element to a collection.
const ADDED: usize = 8;

/// The outcome: the change that puts it in its place (`None` if it is empty), and its elements.
pub(crate) type Stored = (Option<Change<'static>>, usize);

/// Begins to prepare a value for a key, as soon as the log takes its first part.
pub(crate) async fn begin(
    steps: &Steps,
    engine: &Arc<Engine>,
    place: &Place,
    kind: Kind,
) -> Result<Preparing, CommandError> {
    loop {
        match Preparing::begin(engine.clone(), place, kind) {
            Err(CommandError::LogBehind | CommandError::GateBusy) => steps.pause(ROOM_PAUSE).await,
            begun => return begun,
        }
    }
}

async fn log(steps: &Steps, preparing: &mut Preparing, bytes: &[u8]) -> Result<(), CommandError> {
    loop {
        if preparing.has_room() {
            match preparing.add(bytes) {
                Err(CommandError::LogBehind | CommandError::GateBusy) => {}
                added => {
                    steps.pass(bytes.len() / 64).await;
                    return added;
                }
            }
        }
        steps.pause(ROOM_PAUSE).await;
    }
}

/// Prepares the value of an entry for another key.
pub(crate) async fn store_copy(
    steps: &Steps,
    preparing: &mut Preparing,
    entry: &Entry,
) -> Result<Stored, CommandError> {
    let (kind, value) = (entry.kind(), entry.value());
    if let Some(bytes) = value.bytes() {
        for piece in bytes.pieces(0..bytes.len()).flat_map(|piece| piece.chunks(PART_BYTES)) {
            log(steps, preparing, piece).await?;
        }
    }
    let mut part = ImageBuilder::new(kind);
    match value {
        ValueRef::String(_) | ValueRef::Json(_) => {}
        ValueRef::List(list) => {
            for element in list.iter_from(0) {
                part.push_element(element);
                log_if_full(steps, preparing, &mut part, kind).await?;
            }
        }
        ValueRef::Set(set) => {
            for member in set.iter() {
                part.push_element(member);
                log_if_full(steps, preparing, &mut part, kind).await?;
            }
        }
        ValueRef::Hash(hash) => {
            for (field, value, time) in hash.iter_timed() {
                part.push_timed(field, value, time);
                log_if_full(steps, preparing, &mut part, kind).await?;
            }
        }
        ValueRef::Stream(stream) => {
            for (name, value) in stream.elements() {
                part.push_field(&name, value);
                log_if_full(steps, preparing, &mut part, kind).await?;
            }
        }
        ValueRef::ZSet(zset) => {
            for (member, score) in zset.iter_from(0) {
                part.push_scored(member, score);
                log_if_full(steps, preparing, &mut part, kind).await?;
            }
        }
    }
    log(steps, preparing, &part.finish()).await?;
    let change = preparing.change(kind, entry.made(), entry.expiry(), entry.sticky());
    Ok((Some(change), entry.count()))
}

async fn log_if_full(
    steps: &Steps,
    preparing: &mut Preparing,
    part: &mut ImageBuilder,
    kind: Kind,
) -> Result<(), CommandError> {
    steps.pass(1).await;
    if part.bytes_len() < PART_BYTES {
        return Ok(());
    }
    let full = std::mem::replace(part, ImageBuilder::new(kind)).finish();
    log(steps, preparing, &full).await
}

/// A collection that a command makes.
pub(crate) struct Storing<'p> {
    steps: Rc<Steps>,
    kind: Kind,
    preparing: &'p mut Preparing,
    /// `None`: it has ended.
    making: Option<Making>,
}

impl<'p> Storing<'p> {
    /// An empty one.
    pub(crate) fn new(steps: Rc<Steps>, preparing: &'p mut Preparing, kind: Kind) -> Storing<'p> {
        Storing { steps, kind, preparing, making: Some(Making::new(kind)) }
    }

    /// Adds an element of a list, or a member of a set that it does not have.
    pub(crate) async fn element(&mut self, element: &[u8]) -> Result<(), CommandError> {
        self.making.iter_mut().for_each(|making| making.push_element(element));
        self.pass().await
    }

    /// Adds a member of a sorted set that it does not have.
    pub(crate) async fn scored(&mut self, member: &[u8], score: f64) -> Result<(), CommandError> {
        self.making.iter_mut().for_each(|making| making.push_scored(member, score));
        self.pass().await
    }

    async fn pass(&mut self) -> Result<(), CommandError> {
        self.steps.pass(ADDED).await;
        let full = self.making.as_mut().filter(|making| making.part_bytes() >= PART_BYTES);
        let Some(part) = full.map(Making::take_part) else { return Ok(()) };
        log(&self.steps, self.preparing, &part).await
    }

    /// All of it is there.
    pub(crate) async fn end(mut self) -> Result<Stored, CommandError> {
        let part = self.making.as_mut().map(Making::take_part).unwrap_or_default();
        log(&self.steps, self.preparing, &part).await?;
        let Some(making) = self.making.take().filter(|making| !making.is_empty()) else {
            return Ok((None, 0));
        };
        let len = making.len();
        let (value, sticky) = making.finish();
        Ok((Some(self.preparing.change(self.kind, value, None, sticky)), len))
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        if let Some(making) = self.making.take() {
            self.preparing.discard(making.finish().0);
        }
    }
}
