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
  it.hold := 0;
  it.holding := false;
  it.by_id := false;
  IF numbers[5] > 14 THEN
    it.used := numbers[o + 14];
    it.id := numbers[o + 15];
    it.hold := numbers[o + 22];
    it.holding := numbers[o + 23] & 1 > 0 AND it.hold > 0;
    it.by_id := numbers[o + 23] & 2 > 0;
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
  it.holds := s.holds;
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
  s.holds := NULL;
  IF cardinality(it.holds) > 0 THEN
    s.holds := it.holds;
    s.expires := greatest(s.expires, it.holds[cardinality(it.holds) - 1]); -- the last one ends last
  END IF;
  RETURN s;
END
$save$;

-- Returns the numbers that the answer to an item is derived from: of what was decided, then the state, and what is held. Of a log, the state
-- is only what the answer depends on, unless something is held.
CREATE FUNCTION public.slidegate_reply(it public.slidegate_item) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $reply$
DECLARE
  reply bigint[] := '{}';
  n CONSTANT int := CASE it.algorithm WHEN 4 THEN 2 ELSE 1 END; -- numbers per unit
  excess bigint;
BEGIN
  IF it.open > 0 AND it.algorithm = 1 THEN
    reply := it.more[cardinality(it.more) - it.live + 1 :];
    IF it.behind > 0 THEN
      reply := ARRAY(SELECT u.t - it.behind FROM unnest(reply) WITH ORDINALITY u(t, i) ORDER BY u.i);
    END IF;
  ELSIF it.algorithm IN (1, 4) THEN
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
    it.now, CASE WHEN it.allowed THEN 1 ELSE 0 END + CASE WHEN it.moved OR it.ahead THEN 2 ELSE 0 END + it.flags
      + CASE WHEN it.unnamed AND it.algorithm = 0 THEN 16 ELSE 0 END, it.granted, it.cost, it.at, cardinality(reply),
    CASE WHEN it.open > 0 THEN cardinality(it.holds) ELSE 0 END
  ] || reply || CASE WHEN it.open > 0 THEN it.holds END;
END
$reply$;

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
--            before anything is decided for good and 2 if before anything is read, and how many numbers each charge has: 14, or 24. Then for
--            every charge the place of its address, counted from 1, the operation, how many charges its request still has, and what load reads. The
--            last ten are what was used, the reservation, how long it is remembered (0 if it need not be), how many are, where four
--            periods of a calendar start, 0 if there is none, how long units are held, and 1 if they are, plus 2 if it counts once
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
  memory bigint := 0;
  memo bigint[];
  is_full boolean;
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
      coalesce(t.previous, 0), u.address, t.more, t.holds
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
      memo := NULL;
      is_full := false;
      IF stride > 14 THEN
        memory := numbers[o + 16];
      END IF;
      IF memory > 0 THEN -- at the time of rule.SettledAt
        SELECT r.memo, r.is_full, r.generation INTO memo, is_full, generation
        FROM public.slidegate_recall(addresses[a], numbers[o + 15], memory, numbers[o + 17], (
          SELECT greatest(max(i.now), max(i.at) FILTER (WHERE i.algorithm <> 4),
            max(least(i.since, 8690975254740991)) FILTER (WHERE i.algorithm <> 4)) FROM unnest(items) i
        )) r;
      END IF;
      items := public.slidegate_request(numbers[o + 1], items, memo, is_full);
      IF memory > 0 AND (memo IS NULL OR memo[1] = 2 AND numbers[o + 1] = 6) THEN
        memo := public.slidegate_record(numbers[o + 1], items);
        IF memo IS NOT NULL AND NOT is_full THEN
          changed[a] := true;
          PERFORM public.slidegate_remember(addresses[a], numbers[o + 15], generation, memo);
        ELSIF memo IS NOT NULL AND numbers[o + 1] = 0 THEN
          FOR i IN 1 .. n LOOP
            it := items[i];
            it.flags := 32;
            items[i] := it;
          END LOOP;
        END IF;
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
    INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address, more, holds)
    SELECT u.version + 1, u.expires, u.start, u.current, u.previous, u.address, u.more, u.holds
    FROM unnest(rows, changed) AS u(version, expires, start, current, previous, address, more, holds, changed)
    WHERE u.changed
    ON CONFLICT (address) DO UPDATE SET version = excluded.version, expires = excluded.expires, start = excluded.start,
      current = excluded.current, previous = excluded.previous, more = excluded.more, holds = excluded.holds
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
  SELECT t.version, t.expires, t.start, t.current, t.previous, t.address, t.more, t.holds INTO s
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
      it := (public.slidegate_request(numbers[o + 1], ARRAY[it], NULL, false))[1];
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
      INSERT INTO public.slidegate_state (version, expires, start, current, previous, address, more, holds)
      VALUES ((random() * 9007199254740991)::bigint, s.expires, s.start, s.current, s.previous, place, s.more, s.holds)
      ON CONFLICT (address) DO NOTHING;
    ELSE
      UPDATE public.slidegate_state t
      SET version = s.version + 1, expires = s.expires, start = s.start, current = s.current, previous = s.previous, more = s.more, holds = s.holds
      WHERE t.address = place AND t.version = s.version;
    END IF;
    EXIT WHEN FOUND;
    SELECT t.version, t.expires, t.start, t.current, t.previous, t.address, t.more, t.holds INTO s
    FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) FOR UPDATE;
  END LOOP;
  RETURN replies;
END
$decide_one$;

-- Decides the takes of take_any for a row in which something is held. It returns -3, and then what decide_one returns.
CREATE FUNCTION public.slidegate_take_held(
  place text, moment bigint, synchronous bigint, kind bigint, parts bigint, part bigint, span bigint, most bigint, unit bigint, times bigint,
  quota bigint
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE -- called by take and take_any, with their settings
AS $take_held$
DECLARE
  bucket CONSTANT boolean := kind & 7 = 3;
  numbers bigint[] := ARRAY[moment, synchronous, times, 0, 14];
  charge CONSTANT bigint[] := ARRAY[
    1, 0, 1, kind & 7, kind >> 5 & 3, CASE WHEN kind & 8 > 0 THEN 1 WHEN kind & 128 > 0 THEN 2 ELSE 0 END, kind >> 4 & 1, parts,
    CASE WHEN bucket THEN quota ELSE most END, CASE WHEN bucket THEN most / span ELSE 0 END, span, part,
    CASE WHEN bucket AND unit > most THEN most / span + 1 WHEN bucket THEN unit / span ELSE unit END, 0
  ];
BEGIN
  FOR i IN 1 .. times LOOP
    numbers := numbers || charge;
  END LOOP;
  RETURN -3::bigint || public.slidegate_decide_one(place, numbers);
END
$take_held$;
