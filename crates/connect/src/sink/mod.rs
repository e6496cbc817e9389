//! Sinks: the messages of a topic become rows of a table in PostgreSQL, each exactly once.
