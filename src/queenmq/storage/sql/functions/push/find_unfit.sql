-- Which items of a push find no room in their queues, of those with a maxSize.
--
-- Arguments: those of push_messages, whose caller holds the lookup rows; p_queue_ids: the queue of each partition;
-- p_waiting_ids: the partitions whose items are going to be queued as operations.
-- Result: the places of these items in the push, NULL when all fit. Room goes to new messages in push order, to
-- whichever partitions of the queue: duplicates need none, and a repeat within the push shares the fate of its
-- first.
-- To be called only where a queue has a maxSize.
-- Locks: those of lock_lines for p_waiting_ids, then those of queue_rooms.
CREATE OR REPLACE FUNCTION queen.find_unfit(
    p_partition_ids uuid[],
    p_queue_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_waiting_ids uuid[]
)
RETURNS bigint[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_bounded uuid[];
    v_rooms bigint[];
    v_winners uuid[];
    v_firsts integer[];
    v_unfit bigint[];
BEGIN
    PERFORM queen.lock_lines(p_waiting_ids);
    SELECT array_agg(r.queue_id), array_agg(r.room) INTO v_bounded, v_rooms
    FROM queen.queue_rooms(p_queue_ids) r;
    SELECT r.winners, r.firsts INTO v_winners, v_firsts
    FROM queen.find_repeats(p_partition_ids, p_item_partitions, p_transaction_ids, NULL) r;

    WITH placed AS (
        SELECT i.n, i.winner, coalesce(i.first, i.n) AS first, b.room,
               count(*) FILTER (WHERE i.winner IS NULL AND coalesce(i.first = i.n, true))
                   OVER (PARTITION BY b.queue_id ORDER BY i.n) AS place
        FROM unnest(p_item_partitions, v_winners, v_firsts) WITH ORDINALITY AS i (k, winner, first, n)
        JOIN unnest(v_bounded, v_rooms) AS b (queue_id, room) ON b.queue_id = p_queue_ids[i.k]
    )
    SELECT array_agg(p.n ORDER BY p.n) INTO v_unfit
    FROM placed p
    JOIN placed f ON f.n = p.first
    WHERE p.winner IS NULL AND f.place > f.room;
    RETURN v_unfit;
END
$$;
