-- The decision rule for all algorithms and operations, one charge at a time: package rule in SQL, which says what each function does
-- and why. Only what decides is here; Go derives the times to wait from the result.

-- A row of the table while it is decided about.
CREATE TYPE public.slidegate_row AS (
  version bigint, expires bigint, start bigint, current bigint, previous bigint, address text, more bigint[],
  holds bigint[]
);

-- An item is a charge with its limit, its state and what was seen of it.
CREATE TYPE public.slidegate_item AS (
  algorithm int,        -- 0 sliding-window, 1 sliding-log, 2 fixed-window, 3 token-bucket, 4 in-flight
  unnamed boolean,      -- the limit names no algorithm: 0 and 1 above say how its state is kept now
  in_parts boolean,     -- and then whether a key starts in parts
  overlap int,          -- 0 up, 1 down, 2 whole
  anchored boolean,     -- at the first request
  count_refused boolean,
  parts int, quota bigint, burst bigint, span bigint, part bigint, cost bigint, since bigint,
  used bigint, id bigint, -- of a reservation
  hold bigint,          -- how long units are held; 0 if the limit has no hold
  holding boolean,      -- whether this request holds its units
  by_id boolean,        -- whether a settlement is of the call with its id, whatever since and cost say
  bounds bigint[],      -- of a calendar: where four of its periods start; null if the limit has none
  start bigint,         -- the state: null if never charged,
  more bigint[],        -- counts; times; slots, each its id and when it was renewed; of a bucket: as of when, the units that are
                        -- missing, the rest in 1/span of a unit, and until when
  holds bigint[],       -- as in the table
  now bigint, at bigint, moved boolean, room bigint, -- the view
  place bigint, shift int, -- windows: where the current part starts, and by how many parts the counts are behind it
  debt numeric, empty numeric, deepest numeric, -- token-bucket: in 1/span of a unit,
  until bigint,         -- and when nothing is missing any more
  live bigint, behind bigint, -- sliding-log, in-flight: how many units count, and by how much their times are to be moved back
  held bigint, open int, -- how many units are held, and by how many reservations
  ahead boolean,        -- whether some are as if held now, because they were held too far ahead of the clock
  allowed boolean, granted bigint, changed boolean,
  flags int             -- 4 if it was done before, 8 if a settlement or 32 if a call cannot be remembered, 64 if it is refused for good
);

-- How much a count counts of which covered/part lies in the window. Products of more than 63 bits are made in numeric.
CREATE FUNCTION public.slidegate_weigh(count bigint, covered bigint, part bigint, overlap int) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
AS $weigh$
DECLARE
  up bigint := CASE overlap WHEN 0 THEN part - 1 ELSE 0 END;
BEGIN
  IF count = 0 OR covered = part OR overlap = 2 THEN
    RETURN count;
  ELSIF count < 9223372036854775807 / part THEN
    RETURN (count * covered + up) / part;
  END IF;
  RETURN div(count::numeric * covered + up, part);
END
$weigh$;

-- In a row, the counts of a window in several parts are those that are not 0, oldest first: each is 128 times the count plus the number of
-- the part, modulo 128. The part that contains time t has the number t / part. There are at most 65 parts, so modulo 128 is enough.

-- Returns all counts of a row, newest first. Number is that of its current part.
CREATE FUNCTION public.slidegate_counts(used bigint[], number bigint, parts int) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $counts$
DECLARE
  counts bigint[] := array_fill(0::bigint, ARRAY[parts]);
  one bigint;
BEGIN
  FOREACH one IN ARRAY coalesce(used, '{}') LOOP
    counts[((number - one) & 127) + 1] := one >> 7;
  END LOOP;
  RETURN counts;
END
$counts$;

-- The reverse of counts.
CREATE FUNCTION public.slidegate_used(counts bigint[], number bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $used$
BEGIN
  RETURN ARRAY(SELECT c.n * 128 + ((number - c.i + 1) & 127) FROM unnest(counts) WITH ORDINALITY c(n, i) WHERE c.n > 0 ORDER BY c.i DESC);
END
$used$;

-- Numbers the parts of a row again: the current one has another number, and how old they are stays.
CREATE FUNCTION public.slidegate_move_parts(used bigint[], by bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $move_parts$
BEGIN
  RETURN ARRAY(SELECT ((u.one >> 7) << 7) + ((u.one + by) & 127) FROM unnest(used) WITH ORDINALITY u(one, i) ORDER BY u.i);
END
$move_parts$;

-- Returns the parts of a row that contain the units of a log, whose times are to be moved back. The current one begins at place.
CREATE FUNCTION public.slidegate_to_parts(times bigint[], behind bigint, place bigint, part bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $to_parts$
BEGIN
  RETURN ARRAY(
    SELECT count(*) * 128 + ((place / part - g.ago) & 127) FROM (
      SELECT CASE WHEN u.at - behind < place THEN (place - u.at + behind - 1) / part + 1 ELSE 0 END AS ago FROM unnest(times) u(at)
    ) g GROUP BY g.ago ORDER BY g.ago DESC
  );
END
$to_parts$;

-- Returns how many of some ascending times are later than a moment. Every n-th number is a time.
CREATE FUNCTION public.slidegate_count_later(numbers bigint[], n int, moment bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
AS $count_later$
DECLARE
  low int := 0;
  high int := coalesce(cardinality(numbers), 0) / n;
  count int := high;
  middle int;
BEGIN
  WHILE low < high LOOP
    middle := (low + high) / 2;
    IF numbers[n * (middle + 1)] > moment THEN
      high := middle;
    ELSE
      low := middle + 1;
    END IF;
  END LOOP;
  RETURN count - low;
END
$count_later$;

-- Where the id of a slot is among the last live slots; null if it is not held. 0 is no id.
CREATE FUNCTION public.slidegate_slot(slots bigint[], live bigint, id bigint) RETURNS int
LANGUAGE plpgsql IMMUTABLE
AS $slot$
DECLARE
  place int := array_position(slots, id);
BEGIN
  IF id = 0 THEN
    RETURN NULL;
  END IF;
  WHILE place % 2 = 0 LOOP -- that is a time, not an id
    place := array_position(slots, id, place + 1);
  END LOOP;
  IF place <= cardinality(slots) - 2 * live THEN
    RETURN NULL; -- it ran out
  END IF;
  RETURN place;
END
$slot$;

CREATE FUNCTION public.slidegate_look_used(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $look_used$
DECLARE
  ahead bigint;
  used bigint := 0;
  period bigint;
  oldest int;
BEGIN
  it.at := it.now;
  it.moved := false;
  IF it.unnamed THEN
    it.algorithm := CASE WHEN it.start IS NULL THEN 1 ELSE 0 END;
  END IF;
  IF it.algorithm IN (1, 4) THEN
    it.behind := 0;
    ahead := it.more[cardinality(it.more)] - it.now; -- of the newest unit; null if there is none
    IF ahead > it.span THEN
      it.moved := true;
      it.behind := ahead;
    ELSIF ahead > 0 THEN
      it.at := it.now + ahead;
    END IF;
    it.live := public.slidegate_count_later(it.more, CASE it.algorithm WHEN 1 THEN 1 ELSE 2 END, it.at - it.span + it.behind);
    it.room := it.quota - it.live;
    RETURN it;
  END IF;
  IF it.algorithm = 3 THEN
    it.debt := 0;
    it.until := 0;
    it.empty := it.burst::numeric * it.span;
    it.deepest := least(it.burst + it.quota, 9007199254740991)::numeric * it.span;
    IF cardinality(it.more) > 0 THEN
      ahead := it.more[1] - it.now;
      IF ahead > 0 OR it.now < it.more[4] THEN
        it.debt := greatest(0, it.more[2]::numeric * it.span + it.more[3] - greatest(0, -ahead)::numeric * it.quota);
      END IF;
      IF it.debt > 0 THEN
        it.until := it.more[4];
      END IF;
      IF ahead > it.span THEN
        it.moved := true;
        it.until := it.until - ahead;
      ELSIF ahead > 0 THEN
        it.at := it.more[1];
      END IF;
    END IF;
    it.room := CASE WHEN it.debt > it.empty THEN -1 ELSE div(it.empty - it.debt, it.span) END;
    RETURN it;
  END IF;

  it.place := it.start;
  it.shift := 0;
  ahead := it.start - it.now;
  IF it.bounds IS NOT NULL THEN
    period := CASE WHEN it.now < it.bounds[2] THEN it.bounds[1] WHEN it.now < it.bounds[3] THEN it.bounds[2] ELSE it.bounds[3] END;
    IF it.start IS NULL OR it.start < period OR ahead > it.span THEN
      it.moved := coalesce(ahead > it.span, false);
      it.place := period;
      it.shift := CASE WHEN it.moved THEN 0 ELSE 1 END;
    ELSIF ahead > 0 THEN
      it.at := it.start;
    END IF;
  ELSIF it.start IS NULL OR ahead > it.span OR -ahead >= it.parts * it.part THEN
    it.moved := coalesce(ahead > it.span, false);
    it.place := CASE WHEN it.anchored THEN it.now ELSE it.now - it.now % it.part END;
    it.shift := CASE WHEN it.moved THEN 0 ELSE it.parts END;
  ELSIF ahead > 0 THEN
    it.at := it.start;
  ELSE
    it.shift := -ahead / it.part;
    it.place := it.start + it.shift * it.part;
  END IF;
  oldest := it.parts - it.shift;
  IF oldest >= 1 THEN
    IF it.algorithm = 2 THEN
      used := it.more[1];
    ELSE
      FOR i IN 1 .. oldest - 1 LOOP
        used := used + it.more[i];
      END LOOP;
      used := used + public.slidegate_weigh(it.more[oldest], it.place + it.part - it.at, it.part, it.overlap);
    END IF;
  END IF;
  it.room := it.quota - used;
  IF it.unnamed AND used = 0 THEN -- as a log that is empty
    it.algorithm := 1;
    it.live := 0;
    it.behind := 0;
    it.moved := false;
    it.at := it.now;
  END IF;
  RETURN it;
END
$look_used$;

CREATE FUNCTION public.slidegate_look(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $look$
BEGIN
  it := public.slidegate_look_used(it);
  it.held := 0;
  it.open := 0;
  it.ahead := false;
  IF cardinality(it.holds) > 0 THEN
    SELECT h.held, h.holders, h.ahead INTO it.held, it.open, it.ahead FROM public.slidegate_held(it.holds, it.now, it.at, it.span) h;
    it.room := it.room - it.held;
  END IF;
  RETURN it;
END
$look$;

-- Whether a take of the cost is admitted. What its id already holds does not count again.
CREATE FUNCTION public.slidegate_admits(it public.slidegate_item) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $admits$
BEGIN
  RETURN it.cost <= it.room AND it.cost <= CASE it.algorithm WHEN 3 THEN it.burst ELSE it.quota END AND (NOT it.holding OR it.open < 1000)
    OR it.algorithm = 4 AND public.slidegate_slot(it.more, it.live, it.id) IS NOT NULL
    OR it.holding AND public.slidegate_find_hold(it) IS NOT NULL;
END
$admits$;

-- Makes the state what was seen of it, in which nothing is charged yet.
CREATE FUNCTION public.slidegate_write(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $write$
BEGIN
  IF cardinality(it.holds) > 0 THEN
    it.holds := public.slidegate_open_holds(it.holds, it.now, it.at, it.span);
  END IF;
  IF it.algorithm = 1 THEN
    it.start := NULL;
    it.more := it.more[cardinality(it.more) - it.live + 1 :];
    IF it.behind > 0 THEN
      it.more := ARRAY(SELECT u.t - it.behind FROM unnest(it.more) WITH ORDINALITY u(t, i) ORDER BY u.i);
      it.behind := 0;
    END IF;
  ELSIF it.algorithm = 4 THEN
    it.more := it.more[cardinality(it.more) - 2 * it.live + 1 :];
    IF it.behind > 0 THEN
      it.more := ARRAY(
        SELECT CASE WHEN u.i % 2 = 0 THEN u.t - it.behind ELSE u.t END FROM unnest(it.more) WITH ORDINALITY u(t, i) ORDER BY u.i
      );
      it.behind := 0;
    END IF;
  ELSIF it.algorithm = 3 THEN
    IF it.moved THEN
      it.start := it.at;
      it.more[1] := it.at;
      it.more[4] := it.until;
    END IF;
  ELSE
    IF it.shift > 0 THEN
      it.more := array_fill(0::bigint, ARRAY[it.shift]) || it.more[1 : it.parts - it.shift];
    END IF;
    it.start := it.place;
    it.shift := 0;
  END IF;
  it.changed := true;
  RETURN it;
END
$write$;

-- Writes a debt that a charge has raised. The state then ends a window later, or when the bucket is full, but not before it ended so far.
CREATE FUNCTION public.slidegate_raise_debt(it public.slidegate_item, raised numeric) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $raise_debt$
BEGIN
  IF cardinality(it.holds) > 0 THEN
    it.holds := public.slidegate_open_holds(it.holds, it.now, it.at, it.span);
  END IF;
  it.start := it.at;
  it.more := ARRAY[
    it.at, div(raised, it.span), mod(raised, it.span),
    greatest(it.until, it.at + greatest(it.span, div(least(raised, it.deepest) + it.quota - 1, it.quota)))
  ];
  it.changed := true;
  RETURN it;
END
$raise_debt$;

-- Makes parts of the log of a limit that names no algorithm.
CREATE FUNCTION public.slidegate_become_parts(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $become_parts$
BEGIN
  it.algorithm := 0;
  it.place := it.at - it.at % it.part;
  it.more := public.slidegate_counts(
    public.slidegate_to_parts(it.more[cardinality(it.more) - it.live + 1 :], it.behind, it.place, it.part), it.place / it.part, it.parts
  );
  it.start := it.place;
  it.at := greatest(it.now, it.place);
  it.shift := 0;
  it.behind := 0;
  RETURN it;
END
$become_parts$;

CREATE FUNCTION public.slidegate_charge(it public.slidegate_item, n bigint) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $charge$
DECLARE
  place int;
BEGIN
  IF it.unnamed AND it.algorithm = 1 AND (it.in_parts OR it.live + n > 100) THEN
    it := public.slidegate_become_parts(it);
  END IF;
  IF it.unnamed AND it.algorithm = 1 THEN
    it := public.slidegate_write(it);
    it.more := it.more || array_fill(it.at, ARRAY[n::int]);
    it.live := it.live + n;
  ELSIF it.algorithm = 1 THEN
    n := least(n, it.quota);
    it := public.slidegate_write(it);
    it.more := it.more || array_fill(it.at, ARRAY[n::int]);
    it.live := least(it.live + n, greatest(it.live, it.quota));
    it.more := it.more[cardinality(it.more) - it.live + 1 :];
  ELSIF it.algorithm = 3 THEN
    it := public.slidegate_raise_debt(it, greatest(it.debt, least(it.debt + n::numeric * it.span, it.deepest)));
  ELSIF it.algorithm = 4 THEN -- one slot, held by an id
    it := public.slidegate_write(it);
    place := public.slidegate_slot(it.more, it.live, it.id);
    IF place IS NULL AND it.live >= it.quota AND it.live > 0 THEN
      place := 1; -- taken regardless: the one that was renewed least recently goes
    END IF;
    IF place IS NOT NULL THEN
      it.more := it.more[: place - 1] || it.more[place + 2 :];
    END IF;
    it.more := it.more || it.id || it.at;
    it.live := cardinality(it.more) / 2;
    it.room := it.quota - it.live;
  ELSE
    it := public.slidegate_write(it);
    it.more[1] := least(it.more[1] + n, 9007199254740991);
  END IF;
  RETURN it;
END
$charge$;

-- Takes up to n units back, those of a moment or, if that is 0, the oldest. What there was to take is granted. A slot is found by its
-- id and not by the moment.
CREATE FUNCTION public.slidegate_give_back(it public.slidegate_item, n bigint, moment bigint) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $give_back$
DECLARE
  given bigint := 0;
  newest int := 0;
  oldest int := it.parts - 1;
  back numeric;
  taken bigint;
  i int;
BEGIN
  IF it.unnamed AND moment <> 0 AND moment <= it.at - it.span THEN
    RETURN it; -- it was not moved when a log became parts: taking it back would take that of another
  END IF;
  IF it.algorithm = 1 THEN
    given := it.live;
    IF moment <> 0 THEN
      moment := moment + it.behind;
      given := least(it.live, public.slidegate_count_later(it.more, 1, moment - 1))
        - least(it.live, public.slidegate_count_later(it.more, 1, moment));
    END IF;
    given := least(n, given);
    IF given > 0 AND moment = 0 THEN
      it.live := it.live - given;
    ELSIF given > 0 THEN
      it.more := it.more[cardinality(it.more) - it.live + 1 :];
      i := it.live - public.slidegate_count_later(it.more, 1, moment - 1); -- how many come before the ones to be taken
      it.more := it.more[1 : i] || it.more[i + given + 1 :];
      it.live := it.live - given;
    END IF;
  ELSIF it.algorithm = 3 THEN
    back := n::numeric * it.span;
    IF moment <> 0 AND moment < it.at THEN
      back := back - (it.at - moment)::numeric * it.quota; -- what has been refilled since is there already
    END IF;
    back := least(back, it.debt);
    IF back > 0 THEN -- from the debt as it was written: what has been refilled since is for the limit that decides next to say
      given := div(back + it.span - 1, it.span);
      it := public.slidegate_write(it);
      back := it.more[2]::numeric * it.span + it.more[3] - back;
      it.more[2] := div(back, it.span);
      it.more[3] := mod(back, it.span);
      IF back = 0 THEN
        it.start := NULL;
        it.more := '{}';
      END IF;
      it.granted := given;
      RETURN it;
    END IF;
  ELSIF it.algorithm = 4 THEN
    IF moment = 0 THEN
      given := least(n, it.live);
      it.live := it.live - given; -- write drops what is not live
    ELSE
      i := public.slidegate_slot(it.more, it.live, it.id);
      IF i IS NOT NULL THEN
        given := 1;
        it.more := it.more[: i - 1] || it.more[i + 2 :];
        it.live := it.live - 1;
      END IF;
    END IF;
  ELSIF it.start IS NOT NULL THEN
    IF moment <> 0 THEN
      IF moment < it.place THEN
        newest := least((it.place - moment - 1) / it.part + 1, it.parts);
      END IF;
      oldest := least(oldest, newest);
    END IF;
    i := oldest;
    WHILE i >= greatest(newest, it.shift) AND given < n LOOP
      taken := least(n - given, it.more[i - it.shift + 1]);
      it.more[i - it.shift + 1] := it.more[i - it.shift + 1] - taken;
      given := given + taken;
      i := i - 1;
    END LOOP;
  END IF;
  IF given > 0 THEN
    it := public.slidegate_write(it);
  END IF;
  it.granted := given;
  RETURN it;
END
$give_back$;
