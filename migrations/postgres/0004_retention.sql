-- What is deleted when it is old is found account by account, the oldest first. What belongs to no
-- Agent belongs to the lowest account that it names; such rows are few.
CREATE INDEX intake_records_without_agent
    ON intake_records (COALESCE(organization_id, reseller_id, partner_id), at, id)
    WHERE agent_id IS NULL;
CREATE INDEX events_by_agent ON events (agent_id, at, id) WHERE agent_id IS NOT NULL;
CREATE INDEX events_without_agent
    ON events (COALESCE(organization_id, reseller_id, partner_id), at, id)
    WHERE agent_id IS NULL;
