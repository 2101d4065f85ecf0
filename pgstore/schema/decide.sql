-- A take of several charges: all of them, or none.
CREATE FUNCTION public.slidegate_take_all(items public.slidegate_item[]) RETURNS public.slidegate_item[]
LANGUAGE plpgsql IMMUTABLE
AS $take_all$
DECLARE
  it public.slidegate_item;
  every boolean := true;
  capacity bigint;
BEGIN
  FOR i IN 1 .. cardinality(items) LOOP
    it := items[i];
    it.allowed := it.cost <= it.room AND it.cost <= CASE it.algorithm WHEN 3 THEN it.burst ELSE it.quota END
      OR it.algorithm = 4 AND public.slidegate_slot(it.more, it.live, it.id) IS NOT NULL; -- a slot that it holds is not another one
    every := every AND it.allowed;
    items[i] := it;
  END LOOP;
  FOR i IN 1 .. cardinality(items) LOOP
    it := items[i];
    capacity := CASE it.algorithm WHEN 3 THEN it.burst ELSE it.quota END;
    IF NOT it.allowed AND it.count_refused AND it.cost > 0 AND it.cost <= capacity AND (it.algorithm <> 3 OR it.debt < it.empty) THEN
      IF it.algorithm = 3 THEN
        items[i] := public.slidegate_raise_debt(it, it.empty); -- a refusal empties a bucket, never below empty
      ELSE
        items[i] := public.slidegate_charge(it, it.cost);
      END IF;
    ELSIF NOT it.allowed AND it.moved THEN
      items[i] := public.slidegate_write(it);
    ELSIF every THEN
      IF it.cost > 0 THEN
        it := public.slidegate_charge(it, it.cost);
      END IF;
      it.granted := it.cost;
      items[i] := it;
    END IF;
  END LOOP;
  RETURN items;
END
$take_all$;

-- Replaces the cost of a reservation by what was used, and releases its slot. What that gave back is granted, or minus what it charged.
CREATE FUNCTION public.slidegate_settle(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $settle$
BEGIN
  IF it.algorithm = 4 THEN
    RETURN public.slidegate_give_back(it, 1, 1); -- by its id, whatever the moment
  ELSIF it.used < it.cost THEN
    RETURN public.slidegate_give_back(it, it.cost - it.used, it.since);
  ELSIF it.used > it.cost THEN
    it := public.slidegate_charge(it, it.used - it.cost);
    it.granted := it.cost - it.used;
  END IF;
  RETURN it;
END
$settle$;

-- One operation on one item that has been looked at, for those that do not depend on other items.
CREATE FUNCTION public.slidegate_apply(op bigint, it public.slidegate_item, flags int, back bigint)
RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $apply$
DECLARE
  moved CONSTANT boolean := it.moved AND op <> 5;
BEGIN
  IF op = 2 THEN -- peek
    it.allowed := it.cost <= it.room AND it.cost <= CASE it.algorithm WHEN 3 THEN it.burst ELSE it.quota END
      OR it.algorithm = 4 AND public.slidegate_slot(it.more, it.live, it.id) IS NOT NULL; -- a slot that it holds is not another one
    RETURN it;
  ELSIF op = 7 THEN -- renew
    IF it.algorithm = 4 AND public.slidegate_slot(it.more, it.live, it.id) IS NULL THEN
      it.allowed := false;
    ELSIF it.algorithm = 4 THEN
      it := public.slidegate_charge(it, 1);
      it.granted := 1;
    END IF;
    RETURN it;
  ELSIF op = 3 THEN -- charge
    IF it.cost > 0 THEN
      it := public.slidegate_charge(it, it.cost);
    END IF;
    it.granted := it.cost;
  ELSIF op = 4 THEN -- give back
    it := public.slidegate_give_back(it, it.cost, it.since);
  ELSIF op = 5 THEN -- reset
    it.changed := it.start IS NOT NULL OR cardinality(it.more) > 0;
    it.start := NULL;
    it.more := '{}';
  ELSIF flags = 4 THEN -- settled before: as it was then
    it.granted := coalesce(back, 0);
  ELSIF flags = 0 OR it.algorithm = 4 THEN
    it := public.slidegate_settle(it);
  END IF;
  it := public.slidegate_look(it);
  it.moved := it.moved OR moved;
  it.flags := CASE it.algorithm WHEN 4 THEN 0 ELSE flags END;
  RETURN it;
END
$apply$;

-- One request over items that have been looked at. For a settlement, flags and back are what is remembered of it.
CREATE FUNCTION public.slidegate_request(op bigint, items public.slidegate_item[], flags int, back bigint[])
RETURNS public.slidegate_item[]
LANGUAGE plpgsql IMMUTABLE
AS $request$
DECLARE
  it public.slidegate_item;
  least_room bigint := 9007199254740991;
BEGIN
  IF op = 0 THEN
    RETURN public.slidegate_take_all(items);
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
    RETURN public.slidegate_take_all(items);
  END IF;
  FOR i IN 1 .. cardinality(items) LOOP
    items[i] := public.slidegate_apply(op, items[i], flags, back[i]);
  END LOOP;
  RETURN items;
END
$request$;

-- Makes an item of a row and the numbers of its charge, and looks at it.
CREATE FUNCTION public.slidegate_load(s public.slidegate_row, numbers bigint[], o int, now bigint)
RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $load$
DECLARE
  it public.slidegate_item;
BEGIN
  it.algorithm := numbers[o + 3];
  it.unnamed := it.algorithm = 5;
  it.overlap := numbers[o + 4];
  it.anchored := numbers[o + 5] = 1;
  it.in_parts := numbers[o + 5] = 2;
  it.count_refused := numbers[o + 6] = 1;
  it.parts := numbers[o + 7];
  it.quota := numbers[o + 8];
  it.burst := numbers[o + 9];
  it.span := numbers[o + 10];
  it.part := numbers[o + 11];
  it.cost := numbers[o + 12];
  it.since := numbers[o + 13];
  IF numbers[5] > 14 THEN
    it.used := numbers[o + 14];
    it.id := numbers[o + 15];
    IF numbers[o + 21] > 0 THEN
      it.bounds := numbers[o + 18 : o + 21];
    END IF;
  END IF;
  it.start := s.start;
  it.more := s.more;
  IF it.parts > 0 AND it.start IS NOT NULL THEN
    it.more := CASE it.parts WHEN 1 THEN ARRAY[s.current] WHEN 2 THEN ARRAY[s.current, s.previous]
      ELSE public.slidegate_counts(s.more, s.start / it.part, it.parts) END;
  END IF;
  it.more := coalesce(it.more, '{}');
  it.now := now;
  it.allowed := true;
  it.granted := 0;
  it.changed := false;
  it.flags := 0;
  RETURN public.slidegate_look(it);
END
$load$;

-- Puts an item's state into its row.
CREATE FUNCTION public.slidegate_save(s public.slidegate_row, it public.slidegate_item) RETURNS public.slidegate_row
LANGUAGE plpgsql IMMUTABLE
AS $save$
BEGIN
  s.start := it.start;
  s.current := 0;
  s.previous := -1; -- the format
  s.more := NULL;
  s.expires := 0;
  IF it.algorithm = 4 OR it.algorithm = 1 AND it.start IS NULL THEN -- otherwise parts in which nothing counts
    IF cardinality(it.more) > 0 THEN
      s.more := it.more;
      s.expires := it.more[cardinality(it.more)] + it.span;
    END IF;
  ELSIF it.start IS NULL THEN
    NULL;
  ELSIF it.algorithm = 3 THEN
    s.more := it.more;
    s.expires := it.more[4];
  ELSE
    s.expires := it.start + it.parts * it.part;
    IF it.parts > 2 THEN
      s.more := public.slidegate_used(it.more, it.start / it.part);
      s.current := (SELECT sum(n) FROM unnest(it.more) n);
    ELSE
      s.current := it.more[1];
      s.previous := coalesce(it.more[2], 0);
    END IF;
    IF it.bounds IS NOT NULL THEN
      s.expires := coalesce((SELECT min(b.at) FROM unnest(it.bounds) b(at) WHERE b.at > it.start), s.expires);
      s.previous := -1;
    END IF;
  END IF;
  RETURN s;
END
$save$;

-- Returns the numbers that the answer to an item is derived from.
CREATE FUNCTION public.slidegate_reply(it public.slidegate_item) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $reply$
DECLARE
  reply bigint[] := '{}';
  n CONSTANT int := CASE it.algorithm WHEN 4 THEN 2 ELSE 1 END; -- numbers per unit
  excess bigint;
BEGIN
  IF it.algorithm IN (1, 4) THEN
    excess := it.live - it.quota + CASE WHEN it.allowed THEN 1 ELSE it.cost END;
    reply := ARRAY[it.live, 0, it.now - it.span];
    IF it.live > 0 THEN
      reply[2] := it.more[cardinality(it.more)] - it.behind;
    END IF;
    IF excess > 0 AND excess <= it.live THEN -- the unit that must run out before the cost fits, or before one does
      reply[3] := it.more[cardinality(it.more) - n * (it.live - excess)] - it.behind;
    END IF;
  ELSIF it.start IS NULL THEN
    NULL;
  ELSIF it.algorithm = 3 THEN
    reply := it.more;
  ELSE
    reply := it.start || it.more;
  END IF;
  RETURN ARRAY[
    it.now, CASE WHEN it.allowed THEN 1 ELSE 0 END + CASE WHEN it.moved THEN 2 ELSE 0 END + it.flags
      + CASE WHEN it.unnamed AND it.algorithm = 0 THEN 16 ELSE 0 END, it.granted, it.cost, it.at,
    cardinality(reply)
  ] || reply;
END
$reply$;

-- Settlements are rows too, in generations; see rule.Generation. Each reservation has a row, named by how long it is remembered for
-- certain, the address of its first charge, the generation, counted from 1, and the reservation. A row without the last two is for the
-- generation itself: its number and the time of its latest settlement in more, when it began in start, and how many it has in current. No
-- other address begins with a percent sign and a small letter s, but for %sha256.

-- The end of the name of a settlement. Those of an address are in the order of their generations.
CREATE FUNCTION public.slidegate_settled(generation bigint, id bigint) RETURNS text
LANGUAGE sql IMMUTABLE
AS $settled$
  SELECT ':' || lpad(to_hex(generation), 12, '0') || ':' || lpad(to_hex(id), 16, '0')
$settled$;

-- What is remembered of a settlement: 4 with what it gave back if it is known, 8 if no more can be remembered, else 0 with the generation
-- as it is with this settlement: its number, when it began, its latest and how many.
CREATE FUNCTION public.slidegate_recall(
  place text, id bigint, memory bigint, most bigint, at bigint, OUT flags int, OUT back bigint[], OUT generation bigint[]
)
LANGUAGE plpgsql VOLATILE -- called by decide, with its settings
AS $recall$
DECLARE
  own CONSTANT text := '%settled:' || memory || ':' || place;
  number bigint; began bigint; latest bigint; count bigint;
  full_up boolean;
BEGIN
  flags := 0;
  SELECT t.more[1], t.start, t.more[2], t.current INTO number, began, latest, count FROM public.slidegate_state t WHERE t.address = own AND (t.previous >= -1 OR public.slidegate_readable(t.previous));
  IF number IS NULL THEN
    generation := ARRAY[1, at, at, 1];
    RETURN;
  END IF;
  SELECT t.more INTO back FROM public.slidegate_state t
  WHERE t.address IN (own || public.slidegate_settled(number, id), own || public.slidegate_settled(number - 1, id)) AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) LIMIT 1;
  full_up := count >= most;
  IF back IS NOT NULL THEN
    flags := 4;
  ELSIF at - began >= memory AND (at - began >= 600000000 OR full_up) OR at - began < -memory AND full_up THEN -- rule.LongMemory
    generation := ARRAY[number + 1, greatest(latest, at), at, 1];
  ELSIF full_up THEN
    flags := 8;
  ELSE
    generation := ARRAY[number, began, greatest(latest, at), count + 1];
  END IF;
END
$recall$;

-- Remembers a settlement. The caller has locked the row of the address. Two of the settlements that are not known any more go, if there
-- are any and this role may delete, so that they do not become more while nobody sweeps.
CREATE FUNCTION public.slidegate_remember(place text, id bigint, memory bigint, generation bigint[], back bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE -- called by decide, with its settings
AS $remember$
DECLARE
  own CONSTANT text := '%settled:' || memory || ':' || place;
  until CONSTANT bigint := generation[3] + greatest(memory, 600000000);
BEGIN
  INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address, more)
  VALUES (0, until, NULL, 0, -1, own || public.slidegate_settled(generation[1], id), back),
    (0, until, generation[2], generation[4], -1, own, ARRAY[generation[1], generation[3]])
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

-- Whether the time lies outside of the periods that a calendar was sent with.
CREATE FUNCTION public.slidegate_outside(numbers bigint[], now bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $outside$
DECLARE
  o int := 6;
BEGIN
  IF numbers[5] > 14 THEN
    FOR i IN 1 .. numbers[3] LOOP
      IF numbers[o + 21] > 0 AND (now < numbers[o + 18] OR now >= numbers[o + 21]) THEN
        RETURN true;
      END IF;
      o := o + numbers[5];
    END LOOP;
  END IF;
  RETURN false;
END
$outside$;

-- Decides any requests in order, each over one or more charges.
-- addresses: of the rows, each once, in order
-- numbers:   the time or -1 for the server's, 1 or 2 to set synchronous_commit off or on, the number of charges, 1 if all rows must be locked
--            before anything is decided for good and 2 if before anything is read, and how many numbers each charge has: 14, or 22. Then for
--            every charge the place of its address, counted from 1, the operation, how many charges its request still has, and what load reads. The
--            last eight are what was used, the reservation, how long a settlement is remembered (0 if it need not be), how many are, and
--            where four periods of a calendar start, 0 if there is none
-- returns:   for every charge the result of reply; or -1 and the time, if it is not within the periods of a calendar
--
-- takes.sql describes how concurrent writers avoid conflicts. A request over several keys is decided by all of them, so it cannot be
-- tried again for some: all keys of the call are locked before it is decided for good. For a settlement they are locked before
-- anything is read, so that what is remembered and the counts are of the same moment. It also writes the row of its first address: at
-- every isolation level, two calls that settle the same reservation conflict there.
CREATE FUNCTION public.slidegate_decide(addresses text[], numbers bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $decide$
DECLARE
  several CONSTANT boolean := numbers[4] > 0;
  stride CONSTANT int := numbers[5];
  rows public.slidegate_row[];
  items public.slidegate_item[];
  it public.slidegate_item;
  replies text[] := '{}'; -- an array of bigint cannot hold arrays of several lengths
  again boolean := false;
  locking boolean := numbers[4] = 2;
  changed boolean[];
  tried boolean[];
  ours boolean[]; -- written by this very call
  flags int := 0;
  back bigint[];
  generation bigint[];
  now bigint;
  o int; a int; n int; written int; wanted int; first int;
BEGIN
  LOOP
    IF locking THEN
      IF numbers[2] > 0 THEN
        PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
      END IF;
      INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address)
      SELECT (random() * 9007199254740991)::bigint, 0, NULL, 0, 0, u.address FROM unnest(addresses) u(address)
      ON CONFLICT (address) DO UPDATE SET expires = t.expires WHERE false;
      locking := false;
      again := true;
    END IF;
    SELECT array_agg(ROW(
      coalesce(t.version, (random() * 9007199254740991)::bigint - 1), coalesce(t.expires, 0), t.start, coalesce(t.current, 0),
      coalesce(t.previous, 0), u.address, t.more
    )::public.slidegate_row ORDER BY u.i), array_agg(coalesce(t.xmin = pg_current_xact_id_if_assigned()::xid, false) ORDER BY u.i)
    INTO rows, ours
    FROM unnest(addresses) WITH ORDINALITY u(address, i)
    LEFT JOIN LATERAL (
      SELECT t.*, t.xmin FROM public.slidegate_state t WHERE t.address = u.address AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) LIMIT 1
    ) t ON true;
    now := numbers[1];
    IF now < 0 THEN
      now := date_part('epoch', clock_timestamp()) * 1000000;
    END IF;
    IF stride > 14 AND public.slidegate_outside(numbers, now) THEN
      RETURN ARRAY[-1, now];
    END IF;
    changed := array_fill(false, ARRAY[cardinality(addresses)]);
    IF again AND NOT several THEN
      FOR i IN 1 .. cardinality(addresses) LOOP
        tried[i] := tried[i] AND NOT ours[i]; -- the first try did not write it
      END LOOP;
    END IF;

    o := 6;
    first := 1;
    WHILE first <= numbers[3] LOOP
      n := numbers[o + 2];
      a := numbers[o];
      IF again AND NOT several AND NOT tried[a] THEN
        o := o + stride;
        first := first + 1;
        CONTINUE;
      END IF;
      items := '{}';
      FOR i IN 1 .. n LOOP
        items[i] := public.slidegate_load(rows[numbers[o + stride * (i - 1)]], numbers, o + stride * (i - 1), now);
      END LOOP;
      flags := 0;
      IF numbers[o + 1] = 6 AND numbers[o + 16] > 0 THEN -- a settlement, at the time of rule.SettledAt
        SELECT r.flags, r.back, r.generation INTO flags, back, generation
        FROM public.slidegate_recall(addresses[a], numbers[o + 15], numbers[o + 16], numbers[o + 17], (
          SELECT greatest(max(i.at), max(least(i.since, 8690975254740991))) FROM unnest(items) i WHERE i.algorithm <> 4
        )) r;
        IF flags = 0 THEN
          changed[a] := true;
        END IF;
      END IF;
      items := public.slidegate_request(numbers[o + 1], items, flags, back);
      IF numbers[o + 1] = 6 AND flags = 0 AND numbers[o + 16] > 0 THEN
        back := ARRAY(SELECT i.granted FROM unnest(items) i);
        PERFORM public.slidegate_remember(addresses[a], numbers[o + 15], numbers[o + 16], generation, back);
      END IF;
      FOR i IN 1 .. n LOOP
        it := items[i];
        a := numbers[o];
        IF it.changed THEN
          rows[a] := public.slidegate_save(rows[a], it);
          changed[a] := true;
        END IF;
        replies[first] := array_to_string(public.slidegate_reply(it), ',');
        o := o + stride;
        first := first + 1;
      END LOOP;
    END LOOP;

    wanted := cardinality(array_positions(changed, true));
    EXIT WHEN wanted = 0;
    IF several AND NOT again THEN
      locking := true;
      CONTINUE;
    END IF;
    IF numbers[2] > 0 THEN
      PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
    END IF;
    INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address, more)
    SELECT u.version + 1, u.expires, u.start, u.current, u.previous, u.address, u.more
    FROM unnest(rows, changed) AS u(version, expires, start, current, previous, address, more, changed)
    WHERE u.changed
    ON CONFLICT (address) DO UPDATE SET version = excluded.version, expires = excluded.expires, start = excluded.start,
      current = excluded.current, previous = excluded.previous, more = excluded.more
    WHERE t.version = excluded.version - 1;
    GET DIAGNOSTICS written = ROW_COUNT;
    EXIT WHEN written = wanted;
    IF again THEN -- impossible, because the rows were locked, unless another program writes to the table
      RAISE serialization_failure USING MESSAGE = 'rows changed that are locked';
    END IF;
    again := true;
    tried := changed;
  END LOOP;
  RETURN string_to_array(array_to_string(replies, ','), ',')::bigint[];
END
$decide$;

-- decide for the most common of its calls: requests with one charge each, all of the same address, and no settlements. It has the same
-- numbers and the same result, in plain statements, of which fewer have to be prepared in every transaction. takes.sql describes how
-- concurrent writers avoid conflicts.
CREATE FUNCTION public.slidegate_decide_one(place text, numbers bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $decide_one$
DECLARE
  s public.slidegate_row;
  it public.slidegate_item;
  replies bigint[];
  changed boolean;
  now bigint;
BEGIN
  SELECT t.version, t.expires, t.start, t.current, t.previous, t.address, t.more INTO s
  FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous));
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
      it := public.slidegate_load(s, numbers, o, now);
      it := (public.slidegate_request(numbers[o + 1], ARRAY[it], 0, NULL))[1];
      IF it.changed THEN
        s := public.slidegate_save(s, it);
        changed := true;
      END IF;
      replies := replies || public.slidegate_reply(it);
    END LOOP;
    EXIT WHEN NOT changed;
    IF numbers[2] > 0 THEN
      PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
    END IF;
    IF s.version IS NULL THEN
      INSERT INTO public.slidegate_state (version, expires, start, current, previous, address, more)
      VALUES ((random() * 9007199254740991)::bigint, s.expires, s.start, s.current, s.previous, place, s.more)
      ON CONFLICT (address) DO NOTHING;
    ELSE
      UPDATE public.slidegate_state t
      SET version = s.version + 1, expires = s.expires, start = s.start, current = s.current, previous = s.previous, more = s.more
      WHERE t.address = place AND t.version = s.version;
    END IF;
    EXIT WHEN FOUND;
    SELECT t.version, t.expires, t.start, t.current, t.previous, t.address, t.more INTO s
    FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) FOR UPDATE;
  END LOOP;
  RETURN replies;
END
$decide_one$;
