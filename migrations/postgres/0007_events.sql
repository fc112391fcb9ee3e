-- What happened, in the order in which clients read it.

-- `arrived` grows with the commits of a room, whichever gateway makes them; `position` is the place
-- in the log that is read by clients, given when somebody reads it: who has seen one has missed
-- none before it.
CREATE SEQUENCE event_numbers;

CREATE TABLE event_log (
    id            BIGINT PRIMARY KEY CHECK (id = 1),
    last_position BIGINT NOT NULL
);
INSERT INTO event_log (id, last_position) VALUES (1, 0);

CREATE TABLE events (
    id              UUID PRIMARY KEY,
    name            TEXT COLLATE "C" NOT NULL,
    at              BIGINT NOT NULL,
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT,
    organization_id BIGINT,
    agent_id        BIGINT,
    message_id      UUID,
    contact_id      BIGINT,
    -- The `data` of an event of `onboarding`, a JSON object: no row keeps what an account or a member
    -- was at that moment.
    told            TEXT,
    arrived         BIGINT NOT NULL DEFAULT 0,
    position        BIGINT
);
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
