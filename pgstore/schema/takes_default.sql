-- take_any_many, with the same numbers and results, if no limit names an algorithm: most programs have such limits only, and setting a statement
-- up takes as long as deciding about some keys, so a shorter one is worth having.
CREATE FUNCTION public.slidegate_take_default_many(addresses text[], numbers bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take_default_many$
DECLARE
  replies bigint[];
  failed int[];
BEGIN
  IF numbers[2] > 0 THEN
    PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
  END IF;
  WITH decided AS MATERIALIZED (
    SELECT c.i, c.address, c.version, c.changed, c.held,
      CASE WHEN NOT c.is_log THEN c.place + c.parts * c.part WHEN c.charged > 0 THEN c.at + c.span ELSE c.own - c.behind + c.span END AS expires,
      CASE WHEN c.is_log OR c.version = -9 THEN NULL ELSE c.place END AS start,
      CASE WHEN c.is_log THEN 0 ELSE c.used + c.charged END AS current,
      CASE WHEN NOT c.changed OR c.version = -9 THEN NULL
        WHEN NOT c.is_log THEN
          (CASE WHEN c.behind > 0 THEN public.slidegate_move_parts(c.more, c.place / c.part - c.own / c.part) ELSE c.more END)
            [c.dead + 1 : cardinality(c.more) - CASE WHEN c.newest > 0 THEN 1 ELSE 0 END]
          || CASE WHEN c.newest + c.charged > 0 THEN ARRAY[(c.newest + c.charged) * 128 + (c.place / c.part & 127)] ELSE '{}' END
        WHEN c.behind > 0 THEN ARRAY(SELECT m.t - c.behind FROM unnest(c.more[c.dead + 1 :]) WITH ORDINALITY m(t, i) ORDER BY m.i)
          || array_fill(c.at, ARRAY[c.charged]::int[])
        WHEN c.charged = 1 THEN c.more[c.dead + 1 :] || c.at
        ELSE c.more[c.dead + 1 :] || array_fill(c.at, ARRAY[c.charged]::int[]) END AS more,
      CASE WHEN c.is_log THEN ARRAY[c.now, c.outcome, c.used, CASE WHEN c.used = 0 THEN 0 WHEN c.at > c.now THEN c.at ELSE c.own - c.behind END,
          CASE WHEN c.used > 0 THEN c.more[c.dead + 1] - c.behind ELSE c.at END,
          CASE WHEN c.admitted = c.times THEN 0 WHEN c.charged + c.unit > c.most THEN c.at
            ELSE c.more[cardinality(c.more) + c.charged + c.unit - c.most] - c.behind END]
        WHEN c.admitted < c.times OR c.used + c.unit * c.admitted >= c.most OR c.unit = 0
          THEN ARRAY[c.now, c.outcome, coalesce(c.own, -1), c.place, c.newest, c.used] || c.more
        ELSE ARRAY[c.now, c.outcome, coalesce(c.own, -1), c.place, c.newest, c.used] END AS reply
    FROM (
      SELECT b.*, 8 * b.admitted + CASE WHEN b.behind > 0 THEN 1 ELSE 0 END + CASE WHEN b.is_log THEN 0 ELSE 2 END AS outcome,
        CASE WHEN b.is_log THEN b.unit * b.taken ELSE least(b.unit * b.taken, 9007199254740991 - b.newest) END AS charged,
        b.behind > 0 AND b.admitted < b.times OR b.unit > 0 AND b.taken > 0 AS changed,
        -- A log becomes parts with a charge that needs them. No row has this version.
        CASE WHEN b.held OR b.is_log AND b.unit > 0 AND b.taken > 0 AND (b.kind & 128 > 0 OR b.used + b.unit > 100) THEN -9 ELSE b.known END AS version
      FROM (
        SELECT u.i, u.address, u.known, u.kind, u.parts, u.part, u.span, u.most, u.unit, u.times, u.now, u.held, u.used, u.dead,
          CASE WHEN u.used > u.most - u.unit THEN 0 WHEN u.unit = 0 THEN u.times ELSE least(u.times, (u.most - u.used) / u.unit) END AS admitted,
          CASE WHEN u.kind & 16 > 0 AND u.unit <= u.most THEN u.times
            WHEN u.used > u.most - u.unit THEN 0 WHEN u.unit = 0 THEN u.times ELSE least(u.times, (u.most - u.used) / u.unit) END AS taken,
          -- A row in which nothing counts is as one that was never charged.
          CASE WHEN u.used > 0 THEN u.is_log ELSE u.kind & 128 = 0 END AS is_log, CASE WHEN u.used > 0 THEN u.behind ELSE 0 END AS behind,
          CASE WHEN u.used > 0 THEN u.at ELSE u.now END AS at, CASE WHEN u.used > 0 THEN u.own END AS own,
          CASE WHEN u.used > 0 THEN u.at - u.at % u.part ELSE u.now - u.now % u.part END AS place,
          CASE WHEN u.used > 0 THEN u.more ELSE '{}' END AS more,
          CASE WHEN NOT u.is_log AND (CASE WHEN u.behind > 0 THEN u.own ELSE u.at END / u.part - u.more[cardinality(u.more)]) & 127 = 0
            THEN u.more[cardinality(u.more)] >> 7 ELSE 0 END AS newest
        FROM (
          SELECT l.*, CASE
              WHEN l.is_log THEN cardinality(l.more) - l.dead
              WHEN l.dead = cardinality(l.more) THEN 0
              WHEN l.dead = 0 THEN l.current
              WHEN l.dead = 1 THEN l.current - (l.more[1] >> 7)
              ELSE l.current - (SELECT sum(e >> 7)::bigint FROM unnest(l.more[: l.dead]) e) END
            + CASE WHEN l.held THEN (public.slidegate_held(l.holds, l.now, l.at, l.span)).held ELSE 0 END AS used
          FROM (
            SELECT f.*, f.holds IS NOT NULL AS held, CASE WHEN f.own - f.now > f.span THEN f.own - f.now ELSE 0 END AS behind,
              CASE WHEN f.own > f.now AND f.own - f.now <= f.span THEN f.own ELSE f.now END AS at,
              CASE -- the number of units of a log, or of parts, that do not count any more
                WHEN f.own IS NULL THEN 0
                WHEN f.is_log THEN width_bucket(greatest(f.own, f.now) - f.span, f.more)
                WHEN f.own >= f.now THEN 0
                WHEN f.now - f.own >= f.parts * f.part THEN cardinality(f.more)
                WHEN ((f.now / f.part - f.more[1]) & 127) < f.parts THEN 0
                WHEN ((f.now / f.part - f.more[2]) & 127) < f.parts THEN 1
                ELSE (SELECT count(*) FROM unnest(f.more) e WHERE (f.now / f.part - e) & 127 >= f.parts) END::int AS dead
            FROM (
              SELECT a.i, a.address, numbers[8 * a.i - 5] AS kind, numbers[8 * a.i - 4] AS parts, numbers[8 * a.i - 3] AS part,
                numbers[8 * a.i - 2] AS span, numbers[8 * a.i - 1] AS most, numbers[8 * a.i] AS unit, numbers[8 * a.i + 1] AS times,
                t.version AS known, t.current, coalesce(t.more, '{}') AS more, t.holds, t.start IS NULL AS is_log,
                coalesce(t.start, t.more[cardinality(t.more)]) AS own, (
                  SELECT CASE WHEN numbers[1] < 0 THEN (date_part('epoch', clock_timestamp()) * 1000000)::bigint ELSE numbers[1] END
                ) AS now
              FROM unnest(addresses) WITH ORDINALITY a(address, i)
              LEFT JOIN LATERAL (
                SELECT s.version, s.start, s.current, s.holds, s.more || '{}' AS more
                FROM public.slidegate_state s WHERE s.address = a.address AND (s.previous >= -1 OR public.slidegate_readable(s.previous)) LIMIT 1
              ) t ON true
              OFFSET 0
            ) f OFFSET 0
          ) l OFFSET 0
        ) u OFFSET 0
      ) b OFFSET 0
    ) c OFFSET 0
  ), written AS (
    INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address, more)
    SELECT coalesce(d.version + 1, (random() * 9007199254740991)::bigint), d.expires, d.start, d.current, -1, d.address, d.more
    FROM decided d WHERE d.changed
    ON CONFLICT (address) DO UPDATE SET version = excluded.version, expires = excluded.expires, start = excluded.start,
      current = excluded.current, previous = excluded.previous, more = excluded.more
    WHERE t.version = excluded.version - 1
    RETURNING t.address
  )
  SELECT array_agg(CASE WHEN cardinality(d.reply) = w.most THEN d.reply ELSE d.reply || array_fill(0::bigint, ARRAY[w.most - cardinality(d.reply)]) END),
    array_agg(d.i) FILTER (WHERE d.version = -9 AND (d.changed OR d.held) OR d.changed AND d.address NOT IN (SELECT w.address FROM written w))
  INTO replies, failed FROM decided d, (SELECT max(cardinality(d.reply)) AS most FROM decided d) w;
  IF failed IS NULL THEN
    RETURN replies;
  END IF;
  RETURN public.slidegate_take_failed(addresses, numbers, replies, failed);
END
$take_default_many$;
