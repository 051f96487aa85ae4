-- Which items of a push carry a transaction id that their partition has already, or that stands twice.
--
-- Arguments: those of push_messages; to be called in a statement of its own after the partitions are locked.
-- Result: one row of arrays in item order. winners: the id of the stored message, NULL where there is none.
-- firsts: the position of the first item of this call with the same id in the same partition.
-- An id may also be that of a message pushed without one. Takes no locks.
CREATE OR REPLACE FUNCTION queen.find_repeats(
    p_partition_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    OUT winners uuid[],
    OUT firsts integer[]
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    SELECT array_agg(j.winner ORDER BY j.ordinal), array_agg(j.first ORDER BY j.ordinal)
    INTO winners, firsts
    FROM (
        SELECT i.ordinal,
               CASE WHEN i.tx IS NULL THEN i.ordinal
                    ELSE first_value(i.ordinal) OVER (PARTITION BY i.k, i.tx ORDER BY i.ordinal)
                    END::integer AS first,
               coalesce(
                   (SELECT m.id FROM queen.messages m
                    WHERE m.partition_id = p_partition_ids[i.k] AND m.transaction_id = i.tx),
                   CASE WHEN substr(i.tx, 15, 4) = '7' || left(p_partition_ids[i.k]::text, 3) THEN
                       (SELECT m.id FROM queen.messages m
                        WHERE m.partition_id = p_partition_ids[i.k]
                          AND m.seq = queen.seq_of_message_id(p_partition_ids[i.k], i.tx)
                          AND m.id::text = i.tx AND m.transaction_id IS NULL) END) AS winner
        FROM unnest(p_item_partitions, p_transaction_ids) WITH ORDINALITY AS i (k, tx, ordinal)
    ) j;
END
$$;
