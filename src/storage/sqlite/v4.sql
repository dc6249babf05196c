-- Version 4: whose files are whose, and nothing stored that is a secret.

-- The store's own random name, by which directories of files know whose they are. One row.
CREATE TABLE store (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL CHECK (length(id) = 32),
    salt        TEXT NOT NULL CHECK (length(salt) = 32),                        -- of digests of what is not stored itself
    values_left INTEGER NOT NULL DEFAULT 0 CHECK (values_left IN (0, 1))        -- 1: what was erased may still be in free pages
) STRICT;
INSERT INTO store (one, id, salt) VALUES (1, lower(hex(randomblob(16))), lower(hex(randomblob(16))));

-- Names of the directories of its files, the present one first; NULL: none was taken yet.
ALTER TABLE study ADD COLUMN files TEXT CHECK (files IS NULL OR json_valid(files));
ALTER TABLE lease ADD COLUMN boot_id TEXT;                                      -- of the holder's machine; NULL: not held, or of an older version

-- `json_valid(NULL)` is 0 before SQLite 3.45, whose integrity check then finds fault with every NULL. A constraint is changed
-- as "Making Other Kinds Of Table Schema Changes" in <https://www.sqlite.org/lang_altertable.html> says, last, for ALTER TABLE
-- needs the schema as it was read.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (json_valid(optuna_json))', 'CHECK (optuna_json IS NULL OR json_valid(optuna_json))')
  WHERE type = 'table' AND name = 'dimension';
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (json_valid(outcome))', 'CHECK (outcome IS NULL OR json_valid(outcome))')
  WHERE type = 'table' AND name = 'attempt';
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (json_valid(answer))', 'CHECK (answer IS NULL OR json_valid(answer))')
  WHERE type = 'table' AND name = 'request';
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (json_valid(lineage))', 'CHECK (lineage IS NULL OR json_valid(lineage))')
  WHERE type = 'table' AND name = 'runner';
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (json_valid(race))', 'CHECK (race IS NULL OR json_valid(race))')
  WHERE type = 'table' AND name = 'study';
PRAGMA writable_schema = RESET;
