DROP FUNCTION IF EXISTS {schema}.{prefix}give_back2;
DROP FUNCTION IF EXISTS {schema}.{prefix}charge2;
DROP FUNCTION IF EXISTS {schema}.{prefix}write2;
DROP FUNCTION IF EXISTS {schema}.{prefix}look2;
DROP FUNCTION IF EXISTS {schema}.{prefix}slot2;
DROP FUNCTION IF EXISTS {schema}.{prefix}later2;
DROP TYPE IF EXISTS {schema}.{prefix}item2;
