-- The two calls of every request, with less around what they write. The functions of the steps before stay as they are.
--
-- An answer is one value of bytes: the database would look up the types of a row of twenty columns for every answer. What
-- is not the rule, a record that was there already, comes as the bytes of a row.

-- Tells what is there, and if nothing is, puts a record there and tells its number and the time. Reads first: an insert
-- would wait for every transaction that has changed the record and not committed, where a duplicate is answered at once,
-- and a replay would write where it need not.
CREATE OR REPLACE FUNCTION {begin_3}(
    asked_principal text, asked_method text, asked_key text, asked_hash text, asked_hash_version smallint,
    lease_us bigint, asked_ttl_us bigint, asked_on_lapse text, asked_attempts_max integer,
    asked_owner text, asked_call text
) RETURNS bytea LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    asked_at timestamptz;
    there record;
    new_record bigint;
BEGIN
    FOR attempt IN 1..2 LOOP
        asked_at := {now};
        SELECT asked_at, record, status, epoch, attempts, attempts_max, on_lapse, hash_version, request_hash,
            lease_expires_at, ttl_us, call, updated_at, expires_at, response_code, response_headers::text,
            response_payload, error, resolved_by, resolved_why, owner
        INTO there FROM {table}
        WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
        IF FOUND THEN
            RETURN record_send(there);
        END IF;
        -- The second time: another caller was quicker, and its record may not be visible yet.
        EXIT WHEN attempt = 2;
        INSERT INTO {table} (
            principal, grpc_method, idempotency_key, request_hash, hash_version, status, on_lapse, attempts_max,
            ttl_us, owner, call, created_at, updated_at, lease_expires_at, expires_at
        ) VALUES (
            asked_principal, asked_method, asked_key, asked_hash, asked_hash_version, 'IN_PROGRESS', asked_on_lapse,
            asked_attempts_max, asked_ttl_us, asked_owner, asked_call, asked_at, asked_at,
            asked_at + lease_us * interval '1 microsecond',
            asked_at + (lease_us + asked_ttl_us) * interval '1 microsecond'
        ) ON CONFLICT DO NOTHING RETURNING record INTO new_record;
        IF FOUND THEN
            -- What is told holds, whatever the server's settings are. Until the transaction ends, which is now unless it
            -- is the caller's own; without another round trip.
            IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
                PERFORM set_config('synchronous_commit', 'on', true);
            END IF;
            -- It may have waited for another caller that took its record back. A lease counts from now on.
            IF {now} > asked_at + interval '10 milliseconds' THEN
                asked_at := {now};
                UPDATE {table} SET created_at = asked_at, updated_at = asked_at,
                    lease_expires_at = asked_at + lease_us * interval '1 microsecond',
                    expires_at = asked_at + (lease_us + asked_ttl_us) * interval '1 microsecond'
                WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
            END IF;
            RETURN int8send(new_record) || timestamptz_send(asked_at);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Writes an ending into a record that is as the caller has seen it: nothing to tell. Otherwise tells what is there.
CREATE OR REPLACE FUNCTION {finish_4}(
    asked_principal text, asked_method text, asked_key text,
    seen_record bigint, seen_epoch integer, seen_status text,
    new_status text, new_code integer, new_headers text, new_payload bytea, new_error text, new_digest bytea
) RETURNS bytea LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := {now};
    there record;
BEGIN
    UPDATE {table} SET
        status = new_status, response_code = new_code, response_headers = new_headers::jsonb,
        response_payload = new_payload, error = new_error, result_digest = NULL,
        resolved_by = NULL, resolved_why = NULL,
        updated_at = moment, expires_at = moment + ttl_us * interval '1 microsecond'
    WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key
        AND record = seen_record AND epoch = seen_epoch AND status || '' = seen_status;
    IF FOUND THEN
        -- It may have waited for the row.
        IF {now} > moment + interval '10 milliseconds' THEN
            moment := {now};
            UPDATE {table} SET updated_at = moment, expires_at = moment + ttl_us * interval '1 microsecond'
            WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
        END IF;
        IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        RETURN NULL;
    END IF;
    SELECT record, epoch, status, CASE WHEN result_digest IS NOT NULL THEN result_digest = new_digest
            ELSE status = new_status AND response_code IS NOT DISTINCT FROM new_code
                AND response_headers IS NOT DISTINCT FROM new_headers::jsonb
                AND response_payload IS NOT DISTINCT FROM new_payload AND error IS NOT DISTINCT FROM new_error END AS same
        INTO there FROM {table}
        WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
    IF NOT FOUND THEN
        RETURN '';
    END IF;
    RETURN record_send(there);
END $$;

-- The condition of a trigger is read from the catalogue and planned anew for every statement, which costs more than the
-- update itself. So this function is called without one, and leaves at once where there is nothing to note. That nobody
-- changes the types of the columns it looks at is seen to by the condition of the trigger for what is removed, and by the
-- record being an identity.
CREATE OR REPLACE FUNCTION {changed}() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was jsonb;
    becomes jsonb;
    has_ended_before boolean;
    event text;
    by_whom text;
    why text;
    open_table text;
BEGIN
    IF NEW.record = OLD.record AND NEW.epoch = OLD.epoch AND (NEW.status = OLD.status
        OR OLD.epoch <= 1 AND OLD.status = 'IN_PROGRESS' AND NEW.status IN ('SUCCEEDED', 'FAILED_FINAL')) THEN
        RETURN NULL;
    END IF;
    -- As one value each: an operator may change the type of a column under a session that goes on.
    was := to_jsonb(OLD);
    becomes := to_jsonb(NEW);
    has_ended_before := was ->> 'status' IN ('SUCCEEDED', 'FAILED_FINAL');
    by_whom := becomes ->> 'owner';
    open_table := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME || '_open');
    IF becomes -> 'record' <> was -> 'record' THEN
        event := 'BEGUN_ANEW';
    ELSIF becomes -> 'epoch' <> was -> 'epoch' AND becomes ->> 'status' = 'IN_PROGRESS' THEN
        event := CASE WHEN (becomes ->> 'attempts')::integer < (was ->> 'attempts')::integer THEN 'RELEASED'
            WHEN was ->> 'status' = 'FAILED_RETRYABLE' THEN 'REACQUIRED' ELSE 'TAKEN_OVER' END;
    ELSIF becomes -> 'epoch' <> was -> 'epoch' THEN
        event := 'RESOLVED';
        by_whom := becomes ->> 'resolved_by';
        why := becomes ->> 'resolved_why';
    ELSIF becomes ->> 'status' = 'UNKNOWN' THEN
        event := 'LAPSED';
        by_whom := NULL;
    ELSIF becomes ->> 'status' = 'IN_PROGRESS' THEN
        event := 'RETURNED';
    ELSE
        event := 'ENDED';
        why := becomes ->> 'error';
    END IF;
    EXECUTE format('INSERT INTO %I.%I (at, principal, grpc_method, idempotency_key, record, event, from_status, '
        'to_status, epoch, attempt, by_whom, why) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)',
        TG_TABLE_SCHEMA, TG_TABLE_NAME || '_audit')
        USING {now}, was ->> 'principal', was ->> 'grpc_method', was ->> 'idempotency_key', (was ->> 'record')::bigint,
            event, was ->> 'status', becomes ->> 'status', (becomes ->> 'epoch')::integer,
            (becomes ->> 'attempts')::integer, by_whom, why;
    IF becomes -> 'record' = was -> 'record' THEN
        EXECUTE 'UPDATE ' || open_table || ' SET look_at = least(look_at, $1) WHERE record = $2'
            USING {now}, (was ->> 'record')::bigint;
        -- Only a hand does that. It would be hidden from lists and sweeps otherwise.
        IF has_ended_before AND becomes ->> 'status' NOT IN ('SUCCEEDED', 'FAILED_FINAL') THEN
            EXECUTE 'INSERT INTO ' || open_table || ' (record, look_at) VALUES ($2, $1) ON CONFLICT DO NOTHING'
                USING {now}, (was ->> 'record')::bigint;
        END IF;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS {trigger_changed} ON {table};
CREATE TRIGGER {trigger_changed} AFTER UPDATE ON {table} FOR EACH ROW
    EXECUTE FUNCTION {changed}();

-- Room for the second version of every row with bodies of up to about 300 bytes, also if all of a page are open at once.
ALTER TABLE {table} SET (fillfactor = 45);

-- Whoever may write to the table may call what this release calls, also where functions are not for everybody.
DO $grants$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE WHEN rights.grantee = 0 THEN 'PUBLIC' ELSE rights.grantee::regrole::text END
        FROM pg_class, aclexplode(relacl) AS rights
        WHERE pg_class.oid = '{table}'::regclass AND rights.grantee <> relowner AND rights.privilege_type = 'UPDATE'
    LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION {begin_3}, {finish_4}, {walk}, {looked}, {visited}, {forget_bodies} TO '
            || grantee;
    END LOOP;
END $grants$;
