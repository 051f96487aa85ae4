-- One push call as a broker makes them: :requests requests of :batch messages, each to a partition of its own.
SELECT p.outcomes
FROM bench.targets t,
     LATERAL queen.push_messages(
         t.partition_ids[1:(:requests)::integer],
         ARRAY(SELECT n FROM generate_series(1, (:requests)::integer) n, generate_series(1, (:batch)::integer)),
         NULL, NULL,
         array_fill(t.payload, ARRAY[(:requests)::integer * (:batch)::integer]),
         NULL, NULL, array_fill((:batch)::integer, ARRAY[(:requests)::integer]), NULL, 0, false, false, NULL) p
WHERE t.client = :client_id;
