-- Give back the disk space of staged rows that are gone.
--
-- Result: whether it did. Nothing happens while the table is small, while another session uses it, or while
-- much is staged: the next publication or sweep tries again.
-- Deleted rows leave their space to later ones, but a file shrinks only where its end happens to be free. The few
-- rows that wait, of other batches or of tasks that were killed, are taken out and put back.
-- SECURITY DEFINER, because only the owner may truncate a table, and writers of Spark are not.
-- Tables: spark_staging (truncate, insert).
-- Locks: the table, exclusively, if it is free at this moment; no session is waited for.
CREATE OR REPLACE FUNCTION queen.shrink_staging()
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_bytes_min CONSTANT bigint := 64 * 1024 * 1024;
    c_kept_max CONSTANT bigint := 8 * 1024 * 1024;
    c_rows_max CONSTANT integer := 10000;
    v_bytes bigint;
    v_count bigint;
    v_kept queen.spark_staging[];
BEGIN
    IF pg_total_relation_size('queen.spark_staging') < c_bytes_min THEN
        RETURN false;
    END IF;
    BEGIN
        LOCK TABLE queen.spark_staging IN ACCESS EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    SELECT count(*), coalesce(sum(pg_column_size(s.payloads) + coalesce(pg_column_size(s.transaction_ids), 0)
                                  + coalesce(pg_column_size(s.trace_ids), 0)), 0)
    INTO v_count, v_bytes
    FROM (SELECT x.* FROM queen.spark_staging x LIMIT c_rows_max + 1) s;
    IF v_count > c_rows_max OR v_bytes > c_kept_max THEN
        RETURN false;
    END IF;
    v_kept := ARRAY(SELECT s FROM queen.spark_staging s);
    TRUNCATE queen.spark_staging;
    INSERT INTO queen.spark_staging SELECT (k).* FROM unnest(v_kept) AS k;
    RETURN true;
END
$$;
