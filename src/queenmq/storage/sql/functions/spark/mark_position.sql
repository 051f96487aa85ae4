-- Check that a reader's last mark is part of this database's history, and note a new one.
--
-- Arguments: the reader (see queen.reader_marks); its last mark, NULL if it has none; the transaction below which
-- it has everything, NULL for a check alone.
-- Result: database names the server's data directory and the database in it: a dump that is loaded elsewhere
-- has another one, and there transactions get new numbers. is_known: the last mark is there, or so old that it was
-- removed. mark is the new one, NULL if there is none: the last one is not known, the server is read-only, or none
-- was asked for. last_xid is where the newest mark of the reader stands, whatever it is.
-- A mark that is there proves that nothing before it is missing and that no transaction number below it will be
-- given out again, whatever was restored or promoted: commits are in one order. So it is on disk when this commits.
-- Runs with the rights of its owner: a role that may read queues may be a reader.
-- Tables: reader_marks (insert, delete). Takes no locks but on its own rows.
CREATE OR REPLACE FUNCTION queen.mark_position(
    p_reader text,
    p_last bigint,
    p_xid xid8,
    OUT database text,
    OUT is_known boolean,
    OUT mark bigint,
    OUT last_xid xid8
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- As many as a checkpoint keeps batches.
    c_kept CONSTANT bigint := 100;
    c_bits CONSTANT integer := 24;
    v_newest bigint;
    v_number bigint;
BEGIN
    SELECT c.system_identifier || '/' || d.oid INTO database
    FROM pg_control_system() c CROSS JOIN pg_database d WHERE d.datname = current_database();
    SELECT r.mark, r.xid INTO v_newest, last_xid
    FROM queen.reader_marks r WHERE r.reader = p_reader ORDER BY r.mark DESC LIMIT 1;
    is_known := p_last IS NULL
        OR EXISTS (SELECT FROM queen.reader_marks r WHERE r.reader = p_reader AND r.mark = p_last)
        OR p_last >> c_bits < (v_newest >> c_bits) - c_kept;
    is_known := coalesce(is_known, false);
    IF p_xid IS NULL OR NOT is_known OR current_setting('transaction_read_only')::boolean THEN
        RETURN;
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'local', true);
    END IF;
    v_number := coalesce(v_newest >> c_bits, 0) + 1;
    mark := (v_number << c_bits) + floor(random() * (1 << c_bits))::bigint;
    INSERT INTO queen.reader_marks (reader, mark, xid) VALUES (p_reader, mark_position.mark, p_xid);
    DELETE FROM queen.reader_marks r WHERE r.reader = p_reader AND r.mark < (v_number - c_kept) << c_bits;
END
$$;
