-- Outcomes of messages, as their Agents' platforms record them. A message without one has no row here: mail comes
-- without. Rows go with their message, also where an older gateway deletes it.

CREATE TABLE outcomes (
    message_id      UUID NOT NULL,
    organization_id BIGINT NOT NULL,
    -- All of it, as records of the message show it: JSON, with the replies.
    facts           TEXT NOT NULL,
    -- As the log filters and counts it. The length of a call, and whether nobody took it, are what its platform
    -- handed in.
    agent_outcome   TEXT COLLATE "C",
    lead_rating     BIGINT,
    reply_count     BIGINT NOT NULL,
    duration        BIGINT,
    missed_call     BIGINT CHECK (missed_call IN (0, 1)),
    PRIMARY KEY (message_id, organization_id),
    FOREIGN KEY (message_id, organization_id) REFERENCES messages (id, organization_id)
        ON DELETE CASCADE
);

-- The replies by their places in rooms and threads; `outcomes` has their texts.
CREATE TABLE replies (
    id              UUID NOT NULL,
    organization_id BIGINT NOT NULL,
    message_id      UUID NOT NULL,
    contact_id      BIGINT NOT NULL,
    agent_id        BIGINT NOT NULL,
    thread_id       UUID NOT NULL,
    at              BIGINT NOT NULL,
    PRIMARY KEY (id, organization_id),
    FOREIGN KEY (message_id, organization_id) REFERENCES outcomes (message_id, organization_id)
        ON DELETE CASCADE
);
CREATE INDEX replies_by_room ON replies (contact_id, agent_id, at, id);
CREATE INDEX replies_by_thread ON replies (thread_id, at, id);
CREATE INDEX replies_by_message ON replies (message_id);
