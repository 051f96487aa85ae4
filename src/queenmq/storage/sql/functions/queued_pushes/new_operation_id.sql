-- A UUID of version 7: 48 bits of milliseconds, then random bits around version and variant.
CREATE OR REPLACE FUNCTION queen.new_operation_id()
RETURNS uuid
LANGUAGE sql VOLATILE
AS $$
    -- A random UUID has the right variant in its 17th digit already.
    SELECT (lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
            || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$;
