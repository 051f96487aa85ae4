-- The statements that record runs of jobs for the API. $1 is JSON.

-- name: start
SELECT queen.start_pipeline_run($1::json ->> 'job', $1::json -> 'options')::text AS id

-- name: note
SELECT queen.note_pipeline_run(($1::json ->> 'id')::uuid, $1::json ->> 'outcome', $1::json -> 'figures',
                               $1::json -> 'tables', $1::json ->> 'error') AS is_noted
