-- A number per partition, for message ids: bits of the partition's UUID, which ids held before, may repeat.

-- Never given out twice. It starts at 2^32 so that no new id equals an older one, which has zeros in those bits.
CREATE SEQUENCE queen.partition_numbers AS bigint MINVALUE 4294967296;

-- The migrator gives it its body, in this same transaction: functions/new_partition_number.sql.
CREATE FUNCTION queen.new_partition_number() RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT nextval('queen.partition_numbers') $$;
REVOKE EXECUTE ON FUNCTION queen.new_partition_number() FROM PUBLIC;

-- One pass over the table numbers the rows that exist; pushes wait for it.
ALTER TABLE queen.partition_lookup
    ADD COLUMN number bigint NOT NULL DEFAULT queen.new_partition_number(),
    -- Serves nobody's search: it refuses a number that was given out before, as after a restore that lost the
    -- sequence. The column never changes, so updates stay HOT.
    ADD CONSTRAINT partition_lookup_number_key UNIQUE (number),
    ADD CONSTRAINT partition_lookup_number_check CHECK (number >= (1::bigint << 32) AND number < (1::bigint << 34));
