-- Buckets are what they were for the version before. It never asks for slots, calendars and settlements, and its Expire deletes them.
DROP FUNCTION IF EXISTS {schema}.{prefix}take_many2;
DROP FUNCTION IF EXISTS {schema}.{prefix}take2;
DROP FUNCTION IF EXISTS {schema}.{prefix}readable;
