-- How a destination wants its events, and how it fares. `headers` is a JSON array of [name, value];
-- `former_secrets` one of [base64, until]: each signs too until then.
ALTER TABLE destinations ADD COLUMN ordered BIGINT NOT NULL DEFAULT 0;
ALTER TABLE destinations ADD COLUMN payload TEXT NOT NULL DEFAULT 'full'
    CHECK (payload IN ('full', 'summary', 'thin'));
ALTER TABLE destinations ADD COLUMN headers TEXT NOT NULL DEFAULT '[]';
ALTER TABLE destinations ADD COLUMN former_secrets TEXT NOT NULL DEFAULT '[]';
CREATE INDEX destinations_with_former_secrets ON destinations (id)
    WHERE former_secrets <> '[]';
ALTER TABLE destinations ADD COLUMN secret_rotated_at BIGINT;
-- Why nothing is sent to it any more, though it is there.
ALTER TABLE destinations ADD COLUMN disabled_at BIGINT;
ALTER TABLE destinations ADD COLUMN disabled_reason TEXT;
-- Failures since the last success. After some of them it rests, and is then probed by one delivery.
ALTER TABLE destinations ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE destinations ADD COLUMN failing_since BIGINT;
ALTER TABLE destinations ADD COLUMN last_failure_at BIGINT;
ALTER TABLE destinations ADD COLUMN rests_until BIGINT NOT NULL DEFAULT 0;

-- `arrived` grows with the commits of a room, whichever gateway makes them; `position` is the place
-- in the log that is read by clients, given when somebody reads it: who has seen one has missed
-- none before it.
CREATE SEQUENCE event_numbers;
ALTER TABLE events ADD COLUMN arrived BIGINT NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN position BIGINT;
CREATE INDEX events_without_position ON events (arrived, id) WHERE position IS NULL;
CREATE INDEX events_log ON events (position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_partner ON events (partner_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_reseller ON events (reseller_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_organization ON events (organization_id, position)
    WHERE position IS NOT NULL;
CREATE INDEX events_log_of_agent ON events (agent_id, position) WHERE position IS NOT NULL;
CREATE TABLE event_log (
    id            BIGINT PRIMARY KEY CHECK (id = 1),
    last_position BIGINT NOT NULL
);
INSERT INTO event_log (id, last_position) VALUES (1, 0);

-- Of a delivery to an `ordered` destination: of those that wait in a room, the first goes first.
ALTER TABLE deliveries ADD COLUMN room TEXT;
ALTER TABLE deliveries ADD COLUMN arrived BIGINT;
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
    id             UUID PRIMARY KEY,
    destination_id UUID NOT NULL REFERENCES destinations (id),
    what           TEXT NOT NULL CHECK (what IN ('failed', 'all')),
    since          BIGINT NOT NULL,
    position       BIGINT,
    created_at     BIGINT NOT NULL
);
CREATE INDEX replays_by_destination ON replays (destination_id);
