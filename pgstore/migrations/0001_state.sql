-- The schema, unless it is there: CREATE SCHEMA IF NOT EXISTS asks for the right to create one even if it need not. The comment marks
-- a schema that is to be dropped again with the last of its tables.
DO $schema$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '{name}') THEN
    CREATE SCHEMA {schema};
    COMMENT ON SCHEMA {schema} IS 'made by Slidegate';
  END IF;
END
$schema$;

-- One row for every key under every limit that has been charged.
--
-- No column that changes is in an index, and pages are left half empty, so that an update finds room beside the old row and
-- touches no index (a HOT update), and what is old goes when the page is next read, without a vacuum.
CREATE {unlogged} TABLE IF NOT EXISTS {schema}.{prefix}state (
  version  bigint NOT NULL, -- goes up by one with every change; a new row begins anywhere
  expires  bigint NOT NULL, -- from when on the row decides nothing any more, in microseconds; 0 if it does not now
  start    bigint,          -- windows: where the current part starts; token-bucket: as of when it is; null if never charged
  current  bigint NOT NULL, -- windows in one part: the count; in several: their sum, if previous is -1
  previous bigint NOT NULL, -- sliding-window in one part: the count of the window before; else minus the format, see 0002_take.sql
  address  text COLLATE "C" NOT NULL PRIMARY KEY, -- namespace:limit:shape:group:key, printable and escaped
  more     bigint[]         -- sliding-window in several parts: the counts, newest first; sliding-log: the times, oldest first;
                            -- token-bucket and slots: see 0003_rule.sql
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 1
);

-- A log of more than some 250 units does not fit a page. Times hardly compress, and trying takes longer than writing.
ALTER TABLE {schema}.{prefix}state ALTER COLUMN more SET STORAGE EXTERNAL;

-- A table of that name may have been there. If it is another one, better an error now than at every decision.
DO $state$
BEGIN
  IF (
    SELECT string_agg(a.attname, ' ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = '{schema}.{prefix}state'::regclass AND a.attnum > 0 AND NOT a.attisdropped
  ) IS DISTINCT FROM 'version expires start current previous address more' THEN
    RAISE EXCEPTION 'a table {prefix}state is there already, with other columns; use another prefix or another schema';
  END IF;
END
$state$;
