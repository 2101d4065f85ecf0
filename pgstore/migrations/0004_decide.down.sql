DROP FUNCTION IF EXISTS {schema}.{prefix}decide;
DROP FUNCTION IF EXISTS {schema}.{prefix}tell;
DROP FUNCTION IF EXISTS {schema}.{prefix}save;
DROP FUNCTION IF EXISTS {schema}.{prefix}load;
DROP FUNCTION IF EXISTS {schema}.{prefix}request;
DROP FUNCTION IF EXISTS {schema}.{prefix}take_all;
