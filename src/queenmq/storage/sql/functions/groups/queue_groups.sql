-- The consumer groups of a queue: those with a cursor in any of its partitions, or a remembered start on any. A
-- group of a queue counts in all of its partitions, whether it has been there or not.
--
-- From group to group by the index: there are few of them, with many cursors each. Takes no locks.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.queue_groups(p_queue_id uuid, p_queue_name text)
RETURNS TABLE (consumer_group text)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE popped AS (
        (SELECT c.consumer_group FROM queen.partition_consumers c
         WHERE c.queue_id = p_queue_id ORDER BY c.consumer_group LIMIT 1)
        UNION ALL
        SELECT n.consumer_group FROM popped g CROSS JOIN LATERAL (
            SELECT c.consumer_group FROM queen.partition_consumers c
            WHERE c.queue_id = p_queue_id AND c.consumer_group > g.consumer_group
            ORDER BY c.consumer_group LIMIT 1) n
    )
    SELECT g.consumer_group::text FROM popped g
    UNION
    SELECT m.consumer_group::text FROM queen.consumer_groups_metadata m WHERE m.queue_name = p_queue_name
$$;
