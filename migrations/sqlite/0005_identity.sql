-- Which database this is, said by its only row: a copy is the same one. A blob store names its owner
-- by it, so that no other database takes objects away that it does not know.
CREATE TABLE identity (
    single INTEGER NOT NULL UNIQUE CHECK (single = 1),
    id     BLOB NOT NULL
) STRICT;
