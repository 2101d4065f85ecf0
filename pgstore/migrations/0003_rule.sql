-- The decision rule for all algorithms and operations, one charge at a time. It is the package rule in SQL: what a function
-- does and why is said there. Only what decides is here; the times to wait are worked out from what is returned.

-- A row of the table while it is decided about.
DO $row$
BEGIN
  CREATE TYPE {schema}.{prefix}row AS (
    version bigint, expires bigint, start bigint, current bigint, previous bigint, address text, more bigint[]
  );
EXCEPTION WHEN duplicate_object OR duplicate_table THEN
  IF (
    SELECT string_agg(a.attname, ' ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = to_regclass('{schema}.{prefix}row') AND a.attnum > 0 AND NOT a.attisdropped
  ) IS DISTINCT FROM 'version expires start current previous address more' THEN
    RAISE; -- it is another type
  END IF;
END
$row$;

-- An item is a charge with its limit, its state and what was seen of it.
DO $item$
BEGIN
  CREATE TYPE {schema}.{prefix}item AS (
    algorithm int,        -- 0 sliding-window, 1 sliding-log, 2 fixed-window, 3 token-bucket
    overlap int,          -- 0 up, 1 down, 2 whole
    anchored boolean,     -- at the first request
    count_denied boolean,
    parts int, quota bigint, burst bigint, span bigint, part bigint, cost bigint, since bigint,
    start bigint,         -- the state: null if never charged,
    rest bigint,          -- of a token bucket,
    more bigint[],        -- counts or times
    now bigint, at bigint, moved boolean, room bigint, -- the view
    place bigint, shift int, -- windows: where the current part starts, and by how many parts the counts are behind it
    debt numeric, empty numeric, -- token-bucket: in 1/quota microseconds
    live bigint, behind bigint, -- sliding-log: how many units count, and by how much their times are to be moved back
    allowed boolean, granted bigint, changed boolean
  );
EXCEPTION WHEN duplicate_object OR duplicate_table THEN
  IF (
    SELECT string_agg(a.attname, ' ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = to_regclass('{schema}.{prefix}item') AND a.attnum > 0 AND NOT a.attisdropped
  ) IS DISTINCT FROM 'algorithm overlap anchored count_denied parts quota burst span part cost since start rest more now at moved'
      ' room place shift debt empty live behind allowed granted changed' THEN
    RAISE; -- it is another type
  END IF;
END
$item$;

-- How much a count counts of which covered/part lies in the window. Products of more than 63 bits are made in numeric.
CREATE OR REPLACE FUNCTION {schema}.{prefix}weigh(count bigint, covered bigint, part bigint, overlap int) RETURNS bigint
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

-- How many of some ascending times are later than a moment.
CREATE OR REPLACE FUNCTION {schema}.{prefix}later(times bigint[], moment bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
AS $later$
DECLARE
  low int := 0;
  high int := coalesce(cardinality(times), 0);
  count int := high;
  middle int;
BEGIN
  WHILE low < high LOOP
    middle := (low + high) / 2;
    IF times[middle + 1] > moment THEN
      high := middle;
    ELSE
      low := middle + 1;
    END IF;
  END LOOP;
  RETURN count - low;
END
$later$;

CREATE OR REPLACE FUNCTION {schema}.{prefix}look(it {schema}.{prefix}item) RETURNS {schema}.{prefix}item
LANGUAGE plpgsql IMMUTABLE
AS $look$
DECLARE
  ahead bigint;
  used bigint := 0;
  oldest int;
BEGIN
  it.at := it.now;
  it.moved := false;
  IF it.algorithm = 1 THEN
    it.behind := 0;
    ahead := it.more[cardinality(it.more)] - it.now; -- null if there is none
    IF ahead > it.span THEN
      it.moved := true;
      it.behind := ahead;
    ELSIF ahead > 0 THEN
      it.at := it.now + ahead;
    END IF;
    it.live := least({schema}.{prefix}later(it.more, it.at - it.span + it.behind), it.quota);
    it.room := it.quota - it.live;
    RETURN it;
  END IF;
  IF it.algorithm = 3 THEN
    it.debt := 0;
    it.empty := it.burst::numeric * it.span;
    IF it.start >= it.now THEN
      it.debt := (it.start - it.now)::numeric * it.quota + least(it.rest, it.quota - 1);
    END IF;
    IF it.debt > it.empty + 2 * it.quota::numeric * it.span THEN
      it.debt := it.empty;
      it.moved := true;
    END IF;
    it.room := CASE WHEN it.debt > it.empty THEN -1 ELSE div(it.empty - it.debt, it.span) END;
    RETURN it;
  END IF;

  it.place := it.start;
  it.shift := 0;
  ahead := it.start - it.now;
  IF it.start IS NULL OR ahead > it.span OR -ahead >= it.parts * it.part THEN
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
      used := used + {schema}.{prefix}weigh(it.more[oldest], it.place + it.part - it.at, it.part, it.overlap);
    END IF;
  END IF;
  it.room := it.quota - used;
  RETURN it;
END
$look$;

-- Makes the state what was seen of it, in which nothing is charged yet.
CREATE OR REPLACE FUNCTION {schema}.{prefix}settle(it {schema}.{prefix}item) RETURNS {schema}.{prefix}item
LANGUAGE plpgsql IMMUTABLE
AS $settle$
BEGIN
  IF it.algorithm = 1 THEN
    it.more := it.more[cardinality(it.more) - it.live + 1 :];
    IF it.behind > 0 THEN
      it.more := ARRAY(SELECT u.t - it.behind FROM unnest(it.more) WITH ORDINALITY u(t, i) ORDER BY u.i);
      it.behind := 0;
    END IF;
  ELSIF it.algorithm = 3 THEN
    it.start := it.now + div(it.debt, it.quota);
    it.rest := mod(it.debt, it.quota);
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
$settle$;

CREATE OR REPLACE FUNCTION {schema}.{prefix}charge(it {schema}.{prefix}item, n bigint) RETURNS {schema}.{prefix}item
LANGUAGE plpgsql IMMUTABLE
AS $charge$
DECLARE
  deepest numeric;
BEGIN
  IF it.algorithm = 1 THEN
    n := least(n, it.quota);
    it := {schema}.{prefix}settle(it);
    it.more := it.more || array_fill(it.at, ARRAY[n::int]);
    it.live := least(it.live + n, it.quota);
    it.more := it.more[cardinality(it.more) - it.live + 1 :];
  ELSIF it.algorithm = 3 THEN
    deepest := it.empty + it.quota::numeric * it.span;
    it.debt := greatest(it.debt, least(it.debt + n::numeric * it.span, deepest));
    it := {schema}.{prefix}settle(it);
  ELSE
    it := {schema}.{prefix}settle(it);
    it.more[1] := least(it.more[1] + n, 9007199254740991);
  END IF;
  RETURN it;
END
$charge$;

-- Takes up to n units back, those of a moment or, if that is 0, the oldest. What there was to take is granted.
CREATE OR REPLACE FUNCTION {schema}.{prefix}give_back(it {schema}.{prefix}item, n bigint, moment bigint) RETURNS {schema}.{prefix}item
LANGUAGE plpgsql IMMUTABLE
AS $give_back$
DECLARE
  given bigint := 0;
  newest int := 0;
  oldest int := it.parts - 1;
  taken bigint;
  i int;
BEGIN
  IF it.start IS NULL AND it.algorithm <> 1 THEN
    RETURN it;
  END IF;
  IF it.algorithm = 1 THEN
    given := it.live;
    IF moment <> 0 THEN
      moment := moment + it.behind;
      given := least(it.live, {schema}.{prefix}later(it.more, moment - 1)) - least(it.live, {schema}.{prefix}later(it.more, moment));
    END IF;
    given := least(n, given);
    IF given > 0 AND moment = 0 THEN
      it.live := it.live - given;
    ELSIF given > 0 THEN
      it.more := it.more[cardinality(it.more) - it.live + 1 :];
      i := it.live - {schema}.{prefix}later(it.more, moment - 1); -- how many come before the ones to be taken
      it.more := it.more[1 : i] || it.more[i + given + 1 :];
      it.live := it.live - given;
    END IF;
  ELSIF it.algorithm = 3 THEN
    IF moment = 0 OR it.now - moment < div(it.empty + it.quota - 1, it.quota) THEN
      given := least(n, div(it.debt + it.span - 1, it.span));
      it.debt := greatest(0, it.debt - given::numeric * it.span);
    END IF;
  ELSE
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
    it := {schema}.{prefix}settle(it);
  END IF;
  it.granted := given;
  RETURN it;
END
$give_back$;
