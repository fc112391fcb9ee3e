-- Whether tools of MCP may change something with this key, though the operator does not let all keys.
ALTER TABLE keys ADD COLUMN mcp_changes BIGINT NOT NULL DEFAULT 0 CHECK (mcp_changes IN (0, 1));
