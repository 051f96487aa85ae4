-- Store the keys of push requests and their answers, in the transaction that stores the messages.
--
-- Arguments: arrays with one element per request: p_keys and p_digests (NULL: it has no key), p_origins (the record of
-- a spool; parts of one record share its key, and a call has parts of records or none), p_request_sizes; then what push_messages answers, one element per item.
-- A request none of whose items found room is not remembered: nothing of it was stored, and it may find room later.
-- Tables: push_keys (insert).
-- Locks: the new rows, in key order, after all other locks of a push: of two requests with one key the later waits here
-- for the earlier to commit.
-- Errors: QN014 a key was used before. Nothing is stored then, and the caller looks the answer up.
CREATE OR REPLACE FUNCTION queen.note_push_keys(
    p_keys uuid[],
    p_digests uuid[],
    p_origins uuid[],
    p_request_sizes integer[],
    p_message_ids text[],
    p_outcomes text,
    p_positions bigint[]
)
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_noted bigint;
    v_refused uuid[];
BEGIN
    IF strpos(p_outcomes, 'f') > 0 THEN
        SELECT array_agg(CASE WHEN NOT r.is_refused THEN r.key END ORDER BY r.n),
               array_agg(r.key) FILTER (WHERE r.is_refused)
        INTO p_keys, v_refused
        FROM (
            SELECT u.n, u.key, substr(p_outcomes, (sum(u.size) OVER (ORDER BY u.n) - u.size + 1)::integer, u.size)
                               = repeat('f', u.size) AS is_refused
            FROM unnest(p_keys, p_request_sizes) WITH ORDINALITY AS u (key, size, n)
        ) r;
    END IF;
    INSERT INTO queen.push_keys (key, digest, origin, message_ids, outcomes, positions)
    SELECT r.key, r.digest, r.origin,
           CASE WHEN r.origin IS NULL THEN p_message_ids[r.last - r.size + 1:r.last]::uuid[] END,
           CASE WHEN r.origin IS NULL THEN substr(p_outcomes, (r.last - r.size + 1)::integer, r.size) END,
           CASE WHEN r.origin IS NULL THEN p_positions[r.last - r.size + 1:r.last] END
    FROM (
        SELECT u.key, u.digest, u.origin, u.size, sum(u.size) OVER (ORDER BY u.n) AS last
        FROM unnest(p_keys, p_digests, p_origins, p_request_sizes) WITH ORDINALITY
             AS u (key, digest, origin, size, n)
    ) r
    WHERE r.key IS NOT NULL
    ORDER BY r.key
    ON CONFLICT (key) DO NOTHING;
    GET DIAGNOSTICS v_noted = ROW_COUNT;
    IF v_noted < cardinality(array_remove(p_keys, NULL)) THEN
        -- A part of a spooled request finds the key where another part of the same record has noted it.
        PERFORM FROM unnest(p_keys, p_origins) AS u (key, origin)
        JOIN queen.push_keys k ON k.key = u.key
        WHERE u.origin IS NULL OR u.origin IS DISTINCT FROM k.origin;
    ELSIF v_refused IS NULL THEN
        RETURN;
    ELSE
        -- The queue may have filled up since one of these was stored.
        PERFORM FROM queen.push_keys k WHERE k.key = ANY (v_refused);
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'a key of this push was used before' USING ERRCODE = 'QN014';
    END IF;
END
$$;
