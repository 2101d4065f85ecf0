-- Deletes what does not matter any more among the next rows after an address. It looks at a bounded number of rows and leaves those
-- alone that somebody is charging, so it never keeps anybody waiting for long.
CREATE OR REPLACE FUNCTION {schema}.{prefix}expire(
  after text, most bigint, now bigint, grace bigint, OUT deleted bigint, OUT seen bigint, OUT last text
)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $expire$
DECLARE
  dead text[];
BEGIN
  IF now < 0 THEN
    now := date_part('epoch', clock_timestamp()) * 1000000;
  END IF;
  SELECT count(*), (array_agg(n.address ORDER BY n.address DESC))[1], array_agg(n.address) FILTER (WHERE n.expires < now - grace)
  INTO seen, last, dead
  FROM (SELECT s.address, s.expires FROM {schema}.{prefix}state s WHERE s.address > after ORDER BY s.address LIMIT most) n;
  deleted := 0;
  IF dead IS NOT NULL THEN
    DELETE FROM {schema}.{prefix}state d
    WHERE d.address = ANY (ARRAY(
      SELECT s.address FROM {schema}.{prefix}state s
      WHERE s.address = ANY (dead) AND s.expires < now - grace
      ORDER BY s.address FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS deleted = ROW_COUNT;
  END IF;
END
$expire$;

-- The address of some row: where to begin, so that those who sweep at the same time do not sweep the same rows. It is empty where
-- the table is small.
CREATE OR REPLACE FUNCTION {schema}.{prefix}place() RETURNS text
LANGUAGE sql VOLATILE
AS $place$
  SELECT coalesce((SELECT s.address FROM {schema}.{prefix}state s TABLESAMPLE SYSTEM (1) LIMIT 1), '')
$place$;
