-- Which version each gateway runs, as it said when it joined; empty for those that do not say.
ALTER TABLE gateways ADD COLUMN version TEXT COLLATE "C" NOT NULL DEFAULT '';
