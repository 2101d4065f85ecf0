-- Deletes the rows that no longer matter among the next ones after an address. It reads a bounded number of rows and skips those that
-- are being charged, so nothing waits for it for long.
CREATE FUNCTION public.slidegate_expire(
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
  FROM (SELECT s.address, s.expires FROM public.slidegate_state s WHERE s.address > after ORDER BY s.address LIMIT most) n;
  deleted := 0;
  IF dead IS NOT NULL THEN
    DELETE FROM public.slidegate_state d
    WHERE d.address = ANY (ARRAY(
      SELECT s.address FROM public.slidegate_state s
      WHERE s.address = ANY (dead) AND s.expires < now - grace
      ORDER BY s.address FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS deleted = ROW_COUNT;
  END IF;
END
$expire$;

-- Returns the address of some row: where to begin, so that processes that sweep at the same time do not sweep the same rows. It is
-- empty if the table is small.
CREATE FUNCTION public.slidegate_random_address() RETURNS text
LANGUAGE sql VOLATILE
AS $random_address$
  SELECT coalesce((SELECT s.address FROM public.slidegate_state s TABLESAMPLE SYSTEM (1) LIMIT 1), '')
$random_address$;
