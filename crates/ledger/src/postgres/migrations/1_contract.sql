-- The table of the contract. One that is there already is taken as it is.
CREATE TABLE IF NOT EXISTS {table} (
    principal text NOT NULL,
    grpc_method text NOT NULL,
    idempotency_key text NOT NULL,
    request_hash text NOT NULL,
    status text NOT NULL,
    response_code integer,
    response_payload bytea,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (principal, grpc_method, idempotency_key)
);
