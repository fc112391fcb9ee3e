-- The job that provisioned the worker whose key this is: the key is given secrets while that job is the
-- last one of the Agent's computer. NULL for all other keys.
ALTER TABLE keys ADD COLUMN worker_job BLOB;
