-- Returns the holds that have not ended, in the order in which they end. One that was taken more than a window ahead of now counts as if
-- taken at the time that decides.
CREATE FUNCTION public.slidegate_open_holds(holds bigint[], now bigint, at bigint, span bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $open_holds$
BEGIN
  RETURN ARRAY(
    SELECT v.n FROM (
      SELECT i, holds[4 * i - 3] AS id, holds[4 * i - 2] AS units, holds[4 * i] AS length,
        CASE WHEN holds[4 * i - 1] - holds[4 * i] > now + span THEN at + holds[4 * i] ELSE holds[4 * i - 1] END AS ends
      FROM generate_series(1, cardinality(holds) / 4) i
    ) h CROSS JOIN LATERAL (VALUES (1, h.id), (2, h.units), (3, h.ends), (4, h.length)) v(k, n)
    WHERE h.ends > at ORDER BY h.ends, h.i, v.k
  );
END
$open_holds$;

-- Returns how many units are held, by how many reservations, and whether some were held too far ahead of the clock.
CREATE FUNCTION public.slidegate_held(holds bigint[], now bigint, at bigint, span bigint, OUT held bigint, OUT holders int, OUT ahead boolean)
LANGUAGE plpgsql IMMUTABLE
AS $held$
BEGIN
  SELECT least(coalesce(sum(h.units), 0), 9007199254740991), count(*), coalesce(bool_or(h.moved), false) INTO held, holders, ahead
  FROM (
    SELECT holds[4 * i - 2] AS units, holds[4 * i - 1] - holds[4 * i] > now + span AS moved
    FROM generate_series(1, cardinality(holds) / 4) i
    WHERE CASE WHEN holds[4 * i - 1] - holds[4 * i] > now + span THEN at + holds[4 * i] ELSE holds[4 * i - 1] END > at
  ) h;
END
$held$;

-- Where the id of a hold is among the holds; null if it has ended. 0 is no id.
CREATE FUNCTION public.slidegate_find_hold(it public.slidegate_item) RETURNS int
LANGUAGE plpgsql IMMUTABLE
AS $find_hold$
BEGIN
  IF it.id = 0 OR it.open = 0 THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT 4 * i - 3 FROM generate_series(1, cardinality(it.holds) / 4) i
    WHERE it.holds[4 * i - 3] = it.id
      AND CASE WHEN it.holds[4 * i - 1] - it.holds[4 * i] > it.now + it.span THEN it.at + it.holds[4 * i] ELSE it.holds[4 * i - 1] END > it.at
    ORDER BY i LIMIT 1
  );
END
$find_hold$;

-- Makes the state what was seen of it, but only as far as the clock had left it ahead.
CREATE FUNCTION public.slidegate_write_back(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $write_back$
BEGIN
  IF it.moved THEN
    RETURN public.slidegate_write(it);
  ELSIF cardinality(it.holds) > 0 THEN
    it.holds := public.slidegate_open_holds(it.holds, it.now, it.at, it.span);
  END IF;
  it.changed := true;
  RETURN it;
END
$write_back$;

-- Ends the hold of the id. Its units are granted; 0 if there is none.
CREATE FUNCTION public.slidegate_end_hold(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $end_hold$
DECLARE
  place CONSTANT int := public.slidegate_find_hold(it);
BEGIN
  it.granted := 0;
  IF place IS NOT NULL THEN
    it.granted := it.holds[place + 1];
    it.holds := it.holds[: place - 1] || it.holds[place + 4 :];
    it := public.slidegate_write_back(it);
  END IF;
  RETURN it;
END
$end_hold$;

-- Holds the cost for the id, or renews its hold with the units that it has. They are granted.
CREATE FUNCTION public.slidegate_take_hold(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $take_hold$
DECLARE
  units bigint := it.cost;
BEGIN
  IF public.slidegate_find_hold(it) IS NOT NULL THEN
    it := public.slidegate_end_hold(it);
    units := it.granted;
  END IF;
  it.holds := coalesce(it.holds, '{}') || ARRAY[it.id, units, it.at + it.hold, it.hold];
  it := public.slidegate_write_back(it);
  it.open := greatest(it.open, 1);
  it.granted := units;
  RETURN it;
END
$take_hold$;
