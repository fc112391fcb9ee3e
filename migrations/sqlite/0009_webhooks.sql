-- How a destination wants its events, and how it fares. `headers` is a JSON array of [name, value];
-- `former_secrets` one of [base64, until]: each signs too until then.
ALTER TABLE destinations ADD COLUMN ordered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE destinations ADD COLUMN payload TEXT NOT NULL DEFAULT 'full'
    CHECK (payload IN ('full', 'summary', 'thin'));
ALTER TABLE destinations ADD COLUMN headers TEXT NOT NULL DEFAULT '[]';
ALTER TABLE destinations ADD COLUMN former_secrets TEXT NOT NULL DEFAULT '[]';
CREATE INDEX destinations_with_former_secrets ON destinations (id)
    WHERE former_secrets <> '[]';
ALTER TABLE destinations ADD COLUMN secret_rotated_at INTEGER;
-- Why nothing is sent to it any more, though it is there.
ALTER TABLE destinations ADD COLUMN disabled_at INTEGER;
ALTER TABLE destinations ADD COLUMN disabled_reason TEXT;
-- Failures since the last success. After some of them it rests, and is then probed by one delivery.
ALTER TABLE destinations ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE destinations ADD COLUMN failing_since INTEGER;
ALTER TABLE destinations ADD COLUMN last_failure_at INTEGER;
ALTER TABLE destinations ADD COLUMN rests_until INTEGER NOT NULL DEFAULT 0;

-- `arrived` grows with the commits of a room, whichever gateway makes them; `position` is the place
-- in the log that is read by clients, given when somebody reads it: who has seen one has missed
-- none before it.
CREATE TABLE event_numbers (last INTEGER NOT NULL) STRICT;
INSERT INTO event_numbers (last) VALUES (0);
ALTER TABLE events ADD COLUMN arrived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN position INTEGER;
CREATE INDEX events_without_position ON events (arrived, id) WHERE position IS NULL;
CREATE INDEX events_log ON events (position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_partner ON events (partner_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_reseller ON events (reseller_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_organization ON events (organization_id, position)
    WHERE position IS NOT NULL;
CREATE INDEX events_log_of_agent ON events (agent_id, position) WHERE position IS NOT NULL;
CREATE TABLE event_log (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    last_position INTEGER NOT NULL
) STRICT;
INSERT INTO event_log (id, last_position) VALUES (1, 0);

-- Of a delivery to an `ordered` destination: of those that wait in a room, the first goes first.
ALTER TABLE deliveries ADD COLUMN room TEXT;
ALTER TABLE deliveries ADD COLUMN arrived INTEGER;
CREATE INDEX deliveries_in_order ON deliveries (destination_id, room, arrived, id)
    WHERE state = 'pending' AND room IS NOT NULL;
-- A claim finds the others without looking at these.
DROP INDEX deliveries_waiting;
CREATE INDEX deliveries_waiting ON deliveries (destination_id, next_attempt_at, id)
    WHERE state = 'pending' AND room IS NULL;
CREATE INDEX deliveries_of_destination ON deliveries (destination_id, created_at, id);
-- The list of those in one state comes in order by itself, too.
DROP INDEX deliveries_by_destination;
CREATE INDEX deliveries_by_destination ON deliveries (destination_id, state, created_at, id);

-- What is to be sent again, worked off by and by. `position` is how far "all" has come.
CREATE TABLE replays (
    id             BLOB PRIMARY KEY,
    destination_id BLOB NOT NULL REFERENCES destinations (id),
    what           TEXT NOT NULL CHECK (what IN ('failed', 'all')),
    since          INTEGER NOT NULL,
    position       INTEGER,
    created_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX replays_by_destination ON replays (destination_id);
