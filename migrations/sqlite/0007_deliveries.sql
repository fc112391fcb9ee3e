-- Who is told of events, and what became of that.

CREATE TABLE destinations (
    id         BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    url        TEXT NOT NULL,
    category   TEXT NOT NULL,
    label      TEXT NOT NULL,
    secret     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER,
    -- 1 while a removed destination may still have deliveries that wait: they are cancelled in groups.
    draining        INTEGER NOT NULL DEFAULT 0,
    -- How a destination wants its events, and how it fares. `headers` is a JSON array of [name, value];
    -- `former_secrets` one of [base64, until]: each signs too until then.
    ordered         INTEGER NOT NULL DEFAULT 0,
    payload         TEXT NOT NULL DEFAULT 'full'
        CHECK (payload IN ('full', 'summary', 'thin')),
    headers         TEXT NOT NULL DEFAULT '[]',
    former_secrets  TEXT NOT NULL DEFAULT '[]',
    secret_rotated_at INTEGER,
    -- Why nothing is sent to it any more, though it is there.
    disabled_at     INTEGER,
    disabled_reason TEXT,
    -- Failures since the last success. After some of them it rests, and is then probed by one delivery.
    failures        INTEGER NOT NULL DEFAULT 0,
    failing_since   INTEGER,
    last_failure_at INTEGER,
    rests_until     INTEGER NOT NULL DEFAULT 0,
    prober          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX destinations_in_use ON destinations (account_id, category, url)
    WHERE removed_at IS NULL;
CREATE INDEX destinations_draining ON destinations (draining, id);
CREATE INDEX destinations_with_former_secrets ON destinations (id)
    WHERE former_secrets <> '[]';
-- Destinations that rest longer than any rest lasts.
CREATE INDEX destinations_that_rest ON destinations (rests_until) WHERE rests_until > 0;

CREATE TABLE deliveries (
    id              BLOB NOT NULL,
    -- The row that announces the event, and which of its events it is.
    event_id        BLOB NOT NULL,
    event_number    INTEGER NOT NULL,
    destination_id  BLOB NOT NULL REFERENCES destinations (id),
    state           TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'exhausted', 'cancelled')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    -- When the next attempt is due, and until when somebody is making it: two columns.
    next_attempt_at INTEGER NOT NULL,
    lease_until     INTEGER NOT NULL DEFAULT 0,
    -- Counts the claims: a result is taken from the latest claimant only.
    fence           INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    -- Of a delivery to an `ordered` destination: of those that wait in a room, the first goes first.
    room            TEXT,
    arrived         INTEGER,
    -- Which gateway has the delivery until `lease_until`, or tries the destination until `rests_until`:
    -- when it dies, both are free.
    holder          INTEGER NOT NULL DEFAULT 0,
    -- That of the event, whoever has the destination.
    organization_id INTEGER NOT NULL,
    PRIMARY KEY (id, organization_id),
    FOREIGN KEY (event_id, organization_id) REFERENCES events (id, organization_id)
) STRICT;
CREATE INDEX deliveries_due ON deliveries (next_attempt_at, id) WHERE state = 'pending';
CREATE INDEX deliveries_by_event ON deliveries (event_id);
CREATE INDEX deliveries_in_order ON deliveries (destination_id, room, arrived, id)
    WHERE state = 'pending' AND room IS NOT NULL;
CREATE INDEX deliveries_waiting ON deliveries (destination_id, next_attempt_at, id)
    WHERE state = 'pending' AND room IS NULL;
CREATE INDEX deliveries_of_destination ON deliveries (destination_id, created_at, id);
CREATE INDEX deliveries_by_destination ON deliveries (destination_id, state, created_at, id);

CREATE TABLE attempts (
    id          BLOB NOT NULL,
    delivery_id BLOB NOT NULL,
    organization_id INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    latency_ms  INTEGER NOT NULL,
    status      INTEGER,
    response    BLOB NOT NULL,
    error       TEXT,
    PRIMARY KEY (id, organization_id),
    FOREIGN KEY (delivery_id, organization_id) REFERENCES deliveries (id, organization_id)
) STRICT;
CREATE INDEX attempts_by_delivery ON attempts (delivery_id, at);

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
