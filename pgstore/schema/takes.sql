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
BEGIN
  SELECT t.version, t.start, t.current, t.previous INTO seen, s, c, p FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous));
  LOOP
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
    SELECT t.version, t.start, t.current, t.previous INTO seen, s, c, p
    FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) FOR UPDATE;
  END LOOP;
  RETURN ARRAY[now, s, c, p, 2 * admitted + moved];
END
$take$;

-- Several keys, each once and in order. kinds: 1 for a fixed window, 2 if anchored at the first request, 4 if refusals count, and 8 times
-- the overlap. One statement reads, decides and writes. OFFSET 0 keeps a step from being evaluated once for each of its uses.
CREATE FUNCTION public.slidegate_take_many(
  addresses text[], moment bigint, synchronous bigint, kinds bigint[], quotas bigint[], spans bigint[], costs bigint[], counts bigint[]
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take_many$
DECLARE
  replies bigint[];
  places bigint[]; -- indexes of the keys that are tried again
  got bigint[];
  failed bigint[];
BEGIN
  IF synchronous > 0 THEN
    PERFORM set_config('synchronous_commit', CASE synchronous WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
  END IF;
  LOOP
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
            ELSE div(r.p::numeric * (r.s + r.span - r.now) + CASE WHEN r.kind < 8 THEN r.span - 1 ELSE 0 END, r.span)::bigint END AS used
          FROM (
            SELECT l.i, l.address, l.kind, l.quota, l.span, l.cost, l.times, l.version, l.now, l.shift,
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
                SELECT u.*, t.version, t.start, t.current, t.previous, (
                  SELECT CASE WHEN moment < 0 THEN (date_part('epoch', clock_timestamp()) * 1000000)::bigint ELSE moment END
                ) AS now
                FROM unnest(addresses, kinds, quotas, spans, costs, counts)
                  WITH ORDINALITY u(address, kind, quota, span, cost, times, i)
                LEFT JOIN LATERAL (
                  SELECT s.version, s.start, s.current, s.previous FROM public.slidegate_state s WHERE s.address = u.address AND (s.previous >= -1 OR public.slidegate_readable(s.previous)) LIMIT 1
                ) t ON true
                OFFSET 0
              ) f OFFSET 0
            ) l OFFSET 0
          ) r OFFSET 0
        ) used OFFSET 0
      ) a
    ), written AS (
      INSERT INTO public.slidegate_state AS t (version, expires, start, current, previous, address)
      SELECT coalesce(d.version + 1, (random() * 9007199254740991)::bigint), d.s + (2 - (d.kind & 1)) * d.span, d.s,
        least(d.c + d.charged, 9007199254740991), d.p, d.address
      FROM decided d WHERE d.charged > 0 OR (d.shift = 3 AND d.admitted < d.times)
      ON CONFLICT (address) DO UPDATE SET version = excluded.version, expires = excluded.expires, start = excluded.start,
        current = excluded.current, previous = excluded.previous
      WHERE t.version = excluded.version - 1
      RETURNING t.address
    )
    SELECT array_agg(ARRAY[d.now, d.s, d.c, d.p, 2 * d.admitted + CASE d.shift WHEN 3 THEN 1 ELSE 0 END]),
      array_agg(d.i) FILTER (WHERE (d.charged > 0 OR (d.shift = 3 AND d.admitted < d.times))
        AND d.address NOT IN (SELECT w.address FROM written w))
    INTO got, failed FROM decided d;
    IF places IS NULL THEN
      replies := got;
    ELSE
      FOR i IN 1 .. cardinality(places) LOOP
        FOR j IN 1 .. 5 LOOP
          replies[places[i]][j] := got[i][j];
        END LOOP;
      END LOOP;
    END IF;
    IF failed IS NULL THEN
      RETURN replies;
    END IF;
    IF places IS NOT NULL THEN -- impossible, because the rows were locked, unless another program writes to the table
      RAISE serialization_failure USING MESSAGE = 'rows changed that are locked';
    END IF;
    places := failed;
    SELECT array_agg(addresses[i]), array_agg(kinds[i]), array_agg(quotas[i]), array_agg(spans[i]), array_agg(costs[i]), array_agg(counts[i])
    INTO addresses, kinds, quotas, spans, costs, counts FROM unnest(failed) i;
  END LOOP;
END
$take_many$;

-- The same for every algorithm except slots and calendars. take_any is for one key and take_any_many for several, each key once and in
-- order.
--
-- Parameters for each key:
--   kind   the algorithm, 0 for windows, 1 for logs and 3 for buckets; plus 8 if anchored at the first request, 16 if refusals count, and
--          32 times the overlap, which is 2 for fixed windows
--   parts  the number of counts of a window; 0 for other algorithms
--   part   the length of a part of a window
--   span   the length of the window
--   most   the capacity: the quota, or the debt of an empty bucket, in 1/span of a unit. It is small enough that all products here fit in
--          63 bits; a debt from the time of a larger limit may not, and counts as 2^62, which is above every capacity
--   unit   how much of it each request takes; more than most if that can never be admitted
--   times  the number of requests; 1 for a log if refusals count
--   quota  of a bucket: how much a microsecond refills
--
-- Results for each key: the time; twice the number of admitted requests, plus 1 if the state was ahead of the clock; and four numbers:
--   pairs    windows in one part: start, or -1 if never charged; the current count and the previous one, as they were read; 0
--   windows  start as it was read, or -1; where the current part starts now, its count, and what was used before anything was charged
--   logs     the number of live units, and the newest of them; then the unit that expires first after the requests, and the unit that
--            must expire before another request is admitted
--   buckets  the state as it was read: as of when, what is missing, the rest, until when
-- After these six numbers come the counts of windows as they were read, if the answer depends on them. In take_any_many all replies have the same
-- length, padded with 0.

-- Several keys. numbers contains the time or -1 for the server's, 1 or 2 to set synchronous_commit off or on, and eight numbers for each key.
CREATE FUNCTION public.slidegate_take_any_many(addresses text[], numbers bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take_any_many$
DECLARE
  replies bigint[];
  places int[]; -- indexes of the keys that are tried again
  got bigint[];
  failed int[];
BEGIN
  IF numbers[2] > 0 THEN
    PERFORM set_config('synchronous_commit', CASE numbers[2] WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
  END IF;
  LOOP
    -- OFFSET 0 keeps a step from being evaluated once for each of its uses.
    WITH decided AS MATERIALIZED (
      SELECT c.i, c.address, c.version, c.changed,
        CASE c.algorithm WHEN 0 THEN c.place + c.parts * c.part WHEN 1 THEN c.span + CASE WHEN c.charged > 0 THEN c.at ELSE c.own - c.behind END
          ELSE c.until END AS expires,
        CASE c.algorithm WHEN 0 THEN c.place WHEN 1 THEN NULL ELSE c.at END AS start,
        CASE WHEN c.parts > 2 THEN c.total + c.charged WHEN c.algorithm = 0 THEN c.newest + c.charged ELSE 0 END AS current,
        CASE WHEN c.algorithm = 0 AND c.parts <= 2 THEN c.oldest ELSE -1 END AS previous,
        CASE WHEN NOT c.changed THEN NULL
          WHEN c.parts > 2 THEN ARRAY[c.newest + c.charged] || CASE WHEN c.shift < 2 THEN c.more[2 - c.shift : c.parts - c.shift]
            ELSE array_fill(0::bigint, ARRAY[c.shift - 1]::int[]) || c.more[: c.parts - c.shift] END
          WHEN c.algorithm = 0 THEN NULL
          WHEN c.algorithm = 1 THEN
            CASE WHEN c.behind = 0 THEN c.more[cardinality(c.more) - c.kept + 1 :]
              ELSE ARRAY(SELECT m.t - c.behind FROM unnest(c.more[cardinality(c.more) - c.kept + 1 :]) WITH ORDINALITY m(t, i) ORDER BY m.i) END
            || CASE c.charged WHEN 1 THEN ARRAY[c.at] ELSE array_fill(c.at, ARRAY[c.charged]::int[]) END
          WHEN c.charged = 0 THEN ARRAY[c.at, c.more[2], c.more[3], c.until]
          ELSE ARRAY[c.at, (c.used + c.charged) / c.span, (c.used + c.charged) % c.span, c.until] END AS more,
        ARRAY[c.now, 2 * c.admitted + CASE WHEN c.moved THEN 1 ELSE 0 END] || CASE
          WHEN c.parts > 2 THEN ARRAY[coalesce(c.own, -1), c.place, c.newest, c.used]
          WHEN c.algorithm = 0 THEN ARRAY[coalesce(c.own, -1), coalesce(c.current, 0), coalesce(c.previous, 0), 0]
          WHEN c.algorithm = 1 THEN ARRAY[c.used, coalesce(c.own - c.behind, 0),
            CASE WHEN c.kept > 0 THEN c.more[cardinality(c.more) - c.kept + 1] - c.behind ELSE c.at END,
            CASE WHEN c.admitted = c.times THEN 0 WHEN c.charged + c.unit > c.most THEN c.at
              ELSE c.more[cardinality(c.more) + c.charged + c.unit - c.most] - c.behind END]
          WHEN c.own IS NULL THEN ARRAY[0, 0, 0, 0]::bigint[]
          ELSE c.more END AS reply,
        CASE WHEN c.parts > 2 AND (c.admitted < c.times OR c.used + c.unit * c.admitted >= c.most OR c.unit = 0) THEN c.more END AS counts
      FROM (
        SELECT b.*, least(b.used, greatest(b.used, b.most) - b.charged) AS kept, -- units of a log that are not overwritten
          CASE WHEN b.algorithm = 3 THEN greatest(CASE WHEN b.used > 0 THEN b.more[4] - b.behind END,
            CASE WHEN b.charged > 0 THEN b.at + greatest(b.span, (b.used + b.charged + b.quota - 1) / b.quota) END) END AS until,
          b.moved AND b.admitted < b.times OR b.unit > 0 AND b.taken > 0 AND (b.algorithm < 3 OR b.charged > 0) AS changed
        FROM (
          SELECT a.*, CASE
              WHEN a.algorithm = 0 THEN least(a.unit * a.taken, 9007199254740991 - a.newest)
              WHEN a.algorithm = 1 THEN least(a.unit * a.taken, a.most)
              WHEN a.taken > a.admitted THEN greatest(a.unit * a.admitted, a.most - a.used) -- a refusal empties a bucket, never below empty
              ELSE a.unit * a.taken END AS charged
          FROM (
            SELECT x.*, CASE WHEN x.kind & 16 > 0 AND x.unit <= x.most THEN x.times ELSE x.admitted END AS taken
            FROM (
                SELECT u.*, CASE
                  WHEN u.used > u.most - u.unit THEN 0
                  WHEN u.unit = 0 THEN u.times
                  ELSE least(u.times, (u.most - u.used) / u.unit) END AS admitted
                FROM (
                  SELECT w.*, CASE w.algorithm
                    WHEN 0 THEN w.total - w.oldest + CASE
                      WHEN w.kind >= 64 OR w.oldest = 0 OR w.at <= w.place THEN w.oldest
                      WHEN w.oldest < 9223372036854775807 / w.part
                        THEN (w.oldest * (w.place + w.part - w.at) + CASE WHEN w.kind < 32 THEN w.part - 1 ELSE 0 END) / w.part
                      ELSE div(w.oldest::numeric * (w.place + w.part - w.at) + CASE WHEN w.kind < 32 THEN w.part - 1 ELSE 0 END, w.part)::bigint END
                    WHEN 1 THEN CASE WHEN w.own IS NULL THEN 0 ELSE cardinality(w.more) - width_bucket(w.at - w.span + w.behind, w.more) END
                    ELSE w.debt END AS used,
                    w.behind > 0 AS moved
                  FROM (
                    SELECT l.*,
                      CASE WHEN l.parts > 2 THEN CASE
                          WHEN l.shift = l.parts THEN 0
                          WHEN l.shift = 0 THEN l.current
                          WHEN l.shift = 1 THEN l.current - l.more[l.parts]
                          ELSE l.current - (SELECT sum(n)::bigint FROM unnest(l.more[l.parts - l.shift + 1 :]) n) END
                        WHEN l.shift = 0 THEN l.current + l.previous
                        WHEN l.shift < l.parts THEN l.current
                        ELSE 0 END AS total,
                      CASE WHEN l.parts = 1 OR l.shift = l.parts THEN 0
                        WHEN l.parts > 2 THEN l.more[l.parts - l.shift]
                        WHEN l.shift = 0 THEN l.previous
                        ELSE l.current END AS oldest,
                      CASE WHEN l.shift > 0 THEN 0 WHEN l.parts > 2 THEN l.more[1] ELSE l.current END AS newest,
                      CASE WHEN l.shift < l.parts AND l.behind = 0 THEN l.own + l.shift * l.part
                        WHEN l.kind & 8 > 0 THEN l.now
                        WHEN l.algorithm = 0 THEN l.now - l.now % l.part END AS place
                    FROM (
                      SELECT f.*,
                        CASE WHEN f.own - f.now > f.span THEN f.own - f.now ELSE 0 END AS behind,
                        CASE WHEN f.own > f.now AND f.own - f.now <= f.span THEN f.own ELSE f.now END AS at,
                        CASE WHEN f.algorithm = 0 THEN
                          CASE WHEN f.own IS NULL THEN f.parts WHEN f.own >= f.now THEN 0 ELSE least((f.now - f.own) / f.part, f.parts) END
                        END AS shift,
                        CASE WHEN f.algorithm < 3 OR f.own IS NULL OR f.own <= f.now AND f.now >= f.more[4] THEN 0
                          WHEN f.more[2] >= 4611686018427387904 / f.span THEN least(4611686018427387904,
                            greatest(0, f.more[2]::numeric * f.span + f.more[3] - greatest(0, f.now - f.own)::numeric * f.quota))::bigint
                          WHEN f.now - f.own > (f.more[2] * f.span + f.more[3]) / f.quota THEN 0
                          ELSE f.more[2] * f.span + f.more[3] - greatest(0, f.now - f.own) * f.quota END AS debt
                      FROM (
                        SELECT u.i, u.address, numbers[8 * u.i - 5] AS kind, numbers[8 * u.i - 5] & 7 AS algorithm, numbers[8 * u.i - 4] AS parts,
                          numbers[8 * u.i - 3] AS part, numbers[8 * u.i - 2] AS span, numbers[8 * u.i - 1] AS most, numbers[8 * u.i] AS unit,
                          numbers[8 * u.i + 1] AS times, numbers[8 * u.i + 2] AS quota, t.version, t.start, t.current, t.previous, t.more,
                          CASE numbers[8 * u.i - 5] & 7 WHEN 0 THEN t.start WHEN 1 THEN t.more[cardinality(t.more)] ELSE t.more[1] END AS own, (
                            SELECT CASE WHEN numbers[1] < 0 THEN (date_part('epoch', clock_timestamp()) * 1000000)::bigint ELSE numbers[1] END
                          ) AS now
                        FROM unnest(addresses) WITH ORDINALITY u(address, i)
                        LEFT JOIN LATERAL (
                          SELECT s.version, s.start, s.current, s.previous, s.more || '{}' AS more -- a long log is read once and not for each use
                          FROM public.slidegate_state s WHERE s.address = u.address AND (s.previous >= -1 OR public.slidegate_readable(s.previous)) LIMIT 1
                        ) t ON true
                        WHERE places IS NULL OR u.i = ANY (places)
                        OFFSET 0
                      ) f OFFSET 0
                    ) l OFFSET 0
                  ) w OFFSET 0
                ) u OFFSET 0
            ) x
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
      array_agg(d.i) FILTER (WHERE d.changed AND d.address NOT IN (SELECT w.address FROM written w))
    INTO got, failed FROM decided d, (SELECT max(cardinality(d.counts)) AS most FROM decided d) w;
    IF places IS NULL THEN
      replies := got;
    ELSE
      replies := (
        SELECT array_agg(ARRAY(
          SELECT coalesce(CASE WHEN p.j IS NULL THEN replies[i][k] ELSE got[p.j][k] END, 0)
          FROM generate_series(1, greatest(array_length(replies, 2), array_length(got, 2))) k
        ) ORDER BY i)
        FROM generate_series(1, cardinality(addresses)) i LEFT JOIN unnest(places) WITH ORDINALITY p(place, j) ON p.place = i
      );
    END IF;
    IF failed IS NULL THEN
      RETURN replies;
    END IF;
    IF places IS NOT NULL THEN -- impossible, because the rows were locked, unless another program writes to the table
      RAISE serialization_failure USING MESSAGE = 'rows changed that are locked';
    END IF;
    places := failed;
  END LOOP;
END
$take_any_many$;

-- One key. Windows in one part are decided by take.
CREATE FUNCTION public.slidegate_take_any(
  place text, moment bigint, synchronous bigint, kind bigint, parts bigint, part bigint, span bigint, most bigint, unit bigint, times bigint,
  quota bigint
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $take_any$
DECLARE
  was record; -- a field keeps the array as it was read; a variable would expand it
  now bigint; at bigint; own bigint; behind bigint; used bigint; admitted bigint; taken bigint; charged bigint;
  start bigint; newest bigint; oldest bigint; shift int; kept int; replies bigint[];
  ends bigint; begins bigint; total bigint := 0; next bigint[]; -- what is written
BEGIN
  SELECT t.version, t.start, t.current, t.previous, t.more || '{}' AS more INTO was
  FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous));
  LOOP
    now := moment;
    IF moment < 0 THEN
      now := date_part('epoch', clock_timestamp()) * 1000000;
    END IF;
    at := now;
    behind := 0;
    own := CASE kind & 7 WHEN 0 THEN was.start WHEN 1 THEN was.more[cardinality(was.more)] ELSE was.more[1] END;
    IF own - now > span THEN
      behind := own - now;
    ELSIF own > now THEN
      at := own;
    END IF;

    IF kind & 7 = 1 THEN
      used := CASE WHEN own IS NULL THEN 0 ELSE cardinality(was.more) - width_bucket(at - span + behind, was.more) END;
    ELSIF kind & 7 = 3 THEN
      used := 0;
      IF was.more[2] >= 4611686018427387904 / span AND (own > now OR now < was.more[4]) THEN
        used := least(4611686018427387904, greatest(0, was.more[2]::numeric * span + was.more[3] - greatest(0, now - own)::numeric * quota));
      ELSIF own > now OR now < was.more[4] THEN
        used := was.more[2] * span + was.more[3];
        used := CASE WHEN now - own > used / quota THEN 0 ELSE used - greatest(0, now - own) * quota END;
      END IF;
    ELSE
      shift := CASE WHEN own IS NULL THEN parts WHEN own >= now THEN 0 ELSE least((now - own) / part, parts) END;
      start := CASE WHEN shift < parts AND behind = 0 THEN own + shift * part WHEN kind & 8 > 0 THEN now ELSE now - now % part END;
      newest := CASE shift WHEN 0 THEN was.more[1] ELSE 0 END;
      used := 0;
      oldest := 0;
      IF shift < parts THEN
        used := was.current;
        oldest := was.more[parts - shift];
        IF shift > 0 THEN
          used := used - (SELECT sum(n) FROM unnest(was.more[parts - shift + 1 :]) n);
        END IF;
      END IF;
      total := used;
      IF kind < 64 AND oldest > 0 AND at > start THEN
        used := used - oldest + public.slidegate_weigh(oldest, start + part - at, part, (kind >> 5)::int);
      END IF;
    END IF;

    admitted := CASE WHEN used > most - unit THEN 0 WHEN unit = 0 THEN times ELSE least(times, (most - used) / unit) END;
    taken := CASE WHEN kind & 16 > 0 AND unit <= most THEN times ELSE admitted END;
    IF kind & 7 = 1 THEN
      charged := least(unit * taken, most);
      kept := least(used, greatest(used, most) - charged);
    ELSIF kind & 7 = 3 THEN
      charged := unit * admitted;
      IF taken > admitted THEN -- a refusal empties a bucket, never below empty
        charged := greatest(charged, most - used);
      END IF;
    END IF;
    EXIT WHEN (unit = 0 OR taken = 0 OR kind & 7 = 3 AND charged = 0) AND (behind = 0 OR admitted = times);

    IF kind & 7 = 1 THEN
      next := was.more[cardinality(was.more) - kept + 1 :];
      IF behind > 0 THEN
        next := ARRAY(SELECT m.t - behind FROM unnest(next) WITH ORDINALITY m(t, i) ORDER BY m.i);
      END IF;
      next := next || array_fill(at, ARRAY[charged::int]);
      ends := next[cardinality(next)] + span;
      begins := NULL;
    ELSIF kind & 7 = 3 THEN
      begins := at;
      ends := CASE WHEN used > 0 THEN was.more[4] - behind END;
      IF charged = 0 THEN
        next := ARRAY[at, was.more[2], was.more[3], ends];
      ELSE
        ends := greatest(ends, at + greatest(span, (used + charged + quota - 1) / quota));
        next := ARRAY[at, (used + charged) / span, (used + charged) % span, ends];
      END IF;
    ELSE
      charged := least(unit * taken, 9007199254740991 - newest);
      begins := start;
      total := total + charged;
      ends := start + parts * part;
      next := ARRAY[newest + charged] || CASE WHEN shift < 2 THEN was.more[2 - shift : parts - shift]
        ELSE array_fill(0::bigint, ARRAY[shift - 1]) || was.more[: parts - shift] END;
    END IF;
    IF synchronous > 0 THEN
      PERFORM set_config('synchronous_commit', CASE synchronous WHEN 1 THEN 'off' ELSE 'on' END, true); -- until the commit
    END IF;
    IF was.version IS NULL THEN
      INSERT INTO public.slidegate_state (version, expires, start, current, previous, address, more)
      VALUES ((random() * 9007199254740991)::bigint, ends, begins, total, -1, place, next)
      ON CONFLICT (address) DO NOTHING;
    ELSE
      UPDATE public.slidegate_state t
      SET version = was.version + 1, expires = ends, start = begins, current = total, previous = -1, more = next
      WHERE t.address = place AND t.version = was.version;
    END IF;
    EXIT WHEN FOUND;
    SELECT t.version, t.start, t.current, t.previous, t.more || '{}' AS more INTO was
    FROM public.slidegate_state t WHERE t.address = place AND (t.previous >= -1 OR public.slidegate_readable(t.previous)) FOR UPDATE;
  END LOOP;

  taken := 2 * admitted + CASE WHEN behind > 0 THEN 1 ELSE 0 END;
  IF kind & 7 = 1 THEN
    RETURN ARRAY[now, taken, used, coalesce(own - behind, 0),
      CASE WHEN kept > 0 THEN was.more[cardinality(was.more) - kept + 1] - behind ELSE at END,
      CASE WHEN admitted = times THEN 0 WHEN charged + unit > most THEN at
        ELSE was.more[cardinality(was.more) + charged + unit - most] - behind END];
  ELSIF kind & 7 = 3 AND own IS NULL THEN
    RETURN ARRAY[now, taken, 0, 0, 0, 0];
  ELSIF kind & 7 = 3 THEN
    RETURN ARRAY[now, taken] || was.more;
  ELSIF own IS NOT NULL AND (admitted < times OR used + unit * admitted >= most OR unit = 0) THEN
    RETURN ARRAY[now, taken, own, start, newest, used] || was.more;
  END IF;
  RETURN ARRAY[now, taken, coalesce(own, -1), start, newest, used];
END
$take_any$;
