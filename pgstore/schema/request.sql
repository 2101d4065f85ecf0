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
    it.allowed := public.slidegate_admits(it);
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
    ELSIF NOT it.allowed AND (it.moved OR it.ahead) THEN
      items[i] := public.slidegate_write_back(it);
    ELSIF every THEN
      it.granted := it.cost;
      IF it.cost > 0 AND it.holding THEN
        it := public.slidegate_take_hold(it);
      ELSIF it.cost > 0 THEN
        it := public.slidegate_charge(it, it.cost);
      END IF;
      items[i] := it;
    END IF;
  END LOOP;
  RETURN items;
END
$take_all$;

-- Replaces the cost of a reservation by what was used, and releases its slot. What that gave back is granted, or minus what it charged.
-- What was held ends, and what was used of it is charged now. By its id, the cost is that of the call that is remembered, if there was one.
CREATE FUNCTION public.slidegate_settle(it public.slidegate_item, memo bigint[], i int) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $settle$
DECLARE
  held boolean := it.hold > 0;
  cost bigint := it.cost;
  since bigint := it.since;
BEGIN
  IF it.by_id THEN
    cost := 0;
    since := 0;
    held := false;
    IF memo[1] = 2 AND memo[2 * i + 1] IS NOT NULL THEN
      since := least(greatest(memo[2 * i], 0), 8690975254740991);
      cost := least(abs(memo[2 * i + 1]), 9007199254740991);
      held := memo[2 * i + 1] < 0;
    END IF;
  END IF;
  IF it.algorithm = 4 THEN
    RETURN public.slidegate_give_back(it, 1, 1); -- by its id, whatever the moment
  ELSIF held OR it.by_id AND cost = 0 THEN
    it := public.slidegate_end_hold(it);
    cost := it.granted;
    IF it.used > 0 THEN
      it := public.slidegate_charge(it, it.used);
    END IF;
    it.granted := cost - it.used;
  ELSIF it.used < cost THEN
    RETURN public.slidegate_give_back(it, cost - it.used, since);
  ELSIF it.used > cost THEN
    it := public.slidegate_charge(it, it.used - cost);
    it.granted := cost - it.used;
  END IF;
  RETURN it;
END
$settle$;

-- Renews the slot or the hold of the id. Others have nothing to renew.
CREATE FUNCTION public.slidegate_renew(it public.slidegate_item) RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $renew$
BEGIN
  IF it.hold > 0 AND public.slidegate_find_hold(it) IS NULL
    OR it.algorithm = 4 AND public.slidegate_slot(it.more, it.live, it.id) IS NULL THEN
    it.flags := 64;
  ELSIF it.hold > 0 THEN
    RETURN public.slidegate_take_hold(it);
  ELSIF it.algorithm = 4 THEN
    it := public.slidegate_charge(it, 1);
    it.granted := 1;
  END IF;
  RETURN it;
END
$renew$;

-- One operation on one item that has been looked at, for those that do not depend on other items. It is item i of its request; flags and
-- memo are what is remembered of that.
CREATE FUNCTION public.slidegate_apply(op bigint, it public.slidegate_item, flags int, memo bigint[], i int)
RETURNS public.slidegate_item
LANGUAGE plpgsql IMMUTABLE
AS $apply$
DECLARE
  moved CONSTANT boolean := (it.moved OR it.ahead) AND op <> 5;
BEGIN
  IF op = 2 THEN -- peek
    it.allowed := public.slidegate_admits(it);
    RETURN it;
  ELSIF op = 7 THEN -- renew
    RETURN public.slidegate_renew(it);
  ELSIF op = 3 THEN -- charge
    IF it.cost > 0 THEN
      it := public.slidegate_charge(it, it.cost);
    END IF;
    it.granted := it.cost;
  ELSIF op = 4 THEN -- give back
    it := public.slidegate_give_back(it, it.cost, it.since);
  ELSIF op = 5 THEN -- reset
    it.changed := it.start IS NOT NULL OR cardinality(it.more) > 0 OR cardinality(it.holds) > 0;
    it.start := NULL;
    it.more := '{}';
    it.holds := NULL;
  ELSIF flags = 4 THEN -- settled before: as it was then
    it.granted := coalesce(memo[1 + i], 0);
  ELSIF flags = 0 OR it.algorithm = 4 THEN
    it := public.slidegate_settle(it, memo, i);
  END IF;
  it := public.slidegate_look(it);
  it.moved := it.moved OR moved;
  it.flags := CASE WHEN it.algorithm = 4 AND NOT it.by_id THEN 0 ELSE flags END;
  RETURN it;
END
$apply$;

-- A call that was made before, or was cancelled and is refused for good.
CREATE FUNCTION public.slidegate_repeat(items public.slidegate_item[], memo bigint[]) RETURNS public.slidegate_item[]
LANGUAGE plpgsql IMMUTABLE
AS $repeat$
DECLARE
  it public.slidegate_item;
BEGIN
  FOR i IN 1 .. cardinality(items) LOOP
    it := items[i];
    it.flags := CASE memo[1] WHEN 1 THEN 68 ELSE 4 END;
    IF memo[1] = 2 THEN
      it.granted := least(abs(coalesce(memo[2 * i + 1], 0)), 9007199254740991);
      IF memo[2 * i + 1] IS NOT NULL AND memo[2 * i] > 0 THEN
        it.at := least(memo[2 * i], 8690975254740991);
      END IF;
    ELSIF memo[1] = 0 THEN
      it.granted := it.cost;
    END IF;
    items[i] := it;
  END LOOP;
  RETURN items;
END
$repeat$;

-- One request over items that have been looked at. For a settlement, and for a call that counts once, memo is what is remembered of its
-- id, and is_full is whether no more can be.
CREATE FUNCTION public.slidegate_request(op bigint, items public.slidegate_item[], memo bigint[], is_full boolean)
RETURNS public.slidegate_item[]
LANGUAGE plpgsql IMMUTABLE
AS $request$
DECLARE
  it public.slidegate_item;
  least_room bigint := 9007199254740991;
BEGIN
  IF op = 0 AND memo IS NOT NULL THEN
    RETURN public.slidegate_repeat(items, memo);
  ELSIF op = 0 THEN
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
    items[i] := public.slidegate_apply(op, items[i], CASE WHEN memo[1] < 2 THEN 4 WHEN is_full THEN 8 ELSE 0 END, memo, i);
  END LOOP;
  RETURN items;
END
$request$;

-- Returns what is to be remembered of a request that was decided: see rule.Memo. Null if it was refused.
CREATE FUNCTION public.slidegate_record(op bigint, items public.slidegate_item[]) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
AS $record$
DECLARE
  it public.slidegate_item;
  memo bigint[] := ARRAY[CASE op WHEN 0 THEN 2 ELSE 1 END];
BEGIN
  FOREACH it IN ARRAY items LOOP
    IF op = 0 AND NOT it.allowed THEN
      RETURN NULL;
    ELSIF op = 0 THEN
      memo := memo || it.at || CASE WHEN it.holding THEN -it.granted ELSE it.granted END;
    ELSE
      memo := memo || it.granted;
      IF it.used > 0 THEN
        memo[1] := 0;
      END IF;
    END IF;
  END LOOP;
  RETURN memo;
END
$record$;
