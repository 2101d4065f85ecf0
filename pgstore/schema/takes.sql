-- The most common requests: takes of a single charge over windows in one part. They are decided by the rule of rule.sql for two
-- counts or one, written out: PL/pgSQL prepares every expression again in every transaction, so few of them are fast.
--
-- Consecutive requests for the same key with the same limit and cost are decided together; times is their number. The result for each
-- key: the time, the window's start, the current count before they were charged, the previous count, and twice the number of admitted
-- requests, plus 1 if the state was ahead of the clock.
--
-- Everything is decided by a plain snapshot first; if nothing is to be written, there is no lock, no transaction ID and no flush. The
-- clock is read after the snapshot. A row is written on condition that it still has the version that was read, so a later writer has
-- also read a later time. If it has another version, the row is locked from then on, and the second attempt cannot fail. All calls
-- lock addresses in their order, so they do not deadlock.
--
-- The settings ensure that rows are found by the primary key even by a plan that was made when the table was empty.

-- One key.
CREATE FUNCTION public.slidegate_take(
  place text, moment bigint, synchronous bigint, fixed bigint, anchored bigint, refused bigint, overlap bigint, quota bigint, span bigint,
  cost bigint, times bigint
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take$
DECLARE
  now bigint; seen bigint; s bigint; c bigint; p bigint; at bigint; used bigint; admitted bigint; moved int; ahead bigint; charged bigint;
  held boolean;
BEGIN
  SELECT t.version, t.start, t.current, t.previous, t.holds IS NOT NULL INTO seen, s, c, p, held
  FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous));
  LOOP
    IF held THEN
      RETURN public.slidegate_take_held(
        place, moment, synchronous, CASE anchored WHEN 1 THEN 8 ELSE 0 END + CASE refused WHEN 1 THEN 16 ELSE 0 END + 32 * CASE fixed WHEN 1 THEN 2 ELSE overlap END,
        2 - fixed, span, span, quota, cost, times, quota
      );
    END IF;
    IF moment < 0 THEN
      now := date_part('epoch', clock_timestamp()) * 1000000;
    ELSE
      now := moment;
    END IF;
    at := now;
    moved := 0;
    ahead := s - now;
    IF ahead <= 0 AND ahead > -span THEN
      NULL; -- the most common case: a state of this window
    ELSIF ahead > 0 AND ahead <= span THEN -- a moment before the state's own counts as that
      at := s;
    ELSIF ahead <= -span AND ahead > -2 * span AND fixed = 0 THEN
      s := s + span;
      p := c;
      c := 0;
    ELSE
      s := CASE anchored WHEN 1 THEN now ELSE now - now % span END;
      IF ahead > span THEN -- the clock had jumped ahead: the counts stay, the window comes back
        moved := 1;
      ELSE
        p := 0;
        c := 0;
      END IF;
    END IF;
    used := c;
    IF p > 0 THEN
      IF overlap = 2 OR at = s THEN
        used := c + p;
      ELSIF p < 9223372036854775807 / span THEN
        used := c + (p * (s + span - at) + CASE overlap WHEN 0 THEN span - 1 ELSE 0 END) / span;
      ELSE
        used := c + div(p::numeric * (s + span - at) + CASE overlap WHEN 0 THEN span - 1 ELSE 0 END, span);
      END IF;
    END IF;
    admitted := CASE
      WHEN cost > quota OR used > quota - cost THEN 0
      WHEN cost = 0 THEN times
      ELSE least(times, (quota - used) / cost) END;
    charged := cost * CASE WHEN refused = 1 AND cost <= quota THEN times ELSE admitted END;
    EXIT WHEN charged = 0 AND (moved = 0 OR admitted = times); -- moved and refused: or it would move along with the clock
    IF synchronous > 0 THEN
      PERFORM set_config('synchronous_commit', CASE synchronous WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
    END IF;
    IF seen IS NULL THEN
      INSERT INTO public.slidegate_state (version, expires, start, current, previous, address)
      VALUES ((random() * 9007199254740991)::bigint, s + (2 - fixed) * span, s, least(c + charged, 9007199254740991), p, place)
      ON CONFLICT (address) DO NOTHING;
    ELSE
      UPDATE public.slidegate_state t
      SET version = seen + 1, expires = s + (2 - fixed) * span, start = s, current = least(c + charged, 9007199254740991), previous = p
      WHERE t.address = place AND t.version = seen;
    END IF;
    EXIT WHEN FOUND;
    SELECT t.version, t.start, t.current, t.previous, t.holds IS NOT NULL INTO seen, s, c, p, held
    FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) FOR UPDATE;
  END LOOP;
  RETURN ARRAY[now, s, c, p, 2 * admitted + moved];
END
$take$;

-- Several keys, each once and in order. kinds: 1 for a fixed window, 2 if anchored at the first request, 4 if refusals count, and 8 times
-- the overlap. One statement reads, decides and writes. Rows that others have written meanwhile, and rows in which something is held, are
-- decided one at a time afterwards; they are locked by then, in their order, if anything is to be written. OFFSET 0 keeps a step from being
-- evaluated once for each of its uses.
CREATE FUNCTION public.slidegate_take_many(
  addresses text[], moment bigint, synchronous bigint, kinds bigint[], quotas bigint[], spans bigint[], costs bigint[], counts bigint[]
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take_many$
DECLARE
  replies bigint[];
  failed int[];
  texts text[] := '{-2}'; -- appending to an array of bigint would copy it each time
  one bigint[];
BEGIN
  IF synchronous > 0 THEN
    PERFORM set_config('synchronous_commit', CASE synchronous WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
  END IF;
  WITH decided AS MATERIALIZED (
    SELECT a.*, a.cost * CASE WHEN a.kind & 4 > 0 AND a.cost <= a.quota THEN a.times ELSE a.admitted END AS charged
    FROM (
      SELECT used.*, CASE
        WHEN used.cost > used.quota OR used.used > used.quota - used.cost THEN 0
        WHEN used.cost = 0 THEN used.times
        ELSE least(used.times, (used.quota - used.used) / used.cost) END AS admitted
      FROM (
        SELECT r.*, r.c + CASE
          WHEN r.p = 0 THEN 0
          WHEN r.kind >= 16 OR r.now <= r.s THEN r.p
          WHEN r.p < 9223372036854775807 / r.span
            THEN (r.p * (r.s + r.span - r.now) + CASE WHEN r.kind < 8 THEN r.span - 1 ELSE 0 END) / r.span
          ELSE div(r.p::numeric * (r.s + r.span - r.now) + CASE WHEN r.kind < 8 THEN r.span - 1 ELSE 0 END, r.span)::bigint END
          + CASE WHEN r.holds IS NULL THEN 0 ELSE (public.slidegate_held(r.holds, r.now, greatest(r.now, r.s), r.span)).held END AS used
        FROM (
          SELECT l.i, l.address, l.kind, l.quota, l.span, l.cost, l.times, l.now, l.shift,
            l.holds, CASE WHEN l.holds IS NULL THEN l.version ELSE -9 END AS version, -- no row has this one
            CASE WHEN l.shift = 0 THEN l.start WHEN l.shift = 1 THEN l.start + l.span
              WHEN l.kind & 2 > 0 THEN l.now ELSE l.now - l.now % l.span END AS s,
            CASE WHEN l.shift IN (0, 3) THEN l.current ELSE 0 END AS c,
            CASE WHEN l.shift IN (0, 3) THEN l.previous WHEN l.shift = 1 THEN l.current ELSE 0 END AS p
          FROM (
            SELECT f.*, CASE -- by how many windows the counts are behind; 3 if they are ahead of the clock
              WHEN f.start IS NULL THEN 2
              WHEN f.start - f.now > f.span THEN 3
              WHEN f.now - f.start < f.span THEN 0
              WHEN f.now - f.start < 2 * f.span AND f.kind & 1 = 0 THEN 1
              ELSE 2 END AS shift
            FROM (
              SELECT u.*, t.version, t.start, t.current, t.previous, t.holds, (
                SELECT CASE WHEN moment < 0 THEN (date_part('epoch', clock_timestamp()) * 1000000)::bigint ELSE moment END
              ) AS now
              FROM unnest(addresses, kinds, quotas, spans, costs, counts)
                WITH ORDINALITY u(address, kind, quota, span, cost, times, i)
              LEFT JOIN LATERAL (
                SELECT s.version, s.start, s.current, s.previous, s.holds FROM public.slidegate_state s WHERE s.address = u.address AND (s.previous >= -1 OR public.slidegate_readable(s.previous)) LIMIT 1
              ) t ON true
              OFFSET 0
            ) f OFFSET 0
          ) l OFFSET 0
        ) r OFFSET 0
      ) used OFFSET 0
    ) a
  ), written AS (
    INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address)
    SELECT coalesce(d.version + 1, (random() * 9007199254740991)::bigint), d.s + (2 - (d.kind & 1)) * d.span,
      CASE d.version WHEN -9 THEN NULL ELSE d.s END,
      least(d.c + d.charged, 9007199254740991), d.p, d.address
    FROM decided d WHERE d.charged > 0 OR (d.shift = 3 AND d.admitted < d.times)
    ON CONFLICT (address) DO UPDATE SET version = excluded.version, expires = excluded.expires, start = excluded.start,
      current = excluded.current, previous = excluded.previous
    WHERE t.version = excluded.version - 1
    RETURNING t.address
  )
  SELECT array_agg(ARRAY[d.now, d.s, d.c, d.p, 2 * d.admitted + CASE d.shift WHEN 3 THEN 1 ELSE 0 END]),
    array_agg(d.i) FILTER (WHERE d.version = -9 OR (d.charged > 0 OR (d.shift = 3 AND d.admitted < d.times))
      AND d.address NOT IN (SELECT w.address FROM written w))
  INTO replies, failed FROM decided d;
  IF failed IS NULL THEN
    RETURN replies;
  END IF;
  FOR n IN 1 .. cardinality(addresses) LOOP
    IF n = ANY (failed) THEN
      one := public.slidegate_take(addresses[n], moment, 0, kinds[n] & 1, kinds[n] >> 1 & 1, kinds[n] >> 2 & 1, kinds[n] >> 3, quotas[n],
        spans[n], costs[n], counts[n]);
    ELSE
      one := replies[n : n];
    END IF;
    texts := texts || cardinality(one)::text || array_to_string(one, ',');
  END LOOP;
  RETURN string_to_array(array_to_string(texts, ','), ',')::bigint[];
END
$take_many$;
