-- What is deleted when it is old is found account by account, the oldest first. What belongs to no
-- Agent belongs to the lowest account that it names; such rows are few. (The cast gives SQLite the
-- type of the expression, without which it compares, but looks nothing up.)
CREATE INDEX intake_records_without_agent
    ON intake_records (CAST(COALESCE(organization_id, reseller_id, partner_id) AS BIGINT), at, id)
    WHERE agent_id IS NULL;
CREATE INDEX events_by_agent ON events (agent_id, at, id) WHERE agent_id IS NOT NULL;
CREATE INDEX events_without_agent
    ON events (CAST(COALESCE(organization_id, reseller_id, partner_id) AS BIGINT), at, id)
    WHERE agent_id IS NULL;
