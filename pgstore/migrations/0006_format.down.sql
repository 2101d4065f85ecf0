-- Buckets are what they were for the version before. It never asks for slots, calendars and settlements, and its Expire deletes them.
DO $format$
BEGIN
  IF to_regclass('{schema}.{prefix}state') IS NOT NULL THEN
    EXECUTE $again$
{again 0002_take}
$again$;
    ALTER TABLE {schema}.{prefix}state DROP COLUMN IF EXISTS format;
  END IF;
END
$format$;

DROP FUNCTION IF EXISTS {schema}.{prefix}readable;
