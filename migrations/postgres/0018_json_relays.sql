-- Ways in of adapters (`json`), beside those of providers.
ALTER TABLE inbound_ways DROP CONSTRAINT inbound_ways_kind_check;
ALTER TABLE inbound_ways ADD CONSTRAINT inbound_ways_kind_check
    CHECK (kind IN ('mailgun', 'sendgrid', 'postmark', 'ses', 'json'));
