-- The two calls of every request, once more. Those of the step before stay, for releases that call them.
--
-- Their plans are kept. One that is made while the table is tiny would read all of it, and would go on to do so with
-- millions of rows; or it would go by the index of statuses. So neither is left to choose: a scan of the whole table is
-- ruled out, and the comparison of statuses fits no index.

-- Puts a record there if there is none, and tells what is there. What a new record does not have is left out.
CREATE OR REPLACE FUNCTION {begin}(
    asked_principal text, asked_method text, asked_key text, asked_hash text, asked_hash_version smallint,
    lease_us bigint, asked_ttl_us bigint, asked_on_lapse text, asked_attempts_max integer,
    asked_owner text, asked_call text,
    OUT asked_at timestamptz, OUT there_record bigint, OUT there_status text, OUT there_epoch integer,
    OUT there_attempts integer, OUT there_attempts_max integer, OUT there_on_lapse text,
    OUT there_hash_version smallint, OUT there_hash text, OUT there_lease_expires_at timestamptz,
    OUT there_ttl_us bigint, OUT there_call text, OUT there_updated_at timestamptz,
    OUT there_expires_at timestamptz, OUT there_code integer, OUT there_headers text, OUT there_payload bytea,
    OUT there_error text, OUT there_resolved_by text, OUT there_resolved_why text, OUT there_owner text
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    decided_at timestamptz;
BEGIN
    FOR attempt IN 1..2 LOOP
        asked_at := {now};
        SELECT record, status, epoch, attempts, attempts_max, on_lapse, hash_version, request_hash, lease_expires_at,
            ttl_us, call, updated_at, expires_at, response_code, response_headers::text, response_payload, error,
            resolved_by, resolved_why, owner
        INTO there_record, there_status, there_epoch, there_attempts, there_attempts_max, there_on_lapse,
            there_hash_version, there_hash, there_lease_expires_at, there_ttl_us, there_call, there_updated_at,
            there_expires_at, there_code, there_headers, there_payload, there_error, there_resolved_by,
            there_resolved_why, there_owner
        FROM {table}
        WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
        -- The second time: another caller was quicker, and its record may not be visible yet.
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
            -- What is told holds, whatever the server's settings are. Until the transaction ends, which is now unless it
            -- is the caller's own; without another round trip.
            IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
                PERFORM set_config('synchronous_commit', 'on', true);
            END IF;
            -- It may have waited for another caller that took its record back. A lease counts from now on.
            decided_at := {now};
            IF decided_at > asked_at + interval '10 milliseconds' THEN
                asked_at := decided_at;
                UPDATE {table} SET created_at = asked_at, updated_at = asked_at,
                    lease_expires_at = asked_at + lease_us * interval '1 microsecond',
                    expires_at = asked_at + (lease_us + asked_ttl_us) * interval '1 microsecond'
                WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key
                RETURNING lease_expires_at, expires_at INTO there_lease_expires_at, there_expires_at;
            END IF;
            there_attempts_max := asked_attempts_max;
            there_on_lapse := asked_on_lapse;
            there_hash_version := asked_hash_version;
            there_hash := asked_hash;
            there_ttl_us := asked_ttl_us;
            there_call := asked_call;
            there_owner := asked_owner;
            there_updated_at := asked_at;
            EXIT;
        END IF;
    END LOOP;
END $$;

-- Writes an ending into a record that is as the caller has seen it, and tells what is there if it is not.
CREATE OR REPLACE FUNCTION {finish}(
    asked_principal text, asked_method text, asked_key text,
    seen_record bigint, seen_epoch integer, seen_status text,
    new_status text, new_code integer, new_headers text, new_payload bytea, new_error text, new_digest bytea,
    OUT done boolean, OUT there_record bigint, OUT there_epoch integer, OUT there_status text, OUT there_digest bytea
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := {now};
BEGIN
    UPDATE {table} SET
        status = new_status, response_code = new_code, response_headers = new_headers::jsonb,
        response_payload = new_payload, error = new_error, result_digest = new_digest,
        resolved_by = NULL, resolved_why = NULL, lease_expires_at = NULL,
        updated_at = moment, expires_at = moment + ttl_us * interval '1 microsecond'
    WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key
        AND record = seen_record AND epoch = seen_epoch AND status || '' = seen_status;
    done := FOUND;
    IF done THEN
        -- As above: it may have waited for the row.
        IF {now} > moment + interval '10 milliseconds' THEN
            moment := {now};
            UPDATE {table} SET updated_at = moment, expires_at = moment + ttl_us * interval '1 microsecond'
            WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
        END IF;
        IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
    ELSE
        SELECT record, epoch, status, result_digest INTO there_record, there_epoch, there_status, there_digest
            FROM {table}
            WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
    END IF;
END $$;
