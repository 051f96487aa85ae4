-- End the lease of a consumer group in one partition. Its messages can be popped again at once.
--
-- Acks under the lease are refused from now on. Counts neither as a retry nor as an expiry. Brokers are notified
-- on commit.
-- Result: when the lease would have ended; NULL if there was no live one.
-- Locks: the cursor row (FOR UPDATE); waits at most p_lock_timeout_ms.
CREATE OR REPLACE FUNCTION queen.end_lease(
    p_consumer_group text,
    p_queue_name text,
    p_partition_name text,
    p_lock_timeout_ms integer
)
RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    v_partition_id uuid;
    v_expires_at timestamptz;
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    SELECT p.id INTO v_partition_id FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id
    WHERE q.name = p_queue_name AND p.name = p_partition_name;
    SELECT pc.lease_expires_at INTO v_expires_at FROM queen.partition_consumers pc
    WHERE pc.partition_id = v_partition_id AND pc.consumer_group = p_consumer_group
    FOR UPDATE;
    IF v_expires_at IS NULL OR v_expires_at <= clock_timestamp() THEN
        RETURN NULL;
    END IF;
    UPDATE queen.partition_consumers pc SET lease_id = NULL, lease_expires_at = NULL
    WHERE pc.partition_id = v_partition_id AND pc.consumer_group = p_consumer_group;
    PERFORM pg_notify(
        'queen_wake', json_build_object('from', '', 'queues', json_build_array(p_queue_name))::text);
    RETURN v_expires_at;
END
$$;
