-- Version 4: whose files are whose, and nothing stored that is a secret.

-- The store's own random name, by which directories of files know whose they are. One row.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  TEXT NOT NULL CHECK (length(id) = 32)
) STRICT;
INSERT INTO store (one, id) VALUES (1, lower(hex(randomblob(16))));

-- The name of the directory that holds the files of the study's trials, once it was taken; NULL: by the study's name.
ALTER TABLE study ADD COLUMN files TEXT;

-- Which start of the machine the holder belongs to: one that has this also holds the lock beside the store while it lives.
ALTER TABLE lease ADD COLUMN boot_id TEXT;
