-- What was read out of a message is the same for all its recipients, so it is kept once, beside the
-- raw bytes. An attachment is named by its message and the number of its part: no table for that.
CREATE TABLE mails (
    digest BYTEA PRIMARY KEY REFERENCES raw_messages (digest),
    mail   TEXT COLLATE "C" NOT NULL
);
-- A gateway of the version before must not add one between the copy and the change.
LOCK TABLE messages IN ACCESS EXCLUSIVE MODE;
INSERT INTO mails (digest, mail)
SELECT digest, mail FROM messages AS one
WHERE NOT EXISTS (SELECT 1 FROM messages AS other
                  WHERE other.digest = one.digest AND other.id < one.id);
ALTER TABLE messages DROP COLUMN mail;
DROP TABLE attachments;
