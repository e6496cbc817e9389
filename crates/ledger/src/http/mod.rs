//! The `Idempotency-Key` header, as a tower layer.
