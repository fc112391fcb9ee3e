-- Reports of senders on TLS (RFC 8460): one row for each policy of each report. They are claims.

-- Without foreign keys: rows of a domain that its account gave up are shown to nobody, and go when they are old.
-- `signed_by` is the domain that signed the mail in which a report came; empty if it was posted. A sender's
-- report is known by all that names it, so that nobody puts his own in its place.
CREATE TABLE tls_reports (
    -- 0, which is nobody's id, where the domain is of no organization.
    organization_id INTEGER NOT NULL,
    account_id      INTEGER NOT NULL,
    domain          TEXT NOT NULL,
    signed_by       TEXT NOT NULL,
    submitter       TEXT NOT NULL,
    report_id       TEXT NOT NULL,
    -- Its place among the policies of its report.
    place           INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    begin_at        INTEGER NOT NULL,
    end_at          INTEGER NOT NULL,
    policy          TEXT NOT NULL,
    successful      INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    -- Why sessions failed: a JSON array of type, sessions, host and reason.
    failures        TEXT NOT NULL,
    PRIMARY KEY (organization_id, domain, signed_by, submitter, report_id, place)
) STRICT;
CREATE INDEX tls_reports_of_domain ON tls_reports (organization_id, domain, received_at);
CREATE INDEX tls_reports_by_time ON tls_reports (received_at);
