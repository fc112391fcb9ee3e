-- What became of everything that came in: all intake records are `records` where `recorded` is 1. That of an accepted
-- message is in the row of the message, and gets a row here when the message goes before it. The rest
-- are of what was refused or deferred, and of repeats, whose `message_id` is not their own id.

CREATE TABLE intake_records (
    id              BLOB NOT NULL,
    at              INTEGER NOT NULL,
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER,
    -- 0, which is nobody's id, where it is of no organization: the partner's and resellers' own.
    organization_id INTEGER NOT NULL,
    agent_id        INTEGER,
    recipient       TEXT NOT NULL,
    sender          TEXT,
    envelope_from   TEXT NOT NULL,
    remote_address  TEXT NOT NULL,
    helo            TEXT NOT NULL,
    verdict         TEXT NOT NULL CHECK (verdict IN ('accepted', 'refused', 'deferred')),
    reason          TEXT,
    explanation     TEXT NOT NULL,
    message_id      BLOB,
    size            INTEGER NOT NULL,
    digest          BLOB,
    count           INTEGER NOT NULL DEFAULT 1,
    -- network, reason, minute and owner of a counted refusal; null where each has its own record.
    counted_as      TEXT,
    -- By which way it came, and how long it took, in microseconds, from the end of the message until
    -- the verdict was to be committed.
    source          TEXT NOT NULL DEFAULT 'email'
        CHECK (source IN ('email', 'sms', 'chat', 'call')),
    took_us         INTEGER,
    -- When all that could tell who wrote what was taken out of a record.
    erased_at       INTEGER,
    -- A frame of zstd: the steps as JSON, and behind them the header section. Empty once it is erased.
    -- Last, so that what lists read is in one page.
    evidence        BLOB NOT NULL,
    PRIMARY KEY (id, organization_id),
    CHECK ((verdict = 'accepted') = (reason IS NULL))
) STRICT;
CREATE UNIQUE INDEX intake_records_counted ON intake_records (counted_as, organization_id)
    WHERE counted_as IS NOT NULL;
CREATE INDEX intake_records_by_partner ON intake_records (partner_id, at, id);
CREATE INDEX intake_records_by_reseller ON intake_records (reseller_id, at, id);
CREATE INDEX intake_records_by_organization ON intake_records (organization_id, at, id);
CREATE INDEX intake_records_by_agent ON intake_records (agent_id, at, id);
-- What is deleted when it is old is found account by account, the oldest first. What belongs to no
-- Agent belongs to the lowest account that it names; such rows are few. (The cast gives SQLite the
-- type of the expression, without which it compares, but looks nothing up.)
CREATE INDEX intake_records_without_agent
    ON intake_records (CAST(COALESCE(NULLIF(organization_id, 0), reseller_id, partner_id) AS BIGINT), at, id)
    WHERE agent_id IS NULL;
CREATE INDEX intake_records_by_message ON intake_records (message_id) WHERE message_id IS NOT NULL;

-- No arm has a condition: PostgreSQL would read it whole and sort it.
CREATE VIEW records AS
    SELECT id, at, partner_id, reseller_id, organization_id, agent_id, recipient, sender,
           envelope_from, remote_address, helo, verdict, reason, explanation, message_id, size,
           digest, count, source, took_us, erased_at, CAST(1 AS BIGINT) AS recorded, evidence
    FROM intake_records
    UNION ALL
    SELECT id, at, partner_id, reseller_id, organization_id, agent_id, recipient, sender,
           envelope_from, remote_address, helo, CAST('accepted' AS TEXT), CAST(NULL AS TEXT),
           explanation, id, size, digest, CAST(1 AS BIGINT), source, took_us, CAST(NULL AS BIGINT),
           recorded, evidence
    FROM messages;
