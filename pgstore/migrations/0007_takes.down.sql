DROP FUNCTION IF EXISTS {schema}.{prefix}take_any;
DROP FUNCTION IF EXISTS {schema}.{prefix}takes_any;
