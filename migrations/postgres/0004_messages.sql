-- Messages with their originals, the contacts who wrote them, and the rooms and threads they are in.
--
-- All that grows with mail has the organization in each key, unique index and foreign key to its like, so that a
-- table can be partitioned and distributed by it (tests/it/store/organizations.rs). In a key that begins with
-- an id it is the last column: a look-up by the id alone takes the same index.

CREATE TABLE contacts (
    id              BIGINT NOT NULL,
    organization_id BIGINT NOT NULL REFERENCES accounts (id),
    address         TEXT COLLATE "C" NOT NULL,
    name            TEXT COLLATE "C",
    first_seen      BIGINT NOT NULL,
    -- No later than its latest message: what the rooms that are there do not say.
    last_seen       BIGINT NOT NULL,
    -- The contacts of all organizations below an account.
    partner_id      BIGINT,
    reseller_id     BIGINT,
    PRIMARY KEY (id, organization_id),
    UNIQUE (organization_id, address)
);
CREATE INDEX contacts_of_partner ON contacts (partner_id, id);
CREATE INDEX contacts_of_reseller ON contacts (reseller_id, id);
CREATE INDEX contacts_of_organization ON contacts (organization_id, id);

-- Contents of messages, one for the recipients of a transaction in an organization; its id, which rises with time,
-- is that of the first of them. `packed` is a frame of zstd: the JSON of what was read out of it, of so many
-- `octets`, and behind that a small original. A larger one is packed in `original`, or in the blob store, where it is
-- named `object`, also for others who got it; `object_digest` is its SHA-256.
CREATE TABLE contents (
    content_id    UUID NOT NULL,
    organization_id BIGINT NOT NULL,
    octets        BIGINT NOT NULL,
    object_digest BYTEA,
    object        TEXT COLLATE "C",
    packed        BYTEA NOT NULL,
    original      BYTEA,
    PRIMARY KEY (content_id, organization_id),
    CHECK ((object IS NULL) = (object_digest IS NULL))
);
CREATE INDEX contents_apart ON contents (object_digest, object) WHERE object IS NOT NULL;
-- It is packed already.
ALTER TABLE contents ALTER COLUMN packed SET STORAGE EXTERNAL;
ALTER TABLE contents ALTER COLUMN original SET STORAGE EXTERNAL;

CREATE TABLE messages (
    id              UUID NOT NULL,
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    agent_id        BIGINT NOT NULL REFERENCES accounts (id),
    agent_username  TEXT COLLATE "C" NOT NULL,
    contact_id      BIGINT NOT NULL,
    at              BIGINT NOT NULL,
    sender          TEXT COLLATE "C" NOT NULL,
    tag             TEXT COLLATE "C",
    size            BIGINT NOT NULL,
    digest          BYTEA NOT NULL,
    -- Its own id, but for the others of a transaction that have the same contents. No foreign key: SQLite
    -- would look for all that have it in an index of all.
    content_id      UUID NOT NULL,
    -- How a copy of a message came: its delivery marker, and whether a machine sent it.
    passage         TEXT,
    -- By which way it came, where it is shown, and the thread that it belongs to: the id of the first
    -- message of it. A thread never leaves its room.
    source          TEXT NOT NULL DEFAULT 'email'
        CHECK (source IN ('email', 'sms', 'chat', 'call')),
    inbox           TEXT NOT NULL DEFAULT 'inbox' CHECK (inbox IN ('inbox', 'junk')),
    thread_id       UUID NOT NULL,
    -- As lists and logs show it.
    subject         TEXT COLLATE "C",
    -- The one that a message came in.
    session_id      UUID,
    -- Its intake record, whose id is the message's: 1 as long as that is kept, and what nothing else
    -- of the row says; see 0005.
    recorded        BIGINT NOT NULL DEFAULT 1 CHECK (recorded IN (0, 1)),
    recipient       TEXT COLLATE "C",
    envelope_from   TEXT COLLATE "C",
    remote_address  TEXT COLLATE "C",
    helo            TEXT COLLATE "C",
    explanation     TEXT COLLATE "C",
    took_us         BIGINT,
    evidence        BYTEA,
    PRIMARY KEY (id, organization_id),
    FOREIGN KEY (contact_id, organization_id) REFERENCES contacts (id, organization_id),
    CHECK ((recorded = 1) = (evidence IS NOT NULL))
);
-- The messages whose record is kept, and those whose record is not, are two ranges: lists of messages merge
-- them (src/store/base/page.rs), lists of records read the one.
CREATE INDEX messages_by_partner ON messages (partner_id, recorded, at, id);
CREATE INDEX messages_by_reseller ON messages (reseller_id, recorded, at, id);
CREATE INDEX messages_by_organization ON messages (organization_id, recorded, at, id);
CREATE INDEX messages_by_agent ON messages (agent_id, recorded, at, id);
CREATE INDEX messages_by_room ON messages (contact_id, agent_id, at, id);
-- The first message that has contents, and the first of a thread, are found by their ids.
CREATE INDEX messages_by_content ON messages (content_id) WHERE content_id <> id;
CREATE INDEX messages_by_thread ON messages (thread_id, at, id) WHERE thread_id <> id;
-- It is packed already.
ALTER TABLE messages ALTER COLUMN evidence SET STORAGE EXTERNAL;

-- The same message arriving again for the same Agent (contract §2.6).
CREATE TABLE arrivals (
    agent_id   BIGINT NOT NULL,
    key        BYTEA NOT NULL,
    message_id UUID NOT NULL,
    expires_at BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    PRIMARY KEY (agent_id, key, organization_id)
);
CREATE INDEX arrivals_by_expiry ON arrivals (expires_at);

-- A room and its latest message, so that a list of rooms reads one row for each.
CREATE TABLE rooms (
    contact_id      BIGINT NOT NULL,
    agent_id        BIGINT NOT NULL REFERENCES accounts (id),
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    -- That of the latest message.
    inbox           TEXT NOT NULL CHECK (inbox IN ('inbox', 'junk')),
    started_at      BIGINT NOT NULL,
    last_at         BIGINT NOT NULL,
    last_message_id UUID NOT NULL,
    -- How its text begins; null where that is still to be read from the message.
    preview         TEXT,
    messages        BIGINT NOT NULL,
    -- How many lie behind the place up to which the room was read: a time and the id of a message.
    unread          BIGINT NOT NULL,
    read_at         BIGINT NOT NULL,
    read_id         UUID NOT NULL,
    -- The session of a room, in which its next message comes: its id, when it began, and how many
    -- messages came in it.
    session_id      UUID,
    session_at      BIGINT,
    session_messages BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (contact_id, agent_id, organization_id),
    FOREIGN KEY (contact_id, organization_id) REFERENCES contacts (id, organization_id)
);
-- A partner or a reseller has those of its organizations (src/store/mailbox/room_ranges.rs).
CREATE INDEX rooms_of_organization ON rooms (organization_id, inbox, last_at, contact_id, agent_id);
CREATE INDEX rooms_of_agent ON rooms (agent_id, inbox, last_at, contact_id);
-- The contacts of an Agent.
CREATE INDEX rooms_by_contact ON rooms (agent_id, contact_id);

-- Sessions that were reset.
CREATE TABLE sessions (
    id         UUID NOT NULL,
    contact_id BIGINT NOT NULL,
    agent_id   BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    messages   BIGINT NOT NULL,
    reason     TEXT,
    organization_id BIGINT NOT NULL,
    PRIMARY KEY (id, organization_id)
);
CREATE INDEX sessions_of_room ON sessions (contact_id, agent_id, ended_at, id);

-- By what a later message finds its thread: a digest of a Message-ID that was seen in the room, its
-- own or one that it refers to.
CREATE TABLE thread_keys (
    contact_id BIGINT NOT NULL,
    agent_id   BIGINT NOT NULL,
    key        BYTEA NOT NULL,
    thread_id  UUID NOT NULL,
    message_id UUID NOT NULL,
    organization_id BIGINT NOT NULL,
    PRIMARY KEY (contact_id, agent_id, key, organization_id),
    FOREIGN KEY (message_id, organization_id) REFERENCES messages (id, organization_id)
);
CREATE INDEX thread_keys_by_message ON thread_keys (message_id);

-- What is being erased: a contact, or an account that was deleted (their ids are of one sequence).
-- From then on its messages are nobody's to read; they go some at a time, and then this row.
CREATE TABLE erasures (
    subject         BIGINT PRIMARY KEY,
    kind            TEXT NOT NULL CHECK (kind IN ('contact', 'account')),
    asked_at        BIGINT NOT NULL,
    -- Of a contact: under what it wrote.
    organization_id BIGINT,
    handle          TEXT COLLATE "C",
    -- How far the records of its organization, or of the account, have been looked at.
    seen_at         BIGINT NOT NULL DEFAULT 0,
    seen_id         UUID
);
-- Records of a contact are left out until they are blanked.
CREATE INDEX erasures_of_contact ON erasures (organization_id, handle);
