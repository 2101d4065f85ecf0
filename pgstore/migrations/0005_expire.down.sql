DROP FUNCTION IF EXISTS {schema}.{prefix}place;
DROP FUNCTION IF EXISTS {schema}.{prefix}expire;
