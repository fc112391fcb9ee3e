-- What happened, in the order in which clients read it.

-- `arrived` grows with the commits of a room, whichever gateway makes them; `position` is the place
-- in the log that is read by clients, given when somebody reads it: who has seen one has missed
-- none before it.
CREATE TABLE event_numbers (last INTEGER NOT NULL) STRICT;
INSERT INTO event_numbers (last) VALUES (0);

CREATE TABLE event_log (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    last_position INTEGER NOT NULL
) STRICT;
INSERT INTO event_log (id, last_position) VALUES (1, 0);

CREATE TABLE events (
    id              BLOB PRIMARY KEY,
    name            TEXT NOT NULL,
    at              INTEGER NOT NULL,
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER,
    organization_id INTEGER,
    agent_id        INTEGER,
    message_id      BLOB,
    contact_id      INTEGER,
    -- The `data` of an event of `onboarding`, a JSON object: no row keeps what an account or a member
    -- was at that moment.
    told            TEXT,
    arrived         INTEGER NOT NULL DEFAULT 0,
    position        INTEGER
) STRICT;
CREATE INDEX events_by_agent ON events (agent_id, at, id) WHERE agent_id IS NOT NULL;
CREATE INDEX events_without_agent
    ON events (CAST(COALESCE(organization_id, reseller_id, partner_id) AS BIGINT), at, id)
    WHERE agent_id IS NULL;
CREATE INDEX events_without_position ON events (arrived, id) WHERE position IS NULL;
CREATE INDEX events_log ON events (position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_partner ON events (partner_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_reseller ON events (reseller_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_organization ON events (organization_id, position)
    WHERE position IS NOT NULL;
CREATE INDEX events_log_of_agent ON events (agent_id, position) WHERE position IS NOT NULL;
-- What became of the deliveries of a message.
CREATE INDEX events_by_message ON events (message_id) WHERE message_id IS NOT NULL;
