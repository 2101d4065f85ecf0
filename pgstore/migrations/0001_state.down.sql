DROP TABLE IF EXISTS {schema}.{prefix}state;
DROP TABLE IF EXISTS {schema}.{prefix}migrations;

-- The schema, if it was made by a migration and nothing is left in it.
DO $schema$
BEGIN
  IF obj_description(to_regnamespace('{schema}')::oid, 'pg_namespace') = 'made by Slidegate' THEN
    DROP SCHEMA {schema};
  END IF;
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
  NULL; -- it is not empty, or not this role's to drop
END
$schema$;
