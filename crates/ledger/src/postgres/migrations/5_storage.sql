-- Storage that lasts: no column that changes in the life of a request is in an index, so that begin and finish touch one
-- page of the table and every index once. The functions of the step before stay as they are.
--
-- Records are numbered in the order in which they are begun, and never change their number. What used to be found by
-- status is found by number: what is behind the newest segment was not looked over yet, what was open when it was looked
-- over is listed in {open}, and everything else in a segment has ended for good.

CREATE INDEX IF NOT EXISTS {index_by_record} ON {table} (record);
DROP INDEX IF EXISTS {index_by_status_qualified};

-- Room for the second version of every row on its page, with its answer, also if all are in progress at once.
ALTER TABLE {table} SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1
);

-- Ranges of numbers that were looked over, each with what in it has ended for good. The newest one says how far.
CREATE TABLE IF NOT EXISTS {segments} (
    first bigint PRIMARY KEY,
    last bigint NOT NULL,
    succeeded integer NOT NULL,
    failed integer NOT NULL,
    -- When some of it is over.
    due_at timestamptz NOT NULL,
    -- When the last of it ended, and whether it may still have bodies.
    ended_at timestamptz NOT NULL,
    bodies boolean NOT NULL DEFAULT true
);

-- Records that had not ended for good when they were looked over, and when it is worth to look again.
CREATE TABLE IF NOT EXISTS {open} (
    record bigint PRIMARY KEY,
    look_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS {index_by_look} ON {open} (look_at);
ALTER TABLE {open} SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- What became of records that did not just begin and end: append-only.
CREATE TABLE IF NOT EXISTS {audit} (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    principal text NOT NULL,
    grpc_method text NOT NULL,
    idempotency_key text NOT NULL,
    record bigint NOT NULL,
    event text NOT NULL,
    from_status text NOT NULL,
    to_status text,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    by_whom text,
    why text
);
CREATE INDEX IF NOT EXISTS {index_by_identity} ON {audit} (principal, grpc_method, idempotency_key, number);

-- Written by the database itself, so that no release and no hand gets past it. As the owner of the table, so that whoever
-- may write to the table need not be able to write to the audit. Names are looked up beside the table alone.
CREATE OR REPLACE FUNCTION {note}() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- As one value each: an operator may change the type of a column under a session that goes on.
    was jsonb := to_jsonb(OLD);
    becomes jsonb := CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(NEW) END;
    has_ended_before boolean := was ->> 'status' IN ('SUCCEEDED', 'FAILED_FINAL');
    event text;
    by_whom text := becomes ->> 'owner';
    why text;
    open_table text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME || '_open');
BEGIN
    IF TG_OP = 'DELETE' THEN
        event := 'REMOVED';
    ELSIF becomes -> 'record' <> was -> 'record' THEN
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
            event, was ->> 'status', becomes ->> 'status', (coalesce(becomes, was) ->> 'epoch')::integer,
            (coalesce(becomes, was) ->> 'attempts')::integer, by_whom, why;
    IF TG_OP = 'UPDATE' AND becomes -> 'record' = was -> 'record' THEN
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

-- A request that just begins and ends passes both by: the condition is all that it costs.
DROP TRIGGER IF EXISTS {trigger_changed} ON {table};
CREATE TRIGGER {trigger_changed} AFTER UPDATE ON {table} FOR EACH ROW
    WHEN (OLD.record <> NEW.record OR OLD.epoch <> NEW.epoch
        OR (OLD.status <> NEW.status AND (NEW.status NOT IN ('SUCCEEDED', 'FAILED_FINAL')
            OR OLD.status <> 'IN_PROGRESS' OR OLD.epoch > 1)))
    EXECUTE FUNCTION {note}();
DROP TRIGGER IF EXISTS {trigger_removed} ON {table};
CREATE TRIGGER {trigger_removed} AFTER DELETE ON {table} FOR EACH ROW
    WHEN (OLD.epoch > 1 OR OLD.status NOT IN ('SUCCEEDED', 'FAILED_FINAL'))
    EXECUTE FUNCTION {note}();

-- Writes an ending, as the function of the step before, and less of it to the log: the columns that stay as they are come
-- last in the row, so that only what comes before them is written. The lease of what has ended has no meaning, and an
-- ending is told from another by what it says.
CREATE OR REPLACE FUNCTION {finish_3}(
    asked_principal text, asked_method text, asked_key text,
    seen_record bigint, seen_epoch integer, seen_status text,
    new_status text, new_code integer, new_headers text, new_payload bytea, new_error text, new_digest bytea,
    OUT done boolean, OUT there_record bigint, OUT there_epoch integer, OUT there_status text, OUT there_same boolean
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := {now};
BEGIN
    UPDATE {table} SET
        status = new_status, response_code = new_code, response_headers = new_headers::jsonb,
        response_payload = new_payload, error = new_error, result_digest = NULL,
        resolved_by = NULL, resolved_why = NULL,
        updated_at = moment, expires_at = moment + ttl_us * interval '1 microsecond'
    WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key
        AND record = seen_record AND epoch = seen_epoch AND status || '' = seen_status;
    done := FOUND;
    IF done THEN
        IF {now} > moment + interval '10 milliseconds' THEN
            moment := {now};
            UPDATE {table} SET updated_at = moment, expires_at = moment + ttl_us * interval '1 microsecond'
            WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
        END IF;
        IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
    ELSE
        SELECT record, epoch, status, CASE WHEN result_digest IS NOT NULL THEN result_digest = new_digest
                ELSE status = new_status AND response_code IS NOT DISTINCT FROM new_code
                    AND response_headers IS NOT DISTINCT FROM new_headers::jsonb
                    AND response_payload IS NOT DISTINCT FROM new_payload AND error IS NOT DISTINCT FROM new_error END
            INTO there_record, there_epoch, there_status, there_same
            FROM {table}
            WHERE principal = asked_principal AND grpc_method = asked_method AND idempotency_key = asked_key;
    END IF;
END $$;

-- The three functions below keep the books of segments and of what is open. They decide nothing about a record, and one
-- of them works at a time.

-- Looks over the next records behind the newest segment: what has ended for good goes into a segment, the rest into the
-- list of what is open. Tells how many, and nothing if another session does it or a transaction is in the way.
CREATE OR REPLACE FUNCTION {walk}(records_max integer, OUT walked integer) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    newest record;
    behind bigint;
    until bigint;
    holders text[];
    ended record;
BEGIN
    -- What commits while this runs must be seen.
    IF current_setting('transaction_isolation') <> 'read committed'
        OR NOT pg_try_advisory_xact_lock(hashtextextended('{segments}', 0)) THEN
        RETURN;
    END IF;
    SELECT first, last, succeeded + failed AS records INTO newest FROM {segments} ORDER BY first DESC LIMIT 1;
    behind := coalesce(newest.last, {lowest});
    SELECT max(record), count(*) INTO until, walked
        FROM (SELECT record FROM {table} WHERE record > behind ORDER BY record LIMIT records_max) AS batch;
    IF walked = 0 THEN
        RETURN;
    END IF;
    -- A smaller number may be in a transaction that has not committed. Whoever has taken a number up to this one had
    -- locked the table before, so it is listed here, or it has ended and its records are seen from now on.
    SELECT array_agg(virtualtransaction) INTO holders FROM pg_locks
        WHERE locktype = 'relation' AND relation = '{table}'::regclass AND mode = 'RowExclusiveLock'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND pid IS DISTINCT FROM pg_backend_pid();
    FOR attempt IN 1..40 LOOP
        EXIT WHEN holders IS NULL;
        IF attempt = 40 THEN
            walked := NULL;
            RETURN;
        END IF;
        PERFORM pg_sleep(0.005);
        SELECT array_agg(virtualtransaction) INTO holders FROM pg_locks
            WHERE locktype = 'relation' AND relation = '{table}'::regclass AND mode = 'RowExclusiveLock'
            AND virtualtransaction = ANY(holders);
    END LOOP;
    INSERT INTO {open} (record, look_at)
        SELECT record, {now} FROM {table}
        WHERE record > behind AND record <= until AND status NOT IN ('SUCCEEDED', 'FAILED_FINAL')
        ON CONFLICT DO NOTHING;
    -- One that has ended since then is listed as open, and counted when it is looked at.
    SELECT count(*) FILTER (WHERE status = 'SUCCEEDED')::integer AS succeeded,
        count(*) FILTER (WHERE status = 'FAILED_FINAL')::integer AS failed,
        coalesce(min(expires_at), 'infinity') AS due_at, coalesce(max(updated_at), '-infinity') AS ended_at
        INTO ended FROM {table} AS there
        WHERE record > behind AND record <= until AND status IN ('SUCCEEDED', 'FAILED_FINAL')
        AND NOT EXISTS (SELECT FROM {open} AS listed WHERE listed.record = there.record);
    IF newest.records + ended.succeeded + ended.failed <= {segment_records_max} THEN
        UPDATE {segments} AS segment SET last = until, succeeded = segment.succeeded + ended.succeeded,
            failed = segment.failed + ended.failed, due_at = least(segment.due_at, ended.due_at),
            ended_at = greatest(segment.ended_at, ended.ended_at), bodies = true
            WHERE first = newest.first;
    ELSE
        INSERT INTO {segments} (first, last, succeeded, failed, due_at, ended_at)
            VALUES (behind + 1, until, ended.succeeded, ended.failed, ended.due_at, ended.ended_at);
    END IF;
END $$;

-- Records of the list of what is open were looked at, and done with if there was anything to do: says when to look again,
-- and takes off the list what has ended for good or is gone.
CREATE OR REPLACE FUNCTION {looked}(seen bigint[]) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := {now};
    ended record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('{segments}', 0));
    DELETE FROM {open} AS listed WHERE record = ANY(seen)
        AND NOT EXISTS (SELECT FROM {table} AS there WHERE there.record = listed.record);
    FOR ended IN
        DELETE FROM {open} AS listed USING {table} AS there
            WHERE listed.record = ANY(seen) AND there.record = listed.record
            AND there.status IN ('SUCCEEDED', 'FAILED_FINAL')
            RETURNING there.record, there.status, there.expires_at, there.updated_at
    LOOP
        UPDATE {segments} SET succeeded = succeeded + (ended.status = 'SUCCEEDED')::integer,
            failed = failed + (ended.status = 'FAILED_FINAL')::integer, due_at = least(due_at, ended.expires_at),
            ended_at = greatest(ended_at, ended.updated_at), bodies = true
            WHERE first = (SELECT max(first) FROM {segments} WHERE first <= ended.record) AND last >= ended.record;
    END LOOP;
    UPDATE {open} AS listed SET look_at = CASE
            WHEN there.status = 'IN_PROGRESS' AND (there.on_lapse = 'hold' OR there.attempts >= there.attempts_max)
                THEN greatest(there.lease_expires_at, moment + interval '1 minute')
            WHEN there.status <> 'UNKNOWN' AND there.expires_at > moment THEN there.expires_at
            ELSE moment + interval '1 hour' END
        FROM {table} AS there WHERE listed.record = ANY(seen) AND there.record = listed.record;
END $$;

-- Some of what was in the segments that are due was removed: counts them anew, and says when they are due again. `done`:
-- there was nothing more to remove. What is left all the same cannot be removed, and must not be in the way of others.
-- Tells whether there are more.
CREATE OR REPLACE FUNCTION {visited}(segments_max integer, done boolean, OUT more boolean)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := {now};
    segment record;
    left_over record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('{segments}', 0));
    FOR segment IN SELECT first, last FROM {segments} WHERE due_at <= moment ORDER BY due_at, first LIMIT segments_max LOOP
        SELECT count(*) FILTER (WHERE status = 'SUCCEEDED')::integer AS succeeded,
            count(*) FILTER (WHERE status = 'FAILED_FINAL')::integer AS failed,
            coalesce(min(expires_at), 'infinity') AS first_at,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY expires_at) AS half_at, count(*) AS records
            INTO left_over FROM {table} AS there
            WHERE record BETWEEN segment.first AND segment.last AND status IN ('SUCCEEDED', 'FAILED_FINAL')
            AND NOT EXISTS (SELECT FROM {open} AS listed WHERE listed.record = there.record);
        IF left_over.records = 0 AND segment.first < (SELECT max(first) FROM {segments}) THEN
            DELETE FROM {segments} WHERE first = segment.first;
        ELSE
            -- Not again and again for a few of many: when half of it is over, or some of it for ten minutes.
            UPDATE {segments} SET succeeded = left_over.succeeded, failed = left_over.failed, due_at = CASE
                    WHEN left_over.first_at <= moment AND done THEN moment + interval '1 minute'
                    WHEN left_over.first_at <= moment OR left_over.records < 64 THEN left_over.first_at
                    ELSE least(left_over.half_at, left_over.first_at + interval '10 minutes') END
                WHERE first = segment.first;
        END IF;
    END LOOP;
    more := EXISTS (SELECT FROM {segments} WHERE due_at <= moment);
END $$;

-- Forgets the bodies of what ended that long ago, and keeps how large they were. Tells in how many segments.
CREATE OR REPLACE FUNCTION {forget_bodies}(kept_us bigint, segments_max integer, OUT done integer)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    before timestamptz := {now} - kept_us * interval '1 microsecond';
    segment record;
BEGIN
    done := 0;
    PERFORM pg_advisory_xact_lock(hashtextextended('{segments}', 0));
    FOR segment IN SELECT first, last FROM {segments} WHERE bodies AND ended_at <= before ORDER BY first LIMIT segments_max LOOP
        UPDATE {table} SET response_payload = NULL, response_headers = coalesce(response_headers, '{}')
                || jsonb_build_object('driftq-omitted-bytes', octet_length(response_payload)::text)
            WHERE record BETWEEN segment.first AND segment.last AND status IN ('SUCCEEDED', 'FAILED_FINAL')
            AND response_payload IS NOT NULL;
        UPDATE {segments} SET bodies = false WHERE first = segment.first;
        done := done + 1;
    END LOOP;
END $$;

-- Whoever may use the table may use what stands beside it. Nobody changes the audit; whoever sweeps shortens it.
DO $grants$
DECLARE
    grantee text;
    may_write boolean;
BEGIN
    FOR grantee, may_write IN
        SELECT CASE WHEN rights.grantee = 0 THEN 'PUBLIC' ELSE rights.grantee::regrole::text END,
            bool_or(rights.privilege_type = 'UPDATE')
        FROM pg_class, aclexplode(relacl) AS rights
        WHERE pg_class.oid = '{table}'::regclass AND rights.grantee <> relowner
        AND rights.privilege_type IN ('SELECT', 'UPDATE') GROUP BY 1
    LOOP
        EXECUTE 'GRANT SELECT ON {segments}, {open}, {audit} TO ' || grantee;
        IF may_write THEN
            EXECUTE 'GRANT INSERT, UPDATE, DELETE ON {segments}, {open} TO ' || grantee;
            EXECUTE 'GRANT DELETE ON {audit} TO ' || grantee;
        END IF;
    END LOOP;
END $grants$;
