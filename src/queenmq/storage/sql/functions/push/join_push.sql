-- Put the answers of a push that split_push took apart back into the order of its items.
--
-- Arguments: the places of the items that were stored, with their ids and outcomes, which are NULL where none was; then
-- what split_push returned of the others.
-- Result: as in push_messages. Takes no locks.
CREATE OR REPLACE FUNCTION queen.join_push(
    p_ordinals bigint[],
    p_message_ids text[],
    p_outcomes text,
    p_other_ordinals bigint[],
    p_other_ids text[],
    p_letters text,
    p_other_positions bigint[],
    OUT message_ids text[],
    OUT outcomes text,
    OUT positions bigint[]
)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT array_agg(u.id ORDER BY u.ordinal), string_agg(u.letter, '' ORDER BY u.ordinal),
           array_agg(u.position ORDER BY u.ordinal)
    FROM unnest(
        p_ordinals || p_other_ordinals, p_message_ids || p_other_ids,
        -- Not ||: there are no outcomes where nothing is left to store.
        string_to_array(concat(p_outcomes, p_letters), NULL),
        array_fill(NULL::bigint, ARRAY[cardinality(p_ordinals)]) || p_other_positions)
        AS u (ordinal, id, letter, position)
$$;
