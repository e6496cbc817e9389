//! Records on a DriftQ server.
