-- The gateways of this store. Each raises its beat about once a second; the others see that it lives
-- by that alone, whatever anybody's clock says. `steady` is the time by which everything waits, the
-- same for all: it goes on from here when a gateway starts, by as much as `wall` has since.
CREATE TABLE gateways (
    id     INTEGER PRIMARY KEY,
    beat   INTEGER NOT NULL,
    steady INTEGER NOT NULL,
    wall   INTEGER NOT NULL
) STRICT;
-- Which gateway has the delivery until `lease_until`, or tries the destination until `rests_until`:
-- when it dies, both are free.
ALTER TABLE deliveries ADD COLUMN holder INTEGER NOT NULL DEFAULT 0;
ALTER TABLE destinations ADD COLUMN prober INTEGER NOT NULL DEFAULT 0;
-- Destinations that rest longer than any rest lasts.
CREATE INDEX destinations_that_rest ON destinations (rests_until) WHERE rests_until > 0;
