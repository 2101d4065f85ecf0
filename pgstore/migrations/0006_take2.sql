-- Rows have a format, so that a program never takes for its own what a newer one wrote. Windows and logs are kept as they always were:
-- that is format 1. Buckets, slots, windows of a calendar and settlements are of format 2. They need no previous count, so that
-- column says minus the format. (A column of its own would make rows larger and lock the table to be added.)
--
-- A bucket of format 2 says in more as of when it is, what is missing and until when it matters; start and current say what they always
-- did, for programs of the version before that run at the same time. Those leave more empty when they write, which is how a bucket
-- of theirs is known.

-- Returns true for a row that these functions can read, by its previous count, and fails for others.
CREATE OR REPLACE FUNCTION {schema}.{prefix}readable(previous bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $readable$
BEGIN
  IF previous < -2 THEN
    RAISE EXCEPTION 'a row of {prefix}state has format %, which a newer version of Slidegate wrote', -previous
      USING ERRCODE = 'SG001', HINT = 'Upgrade this program, and run Migrate.';
  END IF;
  RETURN true;
END
$readable$;

-- take2 and take_many2 are take and take_many, but that they refuse what they cannot read.
{again 0002_take}
