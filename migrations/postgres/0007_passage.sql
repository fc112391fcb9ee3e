-- How a copy of a message came: its delivery marker, and whether a machine sent it. Of messages from
-- before nobody knows.
ALTER TABLE messages ADD COLUMN passage TEXT;
