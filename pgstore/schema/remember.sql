-- What is remembered of settlements, and of calls that count once, are rows too, in generations; see settled.Generation. Each id has a row, named by
-- the address of its first charge, the generation, counted from 1, and the id; more is what is remembered. A row without the last two is for the
-- generation itself: its number, the time of its latest, until when they are remembered and until when those of the generation before are
-- in more, when it began in start, and how many it has in current. No other address begins with a percent sign and a small letter s,
-- but for %sha256.

-- The end of the name of such a row. Those of an address are in the order of their generations.
CREATE FUNCTION public.slidegate_settled(generation bigint, id bigint) RETURNS text
LANGUAGE sql IMMUTABLE
AS $settled$
  SELECT ':' || lpad(to_hex(generation), 12, '0') || ':' || lpad(to_hex(id), 16, '0')
$settled$;

-- What is remembered of an id, whether no more can be, and the generation as it is with this id: its number, when it began, its latest, how
-- many, until when, and until when the one before is kept.
CREATE FUNCTION public.slidegate_recall(
  place text, id bigint, memory bigint, most bigint, at bigint, OUT memo bigint[], OUT is_full boolean, OUT generation bigint[]
)
LANGUAGE plpgsql VOLATILE -- called by decide, with its settings
AS $recall$
DECLARE
  own CONSTANT text := '%settled:' || place;
  g record;
  newer boolean := false;
BEGIN
  is_full := false;
  SELECT t.more[1] AS number, t.more[2] AS latest, t.more[3] AS until, t.more[4] AS before, t.start AS began, t.current AS count INTO g
  FROM public.slidegate_state t WHERE t.address = own AND (t.previous >= -1 OR public.slidegate_readable(t.previous));
  IF g.number IS NULL THEN
    generation := ARRAY[1, at, at, 1, at + memory, 0];
    RETURN;
  END IF;
  SELECT t.more, t.address = own || public.slidegate_settled(g.number, id) INTO memo, newer FROM public.slidegate_state t
  WHERE t.address IN (own || public.slidegate_settled(g.number, id), own || public.slidegate_settled(g.number - 1, id))
    AND (t.previous >= -1 OR public.slidegate_readable(t.previous))
  ORDER BY t.address DESC LIMIT 1;
  IF at - g.began >= memory AND at >= g.before AND (at - g.began >= 600000000 OR g.count >= most) -- rule.LongMemory
    OR at - g.began < -memory AND g.count >= most THEN
    generation := ARRAY[g.number + 1, greatest(g.latest, at), at, 1, at + memory, g.until];
  ELSE
    is_full := memo IS NULL AND g.count >= most;
    generation := ARRAY[g.number, g.began, greatest(g.latest, at), g.count + CASE WHEN newer THEN 0 ELSE 1 END,
      greatest(g.until, at + memory), g.before];
  END IF;
END
$recall$;

-- Remembers a record. The caller has locked the row of the address. Two of those that are not known any more go, if there are any and this
-- role may delete, so that they do not become more while nobody sweeps.
CREATE FUNCTION public.slidegate_remember(place text, id bigint, generation bigint[], memo bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE -- called by decide, with its settings
AS $remember$
DECLARE
  own CONSTANT text := '%settled:' || place;
  until CONSTANT bigint := greatest(generation[5], generation[3] + 600000000, generation[6]); -- not before those of the generation before
BEGIN
  INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address, more)
  VALUES (0, until, NULL, 0, -1, own || public.slidegate_settled(generation[1], id), memo),
    (0, until, generation[2], generation[4], -1, own, ARRAY[generation[1], generation[3], generation[5], generation[6]])
  ON CONFLICT (address) DO UPDATE SET version = t.version + 1, expires = excluded.expires, start = excluded.start,
    current = excluded.current, more = excluded.more;
  IF generation[1] > 2 AND has_table_privilege('public.slidegate_state'::regclass, 'DELETE') THEN
    DELETE FROM public.slidegate_state t WHERE t.address = ANY (ARRAY(
      SELECT s.address FROM public.slidegate_state s
      WHERE s.address > own || ':' AND s.address < own || public.slidegate_settled(generation[1] - 1, 0)
      ORDER BY s.address LIMIT 2 FOR UPDATE SKIP LOCKED
    ));
  END IF;
END
$remember$;
