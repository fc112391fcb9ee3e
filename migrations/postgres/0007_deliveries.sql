-- Who is told of events, and what became of that.

CREATE TABLE destinations (
    id         UUID PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    url        TEXT COLLATE "C" NOT NULL,
    category   TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    secret     BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT,
    -- 1 while a removed destination may still have deliveries that wait: they are cancelled in groups.
    draining        BIGINT NOT NULL DEFAULT 0,
    -- How a destination wants its events, and how it fares. `headers` is a JSON array of [name, value];
    -- `former_secrets` one of [base64, until]: each signs too until then.
    ordered         BIGINT NOT NULL DEFAULT 0,
    payload         TEXT NOT NULL DEFAULT 'full'
        CHECK (payload IN ('full', 'summary', 'thin')),
    headers         TEXT NOT NULL DEFAULT '[]',
    former_secrets  TEXT NOT NULL DEFAULT '[]',
    secret_rotated_at BIGINT,
    -- Why nothing is sent to it any more, though it is there.
    disabled_at     BIGINT,
    disabled_reason TEXT,
    -- Failures since the last success. After some of them it rests, and is then probed by one delivery.
    failures        BIGINT NOT NULL DEFAULT 0,
    failing_since   BIGINT,
    last_failure_at BIGINT,
    rests_until     BIGINT NOT NULL DEFAULT 0,
    prober          BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX destinations_in_use ON destinations (account_id, category, url)
    WHERE removed_at IS NULL;
CREATE INDEX destinations_draining ON destinations (draining, id);
CREATE INDEX destinations_with_former_secrets ON destinations (id)
    WHERE former_secrets <> '[]';
-- Destinations that rest longer than any rest lasts.
CREATE INDEX destinations_that_rest ON destinations (rests_until) WHERE rests_until > 0;

CREATE TABLE deliveries (
    id              UUID NOT NULL,
    -- The row that announces the event, and which of its events it is.
    event_id        UUID NOT NULL,
    event_number    BIGINT NOT NULL,
    destination_id  UUID NOT NULL REFERENCES destinations (id),
    state           TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'delivered', 'exhausted', 'cancelled')),
    attempts        BIGINT NOT NULL DEFAULT 0,
    -- When the next attempt is due, and until when somebody is making it: two columns.
    next_attempt_at BIGINT NOT NULL,
    lease_until     BIGINT NOT NULL DEFAULT 0,
    -- Counts the claims: a result is taken from the latest claimant only.
    fence           BIGINT NOT NULL DEFAULT 0,
    created_at      BIGINT NOT NULL,
    -- Of a delivery to an `ordered` destination: of those that wait in a room, the first goes first.
    room            TEXT,
    arrived         BIGINT,
    -- Which gateway has the delivery until `lease_until`, or tries the destination until `rests_until`:
    -- when it dies, both are free.
    holder          BIGINT NOT NULL DEFAULT 0,
    -- That of the event, whoever has the destination.
    organization_id BIGINT NOT NULL,
    PRIMARY KEY (id, organization_id),
    FOREIGN KEY (event_id, organization_id) REFERENCES events (id, organization_id)
);
CREATE INDEX deliveries_due ON deliveries (next_attempt_at, id) WHERE state = 'pending';
CREATE INDEX deliveries_by_event ON deliveries (event_id);
CREATE INDEX deliveries_in_order ON deliveries (destination_id, room, arrived, id)
    WHERE state = 'pending' AND room IS NOT NULL;
CREATE INDEX deliveries_waiting ON deliveries (destination_id, next_attempt_at, id)
    WHERE state = 'pending' AND room IS NULL;
CREATE INDEX deliveries_of_destination ON deliveries (destination_id, created_at, id);
CREATE INDEX deliveries_by_destination ON deliveries (destination_id, state, created_at, id);

CREATE TABLE attempts (
    id          UUID NOT NULL,
    delivery_id UUID NOT NULL,
    organization_id BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    latency_ms  BIGINT NOT NULL,
    status      BIGINT,
    response    BYTEA NOT NULL,
    error       TEXT COLLATE "C",
    PRIMARY KEY (id, organization_id),
    FOREIGN KEY (delivery_id, organization_id) REFERENCES deliveries (id, organization_id)
);
CREATE INDEX attempts_by_delivery ON attempts (delivery_id, at);

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
