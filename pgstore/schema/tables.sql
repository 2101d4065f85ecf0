-- The format of a row is 1, so that a program never takes a row of another format for its own. Windows in one part have their previous
-- count in the column previous; all others need none, and have minus the format there. (A column of its own would make rows larger.)
--
-- No column that changes is in an index, and pages are left half empty, so that an update finds space beside the old row and
-- touches no index (a HOT update), and old versions of the row are removed when the page is next read, without a vacuum.
CREATE TABLE public.slidegate_state (
  version  bigint NOT NULL, -- goes up by one with every change; a new row begins anywhere
  expires  bigint NOT NULL, -- from when on the row no longer matters, in microseconds; 0 if it does not matter now
  start    bigint,          -- windows: where the current part starts; token-bucket: as of when it is; null if never charged, and for logs
  current  bigint NOT NULL, -- windows in one part: the count; in several: the sum of the counts
  previous bigint NOT NULL, -- sliding-window in one part: the count of the window before; fixed-window: 0; otherwise -1
  address  text COLLATE "C" NOT NULL PRIMARY KEY, -- namespace:limit:shape:group:key, printable and escaped
  more     bigint[],        -- sliding-log: the times, oldest first; others: see rule.sql. If no algorithm is named, the row is one of a log if
                            -- start is null, and otherwise one of a sliding-window in several parts
  holds    bigint[]         -- what reservations hold, the first to end first: of each its id, the units, when it ends, and how long after it was
                            -- taken or renewed that is; null if they hold nothing
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 1
);

-- A log of more than about 250 units does not fit a page. Times hardly compress, and trying takes longer than writing.
ALTER TABLE public.slidegate_state ALTER COLUMN more SET STORAGE EXTERNAL;

-- A few documents that all processes share, such as rulings. They must survive a crash even where counts need not, so this table is
-- always logged.
CREATE TABLE public.slidegate_documents (
  name     text COLLATE "C" PRIMARY KEY,
  revision bigint NOT NULL, -- another one with every change
  text     bytea NOT NULL
);

-- The versions of the schema that were created here; the highest is the current one.
CREATE TABLE public.slidegate_migrations (version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now());
INSERT INTO public.slidegate_migrations (version) VALUES (1);

-- Returns true for a row that these functions can read, by its previous count, and fails for others.
CREATE FUNCTION public.slidegate_readable(previous bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $readable$
BEGIN
  IF previous < -1 THEN
    RAISE EXCEPTION 'a row has format %, and these functions know format 1', -previous
      USING ERRCODE = 'SG001', HINT = 'Upgrade this program, and run Migrate.';
  END IF;
  RETURN true;
END
$readable$;
