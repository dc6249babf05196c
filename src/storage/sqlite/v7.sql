-- Version 7: studies are removed, trials hidden. An id is never given again: whoever still has that of a removed study finds none.

CREATE TABLE removed_study (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,                                                        -- as it was last
    at    INTEGER NOT NULL,                                                     -- when it was removed
    files TEXT CHECK (files IS NULL OR json_valid(files))                       -- directories that may still be there; NULL: none
) STRICT;

-- 1: tables of trials leave it out, its files are gone, and it is never the best.
ALTER TABLE trial ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0 CHECK (hidden IN (0, 1));
CREATE INDEX trial_hidden ON trial (study_id) WHERE hidden = 1;
