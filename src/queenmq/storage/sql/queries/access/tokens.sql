-- name: create_token
INSERT INTO queen.api_tokens
    (kind, name, token_hash, shown, subject, role, queues, verbs, created_by, expires_at, parent_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
RETURNING id::text, kind, name, shown, subject, role, queues, verbs, created_at, created_by, expires_at,
          last_used_at, revoked_at;

-- name: list_tokens
SELECT id::text, kind, name, shown, subject, role, queues, verbs, created_at, created_by, expires_at,
       last_used_at, revoked_at
FROM queen.api_tokens
WHERE kind = 'token' OR $1
ORDER BY created_at DESC, id LIMIT $2 OFFSET $3;

-- name: find_token
-- Return only a valid token: neither revoked nor expired, and with a valid parent if it has one.
SELECT t.id::text, t.kind, t.subject, t.role, t.queues, t.verbs,
       extract(epoch FROM t.expires_at)::double precision AS expires_s
FROM queen.api_tokens t
LEFT JOIN queen.api_tokens p ON p.id = t.parent_id
WHERE t.token_hash = $1 AND t.revoked_at IS NULL AND p.revoked_at IS NULL
  AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp())
  AND (p.expires_at IS NULL OR p.expires_at > clock_timestamp());

-- name: still_good
SELECT t.id::text
FROM queen.api_tokens t
LEFT JOIN queen.api_tokens p ON p.id = t.parent_id
WHERE t.id = ANY ($1::uuid[]) AND t.revoked_at IS NULL AND p.revoked_at IS NULL
  AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp())
  AND (p.expires_at IS NULL OR p.expires_at > clock_timestamp());

-- name: note_use
-- Once a minute is often enough, so that several brokers do not all write.
WITH used AS (
    SELECT t.id FROM queen.api_tokens t
    WHERE t.id = ANY ($1::uuid[])
      AND (t.last_used_at IS NULL OR t.last_used_at < clock_timestamp() - interval '1 minute')
    -- Waits for no lock, so the order of the rows does not matter.
    FOR UPDATE SKIP LOCKED
)
UPDATE queen.api_tokens t SET last_used_at = clock_timestamp() FROM used u WHERE t.id = u.id;

-- name: revoke_token
UPDATE queen.api_tokens SET revoked_at = coalesce(revoked_at, clock_timestamp())
WHERE id = $1
RETURNING name;

-- name: sweep_tokens
-- Remove ended sessions, and tokens that ended long ago.
WITH removed AS (
    DELETE FROM queen.api_tokens WHERE id IN (
        SELECT t.id FROM queen.api_tokens t
        WHERE CASE WHEN t.kind = 'session' THEN least(t.expires_at, t.revoked_at) < clock_timestamp()
                   ELSE least(t.expires_at, t.revoked_at) < clock_timestamp() - make_interval(secs => $1) END
        LIMIT $2
        -- Waits for no lock, so the order of the rows does not matter.
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;
