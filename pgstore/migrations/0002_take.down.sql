DROP FUNCTION IF EXISTS {schema}.{prefix}take_many;
DROP FUNCTION IF EXISTS {schema}.{prefix}take;
DROP FUNCTION IF EXISTS {schema}.{prefix}readable;
