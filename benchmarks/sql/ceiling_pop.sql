-- One pop call as a broker makes them: :requests autoAck pops of :batch messages, each from a partition of its own.
SELECT sum(p.message_count)
FROM bench.targets t,
     LATERAL queen.pop_messages_batch(
         ARRAY(SELECT n FROM generate_series(1, (:requests)::integer) n),
         t.partition_ids[1:(:requests)::integer],
         array_fill('__QUEUE_MODE__'::text, ARRAY[(:requests)::integer]),
         array_fill((:batch)::integer, ARRAY[(:requests)::integer]),
         array_fill(true, ARRAY[(:requests)::integer]),
         array_fill('00000000-0000-0000-0000-000000000000'::uuid, ARRAY[(:requests)::integer])) p
WHERE t.client = :client_id;
