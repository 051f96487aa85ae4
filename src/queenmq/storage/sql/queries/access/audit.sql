-- name: add_entry
INSERT INTO queen.audit_log (who, how, role, action, target, details, address, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: list_entries
SELECT a.id, a.at, a.who, a.how, a.role, a.action, a.target, a.details, a.address, a.status
FROM queen.audit_log a
WHERE a.at >= $1 AND a.at <= $2 AND ($3::text IS NULL OR a.who = $3)
  AND ($4::text IS NULL OR a.action = $4 OR starts_with(a.action, $4 || '.'))
ORDER BY a.at DESC, a.id DESC LIMIT $5 OFFSET $6;

-- name: sweep_audit
WITH removed AS (
    DELETE FROM queen.audit_log WHERE id IN (
        SELECT a.id FROM queen.audit_log a
        WHERE a.at < clock_timestamp() - make_interval(secs => $1)
        ORDER BY a.at LIMIT $2
        -- Waits for no lock, so the order of the rows does not matter.
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;
