-- Raw messages above a size live in the blob store. `object` is their name there, and `bytes` is
-- empty; null where the bytes are in the row.
ALTER TABLE raw_messages ADD COLUMN object TEXT COLLATE "C";
