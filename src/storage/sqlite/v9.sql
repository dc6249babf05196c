-- Version 9: single tracked runs are removed and moved to other studies.

-- Their numbers are never given again: whoever still knows that of a removed run finds none.
CREATE TABLE removed_run (
    trial_id INTEGER PRIMARY KEY,                                               -- as table `trial` had it
    at       INTEGER NOT NULL,                                                  -- when it was removed
    moved_to INTEGER                                                            -- trial.id in the other study, until its files are there
) STRICT;
