-- The same for every algorithm except slots and calendars. take_any is for one key and take_any_many for several, each key once and in
-- order.
--
-- Parameters for each key:
--   kind   the algorithm, 0 for windows, 1 for logs, 3 for buckets and 5 if none is named; plus 8 if anchored at the first request, 16 if
--          refusals count, 32 times the overlap, which is 2 for fixed windows, and 128 if none is named and a key starts in parts
--   parts  the number of counts of a window; 0 for other algorithms
--   part   the length of a part of a window
--   span   the length of the window
--   most   the capacity: the quota, or the debt of an empty bucket, in 1/span of a unit. It is small enough that all products here fit in
--          63 bits; a debt from the time of a larger limit may not, and counts as 2^62, which is above every capacity
--   unit   how much of it each request takes; more than most if that can never be admitted
--   times  the number of requests; 1 for a log if refusals count, and if no algorithm is named
--   quota  of a bucket: how much a microsecond refills
--
-- Results for each key: the time; eight times the number of admitted requests, plus 1 if the state was ahead of the clock, 2 if a state
-- without a named algorithm is in parts, and 4 if the state is not returned as it was read, but as of now; and four numbers:
--   pairs    windows in one part: start, or -1 if never charged; the current count and the previous one; 0
--   windows  start as it was read, or -1; where the current part starts now, its count, and what was used before anything was charged
--   logs     the number of live units, and the newest of them; then the unit that expires first after the requests, and the unit that
--            must expire before another request is admitted
--   buckets  the state as it was read: as of when, what is missing, the rest, until when
-- Or -3, and then what decide_one returns for the requests, for a row in which something is held.
-- After these six numbers come the parts of windows as they were read, if the answer depends on them. In take_any_many all replies have the same
-- length, padded with 0.

-- Decides some keys of take_any_many, one at a time. The result is -2, and for each key the length of its result before it.
CREATE FUNCTION public.slidegate_take_failed(addresses text[], numbers bigint[], replies bigint[], failed int[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE -- called by take_any_many, with its settings
AS $take_failed$
DECLARE
  texts text[] := '{-2}'; -- appending to an array of bigint would copy it each time
  one bigint[];
BEGIN
  FOR n IN 1 .. cardinality(addresses) LOOP
    IF n = ANY (failed) THEN
      one := public.slidegate_take_any(addresses[n], numbers[1], 0, numbers[8 * n - 5], numbers[8 * n - 4], numbers[8 * n - 3],
        numbers[8 * n - 2], numbers[8 * n - 1], numbers[8 * n], numbers[8 * n + 1], numbers[8 * n + 2]);
    ELSE
      one := replies[n : n];
    END IF;
    texts := texts || cardinality(one)::text || array_to_string(one, ',');
  END LOOP;
  RETURN string_to_array(array_to_string(texts, ','), ',')::bigint[];
END
$take_failed$;

-- Several keys. numbers contains the time or -1 for the server's, 1 or 2 to set synchronous_commit off or on, and eight numbers for each key.
-- It decides the common cases together, and leaves rows that others have written meanwhile, rows in which something is held, and logs that become
-- parts, to take_any: they are locked by then, in their order, if anything is to be written. The result is then -2, and for each key the length of
-- its result before it.
CREATE FUNCTION public.slidegate_take_any_many(addresses text[], numbers bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take_any_many$
DECLARE
  replies bigint[];
  failed int[];
BEGIN
  IF numbers[2] > 0 THEN
    PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
  END IF;
  -- OFFSET 0 keeps a step from being evaluated once for each of its uses.
  WITH decided AS MATERIALIZED (
    SELECT c.i, c.address, c.version, c.changed, c.held IS NOT NULL AS held,
      CASE c.algorithm WHEN 0 THEN c.place + c.parts * c.part WHEN 1 THEN c.span + CASE WHEN c.charged > 0 THEN c.at ELSE c.own - c.behind END
        ELSE c.until END AS expires,
      CASE WHEN c.version = -9 OR c.algorithm = 1 THEN NULL WHEN c.algorithm = 0 THEN c.place ELSE c.at END AS start,
      CASE WHEN c.algorithm > 0 THEN 0 WHEN c.parts > 2 THEN c.total + c.charged ELSE c.newest + c.charged END AS current,
      CASE WHEN c.algorithm = 0 AND c.parts <= 2 THEN c.oldest ELSE -1 END AS previous,
      CASE WHEN NOT c.changed OR c.version = -9 THEN NULL
        WHEN c.algorithm = 0 THEN CASE WHEN c.parts > 2 THEN
          (CASE WHEN c.moved THEN public.slidegate_move_parts(c.more, c.place / c.part - c.own / c.part) ELSE c.more END)
            [c.dead + 1 : cardinality(c.more) - CASE WHEN c.newest > 0 THEN 1 ELSE 0 END]
          || CASE WHEN c.newest + c.charged > 0 THEN ARRAY[(c.newest + c.charged) * 128 + (c.place / c.part & 127)] ELSE '{}' END END
        WHEN c.algorithm = 1 THEN
          CASE WHEN c.behind = 0 THEN c.more[cardinality(c.more) - c.kept + 1 :]
            ELSE ARRAY(SELECT m.t - c.behind FROM unnest(c.more[cardinality(c.more) - c.kept + 1 :]) WITH ORDINALITY m(t, i) ORDER BY m.i) END
          || CASE c.charged WHEN 1 THEN ARRAY[c.at] ELSE array_fill(c.at, ARRAY[c.charged]::int[]) END
        WHEN c.charged = 0 THEN ARRAY[c.at, c.more[2], c.more[3], c.until]
        ELSE ARRAY[c.at, (c.used + c.charged) / c.span, (c.used + c.charged) % c.span, c.until] END AS more,
      CASE c.algorithm
        WHEN 0 THEN ARRAY[c.now, c.outcome, coalesce(c.own, -1), CASE WHEN c.parts > 2 THEN c.place ELSE coalesce(c.current, 0) END,
          CASE WHEN c.parts > 2 THEN c.newest ELSE coalesce(c.previous, 0) END, CASE WHEN c.parts > 2 THEN c.used ELSE 0 END]
        WHEN 1 THEN ARRAY[c.now, c.outcome, c.used, CASE WHEN c.used = 0 THEN 0 WHEN c.at > c.now THEN c.at ELSE c.own - c.behind END,
          CASE WHEN c.kept > 0 THEN c.more[cardinality(c.more) - c.kept + 1] - c.behind ELSE c.at END,
          CASE WHEN c.admitted = c.times THEN 0 WHEN c.charged + c.unit > c.most THEN c.at
            ELSE c.more[cardinality(c.more) + c.charged + c.unit - c.most] - c.behind END]
        ELSE ARRAY[c.now, c.outcome, coalesce(c.own, 0), coalesce(c.more[2], 0), coalesce(c.more[3], 0), coalesce(c.more[4], 0)] END AS reply,
      CASE WHEN c.algorithm = 0 AND c.parts > 2 AND (c.admitted < c.times OR c.used + c.unit * c.admitted >= c.most OR c.unit = 0) THEN c.more END
        AS counts
    FROM (
      SELECT b.*, CASE WHEN b.kind & 7 = 5 THEN b.used ELSE least(b.used, greatest(b.used, b.most) - b.charged) END AS kept, -- units of a log
        CASE WHEN b.algorithm = 3 THEN greatest(CASE WHEN b.used > 0 THEN b.more[4] - b.behind END,
          CASE WHEN b.charged > 0 THEN b.at + greatest(b.span, (b.used + b.charged + b.quota - 1) / b.quota) END) END AS until,
        8 * b.admitted + CASE WHEN b.moved THEN 1 ELSE 0 END + CASE WHEN b.kind & 7 = 5 AND b.algorithm = 0 THEN 2 ELSE 0 END AS outcome,
        b.moved AND b.admitted < b.times OR b.unit > 0 AND b.taken > 0 AND (b.algorithm < 3 OR b.charged > 0) AS changed
      FROM (
        SELECT a.*, CASE
            WHEN a.algorithm = 0 THEN least(a.unit * a.taken, 9007199254740991 - a.newest)
            WHEN a.kind & 7 = 5 THEN a.unit * a.taken
            WHEN a.algorithm = 1 THEN least(a.unit * a.taken, a.most)
            WHEN a.taken > a.admitted THEN greatest(a.unit * a.admitted, a.most - a.used) -- a refusal empties a bucket, never below empty
            ELSE a.unit * a.taken END AS charged
        FROM (
          SELECT x.*, CASE WHEN x.kind & 16 > 0 AND x.unit <= x.most THEN x.times ELSE x.admitted END AS taken,
            -- A log becomes parts with a charge that needs them. No row has this version.
            CASE WHEN x.held IS NOT NULL OR x.kind & 7 = 5 AND x.algorithm = 1 AND x.unit > 0 AND x.unit <= x.most
              AND (x.kind & 16 > 0 OR x.used + x.unit <= x.most) AND (x.kind & 128 > 0 OR x.used + x.unit > 100) THEN -9 ELSE x.known END AS version
          FROM (
            SELECT u.i, u.address, u.version AS known, u.kind, u.parts, u.part, u.span, u.most, u.unit, u.times, u.quota, u.now, u.own, u.behind,
              u.total, u.oldest, u.newest, u.current, u.previous, u.held, u.used,
              -- Without a named algorithm, a row in which nothing counts is as one that was never charged.
              CASE WHEN u.kind & 7 <> 5 OR u.used > 0 THEN u.algorithm WHEN u.kind & 128 > 0 THEN 0 ELSE 1 END AS algorithm,
              CASE WHEN u.kind & 7 <> 5 OR u.used > 0 THEN u.more ELSE '{}' END AS more,
              CASE WHEN u.kind & 7 <> 5 OR u.used > 0 THEN u.dead ELSE 0 END AS dead,
              CASE WHEN u.kind & 7 <> 5 OR u.used > 0 THEN u.at ELSE u.now END AS at,
              CASE WHEN u.kind & 7 <> 5 OR u.used > 0 THEN u.place ELSE u.now - u.now % u.part END AS place,
              u.behind > 0 AND (u.kind & 7 <> 5 OR u.used > 0) AS moved,
              CASE
                WHEN u.used > u.most - u.unit THEN 0
                WHEN u.unit = 0 THEN u.times
                ELSE least(u.times, (u.most - u.used) / u.unit) END AS admitted
            FROM (
              SELECT w.*, CASE w.algorithm
                WHEN 0 THEN w.total - CASE
                  WHEN w.kind >= 64 OR w.oldest = 0 OR w.at <= w.place THEN 0
                  WHEN w.oldest < 9223372036854775807 / w.part
                    THEN w.oldest - (w.oldest * (w.place + w.part - w.at) + CASE WHEN w.kind < 32 THEN w.part - 1 ELSE 0 END) / w.part
                  ELSE w.oldest - div(w.oldest::numeric * (w.place + w.part - w.at) + CASE WHEN w.kind < 32 THEN w.part - 1 ELSE 0 END, w.part)::bigint END
                WHEN 1 THEN CASE WHEN w.own IS NULL THEN 0 ELSE cardinality(w.more) - width_bucket(greatest(w.own, w.now) - w.span, w.more) END
                ELSE w.debt END + CASE WHEN w.held IS NULL OR w.algorithm = 3 AND w.debt > w.most THEN 0
                  WHEN w.algorithm = 3 THEN least(w.held, w.most / w.span + 1) * w.span ELSE w.held END AS used
              FROM (
                SELECT k.*, CASE WHEN k.holds IS NULL THEN NULL ELSE (public.slidegate_held(k.holds, k.now, k.at, k.span)).held END AS held,
                  CASE WHEN k.algorithm > 0 THEN 0
                    WHEN k.parts > 2 THEN CASE
                      WHEN k.shift = k.parts THEN 0
                      WHEN k.dead = 0 THEN k.current
                      WHEN k.dead = 1 THEN k.current - (k.more[1] >> 7)
                      ELSE k.current - (SELECT sum(e >> 7)::bigint FROM unnest(k.more[: k.dead]) e) END
                    WHEN k.shift = 0 THEN k.current + k.previous
                    WHEN k.shift < k.parts THEN k.current
                    ELSE 0 END AS total,
                  CASE WHEN k.parts = 1 OR k.shift = k.parts THEN 0
                    WHEN k.parts > 2 THEN CASE WHEN k.kind < 64 AND ((k.own / k.part - k.more[k.dead + 1]) & 127) + k.shift = k.parts - 1
                      THEN k.more[k.dead + 1] >> 7 ELSE 0 END
                    WHEN k.shift = 0 THEN k.previous
                    ELSE k.current END AS oldest,
                  CASE WHEN k.shift > 0 OR k.algorithm > 0 THEN 0
                    WHEN k.parts > 2 THEN CASE WHEN (k.own / k.part - k.more[cardinality(k.more)]) & 127 = 0
                      THEN k.more[cardinality(k.more)] >> 7 ELSE 0 END
                    ELSE k.current END AS newest,
                  CASE WHEN k.algorithm = 3 THEN 0 WHEN k.kind & 8 = 0 THEN k.at - k.at % k.part
                    WHEN k.shift < k.parts AND k.behind = 0 THEN k.own + k.shift * k.part ELSE k.now END AS place
                FROM (
                  SELECT l.*, CASE
                    WHEN l.parts <= 2 OR l.algorithm > 0 OR l.shift = 0 THEN 0
                    WHEN l.shift = l.parts THEN cardinality(l.more)
                    WHEN ((l.own / l.part - l.more[1]) & 127) + l.shift < l.parts THEN 0
                    WHEN ((l.own / l.part - l.more[2]) & 127) + l.shift < l.parts THEN 1
                    ELSE (SELECT count(*) FROM unnest(l.more) e WHERE ((l.own / l.part - e) & 127) + l.shift >= l.parts) END::int AS dead
                  FROM (
                    SELECT f.*,
                      CASE WHEN f.own - f.now > f.span THEN f.own - f.now ELSE 0 END AS behind,
                      CASE WHEN f.own > f.now AND f.own - f.now <= f.span THEN f.own ELSE f.now END AS at,
                      CASE WHEN f.algorithm > 0 THEN 0 WHEN f.own IS NULL THEN f.parts WHEN f.own >= f.now THEN 0
                        ELSE least((f.now - f.own) / f.part, f.parts) END AS shift,
                      CASE WHEN f.algorithm < 3 OR f.own IS NULL OR f.own <= f.now AND f.now >= f.more[4] THEN 0
                        WHEN f.more[2] >= 4611686018427387904 / f.span THEN least(4611686018427387904,
                          greatest(0, f.more[2]::numeric * f.span + f.more[3] - greatest(0, f.now - f.own)::numeric * f.quota))::bigint
                        WHEN f.now - f.own > (f.more[2] * f.span + f.more[3]) / f.quota THEN 0
                        ELSE f.more[2] * f.span + f.more[3] - greatest(0, f.now - f.own) * f.quota END AS debt
                    FROM (
                      SELECT u.i, u.address, u.kind, u.parts, u.part, u.span, u.most, u.unit, u.times, u.quota,
                        t.holds, t.version, t.current, t.previous, coalesce(t.more, '{}') AS more,
                        CASE u.kind & 7 WHEN 5 THEN CASE WHEN t.start IS NULL THEN 1 ELSE 0 END ELSE u.kind & 7 END AS algorithm,
                        CASE u.kind & 7 WHEN 0 THEN t.start WHEN 5 THEN coalesce(t.start, t.more[cardinality(t.more)])
                          WHEN 1 THEN t.more[cardinality(t.more)] ELSE t.more[1] END AS own, (
                          SELECT CASE WHEN numbers[1] < 0 THEN (date_part('epoch', clock_timestamp()) * 1000000)::bigint ELSE numbers[1] END
                        ) AS now
                      FROM (
                        SELECT a.i, a.address, numbers[8 * a.i - 5] AS kind, numbers[8 * a.i - 4] AS parts, numbers[8 * a.i - 3] AS part,
                          numbers[8 * a.i - 2] AS span, numbers[8 * a.i - 1] AS most, numbers[8 * a.i] AS unit, numbers[8 * a.i + 1] AS times, numbers[8 * a.i + 2] AS quota
                        FROM unnest(addresses) WITH ORDINALITY a(address, i) OFFSET 0
                      ) u
                      LEFT JOIN LATERAL (
                        SELECT s.version, s.start, s.current, s.previous, s.holds, s.more || '{}' AS more -- a long log is read once and not for each use
                        FROM public.slidegate_state s WHERE s.address = u.address AND (s.previous >= -1 OR public.slidegate_readable(s.previous)) LIMIT 1
                      ) t ON true
                      OFFSET 0
                    ) f OFFSET 0
                  ) l OFFSET 0
                ) k OFFSET 0
              ) w OFFSET 0
            ) u OFFSET 0
          ) x OFFSET 0
        ) a OFFSET 0
      ) b OFFSET 0
    ) c OFFSET 0
  ), written AS (
    INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address, more)
    SELECT coalesce(d.version + 1, (random() * 9007199254740991)::bigint), d.expires, d.start, d.current, d.previous, d.address, d.more
    FROM decided d WHERE d.changed
    ON CONFLICT (address) DO UPDATE SET version = excluded.version, expires = excluded.expires, start = excluded.start,
      current = excluded.current, previous = excluded.previous, more = excluded.more
    WHERE t.version = excluded.version - 1
    RETURNING t.address
  )
  SELECT array_agg(CASE WHEN w.most IS NULL THEN d.reply
      ELSE d.reply || d.counts || array_fill(0::bigint, ARRAY[w.most - coalesce(cardinality(d.counts), 0)]) END),
    array_agg(d.i) FILTER (WHERE d.version = -9 AND (d.changed OR d.held) OR d.changed AND d.address NOT IN (SELECT w.address FROM written w))
  INTO replies, failed FROM decided d, (SELECT max(cardinality(d.counts)) AS most FROM decided d) w;
  IF failed IS NULL THEN
    RETURN replies;
  END IF;
  RETURN public.slidegate_take_failed(addresses, numbers, replies, failed);
END
$take_any_many$;

-- One key.
CREATE FUNCTION public.slidegate_take_any(
  place text, moment bigint, synchronous bigint, kind bigint, parts bigint, part bigint, span bigint, most bigint, unit bigint, times bigint,
  quota bigint
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take_any$
DECLARE
  was record; -- a field keeps the array as it was read; a variable would expand it
  now bigint; at bigint; own bigint; behind bigint; used bigint; admitted bigint; taken bigint; charged bigint;
  algorithm bigint; start bigint; newest bigint; oldest bigint; shift int; dead int; kept int; becomes boolean;
  ends bigint; begins bigint; total bigint := 0; content bigint[]; -- what is written
  moved bigint;
BEGIN
  IF kind & 7 = 0 AND parts <= 2 THEN -- in one part; what take returns is as of now
    content := public.slidegate_take(place, moment, synchronous, 2 - parts, kind >> 3 & 1, kind >> 4 & 1, kind >> 5, most, span, unit, times);
    IF content[1] = -3 THEN
      RETURN content;
    END IF;
    RETURN ARRAY[content[1], 8 * (content[5] >> 1) + (content[5] & 1) + 4, content[2], content[3], content[4], 0];
  END IF;
  SELECT t.version, t.start, t.current, t.previous, t.holds IS NOT NULL AS held, t.more || '{}' AS more INTO was
  FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous));
  LOOP
    IF was.held THEN
      RETURN public.slidegate_take_held(place, moment, synchronous, kind, parts, part, span, most, unit, times, quota);
    END IF;
    now := moment;
    IF moment < 0 THEN
      now := date_part('epoch', clock_timestamp()) * 1000000;
    END IF;
    at := now;
    behind := 0;
    becomes := false;
    algorithm := kind & 7;
    IF algorithm = 5 THEN
      algorithm := CASE WHEN was.start IS NULL THEN 1 ELSE 0 END;
    END IF;
    own := CASE algorithm WHEN 0 THEN was.start WHEN 1 THEN was.more[cardinality(was.more)] ELSE was.more[1] END;
    IF own - now > span THEN
      behind := own - now;
    ELSIF own > now THEN
      at := own;
    END IF;

    used := 0;
    IF algorithm = 1 THEN
      used := CASE WHEN own IS NULL THEN 0 ELSE cardinality(was.more) - width_bucket(at - span + behind, was.more) END;
    ELSIF algorithm = 3 THEN
      IF was.more[2] >= 4611686018427387904 / span AND (own > now OR now < was.more[4]) THEN
        used := least(4611686018427387904, greatest(0, was.more[2]::numeric * span + was.more[3] - greatest(0, now - own)::numeric * quota));
      ELSIF own > now OR now < was.more[4] THEN
        used := was.more[2] * span + was.more[3];
        used := CASE WHEN now - own > used / quota THEN 0 ELSE used - greatest(0, now - own) * quota END;
      END IF;
    ELSE
      shift := CASE WHEN own IS NULL THEN parts WHEN own >= now THEN 0 ELSE least((now - own) / part, parts) END;
      start := CASE WHEN kind & 8 = 0 THEN at - at % part WHEN shift < parts AND behind = 0 THEN own + shift * part ELSE now END;
      newest := 0;
      dead := 0;
      IF shift < parts THEN
        used := was.current;
        IF shift = 0 AND (own / part - was.more[cardinality(was.more)]) & 127 = 0 THEN
          newest := was.more[cardinality(was.more)] >> 7;
        ELSIF shift > 0 AND ((own / part - was.more[1]) & 127) + shift >= parts THEN
          SELECT count(*), used - sum(e >> 7) INTO dead, used FROM unnest(was.more) e WHERE ((own / part - e) & 127) + shift >= parts;
        END IF;
      ELSE
        dead := cardinality(was.more);
      END IF;
      total := used;
      IF kind < 64 AND used > 0 AND at > start AND ((own / part - was.more[dead + 1]) & 127) + shift = parts - 1 THEN
        oldest := was.more[dead + 1] >> 7;
        used := used - oldest + public.slidegate_weigh(oldest, start + part - at, part, (kind >> 5)::int);
      END IF;
    END IF;

    -- Without a named algorithm, parts in which nothing counts are as a log that is empty, and what is kept in a log becomes parts with a charge
    -- that needs them.
    moved := CASE WHEN behind > 0 THEN 1 ELSE 0 END;
    IF kind & 7 = 5 THEN
      IF algorithm = 0 AND used = 0 THEN
        algorithm := 1;
        at := now;
        own := NULL;
        behind := 0;
        moved := 0;
        was.more := '{}';
      END IF;
      IF algorithm = 1 AND unit > 0 AND unit <= most AND (kind & 16 > 0 OR used + unit <= most) AND (kind & 128 > 0 OR used + unit > 100) THEN
        becomes := true;
        algorithm := 0;
        start := at - at % part;
        was.more := public.slidegate_to_parts(was.more[cardinality(was.more) - used + 1 :], behind, start, part);
        own := start;
        behind := 0;
        shift := 0;
        dead := 0;
        total := used;
        newest := CASE WHEN (own / part - was.more[cardinality(was.more)]) & 127 = 0 THEN was.more[cardinality(was.more)] >> 7 ELSE 0 END;
      END IF;
    END IF;

    admitted := CASE WHEN used > most - unit THEN 0 WHEN unit = 0 THEN times ELSE least(times, (most - used) / unit) END;
    taken := CASE WHEN kind & 16 > 0 AND unit <= most THEN times ELSE admitted END;
    charged := unit * taken;
    IF algorithm = 1 AND kind & 7 = 1 THEN
      charged := least(charged, most);
      kept := least(used, greatest(used, most) - charged);
    ELSIF algorithm = 1 THEN
      kept := used;
    ELSIF algorithm = 3 AND taken > admitted THEN -- a refusal empties a bucket, never below empty
      charged := greatest(unit * admitted, most - used);
    END IF;
    EXIT WHEN (unit = 0 OR taken = 0 OR algorithm = 3 AND charged = 0) AND (moved = 0 OR admitted = times);

    IF algorithm = 1 THEN
      content := was.more[cardinality(was.more) - kept + 1 :];
      IF behind > 0 THEN
        content := ARRAY(SELECT m.t - behind FROM unnest(content) WITH ORDINALITY m(t, i) ORDER BY m.i);
      END IF;
      content := content || array_fill(at, ARRAY[charged::int]);
      ends := content[cardinality(content)] + span;
      begins := NULL;
      total := 0;
    ELSIF algorithm = 3 THEN
      begins := at;
      ends := CASE WHEN used > 0 THEN was.more[4] - behind END;
      IF charged = 0 THEN
        content := ARRAY[at, was.more[2], was.more[3], ends];
      ELSE
        ends := greatest(ends, at + greatest(span, (used + charged + quota - 1) / quota));
        content := ARRAY[at, (used + charged) / span, (used + charged) % span, ends];
      END IF;
    ELSE
      charged := least(charged, 9007199254740991 - newest);
      begins := start;
      total := total + charged;
      ends := start + parts * part;
      content := was.more;
      IF behind > 0 THEN
        content := public.slidegate_move_parts(content, start / part - own / part);
      END IF;
      content := content[dead + 1 : cardinality(content) - CASE WHEN newest > 0 THEN 1 ELSE 0 END];
      IF newest + charged > 0 THEN
        content := content || (newest + charged) * 128 + (start / part & 127);
      END IF;
    END IF;
    IF synchronous > 0 THEN
      PERFORM set_config('synchronous_commit', CASE synchronous WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
    END IF;
    IF was.version IS NULL THEN
      INSERT INTO public.slidegate_state (version, expires, start, current, previous, address, more)
      VALUES ((random() * 9007199254740991)::bigint, ends, begins, total, -1, place, content)
      ON CONFLICT (address) DO NOTHING;
    ELSE
      UPDATE public.slidegate_state t
      SET version = was.version + 1, expires = ends, start = begins, current = total, previous = -1, more = content
      WHERE t.address = place AND t.version = was.version;
    END IF;
    EXIT WHEN FOUND;
    SELECT t.version, t.start, t.current, t.previous, t.holds IS NOT NULL AS held, t.more || '{}' AS more INTO was
    FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) FOR UPDATE;
  END LOOP;

  taken := 8 * admitted + moved + CASE WHEN becomes THEN 6 WHEN kind & 7 = 5 AND algorithm = 0 THEN 2 ELSE 0 END;
  IF algorithm = 1 THEN
    RETURN ARRAY[now, taken, used, CASE WHEN at > now THEN at ELSE coalesce(own - behind, 0) END,
      CASE WHEN kept > 0 THEN was.more[cardinality(was.more) - kept + 1] - behind ELSE at END,
      CASE WHEN admitted = times THEN 0 WHEN charged + unit > most THEN at
        ELSE was.more[cardinality(was.more) + charged + unit - most] - behind END];
  ELSIF algorithm = 3 AND own IS NULL THEN
    RETURN ARRAY[now, taken, 0, 0, 0, 0];
  ELSIF algorithm = 3 THEN
    RETURN ARRAY[now, taken] || was.more;
  ELSIF own IS NOT NULL AND (admitted < times OR used + unit * admitted >= most OR unit = 0) THEN
    RETURN ARRAY[now, taken, own, start, newest, used] || was.more;
  END IF;
  RETURN ARRAY[now, taken, coalesce(own, -1), start, newest, used];
END
$take_any$;
