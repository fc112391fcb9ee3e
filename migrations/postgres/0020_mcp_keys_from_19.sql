-- 1 if tools of MCP may change something with this key, though the operator does not let all keys; else 0.
ALTER TABLE keys ADD COLUMN mcp_changes BIGINT NOT NULL DEFAULT 0;
