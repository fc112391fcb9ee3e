-- Reports of senders on TLS (RFC 8460): one row for each policy of each report. They are claims.

-- Without foreign keys: rows of a domain that its account gave up are shown to nobody, and go when they are old.
-- `signed_by` is the domain that signed the mail in which a report came; empty if it was posted. A sender's
-- report is known by all that names it, so that nobody puts his own in its place.
CREATE TABLE tls_reports (
    -- 0, which is nobody's id, where the domain is of no organization.
    organization_id BIGINT NOT NULL,
    account_id      BIGINT NOT NULL,
    domain          TEXT COLLATE "C" NOT NULL,
    signed_by       TEXT COLLATE "C" NOT NULL,
    submitter       TEXT COLLATE "C" NOT NULL,
    report_id       TEXT COLLATE "C" NOT NULL,
    -- Its place among the policies of its report.
    place           BIGINT NOT NULL,
    received_at     BIGINT NOT NULL,
    begin_at        BIGINT NOT NULL,
    end_at          BIGINT NOT NULL,
    policy          TEXT COLLATE "C" NOT NULL,
    successful      BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    -- Why sessions failed: a JSON array of type, sessions, host and reason.
    failures        TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (organization_id, domain, signed_by, submitter, report_id, place)
);
CREATE INDEX tls_reports_of_domain ON tls_reports (organization_id, domain, received_at);
CREATE INDEX tls_reports_by_time ON tls_reports (received_at);
