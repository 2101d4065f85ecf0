-- Rows carry the version of their format, so that a program never takes for its own what a newer one wrote. Null is the first:
-- windows and logs are kept as they always were. A bucket, slots, a window of a calendar and a settlement are of format 2.
--
-- A bucket of format 2 says in more as of when it is, what is missing and until when it matters, and start and current say
-- what they always did, for programs of the version before that run at the same time. Those leave more empty when they write,
-- which is how a bucket of theirs is known.
DO $format$
BEGIN
  IF NOT EXISTS (
    SELECT FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = '{schema}.{prefix}state'::regclass AND a.attname = 'format' AND NOT a.attisdropped
  ) THEN
    ALTER TABLE {schema}.{prefix}state ADD COLUMN format smallint;
  END IF;
END
$format$;

COMMENT ON COLUMN {schema}.{prefix}state.format IS 'the version of what the row holds; null is the first';

-- Returns true for a row that these functions can read, and fails for others.
CREATE OR REPLACE FUNCTION {schema}.{prefix}readable(format smallint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $readable$
BEGIN
  IF format > 2 THEN
    RAISE EXCEPTION 'a row of {prefix}state has format %, which a newer version of Slidegate wrote', format
      USING ERRCODE = 'SG001', HINT = 'Upgrade this program, and run Migrate.';
  END IF;
  RETURN true;
END
$readable$;

-- What is in 0002_take.sql, but that it refuses what it cannot read.
{again 0002_take}
