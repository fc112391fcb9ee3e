-- The plan of an account, as its details name it (`productPlanId`): a statement that decides by it
-- does not read all details.
ALTER TABLE accounts ADD COLUMN plan TEXT;
UPDATE accounts SET plan = json_extract(details, '$.productPlanId')
WHERE details LIKE '%"productPlanId"%' AND json_type(details, '$.productPlanId') = 'text';
