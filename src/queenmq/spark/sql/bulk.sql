-- What jobs that write in batches ask of the database. $1 is a JSON text.

-- name: done
-- Which of these batch writes were published.
SELECT c.query_id AS name
FROM queen.spark_commits c
WHERE c.batch_id = 0 AND c.query_id IN (SELECT json_array_elements_text($1::json))
