-- The first release knows no schema levels and would replace and drop the functions of later ones. It reads
-- schema_migrations before it changes anything, so its start ends there.

-- The migrator gives it its body, in this same transaction: functions/refuse_first_release.sql.
CREATE FUNCTION queen.refuse_first_release() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';

CREATE VIEW queen.schema_migrations AS
SELECT NULL::text AS name, NULL::text AS checksum WHERE queen.refuse_first_release();
