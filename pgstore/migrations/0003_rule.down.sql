DROP FUNCTION IF EXISTS {schema}.{prefix}give_back;
DROP FUNCTION IF EXISTS {schema}.{prefix}charge;
DROP FUNCTION IF EXISTS {schema}.{prefix}settle;
DROP FUNCTION IF EXISTS {schema}.{prefix}look;
DROP FUNCTION IF EXISTS {schema}.{prefix}later;
DROP FUNCTION IF EXISTS {schema}.{prefix}weigh;
DROP TYPE IF EXISTS {schema}.{prefix}item;
DROP TYPE IF EXISTS {schema}.{prefix}row;
