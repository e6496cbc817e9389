-- The two calls of every request, as functions: their plans stay with the server's session, so that a call costs no
-- planning although nothing is prepared and any pooler may stand in between. They decide nothing.

-- Puts a record there if there is none, and tells what is there. What a new record does not have is left out.
CREATE OR REPLACE FUNCTION {begin_1}(
    asked_principal text, asked_method text, asked_key text, asked_hash text, asked_hash_version smallint,
    lease_us bigint, asked_ttl_us bigint, asked_on_lapse text, asked_attempts_max integer,
    asked_owner text, asked_call text,
    OUT asked_at timestamptz, OUT there_record bigint, OUT there_status text, OUT there_epoch integer,
    OUT there_attempts integer, OUT there_attempts_max integer, OUT there_on_lapse text,
    OUT there_hash_version smallint, OUT there_hash text, OUT there_lease_expires_at timestamptz,
    OUT there_ttl_us bigint, OUT there_call text, OUT there_updated_at timestamptz,
    OUT there_expires_at timestamptz, OUT there_code integer, OUT there_headers text, OUT there_payload bytea,
    OUT there_error text, OUT there_resolved_by text, OUT there_resolved_why text
) LANGUAGE plpgsql AS $$
BEGIN
    asked_at := {now};
    FOR attempt IN 1..2 LOOP
        SELECT record, status, epoch, attempts, attempts_max, on_lapse, hash_version, request_hash, lease_expires_at,
            ttl_us, call, updated_at, expires_at, response_code, response_headers::text, response_payload, error,
            resolved_by, resolved_why
        INTO there_record, there_status, there_epoch, there_attempts, there_attempts_max, there_on_lapse,
            there_hash_version, there_hash, there_lease_expires_at, there_ttl_us, there_call, there_updated_at,
            there_expires_at, there_code, there_headers, there_payload, there_error, there_resolved_by,
            there_resolved_why
        FROM {table}
        WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
        -- The second time: somebody was quicker, or nothing is to be seen of whoever was.
        EXIT WHEN FOUND OR attempt = 2;
        INSERT INTO {table} (
            principal, grpc_method, idempotency_key, request_hash, hash_version, status, on_lapse, attempts_max,
            ttl_us, owner, call, created_at, updated_at, lease_expires_at, expires_at
        ) VALUES (
            asked_principal, asked_method, asked_key, asked_hash, asked_hash_version, 'IN_PROGRESS', asked_on_lapse,
            asked_attempts_max, asked_ttl_us, asked_owner, asked_call, asked_at, asked_at,
            asked_at + lease_us * interval '1 microsecond',
            asked_at + (lease_us + asked_ttl_us) * interval '1 microsecond'
        ) ON CONFLICT DO NOTHING
        RETURNING record, status, epoch, attempts, lease_expires_at, expires_at
        INTO there_record, there_status, there_epoch, there_attempts, there_lease_expires_at, there_expires_at;
        IF FOUND THEN
            there_attempts_max := asked_attempts_max;
            there_on_lapse := asked_on_lapse;
            there_hash_version := asked_hash_version;
            there_hash := asked_hash;
            there_ttl_us := asked_ttl_us;
            there_call := asked_call;
            there_updated_at := asked_at;
            EXIT;
        END IF;
    END LOOP;
END $$;

-- Writes an ending into a record that is as the caller has seen it, and tells what is there if it is not.
CREATE OR REPLACE FUNCTION {finish_1}(
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
