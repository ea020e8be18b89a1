//! Whether a restart finds what clients write, and saying it loudly where it does not.

use crate::config::Config;
use crate::persist::saver::{self, Saver};
use crate::persist::shutdown::Shutdown;
use crate::shared::Shared;
use crate::store::Store;

/// Tells, at the start and when it comes to be so, that nothing is kept.
pub(crate) fn warn_if_nothing_is_kept(config: &Config) {
    if config.keeps_nothing() {
        tracing::warn!(
            "NOTHING IS KEPT of what clients write: with 'appendonly no' and 'save \"\"' there is no log, \
             and no checkpoint unless SAVE or BGSAVE asks for one. All else is lost when the server ends. \
             Set 'appendonly yes', or rules by 'save', to keep it"
        );
    }
}

/// Tells, at the end, what is lost. REQUIRES: no client is served any longer.
pub(crate) fn warn_of_losses(server: &Shared, store: &Store, saver: &Saver, shutdown: &Shutdown) {
    if store.log.load().is_some() || shutdown.saves() {
        return;
    }
    let lost = saver::changes(server).saturating_sub(saver.status().changes_saved);
    if lost > 0 {
        tracing::warn!(
            "NOT SAVED: {lost} changes since the last checkpoint are lost, as there is no log and no \
             checkpoint is taken at the end"
        );
    }
}
