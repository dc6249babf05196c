-- Version 7: studies are removed. An id is never given again: whoever still has that of a removed study finds none.

CREATE TABLE removed_study (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,                                                        -- as it was last
    at    INTEGER NOT NULL,                                                     -- when it was removed
    files TEXT CHECK (files IS NULL OR json_valid(files))                       -- directories that may still be there; NULL: none
) STRICT;
