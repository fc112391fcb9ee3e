-- What came otherwise than by SMTP, where it is shown, and the thread that it belongs to: the id of
-- the first message of it. A thread never leaves its room.
ALTER TABLE messages ADD COLUMN source TEXT NOT NULL DEFAULT 'email'
    CHECK (source IN ('email', 'sms', 'chat', 'call'));
ALTER TABLE messages ADD COLUMN inbox TEXT NOT NULL DEFAULT 'inbox' CHECK (inbox IN ('inbox', 'junk'));
ALTER TABLE messages ADD COLUMN thread_id BLOB;
-- A message from before there were threads is alone in its own.
CREATE INDEX messages_by_thread ON messages (COALESCE(thread_id, id), at, id);

-- A room and its latest message, so that a list of rooms reads one row for each.
CREATE TABLE rooms (
    contact_id      INTEGER NOT NULL REFERENCES contacts (id),
    agent_id        INTEGER NOT NULL REFERENCES accounts (id),
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER NOT NULL,
    organization_id INTEGER NOT NULL,
    -- That of the latest message.
    inbox           TEXT NOT NULL CHECK (inbox IN ('inbox', 'junk')),
    started_at      INTEGER NOT NULL,
    last_at         INTEGER NOT NULL,
    last_message_id BLOB NOT NULL,
    -- How its text begins; null where that is still to be read from the message.
    preview         TEXT,
    messages        INTEGER NOT NULL,
    -- How many lie behind the place up to which the room was read: a time and the id of a message.
    unread          INTEGER NOT NULL,
    read_at         INTEGER NOT NULL,
    read_id         BLOB NOT NULL,
    PRIMARY KEY (contact_id, agent_id)
) STRICT;
INSERT INTO rooms (contact_id, agent_id, partner_id, reseller_id, organization_id, inbox, started_at,
                   last_at, last_message_id, messages, unread, read_at, read_id)
    SELECT contact_id, agent_id, partner_id, reseller_id, organization_id, 'inbox', started, at, id,
           messages, messages, -1, id
    FROM (SELECT contact_id, agent_id, partner_id, reseller_id, organization_id, at, id,
                 ROW_NUMBER() OVER (PARTITION BY contact_id, agent_id
                                    ORDER BY at DESC, id DESC) AS place,
                 MIN(at) OVER (PARTITION BY contact_id, agent_id) AS started,
                 COUNT(*) OVER (PARTITION BY contact_id, agent_id) AS messages
          FROM messages) AS latest
    WHERE place = 1;
CREATE INDEX rooms_of_partner ON rooms (partner_id, inbox, last_at, contact_id, agent_id);
CREATE INDEX rooms_of_reseller ON rooms (reseller_id, inbox, last_at, contact_id, agent_id);
CREATE INDEX rooms_of_organization ON rooms (organization_id, inbox, last_at, contact_id, agent_id);
CREATE INDEX rooms_of_agent ON rooms (agent_id, inbox, last_at, contact_id);
-- The contacts of an Agent.
CREATE INDEX rooms_by_contact ON rooms (agent_id, contact_id);

-- By what a later message finds its thread: a digest of a Message-ID that was seen in the room, its
-- own or one that it refers to.
CREATE TABLE thread_keys (
    contact_id INTEGER NOT NULL,
    agent_id   INTEGER NOT NULL,
    key        BLOB NOT NULL,
    thread_id  BLOB NOT NULL,
    message_id BLOB NOT NULL REFERENCES messages (id),
    PRIMARY KEY (contact_id, agent_id, key)
) STRICT;
CREATE INDEX thread_keys_by_message ON thread_keys (message_id);

-- The contacts of all organizations below an account.
ALTER TABLE contacts ADD COLUMN partner_id INTEGER;
ALTER TABLE contacts ADD COLUMN reseller_id INTEGER;
UPDATE contacts
    SET partner_id = (SELECT partner_id FROM accounts WHERE accounts.id = organization_id),
        reseller_id = (SELECT reseller_id FROM accounts WHERE accounts.id = organization_id);
CREATE INDEX contacts_of_partner ON contacts (partner_id, id);
CREATE INDEX contacts_of_reseller ON contacts (reseller_id, id);
CREATE INDEX contacts_of_organization ON contacts (organization_id, id);

-- A record of what came otherwise than by SMTP, too; and how long it took, in microseconds, from the
-- end of the message until the verdict was to be committed.
ALTER TABLE intake_records ADD COLUMN source TEXT NOT NULL DEFAULT 'email'
    CHECK (source IN ('email', 'sms', 'chat', 'call'));
ALTER TABLE intake_records ADD COLUMN took_us INTEGER;
