-- The two calls of every request, as functions: their plans stay with the server's session, so that a call costs no
-- planning although nothing is prepared and any pooler may stand in between. They decide nothing.

-- Puts a record there if there is none, and tells what is there.
CREATE OR REPLACE FUNCTION {begin}(
    asked_principal text, asked_method text, asked_key text, asked_hash text, asked_hash_version smallint,
    lease_us bigint, asked_ttl_us bigint, asked_on_lapse text, asked_attempts_max integer,
    asked_owner text, asked_call text
) RETURNS {table} LANGUAGE plpgsql AS $$
DECLARE
    there {table};
BEGIN
    SELECT * INTO there FROM {table}
        WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
    IF NOT FOUND THEN
        INSERT INTO {table} (
            principal, grpc_method, idempotency_key, request_hash, hash_version, status, on_lapse, attempts_max,
            ttl_us, owner, call, created_at, updated_at, lease_expires_at, expires_at
        ) VALUES (
            asked_principal, asked_method, asked_key, asked_hash, asked_hash_version, 'IN_PROGRESS', asked_on_lapse,
            asked_attempts_max, asked_ttl_us, asked_owner, asked_call, {now}, {now},
            {now} + lease_us * interval '1 microsecond',
            {now} + (lease_us + asked_ttl_us) * interval '1 microsecond'
        ) ON CONFLICT DO NOTHING RETURNING * INTO there;
        -- Somebody was quicker.
        IF NOT FOUND THEN
            SELECT * INTO there FROM {table}
                WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
        END IF;
    END IF;
    RETURN there;
END $$;

-- Writes an ending into a record that is as the caller has seen it, and tells what is there if it is not.
CREATE OR REPLACE FUNCTION {finish}(
    asked_principal text, asked_method text, asked_key text,
    seen_record bigint, seen_epoch integer, seen_status text,
    new_status text, new_code integer, new_headers text, new_payload bytea, new_error text, new_digest bytea,
    OUT done boolean, OUT there_record bigint, OUT there_epoch integer, OUT there_status text, OUT there_digest bytea
) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {table} SET
        status = new_status, response_code = new_code, response_headers = new_headers::jsonb,
        response_payload = new_payload, error = new_error, result_digest = new_digest,
        resolved_by = NULL, resolved_why = NULL, lease_expires_at = NULL, updated_at = {now},
        expires_at = {now} + ttl_us * interval '1 microsecond'
    WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key
        AND record = seen_record AND epoch = seen_epoch AND status = seen_status;
    done := FOUND;
    IF NOT done THEN
        SELECT record, epoch, status, result_digest INTO there_record, there_epoch, there_status, there_digest
            FROM {table}
            WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
    END IF;
END $$;
