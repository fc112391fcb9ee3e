-- The plan of an account, as its details name it (`productPlanId`): a statement that decides by it
-- does not read all details.
ALTER TABLE accounts ADD COLUMN plan TEXT COLLATE "C";
UPDATE accounts SET plan = CAST(details AS JSON) ->> 'productPlanId'
WHERE details LIKE '%"productPlanId"%'
    AND json_typeof(CAST(details AS JSON) -> 'productPlanId') = 'string';
