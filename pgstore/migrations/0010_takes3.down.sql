DROP FUNCTION IF EXISTS {schema}.{prefix}take3;
DROP FUNCTION IF EXISTS {schema}.{prefix}takes3;
