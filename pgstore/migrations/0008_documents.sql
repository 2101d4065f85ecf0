-- A few documents that all processes share, such as rulings. They must survive a crash even where counts need not, so the table is
-- always logged.
CREATE TABLE IF NOT EXISTS {schema}.{prefix}documents (
  name     text COLLATE "C" PRIMARY KEY,
  revision bigint NOT NULL, -- another one with every change
  text     bytea NOT NULL
);
