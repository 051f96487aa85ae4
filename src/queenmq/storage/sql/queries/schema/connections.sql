-- name: server_state
-- A standby has no timeline. None of this needs a privilege.
SELECT (SELECT system_identifier FROM pg_control_system()) AS system,
       CASE WHEN pg_is_in_recovery() THEN '0'
            ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline,
       pg_is_in_recovery() AS is_standby,
       current_setting('transaction_read_only') = 'on' AS is_read_only;

-- name: server_role
-- For servers that do not reveal their timeline.
SELECT 0::bigint AS system, '0' AS timeline, pg_is_in_recovery() AS is_standby,
       current_setting('transaction_read_only') = 'on' AS is_read_only;
