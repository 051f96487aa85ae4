-- The values of some staged rows, for publish_staged.
--
-- Arguments: where the rows are. Result: one row of arrays in that order; an array that would hold only NULLs
-- is NULL. Rows that are gone are missing.
-- The settings make it fetch row by row: a planner that does not know how many calls follow would read the
-- whole table for each of them.
-- Tables: spark_staging. Takes no locks.
CREATE OR REPLACE FUNCTION queen.read_staged(
    p_rows tid[],
    OUT payloads text[],
    OUT transaction_ids text[],
    OUT trace_ids uuid[]
)
LANGUAGE plpgsql
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
AS $$
BEGIN
    SELECT array_agg(s.payload ORDER BY u.n),
           CASE WHEN count(s.transaction_id) > 0 THEN array_agg(s.transaction_id ORDER BY u.n) END,
           CASE WHEN count(s.trace_id) > 0 THEN array_agg(s.trace_id ORDER BY u.n) END
    INTO payloads, transaction_ids, trace_ids
    FROM unnest(p_rows) WITH ORDINALITY AS u (row, n)
    JOIN queen.spark_staging s ON s.ctid = u.row;
END
$$;
