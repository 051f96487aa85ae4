-- The queues in which a pop looks: the one with that name or, where p_queue_name is NULL, those of a
-- namespace and a task, each NULL for "any".
--
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.queues_in_scope(p_queue_name text, p_namespace text, p_task text)
RETURNS SETOF queen.queues
LANGUAGE sql STABLE
AS $$
    SELECT * FROM queen.queues n WHERE n.name = p_queue_name
    UNION ALL
    SELECT * FROM queen.queues n
    WHERE p_queue_name IS NULL
      AND (p_namespace IS NULL OR n.namespace = p_namespace)
      AND (p_task IS NULL OR n.task = p_task)
$$;
