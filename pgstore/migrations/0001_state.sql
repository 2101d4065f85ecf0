-- One row for every key under every limit that has been charged.
--
-- No column that changes is in an index, and pages are left half empty, so that an update finds room beside the old row and
-- touches no index (a HOT update), and what is old goes when the page is next read, without a vacuum.
CREATE {unlogged} TABLE {schema}.{prefix}state (
  version  bigint NOT NULL, -- goes up by one with every change; a new row begins anywhere
  expires  bigint NOT NULL, -- from when on the row decides nothing any more, in microseconds; 0 if it does not now
  start    bigint,          -- windows: where the current part starts; token-bucket: when it is full again; null if never charged
  current  bigint NOT NULL, -- windows in one part: the count; token-bucket: what start leaves over, in 1/quota microseconds
  previous bigint NOT NULL, -- sliding-window in one part: the count of the window before
  address  text COLLATE "C" NOT NULL PRIMARY KEY, -- namespace:limit:shape:group:key, printable and escaped
  more     bigint[]         -- sliding-window in several parts: the counts, newest first; sliding-log: the times, oldest first
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 1
);

-- A log of more than some 250 units does not fit a page. Times hardly compress, and trying takes longer than writing.
ALTER TABLE {schema}.{prefix}state ALTER COLUMN more SET STORAGE EXTERNAL;
