-- decide for the commonest of its calls: requests with one charge each, all of the same address, and no settlements. It is told the same
-- numbers and tells the same, in plain statements, of which fewer are to be got ready in every transaction. How writers do not get in each
-- other's way is said in 0002_take.sql.
CREATE OR REPLACE FUNCTION {schema}.{prefix}single(place text, numbers bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $single$
DECLARE
  s {schema}.{prefix}row;
  it {schema}.{prefix}item;
  replies bigint[];
  changed boolean;
  now bigint;
BEGIN
  SELECT t.version, t.expires, t.start, t.current, t.previous, t.address, t.more INTO s
  FROM {schema}.{prefix}state t WHERE t.address = place{readable t};
  LOOP
    now := numbers[1];
    IF now < 0 THEN
      now := date_part('epoch', clock_timestamp()) * 1000000;
    END IF;
    IF numbers[5] > 14 AND numbers[27] > 0 AND (now < numbers[24] OR now >= numbers[27]) THEN -- outside of the periods of a calendar
      RETURN ARRAY[-1, now];
    END IF;
    replies := '{}';
    changed := false;
    FOR o IN 6 .. 5 + numbers[3] * numbers[5] BY numbers[5] LOOP
      it := {schema}.{prefix}load(s, numbers, o, now);
      it := ({schema}.{prefix}request(numbers[o + 1], ARRAY[it], 0, NULL))[1];
      IF it.changed THEN
        s := {schema}.{prefix}save(s, it);
        changed := true;
      END IF;
      replies := replies || {schema}.{prefix}tell(it);
    END LOOP;
    EXIT WHEN NOT changed;
    IF numbers[2] > 0 THEN
      PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
    END IF;
    IF s.version IS NULL THEN
      INSERT INTO {schema}.{prefix}state (version, expires, start, current, previous, address, more)
      VALUES ((random() * 9007199254740991)::bigint, s.expires, s.start, s.current, s.previous, place, s.more)
      ON CONFLICT (address) DO NOTHING;
    ELSE
      UPDATE {schema}.{prefix}state t
      SET version = s.version + 1, expires = s.expires, start = s.start, current = s.current, previous = s.previous, more = s.more
      WHERE t.address = place AND t.version = s.version;
    END IF;
    EXIT WHEN FOUND;
    SELECT t.version, t.expires, t.start, t.current, t.previous, t.address, t.more INTO s
    FROM {schema}.{prefix}state t WHERE t.address = place{readable t} FOR UPDATE;
  END LOOP;
  RETURN replies;
END
$single$;
