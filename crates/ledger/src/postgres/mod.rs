//! Records in PostgreSQL.
