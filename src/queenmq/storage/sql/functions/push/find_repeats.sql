-- Which items of a push carry a transaction id that their partition has already, or that appears twice.
--
-- Arguments: those of push_messages; to be called in a statement of its own after the partitions are locked.
-- p_prefixes: what ids of each partition begin with, as find_stored takes it; NULL where that is not at hand.
-- Result: one row of arrays in item order. winners: the id of the stored message, NULL where there is none.
-- firsts: the position of the first item of this call with the same id in the same partition. Both are NULL
-- where nothing is repeated.
-- An item counts as stored if find_stored finds it. Takes no locks.
CREATE OR REPLACE FUNCTION queen.find_repeats(
    p_partition_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_prefixes text[],
    OUT winners uuid[],
    OUT firsts integer[]
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    -- Hardly any push has repeats, and a look costs less than the answer for each item.
    PERFORM FROM unnest(p_item_partitions, p_transaction_ids) AS i (k, tx)
    WHERE i.tx IS NOT NULL
    GROUP BY i.k, i.tx
    HAVING count(*) > 1 OR EXISTS (SELECT FROM queen.find_stored(p_partition_ids[i.k], i.tx, p_prefixes[i.k]))
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    SELECT array_agg(j.winner ORDER BY j.ordinal), array_agg(j.first ORDER BY j.ordinal)
    INTO winners, firsts
    FROM (
        SELECT i.ordinal,
               CASE WHEN i.tx IS NULL THEN i.ordinal
                    ELSE first_value(i.ordinal) OVER (PARTITION BY i.k, i.tx ORDER BY i.ordinal)
                    END::integer AS first,
               (SELECT s.id FROM queen.find_stored(p_partition_ids[i.k], i.tx, p_prefixes[i.k]) s) AS winner
        FROM unnest(p_item_partitions, p_transaction_ids) WITH ORDINALITY AS i (k, tx, ordinal)
    ) j;
END
$$;
