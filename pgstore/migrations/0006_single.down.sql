DROP FUNCTION IF EXISTS {schema}.{prefix}single;
