//! Serves requests to a study that is not running: takes the lease briefly.

use std::path::Path;

use super::commit::commit;
use super::garbage_collection::has_copy;
use super::killed_runner::kill_orphans;
use super::ownership::Copies;
use super::removal::{Remover, look_for_removed};
use super::{RunnerError, listed_in, ownership, take_lease};
use crate::engine::{Effect, Engine};
use crate::storage::{Lease, Storage, StoredStudy};
use crate::study::device::{Device, Slot};
use crate::study::request::Request;

/// Serves all pending requests. `Busy` if a runner holds the study, and will serve them.
pub fn serve_at_rest(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    store: &Path,
) -> Result<(), RunnerError> {
    let lease = take_lease(storage, study)?;
    let served = serve(storage, &lease, study, store);
    storage.release(&lease)?;
    served
}

fn serve(
    storage: &mut dyn Storage,
    lease: &Lease,
    study: &StoredStudy,
    store: &Path,
) -> Result<(), RunnerError> {
    let requests: Vec<_> = storage
        .pending_requests(study.id)?
        .into_iter()
        .map(|stored| (stored.id, stored.request))
        .collect();
    if requests.is_empty() {
        return Ok(());
    }
    let hides = requests.iter().any(|(_, request)| matches!(request, Request::Hide { .. }));
    kill_orphans(storage, study, store)?;
    // No other process can change it while the lease is held.
    let summary = storage.summary(study.id)?;
    let spec = summary.spec.clone();
    let no_slot_is_used = vec![Slot::on(0, Device::Cpu)];
    let look = look_for_removed(&spec, study.files(store));
    let mut engine =
        Engine::new(spec, storage.study_state(study.id)?, no_slot_is_used)?.with_look_at_disk(look);
    engine = engine.with_open_attempts(storage, study.id)?;
    let at = super::clock_of(storage, study.id)?.now();
    let effects = engine.serve_at_rest(at, requests);
    let acts = commit(storage, lease, at, effects, &[])?.acts;
    // A copy of the store may list the checkpoints of a trial that is hidden here.
    let mut homes = match hides && has_copy(storage, store)? {
        true => Vec::new(),
        false => ownership::own_homes(storage, &summary.stored(), store)?,
    };
    homes.retain(|home| !hides || Copies::of(&home.directory()).need_checkpoints_only());
    let mut remover = Remover::new(homes);
    for effect in &acts {
        if let Effect::Remove { trial, path } = effect {
            remover.remove(*trial, path, listed_in(engine.study_state()));
        }
    }
    Ok(())
}
