-- Whether a message is before the start of a consumer group, given by group_starts. With the values of a
-- partition's newest message: whether the whole partition is, for both conditions hold for all before it as well.
--
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.is_before_start(
    p_created_at timestamptz,
    p_xid xid8,
    p_start_time timestamptz,
    p_start_snapshot pg_snapshot
)
RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
    SELECT coalesce(p_created_at < p_start_time
                    AND coalesce(pg_visible_in_snapshot(p_xid, p_start_snapshot), true), false)
$$;
