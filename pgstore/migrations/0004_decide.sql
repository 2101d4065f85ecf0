-- A take of several charges: all of them, or none.
CREATE OR REPLACE FUNCTION {schema}.{prefix}take_all(items {schema}.{prefix}item[]) RETURNS {schema}.{prefix}item[]
LANGUAGE plpgsql IMMUTABLE
AS $take_all$
DECLARE
  it {schema}.{prefix}item;
  every boolean := true;
  capacity bigint;
BEGIN
  FOR i IN 1 .. cardinality(items) LOOP
    it := items[i];
    it.allowed := it.cost <= it.room AND it.cost <= CASE it.algorithm WHEN 3 THEN it.burst ELSE it.quota END;
    every := every AND it.allowed;
    items[i] := it;
  END LOOP;
  FOR i IN 1 .. cardinality(items) LOOP
    it := items[i];
    capacity := CASE it.algorithm WHEN 3 THEN it.burst ELSE it.quota END;
    IF NOT it.allowed AND it.count_denied AND it.cost > 0 AND it.cost <= capacity THEN
      IF it.algorithm = 3 THEN
        it.debt := greatest(it.debt, it.empty); -- a refusal empties a bucket, never below empty
        items[i] := {schema}.{prefix}settle(it);
      ELSE
        items[i] := {schema}.{prefix}charge(it, it.cost);
      END IF;
    ELSIF NOT it.allowed AND it.moved THEN
      items[i] := {schema}.{prefix}settle(it);
    ELSIF every THEN
      IF it.cost > 0 THEN
        it := {schema}.{prefix}charge(it, it.cost);
      END IF;
      it.granted := it.cost;
      items[i] := it;
    END IF;
  END LOOP;
  RETURN items;
END
$take_all$;

-- One request over items that have been looked at.
CREATE OR REPLACE FUNCTION {schema}.{prefix}request(op bigint, items {schema}.{prefix}item[]) RETURNS {schema}.{prefix}item[]
LANGUAGE plpgsql IMMUTABLE
AS $request$
DECLARE
  it {schema}.{prefix}item;
  least_room bigint := 9007199254740991;
  moved boolean;
BEGIN
  IF op = 0 THEN
    RETURN {schema}.{prefix}take_all(items);
  END IF;
  IF op = 1 THEN -- up to the cost: the least that any limit has room for, and at least 1
    FOREACH it IN ARRAY items LOOP
      least_room := least(least_room, it.cost, greatest(1, it.room));
    END LOOP;
    FOR i IN 1 .. cardinality(items) LOOP
      it := items[i];
      it.cost := least_room;
      items[i] := it;
    END LOOP;
    RETURN {schema}.{prefix}take_all(items);
  END IF;
  FOR i IN 1 .. cardinality(items) LOOP
    it := items[i];
    IF op = 2 THEN
      it.allowed := it.cost <= it.room AND it.cost <= CASE it.algorithm WHEN 3 THEN it.burst ELSE it.quota END;
      items[i] := it;
      CONTINUE;
    END IF;
    moved := it.moved AND op <> 5;
    IF op = 3 THEN
      IF it.cost > 0 THEN
        it := {schema}.{prefix}charge(it, it.cost);
      END IF;
      it.granted := it.cost;
    ELSIF op = 4 THEN
      it := {schema}.{prefix}give_back(it, it.cost, it.since);
    ELSE
      it.changed := it.start IS NOT NULL OR cardinality(it.more) > 0;
      it.start := NULL;
      it.rest := 0;
      it.more := '{}';
    END IF;
    it := {schema}.{prefix}look(it);
    it.moved := it.moved OR moved;
    items[i] := it;
  END LOOP;
  RETURN items;
END
$request$;

-- Makes an item of a row and 14 numbers, and looks at it.
CREATE OR REPLACE FUNCTION {schema}.{prefix}load(s {schema}.{prefix}row, numbers bigint[], o int, now bigint) RETURNS {schema}.{prefix}item
LANGUAGE plpgsql IMMUTABLE
AS $load$
DECLARE
  it {schema}.{prefix}item;
BEGIN
  it.algorithm := numbers[o + 3];
  it.overlap := numbers[o + 4];
  it.anchored := numbers[o + 5] = 1;
  it.count_denied := numbers[o + 6] = 1;
  it.parts := numbers[o + 7];
  it.quota := numbers[o + 8];
  it.burst := numbers[o + 9];
  it.span := numbers[o + 10];
  it.part := numbers[o + 11];
  it.cost := numbers[o + 12];
  it.since := numbers[o + 13];
  it.start := s.start;
  it.rest := s.current;
  it.more := s.more;
  IF it.parts IN (1, 2) AND it.start IS NOT NULL THEN
    it.more := CASE it.parts WHEN 1 THEN ARRAY[s.current] ELSE ARRAY[s.current, s.previous] END;
  END IF;
  it.more := coalesce(it.more, '{}');
  it.now := now;
  it.allowed := true;
  it.granted := 0;
  it.changed := false;
  RETURN {schema}.{prefix}look(it);
END
$load$;

-- Puts an item's state into its row.
CREATE OR REPLACE FUNCTION {schema}.{prefix}save(s {schema}.{prefix}row, it {schema}.{prefix}item) RETURNS {schema}.{prefix}row
LANGUAGE plpgsql IMMUTABLE
AS $save$
BEGIN
  s.start := it.start;
  s.current := 0;
  s.previous := 0;
  s.more := NULL;
  s.expires := 0;
  IF it.algorithm = 1 THEN
    IF cardinality(it.more) > 0 THEN
      s.more := it.more;
      s.expires := it.more[cardinality(it.more)] + it.span;
    END IF;
  ELSIF it.start IS NULL THEN
    NULL;
  ELSIF it.algorithm = 3 THEN
    s.current := it.rest;
    s.expires := it.start + CASE WHEN it.rest > 0 THEN 1 ELSE 0 END;
  ELSE
    s.expires := it.start + it.parts * it.part;
    IF it.parts > 2 THEN
      s.more := it.more;
    ELSE
      s.current := it.more[1];
      s.previous := coalesce(it.more[2], 0);
    END IF;
  END IF;
  RETURN s;
END
$save$;

-- What the answer to an item is worked out from.
CREATE OR REPLACE FUNCTION {schema}.{prefix}tell(it {schema}.{prefix}item) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $tell$
DECLARE
  told bigint[] := '{}';
  units int := cardinality(it.more);
  excess bigint;
BEGIN
  IF it.algorithm = 1 THEN
    excess := it.live + it.cost - it.quota;
    told := ARRAY[it.live, 0, 0];
    IF it.live > 0 THEN
      told[2] := it.more[units] - it.behind;
    END IF;
    IF excess > 0 AND excess <= it.live THEN
      told[3] := it.more[units - it.live + excess] - it.behind;
    END IF;
  ELSIF it.start IS NULL THEN
    NULL;
  ELSIF it.algorithm = 3 THEN
    told := ARRAY[it.start, it.rest];
  ELSE
    told := it.start || it.more;
  END IF;
  RETURN ARRAY[
    it.now, CASE WHEN it.allowed THEN 1 ELSE 0 END + CASE WHEN it.moved THEN 2 ELSE 0 END, it.granted, it.cost, it.at, cardinality(told)
  ] || told;
END
$tell$;

-- Decides any requests in order, each over one or more charges.
-- addresses: of the rows, each once, in order
-- numbers:   the time or -1 for the server's, 1 or 2 to set synchronous_commit off or on, the number of charges, 1 if a request has several; then
--            for every charge the place of its address, counted from 1, the operation, how many charges its request still has, and
--            what load reads
-- returns:   for every charge what tell tells
--
-- How writers do not get in each other's way is said in 0002_take.sql. A request over several keys is decided by all of them, so
-- it cannot be tried again for some: all keys of the call are locked before it is decided for good.
CREATE OR REPLACE FUNCTION {schema}.{prefix}decide(addresses text[], numbers bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $decide$
DECLARE
  several CONSTANT boolean := numbers[4] = 1;
  rows {schema}.{prefix}row[];
  items {schema}.{prefix}item[];
  it {schema}.{prefix}item;
  replies text[] := '{}'; -- an array of bigint cannot hold arrays of several lengths
  again boolean := false;
  changed boolean[];
  tried boolean[];
  ours boolean[]; -- written by this very call
  now bigint;
  o int; a int; n int; written int; wanted int; first int;
BEGIN
  LOOP
    SELECT array_agg(ROW(
      coalesce(t.version, (random() * 9007199254740991)::bigint - 1), coalesce(t.expires, 0), t.start, coalesce(t.current, 0),
      coalesce(t.previous, 0), u.address, t.more
    )::{schema}.{prefix}row ORDER BY u.i), array_agg(coalesce(t.xmin = pg_current_xact_id_if_assigned()::xid, false) ORDER BY u.i)
    INTO rows, ours
    FROM unnest(addresses) WITH ORDINALITY u(address, i)
    LEFT JOIN LATERAL (SELECT t.*, t.xmin FROM {schema}.{prefix}state t WHERE t.address = u.address LIMIT 1) t ON true;
    now := numbers[1];
    IF now < 0 THEN
      now := date_part('epoch', clock_timestamp()) * 1000000;
    END IF;
    changed := array_fill(false, ARRAY[cardinality(addresses)]);
    IF again AND NOT several THEN
      FOR i IN 1 .. cardinality(addresses) LOOP
        tried[i] := tried[i] AND NOT ours[i]; -- the first try did not write it
      END LOOP;
    END IF;

    o := 5;
    first := 1;
    WHILE first <= numbers[3] LOOP
      n := numbers[o + 2];
      a := numbers[o];
      IF again AND NOT several AND NOT tried[a] THEN
        o := o + 14;
        first := first + 1;
        CONTINUE;
      END IF;
      items := '{}';
      FOR i IN 1 .. n LOOP
        items[i] := {schema}.{prefix}load(rows[numbers[o + 14 * (i - 1)]], numbers, o + 14 * (i - 1), now);
      END LOOP;
      items := {schema}.{prefix}request(numbers[o + 1], items);
      FOR i IN 1 .. n LOOP
        it := items[i];
        a := numbers[o];
        IF it.changed THEN
          rows[a] := {schema}.{prefix}save(rows[a], it);
          changed[a] := true;
        END IF;
        replies[first] := array_to_string({schema}.{prefix}tell(it), ',');
        o := o + 14;
        first := first + 1;
      END LOOP;
    END LOOP;

    wanted := cardinality(array_positions(changed, true));
    IF wanted = 0 THEN
      EXIT;
    END IF;
    IF numbers[2] > 0 THEN
      PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
    END IF;
    IF several AND NOT again THEN
      INSERT INTO {schema}.{prefix}state AS t (version, expires, start, current, previous, address)
      SELECT (random() * 9007199254740991)::bigint, 0, NULL, 0, 0, u.address FROM unnest(addresses) u(address)
      ON CONFLICT (address) DO UPDATE SET expires = t.expires WHERE false;
      again := true;
      CONTINUE;
    END IF;
    INSERT INTO {schema}.{prefix}state AS t (version, expires, start, current, previous, address, more)
    SELECT u.version + 1, u.expires, u.start, u.current, u.previous, u.address, u.more
    FROM unnest(rows, changed) AS u(version, expires, start, current, previous, address, more, changed)
    WHERE u.changed
    ON CONFLICT (address) DO UPDATE SET version = excluded.version, expires = excluded.expires, start = excluded.start,
      current = excluded.current, previous = excluded.previous, more = excluded.more
    WHERE t.version = excluded.version - 1;
    GET DIAGNOSTICS written = ROW_COUNT;
    EXIT WHEN written = wanted;
    IF again THEN -- which cannot be, for the rows were locked: somebody else writes to the table
      RAISE serialization_failure USING MESSAGE = 'rows changed that are locked';
    END IF;
    again := true;
    tried := changed;
  END LOOP;
  RETURN string_to_array(array_to_string(replies, ','), ',')::bigint[];
END
$decide$;
