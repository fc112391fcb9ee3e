-- An Agent is found by its username, which others may have, too, in one range of an index.
CREATE INDEX accounts_called_in_partner ON accounts (partner_id, username, id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_called_in_reseller ON accounts (reseller_id, username, id)
    WHERE deleted_at IS NULL;
CREATE INDEX accounts_called_in_organization ON accounts (organization_id, username, id)
    WHERE deleted_at IS NULL;
