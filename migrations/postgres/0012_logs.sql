-- The subject as lists and logs show it, of messages from now on.
ALTER TABLE messages ADD COLUMN subject TEXT COLLATE "C";

-- What became of the deliveries of a message.
CREATE INDEX events_by_message ON events (message_id) WHERE message_id IS NOT NULL;
