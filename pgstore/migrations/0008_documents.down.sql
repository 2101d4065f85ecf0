DROP TABLE IF EXISTS {schema}.{prefix}documents;
