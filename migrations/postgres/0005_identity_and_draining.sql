-- Which database this is, said by its only row: a copy is the same one. A blob store names its owner
-- by it, so that no other database takes objects away that it does not know.
CREATE TABLE identity (
    single BIGINT NOT NULL UNIQUE CHECK (single = 1),
    id     UUID NOT NULL
);

-- 1 while a removed destination may still have deliveries that wait: they are cancelled in groups.
ALTER TABLE destinations ADD COLUMN draining BIGINT NOT NULL DEFAULT 0;
CREATE INDEX destinations_draining ON destinations (draining, id);
