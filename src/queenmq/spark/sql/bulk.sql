-- The statements of jobs that write in batches. $1 is a JSON text.

-- name: done
-- Return those of the batch writes that were published.
SELECT c.query_id AS name
FROM queen.spark_commits c
WHERE c.batch_id = 0 AND c.query_id IN (SELECT json_array_elements_text($1::json))
