//! The `idempotency-key` metadata, as a tower layer for tonic.
